//! Texts of the Activity view.

use seckill_model::message::Label;

use crate::text::{UNKNOWN, figures::signed};

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
    ("audit", Label("common-audit")),
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
        None | Some(Value::Null) => UNKNOWN.into(),
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
