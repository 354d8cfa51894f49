//! Charts of an incident report: tables with bars of ASCII.

use seckill_model::{Label, Millis, text};
use seckill_store::{AuditEntry, OrderFlow};

use crate::{Table, local, number, span};

/// Length of the longest bar.
const BAR: u64 = 24;

/// Admitted and persisted orders, one line per interval, with the outages of that time.
pub(super) fn orders(flow: &OrderFlow, events: &[AuditEntry], until: Millis) -> String {
    let most = flow.admitted.iter().chain(&flow.persisted).copied().max().unwrap_or(0);
    let step = i64::from(flow.step_s) * 1_000;
    let begins = (0..).map(|place| flow.from.plus(step * place)).take_while(|from| *from < until);
    let lines: Vec<_> = begins
        .zip(flow.admitted.iter().zip(&flow.persisted))
        .map(|(from, (admitted, persisted))| {
            let is_away = |server: &&str| was_away(server, events, from, from.plus(step));
            let away = ["redis", "database"].into_iter().filter(is_away);
            let away: Vec<_> = away.map(|server| text!("cli-incident-away", server)).collect();
            (from, *admitted, *persisted, away.join(&Label("list-items")))
        })
        .collect();
    Table::new(&lines)
        .left(&Label("column-at"), |(from, ..)| local(*from))
        .right(&Label("column-admitted"), |(_, admitted, ..)| number(*admitted))
        .left("", |(_, admitted, ..)| bar(*admitted, most))
        .right(&Label("column-persisted"), |(_, _, persisted, _)| number(*persisted))
        .left("", |(_, _, persisted, _)| bar(*persisted, most))
        .left("", |(.., away)| away.clone())
        .to_string()
}

/// Whether the log records an outage of a server during this interval.
fn was_away(server: &str, events: &[AuditEntry], from: Millis, to: Millis) -> bool {
    let (begins, ends) = (format!("{server} away"), format!("{server} back"));
    let mut since = None;
    for event in events {
        if event.action == begins {
            since.get_or_insert(event.at);
        } else if event.action == ends
            && since.take().is_some_and(|since| since < to && event.at > from)
        {
            return true;
        }
    }
    since.is_some_and(|since| since < to)
}

/// Histogram of the age of entries.
pub(super) fn ages(ages_ms: impl Iterator<Item = u64>) -> String {
    const EDGES: [u64; 6] = [1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000];
    let mut counts = [0_u64; EDGES.len() + 1];
    for age in ages_ms {
        counts[EDGES.partition_point(|edge| *edge <= age)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let names = EDGES.map(|edge| text!("cli-incident-younger", age = span(edge)));
    let names = names.into_iter().chain([Label("cli-incident-older").to_owned()]);
    let lines: Vec<_> = names.zip(counts).collect();
    Table::new(&lines)
        .left("", |(name, _)| name.clone())
        .right("", |(_, count)| number(*count))
        .left("", |(_, count)| bar(*count, most))
        .to_string()
}

/// A nonzero value is never drawn as zero.
fn bar(count: u64, most: u64) -> String {
    let cells = (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most.max(1)));
    "#".repeat(cells as usize)
}
#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: i64, action: &str) -> AuditEntry {
        AuditEntry { id: at, at: Millis(at), action: action.into(), ..AuditEntry::default() }
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
        let text = orders(&flow, &events, Millis(at(35_000)));
        let away: Vec<bool> =
            text.lines().skip(1).map(|line| line.contains("database unreachable")).collect();
        assert_eq!(away, [false, true, true, false], "{text}");
        assert_eq!(orders(&flow, &[], Millis(at(20_000))).lines().count(), 3);
    }

    #[test]
    fn each_age_has_a_line() {
        let text = ages([0, 999, 1_000, 90_000, u64::MAX].into_iter());
        let counts: Vec<&str> = text
            .lines()
            .filter_map(|it| it.trim_end_matches(['#', ' ']).rsplit(' ').next())
            .collect();
        assert_eq!(counts, ["2", "1", "0", "1", "0", "0", "1"], "{text}");
    }
}
