//! Words of alarms: what is true, and the key that helps.

use super::{
    books::sale_finding,
    figures::{counted, span, thousands},
    lang::tell,
};
use crate::{
    console::keymap::{Action, key_of},
    telemetry::snapshot::AlarmKind,
};

/// An alarm in words, with the key that helps.
pub(crate) fn alarm(kind: &AlarmKind) -> String {
    let (pending, plan) = (key_of(Action::Pending), key_of(Action::Replay));
    match kind {
        AlarmKind::RedisAway { error } => {
            let error = unstopped(error);
            tell!(
                "Redis does not answer: {error}. What you see is old; it goes on by itself when Redis is back.",
                "Redis 无应答：{error}。画面为旧数据，Redis 恢复后自动继续。"
            )
        }
        AlarmKind::SqlAway { error } => {
            let error = unstopped(error);
            tell!(
                "The database does not answer: {error}. Orders wait in the stream; none is lost.",
                "数据库无应答：{error}。订单在消息流中等待，不会丢失。"
            )
        }
        AlarmKind::BooksOff { finding } => {
            let (finding, activity) = (sale_finding(finding), key_of(Action::Activity));
            tell!(
                "The books are off: {finding}.  {activity} shows what was done; 'seckill audit' tells more.",
                "对账不符：{finding}。按 {activity} 查看操作记录，详情见 'seckill audit'。"
            )
        }
        AlarmKind::DeadConsumer { consumer, pending: held, idle_ms } => {
            let (count, entries) = (thousands(*held), counted(*held, "entry", "entries"));
            let silent = span(*idle_ms);
            tell!(
                "{consumer} is dead and holds {entries}, silent for {silent}.  {pending} opens them, {plan} replays them.",
                "{consumer} 已失联 {silent}，仍持有 {count} 条消息。按 {pending} 查看，按 {plan} 重放。"
            )
        }
        AlarmKind::SilentConsumer { consumer, pending: held, idle_ms } => {
            let (count, entries) = (thousands(*held), counted(*held, "entry", "entries"));
            let silent = span(*idle_ms);
            tell!(
                "{consumer} holds {entries} and has asked for none in {silent}, though its node lives.  \
                 {pending} opens them, {plan} replays them.",
                "{consumer} 的节点在线，但已 {silent} 未取消息，仍持有 {count} 条。按 {pending} 查看，按 {plan} 重放。"
            )
        }
        AlarmKind::DeadLetters { count } => {
            let waits = counted(*count, "dead letter waits", "dead letters wait");
            let (count, letters) = (thousands(*count), key_of(Action::Letters));
            tell!(
                "{waits} for a person to judge.  {letters} opens them.",
                "{count} 条死信等待人工处理。按 {letters} 查看。"
            )
        }
        AlarmKind::NoGroup => tell!(
            "The stream has no consumer group; a running engine makes it again.  {pending} then {plan} settles \
             what stays pending.",
            "消息流没有消费组，运行中的引擎会重建。先按 {pending} 再按 {plan} 处理仍待确认的消息。"
        ),
        AlarmKind::RedisForgot { buyers, refused, .. } => {
            let forgotten = counted(*buyers, "buyer", "buyers");
            let promises = counted(*refused, "promise", "promises");
            let (buyers, refused) =
                (thousands(*buyers), (*refused > 0).then(|| thousands(*refused)));
            match refused {
                None => tell!(
                    "Redis had forgotten {forgotten}; all are put back.  {pending} then {plan} settles what \
                     stays pending.",
                    "Redis 曾丢失 {buyers} 位买家，已全部补回。先按 {pending} 再按 {plan} 处理仍待确认的消息。"
                ),
                Some(refused) => tell!(
                    "Redis had forgotten {forgotten}; {promises} can't be kept: 'seckill audit' tells more.  \
                     {pending} then {plan} settles the rest.",
                    "Redis 曾丢失 {buyers} 位买家，其中 {refused} 份承诺无法兑现，详见 'seckill audit'。先按 {pending} 再按 \
                     {plan} 处理其余的。"
                ),
            }
        }
        AlarmKind::ServerBack { server, away_ms } => {
            let away = span(*away_ms);
            tell!(
                "{server} answers again; it was away for {away}.",
                "{server} 已恢复应答，中断了 {away}。"
            )
        }
    }
}

/// A sentence without the sign at its end, for the middle of another one.
fn unstopped(sentence: &str) -> &str {
    sentence.trim_end_matches(['.', '?', '!', '。'])
}
