//! Number formatting.

use seckill_model::{locale::group_digits, text};

use crate::cells::{right, width};

/// `182,440`, or `-3`.
pub fn thousands(number: impl ToString + Copy) -> String {
    group_digits(&number.to_string())
}

/// `21,840/s`; below 10/s with one decimal.
pub fn rate(per_second: f64) -> String {
    if per_second > 0.05 && per_second < 9.95 {
        format!("{per_second:.1}/s")
    } else {
        format!("{}/s", thousands(per_second.max(0.0).round() as u64))
    }
}

/// `182,440`, or `99G` if that does not fit: a truncated figure would be misread.
pub fn within(number: u64, cells: usize) -> String {
    let full = thousands(number);
    if full.len() <= cells { full } else { compact(number as f64) }
}

/// `21,840/s`, or `1.2M/s` if that does not fit.
pub fn rate_within(per_second: f64, cells: usize) -> String {
    let full = rate(per_second);
    if full.len() <= cells { full } else { format!("{}/s", compact(per_second)) }
}

/// `3.8%`; a small share is not shown as 0%, a nearly full one not as 100%.
pub fn share(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    if part == 0 || part >= whole {
        format!("{share:.0}%")
    } else {
        format!("{:.1}%", share.clamp(0.1, 99.9))
    }
}

/// `500`, `40k`, `2.5M`: at most four cells, for a scale.
pub fn compact(number: f64) -> String {
    let short = |value: f64, unit: &str| {
        let tenths = (value * 10.0).round();
        let decimals = usize::from(tenths < 100.0 && tenths % 10.0 != 0.0);
        format!("{value:.decimals$}{unit}")
    };
    // A value that rounds up to a thousand takes the next unit.
    match number {
        n if n >= 999.5e6 => short(n / 1e9, "G"),
        n if n >= 999.5e3 => short(n / 1e6, "M"),
        n if n >= 999.5 => short(n / 1e3, "k"),
        n => short(n, ""),
    }
}

/// `.25`, `8`, `512`, `4s`: a latency in milliseconds, or seconds, in at most three cells for a scale.
pub fn milliseconds(micros: u64) -> String {
    match micros {
        ..1_000 => (micros as f64 / 1e3).to_string().trim_start_matches('0').to_owned(),
        1_000..1_000_000 => (micros / 1_000).to_string(),
        _ => format!("{}s", micros / 1_000_000),
    }
}

/// `128`, `99k`, `.1M`: at most three cells, rounded down, for a count beside a name.
pub fn tiny(number: u64) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    let units = [(1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G"), (1_000_000_000_000, "T")];
    let text = units.iter().find(|(unit, _)| number / unit < 100).map(|(unit, sign)| {
        let tenths = number / (unit / 10);
        if tenths < 10 { format!(".{tenths}{sign}") } else { format!("{}{sign}", tenths / 10) }
    });
    text.unwrap_or_else(|| ">9P".to_owned())
}

/// `0.4 s`, `42 s`, `3 min`, `2 h`, `5 d`: an age or a wait.
pub fn span(millis: u64) -> String {
    let seconds = millis / 1_000;
    let (tenths, minutes, hours) = (millis / 100, seconds / 60, seconds / 3_600);
    match seconds {
        0 => text!("figures-0-s", tenths),
        1..=119 => text!("figures-s", seconds),
        120..=7_199 => text!("figures-min", minutes),
        7_200..=172_799 => text!("figures-h", hours),
        _ => days(hours),
    }
}

/// Milliseconds whose span has the maximum width: 119 min.
const WIDEST_SPAN: u64 = 7_199_000;

/// A right-aligned span of fixed width, for use before other words.
pub fn steady_span(millis: u64) -> String {
    right(&span(millis), width(&span(WIDEST_SPAN)))
}

/// Whole days.
fn days(hours: u64) -> String {
    let (plain, days) = (hours / 24, thousands(hours / 24));
    text!("figures-d", days, plain)
}

/// `04:12`, `1:04:12`, `3 d`: time left, of constant width while it counts down.
pub fn clock(millis: u64) -> String {
    // Rounded up, so that 00:00 means that the time is up.
    let seconds = millis.div_ceil(1_000);
    let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes:02}:{rest:02}"),
        1..=47 => format!("{hours}:{minutes:02}:{rest:02}"),
        _ => days(hours),
    }
}

/// `0.4 ms`, `12 ms`, `1.2 s`.
pub fn latency(micros: u64) -> String {
    match micros {
        0..=9_999 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..=999_999 => format!("{} ms", micros / 1_000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!([0, 999, 1_000, 12_340_000].map(thousands), ["0", "999", "1,000", "12,340,000"]);
        assert_eq!([within(98_765_432_109, 11), within(182_440, 11)], ["99G", "182,440"]);
        assert_eq!(rate_within(1_234_567.0, 9), "1.2M/s");
        assert_eq!(thousands(-1_234), "-1,234");
        assert_eq!([0.0, 3.44, 9.96, 21_840.4].map(rate), ["0/s", "3.4/s", "10/s", "21,840/s"]);
        assert_eq!(
            [0.0, 500.0, 2_500.0, 40_000.0, 5e6].map(compact),
            ["0", "500", "2.5k", "40k", "5M"]
        );
        let edges = [999.4, 999.6, 9_960.0, 999_999.0, 1_234_567_890.0].map(compact);
        assert_eq!(edges, ["999", "1k", "10k", "1M", "1.2G"]);
        assert_eq!(
            [420, 42_000, 180_000, 7_200_000, 500_000_000].map(span),
            ["0.4 s", "42 s", "3 min", "2 h", "5 d"]
        );
        assert_eq!([42_000, WIDEST_SPAN].map(steady_span), ["   42 s", "119 min"]);
        assert_eq!([251_200, 3_852_000].map(clock), ["04:12", "1:04:12"]);
        assert_eq!([412, 12_400, 1_200_000].map(latency), ["0.4 ms", "12 ms", "1.2 s"]);
    }

    #[test]
    fn shares_are_exact_at_their_ends() {
        let text = [(0, 9), (1, 90_000), (38, 1_000), (8_999, 9_000), (9, 9), (0, 0)];
        let text = text.map(|(part, whole)| share(part, whole));
        assert_eq!(text, ["0%", "0.1%", "3.8%", "99.9%", "100%", "0%"]);
    }

    #[test]
    fn a_count_beside_a_name_takes_three_cells() {
        let counts = [0, 999, 1_000, 99_999, 100_000, 999_999, 1_000_000, 123_456_789];
        assert_eq!(counts.map(tiny), ["0", "999", "1k", "99k", ".1M", ".9M", "1M", ".1G"]);
        assert!([u64::MAX, 1 << 40, 99_999_999_999].iter().all(|it| tiny(*it).len() <= 3));
    }
}
