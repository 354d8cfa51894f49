//! Words of recovery: verdicts, acts, and how far they have come.

use super::{
    figures::thousands,
    lang::{tell, word},
};
use crate::model::{Act, Verdict};

/// How far a plan, or what it says, has come.
pub(crate) fn recovery(act: &str, done: u64, planned: u64) -> String {
    let (done, planned) = (thousands(done), thousands(planned));
    tell!("{act} {done} of {planned}", "{act} {done} / {planned}")
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
