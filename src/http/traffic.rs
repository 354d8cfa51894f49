//! What an operator sees of the server: answers, latencies of the last seconds, and who sends most requests.

use std::{collections::BTreeMap, collections::HashMap, hash::Hash, net::IpAddr, time::Duration};

use axum::http::StatusCode;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use seckill_engine::telemetry::{
    meters::{Recent, histogram, latency_of, sum},
    snapshot::{HttpLine, Talker},
};
use seckill_model::UserId;

/// Counters per second of users, and of addresses: half a megabyte in all for the last seconds.
const COUNTERS: usize = 1_024;
/// Users and addresses that are published.
const TOP: usize = 10;

/// The requests to this server. A request takes the lock for about a tenth of a microsecond.
#[derive(Debug, Default)]
pub(crate) struct Traffic(Mutex<Seen>);

#[derive(Clone, Debug, Default)]
struct Seen {
    answers: BTreeMap<u16, u64>,
    recent: Recent<Second>,
}

#[derive(Clone, Debug)]
struct Second {
    latencies: Histogram<u64>,
    users: Frequent<UserId>,
    addresses: Frequent<IpAddr>,
}

impl Second {
    fn new() -> Self {
        let (users, addresses) = (Frequent::default(), Frequent::default());
        Self { latencies: histogram(), users, addresses }
    }
}

impl Traffic {
    /// Counts a request of a session.
    pub(crate) fn note_user(&self, user: UserId) {
        self.0.lock().recent.note(Second::new, |second| second.users.count(user));
    }

    /// Counts a request that was answered.
    pub(crate) fn note_answer(&self, status: StatusCode, took: Duration, from: Option<IpAddr>) {
        let mut seen = self.0.lock();
        *seen.answers.entry(status.as_u16()).or_default() += 1;
        seen.recent.note(Second::new, |second| {
            second.latencies.saturating_record(took.as_micros() as u64);
            if let Some(from) = from {
                second.addresses.count(from);
            }
        });
    }

    /// The figures of now; the others are those of their default.
    pub(crate) fn line(&self) -> HttpLine {
        // Copied, so that no request waits for the sums.
        let seen = self.0.lock().clone();
        let recent = sum(seen.recent.parts().map(|second| &second.latencies));
        let seconds = seen.recent.span().as_secs_f64();
        HttpLine {
            per_second: recent.len() as f64 / seconds,
            answers: seen.answers.clone(),
            latency: (!recent.is_empty()).then(|| latency_of(&recent)),
            users: top(seen.recent.parts().map(|second| &second.users), seconds),
            addresses: top(seen.recent.parts().map(|second| &second.addresses), seconds),
            ..HttpLine::default()
        }
    }
}

/// Counts the most frequent keys in bounded memory, whatever keys come: J. Misra and D. Gries, "Finding repeated
/// elements", Science of Computer Programming 2 (1982). After `n` keys, a count is at most the true one, and less by at
/// most `n / (COUNTERS + 1)`. The time for a key is amortized: a pass over the counters takes back what as many keys
/// have added.
#[derive(Clone, Debug)]
struct Frequent<K>(HashMap<K, u64>);

impl<K> Default for Frequent<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Frequent<K> {
    fn count(&mut self, key: K) {
        if let Some(count) = self.0.get_mut(&key) {
            *count += 1;
        } else if self.0.len() < COUNTERS {
            self.0.insert(key, 1);
        } else {
            self.0.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }
}

/// The keys that were counted most in some seconds, most first.
fn top<'a, K: Eq + Hash + Ord + Copy + 'a>(
    parts: impl Iterator<Item = &'a Frequent<K>>,
    seconds: f64,
) -> Vec<Talker<K>> {
    let mut counts: HashMap<K, u64> = HashMap::new();
    for (key, count) in parts.flat_map(|part| &part.0) {
        *counts.entry(*key).or_default() += count;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by(|(a, ours), (b, theirs)| theirs.cmp(ours).then(a.cmp(b)));
    counts.truncate(TOP);
    counts.into_iter().map(|(id, it)| Talker { id, per_second: it as f64 / seconds }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_are_found_among_any_number_of_others() {
        let mut frequent = Frequent::default();
        let (keys, loud) = (1_000_000, [7, 11]);
        for key in 0..keys {
            frequent.count(100 + key);
            if key % 50 == 0 {
                frequent.count(loud[0]);
                frequent.count(loud[1]);
            }
            assert!(frequent.0.len() <= COUNTERS && frequent.0.capacity() <= 4 * COUNTERS);
        }
        let found = top(std::iter::once(&frequent), 1.0);
        let mut first: Vec<_> = found.iter().take(2).map(|it| it.id).collect();
        first.sort_unstable();
        assert_eq!(first, loud);
        let (true_count, error) = (keys / 50, (keys + keys / 25) / (COUNTERS as u64 + 1));
        for it in &found[..2] {
            let count = it.per_second as u64;
            assert!((true_count - error..=true_count).contains(&count), "{found:?}");
        }
    }

    #[test]
    fn requests_are_counted_by_status_user_and_address() {
        let (traffic, address) = (Traffic::default(), IpAddr::from([192, 0, 2, 1]));
        assert_eq!(traffic.line(), HttpLine::default());
        for user in [1, 2, 2] {
            traffic.note_user(UserId(user));
            traffic.note_answer(StatusCode::OK, Duration::from_millis(2), Some(address));
        }
        traffic.note_answer(StatusCode::CONFLICT, Duration::from_millis(90), None);
        let line = traffic.line();
        assert_eq!([2, 4, 5].map(|class| line.answers_of(class)), [3, 1, 0]);
        let users: Vec<_> = line.users.iter().map(|it| (it.id.0, it.per_second)).collect();
        assert_eq!(users, [(2, 2.0), (1, 1.0)]);
        assert_eq!(line.addresses, [Talker { id: address, per_second: 3.0 }]);
        let latency = line.latency.unwrap();
        assert_eq!((latency.samples, line.per_second), (4, 4.0));
        assert!(latency.p50 < 3_000 && latency.p99 > 80_000, "{latency:?}");
    }
}
