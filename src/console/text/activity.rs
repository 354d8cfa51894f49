//! Texts of the Activity view.

use seckill_model::message::{Label, text};

use super::figures::{signed, thousands};
use crate::keymap::{Action, key_of};

pub(crate) const HEADING: Label = Label("activity-activity");
pub(crate) const FOLLOWS: Label = Label("activity-following");

/// Column headings.
pub(crate) mod heads {
    use seckill_model::message::Label;

    pub(crate) const TIME: Label = Label("common-time");
    pub(crate) const SIGN: Label = Label("common-empty");
    pub(crate) const WHO: Label = Label("activity-who");
    pub(crate) const NODE: Label = Label("common-node");
    pub(crate) const WHAT: Label = Label("activity-what");
    pub(crate) const SUBJECT: Label = Label("activity-on");
    pub(crate) const RESULT: Label = Label("activity-result");
}

/// Labels of the detail.
pub(crate) mod labels {
    use seckill_model::message::Label;

    pub(crate) const WHEN: Label = Label("activity-when");
    pub(crate) const WHO: Label = Label("activity-who-2");
    pub(crate) const RESULT: Label = Label("activity-result-2");
    pub(crate) const REASON: Label = Label("common-reason");
    pub(crate) const NO_REASON: Label = Label("activity-none-was-given");
    pub(crate) const FIGURES: Label = Label("activity-figures");
    pub(crate) const UNCHANGED: Label = Label("activity-unchanged");
}

/// What the level includes.
pub(crate) mod levels {
    use seckill_model::message::Label;

    pub(crate) const ALL: Label = Label("activity-all");
    pub(crate) const ALARMS: Label = Label("activity-alarms");
    pub(crate) const ACTS: Label = Label("activity-acts");
}

/// The log is empty.
pub(crate) const EMPTY: Label = Label("activity-nothing-is-in-the-log-yet");
pub(crate) const UNREAD: Label = Label("activity-the-log-is-in-the-database");

/// No entry has the level.
pub(crate) fn none_of(level: &str) -> String {
    let key = key_of(Action::Level);
    text!("activity-no-line-of-this-page-is", level, key)
}

/// The time, and the node that logged it.
pub(crate) fn when(at: &str, node: &str) -> String {
    text!("activity-on-2", at, node)
}

/// How to follow the log.
pub(crate) fn paused() -> String {
    let key = key_of(Action::Last);
    text!("activity-follows", key)
}

/// The range of an older page.
pub(crate) fn older_page(first: &str, last: &str) -> String {
    text!("activity-to", first, last)
}

/// The number of visible entries.
pub(crate) fn count(shown: usize, all: usize) -> String {
    let (number, shown_of, all_of) = (all as u64, thousands(shown as u64), thousands(all as u64));
    if shown == all {
        let lines = super::figures::counted(number, "line", "lines");
        text!("activity-value", lines, all_of)
    } else {
        text!("activity-of-on-this-page", shown_of, all_of)
    }
}

/// Names of logged figures by their keys.
const FIGURES: &[(&str, Label)] = &[
    ("sale", Label("common-sale")),
    ("stock", Label("activity-stock")),
    ("db_stock", Label("activity-stock-in-sql")),
    ("admitted", Label("common-admitted")),
    ("persisted", Label("common-persisted")),
    ("undelivered", Label("activity-undelivered")),
    ("pending", Label("common-pending")),
    ("dead", Label("common-dead-letters")),
    ("audit", Label("common-books")),
];

/// The result of an audit.
const BOOKS: &[(&str, Label)] = &[
    ("balanced", Label("activity-balanced")),
    ("off", Label("activity-off")),
    ("in flight", Label("common-in-flight")),
    ("unknown", Label("common-unknown")),
];

/// A figure before and after a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// Figures of an entry, as logged; one that is missing before or after is unknown.
pub(crate) fn changes(before: Option<&str>, after: Option<&str>) -> Vec<Change> {
    type Map = serde_json::Map<String, serde_json::Value>;
    let read = |text: Option<&str>| -> Map {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let (before, after) = (read(before), read(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    let rank = |name: &str| FIGURES.iter().position(|(key, _)| *key == name);
    names.sort_by_key(|name| (rank(name).unwrap_or(FIGURES.len()), name.as_str()));
    names.dedup();
    let change = |name: &String| {
        let known = FIGURES.iter().find(|(key, _)| key == name).map(|(_, word)| word.read());
        Change {
            name: known.map_or_else(|| name.replace('_', " "), str::to_owned),
            before: figure(before.get(name)),
            after: figure(after.get(name)),
        }
    };
    // The subject of the figures is not a figure.
    names.into_iter().filter(|name| *name != "sale").map(change).collect()
}

fn figure(value: Option<&serde_json::Value>) -> String {
    use serde_json::Value;
    match value {
        None | Some(Value::Null) => super::UNKNOWN.into(),
        Some(Value::String(text)) => {
            let known = BOOKS.iter().find(|(key, _)| key == text).map(|(_, word)| word.read());
            known.map_or_else(|| text.clone(), str::to_owned)
        }
        Some(value) => value.as_i64().map_or_else(|| value.to_string(), signed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_sorted_and_unknown_ones_labelled() {
        let before = r#"{"audit":"off","pending":1280,"stock":null,"sale":7}"#;
        let after = r#"{"audit":"balanced","pending":0,"more_of_it":3}"#;
        let shown: Vec<String> = changes(Some(before), Some(after))
            .into_iter()
            .map(|it| format!("{} {} {}", it.name, it.before, it.after))
            .collect();
        assert_eq!(
            shown,
            [
                "stock unknown unknown",
                "pending 1,280 0",
                "audit failed passed",
                "more of it unknown 3"
            ]
        );
        assert_eq!(changes(None, Some("no JSON")), []);
    }
}
