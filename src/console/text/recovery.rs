//! Words of recovery: verdicts, acts, and how far they have come.

use seckill_model::{Act, Verdict};

use super::{
    figures::{span, thousands},
    lang::{Word, tell, word},
};

/// How far a plan, or what it says, has come.
pub(crate) fn recovery(act: &str, done: u64, planned: u64) -> String {
    let (done, planned) = (thousands(done), thousands(planned));
    tell!("{act} {done} of {planned}", "{act} {done} / {planned}")
}

/// A class of age: younger than `border`, or at least as old.
pub(crate) fn aged(border: u64, younger: bool) -> String {
    let (sign, border) = (if younger { '<' } else { '>' }, whole(border));
    tell!("age {sign} {border}", "时长 {sign} {border}")
}

/// A border in its own unit, as no age is told.
fn whole(millis: u64) -> String {
    match millis {
        60_000.. => {
            let minutes = millis / 60_000;
            tell!("{minutes} min", "{minutes} 分")
        }
        _ => span(millis),
    }
}

/// Classes of deliveries: once, two to four times, more often.
pub(crate) const TRIED: [Word; 3] = [
    word("delivered once", "投递 1 次"),
    word("delivered 2–4 times", "投递 2–4 次"),
    word("delivered 5+ times", "投递 5 次以上"),
];

/// The count is that of a part.
pub(crate) fn oldest(counted: u64) -> String {
    let count = thousands(counted);
    tell!("of the oldest {count}", "仅统计最早的 {count} 条")
}

/// What is true of a pending entry.
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    let told = match verdict {
        Verdict::Written => word("in SQL already", "已在 SQL 中"),
        Verdict::Stuck => word("stuck, not in SQL", "卡住，未落库"),
        Verdict::InHand => word("in the hands of a live node", "在线节点处理中"),
        Verdict::BodyGone => word("body gone", "内容丢失"),
        Verdict::Malformed => word("makes no order", "无法成为订单"),
        Verdict::TooOften => word("delivered too often", "投递次数过多"),
        Verdict::Refused => word("refused by what SQL holds", "与 SQL 现有数据冲突"),
        Verdict::NotPromised => word("not promised to a buyer", "没有对应的买家"),
    };
    told.read()
}

/// What is true of it, and what follows.
pub(crate) fn judged(verdict: Verdict) -> String {
    let (told, act) = (self::verdict(verdict), act(verdict.act()));
    tell!("{told}: {act}", "{told}：{act}")
}

/// The same in a column.
pub(crate) fn verdict_word(verdict: Verdict) -> &'static str {
    let told = match verdict {
        Verdict::Written => word("in SQL", "已落库"),
        Verdict::Stuck => word("stuck", "卡住"),
        Verdict::InHand => word("held", "处理中"),
        Verdict::BodyGone => word("body gone", "内容丢失"),
        Verdict::Malformed => word("no order", "无订单"),
        Verdict::TooOften => word("too often", "投递过多"),
        Verdict::Refused => word("refused", "冲突"),
        Verdict::NotPromised => word("no buyer", "无买家"),
    };
    told.read()
}

/// What is done with a pending entry.
pub(crate) fn act(act: Act) -> &'static str {
    let told = match act {
        Act::Acknowledge => word("acknowledge", "确认"),
        Act::Process => word("claim and write", "接管并落库"),
        Act::Leave => word("leave", "保留"),
        Act::Rebuild => word("rebuild from the buyers", "按买家名单重建"),
        Act::DeadLetter => word("dead letter", "转为死信"),
    };
    told.read()
}

/// When live nodes begin to take entries over by themselves.
pub(crate) fn takeover(left_ms: u64) -> String {
    if left_ms == 0 {
        return tell!(
            "Live nodes take them over by themselves now.",
            "在线节点正在自动接管这些消息。"
        );
    }
    let left = span(left_ms);
    tell!(
        "Live nodes take them over by themselves in {left}.",
        "在线节点将在 {left} 后自动接管这些消息。"
    )
}

/// A plan was asked about, and nothing of it is left.
pub(crate) const TAKEN_OVER: Word = word(
    "nothing is left to apply: live nodes took the entries over, or they are no longer pending",
    "无需再执行：这些消息已由在线节点接管，或已不再待确认",
);
