//! A model of one sale over many shards: how far their sales drift apart, how many moves even them out, and how long that
//! takes. It needs no server; what a shard and a move cost is measured before.

use rand::{Rng, RngExt as _, SeedableRng as _, rngs::ChaCha8Rng};
use seckill_model::sale::split;
use serde::Serialize;

/// Steps until an average shard would have sold its pieces, at most.
const STEPS: f64 = 50.0;
/// Above this mean, a Poisson number is drawn as a normal one: the error is less than that of the model.
const NORMAL_FROM: f64 = 30.0;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) shards: u64,
    pub(super) buyers: u64,
    /// Whether the shards' shares of the buyers follow Zipf's law with exponent 1; equal otherwise.
    pub(super) skewed: bool,
    /// Requests per second of a shard.
    pub(super) per_second: f64,
    /// Seconds of a move.
    pub(super) move_seconds: f64,
}

/// Results; the keys are a contract of `bench shards --json`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Number of shards.
    pub shards: u64,
    /// Buyers; there is a piece for one in a hundred.
    pub buyers: u64,
    /// Whether the shards' shares of the buyers follow Zipf's law with exponent 1; equal otherwise.
    pub skewed: bool,
    /// Pieces sold.
    pub sold: u64,
    /// Most pieces that a shard has sold when the first one is dry, divided by the fewest, which count as at least 1.
    pub imbalance: f64,
    /// Moves of pieces, each from and to all shards that take part.
    pub moves: u64,
    /// Seconds until the first shard is dry.
    pub first_dry_seconds: f64,
    /// Seconds from then until all are sold out.
    pub rest_seconds: f64,
    /// Share of the time from the first dry shard to the end in which a move was in progress. Close to 1, the moves, which
    /// one database commits one after another, are the limit; otherwise the requests of a shard are.
    pub moving: f64,
}

/// Sells all pieces. Buyers arrive at random, as fast as all shards together can serve them; those of a dry shard wait. The
/// rule is that of the engine's `Rebalancer`: the dry shards for which buyers wait get half of the pieces of as many of the
/// fullest, in one transaction, which takes as long as a move from each of these alone.
pub(super) fn simulate(case: Case, seed: u64) -> Simulated {
    let Case { shards, buyers, skewed, per_second, move_seconds } = case;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let weight = |number: u64| if skewed { 1.0 / number as f64 } else { 1.0 };
    let total: f64 = (1..=shards).map(weight).sum();
    let pieces = buyers / 100;
    let mut stocks: Vec<u64> = split(pieces, shards).collect();
    let initial = stocks.clone();
    let (mut waiting, mut to_come) = (vec![0_u64; shards as usize], buyers);
    let fine = (pieces as f64 / shards as f64 / per_second / STEPS).min(move_seconds);
    let (mut seconds, mut first_dry, mut imbalance) = (0.0, None, 1.0);
    let (mut moves, mut moving, mut carried) = (0, 0.0, 0.0);
    while stocks.iter().any(|left| *left > 0) {
        let (mut full, mut dry) = (Vec::new(), Vec::new());
        for (left, queue) in stocks.iter_mut().zip(&waiting) {
            match *left {
                0 if *queue > 0 => dry.push(left),
                0 => {}
                _ => full.push(left),
            }
        }
        full.sort_unstable_by(|one, other| other.cmp(one));
        full.truncate(dry.len());
        let step = if dry.is_empty() { fine } else { move_seconds * full.len() as f64 };
        if !dry.is_empty() {
            let mut pieces = 0;
            for left in &mut full {
                let half = left.div_ceil(2);
                **left -= half;
                pieces += half;
            }
            let shares = split(pieces, dry.len() as u64);
            for (left, share) in dry.into_iter().zip(shares) {
                *left = share;
            }
            moves += 1;
            moving += step;
        }
        seconds += step;
        carried += per_second * step;
        let capacity = carried as u64;
        carried -= capacity as f64;
        let offered = per_second * shards as f64 * step;
        for (number, (left, queue)) in (1..).zip(stocks.iter_mut().zip(&mut waiting)) {
            let arrived = poisson(&mut random, offered * weight(number) / total).min(to_come);
            to_come -= arrived;
            *queue += arrived;
            let served = capacity.min(*queue).min(*left);
            *queue -= served;
            *left -= served;
        }
        let is_dry = stocks.iter().zip(&waiting).any(|(left, queue)| *left == 0 && *queue > 0);
        if first_dry.is_none() && (is_dry || stocks.iter().all(|left| *left == 0)) {
            first_dry = Some(seconds);
            let sold = || initial.iter().zip(&stocks).map(|(initial, left)| initial - left);
            let (most, least) = (sold().max().unwrap_or(1), sold().min().unwrap_or(1));
            imbalance = most as f64 / least.max(1) as f64;
        }
    }
    let first_dry_seconds = first_dry.unwrap_or(seconds);
    let rest_seconds = seconds - first_dry_seconds;
    Simulated {
        shards,
        buyers,
        skewed,
        sold: pieces - stocks.iter().sum::<u64>(),
        imbalance,
        moves,
        first_dry_seconds,
        rest_seconds,
        moving: moving / rest_seconds.max(moving).max(f64::MIN_POSITIVE),
    }
}

/// A Poisson number: Knuth's method, or the nearest normal one (Box and Muller) if the mean is large.
fn poisson(random: &mut impl Rng, mean: f64) -> u64 {
    if mean > NORMAL_FROM {
        let (one, other): (f64, f64) = (random.random(), random.random());
        let normal = (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        return mean.sqrt().mul_add(normal, mean).round() as u64;
    }
    let (end, mut product, mut number) = ((-mean).exp(), random.random::<f64>(), 0);
    while product > end {
        product *= random.random::<f64>();
        number += 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: Case = Case {
        shards: 64,
        buyers: 1_000_000,
        skewed: false,
        per_second: 100_000.0,
        move_seconds: 0.005,
    };

    #[test]
    fn every_piece_is_sold() {
        for shards in [1, 8, 64, 1_000] {
            for skewed in [false, true] {
                let end = simulate(Case { shards, skewed, ..CASE }, 7);
                assert_eq!(end.sold, 10_000, "{end:?}");
                assert!(end.imbalance >= 1.0 && end.moving <= 1.01, "{end:?}");
            }
        }
    }

    #[test]
    fn one_shard_has_no_moves() {
        let end = simulate(Case { shards: 1, ..CASE }, 7);
        assert_eq!((end.moves, end.imbalance), (0, 1.0));
    }

    #[test]
    fn a_seed_determines_the_run_and_skew_costs_balance() {
        let skewed = Case { skewed: true, ..CASE };
        assert_eq!(simulate(skewed, 7), simulate(skewed, 7));
        assert_ne!(simulate(skewed, 7), simulate(skewed, 8));
        assert!(simulate(skewed, 7).imbalance > 2.0 * simulate(CASE, 7).imbalance);
    }

    #[test]
    fn poisson_numbers_have_their_mean() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for mean in [0.5, 10.0, 1_000.0] {
            let sum: u64 = (0..10_000).map(|_| poisson(&mut random, mean)).sum();
            let found = sum as f64 / 10_000.0;
            assert!((found / mean - 1.0).abs() < 0.05, "{found} for {mean}");
        }
    }
}
