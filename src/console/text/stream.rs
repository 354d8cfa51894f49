//! Words of the order stream, its group and who reads it.

use seckill_engine::{
    group::{ClaimPlan, RemoveReport, Rewind},
    telemetry::snapshot::{GroupConsumer, NodeState},
};

use super::{
    actions::Told,
    acts::Question,
    figures::{counted, rate, span, thousands, within},
    lang::{Word, tell, word},
};
use crate::keymap::{Action, key_of};

pub(crate) const TAB: Word = word("Stream", "流");
pub(crate) const HEADING: Word = word("STREAM", "消息流");
pub(crate) const FOLLOWING: Word = word("following", "跟随中");
pub(crate) const ALL: Word = word("all partitions", "所有分区");
pub(crate) const NO_ENTRY: Word = word(
    "No entry is in the stream. Each admitted buyer adds one.",
    "流中没有消息。每个准入的买家会新增一条。",
);
pub(crate) const UNREAD: Word =
    word("Redis is away, so the stream can't be read.", "Redis 无响应，无法读取流。");
pub(crate) const NO_CONSUMER: Word = word("no consumer reads the stream", "没有消费者在读取流");
pub(crate) const NO_GROUP: Word = word("NO GROUP", "无消费组");
pub(crate) const NOTHING_YET: Word = word("nothing yet", "尚无");
const STOPPED: Word = word("stopped", "已停止");
pub(crate) const IN_LETTERS: Word = word("in dead letters", "在死信中");
pub(crate) const DEAD_OR_NOT: Word = word("acknowledged or dead", "已确认或死信");
pub(crate) const UNDELIVERED: Word = word("waiting", "待投递");
pub(crate) const ACKNOWLEDGED: Word = word("acknowledged", "已确认");
pub(crate) const ONE_PARTITION: Word = word("there is only one partition", "只有一个分区");
pub(crate) const NO_DETAIL: Word =
    word("a consumer has no detail; its row tells all of it", "消费者没有详情，该行已是全部内容");
pub(crate) const NOT_PENDING: Word = word(
    "that entry is not pending, so it can't be given to anybody",
    "该消息不处于待确认状态，无法转交",
);
pub(crate) const NOBODY: Word = word(
    "no other consumer of a live node is there to take it; start a node first",
    "没有其他在线节点的消费者可以接手；请先启动一个节点",
);
pub(crate) const LOOKING: Word = word("looking at what that would do", "正在查看影响");
pub(crate) const PREVIEWED: Word = word("its figures are there", "统计已就绪");
pub(crate) const USERS_SHOWN: Word = word("users are shown", "已显示用户");
pub(crate) const USERS_MASKED: Word = word("users are masked", "已隐藏用户");

/// Heads of the tables.
pub(crate) mod columns {
    use super::{Word, word};
    pub(crate) use crate::text::{
        PENDING,
        columns::{ENTRY, IDLE, NODE, ORDER, USER, VOUCHER as SALE},
    };

    pub(crate) const TIME: Word = word("TIME", "时间");
    pub(crate) const STATE: Word = word("STATE", "状态");
    pub(crate) const CONSUMER: Word = word("CONSUMER", "消费者");
    pub(crate) const PARTITION: Word = word("PARTITION", "分区");
}

/// Labels of the figures and of the detail.
pub(crate) mod labels {
    use super::{Word, word};
    pub(crate) use crate::text::details::{
        ENTRY, FAULT, NO_FAULT as GOOD, ORDER, USER, VOUCHER as SALE,
    };

    pub(crate) const LENGTH: Word = word("kept", "保留");
    pub(crate) const OLDEST: Word = word("oldest", "最早");
    pub(crate) const NEWEST: Word = word("newest", "最新");
    pub(crate) const TRIMMED: Word = word("trimmed", "已裁剪");
    pub(crate) const LAG: Word = word("lag", "积压");
    pub(crate) const PENDING: Word = word("pending", "待确认");
    pub(crate) const DELIVERED: Word = word("delivered", "投递至");
    pub(crate) const READ: Word = word("read", "已读");
    pub(crate) const ADDED: Word = word("added", "写入");
    pub(crate) const STATE: Word = word("state", "状态");
}

/// A word for the footer, a sentence for the help screen, and a name for the palette.
pub(super) fn action(action: Action) -> Told {
    let (short, long, name) = match action {
        Action::Stream => {
            (word("stream", "流"), word("go to Stream", "转到流"), Some(word("stream", "流")))
        }
        Action::Rewind => (
            word("rewind", "回退"),
            word("deliver entries again", "从某处起重新投递"),
            Some(word("rewind", "回退")),
        ),
        Action::Claim => (
            word("claim", "转交"),
            word("give pending entries to another", "把待确认消息转交给其他消费者"),
            Some(word("claim", "转交")),
        ),
        Action::RemoveConsumer => (
            word("remove", "移除"),
            word("remove an empty consumer without node", "移除节点已停且不持有消息的消费者"),
            Some(word("remove consumer", "移除消费者")),
        ),
        Action::Pane => (
            word("consumers", "消费者"),
            word("to the consumers and back", "切换到消费者或消息"),
            Some(word("consumers / entries", "消费者 / 消息")),
        ),
        Action::Partition => (
            word("partition", "分区"),
            word("the next partition, or all", "下一个分区或全部"),
            Some(word("partition", "分区")),
        ),
        _ => (
            word("users", "用户"),
            word("show or mask users", "显示或隐藏用户"),
            Some(word("users", "用户")),
        ),
    };
    (short, long, name)
}

pub(crate) fn partition(number: u16, of: usize) -> String {
    let last = of.saturating_sub(1);
    tell!("partition {number} of 0 to {last}", "分区 {number}（0 到 {last}）")
}

/// The pending list is empty; what nobody was given yet is not in it.
pub(crate) fn nothing_pending(lag: Option<u64>) -> String {
    let key = key_of(Action::Stream);
    match lag {
        Some(0) => tell!(
            "Nothing is pending. Orders go straight through.",
            "没有待确认的消息，订单一路畅通。"
        ),
        Some(lag) => {
            let (wait, count) = (counted(lag, "entry waits", "entries wait"), thousands(lag));
            tell!(
                "Nothing is pending. {wait} in the stream ({key}).",
                "没有待确认的消息。流中还有 {count} 条未投递（{key}）。"
            )
        }
        None => tell!(
            "Nothing is pending. How many entries wait in the stream is unknown ({key}).",
            "没有待确认的消息。流中未投递的条数未知（{key}）。"
        ),
    }
}

/// The window stands still while new entries come.
pub(crate) fn held(at: &str) -> String {
    let key = key_of(Action::Last);
    tell!("held at {at}; {key} follows", "停在 {at}；按 {key} 跟随")
}

/// Bytes as a person reads them.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{} B", thousands(bytes)),
        10_000..=999_999 => format!("{} kB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

pub(crate) fn grows(per_second: f64) -> String {
    let rate = rate(per_second);
    tell!("grows by {rate}", "增加 {rate}")
}

pub(crate) fn trimmed(gone: u64) -> String {
    let gone = within(gone, 9);
    tell!("{gone} before the oldest", "最早消息之前 {gone} 条")
}

pub(crate) fn read_of(read: &str, added: u64) -> String {
    let added = within(added, 9);
    tell!("{read} of {added} added", "{read} / 写入 {added}")
}

/// How many it has read nobody knows; how many are left the lag tells, or says that it is unknown.
pub(crate) fn not_counted(added: u64) -> String {
    let added = within(added, 9);
    tell!("not counted; {added} added", "未统计；写入 {added}")
}

/// What became of a node. One that is not listed and yet holds entries may never have been one.
pub(crate) fn state(state: NodeState, holds: bool) -> &'static str {
    match state {
        NodeState::Alive => super::ALIVE.read(),
        NodeState::Stopped if holds => super::STRANGER.read(),
        NodeState::Stopped => STOPPED.read(),
        NodeState::Dead => super::DEAD_HOLDER.read(),
    }
}

/// An entry that was given up.
pub(crate) fn in_letters() -> String {
    let (told, key) = (IN_LETTERS.read(), key_of(Action::Letters));
    tell!("{told}; {key} opens them", "{told}；按 {key} 查看")
}

/// An entry that is in nobody's hands, behind more dead letters than are looked at here.
pub(crate) fn dead_or_not() -> String {
    let (told, key) = (DEAD_OR_NOT.read(), key_of(Action::Letters));
    tell!(
        "{told}: more dead letters than are looked at here; {key} opens them",
        "{told}：死信过多，此处未全部查看；按 {key} 查看"
    )
}

pub(crate) fn entries_shown(shown: usize, of: usize) -> String {
    let (shown, of) = (thousands(shown as u64), thousands(of as u64));
    tell!("{shown} of {of} on this page", "本页 {of} 条中的 {shown} 条")
}

pub(crate) fn more_consumers(count: usize) -> String {
    let (count, key) = (thousands(count as u64), key_of(Action::Pane));
    tell!("and {count} more; {key} shows all", "另有 {count} 个；按 {key} 查看全部")
}

pub(crate) fn no_match(text: &str) -> String {
    let (text, key) = (super::echo(text), key_of(Action::Back));
    tell!(
        "No entry of this page holds '{text}'. {key} ends the filter.",
        "本页没有包含“{text}”的消息。按 {key} 结束筛选。"
    )
}

/// With whom, since when, and how often it was tried.
pub(crate) fn pending_with(consumer: &str, idle_ms: u64, deliveries: u64) -> String {
    let (idle, times) = (span(idle_ms), thousands(deliveries));
    let delivered = counted(deliveries, "time", "times");
    tell!(
        "pending with {consumer}, idle {idle}, delivered {delivered}",
        "由 {consumer} 持有，闲置 {idle}，已投递 {times} 次"
    )
}

/// The order, and what its id says.
pub(crate) fn order(id: &str, issued: &str, sequence: u32) -> String {
    let sequence = thousands(u64::from(sequence));
    tell!(
        "{id}, number {sequence} of its day, issued {issued}",
        "{id}，当日第 {sequence} 号，生成于 {issued}"
    )
}

pub(crate) fn user(user: &str) -> String {
    let key = key_of(Action::Users);
    tell!("{user}   {key} shows or masks it", "{user}   按 {key} 显示或隐藏")
}

/// Words of the forms.
pub(crate) mod form {
    use super::{Word, counted, tell, thousands, word};

    pub(crate) const REWIND: Word = word("Deliver entries again", "重新投递消息");
    pub(crate) const TO: Word = word("From", "起点");
    pub(crate) const TO_HINT: Word =
        word("start, an entry's id, 14:30 or -10m", "start、消息 ID、14:30 或 -10m");
    pub(crate) const RECEIVER: Word = word("To", "交给");
    pub(crate) const RECEIVER_HINT: Word =
        word("a consumer, or a node for its own one", "消费者，或节点（取其消费者）");
    pub(crate) const NEXT: Word = word("Look", "查看");
    pub(crate) const NAME_ONE: Word =
        word("name the consumer that gets them", "请填写接手的消费者");
    pub(crate) const NOTHING_YET: Word = word(
        "Nothing is done yet: a question with the exact counts comes next.",
        "尚未执行：接下来会给出准确数量并请求确认。",
    );

    pub(crate) fn claim_of(holder: &str, pending: u64) -> String {
        let (entries, pending) = (counted(pending, "entry", "entries"), thousands(pending));
        tell!("Give {entries} of {holder}", "转交 {holder} 的 {pending} 条")
    }

    pub(crate) fn claim_entry(entry: &str) -> String {
        tell!("Give entry {entry}", "转交消息 {entry}")
    }

    /// Where the form counts: in all partitions or in one.
    pub(crate) fn place(partition: Option<u16>) -> String {
        match partition {
            Some(number) => tell!("In partition {number} only.", "仅限分区 {number}。"),
            None => tell!("In every partition.", "适用于所有分区。"),
        }
    }
}

fn question(title: String, lines: Vec<String>, yes: Word) -> Question {
    Question { title, lines, yes: yes.read().to_owned() }
}

/// What a rewind would do, a line for each count that is not 0.
pub(crate) fn rewind(plan: &[Rewind], time: impl Fn(&Rewind) -> (String, String)) -> Question {
    let sum = |count: fn(&Rewind) -> u64| plan.iter().map(count).sum::<u64>();
    let again = sum(|it| it.again);
    let entries = counted(again, "entry is", "entries are");
    let again = thousands(again);
    let made = plan.iter().filter(|it| !it.group).count();
    let head = if let [only] = plan {
        let ((from, to), first) = (time(only), only.from);
        tell!(
            "{entries} delivered again: from {first} ({from}) to {to}.",
            "将重新投递 {again} 条：从 {first}（{from}）到 {to}。"
        )
    } else {
        let count = plan.len();
        tell!(
            "{entries} delivered again, in {count} partitions.",
            "将在 {count} 个分区重新投递 {again} 条。"
        )
    };
    let mut lines = vec![head];
    if made > 0 {
        let gone = counted(made as u64, "group is gone and is", "groups are gone and are");
        lines.push(tell!("{gone} made there.", "{made} 个消费组已丢失，将在该处重建。"));
    }
    let parts = [
        (sum(|it| it.written), word("in SQL already: acknowledged", "已在 SQL 中：直接确认")),
        (
            sum(|it| it.missing),
            word("not in SQL: written if a piece is left", "不在 SQL 中：有库存则写入"),
        ),
        (sum(|it| it.unheld), word("of those: no buyer holds it now", "其中：已无买家持有该订单")),
        (sum(|it| it.malformed), word("malformed: become dead letters", "格式错误：成为死信")),
        (sum(|it| it.pending), word("pending now: whoever is first", "正待确认：先到者处理")),
        (sum(|it| it.undelivered), word("after them: delivered anyway", "其后的：照常投递")),
        (sum(|it| it.trimmed), word("older ones are trimmed: gone", "更旧的已裁剪：无法找回")),
        (sum(|it| it.skipped), word("older ones are given to nobody", "更旧的不会投递给任何人")),
        (
            sum(|it| it.skipped_missing),
            word("of those: not in SQL, SKIPPED", "其中：不在 SQL 中，将被跳过"),
        ),
    ];
    let told = parts.into_iter().filter(|(count, _)| *count > 0);
    lines.extend(told.map(|(count, what)| format!("{:>9}  {}", thousands(count), what.read())));
    let title = tell!("Move the group back?", "回退消费组？");
    question(title, lines, word("Rewind", "回退"))
}

/// Who gives what to whom.
pub(crate) fn claim(plan: &ClaimPlan) -> Question {
    let count = thousands(plan.count());
    let entries = counted(plan.count(), "pending entry gets", "pending entries get");
    let mut lines = vec![tell!("{entries} another holder.", "{count} 条待确认消息将更换持有者。")];
    for part in &plan.parts {
        let (count, from, to) = (thousands(part.count), &part.from, &part.to);
        lines.push(format!("{count:>9}  {from} → {to}"));
    }
    if plan.gone > 0 {
        let gone = thousands(plan.gone);
        lines.push(tell!(
            "{gone} no longer pending, or with it already.",
            "{gone} 条已不再待确认，或已在其名下。"
        ));
    }
    lines.push(tell!(
        "It is no delivery. The new holder works on them within seconds; one that is in SQL is acknowledged.",
        "这不算一次投递。新持有者会在数秒内处理；已在 SQL 中的直接确认。"
    ));
    let title = tell!("Give these entries away?", "转交这些消息？");
    question(title, lines, word("Claim", "转交"))
}

/// Where a consumer would be removed.
pub(crate) fn remove(found: &RemoveReport) -> Question {
    let (name, groups) = (&found.consumer, found.partitions.len());
    let partitions = counted(groups as u64, "partition", "partitions");
    let lines = vec![
        name.clone(),
        tell!(
            "Its node does not run, and it holds nothing. It leaves the group of {partitions}.",
            "其节点未运行，且不持有消息。它将离开 {groups} 个分区的消费组。"
        ),
    ];
    question(tell!("Remove the consumer?", "移除该消费者？"), lines, word("Remove", "移除"))
}

/// A consumer is removed that is chosen in its own list, which has the keys now.
pub(crate) fn choose_consumer() -> String {
    let [up, down, again] = [Action::Up, Action::Down, Action::RemoveConsumer].map(key_of);
    tell!(
        "choose a consumer of the list above by {up} and {down}, then press {again} again",
        "请先按 {up} {down} 在上方列表中选择一个消费者，再按一次 {again}"
    )
}

/// Why a consumer is not removed.
pub(crate) fn not_removed(consumer: &GroupConsumer) -> String {
    let (name, held) = (&consumer.name, thousands(consumer.pending));
    let entries = counted(consumer.pending, "entry", "entries");
    if consumer.state == NodeState::Alive {
        tell!(
            "the node of {name} is alive and would make it anew",
            "{name} 的节点在线，会重新创建它"
        )
    } else {
        let key = key_of(Action::Claim);
        tell!(
            "{name} holds {entries}, which would be lost with it; {key} gives them to somebody first",
            "{name} 持有 {held} 条，移除会丢失；请先按 {key} 转交"
        )
    }
}

pub(crate) fn holds_nothing(name: &str) -> String {
    tell!("{name} holds nothing that could be given away", "{name} 没有可转交的消息")
}
