//! Words of what came of an act, and whether it went as one would wish.

use seckill_engine::command::{ReplayReport, Reply, RushReport};
use seckill_model::{JobOutcome, Payment, SaleState};

use super::{
    acts::NOTHING_UNDER_WAY,
    director,
    figures::{self, counted, thousands},
    lang::{Word, tell, word},
    letters,
    told::job_said,
};

/// What an act brought about, and whether it went as one would wish.
pub(crate) fn reply(reply: &Reply) -> (String, bool) {
    let well = |text: String| (text, true);
    match reply {
        Reply::VoucherCreated(voucher) => {
            well(tell!("voucher #{voucher} is created", "已新建券 #{voucher}"))
        }
        Reply::VoucherBought(order) => {
            well(tell!("order {order} is written", "订单 {order} 已落库"))
        }
        Reply::SaleCreated(voucher) => {
            well(tell!("#{voucher} is created and in Redis", "#{voucher} 已新建并载入 Redis"))
        }
        Reply::SaleChanged { voucher, state } => {
            let state = match state {
                SaleState::Running => word("open", "开放"),
                SaleState::Paused => word("paused", "暂停"),
                SaleState::Ended => word("ended for good", "永久结束"),
                SaleState::Archived => word("archived", "归档"),
            };
            well(tell!("#{voucher} is {state}", "#{voucher} 已{state}"))
        }
        Reply::Restocked { voucher, initial } => {
            let (pieces, initial) = (counted(*initial, "piece", "pieces"), thousands(*initial));
            well(tell!("#{voucher} has {pieces} in all", "#{voucher} 现共 {initial} 件"))
        }
        Reply::RushDone(report) => rush_done(report),
        Reply::RushStopped { voucher, rushes } => director::rush_stopped(*voucher, *rushes),
        Reply::Repaired(done) => {
            let put_back = counted(done.put_back, "buyer", "buyers");
            let enqueued = counted(done.enqueued, "order", "orders");
            let given_back = counted(done.given_back, "piece", "pieces");
            let [buyers, orders, pieces] =
                [done.put_back, done.enqueued, done.given_back].map(thousands);
            well(tell!(
                "{put_back} put back, {enqueued} enqueued, {given_back} given back",
                "补回买家 {buyers} 位，订单入流 {orders} 笔，退还库存 {pieces} 件"
            ))
        }
        Reply::Planned(plan) => {
            let count = thousands(plan.totals.entries);
            let entries = counted(plan.totals.entries, "entry", "entries");
            well(tell!("{entries}", "{count} 条消息"))
        }
        Reply::Cancelled(true) => {
            well(tell!("it ends after the step in hand", "做完当前一步后结束"))
        }
        Reply::Cancelled(false) => well(NOTHING_UNDER_WAY.to_string()),
        Reply::Replayed(report) => replayed(report),
        Reply::LettersCounted(found) => {
            let count = thousands(found.counts.total());
            let letters = counted(found.counts.total(), "dead letter", "dead letters");
            well(tell!("{letters}", "{count} 条死信"))
        }
        // Asked on, not told.
        Reply::Previewed(_) | Reply::Traced(_) => well(String::new()),
        Reply::LettersReplayed(report) => letters::replayed(report),
        Reply::LettersDiscarded(report) => letters::discarded(report),
        Reply::Paid { order, payment } => match payment {
            Payment::Paid => well(tell!("order {order} is paid", "订单 {order} 已支付")),
            Payment::PaidBefore => {
                well(tell!("order {order} was paid before", "订单 {order} 此前已支付"))
            }
            Payment::TooLate => (
                tell!(
                    "order {order} was closed before; nothing was paid",
                    "订单 {order} 此前已关闭，未发生支付"
                ),
                false,
            ),
            Payment::NotFound => {
                (tell!("order {order} is not in SQL", "订单 {order} 不在 SQL 中"), false)
            }
        },
        Reply::Rewound(report) => {
            let count = thousands(report.again);
            let again = counted(report.again, "entry is", "entries are");
            well(tell!(
                "the group was moved back; {again} delivered again",
                "消费组已回退，{count} 条消息将重新投递"
            ))
        }
        Reply::Claimed(report) => {
            let count = thousands(report.claimed);
            let given = counted(report.claimed, "entry is", "entries are");
            let mut text =
                tell!("{given} with another consumer now", "{count} 条消息已转给另一消费者");
            extras(
                &mut text,
                &[
                    (report.gone, word("no longer there", "已不在")),
                    (report.hollow, word("without a body", "正文已丢失")),
                ],
            );
            if report.cut_short {
                text += &tell!("; cut short", "；已中止");
            }
            let whole = report.claimed > 0 && report.gone + report.hollow == 0;
            (text, whole && !report.cut_short)
        }
        Reply::ConsumerRemoved(report) => {
            let consumer = &report.consumer;
            well(tell!("{consumer} was removed", "已移除 {consumer}"))
        }
        Reply::LockReleased { name, .. } => {
            well(tell!("'{name}' was taken from its holder", "已从持有者收回锁“{name}”"))
        }
        Reply::JobRun { job, end } => {
            let (outcome, took) = (super::outcome(end.outcome), figures::span(end.took_ms));
            let mut text = tell!("{job} {outcome} after {took}", "{job} {outcome}，耗时 {took}");
            let said = job_said(end.outcome, end.detail.as_ref());
            if !said.is_empty() {
                text += &tell!(": {said}", "：{said}");
            }
            (text, end.outcome == JobOutcome::Done)
        }
        Reply::JobSwitched { job, paused: true } => well(tell!("{job} is paused", "{job} 已暂停")),
        Reply::JobSwitched { job, paused: false } => well(tell!("{job} goes on", "{job} 已恢复")),
    }
}

/// Figures that are told only where there is something to tell.
fn extras(text: &mut String, extras: &[(u64, Word)]) {
    for (count, told) in extras.iter().filter(|(count, _)| *count > 0) {
        let count = thousands(*count);
        *text += &tell!(", {count} {told}", "，{told} {count}");
    }
}

fn rush_done(report: &RushReport) -> (String, bool) {
    let [asked, admitted, sold_out, twice, written] =
        [report.attempts, report.admitted, report.sold_out, report.duplicate, report.persisted]
            .map(thousands);
    let (rate, p99) = (figures::rate(report.per_second), figures::latency(report.latency_us.p99));
    let mut text = tell!(
        "Rush over: {asked} asked, {admitted} admitted, {sold_out} sold out, {twice} twice, {rate}, p99 {p99}; ",
        "抢购结束：请求 {asked}，准入 {admitted}，售罄 {sold_out}，重复 {twice}，{rate}，p99 {p99}；"
    );
    text += &if report.settled {
        let seconds = report.settled_seconds;
        tell!(
            "all settled after {seconds:.1} s: {written} written",
            "{seconds:.1} 秒后全部落定：落库 {written}"
        )
    } else {
        tell!("not settled yet: {written} written so far", "尚未全部落定：已落库 {written}")
    };
    extras(
        &mut text,
        &[
            (report.rejected, word("turned away", "被拒")),
            (report.errors, word("without an answer", "无应答")),
            (report.dead, word("dead letters", "死信")),
        ],
    );
    (text, report.settled && report.errors == 0 && report.dead == 0)
}

fn replayed(report: &ReplayReport) -> (String, bool) {
    let [seen, written, acknowledged, dead, left] =
        [report.seen, report.persisted, report.acknowledged, report.dead, report.left]
            .map(thousands);
    let letters = counted(report.dead, "dead letter", "dead letters");
    let overtaken = report.seen > 0 && report.gone + report.changed == report.seen;
    let mut text = if overtaken {
        tell!("Nothing was applied to the {seen} in the plan", "计划中的 {seen} 条均未执行")
    } else {
        tell!(
            "Plan applied to {seen}: {written} written, {acknowledged} acknowledged, {letters}, {left} left",
            "计划已执行 {seen} 条：落库 {written}，确认 {acknowledged}，转死信 {dead}，保留 {left}"
        )
    };
    extras(
        &mut text,
        &[
            (report.rebuilt, word("rebuilt", "重建")),
            (report.hollow, word("without a body dropped", "无内容已清除")),
            (report.lost, word("without a body left", "无内容仍保留")),
            (report.gone, word("no longer there", "轮到时已不在")),
            (report.changed, word("changed since, so left alone", "情况有变未处理")),
        ],
    );
    if report.cut_short {
        text += &word("; cut short", "；提前中止");
    }
    let well = report.dead + report.lost + report.changed == 0 && !overtaken;
    (text, well && !report.cut_short)
}
