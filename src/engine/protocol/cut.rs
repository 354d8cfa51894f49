//! Removing pieces from a sale (`Vouchers::restock`), beside a second process that does the same, buyers, nodes that
//! deliver changes and settle what others left, and a Redis that fails over or is emptied.
//!
//! | step | code |
//! | --- | --- |
//! | `Start` | `Vouchers::take_out` reads the sale in SQL |
//! | `Message::Cut` | `cut.lua` |
//! | `Message::Commit` | `Store::restock` at the version that was seen |
//! | `Message::Fence` | `Store::fence_sale`, by `Vouchers::undo`, by `sale_copy::sync`, and for shards that did not reply to a stop by `Vouchers::write_state` |
//! | `Message::Sync` | `sync_sale.lua`, by any process, with a row that was read earlier |
//! | `GiveUp` | a timeout, a lost connection |
//! | `PutBack` | `Vouchers::undo` |
//! | `ReadToSync` | `deliver` reads the row that a `Message::Sync` carries |
//! | `Expire`, `Settle` | `cut_until` has passed; `undo_cut` and `Rebalancer::settle` call `sale_copy::sync` |
//! | `Change` | another `Store::restock`, or `Store::set_state` |
//! | `Replicate`, `FailOver`, `Flush` | a replica takes the state, replaces the primary; all keys are lost |
//! | `Reconcile` | `Reconciler::sale`: `reconcile_begin.lua`, the fence, `restore.lua` and `reconcile_end.lua` |
//!
//! Not modelled: a sale that lost only its stock (`kept`), which is reconciled without the fence; a version with two
//! contents, which a reconciliation adopts first (`set_back`); and the wait for nodes that have promises to restore
//! (`reconcile::await_restored`, `restored.lua`), without which `cut.lua` removes nothing.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use super::{
    depth, fails, holds,
    sale::{Redis, Sql, Start, Synced},
};

/// Who may put pieces back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A process that was refused or has no reply, at once; any process once the lease has passed.
    Lease,
    /// The same, but the lease knows its owner.
    OwnedLease,
    /// A process that has raised the version in SQL before.
    Version,
}

#[derive(Clone, Debug)]
struct Cuts {
    rule: Rule,
    /// Pieces that each process removes.
    by: &'static [u8],
    initial: u8,
    /// Whether the wait of others may pass while a cut is in progress.
    expires: bool,
    /// Failovers and losses of all keys, in total.
    losses: u8,
    /// Changes of the operator.
    changes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Cut { process: u8, version: u8 },
    Commit { process: u8, version: u8 },
    Fence { version: u8 },
    Sync { sale: Sql, own: Option<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Process {
    Idle,
    Cutting(u8),
    Committing(u8),
    /// The pieces are to be put back, as of this version.
    PuttingBack(u8),
    Done,
}

/// What a process that reconciles does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reconciler {
    Idle,
    /// `reconcile_begin.lua`, with the row of the sale.
    Begin(Sql),
    /// `Store::fence_sale`.
    Fence {
        closed: bool,
    },
    /// `reconcile_begin.lua` once more, or `sync_sale.lua`.
    Take {
        sale: Sql,
        closed: bool,
    },
    /// `restore.lua` and `reconcile_end.lua`.
    End {
        closed: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    sql: Sql,
    redis: Redis,
    replica: Option<Redis>,
    /// Buyers who were told that they bought.
    admitted: u8,
    sent: BTreeSet<Message>,
    processes: Vec<Process>,
    reconciler: Reconciler,
    /// The run of the server.
    run: u8,
    /// The run that the reconciling process knows.
    known_run: u8,
    losses: u8,
    changes: u8,
    succeeded: bool,
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Buy,
    Start(u8),
    Executed { message: Message, replied: bool },
    GiveUp(u8),
    PutBack(u8),
    ReadToSync,
    Settle,
    Expire,
    Change,
    Replicate,
    FailOver,
    Flush,
    Reconcile,
}

impl Cuts {
    fn is_fenced(&self) -> bool {
        self.rule == Rule::Version
    }

    fn execute(&self, state: &mut State, message: Message, replied: bool) {
        match message {
            Message::Cut { process, version } => {
                state.sent.remove(&message);
                let by = self.by[usize::from(process)];
                let run = self.is_fenced().then_some(state.run);
                let cut = state.redis.cut(by, version, process, run);
                let at = &mut state.processes[usize::from(process)];
                if replied && *at == Process::Cutting(version) {
                    *at = if cut { Process::Committing(version) } else { Process::Done };
                    if cut {
                        state.sent.insert(Message::Commit { process, version });
                    }
                }
            }
            Message::Commit { process, version } => {
                state.sent.remove(&message);
                let by = self.by[usize::from(process)] as i8;
                let passed = state.sql.restock(-by, Some(version));
                state.refused |= !passed;
                let at = &mut state.processes[usize::from(process)];
                if replied && *at == Process::Committing(version) {
                    state.succeeded |= passed;
                    *at = if passed { Process::Done } else { Process::PuttingBack(version) };
                }
            }
            Message::Fence { version } => {
                state.sent.remove(&message);
                state.sql.fence(Some(version));
            }
            Message::Sync { sale, own } => {
                let redis = &mut state.redis;
                match self.rule {
                    Rule::Version => redis.sync(sale),
                    Rule::Lease => redis.sync_by_lease(sale, own.is_some()),
                    Rule::OwnedLease => {
                        let own = own.is_some() && redis.cutting.map(|it| it.owner) == own;
                        redis.sync_by_lease(sale, own)
                    }
                };
            }
        }
    }

    fn reconcile(&self, state: &mut State) {
        let (lease, run) = (!self.is_fenced(), state.known_run);
        state.reconciler = match state.reconciler {
            Reconciler::Idle => {
                state.known_run = state.run;
                Reconciler::Begin(state.sql)
            }
            Reconciler::Begin(sale) => {
                let start = state.redis.reconcile_begin(sale, run, lease);
                match (start, lease) {
                    (Start::Whole | Start::Busy, _) => Reconciler::Idle,
                    (Start::Open, true) => Reconciler::Take { sale, closed: false },
                    (Start::Closed, true) => Reconciler::End { closed: true },
                    (start, false) => Reconciler::Fence { closed: start == Start::Closed },
                }
            }
            Reconciler::Fence { closed } => {
                state.sql.fence(None);
                Reconciler::Take { sale: state.sql, closed }
            }
            Reconciler::Take { sale, closed: true } if state.redis.reconcile_again(sale) => {
                Reconciler::End { closed: true }
            }
            Reconciler::Take { closed: true, .. } => Reconciler::Idle,
            Reconciler::Take { sale, closed: false } => {
                if lease {
                    state.redis.sync_by_lease(sale, false);
                } else {
                    state.redis.sync(sale);
                }
                Reconciler::End { closed: false }
            }
            Reconciler::End { closed } => {
                state.redis.reconcile_end(state.admitted, run, closed);
                Reconciler::Idle
            }
        };
    }

    /// Whether a node would reconcile the sale.
    fn is_due(state: &State) -> bool {
        state.redis.is_damaged() || state.redis.run != state.run
    }

    /// Nothing fails any more, no process of before does anything, and nodes do their work.
    fn calm(&self, state: &State) -> State {
        let mut state = State { reconciler: Reconciler::Idle, ..state.clone() };
        for _ in 0..8 {
            if let Some(cutting) = &mut state.redis.cutting {
                cutting.expired = true;
            }
            if Self::is_due(&state) {
                self.reconcile(&mut state);
                while state.reconciler != Reconciler::Idle {
                    self.reconcile(&mut state);
                }
            } else if self.is_fenced() {
                if state.redis.sync(state.sql) == Synced::Expired {
                    state.sql.fence(Some(state.sql.version));
                }
            } else {
                state.redis.sync_by_lease(state.sql, false);
            }
        }
        state
    }
}

impl Model for Cuts {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let sql = Sql { version: 1, initial: self.initial };
        vec![State {
            sql,
            redis: Redis::of(sql),
            replica: (self.losses > 0).then(|| Redis::of(sql)),
            admitted: 0,
            sent: BTreeSet::new(),
            processes: vec![Process::Idle; self.by.len()],
            reconciler: Reconciler::Idle,
            run: 0,
            known_run: 0,
            losses: self.losses,
            changes: self.changes,
            succeeded: false,
            refused: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Buy);
        for (process, at) in (0..).zip(&state.processes) {
            match at {
                Process::Idle => actions.push(Action::Start(process)),
                Process::Cutting(_) | Process::Committing(_) => {
                    actions.push(Action::GiveUp(process));
                }
                Process::PuttingBack(_) => actions.push(Action::PutBack(process)),
                Process::Done => {}
            }
        }
        for &message in &state.sent {
            actions.push(Action::Executed { message, replied: false });
            if matches!(message, Message::Cut { .. } | Message::Commit { .. }) {
                actions.push(Action::Executed { message, replied: true });
            }
        }
        if state.redis.cutting.is_some_and(|it| !it.expired) && self.expires {
            actions.push(Action::Expire);
        }
        if state.redis.cutting.is_some_and(|it| it.expired) && self.is_fenced() {
            actions.push(Action::Settle);
        }
        actions.push(Action::ReadToSync);
        if state.changes > 0 {
            actions.push(Action::Change);
        }
        if state.losses > 0 {
            actions.extend([Action::Replicate, Action::FailOver, Action::Flush]);
        }
        if Self::is_due(state) || state.reconciler != Reconciler::Idle {
            actions.push(Action::Reconcile);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Buy => state.admitted += u8::from(state.redis.admit(state.run)),
            Action::Start(process) => {
                let version = state.sql.version;
                state.processes[usize::from(process)] = Process::Cutting(version);
                state.sent.insert(Message::Cut { process, version });
            }
            Action::Executed { message, replied } => self.execute(&mut state, message, replied),
            Action::GiveUp(process) => {
                let at = &mut state.processes[usize::from(process)];
                *at = match *at {
                    Process::Committing(_) if !self.is_fenced() => Process::Done,
                    Process::Cutting(version) | Process::Committing(version) => {
                        Process::PuttingBack(version)
                    }
                    _ => return None,
                };
            }
            Action::PutBack(process) => {
                let at = &mut state.processes[usize::from(process)];
                let Process::PuttingBack(version) = *at else { return None };
                *at = Process::Done;
                state.sent.insert(if self.is_fenced() {
                    Message::Fence { version }
                } else {
                    Message::Sync { sale: state.sql, own: Some(process) }
                });
            }
            Action::ReadToSync => {
                state.sent.insert(Message::Sync { sale: state.sql, own: None });
            }
            Action::Settle => {
                let version = state.redis.cutting?.version;
                state.sent.insert(Message::Fence { version });
            }
            Action::Expire => state.redis.cutting.as_mut()?.expired = true,
            Action::Change => {
                state.changes -= 1;
                state.sql.restock(1, None);
            }
            Action::Replicate => state.replica = Some(state.redis),
            Action::FailOver => {
                state.losses -= 1;
                state.run += 1;
                state.redis = state.replica?;
            }
            Action::Flush => {
                state.losses -= 1;
                let Redis { run, .. } = state.redis;
                let empty = Redis::of(Sql { version: 0, initial: 0 });
                state.redis = Redis { lost: true, run, ..empty };
            }
            Action::Reconcile => self.reconcile(&mut state),
        }
        if state.losses == 0 {
            state.replica = None;
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_OVERSOLD, |_, state: &State| state.admitted <= state.sql.initial),
            Property::always(SETTLES, |model: &Self, state: &State| {
                let end = model.calm(state);
                let Redis { version, initial, stock, buyers, cutting, .. } = end.redis;
                !end.redis.is_damaged()
                    && (version, initial) == (end.sql.version, end.sql.initial)
                    && cutting.is_none()
                    && (buyers, stock + buyers) == (end.admitted, initial)
            }),
            Property::sometimes("a cut succeeds", |_, state: &State| state.succeeded),
            Property::sometimes("a late commit is refused", |_, state: &State| {
                state.refused && state.redis.cutting.is_none()
            }),
        ]
    }
}

const NOT_OVERSOLD: &str = "no more buyers than pieces";
const SETTLES: &str = "without faults each piece returns, and Redis agrees with SQL";

const CUTS: Cuts =
    Cuts { rule: Rule::Version, by: &[2, 1], initial: 3, expires: true, losses: 0, changes: 0 };

#[test]
fn a_cut_that_is_undone_never_commits() {
    holds("two cuts", CUTS);
    holds("a cut, and a change", Cuts { by: &[2], changes: 1, ..CUTS });
    holds("a cut, and a loss of Redis", Cuts { by: &[2], losses: 1, ..CUTS });
    if depth() > 1 {
        holds("a cut, a change, and two losses", Cuts { by: &[2], losses: 2, changes: 1, ..CUTS });
        holds("two cuts, and a change", Cuts { changes: 1, ..CUTS });
        holds("two cuts, and a loss of Redis", Cuts { losses: 1, ..CUTS });
        holds("three cuts", Cuts { by: &[2, 1, 1], ..CUTS });
    }
}

#[test]
fn a_lease_without_an_owner_oversells() {
    let old = Cuts { rule: Rule::Lease, expires: false, ..CUTS };
    let steps = fails("two cuts with leases", old, NOT_OVERSOLD);
    assert!(steps.iter().any(|step| matches!(step, Action::PutBack(_))), "{steps:?}");
}

#[test]
fn a_lease_that_sql_does_not_know_oversells() {
    let old = Cuts { rule: Rule::OwnedLease, by: &[2], ..CUTS };
    let steps = fails("one cut with a lease", old, NOT_OVERSOLD);
    assert!(steps.contains(&Action::Expire), "{steps:?}");
}

#[test]
fn a_cut_that_redis_has_lost_oversells_without_a_fence() {
    let old = Cuts { rule: Rule::OwnedLease, by: &[2], expires: false, losses: 1, ..CUTS };
    let steps = fails("one cut with a lease, and a loss", old, NOT_OVERSOLD);
    let lost = |step: &Action| matches!(step, Action::Flush | Action::FailOver);
    assert!(steps.iter().any(lost), "{steps:?}");
}
