//! A server's health over time: start of an outage, and a temporary notice of recovery.

use std::time::Duration;

use seckill_model::{Message, Millis};

use super::{
    read_error::ReadError,
    snapshot::{Back, Health},
};

/// How long a recovery is shown.
const SHOWN_FOR_MS: u64 = 60_000;

impl Health {
    /// Records the result of a read that ended at `now` after `took`.
    pub(super) fn note(&mut self, now: Millis, took: Duration, result: Result<(), ReadError>) {
        self.up = result.is_ok();
        self.latency_us = took.as_micros() as u64;
        self.error = result.err().as_ref().map(Message::of);
        self.back = self.back.filter(|back| now.since(back.at) < SHOWN_FOR_MS);
        if self.up {
            self.last_ok = Some(now);
            if let Some(since) = self.away_since.take() {
                self.back = Some(Back { at: now, after_ms: now.since(since) });
            }
        } else {
            // Nothing else is known about an unreachable server.
            self.unwritable = None;
            let began = now.plus(-(took.as_millis() as i64));
            self.away_since.get_or_insert(began);
            self.back = None;
        }
    }

    /// Records the result of a write probe, if the server is reachable.
    pub(super) fn note_writes(&mut self, answer: Result<(), ReadError>) {
        self.unwritable = answer.err().filter(|_| self.up).as_ref().map(Message::of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_store::StoreError;

    fn note(health: &mut Health, at: i64, took_ms: u64, good: bool) {
        let result = if good { Ok(()) } else { Err(ReadError::SqlSilent("gone".to_owned(), 1)) };
        health.note(Millis(at), Duration::from_millis(took_ms), result);
    }

    #[test]
    fn an_outage_has_a_start_and_an_end() {
        let mut health = Health::default();
        note(&mut health, 1_000, 1, true);
        assert_eq!((health.away_since, health.back), (None, None));
        note(&mut health, 4_000, 2_000, false);
        note(&mut health, 7_000, 2_000, false);
        assert_eq!(health.away_since, Some(Millis(2_000)), "start of the first failed read");
        assert_eq!(health.last_ok, Some(Millis(1_000)));
        note(&mut health, 9_000, 1, true);
        let back = Back { at: Millis(9_000), after_ms: 7_000 };
        assert_eq!((health.away_since, health.back), (None, Some(back)));
        note(&mut health, 68_999, 1, true);
        assert_eq!(health.back, Some(back));
        note(&mut health, 69_000, 1, true);
        assert_eq!(health.back, None, "expired after a minute");
    }

    #[test]
    fn a_server_that_accepts_no_writes_is_reachable() {
        let mut health = Health::default();
        note(&mut health, 1_000, 1, true);
        health.note_writes(Err(ReadError::Sql(StoreError::Locked)));
        note(&mut health, 2_000, 1, true);
        let why = health.unwritable.as_ref().and_then(Message::data);
        assert_eq!((health.up, why), (true, Some(ReadError::Sql(StoreError::Locked))));
        assert!(!health.takes_writes());
        assert_eq!((health.last_ok, health.away_since), (Some(Millis(2_000)), None));
        health.note_writes(Ok(()));
        note(&mut health, 3_000, 1, true);
        assert!(health.takes_writes() && health.back.is_none(), "it was never away");

        health.note_writes(Err(ReadError::Sql(StoreError::Locked)));
        note(&mut health, 4_000, 1, false);
        health.note_writes(Err(ReadError::Sql(StoreError::Locked)));
        assert_eq!(health.unwritable, None, "unknown while unreachable");
    }

    #[test]
    fn the_next_outage_clears_the_recovery_notice() {
        let mut health = Health::default();
        note(&mut health, 1_000, 0, false);
        note(&mut health, 2_000, 0, true);
        note(&mut health, 3_000, 0, false);
        assert_eq!((health.away_since, health.back), (Some(Millis(3_000)), None));
    }
}
