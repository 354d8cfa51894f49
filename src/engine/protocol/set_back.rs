//! Changes of a sale are made and delivered after SQL was restored to an older version of it. Pieces were removed since
//! that version: they must not be sold again.
//!
//! | step | code |
//! | --- | --- |
//! | `Restore` | a backup of SQL is restored |
//! | `Look`, `Ask` | `Vouchers::held`: the row of the sale, then `sync_sale.lua` |
//! | `Unanswered` | Redis does not reply to that |
//! | `Commit` | `Store::set_state` and `Store::restock`, under the lock of the row, with `rules::check_not_behind` |
//! | `Read`, `Deliver` | `deliver`, by any process: the row of the sale, then `sync_sale.lua` |
//! | `Repair`, `Adopt` | `adoption::adopt`, by the repair of an audit or after `Split`: reads Redis, then writes SQL |
//! | `Open` | `Reconciler::sale` of a sale whose keys are consistent: `sync_sale.lua`, and what that has delivered |
//! | `GiveUp` | the process that delivers or adopts ends |
//! | `Damage` | another program deletes the pieces, or the whole sale except for its tally |
//! | `Wipe` | Redis loses the tally as well |
//! | `Begin`, `Rebuild` | `Reconciler::sale`: `reconcile_begin.lua` and, if that is unsure, `adoption::adopt`; then the fence, until the end |
//!
//! Buyers come to a node that remembers the newest version it has seen; `Read` is its look at SQL, with `pause_set_back`. A
//! version that both sides have lost is known only to such nodes: if SQL gets as many changes as it has lost before a node
//! looks, or a process without this memory reconciles the sale first, nothing shows it. Those are not explored here.

use seckill_model::SaleState;
use stateright::{Model, Property};

use super::{
    fails, holds,
    sale::{Redis, Sql, Synced},
};

/// What prevents that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Rule {
    /// The delivery finds that Redis is ahead, after the commit.
    Late,
    /// The commit is refused if Redis was seen ahead.
    Checked,
    /// The same, and a version that has two contents is adopted with what sells less.
    Compared,
    /// The same, and a change that could not be checked is refused, unless it stops the sale; and what Redis has lost is taken
    /// from SQL only if that is not behind.
    Confirmed,
    /// The same, and a sale is paused if both sides lack a version that the node has seen.
    Remembered,
    /// The same, also if Redis lost it after the node looked; and what was fenced is what was read.
    Fenced,
}

#[derive(Clone, Debug)]
struct SetBack {
    rule: Rule,
    /// Changes by an operator.
    changes: u8,
    /// How many of them are made while Redis does not reply.
    unanswered: u8,
    /// How often another program damages the sale in Redis.
    damages: u8,
    /// How often Redis loses all of it.
    wipes: u8,
}

/// What an operator does: open the sale, or add no piece to it, which both need a running sale as the result; or stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    Open,
    Pause,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    Idle,
    Ask(Change, Row),
    /// With the version of Redis, if it has replied.
    Commit(Change, Option<u8>),
}

/// A sale as SQL has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    sql: Sql,
    state: SaleState,
    /// Redis has confirmed this version.
    is_confirmed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    sql: Row,
    redis: Redis,
    terms: SaleState,
    operator: Operator,
    /// The row that a process is about to deliver.
    delivery: Option<Row>,
    /// What a process has read in Redis to adopt it.
    adoption: Option<(Sql, SaleState)>,
    /// The row with which a process reconciles the sale; that of SQL once it has adopted the sale.
    reconciled: Option<Row>,
    is_restored: bool,
    /// A version was recorded as delivered that Redis does not have.
    is_misnoted: bool,
    /// The newest version that the node has seen in SQL.
    seen: u8,
    changes: u8,
    unanswered: u8,
    damages: u8,
    wipes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Buy,
    Restore,
    Look(Change),
    Ask,
    Unanswered,
    Commit,
    Read,
    Deliver,
    GiveUp,
    Repair,
    Adopt,
    Damage,
    Wipe,
    Begin,
    Rebuild,
    Open,
}

/// The sale as the backup has it, and after the removal of a piece.
const BACKUP: Sql = Sql { version: 1, initial: 2 };
const CUT: Sql = Sql { version: 2, initial: 1 };

impl SetBack {
    /// Whether a version with two contents is found and adopted.
    fn compares(&self) -> bool {
        self.rule >= Rule::Compared
    }

    /// `sync_sale.lua`; a process that gets `Split` reads what SQL has to adopt.
    fn sync(&self, state: &mut State, row: Row) -> Synced {
        let is_same = row.is_confirmed || row.state == state.terms;
        let is_of_version = state.redis.version == row.sql.version && !state.redis.is_damaged();
        let synced = match self.compares() {
            true if is_of_version && !is_same => {
                state.redis.sync(row.sql);
                Synced::Split
            }
            true => state.redis.sync(row.sql),
            false => state.redis.sync_by_version(row.sql),
        };
        match synced {
            Synced::Split => {
                state.terms = state.terms.max(row.state);
                state.adoption = Some(Self::held(state));
            }
            // What another program has written is set back.
            Synced::Taken | Synced::Known => state.terms = row.state,
            _ => {}
        }
        synced
    }

    /// `reconcile_begin.lua` of a damaged sale. What the sale had is in its tally, and in the sum of the pieces that are left
    /// and those of the buyers; its state is lost.
    fn begin(&self, state: &mut State, row: Row) {
        let Redis { version, .. } = state.redis;
        let sql = row.sql.version;
        let is_unsure = version > sql || (version == sql && !row.is_confirmed);
        (state.redis.restoring, state.reconciled) = (true, Some(row));
        if self.rule >= Rule::Confirmed && is_unsure {
            let least = if version > sql { SaleState::Paused } else { SaleState::Running };
            state.adoption = Some((Self::held(state).0, least.max(row.state)));
        }
    }

    /// `pause_set_back`, and what the node notes of SQL.
    fn look(&self, state: &mut State) {
        let held = Self::held(state);
        let row = &mut state.sql;
        let is_lost = row.sql.version < state.seen && state.redis.version < state.seen;
        if self.rule < Rule::Remembered || !is_lost {
            state.seen = state.seen.max(row.sql.version);
            return;
        }
        // Otherwise the pause could get the number of a version that Redis has.
        if self.rule >= Rule::Fenced {
            self.adopt(row, held);
        }
        if row.state < SaleState::Paused {
            row.sql.restock(0, None);
            (row.state, row.is_confirmed) = (SaleState::Paused, false);
        }
        state.seen = row.sql.version;
    }

    /// Redis gets what SQL has, after the fence.
    fn rebuild(&self, state: &mut State, read: Row) {
        if self.rule >= Rule::Confirmed && state.sql.sql.version < state.redis.version {
            state.reconciled = None;
            return;
        }
        if state.sql.state != SaleState::Ended {
            if self.rule >= Rule::Fenced && state.sql != read {
                state.reconciled = None;
                return;
            }
            state.sql.sql.fence(None);
            state.sql.is_confirmed = false;
        }
        let row = state.sql;
        let Sql { version, initial } = row.sql;
        let stock = initial.saturating_sub(state.redis.buyers);
        let (restoring, lost) = (false, false);
        state.redis = Redis { version, initial, stock, restoring, lost, ..state.redis };
        (state.terms, state.reconciled) = (row.state, None);
        self.note_delivered(state, row);
    }

    /// `Store::note_delivered`, which compared the version with that of SQL only later.
    fn note_delivered(&self, state: &mut State, row: Row) {
        let (version, in_sql) = (row.sql.version, state.sql.sql.version);
        let is_of_sql = in_sql == version || (self.rule < Rule::Fenced && in_sql < version);
        if !row.is_confirmed && is_of_sql {
            state.sql.is_confirmed = true;
            state.is_misnoted |= state.redis.version != version || state.terms != row.state;
        }
    }

    fn held(state: &State) -> (Sql, SaleState) {
        let Redis { version, initial, .. } = state.redis;
        (Sql { version, initial }, state.terms)
    }

    /// `Store::adopt_sale`: a version of its own for a newer one, or for another content.
    fn adopt(&self, row: &mut Row, (held, state): (Sql, SaleState)) {
        let differs = held.initial != row.sql.initial || (!row.is_confirmed && state != row.state);
        let is_split = self.compares() && held.version == row.sql.version && differs;
        if held.version > row.sql.version || is_split {
            let sql = Sql { version: held.version + 1, ..held };
            *row = Row { sql, state: state.max(row.state), is_confirmed: false };
        }
    }

    /// An audit is repaired, and what waits is delivered.
    fn calm(&self, state: &State) -> State {
        let mut state = state.clone();
        for _ in 0..3 {
            self.look(&mut state);
            if state.redis.is_damaged() {
                let row = state.sql;
                self.begin(&mut state, row);
                if let Some(held) = state.adoption.take() {
                    self.adopt(&mut state.sql, held);
                }
                let row = state.sql;
                self.rebuild(&mut state, row);
            }
            let held = Self::held(&state);
            self.adopt(&mut state.sql, held);
            let row = state.sql;
            self.sync(&mut state, row);
            state.sql.is_confirmed |= state.redis.version == row.sql.version;
        }
        state
    }
}

impl Model for SetBack {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            sql: Row { sql: CUT, state: SaleState::Running, is_confirmed: true },
            redis: Redis::of(CUT),
            terms: SaleState::Running,
            operator: Operator::Idle,
            delivery: None,
            adoption: None,
            reconciled: None,
            is_restored: false,
            is_misnoted: false,
            seen: CUT.version,
            changes: self.changes,
            unanswered: self.unanswered,
            damages: self.damages,
            wipes: self.wipes,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Buy);
        if !state.is_restored {
            actions.push(Action::Restore);
        }
        match state.operator {
            Operator::Idle if state.changes > 0 => {
                actions.extend([Change::Open, Change::Pause, Change::End].map(Action::Look));
            }
            Operator::Idle => {}
            Operator::Ask(..) => {
                actions.push(Action::Ask);
                if state.unanswered > 0 {
                    actions.push(Action::Unanswered);
                }
            }
            Operator::Commit(..) => actions.push(Action::Commit),
        }
        match state.delivery {
            None => actions.push(Action::Read),
            Some(_) => actions.push(Action::Deliver),
        }
        if state.delivery.is_some() || state.adoption.is_some() {
            actions.push(Action::GiveUp);
        }
        if state.damages > 0 {
            actions.push(Action::Damage);
        }
        if state.wipes > 0 {
            actions.push(Action::Wipe);
        }
        if state.delivery.is_some() && state.redis.is_damaged() {
            actions.push(Action::Begin);
        }
        if state.delivery.is_some() && !state.redis.is_damaged() {
            actions.push(Action::Open);
        }
        if state.reconciled.is_some() && state.adoption.is_none() {
            actions.push(Action::Rebuild);
        }
        match state.adoption {
            None => actions.push(Action::Repair),
            Some(_) => actions.push(Action::Adopt),
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Buy
                if state.terms == SaleState::Running && state.redis.version >= state.seen =>
            {
                state.redis.admit(0);
            }
            Action::Buy => {}
            Action::Restore => {
                let sql = BACKUP;
                state.sql = Row { sql, state: SaleState::Running, is_confirmed: true };
                state.is_restored = true;
            }
            Action::Look(change) => state.operator = Operator::Ask(change, state.sql),
            Action::Ask => {
                let Operator::Ask(change, row) = state.operator else { return None };
                let sql = row.sql.version;
                let seen = match self.sync(&mut state, row) {
                    Synced::Newer(version) => Some(version),
                    // `Vouchers::damaged_version`: that of the tally.
                    Synced::Damaged => Some(state.redis.version)
                        .filter(|version| row.is_confirmed || *version != sql),
                    // It adopts the sale first.
                    Synced::Split => {
                        state.operator = Operator::Idle;
                        return Some(state);
                    }
                    _ => Some(sql),
                };
                state.operator = Operator::Commit(change, seen);
            }
            Action::Unanswered => {
                let Operator::Ask(change, _) = state.operator else { return None };
                state.unanswered -= 1;
                state.operator = Operator::Commit(change, None);
            }
            Action::Commit => {
                let Operator::Commit(change, seen) = state.operator else { return None };
                state.operator = Operator::Idle;
                state.changes -= 1;
                let is_refused = match seen {
                    Some(seen) => self.rule != Rule::Late && state.sql.sql.version < seen,
                    None => self.rule >= Rule::Confirmed && change == Change::Open,
                };
                let next = match change {
                    Change::Open => SaleState::Running,
                    Change::Pause => SaleState::Paused,
                    Change::End => SaleState::Ended,
                };
                // `rules::next_state`; pieces are added to a sale that runs.
                let is_none = next == state.sql.state && change != Change::Open;
                if !is_refused && !is_none && state.sql.state != SaleState::Ended {
                    state.sql.sql.restock(0, None);
                    (state.sql.state, state.sql.is_confirmed) = (next, false);
                }
            }
            Action::Read => {
                self.look(&mut state);
                state.delivery = Some(state.sql);
            }
            Action::Deliver => {
                let row = state.delivery.take()?;
                let synced = self.sync(&mut state, row);
                if matches!(synced, Synced::Taken | Synced::Known) {
                    self.note_delivered(&mut state, row);
                }
            }
            Action::GiveUp => {
                (state.delivery, state.adoption) = (None, None);
                state.reconciled = None;
            }
            Action::Repair => state.adoption = Some(Self::held(&state)),
            Action::Adopt => {
                let held = state.adoption.take()?;
                self.adopt(&mut state.sql, held);
                // It reads SQL again. If that was set back meanwhile, it begins again.
                let is_known = self.rule < Rule::Fenced || state.sql.sql.version >= state.seen;
                state.reconciled = state.reconciled.and(Some(state.sql)).filter(|_| is_known);
            }
            Action::Damage => {
                state.damages -= 1;
                state.redis.lost = true;
            }
            Action::Wipe => {
                state.wipes -= 1;
                let (version, initial, stock, lost) = (0, 0, 0, true);
                state.redis = Redis { version, initial, stock, lost, ..state.redis };
            }
            Action::Begin => {
                let row = state.delivery.take()?;
                self.begin(&mut state, row);
                if self.rule >= Rule::Fenced {
                    self.look(&mut state);
                }
            }
            Action::Rebuild => {
                let read = state.reconciled?;
                self.rebuild(&mut state, read);
            }
            Action::Open => {
                let row = state.delivery.take()?;
                let synced = self.sync(&mut state, row);
                let is_there = matches!(synced, Synced::Taken | Synced::Known);
                if is_there || (self.rule < Rule::Fenced && synced != Synced::Damaged) {
                    self.note_delivered(&mut state, row);
                }
            }
        }
        (state != *last).then_some(state)
    }

    /// Each adoption raises the version.
    fn within_boundary(&self, state: &State) -> bool {
        state.sql.sql.version < 9
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DELIVERED, |_, state: &State| !state.is_misnoted),
            Property::always(NOT_OVERSOLD, |_, state: &State| state.redis.buyers <= CUT.initial),
            Property::always(SETTLES, |model: &Self, state: &State| {
                let State { sql: row, redis, terms, .. } = model.calm(state);
                let is_same = redis.version == row.sql.version && redis.initial == row.sql.initial;
                // What has ended sells nothing; what both sides have lost is for an operator to look at.
                let least = if model.wipes > 0 { SaleState::Paused } else { SaleState::Ended };
                let is_over = row.state >= least;
                is_same && terms == row.state && (is_over || redis.initial == CUT.initial)
            }),
            Property::sometimes("a version has two contents", |model: &Self, state: &State| {
                // If Redis replies each time, none does.
                let is_of_version = state.redis.version == state.sql.sql.version;
                let is_split = is_of_version && state.redis.initial != state.sql.sql.initial;
                model.unanswered == 0 || is_split
            }),
        ]
    }
}

const DELIVERED: &str = "a change counts as delivered only once Redis has it";
const NOT_OVERSOLD: &str = "pieces that were removed are not sold again";
const SETTLES: &str = "a repair leaves the same sale on both sides, without the pieces";

#[test]
fn pieces_are_sold_again_if_a_change_is_committed_before_redis_is_asked() {
    let late = SetBack { rule: Rule::Late, changes: 2, unanswered: 0, damages: 0, wipes: 0 };
    let steps = fails("set back, checked by the delivery", late, NOT_OVERSOLD);
    assert!(steps.contains(&Action::Restore), "{steps:?}");
}

#[test]
fn a_change_of_a_sale_that_was_set_back_is_refused() {
    holds(
        "set back, all replies",
        SetBack { rule: Rule::Fenced, changes: 3, unanswered: 0, damages: 0, wipes: 0 },
    );
}

#[test]
fn a_change_that_could_not_be_checked_gives_a_version_two_contents() {
    let unanswered =
        SetBack { rule: Rule::Checked, changes: 2, unanswered: 1, damages: 0, wipes: 0 };
    fails("set back, checked if Redis replies", unanswered, SETTLES);
}

#[test]
fn a_version_with_two_contents_is_adopted() {
    holds(
        "set back, one reply missing",
        SetBack { rule: Rule::Fenced, changes: 3, unanswered: 1, damages: 0, wipes: 0 },
    );
}

/// With each change that Redis is not asked about, SQL may pass another version of Redis.
#[test]
fn two_changes_that_could_not_be_checked_may_pass_the_version_of_redis() {
    let unanswered =
        SetBack { rule: Rule::Compared, changes: 2, unanswered: 2, damages: 0, wipes: 0 };
    fails("set back, without replies", unanswered, SETTLES);
}

#[test]
fn what_redis_has_lost_is_sold_again_if_it_is_taken_from_an_older_sql() {
    let damaged = SetBack { rule: Rule::Compared, changes: 0, unanswered: 0, damages: 1, wipes: 0 };
    let steps = fails("set back and damaged", damaged, NOT_OVERSOLD);
    assert!(steps.contains(&Action::Damage), "{steps:?}");
}

#[test]
fn an_older_sql_adopts_what_is_left_in_redis_first() {
    let damaged = SetBack { rule: Rule::Fenced, changes: 2, unanswered: 2, damages: 2, wipes: 0 };
    holds("set back and damaged, adopted", damaged);
}

/// The fence gives the version of the backup the number that the node has seen.
#[test]
fn what_both_sides_have_lost_is_sold_again_if_no_node_remembers_it() {
    let wiped = SetBack { rule: Rule::Confirmed, changes: 0, unanswered: 0, damages: 0, wipes: 1 };
    let steps = fails("set back and wiped", wiped, NOT_OVERSOLD);
    assert!(steps.contains(&Action::Wipe), "{steps:?}");
}

#[test]
fn what_redis_loses_after_the_node_has_looked_is_sold() {
    let wiped = SetBack { rule: Rule::Remembered, changes: 0, unanswered: 0, damages: 0, wipes: 1 };
    fails("set back, then wiped", wiped, NOT_OVERSOLD);
}

#[test]
fn a_node_pauses_what_both_sides_have_lost() {
    let wiped = SetBack { rule: Rule::Fenced, changes: 0, unanswered: 0, damages: 1, wipes: 2 };
    holds("set back and wiped, remembered", wiped);
}

#[test]
fn a_stop_counts_as_delivered_after_a_reconciliation_of_a_newer_redis() {
    let stopped =
        SetBack { rule: Rule::Remembered, changes: 1, unanswered: 1, damages: 0, wipes: 0 };
    let steps = fails("set back and reconciled", stopped, DELIVERED);
    assert!(steps.contains(&Action::Open), "{steps:?}");
}
