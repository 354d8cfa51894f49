//! Moving pieces between the shards of a sale (`Rebalancer`, `Vouchers::move_pieces`): two processes that cut several
//! shards each, and commit all of it in one transaction.
//!
//! | step | code |
//! | --- | --- |
//! | `TakeOut` | `Vouchers::take_out`: the row of the next shard, then `cut.lua` |
//! | `Commit` | `Store::restock`, all cuts at the versions that were seen, and the pieces of the other shards |
//! | `Undo` | `Vouchers::undo`: `Store::fence_sale` and `sync_sale.lua`, shard by shard |
//! | `Sync` | `deliver`, the delivery task, `Rebalancer::settle` |
//! | `GiveUp`, `LateCommit` | a timeout of the commit, which the database may still execute |
//! | `Expire` | others no longer wait for a cut |
//! | `Change` | another change of a shard raises its version |

use stateright::{Model, Property};

use super::{
    depth, fails, holds,
    sale::{Redis, Sql, Synced},
};

const SHARDS: usize = 3;

/// What a process moves: pieces of shards, in this order, to another one.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: [usize; 2],
    to: usize,
}

#[derive(Clone, Debug)]
struct Moves {
    movers: [Move; 2],
    initial: [u8; SHARDS],
    /// A process that holds pieces waits for another one. It was so, in the order of the stocks.
    waits: bool,
    changes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mover {
    /// It has cut that many shards, at these versions.
    Cutting {
        cut: u8,
        seen: [u8; 2],
    },
    /// It waits until another process no longer cuts the next shard.
    Waiting {
        cut: u8,
        seen: [u8; 2],
    },
    Committing {
        seen: [u8; 2],
    },
    Undoing {
        cut: u8,
        seen: [u8; 2],
    },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    sql: [Sql; SHARDS],
    redis: [Redis; SHARDS],
    admitted: [u8; SHARDS],
    movers: [Mover; 2],
    /// Commits that were given up, and may come at any time.
    late: [Option<[u8; 2]>; 2],
    changes: u8,
    moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Buy(usize),
    TakeOut { mover: usize, replied: bool },
    Commit { mover: usize, replied: bool },
    GiveUp(usize),
    LateCommit(usize),
    Undo(usize),
    Sync(usize),
    Expire(usize),
    Change(usize),
}

impl Moves {
    fn restock(&self, state: &mut State, mover: usize, seen: [u8; 2]) -> bool {
        let Move { from, to } = self.movers[mover];
        let passes = from.iter().zip(seen).all(|(&shard, seen)| state.sql[shard].version == seen);
        if passes {
            for shard in from {
                state.sql[shard].restock(-1, None);
            }
            state.sql[to].restock(2, None);
            state.moved = true;
        }
        passes
    }

    fn sync(state: &mut State, shard: usize) {
        let sale = state.sql[shard];
        if state.redis[shard].sync(sale) == Synced::Expired {
            state.sql[shard].fence(Some(sale.version));
            state.redis[shard].sync(state.sql[shard]);
        }
    }

    fn calm(state: &State) -> State {
        let mut state = state.clone();
        for shard in 0..SHARDS {
            if let Some(cutting) = &mut state.redis[shard].cutting {
                cutting.expired = true;
            }
            Self::sync(&mut state, shard);
        }
        state
    }
}

impl Model for Moves {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let sql = self.initial.map(|initial| Sql { version: 1, initial });
        vec![State {
            sql,
            redis: sql.map(Redis::of),
            admitted: [0; SHARDS],
            movers: [Mover::Cutting { cut: 0, seen: [0; 2] }; 2],
            late: [None; 2],
            changes: self.changes,
            moved: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for shard in 0..SHARDS {
            actions.extend([Action::Buy(shard), Action::Sync(shard)]);
            if state.redis[shard].cutting.is_some_and(|it| !it.expired) {
                actions.push(Action::Expire(shard));
            }
            if state.changes > 0 {
                actions.push(Action::Change(shard));
            }
        }
        for mover in 0..2 {
            match state.movers[mover] {
                Mover::Cutting { .. } | Mover::Waiting { .. } => {
                    actions.push(Action::TakeOut { mover, replied: true });
                    actions.push(Action::TakeOut { mover, replied: false });
                }
                Mover::Committing { .. } => {
                    actions.push(Action::Commit { mover, replied: true });
                    actions.push(Action::Commit { mover, replied: false });
                    actions.push(Action::GiveUp(mover));
                }
                Mover::Undoing { .. } => actions.push(Action::Undo(mover)),
                Mover::Done => {}
            }
            if state.late[mover].is_some() {
                actions.push(Action::LateCommit(mover));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Buy(shard) => state.admitted[shard] += u8::from(state.redis[shard].admit(0)),
            Action::TakeOut { mover, replied } => {
                let (Mover::Cutting { cut, mut seen } | Mover::Waiting { cut, mut seen }) =
                    state.movers[mover]
                else {
                    return None;
                };
                let shard = self.movers[mover].from[usize::from(cut)];
                let version = state.sql[shard].version;
                let is_held = state.redis[shard].cutting.is_some();
                let took = state.redis[shard].cut(1, version, mover as u8, Some(0));
                seen[usize::from(cut)] = version;
                state.movers[mover] = match (took, replied) {
                    (true, true) if cut == 1 => Mover::Committing { seen },
                    (true, true) => Mover::Cutting { cut: cut + 1, seen },
                    // Without a reply it may have been cut.
                    (_, false) => Mover::Undoing { cut: cut + 1, seen },
                    (false, true) if self.waits && is_held => Mover::Waiting { cut, seen },
                    (false, true) => Mover::Undoing { cut, seen },
                };
            }
            Action::Commit { mover, replied } => {
                let Mover::Committing { seen } = state.movers[mover] else { return None };
                let passed = self.restock(&mut state, mover, seen);
                state.movers[mover] =
                    if passed && replied { Mover::Done } else { Mover::Undoing { cut: 2, seen } };
            }
            Action::GiveUp(mover) => {
                let Mover::Committing { seen } = state.movers[mover] else { return None };
                state.late[mover] = Some(seen);
                state.movers[mover] = Mover::Undoing { cut: 2, seen };
            }
            Action::LateCommit(mover) => {
                let seen = state.late[mover].take()?;
                self.restock(&mut state, mover, seen);
            }
            Action::Undo(mover) => {
                let Mover::Undoing { cut, seen } = state.movers[mover] else { return None };
                state.movers[mover] = match cut.checked_sub(1) {
                    None => Mover::Done,
                    Some(cut) => {
                        let shard = self.movers[mover].from[usize::from(cut)];
                        state.sql[shard].fence(Some(seen[usize::from(cut)]));
                        state.redis[shard].sync(state.sql[shard]);
                        Mover::Undoing { cut, seen }
                    }
                };
            }
            Action::Sync(shard) => Self::sync(&mut state, shard),
            Action::Expire(shard) => state.redis[shard].cutting.as_mut()?.expired = true,
            Action::Change(shard) => {
                state.changes -= 1;
                state.sql[shard].restock(0, None);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no more buyers of a shard than pieces", |_, state: &State| {
                state.admitted.iter().zip(state.sql).all(|(admitted, sql)| *admitted <= sql.initial)
            }),
            Property::always("as many pieces as before", |model: &Self, state: &State| {
                let pieces = |sql: Sql| u32::from(sql.initial);
                state.sql.into_iter().map(pieces).sum::<u32>()
                    == model.initial.into_iter().map(u32::from).sum::<u32>()
            }),
            Property::always("without faults each piece is in a shard", |_, state: &State| {
                let end = Self::calm(state);
                end.redis.iter().zip(end.sql).zip(end.admitted).all(|((redis, sql), admitted)| {
                    !redis.is_damaged()
                        && redis.cutting.is_none()
                        && (redis.version, redis.initial) == (sql.version, sql.initial)
                        && redis.buyers == admitted
                })
            }),
            Property::always(NO_DEADLOCK, |model: &Self, state: &State| {
                let awaits = |mover: usize| match state.movers[mover] {
                    Mover::Waiting { cut, .. } => {
                        let shard = model.movers[mover].from[usize::from(cut)];
                        cut > 0 && state.redis[shard].cutting.is_some_and(|it| !it.expired)
                    }
                    _ => false,
                };
                !(awaits(0) && awaits(1))
            }),
            Property::sometimes("pieces move", |_, state: &State| state.moved),
            Property::sometimes("both processes fail", |_, state: &State| {
                !state.moved && state.movers == [Mover::Done; 2] && state.late == [None; 2]
            }),
        ]
    }
}

const NO_DEADLOCK: &str = "no two processes wait for each other while they hold pieces";

const SORTED: Moves = Moves {
    movers: [Move { from: [0, 1], to: 2 }, Move { from: [0, 1], to: 2 }],
    initial: [1, 2, 0],
    waits: false,
    changes: 0,
};

#[test]
fn moved_pieces_are_in_one_shard() {
    holds("two moves of the same shards", SORTED);
    if depth() > 1 {
        let crossed = [Move { from: [0, 1], to: 2 }, Move { from: [1, 2], to: 0 }];
        holds("two moves in a circle", Moves { movers: crossed, initial: [1, 1, 1], ..SORTED });
        holds("two moves, and a change", Moves { changes: 1, ..SORTED });
    }
}

#[test]
fn processes_that_wait_while_they_hold_pieces_wait_for_each_other() {
    let crossed = [Move { from: [0, 1], to: 2 }, Move { from: [1, 0], to: 2 }];
    let old = Moves { movers: crossed, waits: true, ..SORTED };
    fails("two moves that wait", old, NO_DEADLOCK);
}
