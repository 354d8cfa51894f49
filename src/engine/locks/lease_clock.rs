//! The clock of leases: it goes on while the host is suspended, as that of Redis does.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(test)]
thread_local! {
    /// How long the host was suspended, in a test.
    pub(super) static SUSPENDED: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

/// A moment of this host since it was started. `std::time::Instant` stops while the host is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeaseInstant(Duration);

impl LeaseInstant {
    pub(super) fn now() -> Self {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let now = clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
        let since_start = Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default());
        #[cfg(test)]
        let since_start = since_start + SUSPENDED.get();
        Self(since_start)
    }

    pub(super) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// Time until this moment; zero if it has passed.
    pub(super) fn left(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }

    pub(super) fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}
