//! Features common to all tables: moving, sorting, copying, choosing with the mouse.

use std::sync::Arc;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use seckill_engine::telemetry::snapshot::{LetterLine, PendingLine};
use seckill_model::{
    is_display_control,
    message::{Label, text},
};

use super::{
    app::App,
    dialogs::Dialog,
    export,
    keymap::{Action, key_of},
    text::conventions as wording,
    views::{self, Page, Row, Step, Table, Turn, View},
    widgets::fit,
};

/// Most bytes of a copy: more than any row, and accepted by every terminal.
const MOST_COPIED: usize = 32 * 1024;
/// Cells of a copy that the status line repeats.
const REPEATED: usize = 40;
/// The setting that makes tmux forward a copy.
const TMUX_SETTING: &str = "set -s set-clipboard on";
/// Rows per notch of the wheel.
const NOTCH: isize = 3;

impl App {
    /// The table of this view.
    pub(crate) fn table(&self) -> Option<&dyn Table> {
        self.tables.get(self.view).table()
    }

    pub(crate) fn table_mut(&mut self) -> Option<&mut dyn Table> {
        self.tables.get_mut(self.view).table_mut()
    }

    pub(super) fn step_in_table(&mut self, step: Step) -> Turn {
        let shown = Arc::clone(&self.display.shown);
        let table = self.table_mut();
        let turn = table.map_or(Turn::Waiting, |table| table.step(&shown, step));
        if self.view == View::Sales && turn == Turn::Moved {
            self.tables.sales.chosen = self.tables.sales.table.cursor;
        }
        turn
    }

    /// Carries out the effect of a movement.
    pub(super) fn turn(&mut self, turn: Turn) {
        let (shown, frozen) = (Arc::clone(&self.display.shown), self.display.frozen);
        match (turn, self.table_mut()) {
            (Turn::Edge { top }, _) => self.note(if top {
                Label("command-this-is-the-first-row")
            } else {
                Label("command-this-is-the-last-row")
            }),
            // What was read before the pause stays on the screen; no other page can be read.
            (Turn::Page(_), _) if frozen => self.note(wording::frozen()),
            (Turn::Page(toward), Some(table)) => {
                table.turn(&shown, toward);
                self.look();
            }
            (Turn::Hold, Some(table)) => {
                table.hold(&shown);
                self.look();
            }
            _ => {}
        }
    }

    /// The ID or name of the chosen row.
    fn chosen_name(&self) -> Option<String> {
        match self.table() {
            None => self.pointed_sale().map(|sale| sale.voucher_id.to_string()),
            Some(table) => table.chosen_name(&self.display.shown),
        }
    }

    pub(super) fn has_choice(&self) -> bool {
        self.chosen_name().is_some()
    }

    /// Why no row is chosen.
    pub(super) fn no_choice(&self) -> String {
        match self.view {
            View::Pending
                if self.display.shown.redis.up
                    && PendingLine::page(&self.display.shown).total == Some(0) =>
            {
                Label("conventions-no-pending-entries").to_string()
            }
            _ => text!(
                "conventions-no-row-is-selected-use",
                up = key_of(Action::Up),
                down = key_of(Action::Down)
            ),
        }
    }

    /// The total of a paged list, if it is longer than one page.
    pub(super) fn paged_total(&self) -> Option<u64> {
        fn beyond<R: Row>(page: &Page<'_, R>) -> Option<u64> {
            page.total.filter(|_| !page.is_whole())
        }
        match self.view {
            View::Pending => beyond(&PendingLine::page(&self.display.shown)),
            View::Letters => beyond(&LetterLine::page(&self.display.shown)),
            _ => None,
        }
    }

    /// Sorts by the next column, or reverses the order.
    pub(super) fn order(&mut self, turn: bool) {
        if let Some(total) = self.paged_total() {
            return self.note(wording::in_pages(total));
        }
        if self.view == View::Stream {
            return self.note(&*Label("conventions-stream-is-always-in-delivery"));
        }
        let Some(table) = self.table_mut() else { return self.note(&*wording::NO_TABLE) };
        let controls = table.controls_mut();
        let before = controls.order;
        match &mut controls.order {
            Some(order) if turn => order.is_descending = !order.is_descending,
            None if turn => {
                let key = key_of(Action::SortNext);
                return self.note(text!("conventions-no-sort-column-press", key));
            }
            _ => controls.next_order(),
        }
        let text = match (before, controls.order) {
            (_, Some(order)) => wording::ordered(order),
            (Some(_), None) => text!("conventions-default-order-restored"),
            (None, None) => text!("conventions-these-rows-cannot-be-sorted"),
        };
        self.note(text);
    }

    /// Copies the chosen row, or its name, to the clipboard.
    pub(super) fn copy(&mut self, whole: bool) {
        let text = match self.chosen_name() {
            Some(_) if whole => {
                views::chosen_row(self).and_then(|sheet| export::row(&sheet, sheet.cursor?))
            }
            name => name,
        };
        let Some(text) = text else { return self.note(self.no_choice()) };
        let text = plain(&text);
        let shown = fit(&text, REPEATED, self.display.theme.glyphs.ellipsis);
        self.note(if self.terminal.in_tmux {
            text!("conventions-copied-tmux-forwards-it-only", what = shown, setting = TMUX_SETTING)
        } else {
            text!("conventions-copied", what = shown)
        });
        self.terminal.clipboard = Some(text);
    }

    pub(super) fn switch_mouse(&mut self) {
        self.terminal.mouse = !self.terminal.mouse;
        self.note(&*if self.terminal.mouse {
            Label("conventions-mouse-enabled-it-selects-rows")
        } else {
            Label("conventions-mouse-disabled")
        });
    }

    /// A click chooses, the wheel moves. Neither opens, confirms nor runs anything.
    pub(super) fn on_mouse(&mut self, event: MouseEvent) {
        if !self.terminal.mouse || self.presenter.on {
            return;
        }
        let wheel = match event.kind {
            MouseEventKind::ScrollUp => Some(false),
            MouseEventKind::ScrollDown => Some(true),
            MouseEventKind::Down(MouseButton::Left) => None,
            _ => return,
        };
        self.terminal.dirty = true;
        match (&mut self.dialog, wheel) {
            (Some(Dialog::Help(help)), Some(down)) => return help.step(down),
            // Questions are answered with keys only.
            (Some(_), _) => return,
            (None, _) => {}
        }
        self.status.key_pressed();
        if let Some(down) = wheel {
            if self.table().is_some_and(|table| table.controls().total > 0) {
                self.step(Step::By(if down { NOTCH } else { -NOTCH }));
            }
            return;
        }
        let tab = self.terminal.tabs.iter().find(|(cells, _)| cells.contains(&event.column));
        if event.row == 1
            && let Some((_, view)) = tab
        {
            return self.go(*view);
        }
        let Some(controls) = self.table().map(Table::controls) else { return };
        let (row, cursor) = (controls.row_at(event.row), controls.cursor);
        let Some(row) = row else { return };
        if self.view == View::Sales {
            // The cursor may be on a sale that the filter hides.
            return self.tables.sales.choose_row(&self.display.shown, row);
        }
        let now = cursor.unwrap_or(0);
        if row != now {
            self.step(Step::By(row as isize - now as isize));
        }
    }
}

/// Returns one line of limited length without control characters.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if plain.len() + c.len_utf8() > MOST_COPIED {
            break;
        }
        plain.push(if is_display_control(c) { ' ' } else { c });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_one_bounded_line_without_control_characters() {
        assert_eq!(plain("a\x1b[31m\r\nb\u{9b}c"), "a [31m  b c");
        assert!(plain(&"锅".repeat(MOST_COPIED)).len() <= MOST_COPIED);
    }
}
