//! Making Redis whole again: what SQL and the journal know, a restarted Redis may have forgotten.
//!
//! Runs before the first admission of a node and after each restart of Redis, while admission waits:
//! a piece that was promised must not be sold again. Each node knows its own promises, so each waits
//! for the others that were alive before it admits anybody.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use redis::{cmd, pipe};

use super::{EngineError, journal::Admitted, payment, vouchers};
use crate::{
    broker::{Layout, Link, keys::Partition, scripts, stream, text::Text},
    faults::{self, Point},
    model::{OrderId, Place, Sale, SaleState, VoucherId},
    store::SharedStore,
};

/// Buyers in one run of the restore script: some 2 ms of Redis.
const PAGE: u32 = 2_000;

/// A node that has not answered for Redis by then is taken for dead, and its promises with it: longer than it takes
/// to give up an answer and to connect again.
const GRACE: Duration = Duration::from_secs(8);
/// Longer than Redis is away in any restart that a node could remember promises over.
const CORPSE_MS: f64 = 120_000.0;
const PEER_POLL: Duration = Duration::from_millis(20);

/// What had to be put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Buyers put back, each with his piece.
    pub restored: u64,
    /// Those of them whom SQL did not know: they were told "admitted", and their orders are in the stream again.
    pub promised: Vec<OrderId>,
    /// Orders that can't be put back: the piece is gone, or the buyer holds another one. A promise
    /// among them has become a dead letter.
    pub refused: Vec<OrderId>,
}

/// Loads every sale of a partition and puts back every buyer that Redis lacks, those of SQL and those of
/// `promises`, which are of this partition. Safe to repeat.
pub async fn reconcile(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    of: &Partition,
    promises: &[Admitted],
) -> Result<Reconciled, EngineError> {
    stream::ensure_group(link, of).await?;
    let mut done = Reconciled::default();
    // SQL has the result of those, and one may be closed by now. Asked first: what is written from here
    // on is put back as a promise, which does no harm.
    let ids: Vec<OrderId> = promises.iter().map(|promise| promise.order).collect();
    let written: HashSet<OrderId> = store.existing(&ids).await?.into_iter().collect();
    let promises: Vec<&Admitted> =
        promises.iter().filter(|promise| !written.contains(&promise.order)).collect();
    for sale in sales_of(store, keys, of).await? {
        done.add(restore_sale(store, link, keys, &sale).await?);
    }
    let mut vouchers: Vec<VoucherId> = promises.iter().map(|promise| promise.voucher).collect();
    vouchers.sort_unstable();
    vouchers.dedup();
    for voucher in vouchers {
        let of_voucher: Vec<_> = promises
            .iter()
            .filter(|promise| promise.voucher == voucher)
            .map(|promise| (promise.order, promise.place))
            .collect();
        for page in of_voucher.chunks(PAGE as usize) {
            done.add(restore(link, keys, voucher, Entry::Add, page).await?);
        }
    }
    if done != Reconciled::default() {
        tracing::warn!(
            restored = done.restored,
            refused = done.refused.len(),
            "Redis had forgotten buyers"
        );
    }
    Ok(done)
}

/// Sales of a partition that Redis has to hold.
async fn sales_of(
    store: &SharedStore,
    keys: &Layout,
    of: &Partition,
) -> Result<Vec<Sale>, EngineError> {
    let mut sales = store.sales().await?;
    sales.retain(|sale| keys.partition_of(sale.voucher_id) == *of);
    Ok(sales)
}

/// Loads what Redis lacks of a partition's sales: enough where another node has made this run of the server whole,
/// and this one has promised nothing.
pub(super) async fn load_missing(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    of: &Partition,
) -> Result<(), EngineError> {
    stream::ensure_group(link, of).await?;
    for sale in sales_of(store, keys, of).await? {
        if link.query::<bool>(cmd("EXISTS").arg(keys.stock(sale.voucher_id))).await? {
            vouchers::sync(link, keys, &sale).await?;
        } else {
            restore_sale(store, link, keys, &sale).await?;
        }
    }
    Ok(())
}

/// Whether some node has made the partition whole on this run of its server.
pub(super) async fn is_healed(
    link: &mut Link,
    of: &Partition,
    run_id: &str,
) -> Result<bool, EngineError> {
    let healed: Vec<String> = link.query(cmd("HVALS").arg(of.healed())).await?;
    Ok(healed.iter().any(|run| run == run_id))
}

/// Loads one sale and puts back every buyer of whom SQL holds a live order. Safe to repeat, also while
/// orders are written and closed.
pub(super) async fn restore_sale(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    sale: &Sale,
) -> Result<Reconciled, EngineError> {
    let (voucher, mut done) = (sale.voucher_id, Reconciled::default());
    // A sale that Redis has lost opens only once its buyers are back; version 0 gives way to any.
    let closed = Sale { state: SaleState::Paused, version: 0, ..sale.clone() };
    vouchers::sync(link, keys, &closed).await?;
    // Before the buyers: whoever was closed may hold another order by now.
    payment::give_back_again(store, link, keys, voucher).await?;
    let mut after: Option<OrderId> = None;
    loop {
        let page = store.live_orders(voucher, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        let page: Vec<_> = page.iter().map(|order| (order.id, order.seat())).collect();
        done.add(restore(link, keys, voucher, Entry::Leave, &page).await?);
    }
    faults::pass(Point::MidHeal);
    // And after them: one that was closed since its page was read was put back wrongly.
    payment::give_back_again(store, link, keys, voucher).await?;
    recount(link, keys, voucher).await?;
    vouchers::sync(link, keys, sale).await?;
    Ok(done)
}

/// Sets a sale's stock to what its buyers leave. Every script keeps it so; a Redis whose file was cut off within
/// one of them may do its first half at a later restart.
pub(super) async fn recount(
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
) -> Result<(), EngineError> {
    let mut call = scripts::RECOUNT.prepare_invoke();
    call.key(keys.sale(voucher)).key(keys.stock(voucher)).key(keys.buyers(voucher));
    let (before, now): (Option<String>, Option<i64>) = link.invoke(&call).await?;
    if now.is_some_and(|now| before != Some(now.to_string())) {
        tracing::warn!(%voucher, before, now, "the stock was counted anew");
    }
    Ok(())
}

impl Reconciled {
    fn add(&mut self, other: Self) {
        self.restored += other.restored;
        self.promised.extend(other.promised);
        self.refused.extend(other.refused);
    }
}

/// Whether an entry is added with the buyer; a repeated one does no harm, its order is there already.
#[derive(Clone, Copy)]
enum Entry {
    Leave,
    Add,
}

async fn restore(
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
    entry: Entry,
    buyers: &[(OrderId, Place)],
) -> Result<Reconciled, EngineError> {
    let mut call = scripts::RESTORE.prepare_invoke();
    let of = keys.partition_of(voucher);
    call.key(keys.stock(voucher)).key(keys.buyers(voucher)).key(of.orders()).key(of.dead());
    call.arg(voucher.0).arg(match entry {
        Entry::Leave => "book",
        Entry::Add => "enqueue",
    });
    for (order, place) in buyers {
        call.arg(place.user.0).arg(place.number).arg(order.get());
    }
    let (restored, refused, promised): (u64, Vec<String>, Vec<String>) = link.invoke(&call).await?;
    let ids = |ids: Vec<String>| ids.iter().filter_map(|id| id.parse().ok()).collect();
    Ok(Reconciled { restored, refused: ids(refused), promised: ids(promised) })
}

/// Nodes with their last signs, and for which run of the server each of them has told its promises.
type Peers = (Vec<(Text, f64)>, Vec<(Text, Text)>);

/// Says that `node` has put back what it knows into this run of the server, and waits until every
/// node that was alive has done so, or was silent for too long: those of `peers`, whom this node saw
/// alive before, and those whose last signs of life Redis still knows.
pub async fn await_peers(
    link: &mut Link,
    of: &Partition,
    node: &str,
    run_id: &str,
    peers: &[String],
    dead_ms: u64,
) -> Result<(), EngineError> {
    let mut say = cmd("HSET");
    say.arg(of.healed()).arg(node).arg(run_id);
    link.query::<u64>(&say).await?;
    let mut look = pipe();
    look.cmd("ZRANGE").arg(of.nodes()).arg(0).arg(-1).arg("WITHSCORES");
    look.cmd("HGETALL").arg(of.healed());
    let until = Instant::now() + GRACE;
    loop {
        let (nodes, healed): Peers = link.pipe(&look).await?;
        let nodes: Vec<_> = nodes.into_iter().map(|(Text(name), at)| (name, at)).collect();
        let healed: HashMap<_, _> = healed.into_iter().map(|(name, run)| (name.0, run.0)).collect();
        let healed = |name: &str| healed.get(name).is_some_and(|run| run == run_id);
        let open: Vec<&(String, f64)> = nodes.iter().filter(|(name, _)| !healed(name)).collect();
        // Alive is told among those that are waited for: how long Redis was down does not count. Of one
        // alone it can't be told, and one that was silent for minutes is a corpse.
        let newest = open.iter().map(|(_, at)| *at).fold(0.0, f64::max);
        let latest = nodes.iter().map(|(_, at)| *at).fold(0.0, f64::max);
        let newest = if latest - newest > CORPSE_MS { latest } else { newest };
        let seen = peers.iter().filter(|name| !healed(name)).map(String::as_str);
        let told = open.iter().filter(|(_, at)| newest - at < dead_ms as f64);
        let missing = seen.chain(told.map(|(name, _)| name.as_str())).next();
        match missing {
            None => return Ok(()),
            Some(missing) if Instant::now() > until => {
                tracing::warn!(missing, "a node does not answer for what it promised; going on");
                return Ok(());
            }
            Some(_) => tokio::time::sleep(PEER_POLL).await,
        }
    }
}
