//! Points in time as stored and compared by the program.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

use crate::{
    Label, Reason,
    reason::{quoted, reason},
};

/// Milliseconds since the Unix epoch, UTC: the format in Redis and SQL, and exact in a Lua number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

quoted!(Millis);

/// The time in seconds, with at most three decimals.
pub fn seconds(time: Duration) -> String {
    (time.as_millis() as f64 / 1e3).to_string()
}

impl Millis {
    /// The node's own clock. Sales begin and end by Redis' clock, never by this one.
    pub fn now() -> Self {
        Self(Timestamp::now().as_millisecond())
    }

    /// Milliseconds from `earlier` to this point, 0 if `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Offset of the clock that read this point to the local clock, when it was read between `asked` and `answered`.
    /// `known` if that is within this range, so that a slow reply does not shift the result.
    pub fn ahead(self, known: i64, asked: Self, answered: Self) -> i64 {
        known.max(self.0 - answered.0).min(self.0 - asked.0)
    }

    /// Returns this point plus `millis`.
    #[must_use]
    pub fn plus(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Wall-clock time in `zone`, for example `14:30:05`.
    pub fn time_of_day(self, zone: &TimeZone) -> String {
        self.format("%H:%M:%S", zone)
    }

    /// Date and time in `zone`, for example `2026-11-20 14:30:05`.
    pub fn date_time(self, zone: &TimeZone) -> String {
        self.format("%Y-%m-%d %H:%M:%S", zone)
    }

    fn format(self, pattern: &str, zone: &TimeZone) -> String {
        match Timestamp::from_millisecond(self.0) {
            Ok(at) => at.to_zoned(zone.clone()).strftime(pattern).to_string(),
            Err(_) => Label("time-out-of-range").to_owned(),
        }
    }
}

impl fmt::Display for Millis {
    /// RFC 3339 in UTC, as printed by `--json` and read by [`FromStr`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl FromStr for Millis {
    type Err = Reason;

    /// Parses RFC 3339, a local date and time, a local time of today, or an offset from now (`+90s`, `+10m`, `-2h`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<When>().map(|when| when.from(Self::now()))
    }
}

/// A time as the user enters it: absolute, or relative to now. The caller decides whose now: sales open and close by
/// Redis' clock, which also dates entries.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// Absolute.
    At(Millis),
    /// Relative to now; negative is before it. In the unit that was entered: an hour differs from sixty minutes.
    In(jiff::SpanFieldwise),
}

impl When {
    /// Resolves the time at `now`. An offset beyond the range of time is clamped.
    pub fn from(&self, now: Millis) -> Millis {
        match self {
            Self::At(at) => *at,
            Self::In(span) => {
                let end = if span.0.is_negative() { i64::MIN } else { i64::MAX };
                add(now, span.0).unwrap_or(Millis(end))
            }
        }
    }
}

impl FromStr for When {
    type Err = Reason;

    /// Accepts the same formats as [`Millis`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let fault = || reason!("faults-time", text = text.chars().take(40).collect::<String>());
        let (ahead, ago) = (text.strip_prefix('+'), text.strip_prefix('-'));
        let Some(span) = ahead.or(ago) else {
            return absolute(text).map(Self::At).ok_or_else(fault);
        };
        let span: jiff::Span = span.trim().parse().map_err(|_| fault())?;
        let span = if ago.is_some() { -span } else { span };
        add(Millis::now(), span).map(|_| Self::In(span.fieldwise())).ok_or_else(fault)
    }
}

fn add(now: Millis, span: jiff::Span) -> Option<Millis> {
    let now = Timestamp::from_millisecond(now.0).ok()?.to_zoned(TimeZone::system());
    Some(Millis(now.checked_add(span).ok()?.timestamp().as_millisecond()))
}

fn absolute(text: &str) -> Option<Millis> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(Millis(at.as_millisecond()));
    }
    let zone = TimeZone::system();
    let local = text.parse::<jiff::civil::DateTime>().ok().or_else(|| {
        let time = text.parse::<jiff::civil::Time>().ok()?;
        Some(jiff::Zoned::now().date().to_datetime(time))
    })?;
    Some(Millis(local.to_zoned(zone).ok()?.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_offset_is_bounded_by_the_reply_time() {
        let of = |known, read, asked, answered| {
            Millis(read).ahead(known, Millis(asked), Millis(answered))
        };
        assert_eq!(of(0, 1_003, 1_000, 1_900), 0, "the same clock, and a slow answer");
        assert_eq!(of(0, 61_003, 1_000, 1_010), 59_993);
        assert_eq!(of(60_993, 72_000, 11_000, 12_000), 60_993, "as it was known");
        assert_eq!(of(0, 400, 1_000, 1_004), -600, "less than a second counts as well");
        assert_eq!(of(0, 1_000, 1_001, 1_001), -1);
    }

    #[test]
    fn parses_what_it_prints() {
        let at = Millis(1_795_000_000_123);
        assert_eq!(at.to_string().parse::<Millis>(), Ok(at));
    }

    #[test]
    fn relative_times_use_the_given_now() {
        let soon: When = "+90s".parse().unwrap();
        assert_eq!(soon.from(Millis(1_000)), Millis(91_000));
        let ago: When = "-1s".parse().unwrap();
        assert_eq!(ago.from(Millis(1_795_000_001_000)), Millis(1_795_000_000_000));
        let at: When = "2026-11-20T14:30:00Z".parse().unwrap();
        assert_eq!(at.from(Millis(1_000)), "2026-11-20T14:30:00Z".parse().unwrap());
        assert!("+".parse::<When>().is_err() && "soon".parse::<When>().is_err());
    }

    #[test]
    fn parses_durations_and_rejects_garbage() {
        let before = Millis::now();
        let soon = "+10m".parse::<Millis>().unwrap_or_default();
        assert!(soon.since(before) >= 600_000 && soon.since(before) < 700_000, "{soon}");
        assert!("2026-11-20 14:30".parse::<Millis>().is_ok());
        assert!("14:30".parse::<Millis>().is_ok());
        let past = "-2h".parse::<Millis>().unwrap_or_default();
        assert!(before.since(past) >= 7_199_000 && before.since(past) < 7_300_000, "{past}");
        for bad in ["", "tomorrow", "25:99", "+", "-", "-5", "9999999999999999"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad}");
        }
    }
}
