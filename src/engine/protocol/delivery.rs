//! Delivery of a change of a sale (`deliver`), beside a reconciliation that began with the version before it.
//!
//! | step | code |
//! | --- | --- |
//! | `Change` | `Store::set_state` |
//! | `Read`, `Next` | `deliver` and `confirm`; in the states `Sync`: `sync_sale.lua`, `Reconcile`: |
//! | | `Reconciler::sale`, `Note`: `Store::note_delivered` |
//! | `Other` | the next step of another process that reconciles the sale: `Reconciler::sale` |
//! | `GiveUp` | the process that delivers ends, or an error makes it begin again |
//! | `Expire` | the lease of the process that reconciles; another one takes over |
//! | `Damage` | a key of the sale is lost |
//!
//! Not modelled: the other process notes that what it has loaded is delivered (`Reconciler::note_delivered`).

use stateright::{Model, Property};

use super::{
    fails, holds,
    sale::{Redis, Sql, Synced},
};

#[derive(Clone, Debug)]
struct Delivery {
    /// A change counts as delivered only once `sync_sale.lua` confirms it. By the former rule, so did a reconciliation that
    /// found the sale whole.
    confirms: bool,
    damages: u8,
}

/// The process that delivers a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Deliverer {
    Idle,
    Sync(Sql),
    Reconcile(Sql),
    Note(u8),
}

/// The process that reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Other {
    Idle,
    Begin(Sql),
    Fence,
    Again(Sql),
    End,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    sql: Sql,
    delivered: u8,
    redis: Redis,
    deliverer: Deliverer,
    other: Other,
    damages: u8,
    changes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Change,
    Read,
    Next,
    GiveUp,
    Other,
    Expire,
    Damage,
}

impl Delivery {
    /// The next step of the process that delivers; without others, its own reconciliation is one step.
    fn next(&self, state: &mut State) {
        state.deliverer = match state.deliverer {
            Deliverer::Idle => Deliverer::Sync(state.sql),
            Deliverer::Sync(sale) => match state.redis.sync(sale) {
                Synced::Damaged => Deliverer::Reconcile(sale),
                _ => Deliverer::Note(sale.version),
            },
            Deliverer::Reconcile(sale) if !state.redis.is_damaged() => {
                if self.confirms {
                    Deliverer::Sync(sale)
                } else {
                    Deliverer::Note(sale.version)
                }
            }
            // `reconcile_begin.lua` replies that another process is busy.
            Deliverer::Reconcile(sale) if state.redis.restoring => Deliverer::Reconcile(sale),
            Deliverer::Reconcile(sale) => {
                state.sql.fence(None);
                state.redis.reconcile_begin(state.sql, 0, false);
                state.redis.reconcile_end(0, 0, true);
                Deliverer::Sync(sale)
            }
            Deliverer::Note(version) => {
                state.delivered = state.delivered.max(version);
                Deliverer::Idle
            }
        };
    }

    fn other(state: &mut State) {
        state.other = match state.other {
            Other::Idle => Other::Begin(state.sql),
            Other::Begin(sale) if state.redis.is_damaged() => {
                state.redis.reconcile_begin(sale, 0, false);
                Other::Fence
            }
            Other::Fence => {
                state.sql.fence(None);
                Other::Again(state.sql)
            }
            Other::Again(sale) if state.redis.reconcile_again(sale) => Other::End,
            Other::Begin(_) | Other::Again(_) => Other::Idle,
            Other::End => {
                state.redis.reconcile_end(0, 0, true);
                Other::Idle
            }
        };
    }
}

impl Model for Delivery {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let sql = Sql { version: 1, initial: 1 };
        vec![State {
            sql,
            delivered: 1,
            redis: Redis::of(sql),
            deliverer: Deliverer::Idle,
            other: Other::Idle,
            damages: self.damages,
            changes: 2,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.changes > 0 {
            actions.push(Action::Change);
        }
        match state.deliverer {
            Deliverer::Idle if state.delivered < state.sql.version => actions.push(Action::Read),
            Deliverer::Idle => {}
            _ => actions.extend([Action::Next, Action::GiveUp]),
        }
        if state.other != Other::Idle || state.redis.is_damaged() {
            actions.push(Action::Other);
        }
        if state.redis.restoring {
            actions.push(Action::Expire);
        }
        if state.damages > 0 {
            actions.push(Action::Damage);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Change => {
                state.changes -= 1;
                state.sql.restock(0, None);
            }
            Action::Read | Action::Next => self.next(&mut state),
            Action::GiveUp => state.deliverer = Deliverer::Idle,
            Action::Other => Self::other(&mut state),
            // Another process takes over what the first one began.
            Action::Expire => {
                state.other = Other::Idle;
                state.redis.lost = true;
                state.redis.restoring = false;
            }
            Action::Damage => {
                state.damages -= 1;
                state.redis.lost = true;
            }
        }
        (state != *last).then_some(state)
    }

    /// Each reconciliation raises the version.
    fn within_boundary(&self, state: &State) -> bool {
        state.sql.version < 8
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DELIVERED, |_, state: &State| {
                state.redis.is_damaged() || state.delivered <= state.redis.version
            }),
            Property::always(
                "without faults each change is delivered",
                |model: &Self, state: &State| {
                    let mut state = State { other: Other::Idle, ..state.clone() };
                    if state.redis.restoring {
                        (state.redis.restoring, state.redis.lost) = (false, true);
                    }
                    for _ in 0..16 {
                        model.next(&mut state);
                    }
                    state.delivered == state.sql.version && state.redis.version == state.sql.version
                },
            ),
            Property::sometimes("a change meets a reconciliation", |_, state: &State| {
                state.redis.restoring && matches!(state.deliverer, Deliverer::Reconcile(_))
            }),
        ]
    }
}

const DELIVERED: &str = "what counts as delivered is in Redis";

#[test]
fn a_delivered_change_is_in_redis() {
    holds("delivery", Delivery { confirms: true, damages: 2 });
}

#[test]
fn a_sale_that_is_whole_again_may_lack_the_change() {
    let old = Delivery { confirms: false, damages: 1 };
    let steps = fails("delivery as it was", old, DELIVERED);
    assert!(steps.contains(&Action::Other), "{steps:?}");
}
