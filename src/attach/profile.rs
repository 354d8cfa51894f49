//! The names of a service: keys, stream, entry fields, tables and columns.

use jiff::{civil::DateTime, tz::TimeZone};
use seckill_model::{Label, Millis, Reason, UserId, VoucherId, reason};
use serde::Deserialize;
use toml::{Table, Value};

/// The built-in profiles. Each has only what differs from the first one.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("hmdp", include_str!("../../assets/attach.toml")),
    ("002", include_str!("profiles/002.toml")),
    ("003", include_str!("profiles/003.toml")),
    ("004", include_str!("profiles/004.toml")),
];

/// The variable part of a key.
const VOUCHER: &str = "{voucher}";
const USER: &str = "{user}";
const DAY: &str = "{day}";

/// The names of a service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Zone of the date columns, which have none.
    pub time_zone: String,
    /// Keys in Redis.
    pub keys: Keys,
    /// The order stream.
    pub stream: Stream,
    /// Fields of an entry.
    pub entry: Entry,
    /// Tables.
    pub tables: Tables,
    /// Columns of vouchers.
    pub voucher: VoucherColumns,
    /// Columns of sales.
    pub sale: SaleColumns,
    /// Columns of orders.
    pub order: OrderColumns,
}

/// Keys in Redis, each with its variable part in braces; an empty name means that there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// The stock of a sale, a number.
    pub stock: String,
    /// The users with an order in a sale, a set.
    pub buyers: String,
    /// The lock of a user: a hash of Redisson, or a string.
    pub lock: String,
    /// The counter of order IDs of a day.
    pub order_ids: String,
}

/// The order stream; an empty key means that there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its key.
    pub key: String,
    /// The consumer group.
    pub group: String,
}

/// Names of the fields of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The order ID.
    pub order: String,
    /// The user ID.
    pub user: String,
    /// The voucher ID.
    pub voucher: String,
}

/// Names of tables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Vouchers.
    pub voucher: String,
    /// Sales: a row for each voucher with limited stock.
    pub sale: String,
    /// Orders.
    pub order: String,
}

/// Columns of vouchers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoucherColumns {
    /// The voucher ID.
    pub id: String,
    /// The title.
    pub title: String,
}

/// Columns of sales.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaleColumns {
    /// The voucher ID.
    pub voucher: String,
    /// The stock that is left.
    pub stock: String,
    /// The stock before the first order; empty if there is no such column.
    pub initial: String,
    /// When the sale begins.
    pub begin: String,
    /// When the sale ends.
    pub end: String,
}

/// Columns of orders.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderColumns {
    /// The order ID, the primary key.
    pub id: String,
    /// The user ID.
    pub user: String,
    /// The voucher ID.
    pub voucher: String,
    /// The status; empty if there is no such column.
    pub status: String,
    /// The values of the status of orders that have returned their piece; the first is that of an order that was not
    /// paid.
    pub closed: Vec<i64>,
    /// When it was written; empty if there is no such column, as the following.
    pub created: String,
    /// When it was paid.
    pub paid: String,
    /// How it was paid, a number.
    pub pay_type: String,
}

/// A setting that cannot be used: its name, and why.
pub type Unusable = (&'static str, Reason);

/// Every setting with its value in the first built-in profile.
///
/// # Errors
/// The built-in profile is invalid, which a test excludes.
pub fn base() -> Result<Table, toml::de::Error> {
    BUILT_IN[0].1.parse()
}

/// Replaces the values of `base` by those of `other`, section by section.
fn overlay(base: &mut Table, other: Table) {
    for (name, value) in other {
        match (base.get_mut(&name), value) {
            (Some(Value::Table(base)), Value::Table(value)) => overlay(base, value),
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}

impl Profile {
    /// The built-in profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(it, _)| *it == name)?;
        Self::parse(text).ok()
    }

    /// Reads a profile; what it does not name is as in the first built-in one.
    ///
    /// # Errors
    /// A name is unknown, or a value has another type.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut all = base()?;
        overlay(&mut all, text.parse()?);
        all.try_into()
    }

    /// Rejects names that cannot be used in keys and statements.
    pub fn check(&self) -> Result<(), Unusable> {
        for (name, key, part) in [
            ("keys.stock", &self.keys.stock, VOUCHER),
            ("keys.buyers", &self.keys.buyers, VOUCHER),
            ("keys.lock", &self.keys.lock, USER),
            ("keys.order_ids", &self.keys.order_ids, DAY),
        ] {
            let may_be_empty = part != VOUCHER;
            if key.matches(part).count() != 1 && !(may_be_empty && key.is_empty()) {
                return Err((name, reason!("attach-key-without-part", key = name, part)));
            }
        }
        if !self.stream.key.is_empty() && self.stream.group.is_empty() {
            return Err(("stream.group", reason!("attach-no-group-name")));
        }
        for (name, sql, may_be_empty) in [
            ("tables.voucher", &self.tables.voucher, false),
            ("tables.sale", &self.tables.sale, false),
            ("tables.order", &self.tables.order, false),
            ("voucher.id", &self.voucher.id, false),
            ("voucher.title", &self.voucher.title, false),
            ("sale.voucher", &self.sale.voucher, false),
            ("sale.stock", &self.sale.stock, false),
            ("sale.initial", &self.sale.initial, true),
            ("sale.begin", &self.sale.begin, false),
            ("sale.end", &self.sale.end, false),
            ("order.id", &self.order.id, false),
            ("order.user", &self.order.user, false),
            ("order.voucher", &self.order.voucher, false),
            ("order.status", &self.order.status, true),
            ("order.created", &self.order.created, true),
            ("order.paid", &self.order.paid, true),
            ("order.pay_type", &self.order.pay_type, true),
        ] {
            // A statement contains these names, which cannot be bound.
            let is_name = |part: &str| {
                part.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
                    && part.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
            };
            if !(sql.split('.').all(is_name) || (may_be_empty && sql.is_empty())) {
                return Err((name, reason!("attach-sql-name", key = name)));
            }
        }
        if self.zone().is_none() {
            return Err(("time_zone", reason!("attach-time-zone")));
        }
        Ok(())
    }

    /// The same profile with its tables and columns quoted, as names may be keywords of SQL.
    pub(crate) fn quoted(&self, quote: impl Fn(&str) -> String) -> Self {
        let mut profile = self.clone();
        let Self { tables, voucher, sale, order, .. } = &mut profile;
        for name in [
            &mut tables.voucher,
            &mut tables.sale,
            &mut tables.order,
            &mut voucher.id,
            &mut voucher.title,
            &mut sale.voucher,
            &mut sale.stock,
            &mut sale.initial,
            &mut sale.begin,
            &mut sale.end,
            &mut order.id,
            &mut order.user,
            &mut order.voucher,
            &mut order.status,
            &mut order.created,
            &mut order.paid,
            &mut order.pay_type,
        ] {
            *name = quote(name);
        }
        profile
    }

    /// The zone of the date columns.
    pub(crate) fn zone(&self) -> Option<TimeZone> {
        let name = &self.time_zone;
        TimeZone::get(name).or_else(|_| TimeZone::posix(name)).ok()
    }

    /// A point in time from a date column.
    pub(crate) fn time(&self, text: &str) -> Option<Millis> {
        let local: DateTime = text.trim().parse().ok()?;
        let at = local.to_zoned(self.zone()?).ok()?;
        Some(Millis(at.timestamp().as_millisecond()))
    }

    pub(crate) fn stock(&self, voucher: VoucherId) -> String {
        self.keys.stock.replace(VOUCHER, &voucher.to_string())
    }

    /// The sale of a key of a stock.
    pub(crate) fn voucher_of(&self, stock: &str) -> Option<VoucherId> {
        let (before, after) = self.keys.stock.split_once(VOUCHER)?;
        stock.strip_prefix(before)?.strip_suffix(after)?.parse().ok().map(VoucherId)
    }

    pub(crate) fn buyers(&self, voucher: VoucherId) -> String {
        self.keys.buyers.replace(VOUCHER, &voucher.to_string())
    }

    /// The lock of a user; `None` if the service has none.
    pub(crate) fn lock(&self, user: UserId) -> Option<String> {
        let key = &self.keys.lock;
        (!key.is_empty()).then(|| key.replace(USER, &user.to_string()))
    }

    /// The pattern of the locks of all users, for SCAN.
    pub(crate) fn locks(&self) -> Option<String> {
        pattern(&self.keys.lock, USER)
    }

    /// The pattern of the stock of all sales, for SCAN.
    pub(crate) fn stocks(&self) -> Option<String> {
        pattern(&self.keys.stock, VOUCHER)
    }

    /// The pattern of the buyers of all sales, for SCAN.
    pub(crate) fn all_buyers(&self) -> Option<String> {
        pattern(&self.keys.buyers, VOUCHER)
    }

    /// The counter of order IDs of the day of `now`; `None` if there is none.
    pub(crate) fn order_ids(&self, now: Millis) -> Option<String> {
        let day = now.date_time(&self.zone()?).split(' ').next()?.replace('-', ":");
        Some(self.keys.order_ids.replace(DAY, &day)).filter(|key| !key.is_empty())
    }

    /// The name of what one recovery at a time works on: the stream, or the stock without one.
    pub(crate) fn scope(&self) -> &str {
        if self.has_stream() { &self.stream.key } else { &self.keys.stock }
    }

    /// Whether orders wait in a stream, and not in the memory of the service.
    pub fn has_stream(&self) -> bool {
        !self.stream.key.is_empty()
    }
}

/// The pattern of all keys of this form; `None` if the service has none.
fn pattern(key: &str, part: &str) -> Option<String> {
    let (before, after) = key.split_once(part)?;
    let literal = |text: &str| {
        let sign = |c: char| if "*?[]\\".contains(c) { format!("\\{c}") } else { c.to_string() };
        text.chars().map(sign).collect::<String>()
    };
    Some(format!("{}*{}", literal(before), literal(after)))
}

/// The names of the built-in profiles.
pub fn names() -> String {
    BUILT_IN.map(|(name, _)| name).join(&Label("list-items"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_can_be_used() {
        for (name, _) in BUILT_IN {
            let profile = Profile::named(name).unwrap();
            assert_eq!(profile.check(), Ok(()), "{name}");
        }
        let profile = Profile::named("004").unwrap();
        assert_eq!(profile.buyers(VoucherId(7)), "seckill:users:7");
        assert_eq!(profile.voucher_of(&profile.stock(VoucherId(7))), Some(VoucherId(7)));
        assert_eq!(profile.voucher_of("seckill:stock:x"), None);
        assert_eq!(profile.locks().as_deref(), Some("seckill:lock:*"));
        assert_eq!(profile.tables.order, "tb_voucher_order");
    }

    #[test]
    fn dates_are_in_the_zone_of_the_profile() {
        let mut profile = Profile::named("hmdp").unwrap();
        let midnight = "2022-01-01 08:00:00";
        for zone in ["Asia/Shanghai", "CST-8"] {
            profile.time_zone = zone.to_owned();
            let at = profile.time(midnight).unwrap();
            assert_eq!(at.to_string(), "2022-01-01T00:00:00Z", "{zone}");
            assert_eq!(profile.order_ids(at.plus(-1)).as_deref(), Some("icr:order:2022:01:01"));
        }
        assert_eq!(profile.time("soon"), None);
    }

    #[test]
    fn names_that_cannot_be_used_are_rejected() {
        for (text, name) in [
            ("[keys]\nstock = \"stock\"", "keys.stock"),
            ("[keys]\nlock = \"lock\"", "keys.lock"),
            ("[stream]\ngroup = \"\"", "stream.group"),
            ("[tables]\norder = \"x; DROP TABLE y\"", "tables.order"),
            ("[order]\nuser = \"\"", "order.user"),
            ("time_zone = \"Moon\"", "time_zone"),
        ] {
            let rejected = Profile::parse(text).unwrap().check().unwrap_err();
            assert_eq!(rejected.0, name);
        }
        assert!(Profile::parse("[keys]\nstok = \"x\"").is_err());
        let none = Profile::parse("[stream]\nkey = \"\"\n[keys]\nlock = \"\"").unwrap();
        assert!(none.check().is_ok() && !none.has_stream() && none.locks().is_none());
    }

    #[test]
    fn patterns_match_their_own_signs_only() {
        assert_eq!(pattern("a[1]*:{user}", USER).as_deref(), Some("a\\[1\\]\\*:*"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_profile_or_an_error(text: String) {
            let _ = Profile::parse(&text).map(|it| it.check());
        }

        #[test]
        fn a_profile_with_any_names_is_usable_or_refused(
            section in "(keys|stream|tables|sale|order|voucher|entry|service)",
            name in "(stock|buyers|lock|order_ids|key|group|voucher|sale|order|id|user|status)",
            value in "[-a-z0-9:{}*'\"\\\\;. ]{0,24}",
        ) {
            let text = format!("[{section}]\n{name} = {value:?}\n");
            if let Ok(profile) = Profile::parse(&text)
                && profile.check().is_ok()
            {
                let voucher = VoucherId(7);
                proptest::prop_assert_eq!(profile.voucher_of(&profile.stock(voucher)), Some(voucher));
            }
        }
    }
}
