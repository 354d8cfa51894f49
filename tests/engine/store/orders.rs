use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use seckill_model::{
    Fence, OrderEntry, OrderFilter, OrderId, OrderStatus, OrderTerms, SaleOrder, ShardId, UserId,
    VoucherDetails, VoucherId, ledger::SqlLedger,
};
use seckill_store::{SharedStore, StoreError, Written};

use super::{NOW, entry, id, sale_of};

fn ledger(initial: u64, live: u64) -> SqlLedger {
    SqlLedger { initial, stock: (initial - live) as i64, live, closed: 0, doubled: 0, returning: 0 }
}

pub(crate) async fn each_answer_has_its_case(store: SharedStore) {
    let voucher = sale_of(&store, 10).await.voucher_id;
    assert_eq!(store.write_orders(&[], NOW).await.unwrap(), []);
    let first = [entry(1, 100, voucher), entry(2, 200, voucher)];
    assert_eq!(store.write_orders(&first, NOW).await.unwrap(), [Written::New; 2]);
    assert_eq!(store.write_orders(&first, NOW.plus(9)).await.unwrap(), [Written::Again; 2]);
    let mixed = [
        entry(1, 100, voucher),
        entry(3, 100, voucher),
        entry(2, 300, voucher),
        entry(2, 100, voucher),
        entry(4, 400, voucher),
    ];
    assert_eq!(
        store.write_orders(&mixed, NOW).await.unwrap(),
        [
            Written::Again,
            Written::Conflict { holds: id(1) },
            Written::IdTaken,
            Written::IdTaken,
            Written::New,
        ]
    );
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap(), ledger(10, 3));
    let order = store.order(id(1)).await.unwrap().unwrap();
    assert_eq!((order.id, order.user_id, order.voucher_id), (id(1), UserId(100), voucher));
    assert_eq!((order.status, order.create_time), (OrderStatus::Unpaid, NOW));
    assert_eq!((order.pay_time, order.close_time), (None, None));
    assert_eq!(store.order(id(3)).await.unwrap(), None);
    let mut found = store.existing(&[id(9), id(4), id(2), id(3)]).await.unwrap();
    found.sort_unstable();
    assert_eq!(found, [id(2), id(4)]);
    assert_eq!(store.existing(&[]).await.unwrap(), []);
}

pub(crate) async fn what_would_be_answered_is_known_before(store: SharedStore) {
    let voucher = sale_of(&store, 10).await.voucher_id;
    store.write_orders(&[entry(1, 100, voucher)], NOW).await.unwrap();
    let before = store.ledger(ShardId::only(voucher)).await.unwrap();
    let asked = [
        entry(1, 100, voucher),
        entry(2, 100, voucher),
        entry(1, 300, voucher),
        entry(3, 300, voucher),
        // Each as if submitted alone.
        entry(4, 300, voucher),
        entry(5, 500, VoucherId(4_444)),
    ];
    let answers = [
        Written::Again,
        Written::Conflict { holds: id(1) },
        Written::IdTaken,
        Written::New,
        Written::New,
        Written::NoSale,
    ];
    assert_eq!(store.foresee(&asked).await.unwrap(), answers);
    assert_eq!(store.foresee(&[]).await.unwrap(), []);
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap(), before);
}

pub(crate) async fn twins_within_one_batch(store: SharedStore) {
    let voucher = sale_of(&store, 10).await.voucher_id;
    let batch = [
        entry(1, 100, voucher),
        entry(1, 100, voucher),
        entry(2, 100, voucher),
        entry(1, 300, voucher),
        entry(3, 300, voucher),
    ];
    assert_eq!(
        store.write_orders(&batch, NOW).await.unwrap(),
        [
            Written::New,
            Written::Again,
            Written::Conflict { holds: id(1) },
            Written::IdTaken,
            Written::New,
        ]
    );
    // The first of two orders with one ID is a duplicate of its buyer, so the second one takes the ID.
    let late = [entry(5, 100, voucher), entry(5, 500, voucher)];
    assert_eq!(store.write_orders(&late, NOW).await.unwrap(), [Written::IdTaken, Written::New]);
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap(), ledger(10, 3));
}

pub(crate) async fn nothing_is_left_of_a_batch_that_fails(store: SharedStore) {
    let voucher = sale_of(&store, 2).await.voucher_id;
    store.write_orders(&[entry(1, 1, voucher)], NOW).await.unwrap();
    let before = store.ledger(ShardId::only(voucher)).await.unwrap();

    let too_many = [entry(2, 2, voucher), entry(3, 3, voucher)];
    let error = store.write_orders(&too_many, NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::OutOfStock(it) if it == voucher), "{error}");
    // The same for batches that are not all new.
    let mixed = [entry(1, 1, voucher), entry(2, 2, voucher), entry(3, 3, voucher)];
    let error = store.write_orders(&mixed, NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::OutOfStock(it) if it == voucher), "{error}");

    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap(), before);
    assert_eq!(store.existing(&[id(2), id(3)]).await.unwrap(), []);
    // The last piece is still available for the next buyer.
    assert_eq!(store.write_orders(&mixed[..2], NOW).await.unwrap(), [Written::Again, Written::New]);
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap(), ledger(2, 2));
}

pub(crate) async fn an_order_without_a_sale_holds_up_no_other(store: SharedStore) {
    let voucher = sale_of(&store, 9).await.voucher_id;
    let ordinary = store.create_voucher(&VoucherDetails::titled("no sale"), NOW).await.unwrap();
    let batch = [
        entry(1, 1, voucher),
        entry(2, 2, ordinary),
        entry(3, 3, VoucherId(77)),
        entry(4, 4, voucher),
        entry(5, 1, voucher),
        entry(1, 9, voucher),
        entry(1, 9, VoucherId(77)),
    ];
    let result = [
        Written::New,
        Written::NoSale,
        Written::NoSale,
        Written::New,
        Written::Conflict { holds: id(1) },
        Written::IdTaken,
        Written::NoSale,
    ];
    assert_eq!(store.write_orders(&batch, NOW).await.unwrap(), result);
    assert_eq!(store.write_orders(&batch[1..3], NOW).await.unwrap(), [Written::NoSale; 2]);
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap(), ledger(9, 2));
    assert_eq!(store.existing(&[id(2), id(3), id(5)]).await.unwrap(), []);
    // No row can store this one, so the whole batch fails.
    let beyond = store.write_orders(&[entry(6, 6, VoucherId(u64::MAX))], NOW).await;
    assert!(matches!(beyond, Err(StoreError::NoSale(_))), "{beyond:?}");
}

pub(crate) async fn several_vouchers_in_one_batch(store: SharedStore) {
    let (a, b) = (sale_of(&store, 5).await.voucher_id, sale_of(&store, 1).await.voucher_id);
    let batch = [entry(1, 1, a), entry(2, 1, b), entry(3, 2, a)];
    assert_eq!(store.write_orders(&batch, NOW).await.unwrap(), [Written::New; 3]);
    let error = store.write_orders(&[entry(4, 4, a), entry(5, 5, b)], NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::OutOfStock(it) if it == b), "{error}");
    assert_eq!(store.ledger(ShardId::only(a)).await.unwrap(), ledger(5, 2));
    assert_eq!(store.ledger(ShardId::only(b)).await.unwrap(), ledger(1, 1));
    // A stopped sale still accepts orders admitted before.
    store.set_state(a, seckill_model::SaleState::Ended, None, &[]).await.unwrap();
    assert_eq!(store.write_orders(&[entry(6, 6, a)], NOW).await.unwrap(), [Written::New]);
    assert_eq!(store.sale(a).await.unwrap().version, 2, "orders are no change of the sale");
}

pub(crate) async fn what_a_row_cannot_hold_is_refused(store: SharedStore) {
    let voucher = sale_of(&store, 5).await.voucher_id;
    let top = i64::MAX as u64;
    assert_eq!(store.write_orders(&[entry(1, top, voucher)], NOW).await.unwrap(), [Written::New]);
    let error = store.write_orders(&[entry(2, top + 1, voucher)], NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::Rejected(_)), "{error}");
    let largest =
        OrderEntry { order: OrderId::from_i64(i64::MAX).unwrap(), ..entry(0, 7, voucher) };
    assert_eq!(store.write_orders(&[largest], NOW).await.unwrap(), [Written::New]);
    let live = SaleOrder {
        id: largest.order,
        user_id: UserId(7),
        voucher_id: voucher,
        shard: 0,
        place: 1,
    };
    assert_eq!(store.live_orders(ShardId::only(voucher), Some(id(1)), 9).await.unwrap(), [live]);
}

pub(crate) async fn live_orders_come_in_pages(store: SharedStore) {
    let (a, b) = (sale_of(&store, 50).await.voucher_id, sale_of(&store, 50).await.voucher_id);
    let batch: Vec<_> =
        (0..30).rev().map(|n| entry(n, n, if n % 3 == 0 { b } else { a })).collect();
    store.write_orders(&batch, NOW).await.unwrap();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store.live_orders(ShardId::only(a), after, 7).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        assert!(page.len() <= 7);
        seen.extend(page);
    }
    let live = |n| SaleOrder { id: id(n), user_id: UserId(n), voucher_id: a, shard: 0, place: 1 };
    let expected: Vec<_> = (0..30).filter(|n| n % 3 != 0).map(live).collect();
    assert_eq!(seen, expected);
}

pub(crate) async fn each_place_holds_one_order(store: SharedStore) {
    let voucher = sale_of(&store, 10).await.voucher_id;
    let at = |order, place| OrderEntry { place, ..entry(order, 7, voucher) };
    let batch = [at(1, 1), at(2, 2), at(3, 2), at(2, 3)];
    let stand = [Written::New, Written::New, Written::Conflict { holds: id(2) }, Written::IdTaken];
    assert_eq!(store.write_orders(&batch, NOW).await.unwrap(), stand);
    let places: Vec<u8> = store
        .live_orders(ShardId::only(voucher), None, 9)
        .await
        .unwrap()
        .iter()
        .map(|it| it.place)
        .collect();
    assert_eq!(places, [1, 2]);
    assert_eq!(store.order(id(2)).await.unwrap().unwrap().place, Some(2));
    // The sale allows one order per user.
    let result = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((result.live, result.doubled), (2, 1));
}

/// Every filter returns, for every page size, the matching part of all orders.
pub(crate) async fn pages_of_orders_follow_their_filter(store: SharedStore) {
    let vouchers = [sale_of(&store, 99).await.voucher_id, sale_of(&store, 99).await.voucher_id];
    let batch: Vec<_> = (0..40).map(|n| entry(n, n % 7, vouchers[(n / 7) as usize % 2])).collect();
    let mut taken = BTreeSet::new();
    let batch: Vec<_> =
        batch.into_iter().filter(|it| taken.insert((it.user, it.voucher))).collect();
    store.write_orders(&batch, NOW).await.unwrap();
    let some: Vec<OrderId> = batch.iter().map(|it| it.order).step_by(2).collect();
    store.pay(&some, NOW).await.unwrap();
    let fence = Fence { name: "close".into(), token: 1 };
    store
        .close_overdue(NOW.plus(1), 3, seckill_store::Overdue::ALL, NOW.plus(2), &fence)
        .await
        .unwrap();

    let mut all = Vec::new();
    for it in batch.iter().rev() {
        all.push(store.order(it.order).await.unwrap().unwrap());
    }
    let statuses =
        [None, Some(OrderStatus::Unpaid), Some(OrderStatus::Paid), Some(OrderStatus::Closed)];
    let users = [None, Some(UserId(3)), Some(UserId(99)), Some(UserId(u64::MAX))];
    let vouchers = [None, Some(vouchers[0]), Some(VoucherId(99))];
    let ids = [(None, None), (Some(id(3)), None), (Some(id(2)), Some(id(9)))];
    let nots = [
        OrderTerms::default(),
        OrderTerms { user: Some(UserId(4)), ..OrderTerms::default() },
        OrderTerms { user: Some(UserId(u64::MAX)), voucher: vouchers[1], status: None },
        OrderTerms { status: Some(OrderStatus::Paid), ..OrderTerms::default() },
        OrderTerms { status: Some(OrderStatus::Closed), voucher: vouchers[2], user: None },
    ];
    let filters = combinations(&statuses, &users, &vouchers, &ids);
    for ((status, user, voucher, (from, to)), not) in
        filters.into_iter().flat_map(|filter| nots.map(|not| (filter, not)))
    {
        let filter = OrderFilter { is: OrderTerms { user, voucher, status }, not, from, to };
        let expected: Vec<_> = all
            .iter()
            .filter(|it| status.is_none_or(|status| it.status == status))
            .filter(|it| user.is_none_or(|user| it.user_id == user))
            .filter(|it| voucher.is_none_or(|voucher| it.voucher_id == voucher))
            .filter(|it| from.is_none_or(|from| it.id >= from) && to.is_none_or(|to| it.id < to))
            .filter(|it| not.user != Some(it.user_id) && not.status != Some(it.status))
            .filter(|it| not.voucher != Some(it.voucher_id))
            .cloned()
            .collect();
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = store.orders(&filter, before, 4).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 4);
            before = Some(last.id);
            seen.extend(page);
        }
        assert_eq!(seen, expected, "{filter:?}");
    }
}

/// Every combination.
fn combinations<A: Copy, B: Copy, C: Copy, D: Copy>(
    a: &[A],
    b: &[B],
    c: &[C],
    d: &[D],
) -> Vec<(A, B, C, D)> {
    let mut all = Vec::new();
    for a in a {
        for b in b {
            for c in c {
                all.extend(d.iter().map(|d| (*a, *b, *c, *d)));
            }
        }
    }
    all
}

pub(crate) async fn twenty_thousand_orders(store: SharedStore) {
    const ORDERS: u64 = 20_000;
    let voucher = sale_of(&store, ORDERS).await.voucher_id;
    for from in (0..ORDERS).step_by(1_000) {
        // Every batch overlaps the one before, as after a crash between commit and acknowledgement.
        let batch: Vec<_> =
            (from.saturating_sub(100)..from + 1_000).map(|n| entry(n, n * 7, voucher)).collect();
        let written = store.write_orders(&batch, NOW).await.unwrap();
        assert_eq!(written.iter().filter(|it| **it == Written::New).count(), 1_000);
    }
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap(), ledger(ORDERS, ORDERS));
    let ids: Vec<_> = (0..ORDERS * 2).map(id).collect();
    assert_eq!(store.existing(&ids).await.unwrap().len() as u64, ORDERS);
    let error = store.write_orders(&[entry(ORDERS, 1, voucher)], NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::OutOfStock(_)), "{error}");
}

/// The expected results entry by entry, computed without SQL.
#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<OrderId, (UserId, VoucherId)>,
    live: BTreeMap<(VoucherId, UserId), OrderId>,
    stock: BTreeMap<VoucherId, u64>,
}

impl Model {
    fn write(&mut self, batch: &[OrderEntry]) -> Result<Vec<Written>, VoucherId> {
        let mut next = self.clone();
        // All rows of a batch are inserted before its stock is deducted, so results depend on
        // every row of the batch in any order.
        let mut sold: BTreeMap<VoucherId, u64> = BTreeMap::new();
        let mut new = BTreeSet::new();
        for (at, it) in batch.iter().enumerate() {
            if next.rows.contains_key(&it.order) || next.live.contains_key(&(it.voucher, it.user)) {
                continue;
            }
            next.rows.insert(it.order, (it.user, it.voucher));
            next.live.insert((it.voucher, it.user), it.order);
            *sold.entry(it.voucher).or_default() += 1;
            new.insert(at);
        }
        for (voucher, pieces) in sold {
            let stock = next.stock.entry(voucher).or_default();
            *stock = stock.checked_sub(pieces).ok_or(voucher)?;
        }
        *self = next;
        Ok(batch
            .iter()
            .enumerate()
            .map(|(at, it)| match self.rows.get(&it.order) {
                _ if new.contains(&at) => Written::New,
                Some(owner) if *owner == (it.user, it.voucher) => Written::Again,
                Some(_) => Written::IdTaken,
                None => Written::Conflict { holds: self.live[&(it.voucher, it.user)] },
            })
            .collect())
    }
}

pub(crate) async fn a_model_agrees_on_any_batches(store: SharedStore) {
    let batches = prop::collection::vec(
        prop::collection::vec((0..14_u64, 0..9_u64, 0..2_usize), 1..12),
        1..8,
    );
    let mut runner = TestRunner::new(Config::default());
    for round in 0..60 {
        let vouchers = [sale_of(&store, 3).await.voucher_id, sale_of(&store, 6).await.voucher_id];
        let mut model = Model::default();
        model.stock.extend([(vouchers[0], 3), (vouchers[1], 6)]);
        for batch in batches.new_tree(&mut runner).unwrap().current() {
            let batch: Vec<_> = batch
                .into_iter()
                .map(|(order, user, at)| entry(round * 100 + order, user, vouchers[at]))
                .collect();
            match (store.write_orders(&batch, NOW).await, model.write(&batch)) {
                (Ok(result), Ok(expected)) => assert_eq!(result, expected, "{batch:?}"),
                (Err(StoreError::OutOfStock(result)), Err(expected)) => {
                    assert_eq!(result, expected);
                }
                (result, expected) => panic!("{result:?} is not {expected:?} for {batch:?}"),
            }
        }
        for voucher in vouchers {
            let live = model.live.keys().filter(|(it, _)| *it == voucher).count() as u64;
            let result = store.ledger(ShardId::only(voucher)).await.unwrap();
            assert_eq!(result, ledger(result.initial, live));
            assert_eq!(result.stock as u64, model.stock[&voucher]);
        }
    }
}
