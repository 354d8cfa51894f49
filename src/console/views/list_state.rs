//! Where the person is in a list whose things have an identity. The choice follows that, never the row.

use tui_input::Input;

use super::Step;
use crate::{
    console::widgets::Scroll,
    telemetry::snapshot::{Holder, JobLine},
};

/// A thing in a list.
pub(crate) trait Row {
    /// What makes it the same thing in the next picture.
    fn identity(&self) -> String;

    /// Whether a filter, in small letters, lets it through.
    fn holds(&self, wanted: &str) -> bool;
}

impl Row for Holder {
    fn identity(&self) -> String {
        format!("{}\n{}", self.name, self.owner)
    }

    fn holds(&self, wanted: &str) -> bool {
        [&self.name, &self.owner].iter().any(|text| text.to_lowercase().contains(wanted))
    }
}

impl Row for JobLine {
    fn identity(&self) -> String {
        self.name.clone()
    }

    fn holds(&self, wanted: &str) -> bool {
        [&self.name, &self.about, &self.schedule]
            .iter()
            .any(|text| text.to_lowercase().contains(wanted))
    }
}

#[derive(Debug, Default)]
pub(crate) struct ListState {
    chosen: Option<String>,
    /// Row of the chosen one, for when that is gone.
    row: usize,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
}

impl ListState {
    /// What the filter lets through.
    pub(crate) fn rows<'a, T: Row>(&self, all: &'a [T]) -> Vec<&'a T> {
        let wanted = self.filter.value().trim().to_lowercase();
        all.iter().filter(|row| wanted.is_empty() || row.holds(&wanted)).collect()
    }

    pub(crate) fn cursor<T: Row>(&self, rows: &[&T]) -> Option<usize> {
        let chosen = self.chosen.as_deref()?;
        rows.iter().position(|row| row.identity() == chosen)
    }

    pub(crate) fn chosen<'a, T: Row>(&self, all: &'a [T]) -> Option<&'a T> {
        let chosen = self.chosen.as_deref()?;
        all.iter().find(|row| row.identity() == chosen)
    }

    /// The choice stays on its thing, or goes to the one that took its row.
    pub(crate) fn settle<T: Row>(&mut self, all: &[T]) {
        let rows = self.rows(all);
        if let Some(row) = self.cursor(&rows) {
            self.row = row;
        } else {
            let beside = rows.get(self.row.min(rows.len().saturating_sub(1)));
            self.chosen = beside.map(|row| row.identity());
        }
    }

    /// Moves the choice; says whether it moved.
    pub(crate) fn step<T: Row>(&mut self, all: &[T], step: Step) -> bool {
        self.settle(all);
        let rows = self.rows(all);
        let Some(now) = self.cursor(&rows) else { return false };
        let next = step.from(now, rows.len(), self.scroll.visible);
        let Some(row) = rows.get(next) else { return false };
        self.chosen = Some(row.identity());
        self.row = next;
        next != now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(names: &[&str]) -> Vec<JobLine> {
        names
            .iter()
            .map(|name| JobLine {
                name: (*name).to_owned(),
                about: String::new(),
                schedule: String::new(),
                paused: false,
                next: None,
                runs: Vec::new(),
            })
            .collect()
    }

    #[test]
    fn the_choice_follows_the_thing_and_not_the_row() {
        let mut state = ListState::default();
        state.settle(&jobs(&["a", "b", "c"]));
        assert!(state.step(&jobs(&["a", "b", "c"]), Step::By(1)));
        state.settle(&jobs(&["b", "a"]));
        assert_eq!(state.chosen(&jobs(&["b", "a"])).map(|job| job.name.as_str()), Some("b"));
        state.settle(&jobs(&["a"]));
        assert_eq!(state.chosen(&jobs(&["a"])).map(|job| job.name.as_str()), Some("a"));
        state.settle::<JobLine>(&[]);
        assert!(!state.step::<JobLine>(&[], Step::Last));
    }
}
