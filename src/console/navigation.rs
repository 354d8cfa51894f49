//! Navigation between views: what opens, what closes, what Esc dismisses.

use seckill_model::message::Label;

use super::{app::App, text::conventions, views::View};

impl App {
    pub(super) fn go(&mut self, view: View) {
        if self.display.frozen && !self.tables.get(view).is_read(&self.display.shown) {
            return self.note(conventions::frozen());
        }
        self.view = view;
        self.tables.filtering = false;
        self.presenter.on = false;
        self.look();
        self.tables.get_mut(view).enter(&self.display.shown);
    }

    pub(super) fn close(&mut self) -> bool {
        let table = self.table_mut();
        table.is_some_and(|table| std::mem::take(&mut table.controls_mut().detail))
    }

    /// Dismisses one thing at a time, the most urgent first.
    pub(super) fn back(&mut self) {
        if self.status.dismiss() || std::mem::take(&mut self.presenter.on) {
            return;
        }
        // Cancels a count that is still running.
        if self.work.counting.take().is_some() {
            return self.note(Label("command-counting-dead-letters-was-cancelled"));
        }
        self.work.tracing = None;
        if self.tables.overview.let_go() || self.close() {
            return;
        }
        let keeps_query = self.keeps_query();
        if let Some(filter) = self.filter()
            && !filter.value().is_empty()
        {
            if keeps_query {
                return self.note(conventions::frozen());
            }
            filter.reset();
            self.filter_changed();
        } else if self.view == View::Overview {
            self.tables.sales.let_go();
        } else if !self.status.took_note() {
            // If there was a message, the key only dismissed it.
            self.go(View::Overview);
        }
    }
}
