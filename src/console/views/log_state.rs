//! State of the log: level, page and line; or following its end.
//!
//! Lines are identified by number. The newest page grows at its bottom; older ones do not change.

use seckill_engine::telemetry::{
    Snapshot,
    log::{LogView, Place, Recorded, Weight, Which},
};
use tui_input::Input;

use super::{
    Step,
    columns::{Facet, Rank, Wanted, sort},
};
use crate::{
    text::{self, activity::heads},
    widgets::Scroll,
};

/// Which lines are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Level {
    #[default]
    All,
    /// Errors and recoveries.
    Alarms,
    /// Commands of operators.
    Acts,
}

impl Level {
    fn next(self) -> Self {
        match self {
            Self::All => Self::Alarms,
            Self::Alarms => Self::Acts,
            Self::Acts => Self::All,
        }
    }

    fn which(self) -> Option<Which> {
        match self {
            Self::All => None,
            Self::Alarms => Some(Which::Events),
            Self::Acts => Some(Which::Acts),
        }
    }

    fn holds(self, line: &Recorded) -> bool {
        match self {
            Self::All => true,
            Self::Alarms => Weight::of(&line.act).is_alarm(),
            Self::Acts => !line.act.is_event(),
        }
    }
}

/// Direction of paging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Older(Place),
    Newer,
    Newest,
}

/// The effect of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogTurn {
    Moved,
    /// A page is outstanding.
    Waiting,
    /// There is no further page.
    Edge {
        top: bool,
    },
    /// Another page has to be read.
    Page(Toward),
}

#[derive(Debug, Default)]
pub(crate) struct LogState {
    /// The line under the cursor; `None` while following the newest.
    chosen: Option<i64>,
    /// Its row, in case it vanishes.
    row: usize,
    level: Level,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
    look: LogView,
    /// Pages between this one and the newest.
    newer: Vec<Option<Place>>,
    /// A requested page that has not arrived, and whether the cursor moves to its last line.
    awaited: Option<bool>,
}

impl LogState {
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// The page to be read.
    pub(crate) fn look(&self) -> LogView {
        self.look
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Whether the cursor follows the newest line.
    pub(crate) fn follows(&self) -> bool {
        self.chosen.is_none()
    }

    /// Whether this is the newest page.
    pub(crate) fn is_newest(&self) -> bool {
        self.look.before.is_none()
    }

    /// The lines of this page that match level and filter, oldest first unless sorted otherwise.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Recorded> {
        let wanted = Wanted::new(self.filter.value());
        let fits =
            |line: &&Recorded| self.level.holds(line) && wanted.lets(|word| holds(line, word));
        let mut rows: Vec<&Recorded> = lines(snapshot).filter(fits).collect();
        sort(&mut rows, &facets(), self.scroll.order.as_ref());
        rows
    }

    /// Lines of the page before level and filter.
    pub(crate) fn all(snapshot: &Snapshot) -> usize {
        lines(snapshot).count()
    }

    pub(crate) fn cursor(&self, rows: &[&Recorded]) -> Option<usize> {
        match self.chosen {
            None if self.scroll.order.is_none() => rows.len().checked_sub(1),
            None => {
                let newest = rows.iter().map(|line| line.id).max();
                rows.iter().position(|line| Some(line.id) == newest)
            }
            Some(chosen) => rows.iter().position(|line| line.id == chosen),
        }
    }

    pub(crate) fn chosen_line<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Recorded> {
        let rows = self.rows(snapshot);
        self.cursor(&rows).and_then(|row| rows.get(row).copied())
    }

    /// Revalidates the cursor against a new snapshot.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) {
        let page = &snapshot.log;
        let came = page.taken.is_some() && page.look == self.look;
        let rows = self.rows(snapshot);
        if let Some(last) = self.awaited.take_if(|_| came) {
            let edge = if last { rows.last() } else { rows.first() };
            self.chosen = edge.map(|line| line.id);
        }
        if let Some(row) = self.cursor(&rows) {
            self.row = row;
        } else {
            let beside = rows.get(self.row.min(rows.len().saturating_sub(1)));
            self.chosen = beside.map(|line| line.id);
        }
    }

    pub(crate) fn step(&mut self, snapshot: &Snapshot, step: Step) -> LogTurn {
        // Also cancels a page that does not arrive.
        if step == Step::Last && (self.scroll.order.is_none() || !self.is_newest()) {
            if !self.is_newest() {
                return LogTurn::Page(Toward::Newest);
            }
            let followed = self.chosen.take().is_none();
            return if followed { LogTurn::Edge { top: false } } else { LogTurn::Moved };
        }
        if self.is_waiting() {
            return LogTurn::Waiting;
        }
        let rows = self.rows(snapshot);
        let forward = matches!(step, Step::By(1..) | Step::Screens(1..) | Step::Last);
        let row = self.cursor(&rows).unwrap_or(0);
        let next = step.from(row, rows.len(), self.scroll.visible);
        if next != row {
            self.row = next;
            // At the end, the list follows new lines.
            let in_time = self.scroll.order.is_none();
            let at_end = in_time && next + 1 == rows.len() && self.is_newest();
            self.chosen = rows.get(next).filter(|_| !at_end).map(|line| line.id);
            return LogTurn::Moved;
        }
        let oldest = lines(snapshot).next().filter(|_| snapshot.log.older);
        match (forward, oldest) {
            (true, _) if !self.is_newest() => LogTurn::Page(Toward::Newer),
            (false, Some(oldest)) => LogTurn::Page(Toward::Older(oldest.place())),
            _ => LogTurn::Edge { top: !forward },
        }
    }

    /// Moves to another page, which has to be read.
    pub(crate) fn turn(&mut self, toward: Toward) {
        let last = match toward {
            Toward::Older(place) => {
                self.newer.push(self.look.before);
                self.look.before = Some(place);
                true
            }
            Toward::Newer => {
                self.look.before = self.newer.pop().flatten();
                false
            }
            Toward::Newest => {
                self.go_newest();
                return;
            }
        };
        self.awaited = Some(last);
    }

    /// Selects the next level, at its newest line.
    pub(crate) fn turn_level(&mut self) {
        self.level = self.level.next();
        self.look.which = self.level.which();
        self.go_newest();
    }

    fn go_newest(&mut self) {
        self.look.before = None;
        self.newer.clear();
        self.awaited = None;
        self.chosen = None;
    }
}

/// The page that was read; until it arrives, the newest lines of the snapshot.
fn lines(snapshot: &Snapshot) -> Box<dyn Iterator<Item = &Recorded> + '_> {
    if snapshot.log.taken.is_some() {
        Box::new(snapshot.log.lines.iter())
    } else {
        Box::new(snapshot.activity.iter().rev())
    }
}

/// Columns of a copied line.
pub(crate) fn facets() -> Vec<Facet<Recorded>> {
    vec![
        Facet::new(
            heads::TIME,
            |line| line.act.at.to_string(),
            |line| Rank::number(Some(line.act.at.0)),
        ),
        Facet::new(
            heads::WHO,
            |line| line.act.operator.clone(),
            |line| Rank::text(&line.act.operator),
        ),
        Facet::new(
            heads::WHAT,
            |line| line.act.act.clone(),
            |line| Rank::text(text::time::act_word(&line.act.act)),
        ),
        Facet::new(
            heads::SUBJECT,
            |line| text::audit_log::subject(&line.act.subject),
            |line| Rank::text(&text::audit_log::subject(&line.act.subject)),
        ),
        Facet::new(
            heads::RESULT,
            |line| text::audit_log::result(&line.act.result),
            |line| Rank::text(&text::audit_log::result(&line.act.result)),
        ),
    ]
}

/// Whether a lowercase word of a filter occurs in a line.
fn holds(line: &Recorded, wanted: &str) -> bool {
    let act = &line.act;
    let reason = act.reason.as_deref().unwrap_or_default();
    let word = text::time::act_word(&act.act);
    let (subject, result) =
        (text::audit_log::subject(&act.subject), text::audit_log::result(&act.result));
    let fields = [&act.operator, &act.node, &act.act, word, &*subject, &*result, reason];
    // English names match in every language.
    let texts = fields.into_iter().chain([&*act.subject, &*act.result]);
    texts.into_iter().any(|text| text.to_lowercase().contains(wanted))
}
