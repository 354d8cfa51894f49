//! A sale that SQL has lost is adopted from Redis (`adoption::adopt`, `Store::adopt_sale`)
//! while a process removes pieces from it, and another adopts it as well.
//!
//! | step | code |
//! | --- | --- |
//! | `Cut`, `Commit`, `Undo` | `Vouchers::take_out`, `Store::restock`, `Vouchers::undo` |
//! | `Lose` | a backup of SQL is restored |
//! | `Read`, `Adopt` | `sale_copy::read`, `Store::adopt_sale` |
//! | `GiveUp`, `Expire` | a timeout of the commit; others no longer wait for the cut |
//! | `Sync` | `sale_copy::sync` |
//!
//! A sale that SQL has in an older version, and a version that has two contents, are the subject of `set_back`.

use stateright::{Model, Property};

use super::{
    fails, holds,
    sale::{Redis, Sql, Synced},
};

#[derive(Clone, Debug)]
struct Adoption {
    /// The sale is adopted with the next version and the pieces that are being removed. It was adopted as Redis had it.
    fenced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cutter {
    Idle,
    /// The commit is on its way.
    Committing(u8),
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    sql: Option<Sql>,
    redis: Redis,
    admitted: u8,
    cutter: Cutter,
    gave_up: bool,
    committed: bool,
    is_lost: bool,
    /// What each adopting process has read.
    read: [Option<Sql>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Buy,
    Cut,
    GiveUp,
    Commit,
    Undo,
    Expire,
    Lose,
    Read(usize),
    Adopt(usize),
    Sync,
}

const INITIAL: u8 = 3;
const PIECES: u8 = 2;

impl Adoption {
    fn sync(state: &mut State) {
        let Some(sale) = state.sql else { return };
        if state.redis.sync(sale) == Synced::Expired
            && let Some(sql) = &mut state.sql
        {
            sql.fence(Some(sale.version));
            state.redis.sync(*sql);
        }
    }

    fn read(&self, redis: &Redis) -> Sql {
        let cut = redis.cutting.map_or(0, |_| PIECES);
        if self.fenced {
            Sql { version: redis.version + 1, initial: redis.initial + cut }
        } else {
            Sql { version: redis.version, initial: redis.initial }
        }
    }

    fn calm(&self, state: &State) -> State {
        let mut state = state.clone();
        for _ in 0..3 {
            if let Some(cutting) = &mut state.redis.cutting {
                cutting.expired = true;
            }
            // An audit finds it, and an operator repairs it.
            if state.sql.is_none_or(|sql| sql.version < state.redis.version) {
                state.sql = Some(self.read(&state.redis));
            }
            Self::sync(&mut state);
        }
        state
    }
}

impl Model for Adoption {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let sql = Sql { version: 2, initial: INITIAL };
        vec![State {
            sql: Some(sql),
            redis: Redis::of(sql),
            admitted: 0,
            cutter: Cutter::Idle,
            gave_up: false,
            committed: false,
            is_lost: false,
            read: [None; 2],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Buy, Action::Sync]);
        match state.cutter {
            Cutter::Idle => actions.push(Action::Cut),
            Cutter::Committing(_) => {
                actions.extend([Action::Commit, Action::GiveUp]);
                if state.gave_up {
                    actions.push(Action::Undo);
                }
            }
            Cutter::Done => {}
        }
        if state.redis.cutting.is_some_and(|it| !it.expired) {
            actions.push(Action::Expire);
        }
        if state.is_lost {
            for process in 0..2 {
                actions.extend([Action::Read(process), Action::Adopt(process)]);
            }
        } else {
            actions.push(Action::Lose);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Buy => state.admitted += u8::from(state.redis.admit(0)),
            Action::Cut => {
                let version = state.sql?.version;
                let cut = state.redis.cut(PIECES, version, 0, Some(0));
                state.cutter = if cut { Cutter::Committing(version) } else { Cutter::Done };
            }
            Action::Commit => {
                let Cutter::Committing(version) = state.cutter else { return None };
                state.cutter = Cutter::Done;
                let passed = state.sql.as_mut()?.restock(-(PIECES as i8), Some(version));
                state.committed |= passed;
            }
            Action::GiveUp => state.gave_up = true,
            Action::Undo => {
                let Cutter::Committing(version) = state.cutter else { return None };
                state.sql.as_mut()?.fence(Some(version));
            }
            Action::Expire => state.redis.cutting.as_mut()?.expired = true,
            Action::Lose => {
                state.is_lost = true;
                // A cut that was committed is lost with SQL, and Redis has it.
                state.sql = None;
            }
            Action::Read(process) => state.read[process] = Some(self.read(&state.redis)),
            Action::Adopt(process) => {
                let read = state.read[process].take()?;
                // `adopt_sale` does nothing if SQL has the version that Redis had, or a newer one.
                let held = if self.fenced { read.version - 1 } else { read.version };
                if state.sql.is_none_or(|sql| sql.version < held) {
                    state.sql = Some(read);
                }
            }
            Action::Sync => Self::sync(&mut state),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_OVERSOLD, |_, state: &State| {
                state.sql.is_none_or(|sql| state.admitted <= sql.initial)
            }),
            Property::always(SETTLES, |model: &Self, state: &State| {
                let end = model.calm(state);
                let Some(sql) = end.sql else { return false };
                let pieces = if state.committed { INITIAL - PIECES } else { INITIAL };
                let Redis { version, initial, cutting, .. } = end.redis;
                !end.redis.is_damaged()
                    && cutting.is_none()
                    && (version, initial) == (sql.version, sql.initial)
                    // A commit that SQL lost before it reached Redis is undone with it.
                    && (initial == pieces || state.is_lost && initial == INITIAL)
            }),
            Property::sometimes("it is adopted during a cut", |_, state: &State| {
                state.is_lost && state.sql.is_some() && state.redis.cutting.is_some()
            }),
        ]
    }
}

const NOT_OVERSOLD: &str = "no more buyers than pieces";
const SETTLES: &str = "each piece is on sale, or was removed by a commit";

#[test]
fn an_adopted_sale_has_each_piece_once() {
    holds("adoption", Adoption { fenced: true });
}

#[test]
fn pieces_are_lost_if_a_sale_is_adopted_as_redis_has_it() {
    fails("adoption as it was", Adoption { fenced: false }, SETTLES);
}
