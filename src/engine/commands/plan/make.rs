//! Making a plan: walks the pending list once, page by page.

use std::collections::BTreeMap;

use crate::commands::plan::{
    Change, Forecast, Head, Line, Plan, SaleForecast, Totals, file::Writer,
};
use tokio_util::sync::CancellationToken;

use seckill_model::{EntryId, RecoveryAction, ShardId, Verdict, VoucherId, filter::Filter};
use seckill_redis::{stream::Body, stream_stats};

use crate::{
    EngineError, Result,
    commands::{
        operator::Operator,
        pending::{Classified, Classifier},
    },
    deployment::{self, servers::Servers},
    error::PlanError,
    ledger,
    telemetry::snapshot::RecoveryLine,
};

/// Its on-screen name.
pub const PLAN: &str = "pending plan";

const VERSION: u32 = 1;

/// Plans the entries that match the filter and are pending now.
pub async fn make(operator: &Operator, filter: &Filter, stop: &CancellationToken) -> Result<Plan> {
    let mut conn = operator.deployment.redis.connection();
    let at = stream_stats::read_stats(&mut conn, &operator.deployment.keys, &[]).await?;
    let shown = operator.meters.recovery_begins(RecoveryLine {
        action: PLAN.to_owned(),
        done: 0,
        planned: at.stream.pending,
        changes: false,
    });
    let mut making = Making::begin(operator, filter.to_string()).await?;
    // Entries that become pending from now on are ignored.
    let last = EntryId::last_of(making.writer.head().made);
    let (mut next, mut looked) = (Some(EntryId::MIN), 0);
    while let Some(first) = next {
        let page = making.classifier.page(first, last).await?;
        let Some(end) = page.last() else { break };
        next = end.row.delivered.entry.next_of_all();
        looked += page.len() as u64;
        making.add(page.iter().filter(|it| it.passes(filter)))?;
        shown.progress(looked);
        if stop.is_cancelled() {
            return Err(EngineError::Stopping);
        }
    }
    making.end(operator, stop).await
}

/// Plans these entries; those that are not pending are omitted.
pub async fn of_entries(
    operator: &Operator,
    entries: &[EntryId],
    stop: &CancellationToken,
) -> Result<Plan> {
    let what = match entries {
        [only] => format!("entry={only}"),
        many => format!("entries={}", many.len()),
    };
    let mut making = Making::begin(operator, what).await?;
    let mut found = making.classifier.entries(entries).await?;
    found.sort_by_key(|it| it.row.delivered.entry);
    found.dedup_by_key(|it| it.row.delivered.entry);
    making.add(found.iter())?;
    making.end(operator, stop).await
}

struct Making {
    classifier: Classifier,
    writer: Writer,
    totals: Totals,
    /// Orders to write, by shard: each has a stock of its own.
    writes: BTreeMap<ShardId, u64>,
}

impl Making {
    async fn begin(operator: &Operator, filter: String) -> Result<Self> {
        let made = operator.deployment.redis.connection().now().await?;
        let up_to = EntryId::last_of(made);
        let deployment = deployment::name(&operator.deployment.store, operator.read_only).await?;
        let head = Head { seckill_plan: VERSION, deployment, made, filter, up_to };
        let classifier = operator.classifier(operator.servers()).await?;
        let writer = Writer::new(head).map_err(PlanError::from)?;
        Ok(Self { classifier, writer, totals: Totals::default(), writes: BTreeMap::new() })
    }

    fn add<'a>(&mut self, entries: impl Iterator<Item = &'a Classified>) -> Result<(), PlanError> {
        for entry in entries {
            let line = Line::from(entry);
            self.totals.add(&line);
            if line.verdict == Verdict::Stuck
                && let Body::Good(order) = &entry.row.delivered.body
            {
                *self.writes.entry(order.sold_by()).or_default() += 1;
            }
            self.writer.line(&line)?;
        }
        Ok(())
    }

    async fn end(mut self, operator: &Operator, stop: &CancellationToken) -> Result<Plan> {
        let mut servers = operator.servers();
        let rebuilt = if self.totals.of(Verdict::BodyGone) == 0 {
            0
        } else {
            // Read-only, so it may be dropped at any await.
            let lost = stop.run_until_cancelled(lost(&mut servers)).await;
            lost.unwrap_or(Err(EngineError::Stopping))?
        };
        let sales = servers.store.readable_sales().await?.shards;
        let at = stream_stats::read_stats(&mut servers.conn, &servers.keys, &[]).await?;
        let mut written: BTreeMap<VoucherId, u64> = BTreeMap::new();
        for part in &sales {
            if let Some(orders) = self.writes.get(&part.id) {
                // Orders beyond the stock in SQL are refused, which is only detected entry by entry.
                *written.entry(part.voucher_id).or_default() += part.stock.min(*orders);
            }
        }
        let by_sale = written.iter().map(|(&voucher_id, written)| {
            let parts = || sales.iter().filter(|part| part.voucher_id == voucher_id);
            let live = parts().map(|part| part.live_orders()).sum::<u64>();
            let stock = parts().map(|part| part.stock).sum::<u64>();
            SaleForecast {
                voucher_id,
                persisted: Change { now: live, after: live + written },
                db_stock: Change { now: stock, after: stock - written },
            }
        });
        let writes: u64 = written.values().sum();
        let totals = &mut self.totals;
        let to_dead = totals.verdicts.iter().filter(|it| it.action == RecoveryAction::DeadLetter);
        let to_dead: u64 = to_dead.map(|it| it.entries).sum();
        let refused = totals.of(Verdict::Stuck) - writes;
        let persisted = sales.iter().map(|part| part.live_orders()).sum::<u64>();
        let (pending, dead) = (at.stream.pending, at.stream.dead);
        totals.forecast = Forecast {
            pending: Change { now: pending, after: pending.saturating_sub(totals.to_do()) },
            dead: Change { now: dead, after: dead + to_dead + refused },
            persisted: Change { now: persisted, after: persisted + writes },
            rebuilt,
        };
        totals.sales = by_sale.collect();
        Ok(self.writer.end(self.totals).map_err(PlanError::from)?)
    }
}

/// Number of admitted orders that only the buyers hold: what a rebuild would enqueue.
async fn lost(servers: &mut Servers) -> Result<u64> {
    let mut lost = 0;
    for sale in servers.store.readable_sales().await?.shards {
        lost += ledger::lost_orders(servers, sale.id).await?.len() as u64;
    }
    Ok(lost)
}
