//! Orders over time: ID and time ranges of a chart, and its bars from counted rows, each counted in one pass along the
//! primary key.

use seckill_model::{Millis, OrderId, order_id::EPOCH_SECONDS};

use super::super::{Store, StoreError, connection::params, fault::Fault, store::read};

/// Orders written later than this after their admission are omitted from a chart.
const DAY_S: i64 = 24 * 3_600;
/// Last Unix second that an order id can hold.
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
    pub async fn order_flow(
        &self,
        from: Millis,
        step_s: u32,
        spans: u32,
    ) -> Result<OrderFlow, StoreError> {
        let window = Window::new(from, step_s, spans);
        read!(self, |conn| {
            let quotient = conn.dialect().quotient;
            let [begin, step, first, last] = window.by_id();
            let issued = format!("{} - $1", quotient("id", "4294967296"));
            let query = format!(
                "SELECT {} AS slot, COUNT(*) FROM tb_voucher_order \
                 WHERE id >= $3 AND id < $4 GROUP BY slot",
                quotient(&issued, "$2")
            );
            let admitted: Vec<Counted> =
                conn.rows(query, params![begin, step, first, last]).await?;
            let [begin, step, end, first, last] = window.by_time();
            let query = format!(
                "SELECT {} AS slot, COUNT(*) FROM tb_voucher_order \
                 WHERE id >= $3 AND id < $4 AND create_time >= $1 AND create_time < $5 \
                 GROUP BY slot",
                quotient("create_time - $1", "$2")
            );
            let persisted: Vec<Counted> =
                conn.rows(query, params![begin, step, first, last, end]).await?;
            Ok(window.flow(&admitted, &persisted))
        })
    }
}

/// A time range, as the numbers used in the statements.
#[derive(Clone, Copy, Debug)]
struct Window {
    step_s: i64,
    spans: usize,
    /// Unix second of its begin.
    begin_s: i64,
}

/// Index of an interval, and its number of orders.
type Counted = (i64, i64);

impl Window {
    fn new(from: Millis, step_s: u32, spans: u32) -> Self {
        let begin_s = from.0.div_euclid(1_000).clamp(EPOCH_SECONDS, LAST_S);
        Self { step_s: i64::from(step_s.max(1)), spans: spans as usize, begin_s }
    }

    fn end_s(&self) -> i64 {
        (self.begin_s + self.step_s.saturating_mul(self.spans as i64)).min(LAST_S)
    }

    /// Begin and step in seconds since the ID epoch, the first ID, and the one after the last.
    fn by_id(&self) -> [i64; 4] {
        [self.begin_s - EPOCH_SECONDS, self.step_s, first_id(self.begin_s), first_id(self.end_s())]
    }

    /// Begin, step and end in milliseconds, the first ID, and the one after the last: an order is written after its ID
    /// was issued, and seldom much later, so the primary key covers all of them.
    fn by_time(&self) -> [i64; 5] {
        let first = first_id((self.begin_s - DAY_S).max(EPOCH_SECONDS));
        // The clocks of nodes and Redis differ slightly.
        let last = first_id((self.end_s() + 60).min(LAST_S));
        [self.begin_s * 1_000, self.step_s * 1_000, self.end_s() * 1_000, first, last]
    }

    fn flow(&self, admitted: &[Counted], persisted: &[Counted]) -> OrderFlow {
        let bars = |rows: &[Counted]| {
            let mut bars = vec![0; self.spans];
            for (span, count) in rows {
                let bar = usize::try_from(*span).ok().and_then(|span| bars.get_mut(span));
                if let Some(bar) = bar {
                    *bar += u64::try_from(*count).unwrap_or(0);
                }
            }
            bars
        };
        OrderFlow {
            from: Millis(self.begin_s * 1_000),
            step_s: self.step_s as u32,
            admitted: bars(admitted),
            persisted: bars(persisted),
        }
    }
}

fn first_id(second: i64) -> i64 {
    OrderId::new(second, 0).map_or(i64::MAX, OrderId::as_i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_clamped_to_the_id_range() {
        for from in [i64::MIN, 0, 1_795_000_000_000, i64::MAX] {
            let window = Window::new(Millis(from), u32::MAX, 60);
            let [_, _, first, last] = window.by_id();
            assert!((0..=last).contains(&first), "{from}: {first} {last}");
        }
        let flow =
            Window::new(Millis(1_795_000_000_999), 10, 2).flow(&[(1, 3), (2, 9), (-1, 9)], &[]);
        assert_eq!(flow.from, Millis(1_795_000_000_000));
        assert_eq!((flow.admitted, flow.persisted), (vec![0, 3], vec![0, 0]));
    }
}
