//! What the tests of the console need. Whole modules, because most of their types make up a snapshot or a reply.

pub(super) use std::{io, path::PathBuf, sync::Arc, time::Duration};

pub(super) use crossterm::event::*;
pub(super) use futures::FutureExt;
pub(super) use ratatui::{buffer::*, layout::Rect, style::*};
pub(super) use seckill_engine::{
    commands::{group::*, outcome::CommandOutcome, plan::*, *},
    error::*,
    orders::trace::Trace,
    recovery::{dead_letters::*, repair::Repaired},
    telemetry::{
        alarms::alarms, curves::Curves, data_loss::*, ledger_page::*, log::*, snapshot::*, *,
    },
};
pub(super) use seckill_model::{
    dead_letter::*, ledger::Cure, locale::set_thread_language, reason::reason, *,
};
pub(super) use strum::VariantArray as _;
pub(super) use tokio::sync::watch;

pub(super) use super::{
    conventions::configure,
    dialogs::form_of,
    fixture::*,
    history::{self, with_log},
    layout::*,
    ledger::{repairs, with_findings},
    letters::{self, all, all_counted, ask, letter, with_letters},
    orders::{self, with_orders},
    screens::*,
    stream::{self, with_stream},
};
pub(super) use crate::{
    Guide, GuidePage, Keys,
    app::App,
    dialogs::{Confirm, Dialog, Form},
    export::ExportError,
    frame, keymap,
    text::{self, audit_log::*},
    theme::{Depth, Theme, glyphs},
    view::View,
    views,
    widgets::width,
};
