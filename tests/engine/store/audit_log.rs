use seckill_model::{Millis, OrderEntry, OrderId};
use seckill_store::{ActivityFilter, AuditEntry, NO_OPERATOR, SharedStore, Which};

use crate::world::newest;

use super::{NOW, entry, sale_of};

fn audit_entry(at: i64, subject: &str) -> AuditEntry {
    AuditEntry {
        at: NOW.plus(at),
        operator: "小明".into(),
        node: "node-a".into(),
        action: "sale end".into(),
        subject: subject.into(),
        result: "done".into(),
        ..AuditEntry::default()
    }
}

fn event(at: i64, subject: &str) -> AuditEntry {
    AuditEntry {
        operator: NO_OPERATOR.into(),
        action: "redis away".into(),
        ..audit_entry(at, subject)
    }
}

pub(crate) async fn a_line_keeps_all_that_it_was_given(store: SharedStore) {
    let full = AuditEntry {
        reason: Some("因为 🍲".into()),
        before: Some(r#"{"pending":128}"#.into()),
        after: Some(r#"{"pending":0}"#.into()),
        once: Some("x".repeat(200)),
        ..audit_entry(1, "full")
    };
    store.record(&full).await.unwrap();
    store.record(&audit_entry(2, "as an older version wrote it")).await.unwrap();
    let older = audit_entry(2, "as an older version wrote it");
    assert_eq!(newest(&store, 9).await, [older.clone(), full]);
    assert_eq!(newest(&store, 1).await, [older]);
}

pub(crate) async fn a_line_is_written_once(store: SharedStore) {
    let twice = AuditEntry { once: Some("redis away|7".into()), ..event(1, "redis") };
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, twice) = (store.clone(), twice.clone());
            tokio::spawn(async move { store.record(&twice).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let other = AuditEntry { once: Some("Redis away|7".into()), ..event(2, "redis") };
    store.record(&other).await.unwrap();
    assert_eq!(newest(&store, 99).await, [other, twice]);
    // Lines without a group stand alone.
    for _ in 0..2 {
        store.record(&audit_entry(3, "same")).await.unwrap();
    }
    assert_eq!(newest(&store, 99).await.len(), 4);
}

pub(crate) async fn the_log_comes_in_pages_by_time(store: SharedStore) {
    // Written in a different order than they happened, two of them in the same millisecond.
    for line in [
        audit_entry(30, "c"),
        event(10, "a"),
        audit_entry(20, "b1"),
        audit_entry(20, "b2"),
        event(40, "d"),
    ] {
        store.record(&line).await.unwrap();
    }
    let reconciled = AuditEntry { operator: "engine".into(), ..audit_entry(50, "e") };
    store.record(&reconciled).await.unwrap();
    let read = async |filter: ActivityFilter, limit: u32| {
        let (mut subjects, mut before) = (Vec::new(), None);
        loop {
            let page = store.activity(&filter, before, limit).await.unwrap();
            assert!(page.len() <= limit as usize);
            let Some(last) = page.last() else { return subjects.join(" ") };
            before = Some(last.position());
            subjects.extend(page.into_iter().map(|line| line.subject.to_string()));
        }
    };
    let all = ActivityFilter::default();
    assert_eq!(read(all, 1).await, "e d c b2 b1 a");
    assert_eq!(read(all, 4).await, "e d c b2 b1 a");
    let span = ActivityFilter {
        since: Some(NOW.plus(20)),
        until: Some(NOW.plus(40)),
        ..ActivityFilter::default()
    };
    assert_eq!(read(span, 2).await, "c b2 b1");
    assert_eq!(read(ActivityFilter { which: Some(Which::Commands), ..all }, 2).await, "c b2 b1");
    assert_eq!(read(ActivityFilter { which: Some(Which::Events), ..all }, 2).await, "e d a");
    assert_eq!(read(ActivityFilter { which: Some(Which::Events), ..span }, 2).await, "");
}

pub(crate) async fn orders_are_counted_over_time(store: SharedStore) {
    let voucher = sale_of(&store, 100).await.voucher_id;
    let second = NOW.0 / 1_000;
    let order = |user: u64, after: i64| OrderEntry {
        order: OrderId::new(second + after, user).unwrap(),
        ..entry(0, user, voucher)
    };
    let admitted = [-1, 0, 0, 4, 5, 19, 20];
    let batch: Vec<_> = (1..).zip(admitted).map(|(user, after)| order(user, after)).collect();
    store.write_orders(&batch[..4], NOW.plus(9_999)).await.unwrap();
    store.write_orders(&batch[4..], NOW.plus(10_000)).await.unwrap();
    let flow = store.order_flow(NOW, 5, 4).await.unwrap();
    assert_eq!((flow.from, flow.step_s), (NOW, 5));
    assert_eq!(flow.admitted, [3, 1, 0, 1]);
    assert_eq!(flow.persisted, [0, 4, 3, 0], "by the time of writing, whenever it was admitted");
    for from in [Millis(i64::MIN), Millis(i64::MAX)] {
        let nothing = store.order_flow(from, 60, 3).await.unwrap();
        assert_eq!((nothing.admitted, nothing.persisted), (vec![0; 3], vec![0; 3]));
    }
}
