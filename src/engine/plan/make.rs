//! Making a plan: walks the pending list once, page by page.

use std::collections::BTreeMap;

use super::{Change, Forecast, Head, Line, Plan, SaleForecast, Totals, file::Writer, lost};
use tokio_util::sync::CancellationToken;

use seckill_model::{EntryId, Sale, Verdict, VoucherId, counted, filter::Filter};
use seckill_redis::stream_stats;

use crate::error::PlanFault;
use crate::telemetry::snapshot::RecoveryLine;
use crate::{
    EngineError, deployment,
    operator::Operator,
    pending::{Judge, Judged},
};

/// Its on-screen name.
pub const PLAN: &str = "pending plan";

const VERSION: u32 = 1;

/// Plans the entries that match the filter and are pending now.
///
/// # Errors
/// A server is unreachable, `stop` was requested, or the plan cannot be stored.
pub async fn make(
    operator: &Operator,
    filter: &Filter,
    stop: &CancellationToken,
) -> Result<Plan, EngineError> {
    let mut conn = operator.deployment.redis.connection();
    let at = stream_stats::read_stats(&mut conn, &operator.deployment.keys, &[]).await?;
    let shown = operator.meters.recovery_begins(RecoveryLine {
        act: PLAN.to_owned(),
        done: 0,
        planned: at.stream.pending,
        changes: false,
    });
    let mut making = Making::begin(operator, filter.to_string()).await?;
    // Entries that become pending from now on are ignored.
    let last = EntryId::last_of(u64::try_from(making.writer.head().made.0).unwrap_or(0));
    let (mut next, mut looked) = (Some(EntryId::MIN), 0);
    while let Some(first) = next {
        let page = making.judge.page(first, last).await?;
        let Some(end) = page.last() else { break };
        next = end.row.delivered.entry.next_of_all();
        looked += page.len() as u64;
        making.add(page.iter().filter(|judged| judged.passes(filter)))?;
        shown.progress(looked);
        if stop.is_cancelled() {
            return Err(EngineError::Stopping);
        }
    }
    making.end(operator, stop).await
}

/// Plans these entries; those that are not pending are omitted.
///
/// # Errors
/// As [`make`].
pub async fn of_entries(
    operator: &Operator,
    entries: &[EntryId],
    stop: &CancellationToken,
) -> Result<Plan, EngineError> {
    let what = match entries {
        [only] => format!("entry={only}"),
        many => format!("{} by name", counted(many.len() as u64, "entry", "entries")),
    };
    let mut making = Making::begin(operator, what).await?;
    let mut judged = making.judge.entries(entries).await?;
    judged.sort_by_key(|judged| judged.row.delivered.entry);
    judged.dedup_by_key(|judged| judged.row.delivered.entry);
    making.add(judged.iter())?;
    making.end(operator, stop).await
}

struct Making {
    judge: Judge,
    writer: Writer,
    totals: Totals,
    /// Orders to write, by sale.
    writes: BTreeMap<VoucherId, u64>,
}

impl Making {
    async fn begin(operator: &Operator, filter: String) -> Result<Self, EngineError> {
        let made = operator.deployment.redis.connection().now().await?;
        let up_to = EntryId::last_of(u64::try_from(made.0).unwrap_or(0));
        let deployment = deployment::name(&operator.deployment.store, operator.read_only).await?;
        let head = Head { seckill_plan: VERSION, deployment, made, filter, up_to };
        let judge = operator.judge().await?;
        let writer = Writer::new(head).map_err(PlanFault::from)?;
        Ok(Self { judge, writer, totals: Totals::default(), writes: BTreeMap::new() })
    }

    fn add<'a>(&mut self, judged: impl Iterator<Item = &'a Judged>) -> Result<(), PlanFault> {
        for judged in judged {
            let line = Line::from(judged);
            self.totals.add(&line);
            if let Some(voucher) = line.voucher_id.filter(|_| line.verdict == Verdict::Stuck) {
                *self.writes.entry(voucher).or_default() += 1;
            }
            self.writer.line(&line)?;
        }
        Ok(())
    }

    async fn end(
        mut self,
        operator: &Operator,
        stop: &CancellationToken,
    ) -> Result<Plan, EngineError> {
        let rebuilt = if self.totals.of(Verdict::BodyGone) == 0 {
            0
        } else {
            // Read-only, so it may be dropped at any await.
            tokio::select! {
                () = stop.cancelled() => return Err(EngineError::Stopping),
                lost = lost::count(operator) => lost?,
            }
        };
        let sales = operator.deployment.store.sales().await?;
        let mut conn = operator.deployment.redis.connection();
        let at = stream_stats::read_stats(&mut conn, &operator.deployment.keys, &[]).await?;
        let totals = &self.totals;
        let to_dead =
            [Verdict::Malformed, Verdict::TooOften, Verdict::Refused, Verdict::NotPromised];
        let to_dead: u64 = to_dead.iter().map(|verdict| totals.of(*verdict)).sum();
        let persisted = sales.iter().map(Sale::live_orders).sum::<u64>();
        // Orders beyond the stock in SQL are refused, which is only detected entry by entry.
        let writes: u64 = self
            .writes
            .iter()
            .map(|(voucher, orders)| orders.min(&pieces(&sales, *voucher)).to_owned())
            .sum();
        let short = totals.of(Verdict::Stuck) - writes;
        let change = |now: u64, after: u64| Change { now, after };
        let pending = at.stream.pending;
        self.totals.forecast = Forecast {
            pending: change(pending, pending.saturating_sub(totals.to_do())),
            dead: change(at.stream.dead, at.stream.dead + to_dead + short),
            persisted: change(persisted, persisted + writes),
            rebuilt,
        };
        let of_sale = |(voucher, orders): (&VoucherId, &u64)| {
            let sale = sales.iter().find(|sale| sale.voucher_id == *voucher)?;
            let live = sale.live_orders();
            Some(SaleForecast {
                voucher_id: *voucher,
                persisted: change(live, live + orders.min(&sale.stock)),
                db_stock: change(sale.stock, sale.stock.saturating_sub(*orders)),
            })
        };
        let by_sale = self.writes.iter().filter_map(of_sale).collect();
        self.totals.sales = by_sale;
        Ok(self.writer.end(self.totals).map_err(PlanFault::from)?)
    }
}

fn pieces(sales: &[Sale], voucher: VoucherId) -> u64 {
    sales.iter().find(|sale| sale.voucher_id == voucher).map_or(0, |sale| sale.stock)
}
