//! Words of the books: what is wrong with them.

use seckill_model::ledger::{Cure, Finding, SaleFinding, SaleKey};

use seckill_model::locale::{Lang, language};

use super::figures::{signed, thousands};

/// What is wrong, with the sale that it is wrong with.
pub(crate) fn sale_finding(found: &SaleFinding) -> String {
    let what = finding(&found.what);
    found.sale.map_or(what.clone(), |sale| match language() {
        Lang::En => format!("#{sale}: {what}"),
        Lang::Zh => format!("#{sale}：{what}"),
    })
}

/// What is wrong.
pub fn finding(finding: &Finding) -> String {
    if language() == Lang::En {
        return finding.to_string();
    }
    match finding {
        Finding::NotLoaded => "Redis 中没有这场秒杀，运行中的节点会在一秒内载入".to_owned(),
        Finding::Damaged(SaleKey::Restoring) => "该场正在对账，其间不接受买家".to_owned(),
        Finding::Damaged(key) => {
            format!("该场在 Redis 中的键“{key}”丢失、被替换或被回退，对账完成前不接受买家")
        }
        Finding::NotInSql => "Redis 中有这场秒杀，SQL 中没有".to_owned(),
        Finding::Ahead(changes) => {
            format!("SQL 缺少这场秒杀最近的 {} 次变更", thousands(*changes))
        }
        Finding::OtherSale => "Redis 中同号的是另一场秒杀，创建时间不同".to_owned(),
        Finding::StillHeld => "该场已归档，但 Redis 中仍有它".to_owned(),
        Finding::Stranded(orders) => {
            format!(
                "{} 笔已准入订单成为死信且不在 SQL 中，买家在等待；见死信页",
                thousands(*orders)
            )
        }
        Finding::RedisStock { initial, stock, admitted } => {
            let (initial, stock) = (thousands(*initial), signed(*stock));
            let admitted = thousands(*admitted);
            format!("Redis：初始库存 {initial} 不等于剩余 {stock} + 买家 {admitted}")
        }
        Finding::Negative(side, stock) => {
            format!("{side} 库存低于 0（{}），已超卖", signed(*stock))
        }
        Finding::Behind(changes) => {
            format!("Redis 缺少这场秒杀最近的 {} 次变更", thousands(*changes))
        }
        Finding::Initial { redis, sql } => {
            let [redis, sql] = [redis, sql].map(|it| thousands(*it));
            format!("初始库存不一致：Redis 为 {redis}，SQL 为 {sql}")
        }
        Finding::Lost(orders) => {
            format!("{} 笔已准入订单不在 SQL、消息流和死信中", thousands(*orders))
        }
        Finding::Unknown(orders) => {
            format!("SQL 中 {} 笔订单在 Redis 没有买家，库存可能被再次售出", thousands(*orders))
        }
        Finding::SqlStock { stock, initial, live } => {
            let (stock, initial, live) = (signed(*stock), thousands(*initial), thousands(*live));
            format!("SQL：库存 {stock} 不等于初始 {initial} - 有效订单 {live}")
        }
        Finding::Doubled(buyers) => {
            format!("{} 位买家有多笔有效订单", thousands(*buyers))
        }
        Finding::Kept(orders) => {
            format!("{} 笔已关闭订单仍占用 Redis 库存，不会自动退还", thousands(*orders))
        }
        Finding::Repeated(ids) => {
            format!("{} 个订单号被两位买家持有", thousands(*ids))
        }
    }
}

/// What is done about it.
pub(crate) fn cure(cure: Cure) -> String {
    if language() == Lang::En {
        return cure.to_string();
    }
    match cure {
        Cure::Adopt => "把该场及其订单收入 SQL",
        Cure::Remove => "从 Redis 删除已归档的该场",
        Cure::Replace => {
            "将 Redis 中那一场的键改名保留，载入 SQL 中的该场；两者的消息都记为该场订单"
        }
        Cure::Reconcile => "与 SQL、消息流和死信对账",
        Cure::GiveBack => "在 Redis 退还 SQL 中已关闭的订单",
        Cure::Enqueue => "把丢失的订单重新放入消息流",
    }
    .to_owned()
}
