use futures::future::join_all;
use seckill_model::{
    Fence, Millis, NewSale, OrderEntry, OrderFilter, OrderTerms, Sale, SaleOrder, SaleShard,
    SaleState, ShardId, Spread, Voucher, VoucherDetails, VoucherId, VoucherKind, VoucherStatus,
    sale::MAX_STOCK,
};
use seckill_store::{AuditEntry, SharedStore, StoreError, Written, plain::PlainPool};

use sqlx::Connection as _;

use crate::support::{MariaDb, Postgres};
use crate::world::newest;

use crate::world::restock;

use super::{NOW, entry, few, id, sale_of};

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
    let listed = store.sales().await.unwrap().into_iter().map(|it| it.sale);
    assert_eq!(listed.collect::<Vec<_>>(), [newer, made]);
    assert!(matches!(store.sale(ordinary).await, Err(StoreError::NoSale(it)) if it == ordinary));
}

/// Sets the state of a sale that is not spread.
async fn set_state(
    store: &SharedStore,
    voucher: VoucherId,
    state: SaleState,
    begin: Option<Millis>,
) -> Result<Sale, StoreError> {
    Ok(store.set_state(voucher, state, begin, &[]).await?.remove(0).sale)
}

pub(crate) async fn states_change_until_the_end(store: SharedStore) {
    let voucher = sale_of(&store, 5).await.voucher_id;
    let set = async |state| set_state(&store, voucher, state, None).await;
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
    let open = async |at| set_state(&store, voucher, SaleState::Running, Some(at)).await;
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
    let set = async |state| set_state(&store, voucher, state, None).await;
    assert!(matches!(set(SaleState::Archived).await, Err(StoreError::Rule(_))));
    set(SaleState::Ended).await.unwrap();
    let archived = set(SaleState::Archived).await.unwrap();
    assert_eq!((archived.state, archived.version), (SaleState::Archived, 3));
    assert_eq!(set(SaleState::Archived).await.unwrap(), archived);
    assert!(matches!(set(SaleState::Running).await, Err(StoreError::Ended(_))));
    assert!(matches!(restock(&store, voucher, 1, None).await, Err(StoreError::Ended(_))));
    let listed = store.sales().await.unwrap().into_iter().map(|it| it.sale);
    assert_eq!(listed.collect::<Vec<_>>(), [kept]);
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
        assert!(no(store.ledger(ShardId::only(voucher)).await.unwrap_err()));
        assert!(no(restock(&store, voucher, 1, None).await.unwrap_err()));
        assert!(no(store.set_state(voucher, SaleState::Ended, None, &[]).await.unwrap_err()));
        assert_eq!(store.live_orders(ShardId::only(voucher), None, 10).await.unwrap(), []);
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

/// One voucher and one sale; only the stock is that of a shard.
pub(crate) async fn the_shards_of_a_sale_share_all_but_their_stock(store: SharedStore) {
    let wanted =
        NewSale { title: "tea".into(), stock: 10, begin: None, end: None, limit: 1, shards: 4 };
    let before = sale_of(&store, 5).await;
    let made = store.create_sale(&wanted, NOW).await.unwrap();
    let voucher = made.voucher_id;
    let shard = |number| ShardId { sale: voucher.into(), number };
    assert_eq!((made.initial, made.stock), (10, 10));
    assert_eq!(store.sale(voucher).await.unwrap(), made);
    let stocks = async || -> Vec<(u64, u64, u64)> {
        let shards = store.shards_of(voucher).await.unwrap();
        shards.iter().map(|it| (it.initial, it.stock, it.version)).collect()
    };
    assert_eq!(stocks().await, [(3, 3, 1), (3, 3, 1), (2, 2, 1), (2, 2, 1)]);
    let listed = store.vouchers(None, 9).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|it| it.voucher_id).collect();
    assert_eq!(listed, [before.voucher_id, voucher]);

    // Orders of two shards in one batch, and one of a shard that there is not.
    let of = |order, number| OrderEntry { shard: number, ..entry(order, order, voucher) };
    let batch = [of(1, 1), of(2, 2), of(3, 2), of(4, 5), of(5, 0)];
    let written = store.write_orders(&batch, NOW).await.unwrap();
    let new = [Written::New; 3];
    assert_eq!(written, [&new[..], &[Written::NoSale; 2]].concat());
    assert_eq!(store.write_orders(&batch[..2], NOW).await.unwrap(), [Written::Again; 2]);
    let twin = OrderEntry { order: id(6), ..of(1, 3) };
    let answer = store.write_orders(&[twin], NOW).await.unwrap();
    assert_eq!(answer, [Written::Conflict { holds: id(1) }], "whichever shard sold it");
    assert_eq!(stocks().await.iter().map(|it| it.1).collect::<Vec<_>>(), [2, 1, 2, 2]);
    let ledger = store.ledger(shard(2)).await.unwrap();
    assert_eq!((ledger.initial, ledger.stock, ledger.live), (3, 1, 2));
    let live = store.live_orders(shard(2), None, 9).await.unwrap();
    assert_eq!(
        live.iter().map(|it| (it.id, it.sold_by())).collect::<Vec<_>>(),
        [(id(2), shard(2)), (id(3), shard(2))]
    );
    let filter = OrderFilter {
        is: OrderTerms { voucher: Some(voucher), ..OrderTerms::default() },
        ..OrderFilter::default()
    };
    let page = store.orders(&filter, None, 2).await.unwrap();
    assert_eq!(page.iter().map(|it| it.id).collect::<Vec<_>>(), [id(3), id(2)]);

    // A move changes two shards, a restock also their sum, a change of the sale all of them.
    store.restock(&[(shard(3), -2, Some(1)), (shard(2), 2, None)], &[]).await.unwrap();
    assert_eq!(stocks().await, [(3, 2, 1), (5, 3, 2), (0, 0, 2), (2, 2, 1)]);
    let late = store.restock(&[(shard(3), 1, Some(1))], &[]).await;
    assert!(matches!(late, Err(StoreError::Changed(it)) if it == voucher), "{late:?}");
    let restocked = store.restock(&[(shard(1), 4, None)], &[]).await.unwrap();
    assert_eq!((restocked.shards.len(), restocked.initial), (1, 14));
    let fenced = store.fence_sale(shard(4), &|now| now.version == 1).await.unwrap().unwrap();
    assert_eq!((fenced.id, fenced.version), (shard(4), 2));
    let late = store.fence_sale(shard(4), &|now| now.version == 1).await.unwrap();
    assert!(late.is_none(), "{late:?}");
    let paused = store.set_state(voucher, SaleState::Paused, None, &[]).await.unwrap();
    assert!(paused.iter().all(|it| it.state == SaleState::Paused));
    assert_eq!(stocks().await.iter().map(|it| it.2).collect::<Vec<_>>(), [3, 3, 3, 3]);
    assert_eq!(store.sale(voucher).await.unwrap().initial, 14);
    store.note_delivered(shard(1), 3).await.unwrap();
    // SQL was set back while a newer version was delivered.
    store.note_delivered(shard(2), 9).await.unwrap();
    let undelivered = store.undelivered().await.unwrap();
    let undelivered: Vec<ShardId> = undelivered.iter().map(|it| it.id).collect();
    let expected = [ShardId::only(before.voucher_id), shard(2), shard(3), shard(4)];
    assert_eq!(undelivered, expected);

    let fence = Fence { name: "close".into(), token: 1 };
    let closed = store
        .close_overdue(NOW.plus(1), 9, seckill_store::Overdue::ALL, NOW.plus(2), &fence)
        .await
        .unwrap();
    assert_eq!(closed.len(), 3);
    assert_eq!(stocks().await.iter().map(|it| it.1).collect::<Vec<_>>(), [7, 5, 0, 2]);
    let returning = store.given_since(shard(2), NOW, None, 9).await.unwrap();
    assert_eq!(returning.iter().map(SaleOrder::sold_by).collect::<Vec<_>>(), [shard(2); 2]);
}

/// A database that was rolled back to before the sale, or to before its last changes, which had not reached each shard.
pub(crate) async fn shards_are_adopted_together(store: SharedStore) {
    let wanted =
        NewSale { title: "tea".into(), stock: 12, begin: None, end: None, limit: 1, shards: 3 };
    let voucher = store.create_sale(&wanted, NOW).await.unwrap().voucher_id;
    let lost = VoucherId(voucher.0 + 7);
    let held = |shards: Vec<SaleShard>, of: VoucherId, states: [(SaleState, i64, u64); 3]| {
        let held = shards.into_iter().zip(states).map(|(shard, (state, begin, version))| {
            let id = ShardId { sale: of.into(), number: shard.id.number };
            let spread = shard.spread.map(|spread| Spread { sale: of.into(), ..spread });
            let begin = (begin > 0).then(|| NOW.plus(begin));
            let sale = Sale { voucher_id: of, version, state, begin, spread, ..shard.sale };
            SaleShard { id, sale }
        });
        held.collect::<Vec<_>>()
    };
    let (running, paused, ended) = (SaleState::Running, SaleState::Paused, SaleState::Ended);
    let shards = async |of: VoucherId| -> Vec<_> {
        let shards = store.shards_of(of).await.unwrap();
        shards.iter().map(|it| (it.state, it.begin, it.version, it.is_undelivered())).collect()
    };
    let backup = store.shards_of(voucher).await.unwrap();

    let states = [(ended, 0, 4), (running, 0, 3), (paused, 5, 3)];
    store.adopt_sale(&held(backup.clone(), lost, states), &[]).await.unwrap();
    let at = Some(NOW.plus(5));
    let expected = [(ended, at, 5, true), (ended, at, 4, true), (ended, at, 4, true)];
    assert_eq!(shards(lost).await, expected, "what sells less, whichever comes last");
    let adopted = store.sale(lost).await.unwrap();
    assert_eq!((adopted.initial, adopted.stock, adopted.version), (12, 12, 13));
    let listed = store.vouchers(None, 9).await.unwrap();
    assert_eq!(listed.iter().map(|it| it.voucher_id).collect::<Vec<_>>(), [voucher, lost]);

    // The change was not delivered to the third shard in Redis; a new version is.
    let states = [(paused, 0, 2), (paused, 0, 3), (running, 0, 1)];
    store.adopt_sale(&held(backup.clone(), voucher, states), &[]).await.unwrap();
    let expected = [(paused, None, 3, true), (paused, None, 4, true), (paused, None, 2, true)];
    assert_eq!(shards(voucher).await, expected);
    // What SQL has may be older, or the decision of an operator since: it stays paused.
    let states = [(running, 0, 4), (running, 0, 5), (running, 0, 3)];
    store.adopt_sale(&held(backup.clone(), voucher, states), &[]).await.unwrap();
    assert!(shards(voucher).await.iter().all(|it| it.0 == paused));
    store.set_state(voucher, running, None, &[]).await.unwrap();
    // A change is refused if Redis has a newer version of a shard, and then nothing is written.
    let before = shards(voucher).await;
    let newer = [(ShardId { sale: voucher.into(), number: 2 }, before[1].2 + 1)];
    let refused = store.set_state(voucher, ended, None, &newer).await;
    assert_eq!(refused, Err(StoreError::Behind(voucher)));
    let refused = store.restock(&[(newer[0].0, 1, None)], &newer).await;
    assert_eq!(refused.unwrap_err(), StoreError::Behind(voucher));
    assert_eq!(shards(voucher).await, before);
    // The same version is adopted if it has another content.
    let other = |version| [(ended, 0, version), (running, 0, 1), (running, 0, 1)];
    let version = before[0].2;
    store.adopt_sale(&held(backup.clone(), voucher, other(version - 1)), &[]).await.unwrap();
    assert_eq!(shards(voucher).await, before);
    // Nothing is newer.
    let before = shards(voucher).await;
    store.adopt_sale(&held(backup.clone(), voucher, states), &[]).await.unwrap();
    assert_eq!(shards(voucher).await, before);
    // Over is over, whatever a server that comes back has.
    store.set_state(voucher, ended, None, &[]).await.unwrap();
    let states = [(running, 0, 90), (running, 0, 5), (running, 0, 3)];
    store.adopt_sale(&held(backup, voucher, states), &[]).await.unwrap();
    assert!(shards(voucher).await.iter().all(|it| it.0 == ended));
}

/// Entries of an earlier version may still name the IDs that its shards had, also after those vouchers are gone and the
/// counter of the database was set back.
async fn a_new_voucher_gets_no_id_that_a_shard_had(url: &str) {
    let store = seckill_store::open(url, &few()).await.unwrap();
    let wanted =
        NewSale { title: "tea".into(), stock: 10, begin: None, end: None, limit: 1, shards: 2 };
    let spread = store.create_sale(&wanted, NOW).await.unwrap();
    let pool = PlainPool::open(url, 1).unwrap();
    let mut sql = pool.connection().await.unwrap();
    for (shard, former) in [(1, 31), (2, 32)] {
        let former =
            format!("UPDATE tb_shard_stock SET former_voucher_id = {former} WHERE shard = {shard}");
        sql.command(&former).await.unwrap();
    }
    let former = store.former_shards().await.unwrap();
    assert_eq!(former.iter().map(|it| it.0.0).collect::<Vec<_>>(), [31, 32]);
    // The counter is beyond them, or not there yet.
    store.reserve_numbers(VoucherId(20)).await.unwrap();
    let made = store.create_voucher(&VoucherDetails::titled("gift"), NOW).await.unwrap();
    assert!(made > VoucherId(32), "{made}");
    store.reserve_numbers(VoucherId(100)).await.unwrap();
    for upto in [33, 99, 100] {
        // It is only raised.
        store.reserve_numbers(VoucherId(upto)).await.unwrap();
    }
    let next = sale_of(&store, 5).await;
    assert!(next.voucher_id > VoucherId(100), "{next:?}");

    // Nor does a sale come from Redis or from another service under such an ID.
    let fence = Fence { name: "operator".into(), token: 1 };
    let sale = Sale { voucher_id: VoucherId(32), spread: None, ..spread };
    let imported = store.import_sale(&sale, &[], NOW, &fence).await;
    assert!(matches!(imported, Err(StoreError::Rule(_))), "{imported:?}");
    let shard = SaleShard { id: ShardId::only(sale.voucher_id), sale };
    let adopted = store.adopt_sale(&[shard], &[]).await;
    assert!(matches!(adopted, Err(StoreError::Rule(_))), "{adopted:?}");
    assert_eq!(store.voucher(VoucherId(32)).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_voucher_gets_no_id_that_a_shard_had_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("a.db").display());
    a_new_voucher_gets_no_id_that_a_shard_had(&url).await;
}

#[tokio::test]
async fn a_new_voucher_gets_no_id_that_a_shard_had_on_mariadb() {
    a_new_voucher_gets_no_id_that_a_shard_had(&MariaDb::shared().database().await).await;
}

#[tokio::test]
async fn a_new_voucher_gets_no_id_that_a_shard_had_on_postgres() {
    a_new_voucher_gets_no_id_that_a_shard_had(&Postgres::shared().database().await).await;
}

/// Each reservation takes its time between the look at the sequence and its change.
#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_is_not_set_back_beside_new_vouchers() {
    let url = Postgres::shared().database().await;
    drop(seckill_store::open(&url, &few()).await.unwrap());
    let slow = "CREATE FUNCTION public.pg_get_serial_sequence(of TEXT, part TEXT) RETURNS TEXT \
        LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM pg_sleep(random() / 5); \
        RETURN pg_catalog.pg_get_serial_sequence(of, part); END $$; \
        DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', \
        current_database()); END $$";
    let mut conn = sqlx::PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(slow).execute(&mut conn).await.unwrap();
    let store = seckill_store::open(&url, &few()).await.unwrap();
    for round in 1..=5 {
        let made = join_all((0..4).map(async |_| {
            store.reserve_numbers(VoucherId(round * 100)).await?;
            store.create_voucher(&VoucherDetails::titled("tea"), NOW).await
        }));
        let mut made: Vec<_> = made.await.into_iter().map(Result::unwrap).collect();
        made.sort_unstable();
        made.dedup();
        assert!(made.len() == 4 && made[0] > VoucherId(round * 100), "{made:?}");
    }
}
