//! Words of what the log and the history of jobs hold. A line of an older version is told as it stands.

use seckill_engine::{
    command::Reply,
    jobs::{Cancelled, JobSaid},
    mend::{Mended, PartitionFault, Repair},
    told::{Subject, Told},
};
use seckill_model::{
    ForeignKey, JobOutcome, Payment, Said, VoucherDetails, VoucherStatus,
    locale::{Lang, language},
    message::Label,
};

use super::{
    alarms::keys_named,
    figures::{grouped, thousands},
    refusals::{refusal, unread},
    replies::reply,
};

/// How an act went, or what befell.
pub fn result(said: &Said) -> String {
    match said.data::<Told>() {
        Some(told) if language() == Lang::Zh => chinese(&told),
        _ => grouped(&said.to_string()),
    }
}

fn chinese(told: &Told) -> String {
    match told {
        Told::Begun => "已开始".to_owned(),
        Told::Done(done) => match done {
            // The line names the order itself.
            Reply::Paid { payment, .. } => match payment {
                Payment::Paid => "已支付",
                Payment::PaidBefore => "此前已支付",
                Payment::TooLate => "过迟，订单已关闭",
                Payment::NotFound => "SQL 中没有此订单",
            }
            .to_owned(),
            done => reply(done).0,
        },
        Told::Ran { outcome, took_ms, said } => {
            // The figures of the English line, which is the one that is kept.
            let (outcome, took) = (super::outcome(*outcome), thousands(*took_ms));
            let said = said.as_ref().map(|said| format!("：{}", job_chinese(said)));
            format!("{outcome}，耗时 {took} 毫秒{}", said.unwrap_or_default())
        }
        Told::Failed(why) => format!("失败：{}", refusal(why)),
        Told::Finished => "完成".to_owned(),
        Told::Words(words) => words.clone(),
        Told::Unread(why) => unread(&Said::of(why)),
        Told::Lasted(millis) => format!("持续 {:.1} 秒", *millis as f64 / 1e3),
        Told::Off(found) => format!("不符：{found}"),
        Told::DeadHolds(pending) => format!("失联，持有 {} 条消息", thousands(*pending)),
        Told::StrangerHolds(pending) => {
            format!("不是已知节点，持有 {} 条消息", thousands(*pending))
        }
        Told::LagStands(lag) => format!("积压 {} 条，几乎没有减少", thousands(*lag)),
        Told::RunFailed => "上次运行失败".to_owned(),
        Told::SilentHolds(pending) => format!("无响应，持有 {} 条消息", thousands(*pending)),
        Told::Letters(count) => format!("{} 条待人工处理", thousands(*count)),
        Told::GroupGone => "不存在".to_owned(),
        Told::Holds(holds) => {
            format!("存有 {}，不是本程序写入的", ForeignKey::content(holds))
        }
        Told::NoHeartbeat(millis) => {
            format!("已 {:.1} 秒无心跳，其消息由在线节点接管", *millis as f64 / 1e3)
        }
        Told::LeftOut(lines) => {
            format!("一分钟内 {} 条，详见日志文件", thousands(u64::from(*lines)))
        }
        Told::InOrder => "正常停止".to_owned(),
        Told::Mended(done) => mended(done),
        Told::Healed(healed) => {
            let mut said = if healed.keys.is_empty() {
                String::new()
            } else {
                format!("丢失、被替换或被回退：{}；", keys_named(&healed.keys))
            };
            let parts = [
                (healed.buyers, "补回 ", " 位买家"),
                (healed.promised, "", " 个订单重新入队"),
                (healed.refused, "", " 份承诺无法兑现"),
                (healed.removed, "移除 ", " 位订单已关闭的买家"),
                (healed.unknown, "", " 位买家可能身份未知（仅有库存记录）"),
                (healed.archived, "移除 ", " 场已归档的秒杀"),
            ];
            let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
            let parts: Vec<_> = parts
                .map(|(count, before, after)| format!("{before}{}{after}", thousands(count)))
                .collect();
            said.push_str(if parts.is_empty() { "没有需要补回的" } else { "" });
            said.push_str(&parts.join("，"));
            if healed.other_sale {
                said.push_str("；Redis 与 SQL 中同号的是两场不同的秒杀，该场保持关闭");
            }
            if healed.oversold {
                said.push_str("；买家多于库存，该场保持关闭");
            }
            said
        }
    }
}

/// What is wrong with a partition.
pub(crate) fn partition_fault(said: &Said) -> String {
    match (language(), said.data::<PartitionFault>()) {
        (Lang::Zh, Some(fault)) => broken(&fault),
        _ => said.to_string(),
    }
}

fn broken(fault: &PartitionFault) -> String {
    match fault {
        PartitionFault::FutureId(last) => {
            format!("订单消息流的最后 ID {} 在未来", last.in_stream())
        }
        PartitionFault::GroupBeyond { delivered, last } => format!(
            "消费组位于 {}，超出消息流的最后 ID {}，读不到消息",
            delivered.in_stream(),
            last.in_stream()
        ),
        PartitionFault::ForeignKey(ForeignKey { key, holds }) => {
            format!("Redis 的键“{key}”存有 {}，不是本程序写入的", ForeignKey::content(holds))
        }
    }
}

fn mended(Mended { fault, repair }: &Mended) -> String {
    let fault = broken(fault);
    let repair = match repair {
        Repair::Renewed { kept, dead, aside } => format!(
            "已换用新的消息流，其中 {} 条待写入，{} 条成为死信；旧消息流“{aside}”保留一天",
            thousands(*kept),
            thousands(*dead)
        ),
        Repair::MovedBack(from) => format!("已回退到 {}", from.in_stream()),
        Repair::Renamed(aside) => format!("已改名为“{aside}”并重新写入"),
    };
    format!("{fault}；{repair}")
}

/// What a run of a job says of itself.
pub(crate) fn job_said(outcome: JobOutcome, said: Option<&Said>) -> String {
    let Some(said) = said else { return String::new() };
    match (language(), said.data::<JobSaid>(), outcome) {
        (Lang::Zh, Some(said), _) => job_chinese(&said),
        // SQL writes it without knowing more.
        (Lang::Zh, None, JobOutcome::Lost) => "节点失联或离开过久".to_owned(),
        _ => grouped(&said.to_string()),
    }
}

fn job_chinese(said: &JobSaid) -> String {
    match said {
        JobSaid::Closed { orders, given_back } => {
            format!("关闭 {} 笔，退还 {} 件", thousands(*orders), thousands(*given_back))
        }
        JobSaid::Trimmed { entries, runs, letters, consumers, held } => {
            let mut text =
                format!("清理消息 {} 条，任务记录 {} 条", thousands(*entries), thousands(*runs));
            if *letters > 0 {
                text += &format!("，死信 {} 条", thousands(*letters));
            }
            if !consumers.is_empty() {
                text += &format!("，失联消费者 {}", consumers.join(" "));
            }
            if let Some(held) = held {
                text += &format!("；{held} 起尚未确认");
            }
            text
        }
        JobSaid::Archived(sales) => {
            let named: Vec<String> = sales.iter().map(|sale| format!("#{sale}")).collect();
            format!("归档 {}", named.join(" "))
        }
        JobSaid::Balanced => "对账一致".to_owned(),
        JobSaid::Failed(why) => refusal(why),
        JobSaid::Panicked(words) => format!("程序异常：{words}"),
        JobSaid::Cancelled(why) => cancelled(why).to_owned(),
        JobSaid::Endless(why) => format!("{}，仍未停下", cancelled(why)),
    }
}

fn cancelled(why: &Cancelled) -> &'static str {
    match why {
        Cancelled::LockLost => "锁已丢失，已取消",
        Cancelled::TooLong(_) => "超过最长时限，已取消",
        Cancelled::NodeStops => "节点停止，已取消",
        Cancelled::Task => "任务被取消",
    }
}

/// What events are about, where it is no name.
const SUBJECTS: &[(&str, Label)] = &[
    ("lag", Label("common-lag")),
    ("books", Label("common-books")),
    ("database", Label("told-database")),
    ("dead letters", Label("common-dead-letters")),
    ("consumer group", Label("told-consumer-group")),
    ("activity", Label("common-activity")),
];

/// On what an act was, or what an event is about.
pub(crate) fn subject(said: &Said) -> String {
    let known =
        || SUBJECTS.iter().find(|(key, _)| *said == *key).map(|(_, word)| String::from(*word));
    match said.data::<Subject>() {
        Some(subject) if language() == Lang::Zh => subject_chinese(&subject),
        _ => known().unwrap_or_else(|| grouped(&said.to_string())),
    }
}

fn subject_chinese(subject: &Subject) -> String {
    match subject {
        Subject::NewSale { title, stock, limit, begin, end } => {
            let mut told = format!("“{title}”，库存 {}", thousands(*stock));
            told.extend(limit.map(|limit| format!("，每人限购 {limit}")));
            told.extend(begin.map(|begin| format!("，开始于 {begin}")));
            told.extend(end.map(|end| format!("，结束于 {end}")));
            told
        }
        Subject::NewVoucher(voucher) => {
            let VoucherDetails { title, shop_id, sub_title, rules, .. } = &**voucher;
            let [pay, actual] = [voucher.pay_value, voucher.actual_value].map(thousands);
            let status = match voucher.status {
                VoucherStatus::On => "上架",
                VoucherStatus::Off => "下架",
                VoucherStatus::Expired => "过期",
            };
            let mut told = format!("“{title}”，{pay} 分抵 {actual} 分，{status}");
            told.extend(shop_id.map(|shop| format!("，店铺 {shop}")));
            told.extend(sub_title.as_ref().map(|text| format!("，副标题“{text}”")));
            told.extend(rules.as_ref().map(|text| format!("，使用规则“{text}”")));
            told
        }
        Subject::Pieces(sale, by) => format!("#{sale}，{} 件", thousands(by.unsigned_abs())),
        Subject::Rush { voucher, users, seed } => {
            format!("#{voucher}，买家 {}，种子 {seed}", thousands(*users))
        }
        Subject::Books(sales) => {
            let told = sales.iter().map(|(sale, findings)| {
                let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
                format!("#{sale}：{}", findings.join("，"))
            });
            told.collect::<Vec<_>>().join("；")
        }
        Subject::Plan { entries, digest, filter } => {
            let filter =
                if filter.is_empty() { String::new() } else { format!("，“{filter}”") };
            format!("计划 {digest} 的 {} 条消息{filter}", thousands(*entries))
        }
        Subject::Rewind(parts) => {
            let told = parts.iter().map(|it| {
                let was = it.was.map_or("无消费组".to_owned(), |at| format!("已投递至 {at}"));
                let (number, from, again) = (it.partition, it.from, thousands(it.again));
                format!("分区 {number}（{was}）回退到 {from}，{again} 条重新投递")
            });
            told.collect::<Vec<_>>().join("；")
        }
        Subject::Claim(parts, force) => {
            let told = parts.iter().map(|it| {
                let (count, number) = (thousands(it.count), it.partition);
                format!("分区 {number} 的 {count} 条，从“{}”到“{}”", it.from, it.to)
            });
            let force = if *force { "；强制" } else { "" };
            told.collect::<Vec<_>>().join("；") + force
        }
        Subject::Consumer(name, None) => format!("“{name}”"),
        Subject::Consumer(name, Some(number)) => format!("分区 {number} 的“{name}”"),
        Subject::Lock(name, owner) => format!("“{name}”，持有者 {owner}"),
        Subject::Letters { named, filter, force, compensate } => {
            let mut text = match named {
                Some(count) => format!("{} 条死信", thousands(*count)),
                None if filter.is_empty() => "全部死信".to_owned(),
                None => format!("符合“{filter}”的死信"),
            };
            text += if *force { "，强制" } else { "" };
            text += if *compensate { "，并退还" } else { "" };
            text
        }
        Subject::Partition(number) => format!("分区 {number}"),
    }
}
