//! How often a login code is granted and checked: for a phone, for a network (an address; 64 bits of IPv6), and for all.
//!
//! A code has six digits, so a guess succeeds once in a million. Who guesses can request codes too, and can use many
//! addresses; the owner of the phone must be able to log in meanwhile. So each bound holds over all codes, a wrong code
//! leaves the right one valid, and a network from which the phone has logged in within a week ("known") is bound by its own
//! tries only, whatever others do. For any other network, the wrong codes of all of them count together, with pauses that
//! grow to five minutes and not beyond: an owner who logs in from a new network while another client guesses has to wait
//! for the end of a pause, and competes with the guesses then.
//!
//! | wrong codes | at once | pauses | in the first hour | per hour from then on |
//! | --- | --- | --- | --- | --- |
//! | of a phone in one network | 5 | 30 s to 5 min | 19 | 12 |
//! | of a phone in all networks that are not known | 10 | 30 s to 5 min | 24 | 12 |
//! | of a network, for phones that are not known there | 50 | 1 s to 30 s | 173 | 120 |
//! | of all, except in known networks | `wrong_codes_per_minute` (600) | to the end of the minute | 36,600 | 36,600 |
//!
//! A day of guesses at one phone, from any number of addresses, is 300 guesses: they succeed with a probability of 0.03%.
//! Codes of a phone are granted 3 at once, then with the pauses of 30 s to 5 min: 17 in the first hour, then 12 (counted
//! apart in known networks). A network gets `address_codes_per_minute`, all together `codes_per_minute`.
//! A pause is forgotten an hour after its end.
//!
//! All of this lives in Redis under keys that expire, each checked and changed by one script in one round trip, for all
//! servers of the deployment together. If Redis loses them, the counts begin again with those "at once", no network is known,
//! and the codes are lost as well, so that a guesser gains at most one more first hour. While Redis is away, no user logs in.

use std::{net::IpAddr, time::Duration};

use seckill_model::user::Phone;
use seckill_redis::{Layout, RedisError, SharedConnection, scripts};

use crate::{
    HttpSettings,
    limits::{Wait, network},
};

/// How long a code is valid after its last request.
const CODE_LASTS: Duration = Duration::from_mins(2);
/// How long a network is known for a phone. A key takes about 130 bytes.
const KNOWN_FOR: Duration = Duration::from_hours(7 * 24);

/// When something may be repeated: `free` times at once, then after pauses that double from the first to the longest.
#[derive(Clone, Copy, Debug)]
struct Pauses {
    free: u64,
    first: Duration,
    longest: Duration,
}

/// A pause is forgotten so long after its end.
const FORGET: Duration = Duration::from_hours(1);

const CODES: Pauses =
    Pauses { free: 3, first: Duration::from_secs(30), longest: Duration::from_mins(5) };
const PHONE_HERE: Pauses = Pauses { free: 5, ..CODES };
const PHONE: Pauses = Pauses { free: 10, ..CODES };
const NETWORK: Pauses =
    Pauses { free: 50, first: Duration::from_secs(1), longest: Duration::from_secs(30) };

impl Pauses {
    /// As the scripts expect them.
    fn args(self) -> [u64; 4] {
        let ms = |it: Duration| it.as_millis() as u64;
        [self.free, ms(self.first), ms(self.longest), ms(FORGET)]
    }
}

/// What came of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Right,
    Wrong,
    /// It was not looked at.
    Limited(Wait),
}

/// The login codes in Redis.
#[derive(Debug)]
pub(crate) struct LoginCodes {
    redis: SharedConnection,
    keys: Layout,
    codes_per_minute: u32,
    address_codes_per_minute: u32,
    wrong_codes_per_minute: u32,
}

impl LoginCodes {
    pub(crate) fn new(redis: SharedConnection, keys: Layout, settings: &HttpSettings) -> Self {
        Self {
            redis,
            keys,
            codes_per_minute: settings.codes_per_minute,
            address_codes_per_minute: settings.address_codes_per_minute,
            wrong_codes_per_minute: settings.wrong_codes_per_minute,
        }
    }

    /// The valid code of a phone, or a new one; or how long the client has to wait for it.
    pub(crate) async fn grant(
        &self,
        phone: &Phone,
        from: IpAddr,
    ) -> Result<Result<String, Wait>, RedisError> {
        let (keys, phone, from) = (&self.keys, phone.digits(), network(from));
        let new = format!("{:06}", rand::random_range(0..1_000_000));
        let code = keys.login_code(phone);
        let mut script = scripts::LOGIN_CODE.prepare_invoke();
        script
            .key(&code)
            .key(keys.login_known(phone, from))
            .key(keys.login_pause("codes", format_args!("{phone}:{from}")))
            .key(keys.login_pause("codes", phone))
            .key(keys.login_minute("codes", from))
            .key(keys.login_minute("codes", "all"))
            .arg(new)
            .arg(CODE_LASTS.as_millis() as u64)
            .arg(&CODES.args())
            .arg(self.address_codes_per_minute)
            .arg(self.codes_per_minute);
        let (wait, code): (u64, String) = self.redis.invoke(&code, &script).await?;
        Ok(if wait == 0 { Ok(code) } else { Err(Wait(Duration::from_millis(wait))) })
    }

    /// Checks the code of a client; the right one is used up.
    pub(crate) async fn check(
        &self,
        phone: &Phone,
        from: IpAddr,
        code: &str,
    ) -> Result<Checked, RedisError> {
        let (keys, phone, from) = (&self.keys, phone.digits(), network(from));
        let key = keys.login_code(phone);
        let mut script = scripts::LOGIN.prepare_invoke();
        script
            .key(&key)
            .key(keys.login_known(phone, from))
            .key(keys.login_pause("wrong", format_args!("{phone}:{from}")))
            .key(keys.login_pause("wrong", phone))
            .key(keys.login_pause("wrong", from))
            .key(keys.login_minute("wrong", "all"))
            .arg(code)
            .arg(KNOWN_FOR.as_millis() as u64)
            .arg(self.wrong_codes_per_minute);
        for pauses in [PHONE_HERE, PHONE, NETWORK] {
            script.arg(&pauses.args());
        }
        let (result, wait): (i64, u64) = self.redis.invoke(&key, &script).await?;
        Ok(match result {
            1 => Checked::Right,
            0 => Checked::Wrong,
            _ => Checked::Limited(Wait(Duration::from_millis(wait))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often something is granted within this many hours, to a client that repeats it as soon as it may.
    fn granted(pauses: Pauses, hours: u64) -> u64 {
        let (mut at, mut pause, mut n) = (Duration::ZERO, pauses.first, 0);
        while at < Duration::from_hours(hours) {
            n += 1;
            if n >= pauses.free {
                at += pause;
                pause = (pause * 2).min(pauses.longest);
            }
        }
        n
    }

    /// The figures that this module documents; the tests of the engine measure them on Redis.
    #[test]
    fn the_bounds_are_those_that_are_documented() {
        for (pauses, first, then) in
            [(PHONE_HERE, 19, 12), (PHONE, 24, 12), (NETWORK, 173, 120), (CODES, 17, 12)]
        {
            assert_eq!(granted(pauses, 1), first, "{pauses:?}");
            assert_eq!(granted(pauses, 25) - granted(pauses, 24), then, "{pauses:?}");
        }
        assert_eq!(granted(PHONE, 24), 300);
    }
}
