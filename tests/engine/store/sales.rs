use seckill_model::{
    Fence, Millis, NewSale, Sale, SaleState, Voucher, VoucherDetails, VoucherId, VoucherKind,
    VoucherStatus, sale::MAX_STOCK,
};
use seckill_store::{AuditEntry, SharedStore, StoreError};

use crate::world::newest;

use crate::world::restock;

use super::{NOW, entry, sale_of};

pub(crate) async fn a_sale_is_kept_as_it_was_given(store: SharedStore) {
    let wanted = NewSale {
        title: "火锅五折 🍲 “d'été” %_\\".into(),
        stock: MAX_STOCK,
        begin: Some(NOW.plus(1)),
        end: Some(NOW.plus(2)),
        limit: 3,
        shards: 1,
    };
    let made = store.create_sale(&wanted, NOW).await.unwrap();
    assert_eq!(made.title, wanted.title);
    assert_eq!((made.initial, made.stock), (MAX_STOCK, MAX_STOCK));
    assert_eq!((made.begin, made.end), (wanted.begin, wanted.end));
    assert_eq!((made.state, made.version), (SaleState::Running, 1));
    assert_eq!((made.limit, made.changed), (3, NOW));
    assert_eq!(store.sale(made.voucher_id).await.unwrap(), made);

    let ordinary = store.create_voucher(&VoucherDetails::titled("no sale"), NOW).await.unwrap();
    let newer = sale_of(&store, 5).await;
    assert!(made.voucher_id < ordinary && ordinary < newer.voucher_id);
    assert_eq!(store.sales().await.unwrap(), [newer, made]);
    assert!(matches!(store.sale(ordinary).await, Err(StoreError::NoSale(it)) if it == ordinary));
}

pub(crate) async fn states_change_until_the_end(store: SharedStore) {
    let voucher = sale_of(&store, 5).await.voucher_id;
    let set = async |state| store.set_state(voucher, state, None).await;
    let paused = set(SaleState::Paused).await.unwrap();
    assert_eq!((paused.state, paused.version), (SaleState::Paused, 2));
    assert_eq!(set(SaleState::Paused).await.unwrap(), paused, "no change, no version");
    assert_eq!(set(SaleState::Running).await.unwrap().version, 3);
    let ended = set(SaleState::Ended).await.unwrap();
    assert_eq!((ended.state, ended.version), (SaleState::Ended, 4));
    assert_eq!(set(SaleState::Ended).await.unwrap(), ended, "over is over");
    assert!(matches!(set(SaleState::Running).await, Err(StoreError::Ended(it)) if it == voucher));
    assert!(matches!(restock(&store, voucher, 1, None).await, Err(StoreError::Ended(_))));
    assert_eq!(store.sale(voucher).await.unwrap(), ended);
}

pub(crate) async fn an_opening_moves_but_not_past_the_end(store: SharedStore) {
    let wanted = NewSale {
        title: "t".into(),
        stock: 1,
        begin: Some(NOW.plus(100)),
        end: Some(NOW.plus(200)),
        limit: 1,
        shards: 1,
    };
    let voucher = store.create_sale(&wanted, NOW).await.unwrap().voucher_id;
    let open = async |at: Millis| store.set_state(voucher, SaleState::Running, Some(at)).await;
    let opened = open(NOW).await.unwrap();
    assert_eq!((opened.begin, opened.version), (Some(NOW), 2));
    assert_eq!(open(NOW).await.unwrap(), opened);
    assert!(matches!(open(NOW.plus(200)).await, Err(StoreError::Rule(_))));
    assert_eq!(store.sale(voucher).await.unwrap(), opened);
}

pub(crate) async fn restocking_adds_to_both_sides(store: SharedStore) {
    let voucher = sale_of(&store, 5).await.voucher_id;
    let more = restock(&store, voucher, 7, None).await.unwrap();
    assert_eq!((more.initial, more.stock, more.version), (12, 12, 2));
    for by in [0, MAX_STOCK as i64 - 11, i64::MAX] {
        let error = restock(&store, voucher, by, None).await.unwrap_err();
        assert!(matches!(error, StoreError::Rule(_)), "{by}: {error}");
    }
    assert_eq!(store.sale(voucher).await.unwrap(), more);
    let most = restock(&store, voucher, MAX_STOCK as i64 - 12, None).await.unwrap();
    assert_eq!(most.stock, MAX_STOCK);
}

pub(crate) async fn a_cut_takes_no_piece_that_is_sold(store: SharedStore) {
    let voucher = sale_of(&store, 10).await.voucher_id;
    let orders: Vec<_> = (1..=4).map(|n| entry(n, n, voucher)).collect();
    store.write_orders(&orders, NOW).await.unwrap();
    let cut = restock(&store, voucher, -5, Some(1)).await.unwrap();
    assert_eq!((cut.initial, cut.stock, cut.version), (5, 1, 2));
    for by in [-2, i64::MIN] {
        let error = restock(&store, voucher, by, None).await.unwrap_err();
        assert!(matches!(error, StoreError::Rule(_)), "{by}: {error}");
    }
    // A decision based on an outdated version.
    let error = restock(&store, voucher, -1, Some(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Changed(it) if it == voucher), "{error}");
    assert_eq!(store.sale(voucher).await.unwrap(), cut);
    let whole = sale_of(&store, 3).await.voucher_id;
    assert!(restock(&store, whole, -3, None).await.is_err(), "a sale has a piece at least");
}

pub(crate) async fn an_archived_sale_is_read_still(store: SharedStore) {
    let (kept, voucher) = (sale_of(&store, 1).await, sale_of(&store, 5).await.voucher_id);
    let set = async |state| store.set_state(voucher, state, None).await;
    assert!(matches!(set(SaleState::Archived).await, Err(StoreError::Rule(_))));
    set(SaleState::Ended).await.unwrap();
    let archived = set(SaleState::Archived).await.unwrap();
    assert_eq!((archived.state, archived.version), (SaleState::Archived, 3));
    assert_eq!(set(SaleState::Archived).await.unwrap(), archived);
    assert!(matches!(set(SaleState::Running).await, Err(StoreError::Ended(_))));
    assert!(matches!(restock(&store, voucher, 1, None).await, Err(StoreError::Ended(_))));
    assert_eq!(store.sales().await.unwrap(), [kept]);
    assert_eq!(store.archived(None, 9).await.unwrap(), std::slice::from_ref(&archived));
    assert_eq!(store.archived(Some(voucher), 9).await.unwrap(), []);
    assert_eq!(store.sale(voucher).await.unwrap(), archived);
}

pub(crate) async fn vouchers_of_both_kinds_come_in_pages(store: SharedStore) {
    let details = VoucherDetails {
        title: "代金券".into(),
        shop_id: Some(3),
        sub_title: Some("周一至周五".into()),
        rules: Some("不找零\n每桌一张 🍲".into()),
        pay_value: 8_000,
        actual_value: i64::MAX as u64,
        status: VoucherStatus::Expired,
    };
    let ordinary = store.create_voucher(&details, NOW).await.unwrap();
    let beyond = VoucherDetails { pay_value: u64::MAX, ..details.clone() };
    let refused = store.create_voucher(&beyond, NOW).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    let sale = sale_of(&store, 5).await;
    let first = Voucher { voucher_id: ordinary, kind: VoucherKind::Ordinary, details };
    let details = VoucherDetails::titled(sale.title);
    let second = Voucher { voucher_id: sale.voucher_id, kind: VoucherKind::Sale, details };
    assert_eq!(store.vouchers(None, 9).await.unwrap(), [first.clone(), second.clone()]);
    assert_eq!(store.vouchers(None, 1).await.unwrap(), [first]);
    assert_eq!(store.vouchers(Some(ordinary), 9).await.unwrap(), [second]);
}

pub(crate) async fn a_setting_is_decided_once(store: SharedStore) {
    assert_eq!(store.setting("partitions").await.unwrap(), None);
    assert!(store.change_setting("partitions", None, "8").await.unwrap());
    assert!(!store.change_setting("partitions", None, "4").await.unwrap());
    assert!(!store.change_setting("partitions", Some("4"), "2").await.unwrap());
    assert!(store.change_setting("partitions", Some("8"), "4").await.unwrap());
    assert_eq!(store.setting("partitions").await.unwrap().as_deref(), Some("4"));
}

pub(crate) async fn what_is_not_there_is_no_sale(store: SharedStore) {
    for voucher in [VoucherId(0), VoucherId(9), VoucherId(u64::MAX)] {
        let no = |it: StoreError| matches!(it, StoreError::NoSale(v) if v == voucher);
        assert!(no(store.sale(voucher).await.unwrap_err()));
        assert!(no(store.ledger(voucher).await.unwrap_err()));
        assert!(no(restock(&store, voucher, 1, None).await.unwrap_err()));
        assert!(no(store.set_state(voucher, SaleState::Ended, None).await.unwrap_err()));
        assert_eq!(store.live_orders(voucher, None, 10).await.unwrap(), []);
    }
}

pub(crate) async fn audit_entries_are_kept_newest_first(store: SharedStore) {
    let entry = |number: i64| AuditEntry {
        at: NOW.plus(number),
        operator: "小明".into(),
        node: "node-a".into(),
        action: "sale end".into(),
        subject: format!("voucher {number}").into(),
        reason: (number > 1).then(|| "it's 'over'; -- really".into()),
        result: "done".into(),
        ..AuditEntry::default()
    };
    for number in 1..=3 {
        store.record(&entry(number)).await.unwrap();
    }
    assert_eq!(newest(&store, 2).await, [entry(3), entry(2)]);
    assert_eq!(newest(&store, u32::MAX).await.len(), 3);
    assert_eq!(newest(&store, 0).await, []);
}

pub(crate) async fn it_says_what_it_is(store: SharedStore) {
    assert!(store.ping().await.unwrap().starts_with(|c: char| c.is_ascii_digit()));
    assert!(!store.describe().is_empty());
    assert!(!store.durability().await.unwrap().is_empty());
    store.close().await;
    assert!(store.ping().await.unwrap_err().is_away());
}

/// A run that was stopped for longer than its lock lasts imports nothing after another one has begun.
pub(crate) async fn an_import_is_fenced(store: SharedStore) {
    let made = sale_of(&store, 5).await;
    let wanted = |number: u64| Sale { voucher_id: VoucherId(number), stock: 5, ..made.clone() };
    let fence = |token: i64| Fence { name: "operator".into(), token };
    store.fenced_write(&fence(2), NOW).await.unwrap();
    let old = store.import_sale(&wanted(900), &[], NOW, &fence(1)).await;
    assert!(matches!(old, Err(StoreError::Fenced(_))), "{old:?}");
    let none = store.sale(VoucherId(900)).await;
    assert_eq!(none, Err(StoreError::NoSale(VoucherId(900))));
    store.import_sale(&wanted(900), &[], NOW, &fence(2)).await.unwrap();
    assert_eq!(store.sale(VoucherId(900)).await.unwrap().stock, 5);
    let again = store.import_sale(&wanted(900), &[], NOW, &fence(3)).await;
    assert_eq!(again, Err(StoreError::Changed(VoucherId(900))));
}
