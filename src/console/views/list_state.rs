//! State of a list of identifiable rows. The choice follows the identity, not the row.

use seckill_engine::{
    jobs::outcome_name,
    telemetry::snapshot::{Holder, JobLine},
};
use tui_input::Input;

use super::{
    Step,
    columns::{Facet, Rank, Wanted, any_holds, sort},
};
use crate::{
    text::{self, columns, figures},
    widgets::Scroll,
};

/// A row of a list.
pub(crate) trait Row: Sized {
    /// The identity across snapshots.
    fn identity(&self) -> String;

    /// Its columns, for filter and order. Values that change with the clock alone are excluded: rows would appear,
    /// vanish and swap while the user reads.
    fn facets() -> Vec<Facet<Self>> {
        Vec::new()
    }

    /// Whether a lowercase word of a filter occurs in it.
    fn holds(&self, wanted: &str) -> bool {
        any_holds(&Self::facets(), self, wanted)
    }

    /// The user-visible name.
    fn name(&self) -> String {
        self.identity()
    }
}

impl Row for Holder {
    fn identity(&self) -> String {
        format!("{}\n{}", self.name, self.owner)
    }

    fn facets() -> Vec<Facet<Self>> {
        vec![
            Facet::new(columns::LOCK, |lock| lock.name.clone(), |lock| Rank::text(&lock.name)),
            Facet::new(
                columns::NODE,
                |lock| {
                    let state = match (lock.orphan, lock.known) {
                        (true, _) => text::ORPHAN.read(),
                        (false, true) => "",
                        (false, false) => text::STRANGER.read(),
                    };
                    format!("{} {state}", lock.node).trim_end().to_owned()
                },
                |lock| Rank::text(&lock.node),
            ),
            Facet::new(columns::TASK, |lock| lock.task.clone(), |lock| Rank::text(&lock.task)),
            Facet::new(
                columns::DEPTH,
                |lock| lock.depth.to_string(),
                |lock| Rank::number(Some(lock.depth)),
            ),
            Facet::new(
                columns::LEASE,
                |lock| lock.left_ms.map_or_else(|| text::NO_END.to_string(), figures::span),
                // A lease without an end is the longest.
                |lock| Rank::number(Some(lock.left_ms.unwrap_or(u64::MAX))),
            ),
            Facet::new(
                columns::HELD,
                |_| String::new(),
                |lock| Rank::number(lock.since.map(|since| -since.0)),
            ),
            Facet::new(
                columns::WAITING,
                |lock| figures::thousands(lock.waiting),
                |lock| Rank::number(Some(lock.waiting)),
            ),
            Facet::new(
                columns::TOKEN,
                |lock| lock.token.map_or_else(String::new, |token| token.to_string()),
                |lock| Rank::number(lock.token),
            ),
            Facet::new(columns::OWNER, |lock| lock.owner.clone(), |lock| Rank::text(&lock.owner)),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Row for JobLine {
    fn identity(&self) -> String {
        self.name.clone()
    }

    fn facets() -> Vec<Facet<Self>> {
        vec![
            Facet::new(columns::JOB, |job| job.name.clone(), |job| Rank::text(&job.name)),
            Facet::new(
                columns::SCHEDULE,
                |job| job.schedule.clone(),
                |job| Rank::text(&job.schedule),
            ),
            Facet::new(
                columns::NEXT,
                |job| if job.paused { text::PAUSED.to_string() } else { String::new() },
                |job| Rank::number(job.next.map(|at| at.0)),
            ),
            Facet::new(
                columns::LAST,
                |_| String::new(),
                |job| Rank::number(job.runs.first().map(|run| -run.started.0)),
            ),
            Facet::new(
                columns::OUTCOME,
                |job| {
                    job.runs
                        .first()
                        .map_or_else(String::new, |run| outcome_name(run.outcome).into())
                },
                |job| {
                    job.runs
                        .first()
                        .map_or(Rank::Unknown, |run| Rank::text(outcome_name(run.outcome).read()))
                },
            ),
            Facet::new(
                columns::TOOK,
                |job| {
                    let took = job.runs.first().and_then(|run| run.took_ms);
                    took.map_or_else(String::new, figures::span)
                },
                |job| Rank::number(job.runs.first().and_then(|run| run.took_ms)),
            ),
            Facet::new(
                columns::ROWS,
                |job| {
                    let rows = job.runs.first().and_then(|run| run.rows);
                    rows.map_or_else(String::new, figures::thousands)
                },
                |job| Rank::number(job.runs.first().and_then(|run| run.rows)),
            ),
            Facet::new(
                columns::NODE,
                |job| job.runs.first().map_or_else(String::new, |run| run.node.clone()),
                |job| job.runs.first().map_or(Rank::Unknown, |run| Rank::text(&run.node)),
            ),
        ]
    }
}

#[derive(Debug, Default)]
pub(crate) struct ListState {
    chosen: Option<String>,
    /// Row of the chosen element, in case it vanishes.
    row: usize,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
}

impl ListState {
    /// The rows that match the filter, in the requested order.
    pub(crate) fn rows<'a, T: Row>(&self, all: &'a [T]) -> Vec<&'a T> {
        let wanted = Wanted::new(self.filter.value());
        let mut rows: Vec<&T> =
            all.iter().filter(|row| wanted.lets(|word| row.holds(word))).collect();
        sort(&mut rows, &T::facets(), self.scroll.order.as_ref());
        rows
    }

    pub(crate) fn cursor<T: Row>(&self, rows: &[&T]) -> Option<usize> {
        let chosen = self.chosen.as_deref()?;
        rows.iter().position(|row| row.identity() == chosen)
    }

    pub(crate) fn chosen<'a, T: Row>(&self, all: &'a [T]) -> Option<&'a T> {
        let chosen = self.chosen.as_deref()?;
        all.iter().find(|row| row.identity() == chosen)
    }

    /// The choice stays on its element, or moves to the one that took its row.
    pub(crate) fn settle<T: Row>(&mut self, all: &[T]) {
        let rows = self.rows(all);
        if let Some(row) = self.cursor(&rows) {
            self.row = row;
        } else {
            let beside = rows.get(self.row.min(rows.len().saturating_sub(1)));
            self.chosen = beside.map(|row| row.identity());
        }
    }

    /// Moves the choice; returns whether it moved.
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
    use seckill_model::message::Label;

    fn jobs(names: &[&str]) -> Vec<JobLine> {
        names
            .iter()
            .map(|name| JobLine {
                name: (*name).to_owned(),
                about: Label("job-done"),
                schedule: String::new(),
                paused: false,
                next: None,
                runs: Vec::new(),
            })
            .collect()
    }

    #[test]
    fn the_selection_follows_the_item_and_not_the_row() {
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
