//! Orders over time, each counted in one pass along the primary key.

use seckill_model::{Millis, OrderId, order_id::EPOCH_SECONDS};

use crate::{Fault, Result, Store, params, read};

/// Orders written later than this after their admission are omitted from a chart.
const DAY_S: i64 = 24 * 3_600;
/// Last Unix second that an order ID can hold.
const LAST_S: i64 = EPOCH_SECONDS + (1 << 31) - 1;

/// Orders in SQL, counted per interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderFlow {
    /// Begin of the first interval.
    pub from: Millis,
    /// Length of an interval in seconds.
    pub step_s: u32,
    /// By the second in which the ID was issued; orders not yet in SQL are missing.
    pub admitted: Vec<u64>,
    /// By the time of writing.
    pub persisted: Vec<u64>,
}

impl Store {
    /// Orders over time: `spans` intervals of `step_s` seconds each, from `from`.
    pub async fn order_flow(&self, from: Millis, step_s: u32, spans: u32) -> Result<OrderFlow> {
        let (step_s, step) = (step_s.max(1), i64::from(step_s.max(1)));
        let begin = from.0.div_euclid(1_000).clamp(EPOCH_SECONDS, LAST_S);
        let end = begin.saturating_add(step.saturating_mul(spans.into())).min(LAST_S);
        read!(self, |conn| {
            let quotient = conn.dialect().quotient;
            let issued = format!("{} - $1", quotient("id", "4294967296"));
            let query = format!(
                "SELECT {} AS slot, COUNT(*) FROM tb_voucher_order \
                 WHERE id >= $3 AND id < $4 GROUP BY slot",
                quotient(&issued, "$2")
            );
            let values = params![begin - EPOCH_SECONDS, step, first_id(begin), first_id(end)];
            let admitted = bars(&conn.rows(query, values).await?, spans);
            let query = format!(
                "SELECT {} AS slot, COUNT(*) FROM tb_voucher_order \
                 WHERE id >= $3 AND id < $4 AND create_time >= $1 AND create_time < $5 \
                 GROUP BY slot",
                quotient("create_time - $1", "$2")
            );
            // An order is written after its ID was issued, and seldom much later, so the primary key covers all of
            // them. After a restart of Redis, IDs are dated ahead; earlier versions dated them by the clock of a node.
            let first = first_id((begin - DAY_S).max(EPOCH_SECONDS));
            let last = first_id((end + 120).min(LAST_S));
            let values = params![begin * 1_000, step * 1_000, first, last, end * 1_000];
            let persisted = bars(&conn.rows(query, values).await?, spans);
            Ok(OrderFlow { from: Millis(begin * 1_000), step_s, admitted, persisted })
        })
    }
}

/// The bars of a chart from the index of an interval and its number of orders.
fn bars(rows: &[(i64, u64)], spans: u32) -> Vec<u64> {
    let mut bars = vec![0; spans as usize];
    for (span, count) in rows {
        if let Some(bar) = usize::try_from(*span).ok().and_then(|span| bars.get_mut(span)) {
            *bar += count;
        }
    }
    bars
}

fn first_id(second: i64) -> i64 {
    OrderId::new(second, 0).map_or(i64::MAX, OrderId::as_i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_outside_of_a_chart_are_omitted() {
        assert_eq!(bars(&[(1, 3), (2, 9), (-1, 9)], 2), [0, 3]);
    }
}
