//! Words of why an act was not done. What only a server can tell stays in its own words.

use seckill_engine::{
    audit_record::{MAX_REASON, MAX_REASON_BYTES},
    error::PartDone,
    group::{GroupFault, Meanwhile, Names},
    jobs::RunFault,
    load_generator::{MAX_CONCURRENCY, MAX_USERS, RushFault},
    refusal::{Refusal, Why},
    telemetry::read_error::Unread,
};
use seckill_model::{
    Said, VoucherId,
    locale::{Lang, language},
};

use super::{
    figures::{signed, thousands},
    starting,
};

/// Why an act was not done.
pub(crate) fn refusal(refusal: &Refusal) -> String {
    if language() == Lang::En {
        return refusal.to_string();
    }
    match &refusal.why {
        Why::Words => refusal.to_string(),
        Why::Crowded => "引擎待处理的操作过多，请稍后再试".to_owned(),
        Why::Stopped => "引擎已停止，请退出后重新启动".to_owned(),
        Why::Stopping => "引擎正在停止，请在运行后再试".to_owned(),
        Why::ReadOnly => "只读模式不接受操作，去掉 --read-only 重新启动后可更改".to_owned(),
        Why::Redis(error) => error.to_string(),
        Why::Sql(error) => error.to_string(),
        Why::Partitions(fault) => starting::partitions(fault),
        Why::Clock(seconds) => {
            format!("时钟为 {seconds} 秒，超出订单号可表示的 2022 至 2090 年，请校准时钟")
        }
        Why::Sequence => "当天的订单号已用尽，请等到下一个 UTC 日".to_owned(),
        Why::Sale(fault) => fault.to_string(),
        Why::LockBusy(name) => {
            format!("锁“{name}”由他人持有，请等待，'seckill locks list' 可查看")
        }
        Why::LockLost(name) => format!("锁“{name}”已丢失，此后以它写入的内容会被拒绝"),
        Why::LockNotHeld(name) => format!("锁“{name}”无人持有"),
        Why::LockChanged(name) => format!("锁“{name}”已换了持有者，未作更改"),
        Why::ForeignPlan => "该计划属于另一套部署，请使用制定计划时的 Redis 和数据库".to_owned(),
        Why::EditedPlan => "该计划制定后被改动，未执行，请重新制定".to_owned(),
        Why::PlanIo(detail) => {
            format!("计划无法保存或读取（{detail}），请清理临时目录后重新制定")
        }
        Why::Group(fault) => group_fault(fault),
        Why::OtherOperator(who) => {
            format!(
                "另一位操作员正在操作（{who}），请等待其完成；若已失联，可用 seckill locks release operator 收回"
            )
        }
        Why::NoJob(name) => format!("没有任务“{name}”，'seckill jobs list' 可查看"),
        Why::Unbalanced(found) => format!("对账不符：{found}"),
        Why::LongReason(characters, bytes) => {
            let [most, heaviest] =
                [MAX_REASON, MAX_REASON_BYTES].map(|most| thousands(most as u64));
            format!(
                "原因有 {characters} 个字符、{bytes} 字节，日志最多 {most} 个字符、{heaviest} 字节，请缩短"
            )
        }
        Why::BrokeOff(why, done) => format!("{}；{}", self::refusal(why), part_done(done)),
        Why::Rush(fault) => rush_fault(fault),
        Why::IsPaused(sale) => format!("#{sale} 已暂停，请用恢复"),
        Why::HasStarted(sale) => format!("#{sale} 已经开始"),
        Why::Run(fault) => run_fault(fault),
        Why::ForeignRedis(place) => {
            format!("{place} 的 Redis 属于另一个数据库，请使用与它配套的数据库，或空的 Redis")
        }
        Why::NameTaken(name) => format!("名为“{name}”的节点已在线，请在设置中用 node 另取一名"),
        Why::Short(sale, by, left) => {
            let [by, left] = [by, left].map(|it| thousands(*it));
            format!("不能从 #{sale} 撤下 {by} 件：未售出 {left} 件；请减少数量，或结束该场")
        }
        Why::NotHeld(sale) => {
            format!(
                "Redis 中没有 #{sale} 的完整数据，无法得知未售数量；运行中的节点会在一秒内对账：seckill work"
            )
        }
        Why::OtherSale(sale) => format!(
            "Redis 中的 #{sale} 与 SQL 中的不是同一场：请使用与之对应的 --database，或用 seckill audit --repair 从 SQL 载入"
        ),
        Why::Reconciling(key) => format!("“{key}”正在与 SQL 对账，请稍后重试"),
        Why::Oversold(sale) => {
            format!("#{sale} 在 Redis 中的买家多于库存，该场保持关闭；seckill audit 列出多出的订单")
        }
        Why::NotLoaded(sale, why) => format!(
            "#{sale} 的更改已提交到 SQL，但 Redis 尚未确认（{}）；Redis 可写后由运行中的节点送达，在此之前 Redis 仍按旧版本售卖",
            self::refusal(why)
        ),
    }
}

/// Why a server could not be read.
pub(crate) fn unread(said: &Said) -> String {
    let seconds = |millis: u64| millis as f64 / 1e3;
    match said.data::<Unread>() {
        Some(Unread::RedisSilent(place, millis)) if language() == Lang::Zh => {
            let seconds = seconds(millis);
            format!("{place} 的 Redis 在 {seconds} 秒内没有应答，那里是否为其他程序，或已停住？")
        }
        Some(Unread::SqlSilent(name, millis)) if language() == Lang::Zh => {
            let seconds = seconds(millis);
            format!("{name} 在 {seconds} 秒内没有应答，是否已停住，或被其他程序占用？")
        }
        Some(unread) => unread.to_string(),
        None => said.to_string(),
    }
}

/// Why what is played beside the console broke off: what the engine told, or words.
pub fn broke_off(said: &Said) -> String {
    said.data().map_or_else(|| said.to_string(), |told| refusal(&told))
}

fn rush_fault(fault: &RushFault) -> String {
    match fault {
        RushFault::Users(users) => {
            let [users, most] = [*users, MAX_USERS].map(thousands);
            format!("抢购人数 {users} 不可行，请填 1 到 {most}")
        }
        RushFault::Repeat(share) => format!("重复请求比例 {share} 不可行，请填 0 到 1"),
        RushFault::Pay(share) => format!("支付比例 {share} 不可行，请填 0 到 1"),
        RushFault::Concurrency(asked) => {
            format!("并发 {asked} 不可行，请填 1 到 {MAX_CONCURRENCY}")
        }
        RushFault::Rate(rate) => format!("每秒 {rate} 次不可行，请填 0.01 以上"),
    }
}

fn run_fault(fault: &RunFault) -> String {
    match fault {
        RunFault::Known(job) => format!(
            "“{job}”没有运行：已有更新的或此刻的运行记录，'seckill jobs history {job}' 可查看"
        ),
        RunFault::Orphan { node, lock, seconds } => format!(
            "{node} 持有“{lock}”但已失联，最迟 {seconds} 秒后释放，也可手动释放：'seckill locks release {lock}'"
        ),
        RunFault::Runs(node) => format!("{node} 正在运行，请等待其结束"),
    }
}

fn group_fault(fault: &GroupFault) -> String {
    match fault {
        GroupFault::NoPartition { number, last } => {
            format!("没有分区 {number}，最后一个是 {last}")
        }
        GroupFault::OtherPartition { entry, partition } => {
            format!("消息 {entry} 不属于分区 {partition}，请不填分区，或填它自己的分区")
        }
        GroupFault::NoStream(number) => {
            format!("分区 {number} 的订单流不存在或为空，没有可投递的消息")
        }
        GroupFault::Trimmed { partition, gone, first } => {
            let gone = thousands(*gone);
            format!(
                "分区 {partition} 有 {gone} 条更早的消息已清理，无法再投递；最早可从 {first} 开始"
            )
        }
        GroupFault::Forward { partition, to, delivered } => format!(
            "{to} 在分区 {partition} 消费组已投递位置 {delivered} 之后，前移会跳过订单，只能回退"
        ),
        GroupFault::Nothing(number) => {
            format!("分区 {number} 没有消息会重新投递，该位置与消费组之间没有消息")
        }
        GroupFault::Meanwhile { partition, what } => {
            let what = match what {
                Meanwhile::Destroyed => "消费组已被删除",
                Meanwhile::Made => "消费组已被创建",
                Meanwhile::MovedBack => "消费组已被回退",
                Meanwhile::Trimmed => "第一条消息已被清理",
            };
            format!("分区 {partition}：查看之后{what}，该分区未作更改，请重新查看")
        }
        GroupFault::NoConsumer { name, partition, there } => {
            let (place, there) = (partition.map(|it| format!("分区 {it}")), names(there));
            let place = place.unwrap_or_else(|| "任何分区".to_owned());
            format!("{place}中没有消费者“{name}”，现有：{there}")
        }
        GroupFault::Gone { name, partition } => format!("分区 {partition} 中已没有消费者“{name}”"),
        GroupFault::Idle(name) => {
            format!("“{name}”不属于在线节点，转给它的消息无人处理，请另选一个")
        }
        GroupFault::NothingToGive { from: None, to } => {
            format!("没有可转交的消息：这些消息都不待确认，或已在“{to}”处")
        }
        GroupFault::NothingToGive { from: Some(from), to } => {
            format!("没有可转交的消息：“{from}”没有“{to}”之外的消息")
        }
        GroupFault::Alive(name) => {
            format!("“{name}”的节点在线，会重新创建该消费者，请停止节点，或等到它被视为失联")
        }
        GroupFault::Holds { name, partition, pending } => {
            let pending = thousands(*pending);
            format!(
                "“{name}”仍持有分区 {partition} 的 {pending} 条消息，移除会丢失它们，请先重放或转交"
            )
        }
    }
}

fn names(Names { first, more }: &Names) -> String {
    match (first.as_slice(), more) {
        ([], _) => "无".to_owned(),
        (some, 0) => some.join("、"),
        (some, more) => format!("{} 等，另有 {more} 个", some.join("、")),
    }
}

/// What an act had done when it broke off.
fn part_done(done: &PartDone) -> String {
    let numbers =
        |numbers: &[u16]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join("、");
    let sales = |sales: &[VoucherId]| {
        sales.iter().map(|sale| format!("#{sale}")).collect::<Vec<_>>().join(" ")
    };
    match done {
        PartDone::Applied { done, planned } => {
            let [done, planned] = [done, planned].map(|it| thousands(*it));
            format!("此前已处理 {planned} 条中的 {done} 条，可用同一计划继续")
        }
        PartDone::Replayed(done) => format!("此前已放回 {} 条死信，其余请再操作", thousands(*done)),
        PartDone::Discarded(done) => {
            format!("此前已移除 {} 条死信，其余请再操作", thousands(*done))
        }
        PartDone::Claimed(done) => format!("此前已转交 {} 条消息，其余请再操作", thousands(*done)),
        PartDone::Rewound(partitions) => {
            format!("此前分区 {} 的消费组已回退，其余请再操作", numbers(partitions))
        }
        PartDone::Removed(partitions) => {
            format!("此前已从分区 {} 移除，其余请再操作", numbers(partitions))
        }
        PartDone::Repaired { sales: done, planned } => {
            let (count, planned) = (signed(done.len() as i64), thousands(*planned));
            format!("此前已修复 {planned} 场中的 {count} 场：{}，其余请再操作", sales(done))
        }
    }
}
