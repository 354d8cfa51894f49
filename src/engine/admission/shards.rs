//! Sales that are spread over shards: when they are sold out, and which of their pieces move.
//!
//! A user always asks the same shard. If it has no piece left, the request waits while a task of the node looks at all
//! shards: it moves half of the pieces of the fullest ones to the dry ones, or finds that all are sold out. For that, all
//! shards must have been empty at the same moment with no piece on its way: it reads them, then the versions in SQL, then
//! the shards again, at these versions and without a change in between.
//!
//! Nothing moves while SQL is unreachable, or has been restored from an older copy and not repaired yet: requests whose
//! shard is dry are then answered with `Busy`.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use redis::{Value, cmd};
use seckill_model::{SaleId, SaleShard, ShardId, Spread, sale::split};
use tokio_util::sync::CancellationToken;

use super::{
    Admission, admit_call,
    reply::{Decision, decision},
};
use crate::{
    Result, deployment::servers::Servers, ledger::sale_copy::sync, node::context::NodeContext,
    orders::vouchers::Vouchers, recovery::sharded_sale::ShardedSale, telemetry::data_loss::Closed,
};

/// How often Redis is asked while that is in use.
const REVALIDATE_INTERVAL: Duration = Duration::from_millis(25);
/// Pause after a look that changed nothing, for example because pieces are on their way.
const RETRY_AFTER: Duration = Duration::from_millis(5);
/// Pause while a server does not answer.
const OUTAGE_PAUSE: Duration = Duration::from_millis(200);

/// What Redis says about a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    OnSale {
        left: u64,
    },
    /// At this change number.
    SoldOut {
        seq: String,
    },
    /// It stays closed until an operator resolves that.
    Closed(Closed),
    /// Neither: pieces are on their way, it is not open, or Redis did not answer.
    Unclear,
}

/// The task that looks at the shards, one for each node. It ends with the token that [`Rebalancer::run`] is given.
#[derive(Debug)]
pub struct Rebalancer {
    context: NodeContext,
    admission: Admission,
    servers: Servers,
    /// What was last proven to be sold out.
    proven: HashMap<SaleId, Vec<State>>,
}

impl Rebalancer {
    /// The task of a node, beside its admission.
    pub fn new(context: &NodeContext, admission: &Admission) -> Self {
        let servers = context.deployment.servers();
        Self {
            context: context.clone(),
            admission: admission.clone(),
            servers,
            proven: HashMap::new(),
        }
    }

    /// Works until `stop` is cancelled. A move that has begun is completed: its pieces are in neither shard.
    pub async fn run(mut self, stop: CancellationToken) {
        let wake = self.context.versions.wake();
        while !stop.is_cancelled() {
            let mut pause = None;
            for sale in self.context.versions.all_sharded() {
                if sale.is_due() {
                    let next = self.look(&sale).await;
                    pause = pause.map_or(Some(next), |pause: Duration| Some(pause.min(next)));
                    sale.note_look();
                }
            }
            let pausing = async {
                match pause {
                    Some(REVALIDATE_INTERVAL) => {
                        let _ = tokio::time::timeout(REVALIDATE_INTERVAL, wake.notified()).await;
                    }
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => wake.notified().await,
                }
            };
            stop.run_until_cancelled(pausing).await;
        }
    }

    /// Looks at the shards of a sale; returns when to look again.
    async fn look(&mut self, sale: &ShardedSale) -> Duration {
        let (spread, dry) = (sale.spread, sale.take_dry());
        let sent = Instant::now();
        let states = self.states(spread, &[]).await;
        let is_sold_out = states.iter().all(|state| matches!(state, State::SoldOut { .. }));
        let is_closed =
            states.iter().all(|state| matches!(state, State::SoldOut { .. } | State::Closed(_)));
        let closed = states.iter().find_map(|state| match state {
            State::Closed(closed) => Some(*closed),
            _ => None,
        });
        sale.note_closed(closed.filter(|_| is_closed));
        if is_sold_out && self.proven.get(&spread.sale) == Some(&states) {
            sale.note_sold_out(sent);
            return REVALIDATE_INTERVAL;
        }
        sale.invalidate();
        if is_sold_out {
            // A piece that SQL has moved and Redis has not received yet shows as a newer version.
            let Ok(parts) = self.servers.store.shards_of(spread.sale).await else {
                return OUTAGE_PAUSE;
            };
            let sent = Instant::now();
            if self.states(spread, &parts).await != states {
                return RETRY_AFTER;
            }
            self.proven.insert(spread.sale, states);
            sale.note_sold_out(sent);
            return REVALIDATE_INTERVAL;
        }
        let mut stocks: Vec<(u64, ShardId)> = Vec::new();
        for (shard, state) in spread.all().zip(states) {
            match state {
                State::OnSale { left } => stocks.push((left, shard)),
                State::Unclear => self.settle(shard).await,
                State::SoldOut { .. } | State::Closed(_) => {}
            }
        }
        // A shard that has pieces again serves those who wait for it.
        let is_served = |dry: &ShardId| stocks.iter().any(|(_, shard)| shard == dry);
        let dry: Vec<ShardId> = dry.into_iter().filter(|dry| !is_served(dry)).collect();
        let mut pause = if dry.is_empty() { REVALIDATE_INTERVAL } else { RETRY_AFTER };
        if !dry.is_empty() && !stocks.is_empty() {
            let (from, to) = share(stocks, &dry);
            let mut vouchers = Vouchers { servers: &mut self.servers };
            match vouchers.move_pieces(&from, &to).await {
                Ok(true) => pause = REVALIDATE_INTERVAL,
                Ok(false) => {}
                Err(error) => {
                    if error.is_away() {
                        pause = OUTAGE_PAUSE;
                    }
                    tracing::debug!(?from, ?to, %error, "no pieces were moved to shards that have none");
                }
            }
        }
        self.admission.invalidate_refusals();
        pause
    }

    /// Delivers what SQL has to a shard that a process left in the middle of a change, or puts its pieces back.
    async fn settle(&mut self, shard: ShardId) {
        let settling = async {
            let sale = self.servers.store.shard(shard).await?;
            sync(&mut self.servers, &sale, "").await
        };
        if let Err(error) = settling.await {
            tracing::debug!(%shard, %error, "a shard is not settled yet");
        }
    }

    /// The state of each shard, at the version of `parts` at least.
    async fn states(&mut self, spread: Spread, parts: &[SaleShard]) -> Vec<State> {
        let mut looks = Vec::new();
        for shard in spread.all() {
            let version = parts.iter().find(|it| it.id == shard);
            let version = version.map_or(0, |sale| sale.version);
            looks.push(self.prepare_look(shard, version).await.ok());
        }
        let look = async |prepared: Option<Look>| match prepared {
            Some(look) => look.await.unwrap_or(State::Unclear),
            None => State::Unclear,
        };
        join_all(looks.into_iter().map(look)).await
    }

    async fn prepare_look(&mut self, shard: ShardId, version: u64) -> Result<Look> {
        let Servers { conn, keys, .. } = &mut self.servers;
        let of = keys.partition_of(shard);
        let here = of.reconciled();
        let run_id = conn.run_id(&here).await?;
        let mut connection = conn.multiplexed(&here).await?;
        let mut call = admit_call(keys, &of, shard, &self.context.node, &run_id, version, 0);
        call.arg(0);
        let (is_cutting, stock) = (
            cmd("HEXISTS").arg(keys.sale(shard)).arg("cutting").to_owned(),
            cmd("GET").arg(keys.stock(shard)).to_owned(),
        );
        let closed = cmd("HMGET").arg(keys.sale(shard)).arg("oversold").arg("restoring").take();
        Ok(async move {
            let reply: Value = call.invoke_async(&mut connection).await?;
            if is_cutting.query_async(&mut connection).await? {
                return Ok(State::Unclear);
            }
            Ok(match decision(reply) {
                Some(Decision::WouldRefuse { seq }) => State::SoldOut { seq },
                Some(Decision::SaleDamaged) => {
                    let (oversold, restoring): (Option<String>, Option<String>) =
                        closed.query_async(&mut connection).await?;
                    Closed::of(oversold.as_deref(), restoring.as_deref())
                        .map_or(State::Unclear, State::Closed)
                }
                Some(Decision::WouldAdmit) => {
                    let left: Option<u64> = stock.query_async(&mut connection).await?;
                    left.filter(|left| *left > 0)
                        .map_or(State::Unclear, |left| State::OnSale { left })
                }
                _ => State::Unclear,
            })
        }
        .boxed())
    }
}

/// Pieces of shards.
type Pieces = Vec<(ShardId, u64)>;

/// Half of the pieces of the fullest shards, as many as are dry, and what each of the dry ones receives of them.
fn share(mut stocks: Vec<(u64, ShardId)>, dry: &[ShardId]) -> (Pieces, Pieces) {
    stocks.sort_unstable_by(|one, other| other.cmp(one));
    stocks.truncate(dry.len());
    let from: Pieces = stocks.into_iter().map(|(left, id)| (id, left.div_ceil(2))).collect();
    let all = from.iter().map(|(_, pieces)| pieces).sum();
    let to = dry.iter().copied().zip(split(all, dry.len() as u64));
    (from, to.filter(|(_, pieces)| *pieces > 0).collect())
}

type Look = BoxFuture<'static, redis::RedisResult<State>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_shards_share_with_the_dry_ones() {
        let id = |number| ShardId { sale: SaleId(1), number };
        let stocks = || vec![(3, id(1)), (9, id(2)), (1, id(3))];
        let (from, to) = share(stocks(), &[id(7)]);
        assert_eq!((from, to), (vec![(id(2), 5)], vec![(id(7), 5)]));
        let (from, to) = share(stocks(), &[id(7), id(8)]);
        assert_eq!((from, to), (vec![(id(2), 5), (id(1), 2)], vec![(id(7), 4), (id(8), 3)]));
        let (from, to) = share(vec![(1, id(3))], &[id(7), id(8)]);
        assert_eq!((from, to), (vec![(id(3), 1)], vec![(id(7), 1)]));
    }
}
