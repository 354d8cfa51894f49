//! Names of the engine's own commands and jobs; names given by a deployment are kept.

use seckill_model::message::Label;

use seckill_engine::telemetry::snapshot::JobLine;

/// A recovery command in progress.
pub(crate) fn act_name(act: &str) -> &str {
    match act {
        "pending plan" => Label("engine-pending-plan").read(),
        "pending apply" => Label("engine-pending-apply").read(),
        "dead count" => Label("engine-dead-count").read(),
        "dead replay" => Label("engine-dead-replay").read(),
        "dead discard" => Label("engine-dead-discard").read(),
        other => other,
    }
}

/// The purpose of a job.
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
    match seckill_model::locale::language() {
        seckill_model::locale::Language::ENGLISH => about,
        _ => chinese,
    }
}
