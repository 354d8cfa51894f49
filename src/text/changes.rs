//! Texts of the figures that a command changed.

use seckill_model::{Label, text};

use crate::{UNKNOWN, figures::thousands};

const ITEMS: Label = Label("list-items");

/// Logged figures in the order in which they are shown.
const ORDER: [&str; 8] =
    ["stock", "db_stock", "admitted", "persisted", "undelivered", "pending", "dead", "audit"];

/// A figure before and after a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name in the current language.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its value after.
    pub after: String,
}

/// Figures of an entry, as logged; one that is missing before or after is unknown.
pub fn changes(before: Option<&str>, after: Option<&str>) -> Vec<Change> {
    type Map = serde_json::Map<String, serde_json::Value>;
    let read = |text: Option<&str>| -> Map {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let (before, after) = (read(before), read(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    let rank = |name: &str| ORDER.iter().position(|key| *key == name);
    names.sort_by_key(|name| (rank(name).unwrap_or(ORDER.len()), name.as_str()));
    names.dedup();
    let change = |name: &String| Change {
        name: text!("activity-figure", key = name, name = name.replace('_', " ")),
        before: figure(before.get(name)),
        after: figure(after.get(name)),
    };
    // The subject of the figures is not a figure.
    names.into_iter().filter(|name| *name != "sale").map(change).collect()
}

/// The figures that differ, on one line: `pending 128 → 0, audit failed → passed`.
pub fn changed_figures(before: Option<&str>, after: Option<&str>) -> String {
    let changes = changes(before, after).into_iter().filter(|it| it.before != it.after);
    let texts = changes.map(|Change { name, before, after }| format!("{name} {before} → {after}"));
    texts.collect::<Vec<_>>().join(&ITEMS)
}

fn figure(value: Option<&serde_json::Value>) -> String {
    use serde_json::Value;
    match value {
        None | Some(Value::Null) => UNKNOWN.into(),
        Some(Value::String(text)) => {
            text!("activity-audit", key = text.replace(' ', "-"), text)
        }
        Some(value) => value.as_i64().map_or_else(|| value.to_string(), thousands),
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
        let line = changed_figures(Some(before), Some(after));
        assert_eq!(line, "pending 1,280 → 0, audit failed → passed, more of it unknown → 3");
    }
}
