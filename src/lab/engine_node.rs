//! A node of the engine in a process of the lab, on the lab's servers.

use std::{fmt, time::Duration};

use seckill_engine::{
    admission::Admission,
    deployment::{Deployment, servers::Servers, settings::Settings},
    node::{Node, NodeConfig, heartbeat::take_name},
    orders::vouchers::Vouchers,
};
use seckill_model::{Millis, NewSale, Outcome, UserId, VoucherId, reason};
use seckill_redis::{Layout, Redis};
use seckill_store::{SharedStore, StoreError};
use tokio::time::timeout;

use crate::{LabError, Result, parent::Reply, trace::Instant, work::VOUCHER};

/// Timeout for a node to open the database, and to reconcile the sale; then it admits.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between two attempts to open the database.
const OPEN_PAUSE: Duration = Duration::from_millis(50);

/// Creates the tables of the engine in an empty database, and its sale.
pub(crate) async fn set_up(database: &str, redis: &Redis, stock: u32) -> Result<()> {
    let store = open(database).await?;
    // The sale has the number that all designs sell.
    store.reserve_numbers(VoucherId(VOUCHER as u64 - 1)).await?;
    let sale = NewSale::checked("lab", stock.into(), None, None, Millis::now());
    let mut servers = Servers::new(redis, &store, &Layout::default());
    let sale = sale.map_err(LabError::Invalid)?;
    let created = Vouchers { servers: &mut servers }.create(&sale).await;
    store.close().await;
    let number = created?.voucher_id;
    if number != VoucherId(VOUCHER as u64) {
        return Err(LabError::Invalid(reason!("lab-engine-voucher", number)));
    }
    Ok(())
}

/// Opens the database. On a slow disk, another instance may hold a SQLite file for longer than one attempt waits.
async fn open(database: &str) -> Result<SharedStore> {
    let until = std::time::Instant::now() + START_TIMEOUT;
    loop {
        match seckill_store::open(database, &seckill_store::Settings::default()).await {
            Err(StoreError::Locked) if std::time::Instant::now() < until => {
                tokio::time::sleep(OPEN_PAUSE).await;
            }
            opened => return Ok(opened?),
        }
    }
}

/// A running node; it ends with its process.
pub(crate) struct EngineNode {
    node: Node,
    admission: Admission,
}

impl fmt::Debug for EngineNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EngineNode").field(&self.node).finish()
    }
}

impl EngineNode {
    /// Starts a node, and waits until it admits. One that does not consume leaves the orders to others.
    pub(crate) async fn start(
        database: &str,
        redis: &Redis,
        instance: u32,
        consumes: bool,
    ) -> Result<Self> {
        let store = open(database).await?;
        let (keys, settings) = (Layout::default(), Settings::default());
        let deployment = Deployment { redis: redis.clone(), store, keys, settings };
        let name = format!("lab-{instance}");
        let process = format!("{}-{}", std::process::id(), Instant::now().0);
        let mut servers = deployment.servers();
        // A process of that name was killed and is gone: there is no need to wait until it counts as dead.
        let dead_ms = deployment.settings.node_dead_ms;
        take_name(&mut servers, &name, &process, dead_ms, true).await?;
        let config = NodeConfig { deployment, name, instance: process, read_only: false };
        let node = Node::start(config);
        let late =
            || LabError::Invalid(reason!("lab-instance-late", seconds = START_TIMEOUT.as_secs()));
        let Some(admission) = node.operator().admission.clone() else { return Err(late()) };
        if !consumes && !node.hold_consumer(true).await {
            return Err(late());
        }
        // As in the other designs, connections are open before the first buyer comes. The node replies once it has
        // reconciled Redis; there is no such sale.
        let first = admission.request(VoucherId(1), UserId(1)).answer();
        timeout(START_TIMEOUT, first).await.map_err(|_| late())?;
        Ok(Self { node, admission })
    }

    pub(crate) async fn admit(&self, user: i64) -> Result<Reply> {
        let (voucher, user) = (VoucherId(VOUCHER as u64), UserId(user as u64));
        let reply = self.admission.request(voucher, user).answer().await;
        Ok(match reply.outcome {
            Ok(Outcome::Admitted { order }) => Reply::Bought(order.as_i64()),
            Ok(Outcome::Duplicate { .. }) => Reply::Duplicate,
            Ok(Outcome::SoldOut) => Reply::SoldOut,
            Ok(other) => Reply::Failed(other.to_string().into()),
            Err(error) => Reply::Failed(error.to_string().into()),
        })
    }
}
