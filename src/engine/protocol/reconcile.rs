//! Reconciliation of a sale that Redis has lost (`Reconciler::sale`), by two nodes of which each knows its own promises,
//! while orders are written, closed, and their pieces given back (`payment::give_back`).
//!
//! | step | code |
//! | --- | --- |
//! | `Buy`, `Write` | `admit.lua`, once the node has awaited the other (`await_peers`); `Store::write_orders` |
//! | `Close`, `GiveBack`, `Record` | `Store::close_overdue`, `give_back.lua`, `Store::gave_back` |
//! | `Step` | a node: `reconcile_begin.lua`; `Store::live_orders` with `restore.lua`; `restore_open` with its promises; |
//! | | `remove_closed`; `reconcile_end.lua` |
//! | `Expire` | the lease of a node that reconciles; another one takes over |
//! | `Flush` | Redis loses all keys |
//!
//! Not modelled: orders that only the stream or a dead letter has (`under_way`), the removal of closed orders before the
//! buyers are restored, the fence of a cut (`cut`), and a node that does not confirm within `GRACE` and is given up.

use stateright::{Model, Property};

use super::{depth, fails, holds};

const BUYERS: usize = 3;

#[derive(Clone, Debug)]
struct Reconciliation {
    /// How many buyers ask, of pieces for all but one.
    buyers: usize,
    /// Buyers of closed orders are removed once more after the others were restored.
    removes_again: bool,
    /// A node admits only once the others have restored what they promised.
    awaits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    Absent,
    Live,
    Closed,
}

type Set = [bool; BUYERS];

/// What a node does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    Begin,
    ReadLive,
    RestoreLive(Set),
    ReadPromises { closed: bool },
    RestorePromises { closed: bool, unwritten: Set, live: Set },
    ReadClosed { closed: bool },
    RemoveClosed { closed: bool, gone: Set },
    End,
    Admits,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    order: [Order; BUYERS],
    /// The piece was returned in Redis, and SQL has recorded that.
    returned: Set,
    recorded: Set,
    promised: Set,
    entry: Set,
    seat: Set,
    initial: usize,
    stock: usize,
    lost: bool,
    restoring: Option<usize>,
    nodes: [Node; 2],
    losses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Buy(usize),
    Write(usize),
    Close(usize),
    GiveBack(usize),
    Record(usize),
    Step(usize),
    Expire,
    Flush,
}

fn count(set: Set) -> usize {
    set.into_iter().filter(|it| *it).count()
}

impl State {
    fn is_open(&self) -> bool {
        !self.lost && self.restoring.is_none()
    }

    fn among(&self, status: Order) -> Set {
        self.order.map(|order| order == status)
    }

    /// `give_back.lua`.
    fn give_back(&mut self, buyer: usize) {
        if self.seat[buyer] {
            self.seat[buyer] = false;
            self.stock += usize::from(self.is_open());
        }
    }

    /// `restore.lua`: with a token only while this node reconciles, without one only if the sale is consistent.
    fn restore(&mut self, node: usize, closed: bool, who: Set, enqueue: bool) -> bool {
        let initial = self.initial;
        if closed && self.restoring != Some(node) || !closed && !self.is_open() {
            return false;
        }
        for buyer in (0..BUYERS).filter(|buyer| who[*buyer]) {
            let room = if closed { initial - count(self.seat) } else { self.stock };
            if !self.seat[buyer] && room > 0 {
                self.seat[buyer] = true;
                self.entry[buyer] |= enqueue;
                self.stock -= usize::from(!closed);
            }
        }
        true
    }
}

impl Reconciliation {
    /// The nodes from which each buyer asks, and which remember the promise.
    fn node_of(buyer: usize) -> usize {
        buyer % 2
    }

    fn admits(&self, state: &State, node: usize) -> bool {
        let all = state.nodes == [Node::Admits; 2];
        state.nodes[node] == Node::Admits && (all || !self.awaits)
    }

    fn step(&self, state: &mut State, node: usize) {
        let at = state.nodes[node];
        let next = match at {
            Node::Begin if state.restoring.is_some_and(|other| other != node) => Node::Begin,
            Node::Begin if state.lost || state.restoring.is_some() => {
                (state.lost, state.restoring) = (false, Some(node));
                Node::ReadLive
            }
            Node::Begin => Node::ReadPromises { closed: false },
            Node::ReadLive => Node::RestoreLive(state.among(Order::Live)),
            Node::RestoreLive(live) if state.restore(node, true, live, false) => {
                Node::ReadPromises { closed: true }
            }
            Node::ReadPromises { closed } => {
                let mut promises = state.promised;
                for (buyer, promise) in promises.iter_mut().enumerate() {
                    *promise &= Self::node_of(buyer) == node;
                }
                let both = |status: Order| {
                    let mut found = state.among(status);
                    found.iter_mut().zip(promises).for_each(|(found, mine)| *found &= mine);
                    found
                };
                let (unwritten, live) = (both(Order::Absent), both(Order::Live));
                Node::RestorePromises { closed, unwritten, live }
            }
            Node::RestorePromises { closed, unwritten, live } => {
                let done = state.restore(node, closed, live, false)
                    && state.restore(node, closed, unwritten, true);
                match (done, closed) {
                    (false, _) => Node::Begin,
                    _ if self.removes_again => Node::ReadClosed { closed },
                    (true, true) => Node::End,
                    (true, false) => Node::Admits,
                }
            }
            Node::ReadClosed { closed } => {
                Node::RemoveClosed { closed, gone: state.among(Order::Closed) }
            }
            Node::RemoveClosed { closed, gone } => {
                (0..BUYERS).filter(|it| gone[*it]).for_each(|it| state.give_back(it));
                if closed { Node::End } else { Node::Admits }
            }
            Node::End if state.restoring == Some(node) && !state.lost => {
                (state.restoring, state.stock) = (None, state.initial - count(state.seat));
                Node::Admits
            }
            Node::RestoreLive(_) | Node::End => Node::Begin,
            Node::Admits => Node::Admits,
        };
        state.nodes[node] = next;
    }

    fn calm(&self, state: &State) -> State {
        let mut state = state.clone();
        loop {
            let before = state.clone();
            if let Some(node) = state.restoring
                && state.nodes[node] == Node::Admits
            {
                (state.restoring, state.lost) = (None, true);
            }
            self.step(&mut state, 0);
            self.step(&mut state, 1);
            for buyer in 0..BUYERS {
                if state.entry[buyer] && state.order[buyer] == Order::Absent {
                    state.order[buyer] = Order::Live;
                }
                if state.order[buyer] == Order::Closed && !state.recorded[buyer] {
                    state.give_back(buyer);
                    state.recorded[buyer] = state.nodes == [Node::Admits; 2];
                }
            }
            if state == before {
                return state;
            }
        }
    }
}

impl Model for Reconciliation {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let none = [false; BUYERS];
        vec![State {
            order: [Order::Absent; BUYERS],
            returned: none,
            recorded: none,
            promised: none,
            entry: none,
            seat: none,
            initial: self.buyers - 1,
            stock: self.buyers - 1,
            lost: false,
            restoring: None,
            nodes: [Node::Admits; 2],
            losses: 1,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for buyer in 0..self.buyers {
            match state.order[buyer] {
                Order::Absent if !state.promised[buyer] => actions.push(Action::Buy(buyer)),
                Order::Absent if state.entry[buyer] => actions.push(Action::Write(buyer)),
                Order::Absent => {}
                Order::Live => actions.push(Action::Close(buyer)),
                Order::Closed if state.recorded[buyer] => {}
                Order::Closed => actions.extend([Action::GiveBack(buyer), Action::Record(buyer)]),
            }
        }
        actions.extend([Action::Step(0), Action::Step(1)]);
        if state.restoring.is_some() {
            actions.push(Action::Expire);
        }
        if state.losses > 0 {
            actions.push(Action::Flush);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Buy(buyer) => {
                let admits = self.admits(&state, Self::node_of(buyer));
                if !admits || !state.is_open() || state.stock == 0 || state.seat[buyer] {
                    return None;
                }
                state.stock -= 1;
                (state.seat[buyer], state.entry[buyer]) = (true, true);
                state.promised[buyer] = true;
            }
            Action::Write(buyer) => state.order[buyer] = Order::Live,
            Action::Close(buyer) => state.order[buyer] = Order::Closed,
            Action::GiveBack(buyer) => {
                state.give_back(buyer);
                state.returned[buyer] = true;
            }
            Action::Record(buyer) if state.returned[buyer] => state.recorded[buyer] = true,
            Action::Record(_) => return None,
            Action::Step(node) => self.step(&mut state, node),
            // The keys are those of an interrupted process, which the next one begins with.
            Action::Expire => (state.restoring, state.lost) = (None, true),
            Action::Flush => {
                state.losses -= 1;
                (state.seat, state.entry) = ([false; BUYERS], [false; BUYERS]);
                (state.stock, state.lost, state.restoring) = (0, true, None);
                state.nodes = [Node::Begin; 2];
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_OVERSOLD, |_, state: &State| {
                let held =
                    |buyer: &usize| state.promised[*buyer] && state.order[*buyer] != Order::Closed;
                (0..BUYERS).filter(held).count() <= state.initial
            }),
            Property::always(SETTLES, |model: &Self, state: &State| {
                let end = model.calm(state);
                let seats = (0..BUYERS).all(|buyer| {
                    let is_closed = end.order[buyer] == Order::Closed;
                    let is_written = !end.promised[buyer] || end.order[buyer] != Order::Absent;
                    end.seat[buyer] == (end.promised[buyer] && !is_closed) && is_written
                });
                seats && end.is_open() && end.stock + count(end.seat) == end.initial
            }),
            Property::sometimes("a returned piece is sold again", |model: &Self, state: &State| {
                count(state.promised) == model.buyers
            }),
        ]
    }
}

const NOT_OVERSOLD: &str = "no more orders than pieces";
const SETTLES: &str =
    "without faults each promise has an order and a seat, and each closed order none";

const RECONCILIATION: Reconciliation =
    Reconciliation { buyers: 2, removes_again: true, awaits: true };

#[test]
fn a_reconciled_sale_has_each_buyer_once() {
    holds("reconciliation", RECONCILIATION);
    if depth() > 1 {
        holds("reconciliation of two pieces", Reconciliation { buyers: 3, ..RECONCILIATION });
    }
}

#[test]
fn an_order_that_is_closed_meanwhile_keeps_its_piece_without_a_second_look() {
    let old = Reconciliation { removes_again: false, ..RECONCILIATION };
    fails("reconciliation without a second look", old, SETTLES);
}

#[test]
fn a_node_that_admits_before_the_others_have_restored_oversells() {
    let old = Reconciliation { awaits: false, ..RECONCILIATION };
    fails("reconciliation without the others", old, NOT_OVERSOLD);
}
