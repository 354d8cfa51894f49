//! The drills, as data: what happens, what the screen shows of it, what mends it, and what must be true then.
//!
//! Nothing is done here. In texts `{n}` is how many entries the fault befell, `{left}` the seconds until the fault is
//! over, and `{dir}` the data dir. A text has to fit into the two lines of a story at 80x24.

use seckill_console::{Word, word};
use seckill_engine::telemetry::{Snapshot, snapshot::AlarmKind};
use seckill_model::ledger::Balance;
use serde::Serialize;

use super::super::stage::is_settled;

/// What befalls the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    NodeDies,
    Poison,
    DatabaseAway,
    RedisKilled,
    GroupDestroyed,
    StreamTrimmed,
    Duplicates,
    ClockSteps,
}

/// Who mends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The engine.
    Itself,
    /// A person, who plans what to do for pending entries, and does it.
    Plan,
    /// A person, who removes dead letters.
    Discard,
}

/// What a picture shows; the number is how many entries the fault befell.
pub(super) struct Sign {
    pub(super) words: &'static str,
    pub(super) shows: fn(&Snapshot, u64) -> bool,
}

/// What is known in the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Orders in SQL before the fault.
    pub(super) before: u64,
    /// Orders in SQL now.
    pub(super) after: u64,
    /// Entries that the fault befell.
    pub(super) struck: u64,
    /// Orders that nobody was given when it came.
    pub(super) waiting: u64,
    /// Ids rose from one sale to the next.
    pub(super) rising: bool,
}

/// What must be true in the end, beside the books.
pub(super) struct Proof {
    pub(super) words: Word,
    pub(super) holds: fn(&Facts) -> bool,
}

/// One drill.
#[derive(Serialize)]
pub(super) struct Drill {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    #[serde(skip)]
    pub(super) title: Word,
    /// What happens, and where to look.
    #[serde(skip)]
    pub(super) happens: Word,
    /// What to do, or what comes by itself.
    #[serde(skip)]
    pub(super) mends: Word,
    /// The keys for it.
    #[serde(skip)]
    pub(super) keys: Option<&'static str>,
    #[serde(skip)]
    pub(super) strike: Strike,
    /// Seconds that the fault lasts once it was seen; 0 where that is up to the remedy.
    #[serde(skip)]
    pub(super) lasts: u64,
    #[serde(skip)]
    pub(super) remedy: Remedy,
    #[serde(skip)]
    pub(super) seen: Sign,
    #[serde(skip)]
    pub(super) done: Sign,
    #[serde(skip)]
    pub(super) proof: Proof,
}

pub(super) const DRILLS: [Drill; 8] = [
    Drill {
        name: "consumer-killed",
        about: "a node dies with a batch of orders in its hands",
        title: word("A NODE DIES", "节点宕机"),
        happens: word(
            "node-b died with {n} orders in its hands. ATTENTION says so, and how many it holds.",
            "node-b 带着 {n} 笔订单宕机。“需关注”会提示，并给出它持有的条数。",
        ),
        mends: word(
            "4 lists what it held, A makes a plan, y does it. Pending must come down to 0.",
            "按 4 看它持有的消息，按 A 制定计划，按 y 执行。待确认须降为 0。",
        ),
        keys: Some("4  A  y"),
        strike: Strike::NodeDies,
        lasts: 0,
        remedy: Remedy::Plan,
        seen: Sign { words: "ATTENTION: a dead consumer holds {n} entries", shows: dead_holder },
        done: Sign { words: "nothing is pending any more", shows: settled },
        proof: Proof {
            words: word(
                "SQL holds the orders of the dead node, each once",
                "失联节点的订单都已落库，且各一笔",
            ),
            holds: |it| it.after == it.before + it.struck,
        },
    },
    Drill {
        name: "poison",
        about: "entries of which no order can come, among good ones",
        title: word("POISON", "毒消息"),
        happens: word(
            "{n} entries that make no order came among good ones. ATTENTION counts the dead letters.",
            "好消息中混入 {n} 条无法成为订单的消息。“需关注”会给出死信条数。",
        ),
        mends: word(
            "5 lists, * marks all, D discards; elsewhere: seckill --data-dir {dir} dead discard --all",
            "按 5 查看，* 全部标记，D 丢弃；或另开终端：seckill --data-dir {dir} dead discard --all",
        ),
        keys: Some("5  *  D  y"),
        strike: Strike::Poison,
        lasts: 0,
        remedy: Remedy::Discard,
        seen: Sign {
            words: "ATTENTION: {n} dead letters wait for a person",
            shows: |picture, struck| {
                alarm(picture, |kind| *kind == AlarmKind::DeadLetters { count: struck })
            },
        },
        done: Sign {
            words: "no dead letter is left",
            shows: |picture, _| picture.stream.as_ref().is_some_and(|it| it.dead == 0),
        },
        proof: Proof {
            words: word(
                "SQL holds every good order, and none of the poison",
                "好订单全部落库，毒消息一条也没有",
            ),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "database-away",
        about: "the database refuses connections in the middle of a rush",
        title: word("THE DATABASE IS AWAY", "数据库中断"),
        happens: word(
            "ATTENTION says so within 2 s. Orders wait in the stream. It is back in {left} s.",
            "“需关注”会在 2 秒内提示。订单在消息流中等待。{left} 秒后恢复。",
        ),
        mends: word(
            "It is back. ATTENTION tells how long it was away; orders catch up by themselves.",
            "已恢复。“需关注”会提示中断了多久；订单自动追上。",
        ),
        keys: None,
        strike: Strike::DatabaseAway,
        lasts: 8,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "ATTENTION within 2 s: the database does not answer",
            shows: |picture, _| alarm(picture, |kind| matches!(kind, AlarmKind::SqlAway { .. })),
        },
        done: Sign {
            words: "ATTENTION: the database answers again, and for how long it was away",
            shows: |picture, _| back(picture, &picture.sql.name),
        },
        proof: Proof {
            words: word("SQL holds what was promised meanwhile", "中断期间承诺的订单已落库"),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "redis-away",
        about: "Redis is killed in the middle of a rush",
        title: word("REDIS IS KILLED", "REDIS 被杀"),
        happens: word(
            "SIGKILL, amid the rush. Whoever needs it next starts it again: nothing for you to do.",
            "抢购中被 SIGKILL。下一个用到它的进程会重新启动它：你无需操作。",
        ),
        mends: word(
            "It runs again. ATTENTION tells how long it was away; buyers get their answers late.",
            "已重新运行。“需关注”会提示中断了多久；买家稍后得到答复。",
        ),
        keys: None,
        strike: Strike::RedisKilled,
        lasts: 0,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "ATTENTION: Redis was away",
            shows: |picture, _| {
                alarm(picture, |kind| matches!(kind, AlarmKind::RedisAway { .. }))
                    || back(picture, &picture.redis.name)
            },
        },
        done: Sign {
            words: "ATTENTION: Redis answers again, and for how long it was away",
            shows: |picture, _| back(picture, &picture.redis.name),
        },
        proof: Proof {
            words: word(
                "the rush went on: SQL holds more orders than before",
                "抢购继续，落库订单多于故障之前",
            ),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "group-destroyed",
        about: "somebody destroys the consumer group with its pending entries",
        title: word("THE GROUP IS GONE", "消费组消失"),
        happens: word(
            "It was destroyed, with {n} pending entries. ATTENTION says so. The node may mend it in {left} s.",
            "消费组连同 {n} 条待确认消息被销毁，“需关注”会提示。{left} 秒后节点可修复。",
        ),
        mends: word(
            "The node makes it again at the start: what SQL has is acknowledged, the rest is written.",
            "节点从头重建消费组：SQL 中已有的予以确认，其余落库。",
        ),
        keys: None,
        strike: Strike::GroupDestroyed,
        lasts: 8,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "ATTENTION: the stream has no consumer group",
            shows: |picture, _| alarm(picture, |kind| *kind == AlarmKind::NoGroup),
        },
        done: Sign {
            words: "the group is there again, with nothing pending and no lag",
            shows: |picture, struck| {
                picture.stream.as_ref().is_some_and(|it| it.group) && settled(picture, struck)
            },
        },
        proof: Proof {
            words: word(
                "SQL holds the orders that the group forgot, each once",
                "消费组遗忘的订单都已落库，且各一笔",
            ),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "stream-trimmed",
        about: "the stream is trimmed under the pending entries of a dead node",
        title: word("TRIMMED TOO EARLY", "裁剪过早"),
        happens: word(
            "node-b died with {n} entries, and the stream lost their bodies. 4 says of each: body gone.",
            "node-b 带着 {n} 条消息宕机，消息流又丢了内容。按 4 可见每条都是“内容丢失”。",
        ),
        mends: word(
            "In 4, A plans to rebuild them from the buyers, y does it. The node waits for you.",
            "在 4 中按 A 制定计划，按买家名单重建，按 y 执行。节点在等你。",
        ),
        keys: Some("4  A  y"),
        strike: Strike::StreamTrimmed,
        lasts: 0,
        remedy: Remedy::Plan,
        seen: Sign {
            words: "a dead consumer holds {n} entries, and the stream does not have their bodies any more",
            shows: |picture, struck| dead_holder(picture, struck) && body_gone(picture),
        },
        done: Sign {
            words: "nothing is pending any more",
            shows: |picture, _| picture.stream.as_ref().is_some_and(|it| it.pending == 0),
        },
        proof: Proof {
            words: word("SQL holds the rebuilt orders, each once", "重建的订单都已落库，且各一笔"),
            holds: |it| it.after == it.before + it.struck,
        },
    },
    Drill {
        name: "duplicates",
        about: "a producer repeats itself: entries come a second time",
        title: word("TWICE IN THE STREAM", "消息重复"),
        happens: word(
            "{n} entries were added a second time. The lag under STREAM shows them for {left} s.",
            "{n} 条消息被第二次写入。“消息流”的积压会显示 {left} 秒。",
        ),
        mends: word(
            "Each is found in SQL and acknowledged: the lag goes, and no order comes of it.",
            "每条都在 SQL 中查到并确认：积压消退，不产生订单。",
        ),
        keys: None,
        strike: Strike::Duplicates,
        lasts: 6,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "STREAM: a lag of {n}",
            shows: |picture, struck| {
                picture.stream.as_ref().is_some_and(|it| it.lag == Some(struck))
            },
        },
        done: Sign { words: "the lag is gone and nothing is pending", shows: settled },
        proof: Proof {
            words: word("not one order was written twice", "没有一笔订单重复落库"),
            holds: |it| it.after == it.before,
        },
    },
    Drill {
        name: "clock-step",
        about: "the clock of order ids steps a day ahead, and back",
        title: word("THE CLOCK STEPS", "时钟跳变"),
        happens: word(
            "The clock of order ids steps 25 h ahead, then back, with sales in between. Books stay balanced.",
            "订单号时钟前跳 25 小时再跳回，其间仍有秒杀。对账保持一致。",
        ),
        mends: word(
            "Nothing to do: no alarm, books balanced. The audit compares every id.",
            "无需操作：没有告警，对账一致。审计会核对每个订单号。",
        ),
        keys: None,
        strike: Strike::ClockSteps,
        lasts: 0,
        remedy: Remedy::Itself,
        seen: Sign { words: "no alarm, and books that balance, after both steps", shows: calm },
        done: Sign { words: "sales went on through both steps", shows: settled },
        proof: Proof {
            words: word(
                "ids rose through both steps, and none came twice",
                "两次跳变中订单号一直递增，没有重复",
            ),
            holds: |it| it.rising && it.after > it.before,
        },
    },
];

fn alarm(picture: &Snapshot, is: impl Fn(&AlarmKind) -> bool) -> bool {
    picture.alarms.iter().any(|alarm| is(&alarm.kind))
}

fn dead_holder(picture: &Snapshot, struck: u64) -> bool {
    let holds = |kind: &AlarmKind| matches!(kind, AlarmKind::DeadConsumer { pending, .. } if *pending == struck);
    alarm(picture, holds)
}

/// Every entry that the stream still has is younger than the oldest that is pending.
fn body_gone(picture: &Snapshot) -> bool {
    picture.stream.as_ref().is_some_and(|stream| {
        let younger = |pending| stream.oldest_ms.is_none_or(|kept| kept < pending);
        stream.oldest_pending_ms.is_some_and(younger)
    })
}

fn back(picture: &Snapshot, name: &str) -> bool {
    alarm(picture, |kind| matches!(kind, AlarmKind::ServerBack { server, .. } if server == name))
}

fn settled(picture: &Snapshot, _: u64) -> bool {
    is_settled(picture)
}

fn calm(picture: &Snapshot, _: u64) -> bool {
    picture.alarms.is_empty() && matches!(picture.books, Balance::Balanced { .. })
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use seckill_console::{Lang, speak_here};

    /// Columns of the two lines, without pointer, key and what wrapping may cost.
    fn room(keys: Option<&str>) -> usize {
        let key = keys.map_or(0, |keys| "press ".len() + keys.len() + 2);
        (80 - 6 - key) + (80 - 4) - 12
    }

    #[test]
    fn every_page_fits_into_two_lines_of_80_columns_in_each_language() {
        for lang in [Lang::En, Lang::Zh] {
            speak_here(lang);
            for drill in &DRILLS {
                for (text, keys) in [(drill.happens, None), (drill.mends, drill.keys)] {
                    let text = text.replace("{dir}", "/tmp/seckill-demo-AbCdEf");
                    let long = drill.title.width() + 4 + text.width();
                    assert!(long <= room(keys), "{}: {long} of {}", drill.name, room(keys));
                }
            }
        }
    }

    /// Columns of the three lines in the smallest window, counted the same way.
    fn least_room(keys: Option<&str>) -> usize {
        let key = keys.map_or(0, |keys| "press ".len() + keys.len() + 2);
        (60 - 6 - key) + 2 * (60 - 4) - 18
    }

    #[test]
    fn every_page_fits_into_three_lines_of_60_columns_in_each_language() {
        for lang in [Lang::En, Lang::Zh] {
            speak_here(lang);
            for drill in &DRILLS {
                for (text, keys) in [(drill.happens, None), (drill.mends, drill.keys)] {
                    let text = text.replace("{dir}", "/tmp/seckill-demo-AbCdEf");
                    let long = drill.title.width() + 4 + text.width();
                    assert!(long <= least_room(keys), "{}: {long}", drill.name);
                }
            }
        }
    }

    #[test]
    fn names_differ_and_a_person_has_a_key() {
        for (at, drill) in DRILLS.iter().enumerate() {
            assert!(DRILLS.iter().skip(at + 1).all(|other| other.name != drill.name));
            assert_eq!(drill.remedy != Remedy::Itself, drill.keys.is_some(), "{}", drill.name);
        }
    }
}
