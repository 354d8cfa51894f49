//! Words of dead letters: what is true of them, what an act would do to them, and what it did.

use seckill_engine::command::{LettersCounted, LettersDiscarded, LettersReplayed};
use seckill_model::{LetterCounts, LetterVerdict};

use super::{
    acts::{FOR_GOOD, Question},
    figures::{counted, thousands},
    lang::{Word, tell, word},
};
use crate::{
    keymap::{Action, key_of},
    views::Marked,
};

pub(crate) const HEADING: Word = word("DEAD LETTERS", "死信");
pub(crate) const NONE: Word = word(
    "There are no dead letters. What is given up stands here, with its reason.",
    "没有死信。被放弃的消息会连同原因列在这里。",
);
pub(crate) const UNREAD: Word = word(
    "They can't be read while Redis or the database is away.",
    "Redis 或数据库中断期间无法读取。",
);
pub(crate) const NOTHING_DEAD: Word = word("there are no dead letters", "没有死信");
pub(crate) const COUNTING: Word = word("counting the dead letters", "正在统计死信");
pub(crate) const COUNTED: Word = word("the dead letters are counted", "死信已统计");
pub(crate) fn all_marked() -> String {
    let key = key_of(Action::MarkAll);
    tell!("all are marked; {key} takes the marks back", "已全部标记，按 {key} 取消")
}

pub(crate) const ALL_GONE: Word = word("none of them is there any more", "这些死信都已不在");

/// Labels of the detail pane.
pub(crate) mod labels {
    use super::{Word, word};

    pub(crate) const LETTER: Word = word("letter", "死信");
    pub(crate) const ORDER: Word = word("order", "订单");
    pub(crate) const VERDICT: Word = word("verdict", "判定");
    pub(crate) const REASON: Word = word("reason", "原因");
    pub(crate) const FIELDS: Word = word("fields", "字段");
    pub(crate) const HISTORY: Word = word("given up", "放弃记录");
}

/// What is done with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Back into the stream, those for which a buyer waits.
    Replay,
    /// Removed, those for which nobody waits.
    Discard,
    /// Removed; who waits gets nothing, and what he held is given back.
    Compensate,
}

/// Which letters an act is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The one under the cursor.
    One(String),
    Marked(Marked),
    /// All that there are, of which a filter shows so many.
    All {
        shown: Option<usize>,
    },
}

/// Says so, where `total` of them are there.
fn told_about(about: &About, total: u64) -> String {
    let count = thousands(total);
    match about {
        About::One(letter) => tell!("1 dead letter, {letter}", "1 条死信 {letter}"),
        About::All { shown: None } => {
            let letters = counted(total, "dead letter", "dead letters");
            tell!("All {letters}", "全部 {count} 条死信")
        }
        About::All { shown: Some(shown) } => {
            let shown = thousands(*shown as u64);
            tell!(
                "All {count}, not only the {shown} that the filter shows",
                "全部 {count} 条，不只是筛选出的 {shown} 条"
            )
        }
        About::Marked(marked) => {
            let count = thousands(marked.count as u64);
            let mut told = tell!("{count} marked", "已标记 {count} 条");
            if marked.filtered > 0 {
                let hidden = thousands(marked.filtered as u64);
                told += &tell!(
                    ", {hidden} of them hidden by the filter",
                    "，其中 {hidden} 条被筛选隐藏"
                );
            }
            if marked.elsewhere > 0 {
                let other = thousands(marked.elsewhere as u64);
                told += &tell!(", {other} on other pages", "，{other} 条在其他页");
            }
            told
        }
    }
}

/// What becomes of letters of one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Back,
    Removed,
    GivenBack,
    Stays,
}

impl Settling {
    /// What asks for it.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::Replay => Action::ReplayLetters,
            Self::Discard => Action::Discard,
            Self::Compensate => Action::Compensate,
        }
    }

    fn fate(self, verdict: LetterVerdict) -> Fate {
        match (self, verdict) {
            (Self::Replay, LetterVerdict::Awaited) => Fate::Back,
            (Self::Replay, _) | (_, LetterVerdict::IdTaken) => Fate::Stays,
            (Self::Discard, verdict) if verdict.is_awaited() => Fate::Stays,
            (Self::Compensate, verdict) if verdict.is_awaited() => Fate::GivenBack,
            _ => Fate::Removed,
        }
    }

    /// How many of them it changes.
    pub(crate) fn done(self, counts: &LetterCounts) -> u64 {
        counts.total() - self.count(counts, Fate::Stays)
    }

    /// How many of them have that fate.
    fn count(self, counts: &LetterCounts, fate: Fate) -> u64 {
        let verdicts = LetterVerdict::ALL.into_iter();
        verdicts.filter(|it| self.fate(*it) == fate).map(|it| counts.of(it)).sum()
    }
}

/// What is true of a letter, in a column.
pub(crate) fn verdict_word(verdict: LetterVerdict) -> &'static str {
    let told = match verdict {
        LetterVerdict::Awaited => word("buyer waits", "买家等待"),
        LetterVerdict::CameBack => word("came back", "重放后又回"),
        LetterVerdict::Written => word("in SQL", "已落库"),
        LetterVerdict::NobodyWaits => word("nobody waits", "无人等待"),
        LetterVerdict::NoSale => word("no such sale", "秒杀不存在"),
        LetterVerdict::NotLoaded => word("not loaded", "未载入"),
        LetterVerdict::IdTaken => word("id taken", "订单号被占"),
        LetterVerdict::HoldsAnother => word("has another", "已有他单"),
        LetterVerdict::Malformed => word("no order", "无订单"),
    };
    told.read()
}

/// Why it is so and what follows, with the key that does it.
pub(crate) fn why(verdict: LetterVerdict) -> String {
    let (replay, discard, give_back) =
        (key_of(Action::ReplayLetters), key_of(Action::Discard), key_of(Action::Compensate));
    match verdict {
        LetterVerdict::Awaited => tell!(
            "its buyer waits and there is no order: {replay} puts it back",
            "买家在等，尚无订单：按 {replay} 放回消息流"
        ),
        LetterVerdict::CameBack => tell!(
            "it came back from each replay: mend what its reason names and put it back with 'seckill dead \
             replay --force', or {give_back} cancels its order and gives the piece back",
            "每次重放都又回来：按原因修复后用 'seckill dead replay --force' 放回，或按 {give_back} 取消订单并退还库存"
        ),
        LetterVerdict::Written => {
            tell!("its order is in SQL: {discard} removes it", "订单已在 SQL 中：按 {discard} 删除")
        }
        LetterVerdict::NobodyWaits => tell!(
            "its buyer holds nothing or another order: {discard} removes it",
            "买家没有订单或持有另一订单：按 {discard} 删除"
        ),
        LetterVerdict::NoSale => tell!(
            "there is no such sale, so nobody can wait for it: {discard} removes it",
            "秒杀不存在，不会有人等待：按 {discard} 删除"
        ),
        LetterVerdict::NotLoaded => tell!(
            "Redis does not hold the sale, so nobody can tell who waits: 'seckill audit --repair' loads it, \
             or {give_back} cancels the order",
            "Redis 中没有这场秒杀，无法判断谁在等：用 'seckill audit --repair' 载入，或按 {give_back} 取消订单"
        ),
        LetterVerdict::IdTaken => tell!(
            "its buyer waits, but the order id is another buyer's: a person has to decide",
            "买家在等，但订单号属于另一买家：须人工决定"
        ),
        LetterVerdict::HoldsAnother => tell!(
            "its buyer holds another live order: {give_back} cancels this one and gives the piece back",
            "买家已有另一有效订单：按 {give_back} 取消此单并退还库存"
        ),
        LetterVerdict::Malformed => {
            tell!(
                "no order can be made of it: {discard} removes it",
                "无法成为订单：按 {discard} 删除"
            )
        }
    }
}

/// What the act would do, in exact counts; or why there is nothing to do.
pub(crate) fn question(
    act: Settling,
    found: &LettersCounted,
    about: &About,
) -> Result<Question, String> {
    let LettersCounted { counts, gone, .. } = found;
    let stay = act.count(counts, Fate::Stays);
    let (total, done) = (counts.total(), counts.total() - stay);
    let given_back = act.count(counts, Fate::GivenBack);
    if total == 0 {
        let all = matches!(about, About::All { .. });
        return Err(if all { NOTHING_DEAD } else { ALL_GONE }.to_string());
    }
    if done == 0 || (act == Settling::Compensate && given_back == 0) {
        let only = LetterVerdict::ALL.into_iter().find(|it| total == 1 && counts.of(*it) == 1);
        return Err(only.map_or_else(|| nothing_to_do(act, total), why));
    }
    let (title, yes) = match act {
        Settling::Replay => (word("Put them back?", "放回消息流？"), word("Replay", "重放")),
        Settling::Discard => (word("Discard them?", "丢弃这些死信？"), word("Discard", "丢弃")),
        Settling::Compensate => (
            word("Cancel, give back and discard?", "取消订单、退还库存并删除？"),
            word("Give back", "退还"),
        ),
    };
    let (some, rest) = (thousands(done), thousands(stay));
    let fate = match act {
        Settling::Replay => {
            let go = counted(done, "goes back", "go back");
            tell!("{go} into the order stream", "{some} 条放回订单消息流")
        }
        _ => tell!("{some} will be removed for good", "{some} 条永久删除"),
    };
    let stay = counted(stay, "stays", "stay");
    let stays =
        if done == total { String::new() } else { tell!(", {stay}", "，保留 {rest} 条") };
    let about = told_about(about, total);
    let mut lines = vec![tell!("{about}: {fate}{stays}.", "{about}：{fate}{stays}。")];
    for it in LetterVerdict::ALL.into_iter().filter(|it| counts.of(*it) > 0) {
        let count = thousands(counts.of(it));
        let (verdict, fate) = (verdict_word(it), told(act, it));
        lines.push(tell!("{count:>9}  {verdict}: {fate}", "{count:>9}  {verdict}：{fate}"));
    }
    if *gone > 0 {
        let gone = thousands(*gone);
        lines.push(tell!(
            "{gone:>9}  marked, but no longer there",
            "{gone:>9}  条已标记的死信已不在"
        ));
    }
    lines.push(match act {
        Settling::Replay => {
            tell!("The engine tries to write their orders again.", "引擎会再次尝试让这些订单落库。")
        }
        Settling::Discard => FOR_GOOD.to_string(),
        Settling::Compensate => {
            let (orders, count) =
                (counted(given_back, "order is", "orders are"), thousands(given_back));
            tell!(
                "{orders} cancelled, and what they held is given back. This can't be undone.",
                "{count} 笔订单将被取消，所占库存退还。此操作无法撤销。"
            )
        }
    });
    Ok(Question { title: title.to_string(), lines, yes: yes.to_string() })
}

/// What becomes of letters of this verdict.
fn told(act: Settling, verdict: LetterVerdict) -> &'static str {
    let told = match (act.fate(verdict), act, verdict) {
        (Fate::Back, ..) => word("go back", "放回"),
        (Fate::Removed, ..) => word("removed", "删除"),
        (Fate::GivenBack, ..) => word("cancelled, given back, removed", "取消、退还、删除"),
        (Fate::Stays, Settling::Replay, LetterVerdict::CameBack) => {
            word("stay ('dead replay --force')", "保留（'dead replay --force'）")
        }
        (Fate::Stays, ..) => word("stay", "保留"),
    };
    told.read()
}

fn nothing_to_do(act: Settling, total: u64) -> String {
    let (discard, replay, give_back) =
        (key_of(Action::Discard), key_of(Action::ReplayLetters), key_of(Action::Compensate));
    let (count, none) = (thousands(total), counted(total, "dead letter", "dead letters"));
    let open = key_of(Action::Open);
    match act {
        Settling::Replay => tell!(
            "none of {none} can go back; {open} tells what is true of each",
            "{count} 条死信都不能放回，按 {open} 查看各自情况"
        ),
        Settling::Discard => tell!(
            "buyers may wait for each of {none}; {replay} puts them back, {give_back} cancels their orders",
            "{count} 条死信都可能有买家在等，按 {replay} 放回，按 {give_back} 取消订单"
        ),
        Settling::Compensate => tell!(
            "no buyer waits for any of {none}; {discard} removes them",
            "{count} 条死信都没有买家在等，按 {discard} 删除"
        ),
    }
}

pub(crate) fn replayed(report: &LettersReplayed) -> (String, bool) {
    let back = counted(report.replayed, "dead letter is", "dead letters are");
    let count = thousands(report.replayed);
    let text = tell!("{back} back in the stream", "{count} 条死信已放回消息流");
    (
        text + &rest(&report.refused, report.gone, report.cut_short),
        report.replayed > 0 && !report.cut_short,
    )
}

pub(crate) fn discarded(report: &LettersDiscarded) -> (String, bool) {
    let removed = counted(report.discarded, "dead letter removed", "dead letters removed");
    let count = thousands(report.discarded);
    let mut text = tell!("{removed}", "已删除 {count} 条死信");
    if report.compensated + report.given_back > 0 {
        let (cancelled, given) = (thousands(report.compensated), thousands(report.given_back));
        let orders = counted(report.compensated, "order", "orders");
        let pieces = counted(report.given_back, "piece", "pieces");
        text += &tell!(
            ", {orders} cancelled, {pieces} given back",
            "，取消订单 {cancelled} 笔，退还库存 {given} 件"
        );
    }
    (
        text + &rest(&report.refused, report.gone, report.cut_short),
        report.discarded > 0 && !report.cut_short,
    )
}

fn rest(refused: &LetterCounts, gone: u64, cut_short: bool) -> String {
    let mut text = String::new();
    if refused.total() > 0 {
        let (stay, count) = (counted(refused.total(), "stays", "stay"), thousands(refused.total()));
        text += &tell!(", {stay}", "，保留 {count} 条");
    }
    if gone > 0 {
        let gone = thousands(gone);
        text += &tell!(", {gone} no longer there", "，{gone} 条已不在");
    }
    if cut_short {
        text += &word("; broken off, the rest is as it was", "；已中止，其余保持原样");
    }
    text
}

pub(crate) fn marks_gone(count: usize) -> String {
    let gone = counted(count as u64, "marked letter is", "marked letters are");
    let count = thousands(count as u64);
    tell!("{gone} no longer there; the mark is dropped", "{count} 条已标记的死信已不在，标记已取消")
}

/// The letter's id, and that of the entry that it was.
pub(crate) fn was(letter: &str, entry: Option<&str>) -> String {
    match entry {
        Some(entry) => tell!("{letter}, was entry {entry}", "{letter}，原消息 {entry}"),
        None => letter.to_owned(),
    }
}

pub(crate) fn buyer(order: Option<String>, user: Option<String>, sale: Option<String>) -> String {
    match (order, user, sale) {
        (Some(order), Some(user), Some(sale)) => {
            tell!("{order}, user {user}, sale {sale}", "{order}，用户 {user}，秒杀 {sale}")
        }
        _ => tell!("none", "无"),
    }
}

pub(crate) fn no_order(fault: &str) -> String {
    tell!("none: {fault}", "无：{fault}")
}

pub(crate) fn field(name: &str, value: &str) -> String {
    format!("{name} = {value}")
}

pub(crate) fn more_fields(count: usize) -> String {
    let more = counted(count as u64, "more field", "more fields");
    let count = thousands(count as u64);
    tell!("{more}", "另有 {count} 个字段")
}

pub(crate) fn more_lines(count: usize) -> String {
    let more = counted(count as u64, "more line", "more lines");
    let count = thousands(count as u64);
    tell!("{more}: 'seckill dead show'", "另有 {count} 行：'seckill dead show'")
}

pub(crate) fn burial(at: &str, deliveries: u64, consumer: &str, reason: &str) -> String {
    let tries = counted(deliveries, "delivery", "deliveries");
    let count = thousands(deliveries);
    let from =
        if consumer.is_empty() { String::new() } else { tell!(", {consumer}", "，{consumer}") };
    tell!("{at}, {tries}{from}: {reason}", "{at}，投递 {count} 次{from}：{reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_is_removed_whose_buyer_waits_unless_all_is_given_back() {
        for verdict in LetterVerdict::ALL {
            let discarded = Settling::Discard.fate(verdict);
            assert_eq!(discarded == Fate::Stays, verdict.is_awaited(), "{verdict}");
            let given_back = Settling::Compensate.fate(verdict);
            assert_eq!(given_back == Fate::Removed, !verdict.is_awaited(), "{verdict}");
            assert!(!why(verdict).contains("  "), "{verdict}");
        }
    }
}
