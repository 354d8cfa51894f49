//! Stock and buyers of sales in Redis.

use std::collections::{HashMap, HashSet};

use redis::{Value, cmd, from_redis_value, pipe};
use seckill_model::{ForeignKey, NO_NUMBER, UserId, VoucherId};
use seckill_redis::{Connection, lossy_utf8::Text};

use crate::{PAGE, Profile, Result};

/// Longest stock that is read, in bytes.
const NUMBER: isize = 63;

/// The keys of one sale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SaleKeys {
    /// The stock; `None` if the key is missing or holds no number.
    pub(crate) stock: Option<i64>,
    /// The number of buyers; `None` if the key holds another value.
    pub(crate) buyers: Option<u64>,
    /// The key of the stock exists.
    pub(crate) has_stock: bool,
    /// One of the keys exists.
    is_loaded: bool,
    /// Keys with a value of another type.
    pub(crate) foreign: Vec<ForeignKey>,
}

impl SaleKeys {
    /// Whether the buyers can be read. Those of a sale that is over are not missed.
    pub(crate) fn is_readable(&self, buyers: &str, is_running: bool) -> bool {
        (self.is_loaded || is_running) && self.foreign.iter().all(|it| it.key != buyers)
    }
}

/// Reads stock and number of buyers of these sales, in two round trips.
pub(crate) async fn keys(
    conn: &mut Connection,
    profile: &Profile,
    sales: &[VoucherId],
) -> Result<Vec<SaleKeys>> {
    if sales.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<[String; 2]> =
        sales.iter().map(|it| [profile.stock(*it), profile.buyers(*it)]).collect();
    let types = types(conn, names.iter().flatten()).await?;
    let mut read = pipe();
    for ([stock, buyers], types) in names.iter().zip(types.chunks(2)) {
        match types.first().map(String::as_str) {
            Some("string") => read.cmd("GETRANGE").arg(stock).arg(0).arg(NUMBER),
            _ => read.cmd("ECHO").arg(""),
        };
        match types.last().map(String::as_str) {
            Some("set") => read.cmd("SCARD").arg(buyers),
            _ => read.cmd("ECHO").arg(0),
        };
    }
    let values: Vec<Value> = conn.pipe(&read).await?;
    let mut found = Vec::new();
    for ((names, types), values) in names.into_iter().zip(types.chunks(2)).zip(values.chunks(2)) {
        let ([stock, buyers], [stock_type, buyers_type]) = (names, types) else { continue };
        let [stock_value, count] = values else { continue };
        let mut keys = SaleKeys {
            stock: from_redis_value::<Text>(stock_value.clone())
                .ok()
                .and_then(|Text(stock)| stock.trim().parse().ok()),
            buyers: ["none", "set"]
                .contains(&buyers_type.as_str())
                .then(|| from_redis_value(count.clone()).unwrap_or(0)),
            has_stock: stock_type != "none",
            is_loaded: types.iter().any(|it| it != "none"),
            foreign: Vec::new(),
        };
        let holds = match stock_type.as_str() {
            "none" => None,
            "string" if keys.stock.is_some() => None,
            "string" => Some(NO_NUMBER),
            other => Some(other),
        };
        keys.foreign.extend(holds.map(|holds| ForeignKey { key: stock, holds: holds.to_owned() }));
        if !["none", "set"].contains(&buyers_type.as_str()) {
            keys.foreign.push(ForeignKey { key: buyers, holds: buyers_type.clone() });
        }
        found.push(keys);
    }
    Ok(found)
}

/// The types of keys, in one round trip.
pub(crate) async fn types(
    conn: &mut Connection,
    keys: impl Iterator<Item = &String>,
) -> Result<Vec<String>> {
    let mut read = pipe();
    for key in keys {
        read.cmd("TYPE").arg(key);
    }
    // Nothing answers a pipeline without commands.
    if read.is_empty() {
        return Ok(Vec::new());
    }
    Ok(conn.pipe(&read).await?)
}

/// The members of a set; `None` if there are more than `most`.
pub(crate) async fn members(
    conn: &mut Connection,
    key: &str,
    most: usize,
) -> Result<Option<HashSet<String>>> {
    let (mut cursor, mut found) = (0_u64, HashSet::new());
    loop {
        let mut scan = cmd("SSCAN");
        scan.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, page): (u64, Vec<Text>) = conn.query(&scan).await?;
        found.extend(page.into_iter().map(|Text(member)| member));
        if found.len() > most {
            return Ok(None);
        }
        cursor = next;
        if cursor == 0 {
            return Ok(Some(found));
        }
    }
}

/// Those of these users that the set still lacks.
pub(crate) async fn absent(
    conn: &mut Connection,
    key: &str,
    users: Vec<String>,
) -> Result<Vec<String>> {
    let mut absent = Vec::new();
    for page in users.chunks(PAGE) {
        let present: Vec<bool> = conn.query(cmd("SMISMEMBER").arg(key).arg(page)).await?;
        let lacking = page.iter().zip(present).filter(|(_, is_member)| !is_member);
        absent.extend(lacking.map(|(user, _)| user.clone()));
    }
    Ok(absent)
}

/// Which of some users are buyers, and whether their sales have a stock.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    sales: HashMap<VoucherId, SaleKeys>,
    absent: HashSet<(VoucherId, UserId)>,
}

impl Standing {
    /// Reads it for these users.
    pub(crate) async fn read(
        conn: &mut Connection,
        profile: &Profile,
        users: impl Iterator<Item = (VoucherId, UserId)>,
    ) -> Result<Self> {
        let mut asked: HashMap<VoucherId, Vec<String>> = HashMap::new();
        for (voucher, user) in users {
            asked.entry(voucher).or_default().push(user.to_string());
        }
        let vouchers: Vec<VoucherId> = asked.keys().copied().collect();
        let keys = keys(conn, profile, &vouchers).await?;
        let sales: HashMap<VoucherId, SaleKeys> = vouchers.into_iter().zip(keys).collect();
        let mut standing = Self { sales, absent: HashSet::new() };
        for (voucher, users) in asked {
            if !standing.is_readable(voucher) {
                continue;
            }
            let absent = absent(conn, &profile.buyers(voucher), users).await?;
            let absent = absent.iter().filter_map(|it| it.parse().ok().map(UserId));
            standing.absent.extend(absent.map(|user| (voucher, user)));
        }
        Ok(standing)
    }

    fn is_readable(&self, voucher: VoucherId) -> bool {
        self.sales.get(&voucher).is_some_and(|it| it.buyers.is_some())
    }

    /// Whether the user is a buyer; `None` if the key holds another value.
    pub(crate) fn of(&self, voucher: VoucherId, user: UserId) -> Option<bool> {
        self.is_readable(voucher).then(|| !self.absent.contains(&(voucher, user)))
    }

    /// Whether the sale has a stock.
    pub(crate) fn has_stock(&self, voucher: VoucherId) -> bool {
        self.sales.get(&voucher).is_some_and(|it| it.has_stock)
    }
}
