//! The tutorial's 64-bit order ID: time in the high half, the day's sequence in the low half.

use std::str::FromStr;

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::{
    Reason,
    control_chars::shortened,
    reason::{quoted, reason},
};

/// Unix time of the ID epoch, 2022-01-01T00:00:00Z.
pub const EPOCH_SECONDS: i64 = 1_640_995_200;
const SEQUENCE_BITS: u32 = 32;
const MAX_SECONDS: i64 = (1 << 31) - 1;

/// Order ID: bit 63 is 0, then 31 bits of UTC seconds since 2022-01-01, then 32 bits of the
/// day's sequence. Lives until 2090.
///
/// Written as a decimal string in JSON and passed to Lua as a string: both store numbers as doubles, which lose the low
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct OrderId(u64);

quoted!(OrderId);
serde_as_text!(OrderId);

impl OrderId {
    /// Combines Unix seconds and a sequence number.
    ///
    /// # Errors
    /// The clock is before 2022 or after 2090, or there are more IDs in one day than fit 32 bits: an ID never wraps.
    pub fn new(unix_seconds: i64, sequence: u64) -> Result<Self, Reason> {
        let seconds = unix_seconds - EPOCH_SECONDS;
        if !(0..=MAX_SECONDS).contains(&seconds) {
            return Err(reason!("faults-clock", seconds = unix_seconds.to_string()));
        }
        let sequence = u32::try_from(sequence).map_err(|_| reason!("faults-sequence"))?;
        Ok(Self(((seconds as u64) << SEQUENCE_BITS) | u64::from(sequence)))
    }

    /// The ID as a number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The ID as stored in SQL; bit 63 is 0, so the sign is not affected.
    pub fn as_i64(self) -> i64 {
        self.0 as i64
    }

    /// Parses an ID from SQL.
    pub fn from_i64(raw: i64) -> Option<Self> {
        u64::try_from(raw).ok().map(Self)
    }

    /// Unix second in which the ID was issued.
    pub fn unix_seconds(self) -> i64 {
        (self.0 >> SEQUENCE_BITS) as i64 + EPOCH_SECONDS
    }

    /// Sequence number within the issuer's UTC day.
    pub fn sequence(self) -> u32 {
        self.0 as u32
    }

    /// The issuer's UTC day, which names its sequence.
    pub fn day(self) -> Date {
        utc_day(self.unix_seconds())
    }
}

/// The UTC day of a Unix second.
pub fn utc_day(unix_seconds: i64) -> Date {
    Timestamp::from_second(unix_seconds)
        .map(|at| at.to_zoned(TimeZone::UTC).date())
        .unwrap_or_default()
}

impl FromStr for OrderId {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(raw) if digits && i64::try_from(raw).is_ok() => Ok(Self(raw)),
            _ => Err(reason!("faults-order-id", text = shortened(text, 30))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keeps_the_limits_and_never_wraps() {
        assert!(OrderId::new(EPOCH_SECONDS, 0).is_ok());
        assert!(OrderId::new(EPOCH_SECONDS + MAX_SECONDS, u64::from(u32::MAX)).is_ok());
        let early = OrderId::new(EPOCH_SECONDS - 1, 0).unwrap_err();
        assert_eq!(early, reason!("faults-clock", seconds = (EPOCH_SECONDS - 1).to_string()));
        assert!(OrderId::new(EPOCH_SECONDS + MAX_SECONDS + 1, 0).is_err());
        assert_eq!(OrderId::new(EPOCH_SECONDS, 1 << 32), Err(reason!("faults-sequence")));
    }

    #[test]
    fn garbage_is_rejected() {
        for bad in
            ["", "-1", "+1", "1.5", "abc", "9223372036854775808", "99999999999999999999999", " 1"]
        {
            assert!(bad.parse::<OrderId>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn ids_round_trip(seconds in 0..=MAX_SECONDS, sequence in 0..=u32::MAX) {
            let id = OrderId::new(EPOCH_SECONDS + seconds, u64::from(sequence)).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(id.unix_seconds(), EPOCH_SECONDS + seconds);
            prop_assert_eq!(id.sequence(), sequence);
            prop_assert_eq!(id.to_string().parse::<OrderId>(), Ok(id));
            prop_assert_eq!(OrderId::from_i64(id.as_i64()), Some(id));
        }

        #[test]
        fn ids_increase_with_time(seconds in 0..MAX_SECONDS, a in 0..=u32::MAX, b in 0..=u32::MAX) {
            let early = OrderId::new(EPOCH_SECONDS + seconds, u64::from(a));
            let late = OrderId::new(EPOCH_SECONDS + seconds + 1, u64::from(b));
            prop_assert!(early.ok() < late.ok());
        }
    }
}
