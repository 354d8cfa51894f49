//! Recovery plans made without a server.

use seckill_engine::commands::plan::{Change, Head, Line, Plan, Totals, file::Writer};
use seckill_model::{EntryId, Millis, Verdict};

/// Makes a plan of entries with these verdicts; with a `filter`, a partial one.
pub(super) fn plan(entries: &[(EntryId, Verdict)], filter: &str) -> Plan {
    let head = Head {
        seckill_plan: 1,
        deployment: "d".into(),
        made: Millis(9),
        filter: filter.into(),
        up_to: EntryId::MAX,
    };
    let (mut writer, mut totals) = (Writer::new(head).unwrap(), Totals::default());
    for (entry, verdict) in entries {
        let line = Line {
            entry: *entry,
            verdict: *verdict,
            action: verdict.action(),
            consumer: "node\n\"a\"/1".into(),
            idle_ms: 7,
            deliveries: 1,
            order_id: "99".parse().ok(),
            user_id: None,
            voucher_id: None,
            fault: Some("订单 }],".into()),
        };
        totals.add(&line);
        writer.line(&line).unwrap();
    }
    let (all, stuck) = (totals.entries, totals.of(Verdict::Stuck));
    totals.forecast.pending = Change { now: all, after: all - totals.to_do() };
    totals.forecast.persisted = Change { now: 1_000, after: 1_000 + stuck };
    writer.end(totals).unwrap()
}
