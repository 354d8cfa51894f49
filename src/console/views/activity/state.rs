//! State of the log: level, page and line; or following its end.
//!
//! Lines are identified by number. The newest page grows at its bottom; older ones do not change.

use seckill_engine::telemetry::{
    Snapshot,
    log::{LogPosition, LogView, Recorded, Weight, Which},
};

use crate::views::{
    Scene, Step,
    table::{Controls, Extent, Pager, Row as _, Sheet, TableState, TableView, Toward, Turn},
};

/// Which lines are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Level {
    #[default]
    All,
    /// Errors and recoveries.
    Alarms,
    /// Commands of operators.
    Commands,
}

impl Level {
    fn next(self) -> Self {
        match self {
            Self::All => Self::Alarms,
            Self::Alarms => Self::Commands,
            Self::Commands => Self::All,
        }
    }

    fn which(self) -> Option<Which> {
        match self {
            Self::All => None,
            Self::Alarms => Some(Which::Events),
            Self::Commands => Some(Which::Acts),
        }
    }

    fn holds(self, line: &Recorded) -> bool {
        match self {
            Self::All => true,
            Self::Alarms => Weight::of(&line.act).is_alarm(),
            Self::Commands => !line.act.is_event(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct LogState {
    /// Without a cursor while the list follows the newest line.
    pub(crate) table: TableState<Recorded>,
    level: Level,
    pager: Pager<Option<LogPosition>>,
}

impl LogState {
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// The page to be read.
    pub(crate) fn look(&self) -> LogView {
        LogView { which: self.level.which(), before: self.pager.at() }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.pager.is_waiting()
    }

    /// Whether the cursor follows the newest line.
    pub(crate) fn follows(&self) -> bool {
        self.table.cursor.is_none()
    }

    /// Whether this is the newest page.
    pub(crate) fn is_newest(&self) -> bool {
        self.pager.is_first()
    }

    /// The lines of this page that match level and filter, oldest first unless sorted otherwise.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Recorded> {
        let mut rows = self.table.rows(snapshot);
        rows.retain(|line| self.level.holds(line));
        rows
    }

    pub(crate) fn position(&self, rows: &[&Recorded]) -> Option<usize> {
        if !self.follows() {
            return self.table.position(rows);
        }
        if self.table.controls.order.is_none() {
            return rows.len().checked_sub(1);
        }
        let newest = rows.iter().map(|line| line.id).max();
        rows.iter().position(|line| Some(line.id) == newest)
    }

    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Recorded> {
        let rows = self.rows(snapshot);
        self.position(&rows).and_then(|row| rows.get(row).copied())
    }

    /// Revalidates the cursor against a new snapshot.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) {
        let page = &snapshot.log;
        let is_asked = page.taken.is_some() && page.view == self.look();
        let arrived = if is_asked { self.pager.arrived(page.view.before) } else { None };
        if let Some(toward) = arrived {
            let rows = self.rows(snapshot);
            let edge = if toward == Toward::Further { rows.last() } else { rows.first() };
            self.table.cursor = edge.map(|line| line.id);
        }
        self.settle_cursor(snapshot);
    }

    /// Selects the next level, at its newest line.
    pub(crate) fn turn_level(&mut self) {
        self.level = self.level.next();
        self.follow();
    }

    fn follow(&mut self) {
        self.pager.turn(Toward::First, None);
        // The snapshot has the newest lines, whether or not their page was read.
        self.pager.stop_waiting();
        self.table.cursor = None;
    }
}

impl TableView for LogState {
    fn controls(&self) -> &Controls {
        &self.table.controls
    }

    fn controls_mut(&mut self) -> &mut Controls {
        &mut self.table.controls
    }

    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String> {
        self.chosen(snapshot).map(Recorded::name)
    }

    fn settle_cursor(&mut self, snapshot: &Snapshot) {
        if !self.follows() {
            self.table.settle(&self.rows(snapshot));
        }
    }

    fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn {
        let in_time = self.table.controls.order.is_none();
        // Also cancels a page that does not arrive.
        if step == Step::Last && !self.is_newest() {
            return Turn::Page(Toward::First);
        }
        if step == Step::Last && in_time {
            return if self.table.cursor.take().is_some() { Turn::Moved } else { Turn::edge(step) };
        }
        if self.is_waiting() {
            return Turn::Waiting;
        }
        let (rows, followed) = (self.rows(snapshot), self.follows());
        if followed {
            self.table.cursor = self.chosen(snapshot).map(|line| line.id);
        }
        let moved = self.table.step(&rows, step);
        // At the end, the list follows new lines.
        let is_last = self.table.position(&rows).is_some_and(|row| row + 1 == rows.len());
        let follows = if moved { in_time && is_last && self.is_newest() } else { followed };
        if follows {
            self.table.cursor = None;
        }
        if moved {
            return Turn::Moved;
        }
        match step.is_forward() {
            true if !self.is_newest() => Turn::Page(Toward::Back),
            false if snapshot.log.older => Turn::Page(Toward::Further),
            _ => Turn::edge(step),
        }
    }

    fn turn(&mut self, snapshot: &Snapshot, toward: Toward) {
        let oldest = Recorded::list(snapshot).first().map(|line| Some(line.position()));
        match toward {
            Toward::First => self.follow(),
            toward => self.pager.turn(toward, oldest),
        }
    }

    fn sheet(&self, scene: &Scene<'_>) -> Option<Sheet> {
        let rows = self.rows(scene.snapshot);
        let is_known = scene.snapshot.log.taken.is_some() && !self.is_waiting();
        (is_known || !rows.is_empty())
            .then(|| Sheet::of(&self.table, scene, &rows, self.position(&rows)))
    }

    fn extent(&self, snapshot: &Snapshot) -> Extent {
        Extent::uncounted(snapshot.log.older || !self.is_newest())
    }
}
