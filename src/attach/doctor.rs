//! Compares a profile with what exists: names, types, fields and columns. Reads samples only.

use redis::cmd;
use seckill_model::{ForeignKey, Millis, Reason, reason};
use seckill_redis::{Connection, Redis, lossy_utf8::Text};
use seckill_store::Settings;
use serde::Serialize;

use crate::{
    AttachError, Kind, PAGE, Profile, Result,
    buyers::{self, SaleKeys},
    check_single,
    database::{Database, text},
    locks,
    marks::{MOVED, MOVING, RETURNING},
    profile::BUILT_IN,
    stream::{self, ENTRIES},
};

/// SCAN calls for the keys of one pattern.
const SCANS: usize = 100;
/// Keys and sales that are examined.
const SAMPLE: usize = 20;
/// Orders whose columns are compared.
const ORDERS: usize = 20;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Ok,
    /// Missing for a reason that may be harmless, or not knowable.
    Note,
    /// It cannot be used like this.
    Problem,
    /// A server does not answer.
    Unreachable,
}

/// What was found about one name of the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The subject.
    pub name: &'static str,
    /// How serious.
    pub grade: Grade,
    /// What was found, and why that matters.
    pub found: Reason,
    /// What to do.
    pub fix: Option<Reason>,
}

/// The findings so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, name: &'static str, grade: Grade, found: Reason, fix: Option<Reason>) {
        self.0.push(Finding { name, grade, found, fix });
    }

    fn ok(&mut self, name: &'static str, found: Reason) {
        self.add(name, Grade::Ok, found, None);
    }

    fn note(&mut self, name: &'static str, found: Reason) {
        self.add(name, Grade::Note, found, None);
    }

    fn problem(&mut self, name: &'static str, found: Reason, fix: Reason) {
        self.add(name, Grade::Problem, found, Some(fix));
    }

    /// A name of the profile that was not found. It is wrong if another built-in profile has one that exists, or if there
    /// must be such a key by now.
    fn missing(
        &mut self,
        name: &'static str,
        setting: &'static str,
        found: Reason,
        other: Option<(&'static str, String)>,
        must_exist: bool,
    ) {
        match other {
            Some((profile, key)) => {
                self.problem(name, found, reason!("attach-other-profile", key, profile, setting));
            }
            None if must_exist => self.problem(name, found, reason!("attach-set-name", setting)),
            None => {
                let fix = reason!("attach-set-name-later", setting);
                self.add(name, Grade::Note, found, Some(fix));
            }
        }
    }

    /// A key that holds a value of another type.
    fn foreign(&mut self, name: &'static str, ForeignKey { key, holds }: &ForeignKey) {
        let holds = ForeignKey::content(holds);
        let found = reason!("attach-holds-other", key, holds);
        self.problem(name, found, reason!("attach-correct-key"));
    }
}

/// Checks the keys in Redis.
///
/// # Errors
/// Redis is unreachable, or is a cluster.
pub async fn redis(redis: &Redis, profile: &Profile) -> Result<Vec<Finding>> {
    check_single(redis)?;
    let (mut conn, mut findings) = (redis.connection(), Findings::default());
    let now = conn.now().await?;
    let has_buyers = sales(&mut conn, profile, &mut findings).await?;
    let has_entries = stream(&mut conn, profile, has_buyers, &mut findings).await?;
    if !has_buyers {
        no_buyers(&mut conn, profile, has_entries, &mut findings).await?;
    }
    locks(&mut conn, profile, &mut findings).await?;
    order_ids(&mut conn, profile, now, &mut findings).await?;
    Ok(findings.0)
}

/// Some keys of a pattern, and whether the whole keyspace was examined.
async fn sample(conn: &mut Connection, pattern: &str) -> Result<(Vec<String>, bool)> {
    let (mut cursor, mut found) = (0, Vec::new());
    for _ in 0..SCANS {
        found.extend(locks::scan(conn, &mut cursor, pattern).await?);
        if cursor == 0 || found.len() >= SAMPLE {
            break;
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(SAMPLE);
    Ok((found, cursor == 0))
}

/// The first built-in profile whose name for something exists here, with a key of that name.
async fn elsewhere(
    conn: &mut Connection,
    mine: &str,
    of: impl Fn(&Profile) -> Option<String>,
) -> Result<Option<(&'static str, String)>> {
    for (name, _) in BUILT_IN {
        let Some(pattern) = Profile::named(name).and_then(|it| of(&it)) else { continue };
        if pattern == mine {
            continue;
        }
        if let Some(key) = sample(conn, &pattern).await?.0.into_iter().next() {
            return Ok(Some((name, key)));
        }
    }
    Ok(None)
}

/// Whether there are buyers.
async fn sales(conn: &mut Connection, profile: &Profile, findings: &mut Findings) -> Result<bool> {
    let Some(pattern) = profile.stocks() else { return Ok(false) };
    for end in [MOVING, RETURNING] {
        for key in sample(conn, &format!("{pattern}{end}")).await?.0 {
            let stock = key.strip_suffix(end).unwrap_or_default();
            let Some(voucher) = profile.voucher_of(stock) else { continue };
            // With its stock, the service has loaded it again.
            if !conn.query::<bool>(cmd("EXISTS").arg(stock)).await? {
                findings.add(
                    "sales",
                    Grade::Problem,
                    reason!("attach-between", voucher, key),
                    None,
                );
            }
        }
    }
    let (keys, complete) = sample(conn, &pattern).await?;
    let mut vouchers: Vec<_> = keys.iter().filter_map(|key| profile.voucher_of(key)).collect();
    let mut moved = 0;
    if vouchers.is_empty() {
        // The stock of a sale that has moved must not be loaded.
        let (marks, _) = sample(conn, &format!("{pattern}{MOVED}")).await?;
        let stocks = marks.iter().filter_map(|key| key.strip_suffix(MOVED));
        vouchers.extend(stocks.filter_map(|key| profile.voucher_of(key)));
        moved = vouchers.len();
    }
    if vouchers.is_empty() {
        let other = elsewhere(conn, &pattern, Profile::stocks).await?;
        let examined = if complete {
            reason!("attach-no-stock", pattern)
        } else {
            reason!("attach-no-stock-yet", pattern, keys = SCANS * PAGE)
        };
        // Nothing can be watched without any sale.
        findings.missing("stock", "keys.stock", examined, other, complete);
        return Ok(false);
    }
    let found = buyers::keys(conn, profile, &vouchers).await?;
    let (mut stocks, mut sets, mut foreign_sets) = (0_u64, 0_u64, false);
    for (voucher, SaleKeys { stock, buyers, foreign, .. }) in vouchers.iter().zip(&found) {
        stocks += u64::from(stock.is_some());
        let key = profile.buyers(*voucher);
        for foreign in foreign {
            let name = if foreign.key == key { "buyers" } else { "stock" };
            findings.foreign(name, foreign);
        }
        if foreign.iter().any(|it| it.key == key) {
            foreign_sets = true;
            continue;
        }
        sets += u64::from(*buyers > Some(0));
        let mut scan = cmd("SSCAN");
        scan.arg(&key).arg(0).arg("COUNT").arg(SAMPLE);
        let (_, members): (u64, Vec<Text>) = conn.query(&scan).await?;
        if let Some(Text(member)) = members.iter().find(|it| it.0.parse::<i64>().is_err()) {
            let member: String = member.chars().take(40).collect();
            let found = reason!("attach-no-user-id", key, member);
            findings.problem("buyers", found, reason!("attach-correct-buyers"));
        }
    }
    if stocks > 0 {
        findings.ok("stock", reason!("attach-stocks", pattern = pattern.as_str(), count = stocks));
    }
    if moved > 0 {
        findings.note("stock", reason!("attach-stocks-moved", pattern, count = moved));
    }
    if sets > 0 {
        findings.ok("buyers", reason!("attach-sets", count = sets));
    }
    // A key of another type has its finding.
    Ok(sets > 0 || foreign_sets)
}

/// Says that no sale has a set of buyers, which is right until the first order.
async fn no_buyers(
    conn: &mut Connection,
    profile: &Profile,
    has_entries: bool,
    findings: &mut Findings,
) -> Result<()> {
    let mine = profile.all_buyers().unwrap_or_default();
    let other = elsewhere(conn, &mine, Profile::all_buyers).await?;
    let found = reason!("attach-no-buyers", key = profile.keys.buyers.as_str());
    findings.missing("buyers", "keys.buyers", found, other, has_entries);
    Ok(())
}

/// Whether there are entries.
async fn stream(
    conn: &mut Connection,
    profile: &Profile,
    has_buyers: bool,
    findings: &mut Findings,
) -> Result<bool> {
    let (key, group) = (profile.stream.key.as_str(), profile.stream.group.as_str());
    if !profile.has_stream() {
        findings.note("stream", reason!("attach-memory-queue"));
        return Ok(false);
    }
    let holds: String = conn.query(cmd("TYPE").arg(key)).await?;
    match holds.as_str() {
        "stream" => {}
        "none" => {
            let other =
                elsewhere(conn, key, |it| Some(it.stream.key.clone()).filter(|it| !it.is_empty()))
                    .await?;
            let found = reason!("attach-no-stream", key);
            findings.missing("stream", "stream.key", found, other, has_buyers);
            return Ok(false);
        }
        _ => {
            findings.foreign("stream", &ForeignKey { key: key.to_owned(), holds });
            return Ok(false);
        }
    }
    let length: u64 = conn.query(cmd("XLEN").arg(key)).await?;
    findings.ok("stream", reason!("attach-stream", key, length));
    let names: Vec<String> =
        stream::groups(conn, profile).await?.into_iter().map(|(name, _)| name).collect();
    if names.iter().any(|it| it == group) {
        findings.ok("group", reason!("attach-group", group));
    } else if names.is_empty() {
        let fix = reason!("attach-create-group", key, group);
        findings.problem("group", reason!("attach-group-missing", group), fix);
    } else {
        let names = names.join(", ");
        let found = reason!("attach-other-groups", group, names);
        findings.problem("group", found, reason!("attach-correct-group"));
    }
    let entries = stream::newest(conn, profile, ENTRIES).await?;
    let faulty = entries
        .iter()
        .find_map(|(id, fields)| Some((id, fields, stream::fault_of(profile, fields)?)));
    match faulty {
        Some((entry, fields, why)) => {
            let names: Vec<&str> = fields.iter().take(9).map(|(Text(name), _)| &**name).collect();
            let (entry, why) = (entry.as_str(), why.reason());
            let found = reason!("attach-other-fields", entry, why, names = names.join(", "));
            findings.problem("entries", found, reason!("attach-correct-fields"));
        }
        None if entries.is_empty() => findings.note("entries", reason!("attach-no-entries")),
        None => findings.ok("entries", reason!("attach-entries", count = entries.len())),
    }
    Ok(length > 0)
}

async fn locks(conn: &mut Connection, profile: &Profile, findings: &mut Findings) -> Result<()> {
    let Some(pattern) = profile.locks() else {
        findings.note("locks", reason!("attach-no-lock-key"));
        return Ok(());
    };
    let (keys, _) = sample(conn, &pattern).await?;
    let (held, foreign) = locks::holders(conn, &keys).await?;
    for foreign in &foreign {
        findings.foreign("locks", foreign);
    }
    let hashes = held.iter().filter(|it| it.kind == Kind::Hash).count();
    if held.is_empty() && foreign.is_empty() {
        let other = elsewhere(conn, &pattern, Profile::locks).await?;
        let found = reason!("attach-no-locks", pattern);
        match other {
            None => findings.note("locks", found),
            other => findings.missing("locks", "keys.lock", found, other, false),
        }
    } else if !held.is_empty() {
        let strings = held.len() - hashes;
        findings.ok("locks", reason!("attach-locks", pattern, hashes, strings));
    }
    Ok(())
}

async fn order_ids(
    conn: &mut Connection,
    profile: &Profile,
    now: Millis,
    findings: &mut Findings,
) -> Result<()> {
    let Some(key) = profile.order_ids(now) else { return Ok(()) };
    let holds: String = conn.query(cmd("TYPE").arg(&key)).await?;
    match holds.as_str() {
        "none" => {
            let found = reason!("attach-no-counter", key);
            findings.missing("order IDs", "keys.order_ids", found, None, false);
        }
        "string" => {
            let left: i64 = conn.query(cmd("PTTL").arg(&key)).await?;
            if left < 0 {
                findings.note("order IDs", reason!("attach-counter-stays", key));
            } else {
                findings.ok("order IDs", reason!("attach-counter", key));
            }
        }
        _ => findings.foreign("order IDs", &ForeignKey { key, holds }),
    }
    Ok(())
}

/// Checks tables and columns.
///
/// # Errors
/// The database is unreachable.
pub async fn database(url: &str, settings: &Settings, profile: &Profile) -> Result<Vec<Finding>> {
    let (database, mut findings) = (Database::open(url, settings, profile)?, Findings::default());
    let Profile { tables, voucher, sale, order, .. } = profile;
    let lists: [(&String, &[&String]); 3] = [
        (&tables.voucher, &[&voucher.id, &voucher.title]),
        (&tables.sale, &[&sale.voucher, &sale.stock, &sale.begin, &sale.end, &sale.initial]),
        (&tables.order, &[&order.id, &order.user, &order.voucher, &order.status]),
    ];
    let mut complete = true;
    for (table, columns) in lists {
        let exists = database.has("NULL", table).await?;
        let mut missing = Vec::new();
        for column in columns.iter().filter(|it| exists && !it.is_empty()) {
            if !database.has(&text(&database.quoted(column)), table).await? {
                missing.push(column.as_str());
            }
        }
        complete &= exists && missing.is_empty();
        let table = table.as_str();
        if !exists {
            let found = reason!("attach-no-table", table);
            findings.problem("tables", found, reason!("attach-correct-table"));
        } else if missing.is_empty() {
            let columns = columns.iter().filter(|it| !it.is_empty()).count();
            findings.ok("tables", reason!("attach-table", table, columns));
        } else {
            let missing = missing.join(", ");
            let found = reason!("attach-no-column", table, columns = missing);
            findings.problem("tables", found, reason!("attach-correct-column"));
        }
    }
    if complete {
        let mut known = profile.clone();
        let missing = database.omit_missing(&mut known).await?;
        values(&database, &known, &mut findings).await?;
        if !missing.is_empty() {
            let (table, columns) = (tables.order.as_str(), missing.join(", "));
            findings.note("columns", reason!("attach-no-optional", table, columns));
        }
    }
    if let Some((table, engine)) = database.without_transactions(profile).await? {
        let found = reason!("attach-storage-engine", table, engine);
        findings.problem("storage engine", found, reason!("attach-storage-engine-fix"));
    }
    match database.is_replica().await? {
        Some(false) => {}
        Some(true) => {
            findings.problem("primary", reason!("attach-replica"), reason!("attach-replica-fix"));
        }
        None => findings.note("primary", reason!("attach-replica-unknown")),
    }
    findings.note("time zone", reason!("attach-zone", zone = profile.time_zone.as_str()));
    if sale.initial.is_empty() {
        findings.note("initial stock", reason!("attach-no-initial"));
    }
    Ok(findings.0)
}

/// Whether the newest rows have values of the right kind.
async fn values(database: &Database, profile: &Profile, findings: &mut Findings) -> Result<()> {
    match database.sales(profile).await {
        Ok(sales) if sales.is_empty() => findings.note("rows", reason!("attach-no-sales")),
        Ok(sales) => {
            let undated = sales.iter().find(|it| it.begin.is_none() || it.end.is_none());
            match undated {
                Some(sale) => {
                    let found = reason!("attach-no-dates", voucher = sale.voucher);
                    findings.problem("rows", found, reason!("attach-correct-dates"));
                }
                None => findings.ok("rows", reason!("attach-sales", count = sales.len())),
            }
        }
        Err(AttachError::Mismatch(found)) => {
            findings.problem("rows", found, reason!("attach-correct-column"));
        }
        Err(other) => return Err(other),
    }
    match database.orders(profile, ORDERS).await {
        Ok(_) => Ok(()),
        Err(AttachError::Mismatch(found)) => {
            findings.problem("rows", found, reason!("attach-correct-column"));
            Ok(())
        }
        Err(other) => Err(other),
    }
}
