//! The shortest interleaving of a run that shows how a promise was broken.
//!
//! It is chosen from the trace and never made up: each line is a step that a server or a lock carried out. Pairs of
//! requests whose steps did not overlap in time are preferred, because their order is certain.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Promise, Step,
    instance::Served,
    lane::Reply,
    ownership::{self, Deletion},
    trace::{Action, Instant},
    work::Work,
};

const STOCK: &str = "tb_seckill_voucher";
const ORDERS: &str = "tb_voucher_order";

/// One interleaving of two requests.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// The promise that it breaks.
    pub promise: Promise,
    /// The seed of the run.
    pub seed: u64,
    /// The requests, from the left; each is a lane.
    pub lanes: Vec<u32>,
    /// The steps in the order in which they ended.
    pub lines: Vec<Line>,
}

/// A step of a timeline.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Position of its lane.
    pub column: usize,
    /// When it was sent, in microseconds since the first step of the timeline. Negative for a lock that was waited for.
    pub begun_us: f64,
    /// When the reply was there.
    pub ended_us: f64,
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// The number of the piece that this write took, counted over the whole run, if it took one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece: Option<u64>,
    /// The request whose lock this release deleted, if it was not its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_of: Option<u32>,
}

/// A request with the steps that matter.
struct Lane<'a> {
    served: &'a Served,
    /// The check, the write that follows from it, and the order.
    check: Option<&'a Step>,
    write: Option<&'a Step>,
    /// Which piece it took.
    piece: Option<u64>,
}

/// Finds a timeline for a broken promise.
pub(crate) fn find(
    promise: Promise,
    seed: u64,
    work: &Work,
    served: &[Served],
) -> Option<Timeline> {
    let lanes = lanes(promise, served);
    let pair = match promise {
        Promise::NoOverselling => oversold(&lanes, work.stock.into()),
        Promise::OneOrder => two_orders(&lanes),
        Promise::SellsOut => turned_away(&lanes),
        Promise::FreedAfterDeath => locked_out(&lanes),
        Promise::OwnLock => deleted(&lanes, &ownership::deletions(served)),
        Promise::NoLoss => None,
    };
    let (first, second) = pair?;
    Some(draw(promise, seed, &[first, second], &ownership::deletions(served)))
}

/// Numbers the pieces in the order in which their writes ended.
fn lanes(promise: Promise, served: &[Served]) -> Vec<Lane<'_>> {
    let mut lanes: Vec<Lane<'_>> = served
        .iter()
        .map(|served| {
            let write = match promise {
                Promise::OneOrder | Promise::FreedAfterDeath | Promise::OwnLock => {
                    last(served, |it| it.is_on(Action::Write, ORDERS))
                }
                _ => last(served, |it| it.is_on(Action::Write, STOCK)),
            };
            // The last look at what is written, before the write.
            let is_check = |it: &Step| match promise {
                Promise::OneOrder | Promise::FreedAfterDeath | Promise::OwnLock => {
                    it.is_on(Action::Read, ORDERS)
                }
                _ => it.is_on(Action::Read, STOCK) || it.action == Action::Memory,
            };
            let check =
                last(served, |it| is_check(it) && write.is_none_or(|write| it.precedes(write)));
            Lane { served, check, write, piece: None }
        })
        .collect();
    let mut sold: Vec<&mut Lane<'_>> =
        lanes.iter_mut().filter(|it| matches!(it.served.reply, Reply::Bought(_))).collect();
    sold.sort_by_key(|it| it.write.map(|write| write.ended));
    for (piece, lane) in (1..).zip(sold) {
        lane.piece = Some(piece);
    }
    lanes
}

fn last(served: &Served, is_it: impl Fn(&Step) -> bool) -> Option<&Step> {
    served.steps.iter().rev().find(|it| is_it(it))
}

type Pair<'l, 'a> = Option<(&'l Lane<'a>, &'l Lane<'a>)>;

/// The request that took the last piece, and one that had checked before and took a piece that did not exist.
fn oversold<'l, 'a>(lanes: &'l [Lane<'a>], stock: u64) -> Pair<'l, 'a> {
    let taken = |lane: &&Lane<'_>| lane.piece.is_some();
    let seller = lanes.iter().find(|it| it.piece == Some(stock))?;
    let beyond = lanes.iter().filter(taken).filter(|it| it.piece > Some(stock));
    shortest(beyond.map(|it| (seller, it)))
}

/// Two requests of one user that both took an order.
fn two_orders<'l, 'a>(lanes: &'l [Lane<'a>]) -> Pair<'l, 'a> {
    let mut of_user: BTreeMap<i64, Vec<&Lane<'a>>> = BTreeMap::new();
    for lane in lanes.iter().filter(|it| it.piece.is_some()) {
        of_user.entry(lane.served.user).or_default().push(lane);
    }
    let pairs = of_user.into_values().filter_map(|mut it| {
        it.sort_by_key(|lane| lane.piece);
        match *it.as_slice() {
            [first, second, ..] => Some((first, second)),
            _ => None,
        }
    });
    shortest(pairs)
}

/// A request whose write changed nothing, and one that had changed the row in between.
fn turned_away<'l, 'a>(lanes: &'l [Lane<'a>]) -> Pair<'l, 'a> {
    let losers = lanes.iter().filter(|it| {
        it.served.reply == Reply::SoldOut && it.write.is_some_and(|it| it.seen() == Some(0))
    });
    let pairs = losers.flat_map(|loser| {
        lanes.iter().filter(|it| it.piece.is_some()).map(move |winner| (winner, loser))
    });
    shortest(pairs)
}

/// A holder that died, and a request of the same user that waited in vain.
fn locked_out<'l, 'a>(lanes: &'l [Lane<'a>]) -> Pair<'l, 'a> {
    let waiters = lanes.iter().filter(|it| it.served.reply == Reply::Locked);
    let pairs = waiters.filter_map(|waiter| {
        let acquired = |it: &Step| it.action == Action::Acquire && it.seen() == Some(1);
        let is_holder = |it: &&Lane<'_>| {
            it.served.user == waiter.served.user && it.served.steps.iter().any(acquired)
        };
        lanes.iter().find(is_holder).map(|holder| (holder, waiter))
    });
    shortest(pairs)
}

/// A request that deleted a lock, and the one whose lock it was.
fn deleted<'l, 'a>(lanes: &'l [Lane<'a>], deletions: &[Deletion<'_>]) -> Pair<'l, 'a> {
    let of = |number: u32| lanes.iter().find(|it| it.served.lane() == Some(number));
    shortest(deletions.iter().filter_map(|it| of(it.release.lane).zip(of(it.owner))))
}

/// The pair with the shortest duration from the first check to the last write. Those come first whose order is certain:
/// the second request checks before the first one writes, and writes after it.
fn shortest<'l, 'a: 'l>(pairs: impl Iterator<Item = (&'l Lane<'a>, &'l Lane<'a>)>) -> Pair<'l, 'a> {
    pairs.min_by_key(|(first, second)| {
        let checked = second.check.zip(first.write);
        let races = checked.is_some_and(|(check, write)| check.precedes(write));
        let ordered = first.write.zip(second.write).is_some_and(|(a, b)| a.precedes(b));
        let begun =
            [first, second].into_iter().filter_map(|it| it.check.or(it.write)).map(|it| it.begun);
        let ended = [first, second].into_iter().filter_map(|it| it.write).map(|it| it.ended);
        let span = ended.max().zip(begun.min()).map(|(ended, begun)| ended.since(begun));
        // What the second one saw is clearest if it is small: the last piece, no orders.
        let seen = second.check.and_then(Step::seen);
        (!races, !ordered, seen, span.unwrap_or(u64::MAX))
    })
}

/// The steps of both lanes from their checks on, without those that explain nothing.
fn draw(promise: Promise, seed: u64, pair: &[&Lane<'_>], deletions: &[Deletion<'_>]) -> Timeline {
    let mut lines = Vec::new();
    for (column, lane) in pair.iter().enumerate() {
        let from = lane.check.or(lane.write).map_or(lane.served.begun, |it| it.begun);
        for step in &lane.served.steps {
            let is_shown = matches!(
                step.action,
                Action::Lock
                    | Action::Unlock
                    | Action::Acquire
                    | Action::Release
                    | Action::Stall
                    | Action::Disruption
            ) || (step.begun >= from
                && !matches!(step.action, Action::Think | Action::Redis));
            if is_shown {
                let counts = matches!(promise, Promise::NoOverselling | Promise::SellsOut)
                    && lane.write == Some(step);
                let piece = lane.piece.filter(|_| counts);
                let lock_of = deletions.iter().find(|it| it.release == step).map(|it| it.owner);
                lines.push(Line {
                    column,
                    begun_us: 0.0,
                    ended_us: 0.0,
                    step: step.clone(),
                    piece,
                    lock_of,
                });
            }
        }
    }
    lines.sort_by_key(|it| it.step.ended);
    // A lock may have been waited for since long before.
    let starts = lines.iter().map(|it| match it.step.action {
        Action::Lock | Action::Acquire => it.step.ended,
        _ => it.step.begun,
    });
    let zero = starts.min().unwrap_or(Instant(0));
    let micros = |at: Instant| (at.0 - zero.0) as f64 / 1e3;
    for line in &mut lines {
        (line.begun_us, line.ended_us) = (micros(line.step.begun), micros(line.step.ended));
    }
    let lanes = pair.iter().filter_map(|it| it.served.lane()).collect();
    Timeline { promise, seed, lanes, lines }
}
