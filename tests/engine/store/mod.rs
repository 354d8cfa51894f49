//! The store against real databases: one suite for every dialect, then tests of each dialect.

mod audit_log;
mod jobs;
mod orders;
mod payment;
mod sales;
mod sqlite_file;
mod users;

use crate::support::{MariaDb, Postgres};
use seckill_model::{Millis, NewSale, OrderEntry, OrderId, Sale, UserId, VoucherId};
use seckill_store::{Settings, SharedStore};
use tempfile::TempDir;

const NOW: Millis = Millis(1_795_000_000_000);

/// An empty SQLite store; the directory lives as long as the first value.
async fn sqlite() -> (TempDir, SharedStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = sqlite_at(&dir).await;
    (dir, store)
}

async fn sqlite_at(dir: &TempDir) -> SharedStore {
    seckill_store::open(
        &format!("sqlite:{}", dir.path().join("a.db").display()),
        &Settings::default(),
    )
    .await
    .unwrap()
}

async fn sale_of(store: &SharedStore, stock: u64) -> Sale {
    let sale = NewSale {
        title: "hot pot 50% off".into(),
        stock,
        begin: None,
        end: None,
        limit: 1,
        shards: 1,
    };
    store.create_sale(&sale, NOW).await.unwrap()
}

fn entry(order: u64, user: u64, voucher: VoucherId) -> OrderEntry {
    OrderEntry::new(id(order), UserId(user), voucher)
}

/// IDs as large as real ones: the low bits must survive every conversion.
fn id(number: u64) -> OrderId {
    OrderId::new(1_795_000_000, number).unwrap()
}

/// An empty database on the server that these tests share.
async fn mariadb() -> ((), SharedStore) {
    let url = MariaDb::shared().database().await;
    ((), seckill_store::open(&url, &few()).await.unwrap())
}

async fn postgres() -> ((), SharedStore) {
    let url = Postgres::shared().database().await;
    ((), seckill_store::open(&url, &few()).await.unwrap())
}

/// Many stores share the connections of a server.
fn few() -> Settings {
    Settings { pool: 4, ..Settings::default() }
}

/// Runs each case on each dialect with an empty store.
macro_rules! on_all {
    ($($room:ident :: $case:ident),* $(,)?) => {
        on_all!(@on sqlite on_sqlite $($room::$case)*);
        on_all!(@on mariadb on_mariadb $($room::$case)*);
        on_all!(@on postgres on_postgres $($room::$case)*);
    };
    (@on $open:ident $name:ident $($room:ident :: $case:ident)*) => {
        mod $name {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let (_dir, store) = super::$open().await;
                    super::$room::$case(store).await;
                }
            )*
        }
    };
}

on_all![
    sales::a_sale_is_kept_as_it_was_given,
    sales::an_import_is_fenced,
    sales::states_change_until_the_end,
    sales::an_opening_moves_but_not_past_the_end,
    sales::restocking_adds_to_both_sides,
    sales::a_cut_takes_no_piece_that_is_sold,
    sales::an_archived_sale_is_read_still,
    sales::the_shards_of_a_sale_share_all_but_their_stock,
    sales::shards_are_adopted_together,
    sales::vouchers_of_both_kinds_come_in_pages,
    sales::a_setting_is_decided_once,
    sales::what_is_not_there_is_no_sale,
    sales::audit_entries_are_kept_newest_first,
    sales::it_says_what_it_is,
    orders::each_answer_has_its_case,
    orders::twins_within_one_batch,
    orders::what_would_be_answered_is_known_before,
    orders::nothing_is_left_of_a_batch_that_fails,
    orders::an_order_without_a_sale_holds_up_no_other,
    orders::several_vouchers_in_one_batch,
    orders::what_a_row_cannot_hold_is_refused,
    orders::live_orders_come_in_pages,
    orders::each_place_holds_one_order,
    orders::pages_of_orders_follow_their_filter,
    orders::twenty_thousand_orders,
    orders::a_model_agrees_on_any_batches,
    payment::each_payment_returns_its_result,
    payment::each_order_is_paid_or_closed_and_never_both,
    payment::orders_of_a_frozen_sale_are_neither_paid_nor_closed,
    payment::the_oldest_close_first_and_only_under_the_lock,
    payment::what_was_closed_is_reported_until_redis_confirms_it,
    payment::a_closed_place_is_free_again,
    payment::a_promise_is_cancelled_once_and_takes_no_piece,
    payment::an_ordinary_voucher_is_bought_freely,
    jobs::a_due_time_is_taken_once,
    jobs::runs_are_kept_with_their_ends,
    jobs::history_is_forgotten_but_for_the_newest,
    jobs::a_paused_job_waits_for_its_operator,
    jobs::a_fence_lets_no_older_token_pass,
    jobs::names_compare_byte_by_byte,
    audit_log::a_line_keeps_all_that_it_was_given,
    audit_log::a_line_is_written_once,
    audit_log::the_log_comes_in_pages_by_time,
    audit_log::orders_are_counted_over_time,
    users::one_phone_is_one_user,
    users::users_without_a_phone_are_many,
    users::a_token_is_valid_until_it_is_revoked,
];
