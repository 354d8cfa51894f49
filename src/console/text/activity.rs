//! Words of the Activity view.

use super::{
    figures::{signed, thousands},
    lang::{Word, tell, word},
};
use crate::keymap::{Action, key_of};

pub(crate) const TAB: Word = word("Activity", "动态");
pub(crate) const HEADING: Word = word("ACTIVITY", "动态");
pub(crate) const FOLLOWS: Word = word("following", "跟随最新");

/// Heads of the table.
pub(crate) mod heads {
    use crate::text::lang::{Word, word};

    pub(crate) const TIME: Word = word("TIME", "时间");
    pub(crate) const SIGN: Word = word("", "");
    pub(crate) const WHO: Word = word("WHO", "操作员");
    pub(crate) const NODE: Word = word("NODE", "节点");
    pub(crate) const WHAT: Word = word("WHAT", "事项");
    pub(crate) const SUBJECT: Word = word("ON", "对象");
    pub(crate) const RESULT: Word = word("RESULT", "结果");
}

/// Labels of the detail.
pub(crate) mod labels {
    use crate::text::lang::{Word, word};

    pub(crate) const WHEN: Word = word("when", "时间");
    pub(crate) const WHO: Word = word("who", "操作员");
    pub(crate) const RESULT: Word = word("result", "结果");
    pub(crate) const REASON: Word = word("reason", "原因");
    pub(crate) const NO_REASON: Word = word("none was given", "未填写");
    pub(crate) const FIGURES: Word = word("figures", "数据");
    pub(crate) const UNCHANGED: Word = word("unchanged", "未变");
}

/// What the level lets through.
pub(crate) mod levels {
    use crate::text::lang::{Word, word};

    pub(crate) const ALL: Word = word("all", "全部");
    pub(crate) const ALARMS: Word = word("alarms", "告警");
    pub(crate) const ACTS: Word = word("acts", "操作");
}

/// There is not one line.
pub(crate) const EMPTY: Word = word(
    "Nothing is in the log yet. Acts and alarms are written here.",
    "还没有记录。操作和告警会记在这里。",
);
pub(crate) const UNREAD: Word = word(
    "The log is in the database, which does not answer; it is read when that is back.",
    "日志存放在数据库中，数据库暂无应答，恢复后会自动读取。",
);

/// No line passes the level.
pub(crate) fn none_of(level: &str) -> String {
    let key = key_of(Action::Level);
    tell!(
        "No line of this page is about {level}.  {key} shows others.",
        "本页没有{level}记录。按 {key} 切换。"
    )
}

/// When, and which node wrote it down.
pub(crate) fn when(at: &str, node: &str) -> String {
    tell!("{at}, on {node}", "{at}，{node}")
}

/// How to see what comes.
pub(crate) fn paused() -> String {
    let key = key_of(Action::Last);
    tell!("{key} follows", "{key} 跟随最新")
}

/// Which part of the log an older page is.
pub(crate) fn older_page(first: &str, last: &str) -> String {
    tell!("{first} to {last}", "{first} 至 {last}")
}

/// How many lines of the page are shown.
pub(crate) fn count(shown: usize, all: usize) -> String {
    let (number, shown_of, all_of) = (all as u64, thousands(shown as u64), thousands(all as u64));
    if shown == all {
        let lines = super::figures::counted(number, "line", "lines");
        tell!("{lines}", "{all_of} 条")
    } else {
        tell!("{shown_of} of {all_of} on this page", "本页 {all_of} 条中的 {shown_of} 条")
    }
}

/// Figures of the log by their keys.
const FIGURES: &[(&str, Word)] = &[
    ("sale", word("sale", "秒杀")),
    ("stock", word("stock", "库存")),
    ("db_stock", word("stock in SQL", "SQL 库存")),
    ("admitted", word("admitted", "准入")),
    ("persisted", word("persisted", "落库")),
    ("undelivered", word("undelivered", "未投递")),
    ("pending", word("pending", "待确认")),
    ("dead", word("dead letters", "死信")),
    ("books", word("books", "对账")),
];

/// What the books were found to be.
const BOOKS: &[(&str, Word)] = &[
    ("balanced", word("balanced", "一致")),
    ("off", word("off", "不符")),
    ("in flight", word("in flight", "在途")),
    ("unknown", word("unknown", "未知")),
];

/// A figure before and after an act.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// Figures of a line, as the log keeps them; what one of the sides does not tell is unknown.
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
    // Whose figures they are is no figure.
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
    fn figures_stand_in_their_order_and_the_unknown_says_so() {
        let before = r#"{"books":"off","pending":1280,"stock":null,"sale":7}"#;
        let after = r#"{"books":"balanced","pending":0,"more_of_it":3}"#;
        let told: Vec<String> = changes(Some(before), Some(after))
            .into_iter()
            .map(|it| format!("{} {} {}", it.name, it.before, it.after))
            .collect();
        assert_eq!(
            told,
            [
                "stock unknown unknown",
                "pending 1,280 0",
                "books off balanced",
                "more of it unknown 3"
            ]
        );
        assert_eq!(changes(None, Some("no JSON")), []);
    }
}
