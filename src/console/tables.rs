//! Features common to all tables: sorting, copying, choosing with the mouse.
//!
//! A new view adds one line to each `match` here.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use seckill_engine::telemetry::snapshot::{Holder, JobLine, LetterLine, PendingLine};
use seckill_model::{
    is_display_control,
    ledger::SaleAudit,
    message::{Label, text},
};

use super::{
    app::App,
    dialogs::Dialog,
    export,
    keymap::{Action, key_of},
    text::conventions as words,
    views::{
        self, PagedRow, Pane, Row, Step, Users, View, log_facets, next_order, order_facets,
        sales_facets,
    },
    widgets::{Scroll, fit},
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
    /// The table state of this view.
    fn scroll(&mut self) -> Option<&mut Scroll> {
        match self.view {
            View::Overview => None,
            View::Sales => Some(&mut self.sales.scroll),
            View::Stream if self.stream.pane == Pane::Consumers => Some(&mut self.stream.consumers),
            View::Stream => Some(&mut self.stream.scroll),
            View::Pending => Some(&mut self.pending.scroll),
            View::Letters => Some(&mut self.letters.scroll),
            View::Orders => Some(&mut self.orders.scroll),
            View::Locks => Some(&mut self.locks.scroll),
            View::Jobs => Some(&mut self.jobs.scroll),
            View::Ledger => Some(&mut self.ledger.list.scroll),
            View::Activity => Some(&mut self.log.scroll),
        }
    }

    fn next_order(&mut self) {
        match self.view {
            View::Overview | View::Stream => {}
            View::Sales => next_order(&mut self.sales.scroll, &sales_facets()),
            View::Pending => next_order(&mut self.pending.scroll, &PendingLine::facets()),
            View::Letters => next_order(&mut self.letters.scroll, &LetterLine::facets()),
            View::Orders => next_order(&mut self.orders.scroll, &order_facets()),
            View::Activity => next_order(&mut self.log.scroll, &log_facets()),
            View::Locks => next_order(&mut self.locks.scroll, &Holder::facets()),
            View::Jobs => next_order(&mut self.jobs.scroll, &JobLine::facets()),
            View::Ledger => next_order(&mut self.ledger.list.scroll, &SaleAudit::facets()),
        }
    }

    /// The ID or name of the chosen row.
    fn chosen_name(&self) -> Option<String> {
        let shown = &self.shown;
        match self.view {
            View::Overview | View::Sales => self.pointed_sale().map(|it| it.voucher_id.to_string()),
            View::Stream if self.stream.pane == Pane::Consumers => {
                self.stream.chosen_consumer(shown).map(|it| it.name.clone())
            }
            View::Stream => self.stream.chosen(shown).map(|it| it.entry.to_string()),
            View::Orders => self.orders.chosen(shown).map(|it| it.id.to_string()),
            View::Pending => self.pending.chosen_line(shown).map(|it| it.id().to_string()),
            View::Letters => self.letters.chosen_line(shown).map(|it| it.id().to_string()),
            View::Locks => self.locks.chosen(&shown.locks.locks).map(Row::name),
            View::Activity => self.log.chosen_line(shown).map(|it| it.id.to_string()),
            View::Jobs => self.jobs.chosen(&shown.jobs).map(Row::name),
            View::Ledger => self.ledger.list.chosen(&shown.ledger.lines).map(Row::name),
        }
    }

    /// The chosen row as exported. A copy names no user.
    fn chosen_row(&mut self) -> Option<String> {
        let (users, view) = (self.users, self.view);
        self.users = Users::MASKED;
        // The Overview has no table: a sale is copied as its row in Sales, even if the filter hides it.
        let of_sales = matches!(view, View::Overview | View::Sales);
        let sale = self.pointed_sale().map(|sale| sale.voucher_id);
        let kept = of_sales.then(|| self.sales.set_aside(sale));
        if of_sales {
            self.view = View::Sales;
        }
        let row = views::sheet(self).and_then(|sheet| export::row(&sheet, sheet.cursor?));
        self.view = view;
        self.users = users;
        if let Some(kept) = kept {
            self.sales.put_back(kept);
        }
        row
    }

    pub(super) fn has_choice(&self) -> bool {
        self.chosen_name().is_some()
    }

    /// Why no row is chosen.
    pub(super) fn no_choice(&self) -> String {
        match self.view {
            View::Pending if self.shown.redis.up && PendingLine::page(&self.shown).total == 0 => {
                Label("conventions-nothing-is-pending").to_string()
            }
            _ => text!(
                "conventions-no-row-is-chosen-and-choose",
                up = key_of(Action::Up),
                down = key_of(Action::Down)
            ),
        }
    }

    /// The total of a paged list, if it is longer than one page.
    pub(super) fn paged_total(&self) -> Option<u64> {
        let beyond = |whole: bool, total| (!whole).then_some(total);
        match self.view {
            View::Pending => {
                let page = PendingLine::page(&self.shown);
                beyond(page.is_whole(), page.total)
            }
            View::Letters => {
                let page = LetterLine::page(&self.shown);
                beyond(page.is_whole(), page.total)
            }
            View::Overview
            | View::Sales
            | View::Stream
            | View::Orders
            | View::Locks
            | View::Jobs
            | View::Ledger
            | View::Activity => None,
        }
    }

    /// Sorts by the next column, or reverses the order.
    pub(super) fn order(&mut self, turn: bool) {
        if let Some(total) = self.paged_total() {
            return self.note(words::in_pages(total));
        }
        if self.view == View::Stream {
            return self.note(&*Label("conventions-a-stream-stands-in-the-order"));
        }
        let Some(scroll) = self.scroll() else { return self.note(&*words::NO_TABLE) };
        let was = scroll.order.clone();
        if turn {
            match &mut scroll.order {
                Some(order) => order.falling = !order.falling,
                None => {
                    return self.note(text!(
                        "conventions-no-column-is-chosen-chooses-one",
                        key = key_of(Action::SortNext)
                    ));
                }
            }
        } else {
            self.next_order();
        }
        let now = self.scroll().and_then(|scroll| scroll.order.clone());
        match (was, now) {
            (_, Some(order)) => self.note(words::ordered(&order.head, order.falling)),
            (Some(_), None) => self.note(&*Label("conventions-the-rows-stand-in-their-own")),
            (None, None) => self.note(&*Label("conventions-these-rows-stand-in-one-order")),
        }
    }

    /// Copies the chosen row, or its name, to the clipboard.
    pub(super) fn copy(&mut self, whole: bool) {
        let text = match self.chosen_name() {
            Some(_) if whole => self.chosen_row(),
            name => name,
        };
        let Some(text) = text else { return self.note(self.no_choice()) };
        let text = plain(&text);
        let shown = fit(&text, REPEATED, self.theme.glyphs.ellipsis);
        self.note(if self.in_tmux {
            text!("conventions-copied-tmux-passes-it-on-only", what = shown, setting = TMUX_SETTING)
        } else {
            text!("conventions-copied", what = shown)
        });
        self.clipboard = Some(text);
    }

    pub(super) fn switch_mouse(&mut self) {
        self.mouse = !self.mouse;
        self.note(&*if self.mouse {
            Label("conventions-the-mouse-chooses-rows-and-tabs")
        } else {
            Label("conventions-the-mouse-is-the-terminals-again")
        });
    }

    /// A click chooses, the wheel moves. Neither opens, confirms nor runs anything.
    pub(super) fn on_mouse(&mut self, event: MouseEvent) {
        if !self.mouse || self.presenter.on {
            return;
        }
        let wheel = match event.kind {
            MouseEventKind::ScrollUp => Some(false),
            MouseEventKind::ScrollDown => Some(true),
            MouseEventKind::Down(MouseButton::Left) => None,
            _ => return,
        };
        self.dirty = true;
        match (&mut self.dialog, wheel) {
            (Some(Dialog::Help(help)), Some(down)) => return help.step(down),
            // Questions are answered with keys only.
            (Some(_), _) => return,
            (None, _) => {}
        }
        self.status.key_pressed();
        if let Some(down) = wheel {
            if self.scroll().is_some_and(|scroll| scroll.total > 0) {
                self.step(Step::By(if down { NOTCH } else { -NOTCH }));
            }
            return;
        }
        let tab = self.tabs.iter().find(|(cells, _)| cells.contains(&event.column));
        if event.row == 1
            && let Some((_, view)) = tab
        {
            return self.go(*view);
        }
        let Some(scroll) = self.scroll() else { return };
        let (row, cursor) = (scroll.row_at(event.row), scroll.cursor);
        let Some(row) = row else { return };
        if self.view == View::Sales {
            // The cursor may be on a sale that the filter hides.
            return self.sales.choose_row(&self.shown, row);
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
