//! Words of the orders in SQL, and of an order's way.

use seckill_engine::orders::{Decoded, Standing};
use seckill_model::{Order, OrderStatus, VoucherId};

use super::{
    actions::Told,
    acts::Question,
    faults::order_fault,
    figures::{span, thousands},
    lang::{Word, tell, word},
};
use crate::keymap::{Action, key_of};

pub(crate) const TAB: Word = word("Orders", "订单");
pub(crate) const HEADING: Word = word("ORDERS", "订单");
pub(crate) const NONE: Word = word(
    "No order is in SQL yet. One that is on its way is in the stream first.",
    "SQL 中还没有订单。途中的订单先在流里。",
);
pub(crate) const UNREAD: Word =
    word("SQL is away, so its orders can't be read.", "SQL 无响应，无法读取订单。");
pub(crate) const READING: Word = word("reading", "读取中");
pub(crate) const LATE: Word = word("SQL takes long", "SQL 较慢");
pub(crate) const UNANSWERED: Word = word(
    "SQL did not answer within two seconds. A sale, a user, or a time makes it less to look through.",
    "SQL 两秒内没有应答。指定秒杀、用户或时间可缩小查询范围。",
);
pub(crate) const NEWEST: Word = word("newest first", "最新在前");
pub(crate) const LOOKING: Word = word("looking for it", "查找中");
pub(crate) const UNTOLD: Word =
    word("unknown: a server did not answer; ask again later", "未知：服务器无响应；请稍后再试");
/// What can be asked for, and the key that asks.
pub(crate) fn query_hint() -> String {
    let ask = key_of(Action::Press);
    tell!(
        "id, user=1001, voucher=7, paid, from=14:30, to=-5m; others: !user=7, !voucher=7, !paid; {ask} asks",
        "id、user=1001、voucher=7、paid、from=14:30、to=-5m；取反：!user=7、!voucher=7、!paid；按 {ask} 查询"
    )
}

pub(crate) const NOT_YET: Word = word("not yet", "尚未");
pub(crate) const NEVER: Word = word("never", "没有");
pub(crate) const NO_ENTRY: Word =
    word("no entry near that second; it may be trimmed", "该秒附近没有消息；可能已裁剪");
pub(crate) const MORE_ENTRIES: Word = word(
    "not among those near that second that were looked at; there are too many",
    "该秒附近的消息太多，已查看的部分中没有",
);
pub(crate) const HELD: Word = word("its buyer holds it in Redis", "Redis 中买家持有该订单");
pub(crate) const NOT_HELD: Word =
    word("its buyer does not hold it in Redis any more", "Redis 中买家已不再持有该订单");
pub(crate) const ACKNOWLEDGED: Word = word(
    "and acknowledged; when is unknown, Redis keeps no time of it",
    "并已确认；时间未知，Redis 不保留",
);
pub(crate) const UNDELIVERED: Word = word("nobody was given it yet", "尚未投递");
pub(crate) const ASK_PAY: Word = word("Pay the order?", "支付该订单？");
pub(crate) const PAY: Word = word("Pay", "支付");

/// Heads of the table.
pub(crate) mod columns {
    use super::{Word, word};

    pub(crate) const ORDER: Word = word("ORDER", "订单");
    pub(crate) const ADMITTED: Word = word("ADMITTED", "抢购时间");
    pub(crate) const USER: Word = word("USER", "用户");
    pub(crate) const SALE: Word = word("SALE", "秒杀");
    pub(crate) const PLACE: Word = word("PLACE", "名额");
    pub(crate) const STATUS: Word = word("STATUS", "状态");
    pub(crate) const SINCE: Word = word("SINCE", "起始");
}

/// Labels of the detail.
pub(crate) mod labels {
    use super::{Word, word};

    pub(crate) const ORDER: Word = word("order", "订单");
    pub(crate) const ID: Word = word("id says", "编号含义");
    pub(crate) const BUYER: Word = word("buyer", "买家");
    pub(crate) const STANDING: Word = word("stands", "所在");
    pub(crate) const ADMITTED: Word = word("admitted", "准入");
    pub(crate) const STREAM: Word = word("in stream", "进入流");
    pub(crate) const DELIVERED: Word = word("delivered", "已投递");
    pub(crate) const WRITTEN: Word = word("in SQL", "写入 SQL");
    pub(crate) const PAID: Word = word("paid", "支付");
    pub(crate) const CLOSED: Word = word("closed", "关闭");
}

/// A word for the footer, a sentence for the help screen, and a name for the palette.
pub(super) fn action(action: Action) -> Told {
    let (short, long, name) = match action {
        Action::Orders => {
            (word("orders", "订单"), word("go to Orders", "转到订单"), word("orders", "订单"))
        }
        Action::Pay => {
            (word("pay", "支付"), word("pay an unpaid order", "支付未付订单"), word("pay", "支付"))
        }
        Action::NextPage => (
            word("next page", "下一页"),
            word("the next page: older orders", "下一页：更早的订单"),
            word("next page", "下一页"),
        ),
        _ => (
            word("page before", "上一页"),
            word("the page before: newer orders", "上一页：更新的订单"),
            word("page before", "上一页"),
        ),
    };
    (short, long, Some(name))
}

pub(crate) fn status(status: OrderStatus) -> &'static str {
    match status {
        OrderStatus::Unpaid => word("unpaid", "未支付"),
        OrderStatus::Paid => word("paid", "已支付"),
        OrderStatus::Used => word("used", "已使用"),
        OrderStatus::Cancelled => word("cancelled", "已取消"),
        OrderStatus::Closed => word("closed", "已关闭"),
    }
    .read()
}

pub(crate) fn no_match(query: &str) -> String {
    let (query, key) = (super::echo(query), key_of(Action::Back));
    tell!(
        "No order in SQL matches '{query}'. {key} shows all.",
        "SQL 中没有符合“{query}”的订单。按 {key} 显示全部。"
    )
}

/// What is asked for, as a person would type it.
pub(crate) fn query_of_sale(voucher: VoucherId) -> String {
    format!("voucher={voucher}")
}

/// The page stands still while new orders come.
pub(crate) fn held(at: &str) -> String {
    let key = key_of(Action::First);
    tell!("those up to {at}; {key} shows the newest", "截至 {at}；按 {key} 查看最新")
}

/// How many stand on a page, and whether those are all.
pub(crate) fn page(count: usize, newest: bool, more: bool) -> String {
    let count = thousands(count as u64);
    match (newest, more) {
        (_, true) => tell!("{count} and more", "{count} 笔，还有更多"),
        (true, false) => tell!("{count} in all", "共 {count} 笔"),
        (false, false) => tell!("the last {count}", "最后 {count} 笔"),
    }
}

pub(crate) fn in_stream(entry: &str) -> String {
    tell!("in the same step, as entry {entry}", "同一步骤，消息 {entry}")
}

/// When, as far as its entry tells, and whether that holds still.
pub(crate) fn admitted(at: Option<&str>, held: Word) -> String {
    match at {
        Some(at) => and(at, held.read()),
        None => and(word("time unknown", "时间未知").read(), held.read()),
    }
}

/// Two things that are told in one line.
pub(crate) fn and(first: &str, second: &str) -> String {
    tell!("{first}, {second}", "{first}，{second}")
}

/// When a step was, and how long after the one before it.
pub(crate) fn time_after(time: &str, millis: i64) -> String {
    and(time, &after(millis))
}

/// How long a step came after the one before it. Redis dates the entry and the node the row: where that makes a step
/// precede its cause, their clocks differ by at least as much.
fn after(millis: i64) -> String {
    let size = millis.unsigned_abs();
    let (seconds, tenths, long) = (size / 1_000, size % 1_000 / 100, span(size));
    let size = match size {
        0..=999 => tell!("{size} ms", "{size} 毫秒"),
        1_000..=59_999 => tell!("{seconds}.{tenths} s", "{seconds}.{tenths} 秒"),
        _ => long,
    };
    if millis < 0 {
        tell!("clocks differ by {size} or more", "时钟至少相差 {size}")
    } else {
        format!("+{size}")
    }
}

pub(crate) fn id_says(issued: &str, decoded: &Decoded, partition: Option<u16>) -> String {
    let (sequence, day) = (thousands(u64::from(decoded.sequence)), decoded.day);
    let mut text = tell!(
        "issued {issued}, number {sequence} of {day} (UTC)",
        "生成于 {issued}，{day}（UTC）第 {sequence} 号"
    );
    if let Some(number) = partition {
        text.push_str(&tell!(", partition {number}", "，分区 {number}"));
    }
    text
}

pub(crate) fn buyer(user: &str, place: Option<u8>, sale: &str) -> String {
    match place {
        Some(place) if place > 1 => {
            tell!(
                "user {user}, place {place}, sale {sale}",
                "用户 {user}，第 {place} 个名额，活动 {sale}"
            )
        }
        Some(_) => tell!("user {user}, sale {sale}", "用户 {user}，活动 {sale}"),
        // An ordinary voucher.
        None => tell!("user {user}, voucher {sale}", "用户 {user}，券 {sale}"),
    }
}

/// Where it stands, in a sentence; `None` where SQL tells the rest.
pub(crate) fn standing(standing: &Standing) -> Option<String> {
    Some(match standing {
        Standing::Persisted { .. } => return None,
        Standing::Undelivered { .. } => {
            tell!("in the stream; nobody was given it yet", "在流中，尚未投递")
        }
        Standing::Pending { .. } => {
            let key = key_of(Action::Pending);
            tell!(
                "pending: delivered and not acknowledged; {key} opens them",
                "待确认：已投递未确认；按 {key} 查看"
            )
        }
        Standing::Dead { reason, .. } => {
            let (key, reason) = (key_of(Action::Letters), order_fault(reason));
            tell!("a dead letter: {reason}; {key} opens them", "死信：{reason}；按 {key} 查看")
        }
        Standing::Lost { .. } => tell!(
            "LOST: its buyer holds it in Redis, and it is nowhere else; 'seckill audit --repair' mends that",
            "丢失：买家在 Redis 中持有它，但别处都没有；用 'seckill audit --repair' 修复"
        ),
        Standing::Unknown => tell!(
            "unknown: neither SQL, nor the stream, nor the dead letters, nor any buyer has it",
            "未知：SQL、流、死信和买家中都没有"
        ),
    })
}

/// When it was last delivered, to whom, and how often by now.
pub(crate) fn pending_with(last: &str, consumer: &str, deliveries: u64) -> String {
    let times = thousands(deliveries);
    tell!("{last}, to {consumer}, try {times}", "{last}，给 {consumer}，第 {times} 次")
}

/// The question before a payment.
pub(crate) fn pay(order: &Order, buyer: String, written: &str) -> Question {
    let id = order.id;
    Question {
        title: ASK_PAY.read().to_owned(),
        lines: vec![
            tell!("Order {id}", "订单 {id}"),
            buyer,
            tell!(
                "It is unpaid since {written}. Once it is paid it is not closed as overdue any more; that can't be undone here.",
                "自 {written} 起未支付。支付后不会再因超时关闭；此处无法撤销。"
            ),
        ],
        yes: PAY.read().to_owned(),
    }
}

pub(crate) fn not_unpaid(order: &Order) -> String {
    let (id, status) = (order.id, status(order.status));
    tell!(
        "order {id} is {status}; only an unpaid one can be paid",
        "订单 {id} {status}；只能支付未付订单"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lang::{Lang, speak_here};

    #[test]
    fn a_step_is_told_as_exactly_as_one_reads_it() {
        let told = [0, 12, 999, 1_250, 59_999, 90_000].map(after);
        let wanted = ["+0 ms", "+12 ms", "+999 ms", "+1.2 s", "+59.9 s", "+90 s"];
        assert_eq!(told, wanted);
    }

    #[test]
    fn no_step_is_told_to_precede_its_cause() {
        for (lang, told) in [
            (Lang::En, ["clocks differ by 1 ms or more", "clocks differ by 2.1 s or more"]),
            (Lang::Zh, ["时钟至少相差 1 毫秒", "时钟至少相差 2.1 秒"]),
        ] {
            speak_here(lang);
            assert_eq!([-1, -2_104].map(after), told);
        }
        speak_here(Lang::En);
    }
}
