//! SQLite with a full disk, a log that is read all the time, or a removed file.

use std::{path::Path, time::Duration};

use seckill_model::{Millis, NewSale, OrderEntry, OrderId, UserId, VoucherId};

use crate::{AuditEntry, Settings, SharedStore, Written};

async fn open(dir: &Path) -> SharedStore {
    let url = format!("sqlite:{}", dir.join("a.db").display());
    crate::open(&url, &Settings::default()).await.unwrap()
}

async fn sale(store: &SharedStore, stock: u64) -> VoucherId {
    let sale = NewSale { title: "tea".into(), stock, begin: None, end: None, limit: 1, shards: 1 };
    store.create_sale(&sale, Millis(1)).await.unwrap().voucher_id
}

fn batch(voucher: VoucherId, from: u64, orders: u64) -> Vec<OrderEntry> {
    let entry = |number| {
        OrderEntry::new(OrderId::new(1_795_000_000, number).unwrap(), UserId(number), voucher)
    };
    (from..from + orders).map(entry).collect()
}

/// From now on the write connection gets disk-full errors from SQLite.
async fn fill_the_disk(store: &SharedStore) {
    let mut lease = store.database().unwrap().writer().unwrap().lease().await.unwrap();
    lease.run("PRAGMA max_page_count = 1").await.unwrap();
    lease.end(Ok(())).await.unwrap();
}

#[tokio::test]
async fn connection_with_full_disk_is_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let voucher = sale(&store, 20_000).await;
    fill_the_disk(&store).await;
    // SQLite rolls this back by itself, whatever the driver assumes about the transaction.
    let entry = AuditEntry { reason: Some("x".repeat(10_000)), ..AuditEntry::default() };
    let full = loop {
        if let Err(full) = store.record(&entry).await {
            break full;
        }
    };
    assert!(full.stands_for_all() && full.to_string().contains("disk is full"), "{full}");
    let seen = store.takes_writes().await.unwrap_err();
    assert!(seen.to_string().contains("disk is full"), "{seen}");

    let written = store.write_orders(&batch(voucher, 1, 5_000), Millis(3)).await.unwrap();
    assert!(written.iter().all(|it| *it == Written::New), "another connection wrote them");
    store.takes_writes().await.unwrap();
    assert_eq!(store.ledger(voucher).await.unwrap().live, 5_000);
    store.close().await;
}

#[tokio::test]
async fn log_is_bounded_under_steady_reads() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    // One of two readers is always in the log, so SQLite never restarts it by itself.
    let entry = |number: u64| AuditEntry {
        reason: Some("x".repeat(1 << 20)),
        once: Some(number.to_string()),
        ..AuditEntry::default()
    };
    let mut older = store.database().unwrap().readers().unwrap().lease().await.unwrap();
    let mut newer = store.database().unwrap().readers().unwrap().lease().await.unwrap();
    let reading = tokio::spawn(async move {
        older.run("BEGIN; SELECT COUNT(*) FROM tb_audit_log").await.unwrap();
        loop {
            newer.run("BEGIN; SELECT COUNT(*) FROM tb_audit_log").await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            older.run("COMMIT").await.unwrap();
            std::mem::swap(&mut older, &mut newer);
        }
    });
    for number in 0..160 {
        store.record(&entry(number)).await.unwrap();
    }
    reading.abort();
    let size = std::fs::metadata(dir.path().join("a.db-wal")).unwrap().len();
    assert!(size < 100 << 20, "{size}");
    store.close().await;
}

#[tokio::test]
async fn writes_to_a_removed_or_replaced_file_fail() {
    for replace in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let voucher = sale(&store, 10).await;
        store.write_orders(&batch(voucher, 1, 1), Millis(2)).await.unwrap();
        let path = dir.path().join("a.db");
        std::fs::rename(&path, dir.path().join("b.db")).unwrap();
        if replace {
            std::fs::copy(dir.path().join("b.db"), &path).unwrap();
        }
        let expected = if replace { "was replaced" } else { "was removed" };
        let fault = store.write_orders(&batch(voucher, 2, 1), Millis(3)).await.unwrap_err();
        assert!(fault.stands_for_all() && fault.to_string().contains(expected), "{fault}");
        let fault = store.takes_writes().await.unwrap_err();
        assert!(fault.to_string().contains(expected), "{fault}");
        assert_eq!(path.exists(), replace, "no new file is made in its place");
        store.close().await;
    }
}
