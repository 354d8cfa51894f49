//! Words of the Ledger view: what an audit found of each sale, and what its repair does.

use seckill_engine::{repair::SaleRepair, telemetry::ledger_page::AuditLimit};
use seckill_model::{
    VoucherId,
    ledger::{Cure, Finding, SaleAudit},
};

use super::{
    actions::Told,
    acts::Question,
    books::cure,
    figures::{counted, signed, thousands},
    lang::{Word, tell, word},
    orders::query_of_sale,
};
use crate::keymap::{Action, key_of};

pub(crate) const TAB: Word = word("Ledger", "对账");
pub(crate) const NO_SALES: Word =
    word("There is no sale, so there is nothing to audit.", "还没有秒杀，无需对账。");
pub(crate) const AUDITING: Word = word("Auditing the sales.", "正在对账。");
pub(crate) const AWAY: Word = word(
    "The sales are audited when Redis and the database answer again.",
    "Redis 和数据库恢复应答后再对账。",
);
pub(crate) const NOTHING_TO_REPAIR: Word =
    word("no differences, so there is nothing to repair", "没有差异，无需修复");
pub(crate) const NOT_MARKED: Word =
    word("this sale has nothing that a repair puts right", "这场秒杀没有可自动修复的差异");
pub(crate) const BY_HAND: Word = word(
    "no repair exists for these differences; the detail says what to do",
    "这些差异不能自动修复，详情中有处理办法",
);
pub(crate) const UNCONFIRMED: Word =
    word("changed in SQL; Redis has not confirmed the change", "SQL 中已更改，Redis 尚未确认");
pub(crate) const NONE: Word =
    word("none: each order was found by its ID", "无，逐笔订单号核对一致");

/// Labels of the detail.
pub(crate) mod labels {
    use crate::text::lang::{Word, word};

    pub(crate) const REDIS: Word = word("in Redis", "Redis 中");
    pub(crate) const SQL: Word = word("in SQL", "SQL 中");
    pub(crate) const DIFFERENCES: Word = word("differences", "差异");
    pub(crate) const REPAIR: Word = word("repair", "修复");
    pub(crate) const BY_HAND: Word = word("by hand", "人工处理");
    pub(crate) const CHANGE: Word = word("change", "变更");
}

/// A word for the footer, a sentence for the help screen, and a name for the palette.
pub(super) fn action(action: Action) -> Told {
    match action {
        Action::Repair => (
            word("repair", "修复"),
            word("repair the marked sales, or all", "修复已标记的秒杀，或全部"),
            Some(word("repair ledger", "修复对账差异")),
        ),
        _ => (
            word("ledger", "对账"),
            word("go to the Ledger", "转到对账"),
            Some(word("ledger (audit)", "对账")),
        ),
    }
}

/// The state of a sale in one word or two.
pub(crate) fn state(line: &SaleAudit) -> String {
    let (found, flying) = (line.findings.len() as u64, line.in_flight());
    let (count, orders) = (thousands(found), thousands(flying));
    if found > 0 {
        let differences = counted(found, "difference", "differences");
        tell!("{differences}", "{count} 处差异")
    } else if flying > 0 {
        tell!("{orders} in flight", "在途 {orders}")
    } else {
        word("balanced", "平衡").to_string()
    }
}

/// How many sales were audited, and how long ago.
pub(crate) fn audited(sales: usize, age: &str) -> String {
    let (count, sales) = (thousands(sales as u64), counted(sales as u64, "sale", "sales"));
    tell!("{sales} audited {age} ago", "{age}前核对 {count} 场")
}

/// What the audit found of all sales together.
pub(crate) fn verdict(lines: &[SaleAudit]) -> String {
    let off = lines.iter().filter(|line| !line.findings.is_empty()).count() as u64;
    let found = lines.iter().map(|line| line.findings.len() as u64).sum();
    let repairable = lines.iter().filter(|line| !line.cures().is_empty()).count() as u64;
    let flying = lines.iter().map(SaleAudit::in_flight).sum();
    if off == 0 {
        let (orders, count) = (counted(flying, "order", "orders"), thousands(flying));
        return match flying {
            0 => {
                tell!("Audit passed: all orders are accounted for.", "对账通过，所有订单均已核对。")
            }
            _ => tell!(
                "No differences; {orders} in flight to SQL.",
                "没有差异，{count} 笔订单正在落库。"
            ),
        };
    }
    let differences = counted(found, "difference", "differences");
    let (found, sales) = (thousands(found), counted(off, "sale", "sales"));
    let (off, key) = (thousands(off), key_of(Action::Repair));
    let (some, open) = (thousands(repairable), key_of(Action::Open));
    let mended = counted(repairable, "sale", "sales");
    match repairable {
        0 => tell!(
            "{differences} in {sales}, none with an automatic repair.  {open} shows what to do.",
            "{off} 场有 {found} 处差异，均不能自动修复。按 {open} 查看处理办法。"
        ),
        _ => tell!(
            "{differences} in {sales}.  {open} explains them, {key} repairs {mended}.",
            "{off} 场有 {found} 处差异。按 {open} 查看原因，按 {key} 修复其中 {some} 场。"
        ),
    }
}

/// A difference of all sales together.
pub(crate) fn of_all(finding: &str) -> String {
    tell!("All sales: {finding}", "全部秒杀：{finding}")
}

/// A fault of a partition.
pub(crate) fn partition(number: u16, fault: &str) -> String {
    tell!("Partition {number}: {fault}", "分区 {number}：{fault}")
}

/// Why the screen makes no newer audit.
pub(crate) fn limit(limit: AuditLimit) -> String {
    match limit {
        AuditLimit::Orders(most) => {
            let most = thousands(most);
            tell!(
                "More than {most} orders are too many for the screen: run 'seckill audit' in a shell.",
                "订单超过 {most} 笔，画面不做对账：请在终端运行 'seckill audit'。"
            )
        }
        AuditLimit::Seconds(most) => {
            let most = thousands(most);
            tell!(
                "The audit took more than {most} s and was stopped: run 'seckill audit' in a shell.",
                "对账超过 {most} 秒，已停止：请在终端运行 'seckill audit'。"
            )
        }
    }
}

/// Stock and orders beside the pieces that were put on sale.
pub(crate) fn sum(stock: i64, orders: u64, initial: u64) -> String {
    let sum = signed(stock.saturating_add_unsigned(orders));
    let (stock, initial) = (signed(stock), thousands(initial));
    let held = counted(orders, "order", "orders");
    let orders = thousands(orders);
    tell!(
        "{stock} left + {held} = {sum}, of {initial}",
        "剩余 {stock} + 订单 {orders} = {sum}，总量 {initial}"
    )
}

/// What is on its way, given up or closed.
pub(crate) fn elsewhere(line: &SaleAudit) -> String {
    let [undelivered, pending, dead, closed] =
        [line.undelivered, line.pending, line.dead, line.closed].map(thousands);
    tell!(
        "{undelivered} not delivered, {pending} pending, {dead} dead, {closed} closed",
        "未投递 {undelivered}，待确认 {pending}，死信 {dead}，已关闭 {closed}"
    )
}

/// Lines of the detail that the window has no room for.
pub(crate) fn more_lines(count: usize) -> String {
    let (count, lines) =
        (thousands(count as u64), counted(count as u64, "more line", "more lines"));
    tell!("{lines} in a larger window", "窗口放大后还有 {count} 行")
}

/// What an operator does about a difference that no repair puts right.
pub(crate) fn advice(finding: &Finding, sale: VoucherId) -> String {
    if matches!(finding, Finding::Stranded(_)) {
        let letters = key_of(Action::Letters);
        let (replay, give) = (key_of(Action::ReplayLetters), key_of(Action::Compensate));
        return tell!(
            "{letters} opens the dead letters: {replay} replays them, {give} gives their stock back",
            "按 {letters} 打开死信，再按 {replay} 重放，或按 {give} 退还库存"
        );
    }
    let (orders, query) = (key_of(Action::Orders), query_of_sale(sale));
    tell!(
        "compare its orders ({orders}, /{query}) with its row in tb_seckill_voucher, then correct SQL",
        "核对其订单（{orders}，/{query}）与 tb_seckill_voucher 中的行，再更正 SQL"
    )
}

/// An audit is needed before a repair can be asked about.
pub(crate) fn awaited() -> String {
    let key = key_of(Action::Repair);
    tell!(
        "the sales are being audited; press {key} again when that is done",
        "正在对账，完成后再按 {key}"
    )
}

/// Sales that a question names one by one.
const NAMED: usize = 8;

/// The question before a repair, with its exact counts.
///
/// `marked` says whether the sales were marked, `partitions` how many faults of partitions are repaired as well.
pub(crate) fn question(plan: &[SaleRepair], marked: bool, partitions: usize) -> Question {
    let mut lines = Vec::new();
    let found: usize = plan.iter().map(|sale| sale.findings.len()).sum();
    let left = plan.iter().map(|sale| sale.left.len() as u64).sum();
    if !plan.is_empty() {
        let named = plan.iter().take(NAMED).map(|sale| format!("#{}", sale.voucher_id));
        let mut named = named.collect::<Vec<_>>().join(" ");
        if let Some(more @ 1..) = plan.len().checked_sub(NAMED) {
            named.push_str(&tell!(" and {more} more", " 等另 {more} 场"));
        }
        let (count, differences) = (plan.len(), counted(found as u64, "difference", "differences"));
        let sales = counted(plan.len() as u64, "sale", "sales");
        lines.push(if marked {
            let marked = if count == 1 { "is marked" } else { "are marked" };
            tell!(
                "{sales} that {marked}, {differences}: {named}",
                "已标记的 {count} 场，{found} 处差异：{named}"
            )
        } else {
            tell!("{sales}, {differences}: {named}", "{count} 场，{found} 处差异：{named}")
        });
    }
    for each in Cure::ALL {
        let sales = plan.iter().filter(|sale| sale.cures.contains(&each)).count();
        if sales > 0 {
            let (count, sales) = (thousands(sales as u64), counted(sales as u64, "sale", "sales"));
            let cure = cure(each);
            lines.push(tell!("  {sales}: {cure}", "  {count} 场：{cure}"));
        }
    }
    if partitions > 0 {
        let faults = counted(partitions as u64, "fault", "faults");
        lines.push(tell!(
            "{faults} of partitions repaired as well.",
            "同时修复 {partitions} 处分区故障。"
        ));
    }
    if left > 0 {
        let (count, differences) = (thousands(left), counted(left, "difference", "differences"));
        lines.push(tell!(
            "Not repaired: {differences}; the detail says what to do.",
            "不修复：{count} 处差异，详情中有处理办法。"
        ));
    }
    if plan.iter().any(|sale| sale.cures.contains(&Cure::Reconcile)) {
        lines.push(tell!(
            "A sale admits no buyers while it is reconciled; other sales go on.",
            "对账期间该场不接受买家，其他秒杀不受影响。"
        ));
    }
    Question {
        title: tell!("Repair the ledger?", "修复对账差异？"),
        lines,
        yes: word("Repair", "修复").to_string(),
    }
}
