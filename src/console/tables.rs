//! What every table can do: stand in another order, be copied from, and be chosen in with the mouse.
//!
//! A new view has its line in each `match` here; how a table is read or drawn is not known.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::{
    app::App,
    dialogs::Dialog,
    text::conventions as words,
    views::{
        PagedRow, Pane, Row, Step, View, consumer_facets, entry_facets, log_facets, next_order,
        order_facets, sales_facets, told,
    },
    widgets::{Scroll, fit},
};
use crate::telemetry::snapshot::{Holder, JobLine, LetterLine, PendingLine};

/// Bytes that a copy may have: more than any row, and what every terminal takes.
const MOST_COPIED: usize = 32 * 1024;
/// Cells of a copy that the status line repeats.
const REPEATED: usize = 40;
/// Rows of one notch of the wheel.
const NOTCH: isize = 3;

/// What a copy of the chosen row holds: its name, and all of it.
struct Copied {
    name: String,
    cells: Vec<(String, String)>,
}

impl App {
    /// Where the table of this view stands.
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
        }
    }

    fn chosen_row(&self) -> Option<Copied> {
        let shown = &self.shown;
        let paged = |name: String, cells| Some(Copied { name, cells });
        match self.view {
            View::Overview | View::Sales => self.sales.chosen_line(shown).map(|sale| Copied {
                name: sale.voucher_id.to_string(),
                cells: told(&sales_facets(), sale),
            }),
            View::Stream if self.stream.pane == Pane::Consumers => {
                let consumer = self.stream.chosen_consumer(shown)?;
                paged(consumer.name.clone(), told(&consumer_facets(), consumer))
            }
            View::Stream => {
                let line = self.stream.chosen(shown)?;
                paged(line.entry.to_string(), told(&entry_facets(), line))
            }
            View::Orders => {
                let order = self.orders.chosen(shown)?;
                paged(order.id.to_string(), told(&order_facets(), order))
            }
            View::Pending => {
                let line = self.pending.chosen_line(shown)?;
                paged(line.id().to_string(), line.copied())
            }
            View::Letters => {
                let line = self.letters.chosen_line(shown)?;
                paged(line.id().to_string(), line.copied())
            }
            View::Locks => {
                let lock = self.locks.chosen(&shown.locks.locks)?;
                paged(lock.name(), told(&Holder::facets(), lock))
            }
            View::Activity => {
                let line = self.log.chosen_line(shown)?;
                paged(line.id.to_string(), told(&log_facets(), line))
            }
            View::Jobs => {
                let job = self.jobs.chosen(&shown.jobs)?;
                paged(job.name(), told(&JobLine::facets(), job))
            }
        }
    }

    pub(super) fn has_choice(&self) -> bool {
        self.chosen_row().is_some()
    }

    /// How many rows a list has that is read in pages, where that is more than one page.
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
            | View::Activity => None,
        }
    }

    /// Orders by the next column, or turns the order round.
    pub(super) fn order(&mut self, turn: bool) {
        if let Some(total) = self.paged_total() {
            return self.note(words::in_pages(total));
        }
        if self.view == View::Stream {
            return self.note(&*words::STREAM_ORDER);
        }
        let Some(scroll) = self.scroll() else { return self.note(&*words::NO_TABLE) };
        let was = scroll.order.clone();
        if turn {
            match &mut scroll.order {
                Some(order) => order.falling = !order.falling,
                None => return self.note(words::no_order()),
            }
        } else {
            self.next_order();
        }
        let now = self.scroll().and_then(|scroll| scroll.order.clone());
        match (was, now) {
            (_, Some(order)) => self.note(words::ordered(&order.head, order.falling)),
            (Some(_), None) => self.note(&*words::OWN_ORDER),
            (None, None) => self.note(&*words::ONE_ORDER),
        }
    }

    /// Puts the chosen row, or its name, where the terminal takes it from.
    pub(super) fn copy(&mut self, whole: bool) {
        let Some(Copied { name, cells }) = self.chosen_row() else {
            return self.note(words::nothing_chosen());
        };
        let text = if whole {
            let cells = cells.iter().map(|(head, text)| format!("{head} {text}"));
            cells.collect::<Vec<_>>().join("  ")
        } else {
            name
        };
        let text = plain(&text);
        self.note(words::copied(&fit(&text, REPEATED, self.theme.glyphs.ellipsis)));
        self.clipboard = Some(text);
    }

    pub(super) fn switch_mouse(&mut self) {
        self.mouse = !self.mouse;
        self.note(&*if self.mouse { words::MOUSE_ON } else { words::MOUSE_OFF });
    }

    /// A click chooses, the wheel moves. Neither opens, answers nor does anything.
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
            // A question is answered with keys.
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
        let Some((row, now)) = scroll.row_at(event.row).zip(scroll.cursor.or(Some(0))) else {
            return;
        };
        if row != now {
            self.step(Step::By(row as isize - now as isize));
        }
    }
}

/// One line without control characters, of a bounded length.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if plain.len() + c.len_utf8() > MOST_COPIED {
            break;
        }
        plain.push(if c.is_control() { ' ' } else { c });
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
