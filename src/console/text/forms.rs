//! Words of the forms: labels, hints, and what is wrong with what was typed.

use super::{
    figures::thousands,
    lang::{Word, tell, word},
};

pub(crate) const NEW_SALE: Word = word("New sale", "新建秒杀");
pub(crate) const TITLE: Word = word("Title", "标题");
pub(crate) const STOCK: Word = word("Stock", "库存");
pub(crate) const LIMIT: Word = word("Limit", "限购");
pub(crate) const BEGIN: Word = word("Begin", "开始");
pub(crate) const END: Word = word("End", "结束");
pub(crate) const BEGIN_HINT: Word =
    word("empty: now; 14:30, +10m, 2026-11-20 14:30", "留空即开始；14:30、+10m、2026-11-20 14:30");
pub(crate) const END_HINT: Word =
    word("empty: none; 15:00, +1h, 2026-11-20 15:00", "留空不结束；15:00、+1h、2026-11-20 15:00");
pub(crate) const TITLE_HINT: Word = word("what buyers read", "买家看到的名称");
pub(crate) const STOCK_HINT: Word = word("pieces on sale", "投放件数");
pub(crate) const LIMIT_HINT: Word =
    word("orders that one user may hold, 1 to 20", "每位用户最多可持有的订单数，1 到 20");
pub(crate) const CREATE: Word = word("Create", "新建");
pub(crate) const BUYERS: Word = word("Buyers", "买家");
pub(crate) const BUYERS_HINT: Word =
    word("different people, 1 to 10,000,000", "不同的人数，1 到 10,000,000");
pub(crate) const REPEAT: Word = word("Twice", "重复");
pub(crate) const REPEAT_HINT: Word =
    word("percent of them that ask twice, 0 to 100", "其中请求两次的百分比，0 到 100");
pub(crate) const NO_PLAN: Word =
    word("The plan stands here once both numbers are right.", "两个数字都正确后，这里显示计划。");
pub(crate) const NEXT: Word = word("Go on", "继续");

pub(crate) fn rush(sale: &str) -> String {
    tell!("Rush on {sale}", "模拟抢购 {sale}")
}

pub(crate) fn no_number(text: &str) -> String {
    let shown: String = text.chars().take(20).collect();
    tell!("'{shown}' is no whole number", "“{shown}”不是整数")
}

pub(crate) fn out_of_range(least: u64, most: u64) -> String {
    let (least, most) = (thousands(least), thousands(most));
    tell!("give {least} to {most}", "请填 {least} 到 {most}")
}
