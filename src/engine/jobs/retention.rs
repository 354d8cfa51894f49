//! Retention: removes expired data from Redis.
//!
//! Nothing that is still needed is removed: no unacknowledged entry, no dead letter whose buyer waits for a result, no
//! consumer with pending entries, no sale with findings or unsettled orders.

use redis::cmd;
use seckill_model::{
    EntryId, Millis, Phase, Sale, SaleShard, SaleState, VoucherId, ledger::SaleAudit,
};
use seckill_redis::{dead_letters, keys::Partition, lossy_utf8::Text, scripts};
use seckill_store::Sales;
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    deployment::{servers::Servers, settings::Settings},
    ledger::{
        self,
        sale_copy::{self, drop_keys},
    },
    lists::group_by,
    orders::payment::LeftOut,
    recovery::dead_letters::classify,
};

/// Entries per call: a millisecond of Redis time.
const TRIM_PAGE: u64 = 10_000;
const LETTERS_PAGE: usize = 500;
/// Archived sales that are checked again, in case a node loaded one while it was archived.
const RECENTLY_ARCHIVED: u32 = 50;

/// What was trimmed of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Entries of the order stream.
    pub entries: u64,
    /// Dead letters.
    pub letters: u64,
    /// Consumers of dead nodes.
    pub consumers: Vec<String>,
    /// The first expired entry that had to stay because a group has not acknowledged it.
    pub held: Option<String>,
}

/// Trims the order stream of a partition, its dead letters, and abandoned consumers.
/// After an error, what was trimmed so far stays trimmed.
pub async fn trim(
    servers: &mut Servers,
    of: &Partition,
    settings: &Settings,
    stop: &CancellationToken,
) -> Result<Trimmed> {
    let mut done = Trimmed::default();
    loop {
        let mut call = scripts::TRIM.prepare_invoke();
        call.key(of.orders()).arg(settings.jobs.keep_stream_ms).arg(TRIM_PAGE);
        call.arg(settings.jobs.keep_stream_entries);
        let (trimmed, held): (u64, Option<String>) = servers.conn.invoke(&call).await?;
        done.entries += trimmed;
        if trimmed == 0 || stop.is_cancelled() {
            done.held = held;
            break;
        }
    }
    let mut call = scripts::FORGET_CONSUMERS.prepare_invoke();
    call.key(of.orders()).key(of.nodes()).arg(of.group());
    call.arg(settings.jobs.keep_consumers_ms).arg(settings.node_dead_ms);
    let consumers: Vec<Text> = servers.conn.invoke(&call).await?;
    done.consumers = consumers.into_iter().map(|Text(name)| name).collect();
    done.letters = trim_letters(servers, of, settings, stop).await?;
    Ok(done)
}

/// Letters beyond their age or number, oldest first. A letter whose buyer waits, or may wait, stays: it is the only
/// result that the buyer has.
async fn trim_letters(
    servers: &mut Servers,
    of: &Partition,
    settings: &Settings,
    stop: &CancellationToken,
) -> Result<u64> {
    let old = servers.conn.now().await?.plus(-(settings.jobs.keep_dead_ms as i64));
    let length: u64 = servers.conn.query(cmd("XLEN").arg(of.dead())).await?;
    let mut excess = length.saturating_sub(settings.jobs.keep_dead_entries);
    let (mut trimmed, mut next) = (0, Some(EntryId::MIN));
    while let Some(from) = next.filter(|_| !stop.is_cancelled()) {
        let page = dead_letters::read(&mut servers.conn, of, from, LETTERS_PAGE).await?;
        let Some(last) = page.last() else { break };
        next = last.letter.next();
        let mut due = Vec::new();
        for letter in page {
            let beyond = excess > 0;
            excess = excess.saturating_sub(1);
            if beyond || letter.letter.added() < old {
                due.push(letter);
            }
        }
        if due.is_empty() {
            break;
        }
        let letters = classify(servers, settings.max_replays, due).await?;
        let useless = letters.iter().filter(|it| !it.verdict.is_awaited());
        trimmed +=
            dead_letters::remove(&mut servers.conn, of, useless.map(|it| it.letter.letter)).await?;
    }
    Ok(trimmed)
}

/// Result of a run of the archiving job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Archived {
    /// Sales that were archived.
    pub sales: Vec<VoucherId>,
    /// Sales that could not be.
    pub left_out: LeftOut,
}

impl Archived {
    /// Leaves a sale out.
    ///
    /// # Errors
    /// The error concerns all sales: a server is unreachable. On a cluster, others may have servers that are not.
    fn leave_out(&mut self, servers: &Servers, sale: VoucherId, why: EngineError) -> Result<()> {
        let is_of_shard = matches!(why, EngineError::Redis(_)) && servers.conn.is_cluster();
        if why.is_away() && !is_of_shard {
            return Err(why);
        }
        self.left_out.add(sale, why);
        Ok(())
    }
}

/// Archives the sales that ended at least `after_ms` ago: they are removed from Redis. The shards of a sale are archived
/// together.
/// A sale that is archived in SQL and still in Redis is removed by the next run.
pub async fn archive_ended(
    servers: &mut Servers,
    after_ms: u64,
    stop: &CancellationToken,
) -> Result<Archived> {
    let now = servers.conn.now().await?;
    let mut done = Archived::default();
    let Sales { shards, unreadable } = servers.store.readable_sales().await?;
    for sale in unreadable {
        done.left_out.add(sale.voucher, sale.error().into());
    }
    for (voucher, parts) in group_by(shards, |shard| shard.voucher_id) {
        if stop.is_cancelled() {
            break;
        }
        if !parts.iter().all(|it| is_over(it, now, after_ms)) {
            continue;
        }
        match archive(servers, &parts).await {
            Ok(true) => done.sales.push(voucher),
            Ok(false) => {}
            Err(why) => done.leave_out(servers, voucher, why)?,
        }
    }
    for sale in servers.store.archived(None, RECENTLY_ARCHIVED).await? {
        for shard in sale.shard_ids() {
            if let Err(why) = drop_keys(&mut servers.conn, &servers.keys, shard).await {
                done.leave_out(servers, sale.voucher_id, why)?;
            }
        }
    }
    Ok(done)
}

fn is_over(sale: &Sale, now: Millis, after_ms: u64) -> bool {
    // Its last order, or the operator who ended it, has changed the row.
    let ended = match sale.end {
        Some(end) if sale.state != SaleState::Ended => end.max(sale.changed),
        _ => sale.changed,
    };
    sale.phase(now, None) == Phase::Ended && now.since(ended) >= after_ms
}

/// Archives one ended sale with all its shards; `false` while the audit has findings or orders are not settled.
async fn archive(servers: &mut Servers, parts: &[SaleShard]) -> Result<bool> {
    let open = |it: &SaleAudit| it.undelivered + it.pending + it.dead > 0;
    for (part, audit) in parts.iter().zip(ledger::audit_parts(servers, parts).await?) {
        if !audit.findings.is_empty()
            || open(&audit)
            || servers.store.ledger(part.id).await?.returning > 0
        {
            return Ok(false);
        }
    }
    if let Some(first) = parts.first() {
        let mut held = Vec::new();
        for part in parts {
            let version = sale_copy::version(servers, part.id).await;
            held.extend(version.map(|version| (part.id, version)));
        }
        for state in [SaleState::Ended, SaleState::Archived] {
            servers.store.set_state(first.id.sale, state, None, &held).await?;
        }
    }
    for part in parts {
        drop_keys(&mut servers.conn, &servers.keys, part.id).await?;
    }
    Ok(true)
}
