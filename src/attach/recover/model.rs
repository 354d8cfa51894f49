//! The recovery of stock and buyers beside a living service, as a state machine that is explored exhaustively.
//!
//! The service is that of the tutorials: one script admits a buyer (stock, set, entry); a consumer writes the order, unless
//! its user has any order or a recovery has locked the user, and then acknowledges; a job closes orders in SQL first, and
//! returns the piece to Redis later; stock is added in SQL first, and in Redis later. Each step of each of them may be
//! followed by any step of another one, each may stop for good, and a piece or a member of Redis may be lost.
//!
//! | state or step here | code |
//! | --- | --- |
//! | [`Moment`] | [`super::stock::Moment`], `lua/attach_moment.lua` |
//! | [`Recovering::Members`], [`Recovering::Snapshot`] | the parts of a pass: `Watcher::pass`, `Database::snapshot` |
//! | [`Figures`], [`Figures::target`] | [`super::stock::Figures`] |
//! | [`Recovering::Compared`] | [`super::stock::Lasting`] |
//! | `Write` | `lua/attach_rebuild.lua` |
//! | `Take`, `Place`, `Acknowledge` | `lua/attach_take.lua`, `rows::place`, `Run::process` |
//!
//! **What is assumed.** Between its step in SQL and that in Redis, a service takes less time than from the end of the first
//! of [`PASSES`] passes to the begin of the last, or it never takes the second step. What the set shows (the buyer of a
//! closed order is still in it) needs no such assumption.

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
    /// An entry is taken and its user is locked; then its order is in SQL.
    Taken(usize),
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
    lost: bool,
    killed: bool,
    locked: Option<usize>,
    /// Passes that began since the service did something in SQL and not yet in Redis.
    waits: u8,
    recovering: Recovering,
    /// A recovery has raised the stock.
    raised: bool,
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
    LosePiece,
    LoseMember(usize),
    Begin,
    Next,
    Write,
    Take(usize),
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

    /// What buyers were told and nobody has taken back. A user with a live order gets no second one.
    fn promises(&self) -> i64 {
        let stands = |it: &&Order| it.row != Row::None || !self.has(it.user, Row::Live);
        self.orders.iter().filter(|it| !it.ended).filter(stands).count() as i64
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

    /// The service did something in SQL and has yet to do it in Redis.
    fn is_between(&self) -> bool {
        matches!(self.closer, Closer::InSql(_) | Closer::Removed) || self.restock == Restock::InSql
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
            stock: self.pieces,
            buyers: [false; USERS],
            orders: Vec::new(),
            sql_stock: self.pieces,
            pieces: self.pieces,
            consumer: Consumer::Idle,
            closer: Closer::Idle,
            restock: Restock::Ready,
            lost: false,
            killed: false,
            locked: None,
            waits: 0,
            recovering: Recovering::Idle,
            raised: false,
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
        if self.loses {
            steps.push(Step::LosePiece);
            steps.extend((0..USERS).map(Step::LoseMember));
        }
        steps.extend([Step::Begin, Step::Next, Step::Write, Step::Kill]);
        if self.operates {
            steps.extend((0..state.orders.len()).map(Step::Take));
            steps.extend([Step::Place, Step::Acknowledge, Step::LockEnds]);
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
            (Step::Handle, Consumer::Received(id)) => {
                let user = state.orders[id].user;
                // It counts closed orders as well, and gives up if it does not get the lock.
                let has_any = state.has(user, Row::Live) || state.has(user, Row::Closed);
                if state.locked != Some(user) && !has_any && state.sql_stock > 0 {
                    state.orders[id].row = Row::Live;
                    state.sql_stock -= 1;
                }
                state.consumer = Consumer::Handled(id);
            }
            (Step::AcknowledgeByConsumer, Consumer::Handled(id)) => {
                state.orders[id].at = At::Passed;
                state.consumer = Consumer::Idle;
            }
            (Step::ConsumerDies, Consumer::Received(_) | Consumer::Handled(_)) => {
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
                    matches!(state.recovering, Recovering::Taken(_) | Recovering::Placed(_));
                return !holds && state.locked.take().is_some();
            }
            Step::Take(id) => return state.recovering == Recovering::Idle && Self::take(state, id),
            _ => {}
        }
        let next = match (step, state.recovering.clone()) {
            (Step::Place, Recovering::Taken(id)) => {
                if state.orders[id].row == Row::None && !state.can_write(id) {
                    // Copied to the dead letters and acknowledged in one step.
                    state.orders[id].buried = true;
                    state.orders[id].at = At::Passed;
                    state.locked = None;
                    Recovering::Idle
                } else {
                    if state.orders[id].row == Row::None {
                        state.orders[id].row = Row::Live;
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
            },
            _ => return false,
        };
        state.recovering = next;
        true
    }

    fn take(state: &mut State, id: usize) -> bool {
        let Order { user, at, row, buried, .. } = state.orders[id];
        let first = state.orders.iter().position(|it| it.at == At::Undelivered);
        let is_last = !state.orders.iter().skip(id + 1).any(|it| it.user == user);
        let may = match at {
            At::Undelivered => first == Some(id),
            At::Pending => true,
            // The set stands for the newest entry of a user.
            At::Passed => {
                let lacks = row == Row::None && state.buyers[user] && !state.has(user, Row::Live);
                lacks && is_last && !buried && !state.waits(user)
            }
        };
        if !may || state.locked.is_some() {
            return false;
        }
        state.orders[id].at = At::Pending;
        state.locked = Some(user);
        state.recovering = Recovering::Taken(id);
        true
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
                // What is assumed of the service: its second step comes before the last of the passes begins. The first
                // one may have begun before its first step.
                if state.is_between() && state.waits + 2 >= PASSES {
                    return false;
                }
                state.waits += u8::from(state.is_between());
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
                if moment == now && self.removes && figures.in_flight == Some(0) {
                    for user in (0..USERS).filter(|user| without & 1 << user != 0) {
                        state.buyers[user] = false;
                        let lost = state.orders.iter_mut().filter(|it| it.user == user);
                        lost.for_each(|it| it.ended = true);
                    }
                    figures.without_order = Some(0);
                }
                if moment == now
                    && let Some(target) = figures.target()
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
