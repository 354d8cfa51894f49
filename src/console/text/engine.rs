//! Names that the engine gives to its own acts and jobs; what a deployment named itself stays as it is.

use seckill_engine::telemetry::snapshot::JobLine;

use super::lang::word;

/// An act of recovery under way.
pub(crate) fn act_name(act: &str) -> &str {
    match act {
        "pending plan" => word("pending plan", "制定计划").read(),
        "pending apply" => word("pending apply", "执行计划").read(),
        "dead count" => word("dead count", "统计死信").read(),
        "dead replay" => word("dead replay", "重放死信").read(),
        "dead discard" => word("dead discard", "丢弃死信").read(),
        other => other,
    }
}

/// What a job is for.
pub(crate) fn about(job: &JobLine) -> &str {
    let about = &job.about;
    let chinese = match job.name.as_str() {
        "close-overdue" => "关闭超时未支付的订单，退还库存",
        "drop-id-keys" => "清除往日的订单号计数器",
        "trim-stream" => "清理各消费组都已确认的消息、旧死信和历史",
        "archive-sales" => "把早已结束的秒杀移出 Redis，SQL 中保留",
        "check-ledger" => "按订单号逐笔对账",
        _ => return about,
    };
    match super::lang::spoken() {
        super::lang::Lang::En => about,
        super::lang::Lang::Zh => chinese,
    }
}
