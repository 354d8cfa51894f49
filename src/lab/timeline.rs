//! The shortest interleaving of a run that shows how a promise was broken, or the way of an order until it was lost.
//!
//! It is chosen from the trace and never made up: each line is a step that a server or a lock carried out, except the
//! end of a lease, which is computed. Pairs of requests whose steps did not overlap in time are preferred, because their
//! order is certain.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    Promise, Step,
    holders::FAILOVER,
    lane::CONSUMER,
    ownership::{self, Deletion},
    parent::{Reply, Served},
    trace::{Action, Instant, Saw},
    work::Work,
};

const STOCK: &str = "tb_seckill_voucher";
const ORDERS: &str = "tb_voucher_order";

/// One interleaving of two requests, or of a request and a consumer.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// The promise that it breaks.
    pub promise: Promise,
    /// The seed of the run.
    pub seed: u64,
    /// The processes that serve requests; those of the holders of locks and of a consumer have higher numbers.
    pub instances: u32,
    /// The requests, from the left; each is a lane. That of a consumer has the highest number.
    pub lanes: Vec<u32>,
    /// The steps in the order in which they ended.
    pub lines: Vec<Line>,
}

/// A step of a timeline.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Position of its lane.
    pub column: usize,
    /// When it was sent, in microseconds since the first step of the timeline. Negative for a lock or an entry that was
    /// waited for.
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
    /// How many attempts to get the lock were refused between the line before of this lane and this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_before: Option<usize>,
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
    let (lanes, deletions) = (lanes(promise, served), ownership::deletions(served));
    let pair = match promise {
        Promise::NoOverselling => oversold(&lanes, work.stock.into()),
        Promise::OneOrder => two_orders(&lanes, work.holder_incident().is_none()),
        Promise::SellsOut => turned_away(&lanes),
        Promise::FreedAfterDeath => locked_out(&lanes),
        Promise::OwnLock => deleted(&lanes, &deletions),
        Promise::NoLoss => None,
    };
    let (first, second) = pair?;
    Some(draw(promise, seed, work, [first, second], &deletions))
}

/// Steps of a consumer that are shown if it never had the order.
const ELSEWHERE: usize = 6;

/// Finds the way of an order that was lost: the request that handed it over, and the consumer until the step after which
/// no process and no server has it. An order that a consumer had, or that was in the memory of a process that was
/// killed, is preferred.
pub(crate) fn find_lost(
    seed: u64,
    work: &Work,
    (served, consumed): (&[Served], &[Step]),
    orders: &BTreeSet<i64>,
) -> Option<Timeline> {
    let lost = served.iter().filter_map(|it| match it.reply {
        Reply::Bought(order) if !orders.contains(&order) => {
            Some((it, after(it, order, work, consumed)))
        }
        _ => None,
    });
    let (request, (_, then)) =
        lost.min_by_key(|(request, (had, then))| (!had, then.len(), request.ended))?;
    let mut columns = vec![request.steps.iter().filter(|it| it.action != Action::Think).collect()];
    if !then.is_empty() {
        columns.push(then);
    }
    let lanes = columns.iter().filter_map(|it: &Vec<&Step>| it.first()).map(|it| it.lane).collect();
    Some(lay_out(Promise::NoLoss, seed, work, lanes, columns))
}

/// What became of an order after its request, and whether a process had it.
fn after<'a>(
    request: &'a Served,
    order: i64,
    work: &Work,
    consumed: &'a [Step],
) -> (bool, Vec<&'a Step>) {
    let Some(last) = request.steps.last() else { return (false, Vec::new()) };
    // From its delivery on, the steps of a consumer are those of the order, until the next delivery.
    let taken = consumed.iter().filter(|it| it.seen() == Some(order) && it.user == request.user);
    let taken = taken.min_by_key(|it| it.ended);
    let kept_in = taken.map_or(request.steps.iter().find(|it| it.action == Action::Queue), Some);
    let Some(kept) = kept_in else {
        // The consumer, around the hand-over: a read that began before and ended after saw another entry.
        let others: Vec<&Step> = consumed
            .iter()
            .filter(|it| it.instance > work.instances && is_about_queue(it))
            .collect();
        let split = others.partition_point(|it| it.ended < last.ended);
        let around = match first_repeated(&others) {
            // It never gets further: the steps that lead there, and those that repeat.
            Some(again) if split > 0 => again.saturating_sub(ELSEWHERE - 2)..again + 2,
            _ => split.saturating_sub(1)..split + ELSEWHERE,
        };
        let shown = around.start..around.end.min(others.len());
        return (false, others.get(shown).unwrap_or_default().to_vec());
    };
    let mine = consumed.iter().filter(|it| {
        let is_its_process = it.instance == kept.instance && it.ended >= kept.ended;
        is_its_process && (it.user == request.user || it.action == Action::Killed)
    });
    let mut then: Vec<&Step> = mine.filter(|it| it.action != Action::Think).collect();
    if let Some(end) = then.iter().position(|it| it.action == Action::Killed) {
        then.truncate(end + 1);
    }
    (true, then)
}

/// The first read of a consumer that got the entry of its last read again.
fn first_repeated(steps: &[&Step]) -> Option<usize> {
    let mut last = None;
    steps.iter().position(|it| {
        let order = if it.saw.numbers().len() == 2 { it.seen() } else { None };
        order.is_some_and(|order| last.replace(order) == Some(order))
    })
}

/// Whether a consumer read, acknowledged or ended: what it does with the entry in between is another story.
fn is_about_queue(step: &Step) -> bool {
    let first = step.what.split(' ').next().unwrap_or_default();
    match step.action {
        Action::Redis => !matches!(first, "SET" | "EVALSHA"),
        action => action == Action::Killed,
    }
}

/// Whether requests break it by the pieces that they take; otherwise by the orders of one user.
fn is_about_stock(promise: Promise) -> bool {
    matches!(promise, Promise::NoOverselling | Promise::SellsOut)
}

/// Numbers the pieces in the order in which their writes ended.
fn lanes(promise: Promise, served: &[Served]) -> Vec<Lane<'_>> {
    let is_about_stock = is_about_stock(promise);
    let mut lanes: Vec<Lane<'_>> = served
        .iter()
        .map(|served| {
            let table = if is_about_stock { STOCK } else { ORDERS };
            let write = last(served, |it| it.is_on(Action::Write, table));
            // The last look at what is written, before the write.
            let is_check = |it: &Step| {
                it.is_on(Action::Read, table) || (is_about_stock && it.action == Action::Memory)
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
    let seller = lanes.iter().find(|it| it.piece == Some(stock))?;
    // What is in the memory of one process is right there, and wrong beside another process.
    let in_memory = seller.check.is_some_and(|it| it.action == Action::Memory);
    let beyond = lanes.iter().filter(|it| it.piece > Some(stock));
    let beyond = beyond.filter(|it| !in_memory || process(it) != process(seller));
    shortest(beyond.map(|it| (seller, it)))
}

/// The instance that served a request.
fn process(lane: &Lane<'_>) -> Option<u32> {
    lane.write.map(|it| it.instance)
}

/// Two requests of one user that both took an order; if `in_one_process`, rather those of one instance: a fault that needs
/// no second one is seen without it.
fn two_orders<'l, 'a>(lanes: &'l [Lane<'a>], in_one_process: bool) -> Pair<'l, 'a> {
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
    let (within, across): (Vec<_>, Vec<_>) =
        pairs.partition(|(first, second)| in_one_process && process(first) == process(second));
    shortest(within.into_iter()).or_else(|| shortest(across.into_iter()))
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
        let is_holder = |it: &&Lane<'_>| {
            it.served.user == waiter.served.user && it.served.steps.iter().any(Step::took_lock)
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
fn draw(
    promise: Promise,
    seed: u64,
    work: &Work,
    pair: [&Lane<'_>; 2],
    deletions: &[Deletion<'_>],
) -> Timeline {
    let (mut pieces, mut refused) = (Vec::new(), Vec::new());
    let [first, second] = pair.map(|it| it.served);
    let ends = [lease_end(first, second, deletions), lease_end(second, first, deletions)];
    let columns = pair.iter().zip(&ends).map(|(lane, end)| {
        let from = lane.check.or(lane.write).map_or(lane.served.begun, |it| it.begun);
        if is_about_stock(promise) {
            pieces.extend(lane.write.zip(lane.piece));
        }
        let is_shown = |step: &&Step| match step.action {
            Action::Lock
            | Action::Unlock
            | Action::Acquire
            | Action::Release
            | Action::Stall
            | Action::Killed
            | Action::Incident => true,
            Action::Think => false,
            // Only whose lock it is.
            Action::Redis => step.what.starts_with("GET "),
            _ => step.begun >= from,
        };
        let shown: Vec<&Step> = lane.served.steps.iter().filter(is_shown).collect();
        let mut column = Vec::new();
        for steps in shown.chunk_by(|one, next| one.is_refused() && next.is_refused()) {
            match steps {
                [first, between @ .., last] if !between.is_empty() => {
                    column.extend([*first, *last]);
                    refused.push((*last, between.len()));
                }
                steps => column.extend(steps),
            }
        }
        column.extend(end);
        column
    });
    let columns = columns.collect();
    let lanes = pair.iter().filter_map(|it| it.served.lane()).collect();
    let mut timeline = lay_out(promise, seed, work, lanes, columns);
    for line in &mut timeline.lines {
        let of = pieces.iter().find(|(write, _)| **write == line.step);
        line.piece = of.map(|(_, piece)| *piece);
        let of = refused.iter().find(|(last, _)| **last == line.step);
        line.refused_before = of.map(|(_, count)| *count);
        line.lock_of = deletions.iter().find(|it| *it.release == line.step).map(|it| it.owner);
    }
    timeline
}

/// The end of the lease of a request that was at work for longer: the reply to its acquisition and the duration that
/// Redis got, but no later than the next acquisition, which proves it. `None` if the lease was renewed, or if the lock
/// was released or lost before.
fn lease_end(holder: &Served, other: &Served, deletions: &[Deletion<'_>]) -> Option<Step> {
    let taken = holder.steps.iter().rfind(|it| it.took_lock())?;
    let lease = taken.values.first()? * 1_000_000;
    // The engine's acquisition includes its wait, so that `earliest` alone does not exclude another cause.
    let [earliest, latest] = [taken.begun, taken.ended].map(|it| Instant(it.0 + lease));
    let next = other.steps.iter().find(|it| it.took_lock() && it.ended > taken.ended);
    let end = next.map_or(latest, |it| it.ended.min(latest));
    let before = || holder.steps.iter().filter(|it| it.begun <= end);
    let is_lost = end < earliest
        || deletions.iter().any(|it| it.owner == taken.lane)
        || before().any(|it| it.what == FAILOVER);
    // A reentrant lock is free once it is released as often as it was taken.
    let count = |is_it: fn(&Step) -> bool| before().filter(|it| is_it(it)).count();
    let is_released = count(Step::released_lock) >= count(Step::took_lock);
    let is_at_work = holder.steps.iter().any(|it| it.begun >= latest);
    let (action, what, saw) = (Action::LeaseEnd, "".into(), Saw::default());
    let step = Step { action, what, saw, begun: end, ended: end, ..taken.clone() };
    (is_at_work && !is_lost && !is_released).then_some(step)
}

/// The steps of each column in the order in which they ended.
fn lay_out(
    promise: Promise,
    seed: u64,
    work: &Work,
    lanes: Vec<u32>,
    columns: Vec<Vec<&Step>>,
) -> Timeline {
    let mut lines = Vec::new();
    for (column, steps) in columns.into_iter().enumerate() {
        lines.extend(steps.into_iter().map(|step| Line {
            column,
            begun_us: 0.0,
            ended_us: 0.0,
            step: step.clone(),
            piece: None,
            lock_of: None,
            refused_before: None,
        }));
    }
    // The end of a lease comes before the acquisition that proves it.
    lines.sort_by_key(|it| (it.step.ended, it.step.action != Action::LeaseEnd));
    // A lock or an entry may have been waited for since long before.
    let starts = lines.iter().map(|it| match it.step.action {
        Action::Lock | Action::Acquire | Action::Queue => it.step.ended,
        _ if it.step.lane == CONSUMER => it.step.ended,
        _ => it.step.begun,
    });
    let zero = starts.min().unwrap_or(Instant(0));
    let micros = |at: Instant| (at.0 - zero.0) as f64 / 1e3;
    for line in &mut lines {
        (line.begun_us, line.ended_us) = (micros(line.step.begun), micros(line.step.ended));
    }
    Timeline { promise, seed, instances: work.instances, lanes, lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of one millisecond that begins at `begun`, also in milliseconds.
    fn step(
        lane: u32,
        (begun, action): (i64, Action),
        what: &'static str,
        (values, saw): (&[i64], &[i64]),
    ) -> Step {
        let [begun, ended] = [begun, begun + 1].map(|millis| Instant(millis * 1_000_000));
        let (what, values, saw) = (what.into(), values.to_vec(), saw.to_vec().into());
        Step { lane, user: 1, instance: 1, action, what, values, saw, begun, ended }
    }

    fn served(steps: Vec<Step>) -> Served {
        let (begun, ended) = (steps[0].begun, steps[0].ended);
        Served { user: 1, reply: Reply::Bought(1), begun, ended, steps }
    }

    /// When the lease of a holder ends, in milliseconds. It takes a lock for 900 ms at 0 and works from 2,000 on; the next
    /// request takes the lock at `next`.
    fn end(between: Vec<Step>, next: i64) -> Option<i64> {
        let acquire = |lane, at| step(lane, (at, Action::Acquire), "lock", (&[900], &[1]));
        let mut steps = vec![acquire(1, 0)];
        steps.extend(between);
        steps.push(step(1, (2_000, Action::Transaction), "COMMIT", (&[], &[])));
        let end = lease_end(&served(steps), &served(vec![acquire(2, next)]), &[]);
        end.map(|it| it.ended.0 / 1_000_000)
    }

    #[test]
    fn a_lease_ends_only_while_the_lock_is_held() {
        let release = |at, saw| step(1, (at, Action::Release), "release", (&[], saw));
        assert_eq!(end(vec![], 950), Some(901));
        assert_eq!(end(vec![], 899), Some(900), "the acquisition that proves it");
        assert_eq!(end(vec![release(500, &[1])], 950), None, "released in time");
        assert_eq!(end(vec![release(1_500, &[1])], 950), Some(901), "released too late");
        assert_eq!(end(vec![release(500, &[0])], 950), Some(901), "lost");
        // A reentrant lock is still held after the first of two releases.
        let again = step(1, (100, Action::Acquire), "again", (&[900], &[1]));
        let inner = vec![again, release(500, &[1])];
        assert_eq!(end(inner.clone(), 1_050), Some(1_001));
        assert_eq!(end([inner, vec![release(600, &[1])]].concat(), 1_050), None);
    }

    #[test]
    fn a_lock_that_is_lost_in_a_failover_does_not_expire() {
        let incident = |what| vec![step(1, (300, Action::Incident), what, (&[], &[]))];
        assert_eq!(end(incident(FAILOVER), 950), None);
        assert_eq!(end(incident("SIGSTOP"), 950), Some(901));
    }
}
