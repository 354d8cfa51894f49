//! When a job is due: at a fixed rate, a fixed delay after its last run, or by a cron expression.
//!
//! Pure rules; the caller provides the time.

use std::{str::FromStr, time::Duration};

use croner::{Cron, parser::CronParser};
use jiff::Timestamp;

use seckill_model::{Millis, Reason, reason::reason, serde_as_text};

use crate::deployment::time_zone::Zone;

/// When a job is due.
#[derive(Clone, Debug, PartialEq, derive_more::Display)]
pub enum Schedule {
    /// At each multiple of this, counted from the Unix epoch, so that all nodes agree on the moment.
    #[display("every {}", span(*_0))]
    Every(Duration),
    /// This long after the end of the last run.
    #[display("after {}", span(*_0))]
    After(Duration),
    /// By a cron expression of 5, 6 or 7 fields, in the time zone of the deployment.
    #[display("{}", _0.text)]
    Cron(Box<Expression>),
}

/// A cron expression with its source text.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    cron: Cron,
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_hours(366 * 24);

impl Schedule {
    /// Parses `every SPAN`, `after SPAN` or a cron expression, and checks that it is due some day after `now`.
    pub fn read(text: &str, now: Millis) -> Result<Self, Reason> {
        let text = text.trim();
        let unread = |why: Reason| reason!("schedule-unreadable", text = plain(text, 60), why);
        let duration = |span: &str| {
            let span: jiff::SignedDuration =
                span.trim().parse().map_err(|_| unread(reason!("schedule-span")))?;
            Duration::try_from(span).map_err(|_| unread(reason!("schedule-negative")))
        };
        let schedule = if let Some(rate) = text.strip_prefix("every ") {
            Self::Every(duration(rate)?)
        } else if let Some(delay) = text.strip_prefix("after ") {
            Self::After(duration(delay)?)
        } else {
            let cron = read_cron(text).map_err(unread)?;
            Self::Cron(Box::new(Expression { text: text.to_owned(), cron }))
        };
        match &schedule {
            Self::Every(interval) | Self::After(interval)
                if !(SHORTEST..=LONGEST).contains(interval) =>
            {
                Err(reason!("schedule-range", interval = span(*interval)))
            }
            Self::Cron(_) if schedule.next(now, None, &Zone::of_host()).is_none() => {
                Err(reason!("schedule-never", text))
            }
            _ => Ok(schedule),
        }
    }

    /// The first due time after `now`; `None` if there is none. `ended` is the end of the last run: a fixed delay
    /// counts from there, or from `now` without one.
    pub fn next(&self, now: Millis, ended: Option<Millis>, zone: &Zone) -> Option<Millis> {
        match self {
            Self::Every(rate) => {
                let rate = i64::try_from(rate.as_millis()).ok()?;
                Some(Millis((now.0.div_euclid(rate) + 1).checked_mul(rate)?))
            }
            Self::After(delay) => {
                let delay = i64::try_from(delay.as_millis()).ok()?;
                Some(ended.unwrap_or(now).plus(delay))
            }
            Self::Cron(expression) => {
                let now = Timestamp::from_millisecond(now.0).ok()?.to_zoned(zone.get().clone());
                let next = expression.cron.find_next_occurrence(&now, false).ok()?;
                Some(Millis(next.timestamp().as_millisecond()))
            }
        }
    }

    /// The last due time up to and including `now`; `None` for a fixed delay, which has no fixed due times.
    pub fn last(&self, now: Millis, zone: &Zone) -> Option<Millis> {
        match self {
            Self::Every(rate) => {
                let rate = i64::try_from(rate.as_millis()).ok()?;
                Some(Millis(now.0.div_euclid(rate) * rate))
            }
            Self::After(_) => None,
            Self::Cron(expression) => {
                let now = Timestamp::from_millisecond(now.0).ok()?.to_zoned(zone.get().clone());
                let last = expression.cron.find_previous_occurrence(&now, true).ok()?;
                Some(Millis(last.timestamp().as_millisecond()))
            }
        }
    }
}

/// Six or seven fields follow Quartz: seconds first, days of the week 1 to 7 with 1 for Sunday. Five fields follow
/// crontab, where 1 is Monday.
fn read_cron(text: &str) -> Result<Cron, Reason> {
    let mut fields: Vec<&str> = text.split_whitespace().collect();
    let quartz = fields.len() > 5;
    if !(5..=7).contains(&fields.len()) {
        return Err(reason!("schedule-fields", fields = fields.len()));
    }
    let (month_day, week_day) = if quartz { (3, 5) } else { (2, 4) };
    for (index, field) in fields.iter().enumerate() {
        if field.contains('?') && (*field != "?" || (index != month_day && index != week_day)) {
            return Err(reason!("schedule-question-mark"));
        }
        if field.split(',').any(str::is_empty) {
            return Err(reason!("schedule-empty-item"));
        }
    }
    if fields[month_day] == "?" && fields[week_day] == "?" {
        return Err(reason!("schedule-one-day"));
    }
    if fields[week_day].eq_ignore_ascii_case("L") {
        // The last day of the week is Saturday.
        fields[week_day] = if quartz { "7" } else { "6" };
    }
    CronParser::builder()
        .alternative_weekdays(quartz)
        // `5/15` starts at 5, as the tutorial's table has it.
        .sloppy_ranges(true)
        .build()
        .parse(&fields.join(" "))
        .map_err(|error| plain(&error.to_string(), 120).into())
}

/// The first characters of a text, without control characters.
fn plain(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

/// A span of time as a schedule has it, for example `30m`.
fn span(span: Duration) -> String {
    jiff::SignedDuration::try_from(span)
        .map_or_else(|_| format!("{span:?}"), |it| format!("{it:#}"))
}

impl FromStr for Schedule {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text, Millis::now())
    }
}

serde_as_text!(Schedule);

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn at(text: &str) -> Millis {
        let at: jiff::civil::DateTime = text.parse().unwrap();
        Millis(at.to_zoned(TimeZone::UTC).unwrap().timestamp().as_millisecond())
    }

    fn utc() -> Zone {
        "UTC".parse().unwrap()
    }

    /// The next few due times in UTC, as `2026-11-20 14:30:05`.
    fn dues(cron: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::read(cron, at(from)).unwrap_or_else(|fault| panic!("{fault}"));
        let mut now = at(from);
        let mut found = Vec::new();
        while found.len() < count {
            now = schedule.next(now, None, &utc()).unwrap();
            found.push(now.date_time(&TimeZone::UTC));
        }
        found
    }

    #[test]
    fn the_examples_of_the_tutorial_are_due_as_documented() {
        // On the 1st of each month at 2 in the morning.
        assert_eq!(
            dues("0 0 2 1 * ? *", "2026-11-20 00:00:00", 2),
            ["2026-12-01 02:00:00", "2027-01-01 02:00:00"]
        );
        // Monday to Friday at 10:15. 2026-11-20 is a Friday.
        assert_eq!(
            dues("0 15 10 ? * MON-FRI", "2026-11-20 00:00:00", 3),
            ["2026-11-20 10:15:00", "2026-11-23 10:15:00", "2026-11-24 10:15:00"]
        );
        // 2002 to 2020, on the last Friday of each month at 10:15.
        assert_eq!(
            dues("0 15 10 ? * 6L 2002-2020", "2002-01-01 00:00:00", 2),
            ["2002-01-25 10:15:00", "2002-02-22 10:15:00"]
        );
        let never = Schedule::read("0 15 10 ? * 6L 2002-2020", at("2026-01-01 00:00:00"));
        assert_eq!(never.unwrap_err().id(), Some("schedule-never"));
        // Every hour from 9 to 21, Monday (2) to Friday (6).
        assert_eq!(
            dues("0 0 9-21 * * 2-6", "2026-11-20 20:30:00", 2),
            ["2026-11-20 21:00:00", "2026-11-23 09:00:00"]
        );
        // Every other second, and every ten.
        assert_eq!(
            dues("0/2 * * * * ?", "2026-11-20 00:00:00", 2),
            ["2026-11-20 00:00:02", "2026-11-20 00:00:04"]
        );
        assert_eq!(dues("0/10 * * * * ?", "2026-11-20 00:00:51", 1), ["2026-11-20 00:01:00"]);
    }

    #[test]
    fn the_special_characters_of_the_tutorial_are_supported() {
        // A range of hours; a list of days; a step from 5.
        assert_eq!(
            dues("0 0 5-8 * * ?", "2026-11-20 04:00:00", 5),
            [
                "2026-11-20 05:00:00",
                "2026-11-20 06:00:00",
                "2026-11-20 07:00:00",
                "2026-11-20 08:00:00",
                "2026-11-21 05:00:00"
            ]
        );
        assert_eq!(
            dues("0 0 0 ? * FRI,SUN", "2026-11-20 12:00:00", 2),
            ["2026-11-22 00:00:00", "2026-11-27 00:00:00"]
        );
        assert_eq!(
            dues("0 5/15 * * * ?", "2026-11-20 00:00:00", 5),
            [
                "2026-11-20 00:05:00",
                "2026-11-20 00:20:00",
                "2026-11-20 00:35:00",
                "2026-11-20 00:50:00",
                "2026-11-20 01:05:00"
            ]
        );
        // The last day of the month, and of the week (Saturday).
        assert_eq!(
            dues("0 0 0 L * ?", "2028-02-01 00:00:00", 2),
            ["2028-02-29 00:00:00", "2028-03-31 00:00:00"]
        );
        assert_eq!(dues("0 0 0 ? * L", "2026-11-20 00:00:00", 1), ["2026-11-21 00:00:00"]);
        // 5W: the weekday nearest to the 5th. 2026-12-05 is a Saturday, 2026-07-05 a Sunday,
        // 2026-11-05 a Thursday; 1W stays within its month when the 1st is a Saturday (2026-08).
        assert_eq!(dues("0 0 0 5W * ?", "2026-12-01 00:00:00", 1), ["2026-12-04 00:00:00"]);
        assert_eq!(dues("0 0 0 5W * ?", "2026-07-01 00:00:00", 1), ["2026-07-06 00:00:00"]);
        assert_eq!(dues("0 0 0 5W * ?", "2026-11-01 00:00:00", 1), ["2026-11-05 00:00:00"]);
        assert_eq!(dues("0 0 0 1W * ?", "2026-08-01 00:00:00", 1), ["2026-08-03 00:00:00"]);
        // LW: the last weekday of the month. 2026-10-31 is a Saturday.
        assert_eq!(dues("0 0 0 LW * ?", "2026-10-01 00:00:00", 1), ["2026-10-30 00:00:00"]);
        // 4#2: the second Wednesday.
        assert_eq!(dues("0 0 0 ? * 4#2", "2026-11-01 00:00:00", 1), ["2026-11-11 00:00:00"]);
    }

    #[test]
    fn five_fields_follow_crontab() {
        assert_eq!(dues("30 2 * * 1", "2026-11-20 00:00:00", 1), ["2026-11-23 02:30:00"]);
    }

    #[test]
    fn a_rate_means_the_same_moments_on_every_node() {
        let rate = Schedule::read("every 30m", Millis(0)).unwrap();
        assert_eq!(
            rate.next(at("2026-11-20 14:29:59"), None, &utc()),
            Some(at("2026-11-20 14:30:00"))
        );
        assert_eq!(
            rate.next(at("2026-11-20 14:30:00"), None, &utc()),
            Some(at("2026-11-20 15:00:00"))
        );
        let delay = Schedule::read("after 10s", Millis(0)).unwrap();
        assert_eq!(
            delay.next(Millis(100_000), Some(Millis(95_000)), &utc()),
            Some(Millis(105_000))
        );
        assert_eq!(delay.next(Millis(100_000), None, &utc()), Some(Millis(110_000)));
        assert_eq!(rate.to_string(), "every 30m");
    }

    #[test]
    fn the_last_due_time_is_now_or_before() {
        let rate = Schedule::read("every 30m", Millis(0)).unwrap();
        assert_eq!(rate.last(at("2026-11-20 14:30:00"), &utc()), Some(at("2026-11-20 14:30:00")));
        assert_eq!(rate.last(at("2026-11-20 14:59:59"), &utc()), Some(at("2026-11-20 14:30:00")));
        let cron = Schedule::read("0 0/5 * * * ?", Millis(0)).unwrap();
        assert_eq!(cron.last(at("2026-11-20 14:34:59"), &utc()), Some(at("2026-11-20 14:30:00")));
        assert_eq!(cron.last(at("2026-11-20 14:35:00"), &utc()), Some(at("2026-11-20 14:35:00")));
    }

    #[test]
    fn invalid_or_never_due_schedules_are_rejected() {
        let now = at("2026-11-20 00:00:00");
        for never in ["0 0 0 30 2 ?", "0 0 0 31 2,4,6,9,11 ?", "0 0 0 1 1 ? 1999"] {
            let read = Schedule::read(never, now);
            assert_eq!(read.unwrap_err().id(), Some("schedule-never"), "{never}");
        }
        for bad in [
            "",
            "   ",
            "* * *",
            "60 * * * * ?",
            "* * 25 * * ?",
            "0 0 0 32 * ?",
            "0 0 0 ? * ?",
            "0 0 ? * * *",
            "0 0 0 ? * 9",
            "1,,2 * * * * ?",
            "a b c d e f",
            "* * * * * * * *",
            "every",
            "every 0s",
            "every -5m",
            "after 1000000h",
            "every 5 turtles",
            "0 0 0 5C * ?",
            "*/0 * * * * ?",
            "\u{1b}[2J * * * *",
        ] {
            let fault = Schedule::read(bad, now).map_err(|fault| fault.to_string());
            let text = fault.expect_err(bad);
            assert!(text.len() < 400 && !text.contains('\u{1b}'), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_schedule_or_an_error(
            text in "(every |after )?[-+0-9hmsdT .]{0,12}|([0-9*/,?LWFRI#-]{1,5} ){4,6}[0-9*/,?LW#-]{1,5}|.{0,30}",
            now in -1_000_000_000_000_i64..10_000_000_000_000,
        ) {
            if let Ok(schedule) = Schedule::read(&text, Millis(now)) {
                let (next, last) = (schedule.next(Millis(now), None, &utc()), schedule.last(Millis(now), &utc()));
                proptest::prop_assert!(next.is_none_or(|next| next > Millis(now)), "{text}: {next:?}");
                proptest::prop_assert!(last.is_none_or(|last| last <= Millis(now)), "{text}: {last:?}");
            }
        }
    }
}
