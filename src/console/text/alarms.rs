//! Words of alarms: what is true, and the key that helps.

use seckill_engine::telemetry::{forgot::named, snapshot::AlarmKind, unread::Unread};
use seckill_model::{ForeignKey, Said};

use super::{
    books::sale_finding,
    figures::{counted, span, thousands, within},
    lang::{Word, tell, word},
    refusals::unread,
    system,
};
use crate::{
    keymap::{Action, key_of},
    widgets::right,
};

/// An alarm in words. What grows has a column of its own before them or stands last, so that no word moves.
pub(crate) struct Told {
    /// An age or a count, in [`FIGURE`] cells.
    pub(crate) figure: Option<String>,
    pub(crate) words: String,
}

/// Cells of the figure before the words, in either language.
pub(crate) const FIGURE: usize = 8;

impl Told {
    /// With how long it has been so.
    fn since(age_ms: u64, words: String) -> Self {
        Self { figure: Some(right(&span(age_ms), FIGURE, "")), words }
    }

    /// With how many it is about.
    pub(super) fn about(count: u64, words: String) -> Self {
        Self { figure: Some(right(&within(count, FIGURE - 1), FIGURE, "")), words }
    }

    /// Cells that stand before the words.
    pub(crate) fn indent(&self) -> usize {
        self.figure.as_ref().map_or(0, |_| FIGURE + 2)
    }
}

impl From<String> for Told {
    fn from(words: String) -> Self {
        Self { figure: None, words }
    }
}

/// An alarm in words, with the key that helps.
pub(crate) fn alarm(kind: &AlarmKind) -> Told {
    let (pending, plan) = (key_of(Action::Pending), key_of(Action::Replay));
    let words = match kind {
        AlarmKind::RedisAway { error } => {
            let reason = reason(error);
            tell!(
                "Redis does not answer; what you see is old, and goes on by itself: {reason}.",
                "Redis 无应答，画面为旧数据，恢复后自动继续：{reason}。"
            )
        }
        AlarmKind::RedisReadOnly { error } => {
            let (reason, step) = (reason(error), next_step(error));
            tell!(
                "Redis takes no writes, so no sale can go on: {step} ({reason}).",
                "Redis 不能写入，秒杀无法进行：{step}（{reason}）。"
            )
        }
        AlarmKind::ForeignKey(found) => {
            let ForeignKey { key, holds } = found;
            let content = system::content(holds);
            if found.is_lock() {
                tell!(
                    "{key} in Redis holds a {holds} of another program; nobody gets that lock.  Rename the key.",
                    "Redis 的 {key} 存有其他程序的内容（{content}），无法加锁。请将该键改名。"
                )
            } else {
                tell!(
                    "{key} in Redis holds a {holds} of another program.  Rename it, then run 'seckill audit --repair'.",
                    "Redis 的 {key} 存有其他程序的内容（{content}）。请将该键改名，再运行 'seckill audit --repair'。"
                )
            }
        }
        AlarmKind::SqlLocked { waiting } => return locked(*waiting),
        AlarmKind::SqlReadOnly { error } => {
            let reason = reason(error);
            tell!(
                "The database is read but takes no writes; orders wait in the stream, none is lost: {reason}.",
                "数据库可读但不能写入，订单在消息流中等待，不会丢失：{reason}。"
            )
        }
        AlarmKind::SqlAway { error } => {
            let reason = reason(error);
            tell!(
                "The database does not answer; orders wait in the stream, none is lost: {reason}.",
                "数据库无应答，订单在消息流中等待，不会丢失：{reason}。"
            )
        }
        AlarmKind::BooksOff { finding, repairable } => {
            let (finding, ledger) = (sale_finding(finding), key_of(Action::Ledger));
            if *repairable {
                tell!(
                    "Books off: {finding}.  {ledger} explains and repairs it.",
                    "对账不符：{finding}。按 {ledger} 查看原因并修复。"
                )
            } else {
                tell!(
                    "Books off: {finding}.  {ledger} explains it.",
                    "对账不符：{finding}。按 {ledger} 查看原因。"
                )
            }
        }
        AlarmKind::DeadConsumer { consumer, known, pending: held, idle_ms } => {
            let (count, entries) = (thousands(*held), counted(*held, "entry", "entries"));
            let words = if *known {
                tell!(
                    "{consumer} is dead.  {pending} opens, {plan} replays what it holds: {entries}.",
                    "{consumer} 已失联。按 {pending} 查看其消息，按 {plan} 重放。持有 {count} 条。"
                )
            } else {
                tell!(
                    "{consumer} is no node that is known, and silent.  {pending} opens, {plan} replays what it holds: \
                     {entries}.",
                    "{consumer} 不是已知节点，没有动静。按 {pending} 查看其消息，按 {plan} 重放。持有 {count} 条。"
                )
            };
            return Told::since(*idle_ms, words);
        }
        AlarmKind::SilentConsumer { consumer, pending: held, idle_ms } => {
            let (count, entries) = (thousands(*held), counted(*held, "entry", "entries"));
            let words = tell!(
                "{consumer} is silent, though its node lives.  {pending} opens, {plan} replays what it holds: \
                 {entries}.",
                "{consumer} 的节点在线，但不再取消息。按 {pending} 查看其消息，按 {plan} 重放。持有 {count} 条。"
            );
            return Told::since(*idle_ms, words);
        }
        AlarmKind::LagStands { lag, drains_ms } => {
            let stream = key_of(Action::Stream);
            let wait = if *lag == 1 { "entry waits" } else { "entries wait" };
            let words = match drains_ms.map(span) {
                Some(takes) => tell!(
                    "{wait} for a consumer.  {stream} shows who reads; 'seckill work' adds a node.  At this rate \
                     it takes {takes}.",
                    "条积压。按 {stream} 查看消费者，'seckill work' 增加节点。按目前速度要 {takes}才能清空。"
                ),
                None => tell!(
                    "{wait} for a consumer.  {stream} shows who reads; 'seckill work' adds a node.  They do not \
                     become fewer.",
                    "条积压。按 {stream} 查看消费者，'seckill work' 增加节点。没有减少。"
                ),
            };
            return Told::about(*lag, words);
        }
        AlarmKind::JobFailed { job, ago_ms } => {
            let (jobs, run) = (key_of(Action::Jobs), key_of(Action::RunJob));
            let words = tell!(
                "ago the last run of {job} failed.  {jobs} shows why, {run} there runs it again.",
                "前 {job} 的上次运行失败。按 {jobs} 查看原因，再按 {run} 重新运行。"
            );
            return Told::since(*ago_ms, words);
        }
        AlarmKind::DeadLetters { count } => {
            let letters = key_of(Action::Letters);
            let waits = if *count == 1 { "dead letter waits" } else { "dead letters wait" };
            let words = tell!(
                "{waits} for a person to judge.  {letters} opens them.",
                "条死信等待人工处理。按 {letters} 查看。"
            );
            return Told::about(*count, words);
        }
        AlarmKind::Undelivered { sales } => {
            let named = sales.iter().map(|sale| format!("#{sale}")).collect::<Vec<_>>().join(" ");
            tell!(
                "{named} changed in SQL, and Redis has not confirmed it: Redis goes on with the old version. A running \
                 node delivers it as soon as Redis takes writes.",
                "{named} 已在 SQL 中更改，Redis 尚未确认，仍按旧版本售卖。Redis 可写后由运行中的节点送达。"
            )
        }
        AlarmKind::NoGroup => tell!(
            "The stream has no consumer group; a running engine makes it again.  {pending} then {plan} settles \
             what stays pending.",
            "消息流没有消费组，运行中的引擎会重建。先按 {pending} 再按 {plan} 处理仍待确认的消息。"
        ),
        AlarmKind::RedisForgot { keys, buyers, promised, refused, pending: stuck, .. } => {
            forgot(keys, [*promised, *buyers, *refused], *stuck)
        }
        AlarmKind::ServerBack { server, away_ms } => {
            let away = span(*away_ms);
            tell!(
                "{server} answers again; it was away for {away}.",
                "{server} 已恢复应答，中断了 {away}。"
            )
        }
    };
    words.into()
}

/// What Redis had lost: what came of it and what is left to do, and last the keys, which may be cut.
fn forgot(keys: &[String], [promised, buyers, refused]: [u64; 3], stuck: u64) -> String {
    let (pending, plan, letters) =
        (key_of(Action::Pending), key_of(Action::Replay), key_of(Action::Letters));
    let told = |count: u64, words: String| (count > 0).then_some(words);
    let [orders, buyers_put_back, promises] = [
        counted(promised, "order", "orders"),
        counted(buyers, "buyer", "buyers"),
        counted(refused, "promise", "promises"),
    ];
    let [orders_zh, buyers_zh, refused_zh] = [promised, buyers, refused].map(thousands);
    let parts = [
        told(promised, tell!("{orders} put into the stream again", "{orders_zh} 个订单重新入队")),
        told(buyers, tell!("{buyers_put_back} put back", "补回 {buyers_zh} 位买家")),
        told(refused, tell!("{promises} can't be kept", "{refused_zh} 份承诺无法兑现")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let mut words = if parts.is_empty() {
        tell!(
            "Redis had lost data; it is reconciled with SQL and the stream.",
            "Redis 曾丢失数据，已与 SQL 和消息流对账。"
        )
    } else {
        let parts = parts.join(COMMA.read());
        tell!("Redis had lost data: {parts}.", "Redis 曾丢失数据：{parts}。")
    };
    if refused > 0 {
        words.push_str(&tell!("  {letters} shows them.", "按 {letters} 查看死信。"));
    }
    if stuck > 0 {
        words.push_str(&tell!(
            "  {pending} then {plan} settles the rest.",
            "先按 {pending} 再按 {plan} 处理仍待确认的消息。"
        ));
    } else if refused == 0 {
        words.push_str(&tell!("  Nothing is left to do.", "无需处理。"));
    }
    if !keys.is_empty() {
        let keys = keys_named(keys);
        words.push_str(&tell!(
            "  Lost, replaced or set back: {keys}.",
            "丢失、被替换或被回退：{keys}。"
        ));
    }
    words
}

/// Keys that were lost, at most a few of them by name.
pub(super) fn keys_named(keys: &[String]) -> String {
    let (named, more) = named(keys);
    let named = named.into_iter().map(|(key, was)| match was {
        Some(held) => tell!("{key} (was a {held})", "{key}（原为 {held}）"),
        None => key.to_owned(),
    });
    let named = named.collect::<Vec<_>>().join(LIST_COMMA.read());
    match more {
        0 => named,
        _ => tell!("{named} and {more} more", "{named} 等另 {more} 个"),
    }
}

const COMMA: Word = word(", ", "，");
const LIST_COMMA: Word = word(", ", "、");

/// Another program holds the database. Nobody here can end that, so it says what comes of it.
fn locked(waiting: Option<u64>) -> Told {
    let Some(waiting) = waiting.filter(|waiting| *waiting > 0) else {
        let words = tell!(
            "Another program keeps the database locked; orders wait in the stream, none is lost; it goes on when \
             the lock is let go.",
            "数据库被其他程序锁定，订单在消息流中等待，不会丢失，锁释放后自动继续。"
        );
        return words.into();
    };
    let wait = if waiting == 1 { "entry waits" } else { "entries wait" };
    let words = tell!(
        "{wait}: another program keeps the database locked; none is lost; it goes on when the lock is let go.",
        "条消息在等待：数据库被其他程序锁定，不会丢失，锁释放后自动继续。"
    );
    Told::about(waiting, words)
}

/// What makes a Redis take writes again.
fn next_step(error: &Said) -> String {
    let words = match error.data() {
        Some(Unread::RedisUnwilling(words)) => words,
        _ => error.to_string(),
    };
    system::unwilling(&words)
}

/// What is wrong, without where and what to do: the alarm has two lines for all of it.
fn reason(error: &Said) -> String {
    match error.data() {
        Some(Unread::RedisSilent(_, millis) | Unread::SqlSilent(_, millis)) => {
            let seconds = millis as f64 / 1e3;
            tell!("no answer within {seconds} s", "{seconds} 秒内没有应答")
        }
        Some(
            Unread::RedisAway(_, detail)
            | Unread::RedisLogin(_, detail)
            | Unread::RedisCertificate(_, detail)
            | Unread::RedisUnwilling(detail)
            | Unread::RedisRefused(detail)
            | Unread::SqlAway(detail)
            | Unread::SqlRefused(detail),
        ) => system::said(&detail),
        _ => unread(error).trim_end_matches(['.', '?', '!', '。']).to_owned(),
    }
}
