//! Charts of an incident report, in ASCII.

use jiff::tz::TimeZone;
use seckill_model::Millis;
use seckill_store::{OrderFlow, Recorded};

use super::super::output::number;

const BAR: u64 = 24;

/// Admitted and persisted orders, one line per interval, with the outages of that time.
pub(super) fn orders(
    flow: &OrderFlow,
    events: &[Recorded],
    until: Millis,
    zone: &TimeZone,
) -> String {
    let most = flow.admitted.iter().chain(&flow.persisted).copied().max().unwrap_or(0);
    let mut text =
        format!("{:<19}  {:>9} {:<24}  {:>9} {:<24}\n", "from", "admitted", "", "persisted", "");
    for (place, (admitted, persisted)) in flow.admitted.iter().zip(&flow.persisted).enumerate() {
        let step = i64::from(flow.step_s) * 1_000;
        let from = flow.from.plus(step * place as i64);
        if from >= until {
            break;
        }
        let away = ["redis", "database"]
            .into_iter()
            .filter(|it| was_away(it, events, from, from.plus(step)));
        let away: Vec<String> = away.map(|server| format!("{server} away")).collect();
        let line = format!(
            "{:<19}  {:>9} {:<24}  {:>9} {:<24}  {}",
            from.date_time(zone),
            number(*admitted),
            bar(*admitted, most),
            number(*persisted),
            bar(*persisted, most),
            away.join(", ")
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Whether the log records an outage of a server during this interval.
fn was_away(server: &str, events: &[Recorded], from: Millis, to: Millis) -> bool {
    let (begins, ends) = (format!("{server} away"), format!("{server} back"));
    let mut since = None;
    for event in events.iter().map(|it| &it.act) {
        if event.act == begins {
            since.get_or_insert(event.at);
        } else if event.act == ends
            && since.take().is_some_and(|since| since < to && event.at > from)
        {
            return true;
        }
    }
    since.is_some_and(|since| since < to)
}

/// Histogram of the age of entries.
pub(super) fn ages(ages_ms: &[u64]) -> String {
    const EDGES: [(&str, u64); 7] = [
        ("under 1 s", 1_000),
        ("under 10 s", 10_000),
        ("under 1 min", 60_000),
        ("under 10 min", 600_000),
        ("under 1 h", 3_600_000),
        ("under 1 day", 86_400_000),
        ("older", u64::MAX),
    ];
    let mut counts = [0_u64; EDGES.len()];
    for age in ages_ms {
        let place = EDGES.iter().position(|(_, edge)| age < edge).unwrap_or(EDGES.len() - 1);
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let lines = EDGES.iter().zip(counts);
    lines
        .map(|((name, _), count)| {
            format!("{name:<14} {:>9} {}", number(count), bar(count, most)).trim_end().to_owned()
                + "\n"
        })
        .collect()
}

/// A nonzero value is never drawn as zero.
fn bar(count: u64, most: u64) -> String {
    let cells = if most == 0 {
        0
    } else {
        (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most))
    };
    "#".repeat(cells as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_store::AuditEntry;

    fn event(at: i64, act: &str) -> Recorded {
        Recorded {
            id: at,
            act: AuditEntry { at: Millis(at), act: act.into(), ..AuditEntry::default() },
        }
    }

    #[test]
    fn bars_show_minimum_and_maximum() {
        assert_eq!([bar(0, 9), bar(1, 1_000_000), bar(0, 0)], ["", "#", ""]);
        assert_eq!(bar(u64::MAX, u64::MAX).len(), BAR as usize);
    }

    #[test]
    fn intervals_of_an_outage_are_marked() {
        let flow = OrderFlow {
            from: Millis(1_795_000_000_000),
            step_s: 10,
            admitted: vec![5, 0, 3, 1],
            persisted: vec![5, 0, 0, 4],
        };
        let at = |after: i64| 1_795_000_000_000 + after;
        let events = [event(at(12_000), "database away"), event(at(25_000), "database back")];
        let text = orders(&flow, &events, Millis(at(35_000)), &TimeZone::UTC);
        let away: Vec<bool> =
            text.lines().skip(1).map(|line| line.contains("database away")).collect();
        assert_eq!(away, [false, true, true, false], "{text}");
        assert_eq!(orders(&flow, &[], Millis(at(20_000)), &TimeZone::UTC).lines().count(), 3);
    }

    #[test]
    fn each_age_has_a_line() {
        let text = ages(&[0, 999, 1_000, 90_000, u64::MAX]);
        let counts: Vec<&str> =
            text.lines().filter_map(|it| it.get(14..24)).map(str::trim).collect();
        assert_eq!(counts, ["2", "1", "0", "1", "0", "0", "1"], "{text}");
    }
}
