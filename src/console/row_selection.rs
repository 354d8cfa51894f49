//! Marks in paged lists, and which dead letters a command applies to.

use seckill_engine::dead_letters::LetterScope;
use seckill_model::{
    EntryId,
    filter::Filter,
    message::{Label, text},
};

use super::{
    app::App,
    keymap::{Action, key_of},
    text::commands,
    views::{Step, Turn, View, letters::wording::Selected},
};

impl App {
    /// Toggles the mark of the row under the cursor, and moves on.
    pub(super) fn mark(&mut self) {
        if self.view == View::Letters && self.tables.letters.all_marked {
            let key = key_of(Action::MarkAll);
            return self.note(text!("letters-all-are-marked-press", key));
        }
        let marked = match self.view {
            View::Ledger => self.tables.ledger.mark(&self.display.shown),
            View::Letters => self.tables.letters.mark(&self.display.shown),
            _ => self.tables.pending.mark(&self.display.shown),
        };
        match (marked, self.view) {
            (true, _) => match self.step_in_table(Step::By(1)) {
                Turn::Edge { .. } => {}
                turn => self.turn(turn),
            },
            (false, View::Ledger) => self.note(Label("ledger-this-sale-has-no-automatic")),
            (false, _) => self.note(commands::NOTHING_MARKED),
        }
    }

    /// Marks all dead letters, or those that match the filter; unmarks them if they are marked.
    pub(super) fn mark_all(&mut self) {
        if !self.tables.letters.mark_all(&self.display.shown) {
            self.note(commands::NOTHING_MARKED);
        }
    }

    /// The letters that a command applies to: the marked ones, else the one under the cursor.
    pub(super) fn letters_in_scope(&self) -> Result<(LetterScope, Selected), String> {
        let state = &self.tables.letters;
        let filtered = !state.controls.filter.value().is_empty();
        if state.all_marked {
            // The engine reports up to which ID it counted.
            let last = EntryId::MAX;
            let shown = filtered.then(|| state.rows(&self.display.shown).len());
            let scope = LetterScope::Matching { filter: Filter::default(), last };
            return Ok((scope, Selected::All { shown }));
        }
        if !state.marks.is_empty() {
            let about = Selected::Marked(state.marked(&self.display.shown));
            return Ok((LetterScope::Letters(state.marks.iter().copied().collect()), about));
        }
        match state.chosen(&self.display.shown) {
            Some(line) => Ok((
                LetterScope::Letters(vec![line.letter]),
                Selected::One(line.letter.to_string()),
            )),
            None => Err(commands::NOTHING_CHOSEN.to_string()),
        }
    }
}
