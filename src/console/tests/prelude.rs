//! What most tests of the console need.

pub(super) use std::{io, path::PathBuf, sync::Arc, time::Duration};

pub(super) use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
pub(super) use futures::FutureExt;
pub(super) use rand::rngs::ChaCha8Rng;
pub(super) use rand::{RngExt, SeedableRng};
pub(super) use ratatui::{buffer::Buffer, layout::Rect, style::Color};
pub(super) use seckill_engine::{
    AlarmKind, Command, EngineError, LoadReport, LoadTest, Pace, ReplayReport, Reply, Scope,
    Snapshot,
    commands::{
        group::{ClaimScope, GroupAction, Preview, RemoveReport},
        outcome::CommandOutcome,
    },
    dead_letters::{LetterScope, LettersCounted, LettersDiscarded, LettersReplayed},
    error::{RedisError, StoreError},
    telemetry::{
        OrdersView, StreamView,
        alarms::alarms,
        snapshot::{
            Alarm, ConsumerLine, Count, DeliveryState, Funnel, Holders, Latency, LetterPage,
            PendingPage, SaleOrders, Urgency,
        },
    },
};
pub(super) use seckill_model::{
    Balance, EntryId, Filter, Finding, ForeignKey, JobOutcome, Label, LetterCounts, LetterVerdict,
    Message, Millis, NO_NUMBER, OrderError, OrderId, OsError, Payment, Phase, Reason, SaleFinding,
    SaleState, UserId, Verdict, VoucherId, locale::set_thread_language, reason::reason,
};
pub(super) use tokio::sync::watch;

pub(super) use super::{
    chinese::english,
    fixture::{
        NOW, SIZES, Tui, empty, entry, languages, lines, load_test, no_user, normal, outage,
        overflowing, page, plan, read_only, recovering, sale, sql_away, stuck, view_keys, with,
        with_load_test, without_sql,
    },
    history::with_log,
    ledger::with_findings,
    letters::{self, letter, with_letters},
    orders::{self, with_orders},
    stream::{self, with_stream},
};
pub(super) use crate::{
    Guide, GuidePage, Keys,
    app::App,
    dialogs::{Confirm, Dialog, Form},
    export::ExportError,
    frame, keymap,
    text::audit_log::result,
    theme::{Depth, Theme, glyphs},
    view::View,
    views,
    widgets::width,
};
