//! Words of why an act was not done. What only a server can tell stays in its own words.

use seckill_engine::{
    EngineError,
    plan::PlanFault,
    refusal::{Refusal, SaleRule, Why},
    telemetry::read_error::Unread,
};
use seckill_model::{
    Said,
    locale::{Lang, language},
    message::text,
};

use super::{books::sale_finding, faults::sale_fault, figures::thousands, starting, system};

/// Why an act was not done.
pub(crate) fn refusal(refusal: &Refusal) -> String {
    if language() == Lang::En {
        return refusal.to_string();
    }
    match &refusal.why {
        Why::Words => system::said(&refusal.to_string()),
        Why::Crowded => text!("error-busy"),
        Why::Stopped => text!("error-stopped"),
        Why::Stopping => EngineError::Stopping.to_string(),
        Why::ReadOnly => EngineError::ReadOnly.to_string(),
        Why::RedisAway(place, detail) => {
            format!("{place} 的 Redis 无应答（{}），请启动它或检查地址", system::said(detail))
        }
        Why::RedisLogin(place, detail) => {
            format!("{place} 的 Redis 拒绝登录（{detail}），请在地址中写明用户和密码")
        }
        Why::RedisCertificate(place, detail) => format!(
            "{place} 的 Redis 证书不被接受（{detail}）；若由自有机构签发，请用 --redis-ca 给出该机构的证书文件"
        ),
        Why::RedisTooOld(place, version) => {
            format!("{place} 的 Redis 为 {version}，需要 7.0 或更高版本，请升级")
        }
        Why::RedisUrl(fault) => starting::redis_url(fault),
        Why::RedisServer(error) => starting::redis_server(error),
        Why::SqlUrl(fault) => starting::sql_url(fault),
        Why::SqlFile(fault) => starting::sql_file(fault),
        Why::SqlSchema(fault) => starting::sql_schema(fault),
        Why::Partitions(fault) => fault.to_string(),
        Why::NoGroup => "消费组不存在，运行中的节点会重建".to_owned(),
        Why::RedisUnwilling(detail) => {
            format!("Redis 目前不接受写入（{detail}），{}，之后会继续", system::unwilling(detail))
        }
        Why::RedisRefused(detail) => format!("Redis 拒绝：{detail}"),
        Why::RedisKey(key) => system::foreign_key(key),
        Why::RedisReply(command) => {
            // Only the name of a command is one in Chinese too.
            let is_name = |it: char| it.is_ascii_uppercase() || it == ' ';
            let what = if command.chars().all(is_name) {
                format!("Redis 对 {command} 的应答")
            } else {
                "Redis 的应答".to_owned()
            };
            format!("{what}不符合预期，该键存有其他内容，或该服务器不是 Redis")
        }
        Why::SqlAway(detail) => format!("数据库失联（{}），恢复后会继续", system::said(detail)),
        Why::SqlLocked => "数据库被其他程序锁定（可用 fuser 查出），锁释放后会继续".to_owned(),
        Why::SqlUnknown(detail) => {
            let detail = system::said(detail);
            format!("数据库在提交时失联（{detail}），结果未知，请查看后再操作")
        }
        Why::SqlRefused(detail) => format!("数据库拒绝：{detail}"),
        Why::Changed(sale) => format!("#{sale} 刚被他人更改，请查看后再操作"),
        Why::NoSale(sale) => format!("没有 #{sale} 的秒杀，'seckill sale list' 可查看"),
        Why::Ended(sale) => format!("#{sale} 已结束，请新建一场"),
        Why::OutOfStock(sale) => format!("#{sale} 在 SQL 中已没有库存给这笔订单"),
        Why::Fenced(name) => format!("锁“{name}”已由他人持有，此次写入过迟，已拒绝"),
        Why::Rule(rule) => sale_rule(rule),
        Why::Clock(seconds) => {
            format!("时钟为 {seconds} 秒，超出订单号可表示的 2022 至 2090 年，请校准时钟")
        }
        Why::Sequence => "当天的订单号已用尽，请等到下一个 UTC 日".to_owned(),
        Why::Sale(fault) => sale_fault(fault),
        Why::LockBusy(name) => text!("lock-busy", name),
        Why::LockLost(name) => text!("lock-lost", name),
        Why::LockNotHeld(name) => text!("lock-not-held", name),
        Why::LockChanged(name) => text!("lock-changed", name),
        Why::ForeignPlan => PlanFault::Foreign.to_string(),
        Why::EditedPlan => PlanFault::Edited.to_string(),
        Why::PlanIo(detail) => PlanFault::Io(system::said(detail)).to_string(),
        Why::Group(fault) => fault.to_string(),
        Why::OtherOperator(who) => EngineError::OtherOperator(who.clone()).to_string(),
        Why::NoJob(name) => EngineError::NoJob(name.clone()).to_string(),
        Why::Unbalanced(found) => text!("error-audit-failed", finding = sale_finding(found)),
        Why::LongReason(characters, bytes) => {
            let (characters, bytes) = (*characters, *bytes);
            EngineError::LongReason { characters, bytes }.to_string()
        }
        Why::BrokeOff(why, done) => text!("error-broke-off", why = self::refusal(why), done),
        Why::Rush(fault) => fault.to_string(),
        Why::IsPaused(sale) => EngineError::IsPaused(*sale).to_string(),
        Why::HasStarted(sale) => EngineError::HasStarted(*sale).to_string(),
        Why::Run(fault) => fault.to_string(),
        Why::ForeignRedis(place) => EngineError::Foreign(place.clone()).to_string(),
        Why::NameTaken(name) => EngineError::NameTaken(name.clone()).to_string(),
        Why::Short(voucher, by, left) => {
            EngineError::Short { voucher: *voucher, by: *by, left: *left }.to_string()
        }
        Why::NotHeld(sale) => EngineError::NotHeld(*sale).to_string(),
        Why::OtherSale(sale) => EngineError::OtherSale(*sale).to_string(),
        Why::Reconciling(key) => EngineError::Reconciling(key.clone()).to_string(),
        Why::Oversold(sale) => EngineError::Oversold(*sale).to_string(),
        Why::NotLoaded(sale, why) => text!("error-not-loaded", sale, why = self::refusal(why)),
    }
}

/// Why a server could not be read.
pub(crate) fn unread(said: &Said) -> String {
    let known = said.data::<Unread>().filter(|_| language() == Lang::Zh);
    let why = match known {
        Some(own @ (Unread::RedisSilent(..) | Unread::SqlSilent(..))) => return own.to_string(),
        Some(Unread::RedisAway(place, detail)) => Why::RedisAway(place, detail),
        Some(Unread::RedisLogin(place, detail)) => Why::RedisLogin(place, detail),
        Some(Unread::RedisCertificate(place, detail)) => Why::RedisCertificate(place, detail),
        Some(Unread::RedisUnwilling(detail)) => Why::RedisUnwilling(detail),
        Some(Unread::RedisRefused(detail)) => Why::RedisRefused(detail),
        Some(Unread::RedisReply(command)) => Why::RedisReply(command),
        Some(Unread::NoGroup) => Why::NoGroup,
        Some(Unread::RedisServer(error)) => Why::RedisServer(error),
        Some(Unread::SqlFile(fault)) => Why::SqlFile(fault),
        Some(Unread::SqlSchema(fault)) => Why::SqlSchema(fault),
        Some(Unread::SqlAway(detail)) => Why::SqlAway(detail),
        Some(Unread::SqlLocked) => Why::SqlLocked,
        Some(Unread::SqlRefused(detail)) => Why::SqlRefused(detail),
        Some(Unread::Words(_)) | None => Why::Words,
    };
    refusal(&Refusal::new(said.to_string(), why))
}

/// Why what is played beside the console broke off: what the engine told, or words.
pub fn broke_off(said: &Said) -> String {
    said.data().map_or_else(|| said.to_string(), |told| refusal(&told))
}

fn sale_rule(rule: &SaleRule) -> String {
    let figure = |number: &u64| thousands(*number);
    match rule {
        SaleRule::NoVoucher(id) => format!("没有券 #{id}，请核对编号"),
        SaleRule::FlashSale(id) => format!("券 #{id} 为秒杀券，只能在秒杀中购买"),
        SaleRule::Off(id) => format!("券 #{id} 已下架，不能购买，请选已上架的券"),
        SaleRule::Expired(id) => format!("券 #{id} 已过期，不能购买，请选已上架的券"),
        SaleRule::NotEnded(sale) => format!("#{sale} 尚未结束，请先结束再归档"),
        SaleRule::Window { voucher, begin, end } => {
            format!("#{voucher} 在 {end} 结束，不能从 {begin} 开始，请选更早的时间")
        }
        SaleRule::Full { voucher, initial } => {
            format!("#{voucher} 已有 {} 件，为一场的上限，请另建一场", figure(initial))
        }
        SaleRule::NoRoom { voucher, by, initial, room } => {
            let [by, initial, room] = [by, initial, room].map(figure);
            format!("#{voucher} 现有 {initial} 件，不能再加 {by} 件，请填 1 到 {room}")
        }
        SaleRule::Sold { voucher, by, stock, initial } => {
            let [by, stock, initial] = [by, stock, initial].map(figure);
            format!(
                "不能从 #{voucher} 撤下 {by} 件：共 {initial} 件，未售 {stock} 件，至少留 1 件；不再出售请结束该场"
            )
        }
    }
}
