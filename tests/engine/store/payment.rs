use std::collections::BTreeSet;

use seckill_model::{
    Fence, NewSale, OrderCounts, OrderEntry, OrderFilter, OrderId, OrderStatus, OrderTerms,
    Payment, ShardId, UserId, VoucherDetails, VoucherId, VoucherStatus,
};
use seckill_store::{Cancelled, SharedStore, StoreError, Written};

use crate::world::restock;

use super::{NOW, entry, id, sale_of};

fn fence(token: i64) -> Fence {
    Fence { name: "close".into(), token }
}

async fn sold(store: &SharedStore, count: u64) -> (VoucherId, Vec<OrderId>) {
    let voucher = sale_of(store, count).await.voucher_id;
    let batch: Vec<_> = (1..=count).map(|n| entry(n, n, voucher)).collect();
    store.write_orders(&batch, NOW).await.unwrap();
    (voucher, batch.iter().map(|it| it.order).collect())
}

pub(crate) async fn each_payment_returns_its_result(store: SharedStore) {
    let (voucher, orders) = sold(&store, 3).await;
    assert_eq!(store.pay(&[], NOW).await.unwrap(), []);
    let asked = [orders[0], id(9), orders[0]];
    let result = store.pay(&asked, NOW.plus(5)).await.unwrap();
    assert_eq!(result, [Payment::Paid, Payment::NotFound, Payment::PaidBefore]);
    let closed = store
        .close_overdue(NOW.plus(1), 9, seckill_store::Overdue::ALL, NOW.plus(6), &fence(1))
        .await
        .unwrap();
    assert_eq!(closed.iter().map(|it| it.id).collect::<Vec<_>>(), orders[1..]);
    let result = store.pay(&orders, NOW.plus(7)).await.unwrap();
    assert_eq!(result, [Payment::PaidBefore, Payment::TooLate, Payment::TooLate]);
    let (paid, late) =
        (store.order(orders[0]).await.unwrap(), store.order(orders[1]).await.unwrap());
    let (paid, late) = (paid.unwrap(), late.unwrap());
    assert_eq!((paid.status, paid.pay_time), (OrderStatus::Paid, Some(NOW.plus(5))));
    assert_eq!((late.status, late.close_time), (OrderStatus::Closed, Some(NOW.plus(6))));
    let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.closed, ledger.stock, ledger.returning), (1, 2, 2, 2));
    let counts = store.order_counts(voucher).await.unwrap();
    assert_eq!(counts, OrderCounts::from([(OrderStatus::Paid, 1), (OrderStatus::Closed, 2)]));
    let none = store.order_counts(VoucherId(u64::MAX)).await.unwrap();
    assert_eq!(none, OrderCounts::default());
    assert_eq!(store.repeat_buyers(voucher, 9).await.unwrap(), []);
    // Users 2 and 3 order again, one of them twice.
    for (number, user) in [(12, 2), (13, 3), (14, 2)] {
        store.write_orders(&[entry(number, user, voucher)], NOW).await.unwrap();
        store
            .close_overdue(NOW.plus(1), 9, seckill_store::Overdue::ALL, NOW.plus(6), &fence(1))
            .await
            .unwrap();
    }
    let again = [(UserId(2), 3), (UserId(3), 2)];
    assert_eq!(store.repeat_buyers(voucher, 9).await.unwrap(), again);
    assert_eq!(store.repeat_buyers(voucher, 1).await.unwrap(), again[..1]);
    assert_eq!(store.repeat_buyers(VoucherId(u64::MAX), 9).await.unwrap(), []);
}

/// Payments and closings race with the freezing of their sale: what has been frozen stays as it is read.
pub(crate) async fn orders_of_a_frozen_sale_are_neither_paid_nor_closed(store: SharedStore) {
    const ORDERS: u64 = 400;
    let (voucher, orders) = sold(&store, ORDERS).await;
    let paying = async {
        let mut paid = BTreeSet::new();
        for order in &orders {
            match store.pay(&[*order], NOW.plus(1)).await.unwrap()[..] {
                [Payment::Paid] => assert!(paid.insert(*order)),
                [Payment::Returned] => {}
                ref other => panic!("{other:?}"),
            }
        }
        paid
    };
    let freezing = async {
        // Some of them are paid before.
        while !store.order_counts(voucher).await.unwrap().contains_key(&OrderStatus::Paid) {
            tokio::task::yield_now().await;
        }
        store.freeze_orders(voucher, NOW.plus(1), &fence(5)).await.unwrap();
        store.order_counts(voucher).await.unwrap()[&OrderStatus::Paid]
    };
    let (paid, frozen) = tokio::join!(paying, freezing);
    assert_eq!(paid.len() as u64, frozen, "an order was paid after its sale was frozen");
    let unpaid = *orders.iter().find(|it| !paid.contains(it)).unwrap();
    let all = seckill_store::Overdue::ALL;
    let closed = store.close_overdue(NOW.plus(1), 9, all, NOW.plus(2), &fence(5)).await.unwrap();
    assert_eq!(closed, []);
    // What is paid already is paid.
    let first = *paid.first().unwrap();
    let results = store.pay(&[first, unpaid], NOW.plus(3)).await.unwrap();
    assert_eq!(results, [Payment::PaidBefore, Payment::Returned]);
    // An older run neither freezes nor thaws; the newer one does.
    let old = store.thaw_orders(voucher, &fence(4)).await;
    assert!(matches!(old, Err(StoreError::Fenced(_))), "{old:?}");
    let old = store.freeze_orders(voucher, NOW, &fence(4)).await;
    assert!(matches!(old, Err(StoreError::Fenced(_))), "{old:?}");
    store.thaw_orders(voucher, &fence(6)).await.unwrap();
    assert_eq!(store.pay(&[unpaid], NOW.plus(4)).await.unwrap(), [Payment::Paid]);
}

pub(crate) async fn each_order_is_paid_or_closed_and_never_both(store: SharedStore) {
    const ORDERS: u64 = 2_000;
    let (voucher, orders) = sold(&store, ORDERS).await;
    let paying = async {
        let mut paid = 0;
        // From the other end, and not in ID order.
        for page in orders.rchunks(30) {
            let mut page = page.to_vec();
            page.reverse();
            let result = store.pay(&page, NOW.plus(1)).await.unwrap();
            paid += result.iter().filter(|it| **it == Payment::Paid).count() as u64;
        }
        paid
    };
    let closing = async {
        let mut closed = BTreeSet::new();
        loop {
            let page = store
                .close_overdue(NOW.plus(1), 50, seckill_store::Overdue::ALL, NOW.plus(2), &fence(1))
                .await
                .unwrap();
            if page.is_empty() {
                return closed;
            }
            for order in page {
                assert!(closed.insert(order.id), "{order:?} was closed twice");
            }
        }
    };
    let (paid, closed) = tokio::join!(paying, closing);
    assert!(paid > 0 && !closed.is_empty(), "both had their share");
    assert_eq!(paid + closed.len() as u64, ORDERS);
    let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.stock as u64), (paid, closed.len() as u64));
    assert_eq!(ledger.returning, closed.len() as u64);
}

pub(crate) async fn the_oldest_close_first_and_only_under_the_lock(store: SharedStore) {
    let voucher = sale_of(&store, 9).await.voucher_id;
    for (n, at) in [(1, 30), (2, 10), (3, 20)] {
        store.write_orders(&[entry(n, n, voucher)], NOW.plus(at)).await.unwrap();
    }
    assert_eq!(store.fenced_write(&fence(5), NOW).await.unwrap(), 1);
    let late =
        store.close_overdue(NOW.plus(99), 9, seckill_store::Overdue::ALL, NOW, &fence(4)).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap().live, 3);
    let closed = store
        .close_overdue(NOW.plus(30), 2, seckill_store::Overdue::ALL, NOW.plus(40), &fence(5))
        .await
        .unwrap();
    let ids: BTreeSet<_> = closed.iter().map(|it| it.id).collect();
    assert_eq!(ids, BTreeSet::from([id(2), id(3)]), "not the one that was written at its time");
    assert_eq!(
        store
            .close_overdue(NOW.plus(30), 9, seckill_store::Overdue::ALL, NOW, &fence(5))
            .await
            .unwrap(),
        []
    );
    assert_eq!(store.fenced_write(&fence(6), NOW).await.unwrap(), 4);
}

pub(crate) async fn what_was_closed_is_reported_until_redis_confirms_it(store: SharedStore) {
    let (voucher, orders) = sold(&store, 5).await;
    let (other, _) = {
        let voucher = sale_of(&store, 1).await.voucher_id;
        (voucher, store.write_orders(&[entry(99, 1, voucher)], NOW).await.unwrap())
    };
    store
        .close_overdue(NOW.plus(1), 99, seckill_store::Overdue::ALL, NOW.plus(2), &fence(1))
        .await
        .unwrap();
    assert_eq!(store.returning().await.unwrap(), 6);
    let page = store.give_backs(None, 2).await.unwrap();
    assert_eq!(page.iter().map(|it| it.id).collect::<Vec<_>>(), orders[..2]);
    let next = store.give_backs(Some(page[1].id), 99).await.unwrap();
    assert_eq!(next.len(), 4);
    assert_eq!(store.closed_among(&orders).await.unwrap(), [], "about to be given back");
    store.gave_back(&[orders[0], orders[1], id(77)], NOW.plus(3)).await.unwrap();
    store.gave_back(&[orders[1]], NOW.plus(9)).await.unwrap();
    assert_eq!(store.returning().await.unwrap(), 4);
    let mut result = store.closed_among(&orders).await.unwrap();
    result.sort_unstable();
    assert_eq!(result, orders[..2]);
    // Redis lost its latest writes.
    let since = async |at| {
        store.given_since(ShardId::only(voucher), NOW.plus(at), None, 99).await.unwrap().len()
    };
    assert_eq!((since(3).await, since(4).await), (5, 3));
    assert_eq!(store.given_since(ShardId::only(other), NOW, None, 99).await.unwrap().len(), 1);
    let after = store.given_since(ShardId::only(voucher), NOW, Some(orders[3]), 99).await.unwrap();
    assert_eq!(after.iter().map(|it| it.id).collect::<Vec<_>>(), orders[4..]);
    assert_eq!(store.forget_give_backs(NOW.plus(3)).await.unwrap(), 0);
    assert_eq!(store.forget_give_backs(NOW.plus(4)).await.unwrap(), 2);
    assert_eq!(store.returning().await.unwrap(), 4);
}

pub(crate) async fn a_closed_place_is_free_again(store: SharedStore) {
    let sale = NewSale { title: "t".into(), stock: 9, begin: None, end: None, limit: 2, shards: 1 };
    let voucher = store.create_sale(&sale, NOW).await.unwrap().voucher_id;
    let second = OrderEntry { place: 2, ..entry(2, 7, voucher) };
    store.write_orders(&[entry(1, 7, voucher), second], NOW).await.unwrap();
    store.pay(&[id(2)], NOW).await.unwrap();
    let closed = store
        .close_overdue(NOW.plus(1), 9, seckill_store::Overdue::ALL, NOW, &fence(1))
        .await
        .unwrap();
    assert_eq!(closed.iter().map(|it| (it.id, it.place)).collect::<Vec<_>>(), [(id(1), 1)]);
    let third = OrderEntry { place: 2, ..entry(3, 7, voucher) };
    let batch = [entry(1, 7, voucher), third, entry(4, 7, voucher)];
    let stand = [Written::Again, Written::Conflict { holds: id(2) }, Written::New];
    assert_eq!(store.write_orders(&batch, NOW).await.unwrap(), stand);
    let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.closed, ledger.stock), (2, 1, 7));
}

pub(crate) async fn a_promise_is_cancelled_once_and_takes_no_piece(store: SharedStore) {
    let (voucher, orders) = sold(&store, 2).await;
    restock(&store, voucher, 3, None).await.unwrap();
    let closing = store
        .close_overdue(NOW.plus(1), 1, seckill_store::Overdue::ALL, NOW.plus(2), &fence(1))
        .await
        .unwrap();
    assert_eq!(closing[0].id, orders[0]);
    store.gave_back(&orders[..1], NOW).await.unwrap();
    let before = store.ledger(ShardId::only(voucher)).await.unwrap();
    let second = OrderEntry { place: 2, ..entry(11, 10, voucher) };
    let batch = [
        entry(10, 10, voucher),
        second,
        entry(10, 10, voucher),
        entry(1, 1, voucher),
        entry(2, 2, voucher),
        entry(2, 3, voucher),
        entry(12, 12, VoucherId(77)),
    ];
    let result = [
        Cancelled::Now,
        Cancelled::Now,
        Cancelled::Before,
        Cancelled::Before,
        Cancelled::Live,
        Cancelled::IdTaken,
        Cancelled::NoSale,
    ];
    assert_eq!(store.cancel_orders(&batch, NOW.plus(5)).await.unwrap(), result);
    let again = store.cancel_orders(&batch[..2], NOW.plus(9)).await.unwrap();
    assert_eq!(again, [Cancelled::Before; 2]);
    assert_eq!(store.cancel_orders(&[], NOW).await.unwrap(), []);
    let row = store.order(id(11)).await.unwrap().unwrap();
    assert_eq!((row.user_id, row.voucher_id, row.place), (UserId(10), voucher, Some(2)));
    assert_eq!((row.status, row.close_time), (OrderStatus::Cancelled, Some(NOW.plus(5))));
    let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.stock, ledger.live), (before.stock, before.live));
    assert_eq!((ledger.closed, ledger.returning), (before.closed + 2, 2));
    let open: Vec<_> = store.give_backs(None, 9).await.unwrap();
    assert_eq!(
        open.iter().map(|it| (it.id, it.place)).collect::<Vec<_>>(),
        [(id(10), 1), (id(11), 2)]
    );
    // The slot is free, the ID is not; a late copy of the entry is no order any more.
    let late = [entry(10, 10, voucher), entry(20, 10, voucher)];
    let stand = [Written::Again, Written::New];
    assert_eq!(store.write_orders(&late, NOW).await.unwrap(), stand);
    assert_eq!(store.pay(&[id(10)], NOW).await.unwrap(), [Payment::TooLate]);
    let mut rows = store.orders_among(&[id(10), id(2), id(99)]).await.unwrap();
    rows.sort_unstable_by_key(|row| row.id);
    let rows: Vec<_> = rows.iter().map(|row| (row.id, row.status)).collect();
    assert_eq!(rows, [(id(2), OrderStatus::Unpaid), (id(10), OrderStatus::Cancelled)]);
    assert_eq!(store.orders_among(&[]).await.unwrap(), []);
}

fn off(title: &str, status: VoucherStatus) -> VoucherDetails {
    VoucherDetails { status, ..VoucherDetails::titled(title) }
}

pub(crate) async fn an_ordinary_voucher_is_bought_freely(store: SharedStore) {
    let tea = store.create_voucher(&VoucherDetails::titled("tea"), NOW).await.unwrap();
    let (sale, sold) = sold(&store, 3).await;
    // One user, any number of orders; a repeated ID is the same order.
    for number in [10, 11, 10] {
        store.buy(id(number), UserId(1), tea, NOW.plus(number as i64)).await.unwrap();
    }
    store.buy(id(12), UserId(2), tea, NOW).await.unwrap();
    let order = store.order(id(10)).await.unwrap().unwrap();
    assert_eq!(
        (order.user_id, order.voucher_id, order.place, order.status, order.create_time),
        (UserId(1), tea, None, OrderStatus::Unpaid, NOW.plus(10))
    );
    let refused = async |order: OrderId, user: u64, voucher: VoucherId| {
        store.buy(order, UserId(user), voucher, NOW).await.unwrap_err().to_string()
    };
    let [off, expired] = [off("off", VoucherStatus::Off), off("old", VoucherStatus::Expired)];
    let off = store.create_voucher(&off, NOW).await.unwrap();
    let expired = store.create_voucher(&expired, NOW).await.unwrap();
    for (voucher, why) in [
        (sale, "flash sale"),
        (off, "has status off"),
        (expired, "expired"),
        (VoucherId(99), "no voucher 99"),
        (VoucherId(u64::MAX), "no voucher"),
    ] {
        let text = refused(id(20), 1, voucher).await;
        assert!(text.contains(why), "{text}");
    }
    // An ID belongs to one order: not to another buyer, voucher or sale.
    for (order, user) in [(id(10), 2), (sold[0], 1)] {
        assert!(refused(order, user, tea).await.contains("belongs to another order"));
    }
    assert!(refused(id(20), u64::MAX, tea).await.contains("too large for the database"));

    // Pages hold both kinds, newest first.
    let page = async |filter: OrderFilter, before: Option<OrderId>, limit: u32| {
        let page = store.orders(&filter, before, limit).await.unwrap();
        page.iter().map(|order| order.id).collect::<Vec<_>>()
    };
    let any = OrderFilter::default();
    assert_eq!(page(any, None, 4).await, [id(12), id(11), id(10), sold[2]]);
    assert_eq!(page(any, Some(id(11)), 2).await, [id(10), sold[2]]);
    let of = |is| OrderFilter { is, ..any };
    let terms = OrderTerms { voucher: Some(tea), ..OrderTerms::default() };
    let user = OrderTerms { user: Some(UserId(1)), ..OrderTerms::default() };
    let (of_tea, of_user) = (of(terms), of(user));
    assert_eq!(page(of_tea, None, 9).await, [id(12), id(11), id(10)]);
    assert_eq!(page(of_user, None, 9).await, [id(11), id(10), sold[0]]);
    let both = of(OrderTerms { user: Some(UserId(1)), ..terms });
    assert_eq!(page(both, None, 9).await, [id(11), id(10)]);

    // Paid in one call with orders of a sale; the rest is closed, and nothing goes back to Redis.
    let paid = store.pay(&[id(10), sold[0], id(10), id(99)], NOW.plus(20)).await.unwrap();
    let result = [Payment::Paid, Payment::Paid, Payment::PaidBefore, Payment::NotFound];
    assert_eq!(paid, result);
    let close = async |limit: u32, token: i64| {
        let all = seckill_store::Overdue::ALL;
        store.close_overdue_ordinary(NOW.plus(50), limit, all, NOW.plus(60), &fence(token)).await
    };
    assert_eq!(close(1, 2).await.unwrap(), 1);
    assert!(matches!(close(9, 1).await, Err(StoreError::Fenced(_))));
    assert_eq!((close(9, 2).await.unwrap(), close(9, 2).await.unwrap()), (1, 0));
    let status = async |order| store.order(order).await.unwrap().unwrap().status;
    assert_eq!(
        [status(id(10)).await, status(id(11)).await, status(id(12)).await],
        [OrderStatus::Paid, OrderStatus::Closed, OrderStatus::Closed]
    );
    assert_eq!(store.pay(&[id(11)], NOW.plus(70)).await.unwrap(), [Payment::TooLate]);
    assert_eq!(store.returning().await.unwrap(), 0);
    let ledger = store.ledger(ShardId::only(sale)).await.unwrap();
    assert_eq!((ledger.live, ledger.closed, ledger.stock), (3, 0, 0));
}
