//! Rate limits for a user and for an address.
//!
//! `governor` itself rather than a layer around it: the user is known only once the session was read.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, MonotonicClock},
    middleware::NoOpMiddleware,
    state::keyed::HashMapStateStore,
};
use seckill_model::UserId;

type Limiter<K> =
    RateLimiter<K, HashMapStateStore<K>, MonotonicClock, NoOpMiddleware<std::time::Instant>>;

/// The limits of one process; `None` is unlimited.
#[derive(Debug)]
pub(crate) struct Limits {
    users: Option<Limiter<UserId>>,
    addresses: Option<Limiter<IpAddr>>,
}

/// How long a client has to wait until its next request is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait(pub(crate) Duration);

impl Wait {
    /// In whole seconds, at least one.
    pub(crate) fn seconds(self) -> u64 {
        (self.0.as_millis() as u64).div_ceil(1_000).max(1)
    }
}

impl Limits {
    /// Limits in requests per second, which may come at once; 0 is unlimited.
    pub(crate) fn new(user: u32, address: u32) -> Self {
        Self { users: limiter(user), addresses: limiter(address) }
    }

    pub(crate) fn check_user(&self, user: UserId) -> Result<(), Wait> {
        check(self.users.as_ref(), &user)
    }

    pub(crate) fn check_address(&self, address: IpAddr) -> Result<(), Wait> {
        check(self.addresses.as_ref(), &network(address))
    }

    /// Forgets those that have not asked for a while.
    pub(crate) fn forget(&self) {
        if let Some(users) = &self.users {
            users.retain_recent();
            users.shrink_to_fit();
        }
        if let Some(addresses) = &self.addresses {
            addresses.retain_recent();
            addresses.shrink_to_fit();
        }
    }
}

/// What one host may choose from: an IPv6 host has a network of 64 bits.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()
        }
        address => address,
    }
}

fn limiter<K: std::hash::Hash + Eq + Clone>(per_second: u32) -> Option<Limiter<K>> {
    let quota = Quota::per_second(NonZeroU32::new(per_second)?);
    Some(RateLimiter::new(quota, HashMapStateStore::default(), MonotonicClock))
}

fn check<K: std::hash::Hash + Eq + Clone>(
    limiter: Option<&Limiter<K>>,
    key: &K,
) -> Result<(), Wait> {
    let Some(limiter) = limiter else { return Ok(()) };
    let granted = limiter.check_key(key);
    granted.map_err(|until| Wait(until.wait_time_from(limiter.clock().now())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_limit_of_its_own() {
        let limits = Limits::new(2, 1);
        let (one, other) = (UserId(1), UserId(2));
        assert!(limits.check_user(one).is_ok() && limits.check_user(one).is_ok());
        let Wait(wait) = limits.check_user(one).unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        assert!(limits.check_user(other).is_ok());
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(limits.check_address(address("192.0.2.1")).is_ok());
        assert!(limits.check_address(address("192.0.2.1")).is_err());
        assert!(limits.check_address(address("::ffff:192.0.2.1")).is_err());
        assert!(limits.check_address(address("192.0.2.2")).is_ok());
        assert!(limits.check_address(address("2001:db8::1")).is_ok());
        assert!(limits.check_address(address("2001:db8::2")).is_err(), "the same network");
        assert!(limits.check_address(address("127.0.0.1")).is_ok());
        assert!(limits.check_address(address("127.0.0.1")).is_err(), "this host is one address");
        for _ in 0..5 {
            assert!(Limits::new(0, 0).check_user(one).is_ok());
        }
    }
}
