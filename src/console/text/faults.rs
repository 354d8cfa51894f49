//! Words of what is wrong with what was typed or stands in the stream, for the faults that the model knows.

use seckill_engine::group::rewind::ToFault;
use seckill_model::{
    EntryFault, OrderFault, Said, SaleFault,
    clock::TimeFault,
    dead_letter::{MAX_REASON, shown},
    locale::{Lang, language},
    message::text,
    order::FilterFault,
    order_query::QueryFault,
    sale::{MAX_LIMIT, MAX_STOCK, MAX_TITLE},
    voucher::MAX_RULES,
};

use super::figures::thousands;

/// What is wrong with a sale that was asked for.
pub(crate) fn sale_fault(fault: &SaleFault) -> String {
    if language() == Lang::En {
        return fault.to_string();
    }
    let most = thousands(MAX_STOCK);
    match fault {
        SaleFault::NoTitle => format!("需要标题，1 到 {MAX_TITLE} 个字符"),
        SaleFault::LongTitle(long) => format!("标题有 {long} 个字符，最多 {MAX_TITLE} 个"),
        SaleFault::HeavyTitle(bytes) => {
            format!("标题有 {bytes} 字节，多为附加符号，请缩短")
        }
        SaleFault::ControlInTitle => "标题含控制字符（换行、制表符、转义符），请去掉".to_owned(),
        SaleFault::Limit(limit) => format!("每位用户限购 {limit} 笔不可行，请填 1 到 {MAX_LIMIT}"),
        SaleFault::Place(place) => format!("“{place}”不是买家名额，形如 7 或 7/2"),
        SaleFault::Stock(stock) => format!("库存 {stock} 不可售，请填 1 到 {most}"),
        SaleFault::Restock(by) => {
            format!("不能补货 {by} 件，请填 1 到 {most}，或填 -1 到 -{most} 撤下")
        }
        SaleFault::Window { begin, end } => {
            format!("结束时间（{end}）早于开始时间（{begin}），请对调")
        }
        SaleFault::Over(end) => format!("结束时间 {end} 已过，请填更晚的时间"),
        SaleFault::VoucherId(id) => format!("“{id}”不是券编号，'seckill sale list' 可查看"),
        SaleFault::SubTitle => format!("副标题为一行，1 到 {MAX_TITLE} 个字符，不含控制字符"),
        SaleFault::Rules => format!("使用规则为 1 到 {MAX_RULES} 个字符，控制字符只可换行"),
        SaleFault::VoucherStatus(status) => {
            format!("“{status}”不是券的状态，状态为上架、下架或过期")
        }
        SaleFault::State(state) => format!("“{state}”不是秒杀的状态"),
    }
}

/// What is wrong with a time that was asked for.
pub(crate) fn time_fault(fault: &TimeFault) -> String {
    let TimeFault(text) = fault;
    text!("faults-value", fault, text)
}

/// Why no order comes of an entry. What an older version wrote is told as it stands.
pub(crate) fn order_fault(said: &Said) -> String {
    match said.data() {
        Some(fault) if language() == Lang::Zh => shown(&no_order(&fault), MAX_REASON),
        _ => said.to_string(),
    }
}

fn no_order(fault: &OrderFault) -> String {
    match fault {
        OrderFault::Fields(EntryFault::Id(text)) => {
            format!("“{text}”不是消息编号，形如 1795000000000-0")
        }
        OrderFault::Fields(EntryFault::Missing(field)) => format!("缺少字段 {field}"),
        OrderFault::Fields(EntryFault::Garbage(field, value)) => {
            format!("字段 {field} 的值“{value}”不是可用的数字")
        }
        OrderFault::Gone => "消息内容已不在流中".to_owned(),
        OrderFault::Holds { user, holds, voucher } => {
            format!("买家 {user} 已持有 #{voucher} 的订单 {holds}")
        }
        OrderFault::IdTaken(order) => format!("订单号 {order} 属于另一笔订单"),
        OrderFault::NoSale(voucher) => format!("没有 #{voucher} 的秒杀"),
        OrderFault::OutOfStock(voucher) => format!("#{voucher} 在 SQL 中已没有库存给这笔订单"),
        OrderFault::Refused(words) => format!("数据库拒绝：{words}"),
        OrderFault::TooOften(times) => format!("已投递 {times} 次，仍没有订单"),
        OrderFault::NotPromised => "Redis 中没有以此订单号准入的买家".to_owned(),
        OrderFault::Unkept => "Redis 重启前已承诺，但已没有库存".to_owned(),
        OrderFault::Promised(order) => {
            format!("Redis 重启前已承诺，但买家现持有订单 {order}")
        }
    }
}

/// What is wrong with a place in the stream that was asked for.
pub(crate) fn to_fault(fault: &ToFault) -> String {
    let ToFault(text) = fault;
    text!("faults-value-2", fault, text)
}

/// What is wrong with a question about orders.
pub(crate) fn query_fault(fault: &QueryFault) -> String {
    if language() == Lang::En {
        return fault.to_string();
    }
    match fault {
        QueryFault::Term(text) => {
            format!(
                "“{text}”不是查询条件；可填订单号，或 user=1001、voucher=7、paid、!status=paid、from=14:30、to=-5m"
            )
        }
        QueryFault::NoInverse(field) => {
            format!("{field} 不能取反；“!”可用于 user=、voucher=、status= 以及 unpaid 等状态")
        }
        QueryFault::Field(field) => {
            format!("不能按“{field}”查订单；可用 id、user、voucher、status、from、to")
        }
        QueryFault::Twice(field) => format!("{field} 出现两次；一个订单只有一个"),
        QueryFault::Value { field, value, .. } => {
            format!("{field}='{value}' 不可用；{field} 要填数字")
        }
        QueryFault::Filter(FilterFault::Status(status)) => {
            format!("“{status}”不是订单状态；可用 unpaid、paid、used、cancelled、closed")
        }
        QueryFault::Filter(FilterFault::Time(at)) => {
            format!("没有 {at} 的订单；订单号的时间在 2022 到 2090 年之间")
        }
        QueryFault::Filter(FilterFault::Window { from, to }) => {
            format!("不存在 {from} 之后且 {to} 之前的订单；请对调两个时间")
        }
        QueryFault::Time(fault) => time_fault(fault),
    }
}
