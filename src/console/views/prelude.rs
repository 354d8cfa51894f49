//! What most views use: the library's drawing types, the data of a snapshot, tables, and texts.

pub(super) use ratatui::{
    layout::Constraint::{Fill, Length},
    prelude::*,
    widgets::Paragraph,
};
pub(super) use seckill_engine::{Command, Snapshot, commands::Focus};
pub(super) use seckill_model::{EntryId, Label, Millis, UserId, VoucherId, message::Lines, text};

pub(super) use super::{
    Component, SIDES, Scene, Source, Step, below,
    detail::Detail,
    dim, draw_text, is_stale,
    table::{Column, Page, Paging, REST, Row, Settled, Table, TableState, Turn, Value},
};
pub(super) use crate::{
    dialogs::Effect,
    keymap::{Action, FILTER, MARK, STOP_COMMAND, USERS, ViewKey},
    text::{self, commands::question, figures},
    theme::{Theme, glyphs},
    view::View,
    widgets::{bar, fit, left, plain, right, width, wrap, wrap_to},
};
