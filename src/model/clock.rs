//! Points in time as stored and compared by the program.

use std::{env, fmt, str::FromStr, time::Duration};

use jiff::{
    Timestamp,
    civil::{DateTime, Time},
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use serde::{Deserialize, Serialize};

use crate::{
    Label, Reason,
    reason::{quoted, reason},
};

/// The environment variable that selects the zone of local times.
const TZ: &str = "TZ";

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
    /// This host's clock. Sales open and close, and orders are dated, by the clock of Redis, never by this one.
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

    /// Date, time and offset in `zone`, for example `2026-11-20 14:30:05 +08:00`.
    pub fn with_offset(self, zone: &TimeZone) -> String {
        self.format("%Y-%m-%d %H:%M:%S %:z", zone)
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
                // The zone was found when the text was parsed.
                add(now, span.0).ok().flatten().unwrap_or(Millis(end))
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
            return absolute(text)?.map(Self::At).ok_or_else(fault);
        };
        let span: jiff::Span = span.trim().parse().map_err(|_| fault())?;
        let span = if ago.is_some() { -span } else { span };
        add(Millis::now(), span)?.map(|_| Self::In(span.fieldwise())).ok_or_else(fault)
    }
}

/// `None` beyond the range of time.
fn add(now: Millis, span: jiff::Span) -> Result<Option<Millis>, Reason> {
    let zone = local_zone()?;
    let end =
        Timestamp::from_millisecond(now.0).and_then(|now| now.to_zoned(zone).checked_add(span));
    Ok(end.ok().map(|end| Millis(end.timestamp().as_millisecond())))
}

/// The zone of local times: that of `TZ`, or of the system; UTC where the system has none.
///
/// # Errors
///
/// Fails if `TZ` names a zone that is not known here: UTC in its place would shift a sale by hours.
pub fn local_zone() -> Result<TimeZone, Reason> {
    match (TimeZone::try_system(), env::var_os(TZ)) {
        (Ok(zone), _) => Ok(zone),
        (Err(_), None) => Ok(TimeZone::UTC),
        (Err(_), Some(zone)) => {
            Err(reason!("faults-zone", zone = zone.to_string_lossy().into_owned()))
        }
    }
}

/// `None` if the text is no time.
fn absolute(text: &str) -> Result<Option<Millis>, Reason> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Some(Millis(at.as_millisecond())));
    }
    let zone = local_zone()?;
    let local = text.parse::<DateTime>().ok().or_else(|| {
        let time = text.parse::<Time>().ok()?;
        Some(Timestamp::now().to_zoned(zone.clone()).date().to_datetime(time))
    });
    local.map_or(Ok(None), |local| in_zone(local, zone))
}

/// `None` beyond the range of time.
fn in_zone(local: DateTime, zone: TimeZone) -> Result<Option<Millis>, Reason> {
    let at = zone.into_ambiguous_zoned(local);
    let text = local.strftime("%Y-%m-%d %H:%M").to_string();
    match at.offset() {
        AmbiguousOffset::Unambiguous { .. } => {}
        AmbiguousOffset::Gap { .. } => return Err(reason!("faults-time-skipped", text)),
        AmbiguousOffset::Fold { before, after } => {
            let with = |offset: Offset| {
                offset.to_timestamp(local).map(|at| at.display_with_offset(offset).to_string())
            };
            return Err(reason!(
                "faults-time-twice",
                text,
                first = with(before).unwrap_or_default(),
                second = with(after).unwrap_or_default()
            ));
        }
    }
    Ok(at.unambiguous().ok().map(|at| Millis(at.timestamp().as_millisecond())))
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
    fn a_local_time_that_does_not_exist_or_exists_twice_is_an_error() {
        let at = |text: &str| {
            let zone = TimeZone::get("Europe/Berlin").unwrap();
            in_zone(text.parse().unwrap(), zone)
        };
        assert_eq!(at("2026-03-29 01:59"), Ok("2026-03-29T00:59:00Z".parse().ok()));
        let skipped = at("2026-03-29 02:30").unwrap_err();
        assert_eq!(skipped, reason!("faults-time-skipped", text = "2026-03-29 02:30"));
        let twice = at("2026-10-25 02:30").unwrap_err();
        let (first, second) = ("2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00");
        let text = "2026-10-25 02:30";
        assert_eq!(twice, reason!("faults-time-twice", text, first, second));
        assert_ne!(first.parse::<Millis>(), second.parse::<Millis>());
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

    proptest::proptest! {
        #[test]
        fn any_text_is_a_time_or_an_error(
            text in "[-+]?[0-9]{0,20} ?[a-zA-Z]{0,9}|[0-9T:. Z+-]{0,30}|.{0,20}",
            now: i64,
        ) {
            if let Ok(when) = text.parse::<When>() {
                let at = when.from(Millis(now));
                let _ = (at.date_time(&TimeZone::UTC), at.with_offset(&TimeZone::UTC), at.to_string());
            }
        }
    }
}
