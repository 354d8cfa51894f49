//! SQLite with a full disk, a log that is read all the time, or a removed file.

use std::{path::Path, time::Duration};

use seckill_model::{Millis, NewSale, OrderEntry, OrderId, ShardId, UserId, VoucherId};

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

/// From now on the disk has this size and holds only the database and its log.
fn simulate_disk(store: &SharedStore, size: u64) {
    let file = store.database().unwrap().file.as_ref().unwrap();
    file.file.disk.store(size, std::sync::atomic::Ordering::Relaxed);
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
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap().live, 5_000);
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

/// The log never takes the space that its checkpoint needs, however small the disk is.
#[tokio::test]
async fn log_leaves_room_for_its_checkpoint() {
    const DISK: u64 = 24 << 20;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let voucher = sale(&store, 60_000).await;
    simulate_disk(&store, DISK);
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).map_or(0, |it| it.len());
    let mut number = 0;
    for from in (1..=30_000).step_by(500) {
        number += 500;
        store.write_orders(&batch(voucher, from, 500), Millis(3)).await.unwrap();
        let (database, log) = (size("a.db"), size("a.db-wal"));
        // At worst, each page of the log is a new one of the database.
        assert!(database + log + log <= DISK, "{number} orders: {database} and {log} bytes");
    }
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap().live, 30_000);
    store.close().await;
}

/// A log that fills the disk is truncated as soon as there is room, by the check alone: no write succeeds before.
#[tokio::test]
async fn a_full_disk_recovers_when_there_is_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let voucher = sale(&store, 60_000).await;
    for from in (1..=10_000).step_by(500) {
        store.write_orders(&batch(voucher, from, 500), Millis(3)).await.unwrap();
    }
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).map_or(0, |it| it.len());
    let used = size("a.db") + size("a.db-wal");
    let log = size("a.db-wal");
    assert!(log > 10 * size("a.db"), "all of it is in the log: {log}, {}", size("a.db"));
    simulate_disk(&store, used + 1);
    let full = store.takes_writes().await.unwrap_err().to_string();
    assert!(full.contains("free at least ") && full.contains(" MiB"), "{full}");
    let needed: u64 =
        full.split("at least ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(needed << 20 < log, "the log holds most pages many times: {full}");
    simulate_disk(&store, used + (needed << 20));
    store.takes_writes().await.unwrap();
    assert_eq!(size("a.db-wal"), 0);
    store.write_orders(&batch(voucher, 20_000, 500), Millis(3)).await.unwrap();
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
