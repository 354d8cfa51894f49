//! The protocol of [`migrate`](super) as a state machine, explored exhaustively.
//!
//! Both sides, their buyers, payments and consumer act at any time between two steps of a run. A run may be killed at
//! each step, its lock may expire while it is stopped, so that another run begins beside it, a commit may arrive after
//! its run has given up, and a key of the service may be changed while an operator is asked. Most steps have the names
//! of the functions that take them. The others: `Compare` and `Import` are parts of `fence_and_import`, `Freeze` is
//! `freeze_orders`, which `thaw_orders` undoes in `PlanAgain`, `PlanAgain` is `plan_back`, `Clear` is `forget_return`; the command line ends (`EndSale`) and
//! archives (`Archive`) the sale of the engine, and asks the operator (`AskThere`, `AskBack`). `Rename` is a step of
//! the former rule, which marks and renames separately.
//!
//! Not modelled: a return that thaws the orders after the tables of the service were written, because a later step failed.
//!
//! Bounds: three buyers for two units, of which one is sold at the start; three runs, two of them at a time; one change
//! of a key by others; one failure to end the sale. Redis and SQL of the engine are taken as one: how they agree is the
//! subject of other models. The tables of the service are read in one moment: what changes them during a read changes
//! them before or after it, and the plan is compared again after the stock was renamed.

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

/// Units of the sale.
const UNITS: u8 = 2;
const USERS: usize = 3;
/// Runs that begin at all.
const RUNS: u8 = 3;

/// The guards of the protocol. Each was missing once, and the model finds what happens without it.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// One script checks the keys that it writes, marks the sale and renames its stock.
    marks_with_rename: bool,
    /// The last step of a return rejects a stock that it has not written.
    checks_stock: bool,
    /// Orders are frozen in the engine before they are read for the last time.
    freezes: bool,
    /// An older run changes nothing after a newer one has begun.
    fences: bool,
}

const RULE: Rule =
    Rule { marks_with_rename: true, checks_stock: true, freezes: true, fences: true };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Hash)]
enum Row {
    #[default]
    None,
    Unpaid,
    Paid,
}

type Rows = [Row; USERS];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Sale {
    #[default]
    None,
    Running,
    Paused,
    Ended,
    Archived,
}

/// The record of a return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Record {
    #[default]
    None,
    Begun,
    Done,
}

/// The sale as a plan has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Plan {
    stock: Option<u8>,
    buyers: u8,
    left: u8,
    rows: Rows,
    entries: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark {
    /// The run that moves the sale.
    token: u8,
    /// When it is created in the engine: the run that has marked it.
    created: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Raises the fence, reads the stage, and takes the mark over.
    Claim,
    Claimed,
    /// The operator is asked.
    AskThere,
    /// Only with separate steps: marked, not renamed.
    Rename,
    Fence,
    Compare,
    Import,
    PutBack,
    Unfence,
    Carry,
    Finish,
    AskBack,
    BeginReturn,
    EndSale,
    Freeze,
    PlanAgain,
    WriteRows,
    Swap,
    Archive,
    Clear,
    /// Undoes the record of a return whose sale has not ended.
    Withdraw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    token: u8,
    back: bool,
    step: Step,
    plan: Plan,
    /// The plan was made after the stock was renamed, by an earlier run.
    is_fenced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    // Redis of the service.
    stock: Option<u8>,
    moving: Option<u8>,
    mark: Option<Mark>,
    record: Record,
    buyers: u8,
    entries: u8,
    /// Somebody else has written the stock.
    is_foreign: bool,
    // Its tables.
    left: u8,
    rows: Rows,
    // The engine.
    sale: Sale,
    created: u8,
    at_engine: Rows,
    fence: u8,
    is_frozen: bool,
    /// A transaction that imports the sale, whose commit has not arrived.
    late: Option<(Mark, Rows)>,
    // Runs.
    runs: [Option<Run>; 2],
    holder: Option<u8>,
    begun: u8,
    foreign_changes: u8,
    failures: u8,
    /// A run has said that the sale is back.
    said_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    BuyAtService(usize),
    BuyAtEngine(usize),
    Consume(usize),
    PayAtService(usize),
    PayAtEngine(usize),
    Pause,
    Resume,
    /// While an operator is asked.
    SetStock,
    DeleteStock,
    Begin {
        back: bool,
    },
    /// The next step of a run.
    Step(usize),
    /// The operator says no, or a server fails.
    Refuse(usize),
    /// The commit of a run arrives late, after the run has given up.
    LoseReply(usize),
    LateCommit,
    LateRollback,
    Kill(usize),
    /// The lock of a run that is stopped expires.
    Expire,
}

fn has(set: u8, user: usize) -> bool {
    set & (1 << user) != 0
}

/// What a step leads to.
#[derive(Clone, Copy)]
enum Next {
    To(Step),
    End,
    /// Waits for a lock.
    Wait,
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::default();
        rows[0] = Row::Unpaid;
        Self {
            stock: Some(UNITS - 1),
            moving: None,
            mark: None,
            record: Record::None,
            buyers: 1,
            entries: 0,
            is_foreign: false,
            left: UNITS - 1,
            rows,
            sale: Sale::None,
            created: 0,
            at_engine: Rows::default(),
            fence: 0,
            is_frozen: false,
            late: None,
            runs: [None; 2],
            holder: None,
            begun: 0,
            foreign_changes: 1,
            failures: 1,
            said_back: false,
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            stock: self.stock.or(self.moving),
            buyers: self.buyers,
            left: self.left,
            rows: self.rows,
            entries: self.entries,
        }
    }

    fn engine_left(&self) -> u8 {
        UNITS.saturating_sub(count(self.at_engine))
    }

    /// A script or transaction of this run may change something: no newer run has taken over.
    fn is_mine(&self, rule: Rule, run: &Run) -> bool {
        self.mark.is_some_and(|mark| !rule.fences || mark.token == run.token)
    }

    /// A transaction of the engine passes the fence, or waits for one that has.
    fn passes(&mut self, rule: Rule, run: &Run) -> Result<(), Next> {
        if !rule.fences {
            return Ok(());
        }
        if self.late.is_some() {
            return Err(Next::Wait);
        }
        if self.fence > run.token {
            return Err(Next::End);
        }
        self.fence = run.token;
        Ok(())
    }

    fn step(&mut self, rule: Rule, run: &mut Run) -> Next {
        match self.try_step(rule, run) {
            Ok(step) => Next::To(step),
            Err(next) => next,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm a step")]
    fn try_step(&mut self, rule: Rule, run: &mut Run) -> Result<Step, Next> {
        Ok(match run.step {
            Step::Claim => {
                self.passes(rule, run)?;
                Step::Claimed
            }
            Step::Claimed => {
                let is_known = self.has_moved();
                if let Some(mark) = self.mark.as_mut().filter(|_| rule.fences) {
                    if mark.token > run.token {
                        return Err(Next::End);
                    }
                    mark.token = run.token;
                }
                match (self.mark.is_some(), self.moving.is_some(), self.record) {
                    (false, false, Record::Done) if run.back => Step::Archive,
                    // With a sale of that ID, the plan says so.
                    (false, false, Record::None) if !run.back && self.sale == Sale::None => {
                        run.plan = self.plan();
                        // Without a stock, the plan says so.
                        self.stock.ok_or(Next::End)?;
                        Step::AskThere
                    }
                    // Nothing has moved.
                    (true, false, Record::None) if !run.back && !is_known => {
                        self.mark = None;
                        Step::Claimed
                    }
                    (true, true, Record::None) if !run.back && !is_known => {
                        if self.stock.is_some() {
                            return Err(Next::End);
                        }
                        run.plan = self.plan();
                        run.is_fenced = true;
                        if self.sale == Sale::None { Step::AskThere } else { Step::PutBack }
                    }
                    (true, _, Record::None) if !run.back && is_known => {
                        if self.stock.is_some() {
                            return Err(Next::End);
                        }
                        Step::Carry
                    }
                    (true, false, Record::None | Record::Begun) if run.back && is_known => {
                        if self.stock.is_some() || !matches!(self.sale, Sale::Paused | Sale::Ended)
                        {
                            return Err(Next::End);
                        }
                        Step::AskBack
                    }
                    _ => return Err(Next::End),
                }
            }
            Step::AskThere if !rule.marks_with_rename && !run.is_fenced => {
                self.mark = Some(Mark { token: run.token, created: run.token });
                Step::Rename
            }
            Step::AskThere => Step::Fence,
            Step::Rename => {
                if self.moving.is_none() {
                    self.moving = self.stock.take();
                }
                Step::Compare
            }
            Step::Fence if run.is_fenced => {
                if !self.is_mine(rule, run) {
                    return Err(Next::End);
                }
                Step::Compare
            }
            Step::Fence => {
                let is_free = self.mark.is_none() && self.moving.is_none();
                let is_planned = (self.stock, self.buyers) == (run.plan.stock, run.plan.buyers);
                if !is_free || !is_planned || self.record != Record::None {
                    return Err(Next::End);
                }
                self.mark = Some(Mark { token: run.token, created: run.token });
                self.moving = self.stock.take();
                Step::Compare
            }
            Step::Compare => {
                let is_left_alone = self.stock.is_none();
                if self.plan() == run.plan && is_left_alone { Step::Import } else { Step::PutBack }
            }
            Step::Import => {
                self.passes(rule, run)?;
                let mark = self.mark.ok_or(Next::End)?;
                // Otherwise the primary key rejects it.
                if self.late.is_some() || self.sale != Sale::None {
                    return Ok(Step::PutBack);
                }
                self.import(mark, rows_of(run.plan));
                Step::Carry
            }
            Step::PutBack => {
                self.passes(rule, run)?;
                if self.has_moved() { Step::Carry } else { Step::Unfence }
            }
            Step::Unfence => {
                if self.is_mine(rule, run) && self.moving.is_some() && self.stock.is_none() {
                    (self.stock, self.mark) = (self.moving.take(), None);
                } else if self.is_mine(rule, run) && self.moving.is_none() {
                    self.mark = None;
                }
                return Err(Next::End);
            }
            // Payments that the service took since the import.
            Step::Carry => {
                for (here, there) in self.at_engine.iter_mut().zip(self.rows) {
                    if !self.is_frozen && *here == Row::Unpaid && there == Row::Paid {
                        *here = Row::Paid;
                    }
                }
                Step::Finish
            }
            Step::Finish => {
                if self.is_mine(rule, run) && self.stock.is_none() {
                    for user in 0..USERS {
                        if self.at_engine[user] != Row::None {
                            self.entries &= !(1 << user);
                        }
                    }
                    self.moving = None;
                }
                return Err(Next::End);
            }
            Step::AskBack => Step::BeginReturn,
            Step::BeginReturn => {
                if !self.is_mine(rule, run) || self.moving.is_some() {
                    return Err(Next::End);
                }
                if rule.checks_stock && self.stock.is_some() {
                    return Err(Next::End);
                }
                self.record = Record::Begun;
                Step::EndSale
            }
            Step::EndSale => {
                if self.sale == Sale::Archived {
                    return Err(Next::End);
                }
                self.sale = Sale::Ended;
                Step::Freeze
            }
            Step::Freeze => {
                self.passes(rule, run)?;
                self.is_frozen = rule.freezes;
                Step::PlanAgain
            }
            Step::PlanAgain => {
                run.plan = Plan { rows: self.at_engine, left: self.left, ..self.plan() };
                let conflict =
                    self.rows.iter().zip(self.at_engine).any(|(there, here)| *there > here);
                if conflict || self.entries != 0 {
                    // The orders are paid in the engine until an operator has decided.
                    self.passes(rule, run)?;
                    self.is_frozen = false;
                    return Err(Next::End);
                }
                Step::WriteRows
            }
            Step::WriteRows => {
                let is_planned = self.left == run.plan.left
                    && self.rows.iter().zip(run.plan.rows).all(|(there, here)| *there <= here);
                if !is_planned {
                    return Err(Next::End);
                }
                self.rows = run.plan.rows;
                self.left = UNITS.saturating_sub(count(run.plan.rows));
                Step::Swap
            }
            Step::Swap => {
                let is_mine = self.is_mine(rule, run) && self.record == Record::Begun;
                if rule.checks_stock && (!is_mine || self.stock.is_some()) {
                    return Err(Next::End);
                }
                self.buyers = (0..USERS)
                    .filter(|user| run.plan.rows[*user] != Row::None)
                    .fold(0, |set, user| set | 1 << user);
                if self.stock.is_none() {
                    self.stock = Some(UNITS.saturating_sub(count(run.plan.rows)));
                    self.is_foreign = false;
                }
                (self.mark, self.record) = (None, Record::Done);
                Step::Archive
            }
            Step::Archive => {
                self.sale = Sale::Archived;
                Step::Clear
            }
            Step::Clear => {
                self.record = Record::None;
                self.said_back = true;
                return Err(Next::End);
            }
            Step::Withdraw => {
                if self.is_mine(rule, run) && self.sale != Sale::Ended {
                    self.record = Record::None;
                }
                return Err(Next::End);
            }
        })
    }

    /// Whether the engine has the sale that the service has marked.
    fn has_moved(&self) -> bool {
        self.sale != Sale::None && self.mark.is_some_and(|mark| mark.created == self.created)
    }

    fn import(&mut self, mark: Mark, rows: Rows) {
        self.sale = Sale::Running;
        self.created = mark.created;
        self.at_engine = rows;
    }

    /// What the operator, or a server that fails, may refuse.
    fn refuse(&mut self, run: &Run) -> Option<Next> {
        Some(match run.step {
            Step::AskThere if run.is_fenced => Next::To(Step::PutBack),
            Step::AskBack if self.record == Record::Begun => Next::To(Step::Withdraw),
            Step::AskThere | Step::AskBack => Next::End,
            Step::EndSale if self.failures > 0 => {
                self.failures -= 1;
                Next::To(Step::Withdraw)
            }
            _ => return None,
        })
    }

    /// What this run does if nothing else happens, until it ends.
    fn complete(mut self, rule: Rule, back: bool) -> Self {
        self.runs = [None; 2];
        if let Some((mark, rows)) = self.late.take() {
            self.import(mark, rows);
        }
        // As an alarm tells the operator.
        if self.stock.is_some() && (self.mark.is_some() || self.moving.is_some()) {
            self.stock = None;
            self.is_foreign = false;
        }
        if back && self.sale == Sale::Running {
            self.sale = Sale::Paused;
        }
        let token = u8::MAX;
        let step = Step::Claim;
        let mut run = Run { token, back, step, plan: Plan::default(), is_fenced: false };
        while let Next::To(step) = self.step(rule, &mut run) {
            run.step = step;
        }
        self
    }

    fn is_at_service(&self) -> bool {
        self.stock.is_some()
            && self.mark.is_none()
            && self.moving.is_none()
            && self.record == Record::None
            && matches!(self.sale, Sale::None | Sale::Archived)
    }

    fn is_at_engine(&self) -> bool {
        let paid = self.rows.iter().zip(self.at_engine);
        self.stock.is_none()
            && self.mark.is_some()
            && self.moving.is_none()
            && self.record == Record::None
            && !matches!(self.sale, Sale::None | Sale::Archived)
            && paid.clone().all(|(there, here)| *there != Row::Paid || here == Row::Paid)
    }

    /// Whether the service sells, with a stock that a run or the service itself has written.
    fn service_sells(&self) -> bool {
        self.stock.is_some() && !self.is_foreign
    }

    fn sold(&self) -> u8 {
        let is_sold = |user: &usize| {
            has(self.buyers | self.entries, *user)
                || self.rows[*user] != Row::None
                || self.at_engine[*user] != Row::None
        };
        (0..USERS).filter(is_sold).count() as u8
    }
}

fn count(rows: Rows) -> u8 {
    rows.iter().filter(|row| **row != Row::None).count() as u8
}

/// The orders that move: rows, and entries in flight.
fn rows_of(plan: Plan) -> Rows {
    let mut rows = plan.rows;
    for (user, row) in rows.iter_mut().enumerate() {
        if *row == Row::None && has(plan.entries, user) {
            *row = Row::Unpaid;
        }
    }
    rows
}

impl Model for Rule {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for user in 0..USERS {
            actions.push(Action::BuyAtService(user));
            actions.push(Action::BuyAtEngine(user));
            actions.push(Action::Consume(user));
            // One order that is paid, wherever, is as good as three.
            if user == 0 {
                actions.push(Action::PayAtService(user));
                actions.push(Action::PayAtEngine(user));
            }
        }
        actions.extend([Action::Pause, Action::Resume, Action::SetStock, Action::DeleteStock]);
        actions.extend([Action::Begin { back: false }, Action::Begin { back: true }]);
        actions.extend([Action::LateCommit, Action::LateRollback, Action::Expire]);
        for (at, run) in world.runs.iter().enumerate() {
            if run.is_some() {
                actions.push(Action::Step(at));
                actions.push(Action::Refuse(at));
                actions.push(Action::LoseReply(at));
                actions.push(Action::Kill(at));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = *world;
        match action {
            // The script of the service: stock, set and entry in one step.
            Action::BuyAtService(user) => {
                let stock = world.stock.filter(|stock| *stock > 0 && !world.is_foreign)?;
                (!has(world.buyers, user)).then_some(())?;
                next.stock = Some(stock - 1);
                next.buyers |= 1 << user;
                next.entries |= 1 << user;
            }
            Action::BuyAtEngine(user) => {
                let is_free = world.at_engine[user] == Row::None && world.engine_left() > 0;
                (world.sale == Sale::Running && is_free).then_some(())?;
                next.at_engine[user] = Row::Unpaid;
            }
            Action::Consume(user) => {
                has(world.entries, user).then_some(())?;
                next.entries &= !(1 << user);
                if world.rows[user] == Row::None && world.left > 0 {
                    next.rows[user] = Row::Unpaid;
                    next.left -= 1;
                }
            }
            Action::PayAtService(user) => {
                (world.rows[user] == Row::Unpaid).then_some(())?;
                next.rows[user] = Row::Paid;
            }
            Action::PayAtEngine(user) => {
                let is_taken = world.at_engine[user] == Row::Unpaid && !world.is_frozen;
                is_taken.then_some(())?;
                next.at_engine[user] = Row::Paid;
            }
            Action::Pause => {
                (world.sale == Sale::Running).then_some(())?;
                next.sale = Sale::Paused;
            }
            Action::Resume => {
                (world.sale == Sale::Paused).then_some(())?;
                next.sale = Sale::Running;
            }
            Action::SetStock | Action::DeleteStock => {
                let is_away = world.mark.is_some() && !world.is_at_service();
                let is_asked = world.runs.iter().flatten().any(|run| match run.step {
                    Step::AskThere => !is_away && world.sale == Sale::None,
                    Step::AskBack => is_away,
                    _ => false,
                });
                (is_asked && world.foreign_changes > 0).then_some(())?;
                next.foreign_changes -= 1;
                next.is_foreign = action == Action::SetStock;
                next.stock = next.is_foreign.then_some(UNITS + 1);
            }
            Action::Begin { back } => {
                (world.holder.is_none() && world.begun < RUNS).then_some(())?;
                let free = world.runs.iter().position(Option::is_none)?;
                next.begun += 1;
                next.holder = Some(next.begun);
                let (token, step, plan) = (next.begun, Step::Claim, Plan::default());
                next.runs[free] = Some(Run { token, back, step, plan, is_fenced: false });
            }
            Action::Step(at) => {
                let mut run = world.runs[at]?;
                let done = next.step(*self, &mut run);
                next.go(at, run, done)?;
            }
            Action::Refuse(at) => {
                let run = world.runs[at]?;
                let refused = next.refuse(&run)?;
                next.go(at, run, refused)?;
            }
            Action::LoseReply(at) => {
                let run = world.runs[at].filter(|run| run.step == Step::Import)?;
                (world.sale == Sale::None && world.late.is_none()).then_some(())?;
                next.passes(*self, &run).ok()?;
                next.late = Some((world.mark?, rows_of(run.plan)));
                next.go(at, run, Next::End)?;
            }
            Action::LateCommit => {
                let (mark, rows) = next.late.take()?;
                // Otherwise the primary key rejects it.
                if next.sale == Sale::None {
                    next.import(mark, rows);
                }
            }
            Action::LateRollback => {
                next.late.take()?;
            }
            Action::Kill(at) => {
                let run = next.runs[at].take()?;
                next.release(run.token);
            }
            Action::Expire => {
                let holder = next.holder.take()?;
                world.runs.iter().flatten().find(|run| run.token == holder)?;
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("on-sale-on-one-side", |_, world: &World| {
                !(world.service_sells() && world.sale == Sale::Running)
            }),
            Property::always("no-unit-is-sold-twice", |_, world: &World| world.sold() <= UNITS),
            Property::always("what-is-back-has-its-stock-and-its-orders", |_, world: &World| {
                let is_there =
                    world.rows.iter().zip(world.at_engine).all(|(there, here)| *there >= here);
                !world.said_back
                    || (!world.is_foreign
                        && is_there
                        && world
                            .stock
                            .or(world.moving)
                            .map(|stock| stock + world.buyers.count_ones() as u8)
                            == Some(UNITS))
            }),
            Property::always("a-payment-is-kept-where-the-order-lives", |_, world: &World| {
                let is_back = world.record == Record::Done || world.sale == Sale::Archived;
                let lost = world
                    .rows
                    .iter()
                    .zip(world.at_engine)
                    .any(|(there, here)| here == Row::Paid && *there != Row::Paid);
                !(is_back && lost)
            }),
            Property::always("a-mark-is-the-trace-of-a-move", |_, world: &World| {
                !(world.mark.is_some() && world.service_sells())
            }),
            Property::always(
                "some-command-completes-or-undoes-it",
                |rule: &Rule, world: &World| {
                    if world.runs.iter().any(Option::is_some) || world.late.is_some() {
                        return true;
                    }
                    // Without a stock, the service itself has to load it first.
                    let is_lost = world.stock.is_none() && world.moving.is_none();
                    let is_away = !matches!(world.sale, Sale::None | Sale::Archived);
                    if world.mark.is_none() && is_lost && !is_away {
                        return true;
                    }
                    let (there, back) = (world.complete(*rule, false), world.complete(*rule, true));
                    let conflict = |world: &World| {
                        // Paid in both places, or sold beside: an operator decides.
                        world.entries != 0
                            || world.rows.iter().zip(world.at_engine).any(|(it, here)| *it > here)
                    };
                    [there, back].iter().any(|it| it.is_at_service() || it.is_at_engine())
                        || conflict(&back)
                },
            ),
            Property::sometimes("moved", |_, world: &World| world.is_at_engine()),
            Property::sometimes("moved-back", |_, world: &World| world.said_back),
            Property::sometimes("put-back", |_, world: &World| {
                world.begun > 0
                    && world.fence > 0
                    && world.runs == [None; 2]
                    && world.is_at_service()
            }),
        ]
    }
}

impl World {
    fn go(&mut self, at: usize, mut run: Run, next: Next) -> Option<()> {
        match next {
            Next::Wait => return None,
            Next::To(step) => {
                run.step = step;
                self.runs[at] = Some(run);
            }
            Next::End => {
                self.runs[at] = None;
                self.release(run.token);
            }
        }
        Some(())
    }

    fn release(&mut self, token: u8) {
        if self.holder == Some(token) {
            self.holder = None;
        }
    }
}

/// Explores a protocol until it is done; returns the properties that it breaks, each with its steps.
fn broken(rule: Rule, until: HasDiscoveries) -> Vec<(&'static str, String)> {
    let started = Instant::now();
    let checker = rule.checker().finish_when(until).spawn_bfs().join();
    let (states, seconds) = (checker.unique_state_count(), started.elapsed().as_secs_f64());
    println!("{rule:?}: {states} states in {seconds:.1} s");
    let found = checker.discoveries().into_iter();
    let broken = found.filter(|(name, _)| rule.property(name).expectation == Expectation::Always);
    let steps = |path: Path<World, Action>| {
        let steps = path.into_vec().into_iter();
        let steps = steps.filter_map(|(world, action)| Some(world.names(action?)));
        steps.collect::<Vec<_>>().join("\n  ")
    };
    broken.map(|(name, path)| (name, steps(path))).collect()
}

impl World {
    /// An action, with the run and the step that it is about.
    fn names(&self, action: Action) -> String {
        let of = |at: usize| {
            self.runs[at].map(|run| {
                let direction = if run.back { "back" } else { "there" };
                format!("run {} ({direction}) {:?}", run.token, run.step)
            })
        };
        match action {
            Action::Step(at) => of(at).unwrap_or_default(),
            Action::Refuse(at) | Action::LoseReply(at) | Action::Kill(at) => {
                format!("{action:?} of {}", of(at).unwrap_or_default())
            }
            other => format!("{other:?}"),
        }
    }
}

#[track_caller]
fn rejected(rule: Rule, property: &'static str) {
    let broken = broken(rule, HasDiscoveries::AnyOf([property].into()));
    let found = broken.iter().find(|(name, _)| *name == property);
    println!("{property}:\n  {}", found.expect("the model finds nothing").1);
}

#[test]
fn the_protocol_keeps_every_promise() {
    let checker = RULE.checker().spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    // Also those that are to happen at all.
    checker.assert_properties();
}

#[test]
fn a_stock_that_is_not_checked_comes_back_with_too_many_units() {
    rejected(Rule { checks_stock: false, ..RULE }, "what-is-back-has-its-stock-and-its-orders");
}

#[test]
fn orders_that_are_not_frozen_lose_payments() {
    rejected(Rule { freezes: false, ..RULE }, "a-payment-is-kept-where-the-order-lives");
}

#[test]
fn a_mark_before_the_rename_is_no_trace_of_a_move() {
    rejected(Rule { marks_with_rename: false, ..RULE }, "a-mark-is-the-trace-of-a-move");
}

#[test]
fn runs_without_a_fence_put_both_sides_on_sale() {
    rejected(Rule { fences: false, ..RULE }, "on-sale-on-one-side");
}
