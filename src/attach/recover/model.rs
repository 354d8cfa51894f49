//! The recovery of stock and buyers beside a living service, as a state machine that is explored exhaustively.
//!
//! The service is that of the tutorials: one script admits a buyer (stock, set, entry); a consumer writes the order, unless
//! its user has any order or a recovery has locked the user, and then acknowledges; a job closes orders in SQL first, and
//! returns the piece to Redis later; stock is added in SQL first, and in Redis later, or taken from Redis first, and from SQL
//! later; and the piece of a buyer without an order goes back in Redis, while the entry is where it was. Each step of each of
//! them may be followed by any step of another one, each may stop for good, and a piece or a member of Redis may be lost.
//! Between a plan and its application, the operator reads it for as long as anything takes.
//!
//! | state or step here | code |
//! | --- | --- |
//! | [`Moment`] | [`super::stock::Moment`], `lua/attach_moment.lua` |
//! | [`Recovering::Members`], [`Recovering::Snapshot`] | the parts of a pass: `Watcher::pass`, `Database::snapshot` |
//! | [`Figures`], [`Figures::target`] | [`super::stock::Figures`] |
//! | `Begin`, `Next`, [`Recovering::Compared`] | `Lasting::pass`, [`super::stock::Compared`] |
//! | `Write` | `lua/attach_rebuild.lua` |
//! | `Plan` | `Recovery::judge`: [`super::plan::Buyer`] |
//! | `Take`, `Place`, `Acknowledge` | `lua/attach_take.lua`, `rows::place` with `refusal::Confirm` (`lua/attach_confirm.lua`), `Run::acknowledge` |
//! | the last entry of a user | [`super::newest::Newest`] |
//! | `Kill`, `LockEnds` | the recovery ends at any step; the lease of the lock of a user (`USER_LEASE`) ends |
//! | `Prompt` | [`super::plan::SalePlan::redis_stock`], compared in [`super::stock::Compared::target`]; the buyers to remove |
//!
//! Not modelled: buyers who are added to a set that was lost (`lua/attach_add_buyers.lua`), the replay of letters
//! (`lua/attach_replay.lua`), and the removal of more buyers than one page, each page of which is compared with the moment
//! again.
//!
//! **What is assumed.** Between its step in SQL and that in Redis, a service takes less time than from the end of the first
//! of [`PASSES`] passes to the begin of the last, or it never takes the second step. What the set shows (the buyer of a
//! closed order is still in it) needs no such assumption. `Place` looks at the buyers, and at the lock of the user, right
//! before its commit: a service that gives the piece of a buyer without an order back in the moment between the two, without
//! the lock of the user, sells it twice; and if the lock ends in that moment, because the process is stopped or Redis loses
//! it while the commit is on its way for longer than the lease, a consumer may write another order of the user. No server
//! knows both sides. A statement in the transaction cannot close this: a consumer of the tutorials looks for orders before
//! it takes the row of the sale. A unique index of the service on user and sale does.

use std::time::Instant;

use stateright::{Checker as _, Expectation, HasDiscoveries, Model, Path, Property};

use super::stock::{Figures, PASSES};

/// Users at most.
const USERS: usize = 3;

/// The rule by which a stock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Each page of entries is judged at a moment of its own, and what looks as if it could not be written drops out.
    Pages,
    /// Figures of one moment, at rest, that this many passes have seen.
    Moment(u8),
    /// None is set: entries are processed only.
    Entries,
}

/// What happens beside the sale.
#[derive(Clone, Debug)]
struct Shop {
    rule: Rule,
    /// Users, pieces at the beginning, and orders that are made at most.
    users: usize,
    pieces: i64,
    orders: usize,
    closes: bool,
    /// The piece goes back to Redis in two commands.
    in_two: bool,
    restocks: bool,
    loses: bool,
    /// A recovery also processes entries, and removes buyers if they have neither an order nor an entry.
    operates: bool,
    removes: bool,
    /// The piece of a buyer without an order goes back in Redis.
    returns: bool,
    /// When it is seen that the user of an entry is a buyer.
    looks: Looks,
    /// Pieces that Redis has and SQL does not. The service takes them and one more from Redis, and that one from SQL later.
    surplus: i64,
    /// A stock is set only if it is the one of the plan, and to what the plan has.
    compares: bool,
    /// Of the entries of a user, only the newest one becomes an order.
    newest: bool,
    /// The lease of the lock of a user may end while its order is written. The consumer locks the user and looks for orders,
    /// and writes later, also what was given back.
    slow: bool,
    /// The lock is confirmed before the commit.
    confirms: bool,
    /// The operator sees the buyers to remove, and no one is removed who has bought since.
    rechecks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Never,
    InThePlan,
    /// Also when it is taken, and before the commit.
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Undelivered,
    Pending,
    /// Acknowledged: the group has passed it.
    Passed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    None,
    Live,
    Closed,
}

/// An order: its ID is its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Order {
    user: usize,
    at: At,
    row: Row,
    /// A dead letter has its entry.
    buried: bool,
    /// The service has taken it back, or a recovery has removed its buyer.
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Consumer {
    Idle,
    Received(usize),
    /// It has locked the user and looked for orders: there was none.
    Looked(usize),
    Handled(usize),
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Closer {
    Idle,
    InSql(usize),
    /// The user is no buyer any more; the piece has yet to go back.
    Removed,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cut {
    Ready,
    InRedis,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Restock {
    Ready,
    InSql,
    Done,
}

/// What one script reads in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Moment {
    stock: i64,
    buyers: u32,
    added: usize,
    undelivered: usize,
    pending: usize,
}

/// A pass that has begun, and how many before it have seen the same figures at the same moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pass {
    moment: Moment,
    before: Option<(Figures, u8)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Recovering {
    Idle,
    /// A pass has read the moment, then the members of the set, then rows and stock of one snapshot, then the moment again.
    Moment(Pass),
    Members(Pass, u8),
    Snapshot(Pass, Figures, u8),
    Compared(Moment, Figures, u8, u8),
    /// An entry is taken and its user is locked, to write it or because its user has bought again; then its order is in SQL.
    Taken(usize, bool),
    Placed(usize),
    /// The rule by pages: buyers without an order; entries that will become one; the stock.
    Settled(Moment, u32),
    Judged(Moment, u32, usize, u8),
    Read(Moment, i64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    stock: i64,
    buyers: [bool; USERS],
    orders: Vec<Order>,
    sql_stock: i64,
    pieces: i64,
    consumer: Consumer,
    closer: Closer,
    restock: Restock,
    cut: Cut,
    lost: bool,
    killed: bool,
    locked: Option<usize>,
    /// Passes that began since the service did something in SQL and not yet in Redis.
    waits: u8,
    recovering: Recovering,
    /// An entry that the operator has seen, where it was, and whether its user had bought again.
    planned: Option<(usize, At, bool)>,
    /// The stock that the operator has seen, and the planned one.
    prompt: Option<(i64, i64)>,
    /// The buyers to remove that the operator has seen, and the number of orders then.
    removal: Option<(u8, usize)>,
    /// A recovery has raised the stock.
    raised: bool,
    /// It has written an order that was given back.
    revived: bool,
    /// It has removed a buyer who has bought since the plan.
    wronged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Buy(usize),
    Receive,
    Handle,
    AcknowledgeByConsumer,
    ConsumerDies,
    CloseInSql(usize),
    ReturnToRedis,
    CloserDies,
    RestockInSql,
    RestockInRedis,
    CutInRedis,
    CutInSql,
    GiveBack(usize),
    LosePiece,
    LoseMember(usize),
    Prompt,
    Begin,
    Next,
    Write,
    Plan(usize),
    Take,
    Place,
    Acknowledge,
    Kill,
    LockEnds,
}

impl State {
    fn moment(&self) -> Moment {
        let count = |at| self.orders.iter().filter(|it| it.at == at).count();
        Moment {
            stock: self.stock,
            buyers: self.buyers.iter().filter(|it| **it).count() as u32,
            added: self.orders.len(),
            undelivered: count(At::Undelivered),
            pending: count(At::Pending),
        }
    }

    fn has(&self, user: usize, row: Row) -> bool {
        self.orders.iter().any(|it| it.user == user && it.row == row)
    }

    /// Bits of the members.
    fn members(&self) -> u8 {
        (0..USERS).filter(|user| self.buyers[*user]).fold(0, |bits, user| bits | 1 << user)
    }

    /// What buyers were promised and what was not taken back. A user with a live order gets no second one.
    fn promises(&self) -> i64 {
        let stands = |it: &&Order| it.row != Row::None || !self.has(it.user, Row::Live);
        self.orders.iter().filter(|it| !it.ended).filter(stands).count() as i64
    }

    /// The user has bought nothing after this order.
    fn is_last(&self, id: usize) -> bool {
        !self.orders.iter().skip(id + 1).any(|it| it.user == self.orders[id].user)
    }

    /// The consumer has locked the user.
    fn consumer_locks(&self, user: usize) -> bool {
        matches!(self.consumer, Consumer::Looked(id) if self.orders[id].user == user)
    }

    /// The user has an entry that is not acknowledged.
    fn waits(&self, user: usize) -> bool {
        self.orders.iter().any(|it| it.user == user && it.at != At::Passed)
    }

    /// An order is written if the user has no live one, and no closed one that was made later.
    fn can_write(&self, id: usize) -> bool {
        let user = self.orders[id].user;
        let later = self.orders.iter().skip(id + 1);
        let is_later_closed = later.clone().any(|it| it.user == user && it.row == Row::Closed);
        self.orders[id].row == Row::None
            && !self.has(user, Row::Live)
            && !is_later_closed
            && self.sql_stock > 0
    }

    /// The service did something on one side and has yet to do it on the other.
    fn is_between(&self) -> bool {
        matches!(self.closer, Closer::InSql(_) | Closer::Removed)
            || self.restock == Restock::InSql
            || self.cut == Cut::InRedis
    }

    /// The figures, and the bits of the buyers with neither an order nor an entry.
    fn figures(&self, members: u8, moment: &Moment) -> (Figures, u8) {
        let is_member = |user: &usize| members & 1 << user != 0;
        let lacking = (0..USERS).filter(is_member).filter(|it| !self.has(*it, Row::Live));
        let without = lacking.clone().filter(|it| !self.has(*it, Row::Closed));
        let closed = lacking.filter(|it| self.has(*it, Row::Closed)).count();
        let without = without.fold(0_u8, |bits, user| bits | 1 << user);
        let unwritten = (0..USERS).filter(|user| {
            let waiting = self.orders.iter().filter(|it| it.user == *user && it.at != At::Passed);
            !self.has(*user, Row::Live) && waiting.clone().any(|it| it.row == Row::None)
        });
        let figures = Figures {
            redis_stock: Some(moment.stock),
            sql_stock: self.sql_stock,
            in_flight: Some((moment.undelivered + moment.pending) as u64),
            unwritten: Some(unwritten.count() as u64),
            without_order: Some(u64::from(without.count_ones())),
            only_closed: Some(closed as u64),
        };
        (figures, without)
    }
}

impl Model for Shop {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            stock: self.pieces + self.surplus,
            buyers: [false; USERS],
            orders: Vec::new(),
            sql_stock: self.pieces,
            pieces: self.pieces,
            consumer: Consumer::Idle,
            closer: Closer::Idle,
            restock: Restock::Ready,
            cut: Cut::Ready,
            lost: false,
            killed: false,
            locked: None,
            waits: 0,
            recovering: Recovering::Idle,
            planned: None,
            prompt: None,
            removal: None,
            raised: false,
            revived: false,
            wronged: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend((0..self.users).map(Step::Buy));
        steps.extend([Step::Receive, Step::Handle, Step::AcknowledgeByConsumer]);
        steps.push(Step::ConsumerDies);
        if self.closes {
            steps.extend((0..state.orders.len()).map(Step::CloseInSql));
            steps.extend([Step::ReturnToRedis, Step::CloserDies]);
        }
        if self.restocks {
            steps.extend([Step::RestockInSql, Step::RestockInRedis]);
        }
        if self.surplus > 0 {
            steps.extend([Step::CutInRedis, Step::CutInSql, Step::Prompt]);
        }
        if self.returns {
            steps.extend((0..self.users).map(Step::GiveBack));
            steps.push(Step::ReturnToRedis);
        }
        if self.removes && self.returns {
            steps.push(Step::Prompt);
        }
        if self.loses {
            steps.push(Step::LosePiece);
            steps.extend((0..USERS).map(Step::LoseMember));
        }
        if self.rule != Rule::Entries {
            steps.extend([Step::Begin, Step::Next, Step::Write]);
        }
        steps.push(Step::Kill);
        if self.operates {
            steps.extend((0..state.orders.len()).map(Step::Plan));
            steps.extend([Step::Take, Step::Place, Step::Acknowledge, Step::LockEnds]);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let applied = match step {
            Step::Buy(_)
            | Step::Receive
            | Step::Handle
            | Step::AcknowledgeByConsumer
            | Step::ConsumerDies => self.sell(&mut state, step),
            Step::CloseInSql(_)
            | Step::ReturnToRedis
            | Step::CloserDies
            | Step::RestockInSql
            | Step::RestockInRedis
            | Step::CutInRedis
            | Step::CutInSql
            | Step::GiveBack(_)
            | Step::LosePiece
            | Step::LoseMember(_) => self.give_back(&mut state, step),
            _ => self.recover(&mut state, step),
        };
        if !state.is_between() {
            state.waits = 0;
        }
        applied.then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no piece is promised twice", |_, state: &State| {
                state.promises() <= state.pieces
            }),
            Property::always("a user has one live order", |_, state: &State| {
                (0..USERS).all(|user| {
                    let live = state.orders.iter().filter(|it| it.user == user);
                    live.filter(|it| it.row == Row::Live).count() <= 1
                })
            }),
            Property::always("SQL never sells more than it has", |_, state: &State| {
                let live = state.orders.iter().filter(|it| it.row == Row::Live).count() as i64;
                state.sql_stock >= 0 && state.sql_stock + live == state.pieces
            }),
            Property::always(
                "no order is written that was given back",
                |shop: &Self, state: &State| shop.looks != Looks::Always || !state.revived,
            ),
            Property::always("no buyer is removed who has bought since", |_, state: &State| {
                !state.wronged
            }),
            // Without it, the rule could pass by doing nothing.
            Property::sometimes("a lost piece is raised again", |shop: &Self, state: &State| {
                !shop.loses || state.raised
            }),
        ]
    }
}

impl Shop {
    fn sell(&self, state: &mut State, step: Step) -> bool {
        match (step, state.consumer) {
            (Step::Buy(user), _) => {
                if state.stock <= 0 || state.buyers[user] || state.orders.len() == self.orders {
                    return false;
                }
                state.stock -= 1;
                state.buyers[user] = true;
                let (at, row) = (At::Undelivered, Row::None);
                state.orders.push(Order { user, at, row, buried: false, ended: false });
            }
            (Step::Receive, Consumer::Idle) => {
                let next = state.orders.iter().position(|it| it.at == At::Undelivered);
                let Some(id) = next else { return false };
                state.orders[id].at = At::Pending;
                state.consumer = Consumer::Received(id);
            }
            (Step::Handle, Consumer::Received(id)) if self.slow => {
                let user = state.orders[id].user;
                let has_any = state.has(user, Row::Live) || state.has(user, Row::Closed);
                let may = state.locked != Some(user) && !has_any;
                state.consumer = if may { Consumer::Looked(id) } else { Consumer::Handled(id) };
            }
            (Step::Handle, Consumer::Looked(id)) => {
                // The order ID is the primary key.
                if state.orders[id].row == Row::None && state.sql_stock > 0 {
                    state.orders[id].row = Row::Live;
                    state.sql_stock -= 1;
                }
                state.consumer = Consumer::Handled(id);
            }
            (Step::Handle, Consumer::Received(id)) => {
                let user = state.orders[id].user;
                // It counts closed orders as well, and gives up if it does not get the lock.
                let has_any = state.has(user, Row::Live) || state.has(user, Row::Closed);
                // What it has given back, it does not write.
                let may = !has_any && !state.orders[id].ended;
                if state.locked != Some(user) && may && state.sql_stock > 0 {
                    state.orders[id].row = Row::Live;
                    state.sql_stock -= 1;
                }
                state.consumer = Consumer::Handled(id);
            }
            (Step::AcknowledgeByConsumer, Consumer::Handled(id)) => {
                state.orders[id].at = At::Passed;
                state.consumer = Consumer::Idle;
            }
            (
                Step::ConsumerDies,
                Consumer::Received(_) | Consumer::Looked(_) | Consumer::Handled(_),
            ) => {
                state.consumer = Consumer::Dead;
            }
            _ => return false,
        }
        true
    }

    fn give_back(&self, state: &mut State, step: Step) -> bool {
        match (step, state.closer, state.restock) {
            (Step::CloseInSql(id), Closer::Idle, _) if state.orders[id].row == Row::Live => {
                state.orders[id].row = Row::Closed;
                state.orders[id].ended = true;
                state.sql_stock += 1;
                state.closer = Closer::InSql(id);
            }
            (Step::ReturnToRedis, Closer::InSql(id), _) => {
                let user = state.orders[id].user;
                state.buyers[user] = false;
                state.closer = if self.in_two { Closer::Removed } else { Closer::Idle };
                state.stock += i64::from(!self.in_two);
            }
            (Step::ReturnToRedis, Closer::Removed, _) => {
                state.stock += 1;
                state.closer = Closer::Idle;
            }
            (Step::CloserDies, Closer::InSql(_) | Closer::Removed, _) => {
                state.closer = Closer::Dead;
            }
            (Step::RestockInSql, _, Restock::Ready) => {
                state.sql_stock += 1;
                state.pieces += 1;
                state.restock = Restock::InSql;
            }
            (Step::RestockInRedis, _, Restock::InSql) => {
                state.stock += 1;
                state.restock = Restock::Done;
            }
            (Step::CutInRedis, ..)
                if state.cut == Cut::Ready && state.stock == self.pieces + self.surplus =>
            {
                state.stock = self.pieces - 1;
                state.cut = Cut::InRedis;
            }
            (Step::CutInSql, ..) if state.cut == Cut::InRedis && state.sql_stock > 0 => {
                state.sql_stock -= 1;
                state.pieces -= 1;
                state.cut = Cut::Done;
            }
            (Step::GiveBack(user), Closer::Idle, _)
                if state.buyers[user] && !state.has(user, Row::Live) =>
            {
                let of_user = state.orders.iter_mut().filter(|it| it.user == user);
                of_user.filter(|it| it.row == Row::None).for_each(|it| it.ended = true);
                state.buyers[user] = false;
                state.closer = if self.in_two { Closer::Removed } else { Closer::Idle };
                state.stock += i64::from(!self.in_two);
            }
            (Step::LosePiece, ..) if !state.lost && state.stock > 0 => {
                state.stock -= 1;
                state.lost = true;
            }
            // Of a user with an order: what neither SQL nor the set knows leaves no trace.
            (Step::LoseMember(user), ..)
                if !state.lost && state.buyers[user] && state.has(user, Row::Live) =>
            {
                state.lost = true;
                state.buyers[user] = false;
            }
            _ => return false,
        }
        true
    }

    /// The steps of a recovery.
    fn recover(&self, state: &mut State, step: Step) -> bool {
        match step {
            Step::Kill if !state.killed && state.recovering != Recovering::Idle => {
                state.killed = true;
                state.recovering = Recovering::Idle;
                return true;
            }
            Step::LockEnds => {
                let holds =
                    matches!(state.recovering, Recovering::Taken(..) | Recovering::Placed(_));
                return (!holds || self.slow) && state.locked.take().is_some();
            }
            Step::Plan(id) => return self.plan(state, id),
            Step::Prompt if self.surplus == 0 => return Self::see_removed(state),
            Step::Prompt => return Self::prompt(state),
            _ => {}
        }
        let next = match (step, state.recovering.clone()) {
            (Step::Take, Recovering::Idle) => return self.take(state),
            // Rolled back; an entry that was passed is acknowledged again.
            (Step::Place, Recovering::Taken(id, false)) if !self.is_confirmed(state, id) => {
                state.locked = None;
                Recovering::Idle
            }
            (Step::Place, Recovering::Taken(id, is_replaced)) => {
                let is_given_up = is_replaced || !state.can_write(id);
                if state.orders[id].row == Row::None && is_given_up {
                    // Copied to the dead letters and acknowledged in one step.
                    state.orders[id].buried = true;
                    state.orders[id].at = At::Passed;
                    state.locked = None;
                    Recovering::Idle
                } else {
                    if state.orders[id].row == Row::None {
                        state.orders[id].row = Row::Live;
                        state.revived |= state.orders[id].ended;
                        state.orders[id].ended = false;
                        state.sql_stock -= 1;
                    }
                    Recovering::Placed(id)
                }
            }
            (Step::Acknowledge, Recovering::Placed(id)) => {
                state.orders[id].at = At::Passed;
                state.locked = None;
                Recovering::Idle
            }
            (Step::Begin | Step::Next | Step::Write, before) => match self.rule {
                Rule::Pages => return Self::by_pages(state, step, before),
                Rule::Moment(passes) => return self.by_moments(state, step, before, passes),
                Rule::Entries => return false,
            },
            _ => return false,
        };
        state.recovering = next;
        true
    }

    /// An entry that the operator sees in a plan.
    fn plan(&self, state: &mut State, id: usize) -> bool {
        let Order { user, at, row, buried, .. } = state.orders[id];
        let is_last = state.is_last(id);
        let is_replaced = self.newest && !is_last;
        let may = match at {
            At::Undelivered | At::Pending => {
                self.looks == Looks::Never || state.buyers[user] || is_replaced
            }
            // The set stands for the newest entry of a user.
            At::Passed => {
                let lacks = row == Row::None && state.buyers[user] && !state.has(user, Row::Live);
                // An older one in flight does not count.
                lacks && is_last && !buried && (self.newest || !state.waits(user))
            }
        };
        let may = may && state.recovering == Recovering::Idle && state.planned.is_none();
        if may {
            state.planned = Some((id, at, is_replaced));
        }
        may
    }

    fn take(&self, state: &mut State) -> bool {
        let Some((id, planned, is_replaced)) = state.planned.take() else { return false };
        let Order { user, at, .. } = state.orders[id];
        let first = state.orders.iter().position(|it| it.at == At::Undelivered);
        let may = match (planned, at) {
            (At::Undelivered, At::Undelivered) => first == Some(id),
            (At::Passed, At::Passed) | (_, At::Pending) => true,
            _ => false,
        };
        let may = may && (is_replaced || self.is_promised(state, id));
        if may && state.locked.is_none() && !state.consumer_locks(user) {
            state.orders[id].at = At::Pending;
            state.locked = Some(user);
            state.recovering = Recovering::Taken(id, is_replaced);
        }
        true
    }

    fn is_promised(&self, state: &State, id: usize) -> bool {
        let is_known = state.buyers[state.orders[id].user] && (!self.newest || state.is_last(id));
        self.looks != Looks::Always || is_known
    }

    /// The last look before the commit.
    fn is_confirmed(&self, state: &State, id: usize) -> bool {
        let is_locked = state.locked == Some(state.orders[id].user);
        self.is_promised(state, id) && (is_locked || !self.confirms)
    }

    /// The buyers to remove that the operator sees in a plan.
    fn see_removed(state: &mut State) -> bool {
        let (_, without) = state.figures(state.members(), &state.moment());
        let removal = Some((without, state.orders.len()));
        let is_new =
            without != 0 && state.recovering == Recovering::Idle && state.removal != removal;
        if is_new {
            state.removal = removal;
        }
        is_new
    }

    /// The stock that the operator sees in a plan.
    fn prompt(state: &mut State) -> bool {
        let (figures, _) = state.figures(state.members(), &state.moment());
        let target = figures.target().filter(|_| state.recovering == Recovering::Idle);
        let prompt = target.map(|target| (state.stock, target));
        let is_new = prompt.is_some() && prompt != state.prompt;
        if is_new {
            state.prompt = prompt;
        }
        is_new
    }

    /// The rule that this one has replaced.
    fn by_pages(state: &mut State, step: Step, before: Recovering) -> bool {
        let now = state.moment();
        state.recovering = match (step, before) {
            (Step::Begin, Recovering::Idle) => {
                let without = (0..USERS).filter(|user| {
                    let has_order = state.has(*user, Row::Live) || state.has(*user, Row::Closed);
                    state.buyers[*user] && !has_order && !state.waits(*user)
                });
                Recovering::Settled(now, without.count() as u32)
            }
            (Step::Next, Recovering::Settled(moment, without)) => {
                Recovering::Judged(moment, without, 0, 0)
            }
            // A page of one entry, whose stock is what the pages before would leave.
            (Step::Next, Recovering::Judged(moment, without, id, writes))
                if id < state.orders.len() =>
            {
                let order = state.orders[id];
                let is_written = order.at != At::Passed
                    && order.row == Row::None
                    && !state.has(order.user, Row::Live)
                    && state.sql_stock > i64::from(writes.count_ones());
                Recovering::Judged(moment, without, id + 1, writes | u8::from(is_written) << id)
            }
            (Step::Next, Recovering::Judged(moment, without, _, writes)) => {
                let of_plan =
                    state.orders.iter().enumerate().filter(|(id, _)| writes & 1 << id != 0);
                let unwritten = of_plan.filter(|(_, it)| it.row == Row::None).count() as i64;
                let left = (state.sql_stock - unwritten).max(0);
                let least = (left - i64::from(without)).max(0);
                let target = now.stock.clamp(least, left);
                let is_quiet = now.stock == moment.stock && now.added == moment.added;
                if is_quiet { Recovering::Read(now, target) } else { Recovering::Idle }
            }
            (Step::Write, Recovering::Read(moment, target)) => {
                if now.stock == moment.stock && now.added == moment.added {
                    state.raised |= target > state.stock;
                    state.stock = target;
                }
                Recovering::Idle
            }
            _ => return false,
        };
        true
    }

    fn by_moments(&self, state: &mut State, step: Step, before: Recovering, passes: u8) -> bool {
        let now = state.moment();
        state.recovering = match (step, before) {
            (Step::Begin, before @ (Recovering::Idle | Recovering::Compared(..))) => {
                if self.surplus > 0 && state.prompt.is_none() {
                    return false;
                }
                if self.removes && self.returns && state.removal.is_none() {
                    return false;
                }
                // What is assumed of the service: its second step comes before the last of the passes begins. The first
                // one may have begun before its first step. Passes of a planned lowering do not wait for it.
                let waits = state.prompt.is_none_or(|(now, after)| after > now);
                if waits && state.is_between() && state.waits + 2 >= PASSES {
                    return false;
                }
                state.waits = (state.waits + u8::from(state.is_between())).min(PASSES);
                match before {
                    Recovering::Compared(moment, figures, _, seen)
                        if moment == now && seen < passes =>
                    {
                        Recovering::Moment(Pass { moment, before: Some((figures, seen)) })
                    }
                    Recovering::Compared(..) => Recovering::Idle,
                    _ => Recovering::Moment(Pass { moment: now, before: None }),
                }
            }
            (Step::Next, Recovering::Moment(pass)) => Recovering::Members(pass, state.members()),
            (Step::Next, Recovering::Members(pass, members)) => {
                let (figures, without) = state.figures(members, &pass.moment);
                Recovering::Snapshot(pass, figures, without)
            }
            (Step::Next, Recovering::Snapshot(Pass { moment, before }, figures, without)) => {
                let seen = match before {
                    _ if moment != now => return Self::gives_up(state),
                    Some((same, seen)) if same == figures => seen + 1,
                    _ => 1,
                };
                Recovering::Compared(moment, figures, without, seen)
            }
            (Step::Write, Recovering::Compared(moment, mut figures, without, seen))
                if seen == passes =>
            {
                let (seen, count) = state.removal.take().unwrap_or((u8::MAX, usize::MAX));
                let removed: Vec<usize> =
                    (0..USERS).filter(|user| without & seen & 1 << user != 0).collect();
                let bought = state.orders.get(count..).unwrap_or_default();
                let has_bought =
                    removed.iter().any(|user| bought.iter().any(|it| it.user == *user));
                if self.rechecks && has_bought {
                    return Self::gives_up(state);
                }
                if moment == now && self.removes && figures.in_flight == Some(0) {
                    state.wronged |= has_bought;
                    for user in removed.iter().copied() {
                        state.buyers[user] = false;
                        let lost = state.orders.iter_mut().filter(|it| it.user == user);
                        lost.for_each(|it| it.ended = true);
                    }
                    let left = without.count_ones() as usize - removed.len();
                    figures.without_order = Some(left as u64);
                }
                let prompt = state.prompt.take();
                if moment == now
                    && let Some(target) = figures.target()
                    && (!self.compares || prompt.is_none_or(|it| it == (moment.stock, target)))
                {
                    state.raised |= target > state.stock;
                    state.stock = target;
                }
                Recovering::Idle
            }
            _ => return false,
        };
        true
    }

    fn gives_up(state: &mut State) -> bool {
        state.recovering = Recovering::Idle;
        true
    }
}

const SALE: Shop = Shop {
    rule: Rule::Moment(PASSES),
    users: 3,
    pieces: 1,
    orders: 3,
    closes: false,
    in_two: false,
    restocks: false,
    loses: false,
    operates: false,
    removes: false,
    returns: false,
    looks: Looks::Always,
    surplus: 0,
    compares: true,
    newest: true,
    slow: false,
    confirms: true,
    rechecks: true,
};

/// Explores all states, or those up to the first fault; returns what does not hold, with the steps that show it.
fn explore(what: &str, shop: Shop) -> Vec<&'static str> {
    let started = Instant::now();
    let checker = shop.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    println!(
        "{what}: {} states, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f32()
    );
    let found = checker.discoveries();
    let mut failed = Vec::new();
    for property in checker.model().properties() {
        let path = found.get(property.name);
        let is_always = property.expectation == Expectation::Always;
        if path.is_some() == is_always && (is_always || failed.is_empty()) {
            let steps = path.cloned().map_or_else(Vec::new, Path::into_actions);
            println!("  not so: {}: {steps:?}", property.name);
            failed.push(property.name);
        }
    }
    failed
}

const TWICE: [&str; 1] = ["no piece is promised twice"];
const REVIVED: [&str; 1] = ["no order is written that was given back"];
const NONE: [&str; 0] = [];

/// The rule that judged each page at a moment of its own, and took a closed order for a returned one: the model sees both.
#[test]
fn the_rule_by_pages_sells_a_piece_twice() {
    let old = Shop { rule: Rule::Pages, ..SALE };
    assert_eq!(explore("by pages, a living consumer", Shop { pieces: 2, ..old.clone() }), TWICE);
    assert_eq!(
        explore("by pages, closed in SQL first", Shop { closes: true, ..old.clone() }),
        TWICE
    );
    let restocks = Shop { restocks: true, ..old };
    assert_eq!(explore("by pages, restocked in SQL first", restocks), TWICE);
}

#[test]
fn one_pass_is_not_enough() {
    let hasty = Shop { rule: Rule::Moment(1), ..SALE };
    let restocks = Shop { restocks: true, ..hasty.clone() };
    assert_eq!(explore("one pass, restocked in SQL first", restocks), TWICE);
    let in_two = Shop { closes: true, in_two: true, ..hasty };
    assert_eq!(explore("one pass, returned in two steps", in_two), TWICE);
}

/// The service gives a piece back while the operator reads the plan: the entry is no promise any more, wherever it waits.
#[test]
fn an_entry_that_is_taken_without_a_look_at_its_buyer_sells_a_piece_twice() {
    let returns = Shop { users: 2, orders: 2, operates: true, returns: true, ..SALE };
    for looks in [Looks::Never, Looks::InThePlan] {
        let shop = Shop { looks, ..returns.clone() };
        assert_eq!(explore(&format!("given back, looks {looks:?}"), shop), TWICE);
    }
}

#[test]
fn an_entry_whose_buyer_was_given_back_sells_no_piece_twice() {
    let returns = Shop { operates: true, returns: true, ..SALE };
    let entries = Shop { rule: Rule::Entries, ..returns.clone() };
    assert_eq!(explore("given back since the plan", entries), NONE);
    let in_two = Shop { users: 2, orders: 2, in_two: true, ..returns };
    assert_eq!(explore("given back in two steps, and stocks are set", in_two), NONE);
}

/// The user has bought again, and the service has replied with another order: wherever the older entry waits, and whenever the
/// newer one is added.
#[test]
fn an_entry_whose_user_has_bought_again_is_not_written() {
    let returns = Shop { rule: Rule::Entries, operates: true, returns: true, ..SALE };
    let any = Shop { users: 1, orders: 2, newest: false, ..returns.clone() };
    assert_eq!(explore("bought again, any entry", any), REVIVED);
    let again = Shop { users: 2, ..returns };
    assert_eq!(explore("bought again, the newest entry", again), NONE);
}

/// The database takes longer than the lease of the lock, and a consumer locks the user meanwhile.
#[test]
fn an_order_is_committed_only_under_the_lock_of_its_user() {
    let entries = Shop { rule: Rule::Entries, users: 1, pieces: 2, operates: true, ..SALE };
    let slow = Shop { returns: true, slow: true, ..entries };
    let trusts = Shop { confirms: false, ..slow.clone() };
    assert_eq!(explore("the lock ends, trusted", trusts), ["a user has one live order"]);
    assert_eq!(explore("the lock ends, confirmed", slow.clone()), NONE);
    let two = Shop { users: 2, ..slow };
    assert_eq!(explore("the lock ends, confirmed, two users", two), NONE);
}

/// The consumer acknowledges an entry without an order while the operator reads the plan: its buyer is one with nothing, as
/// the one whom the operator has seen.
#[test]
fn a_buyer_who_has_bought_since_the_plan_is_not_removed() {
    let removes = Shop { users: 1, operates: true, returns: true, removes: true, ..SALE };
    let trusts = Shop { rechecks: false, ..removes.clone() };
    let wronged = ["no buyer is removed who has bought since"];
    assert_eq!(explore("bought since the plan, removed", trusts), wronged);
    assert_eq!(explore("bought since the plan", removes), NONE);
}

/// The service takes stock from Redis while the operator reads a plan that lowers it, and from SQL later: a lowering does not
/// wait, and what is less than SQL has would be raised.
#[test]
fn a_stock_that_was_changed_since_the_plan_is_not_set() {
    let cuts = Shop { users: 2, pieces: 2, orders: 2, surplus: 1, ..SALE };
    let trusts = Shop { compares: false, ..cuts.clone() };
    assert_eq!(explore("cut in Redis since the plan, trusted", trusts), TWICE);
    assert_eq!(explore("cut in Redis since the plan", cuts), NONE);
}

#[test]
fn figures_of_one_moment_that_last_sell_no_piece_twice() {
    let sold_out = Shop { pieces: 2, loses: true, ..SALE };
    assert_eq!(explore("a living consumer, losses", sold_out), NONE);
    let closes = Shop { users: 2, closes: true, in_two: true, loses: true, ..SALE };
    assert_eq!(explore("closed in SQL first, losses", closes), NONE);
    let restocks = Shop { restocks: true, loses: true, ..SALE };
    assert_eq!(explore("restocked in SQL first, losses", restocks), NONE);
}

#[test]
fn a_recovery_that_also_processes_entries_sells_no_piece_twice() {
    let losses = Shop { loses: true, operates: true, ..SALE };
    assert_eq!(explore("entries are processed, losses", losses), NONE);
    let written = Shop { users: 2, closes: true, operates: true, ..SALE };
    assert_eq!(explore("entries are processed, closed in SQL first", written), NONE);
    let removes = Shop { operates: true, removes: true, ..SALE };
    assert_eq!(explore("buyers without an order are removed", removes), NONE);
}
