//! The connection to the database is cut before and after each message of every store operation.

use std::{fmt::Debug, time::Duration};

use crate::support::{Cut, MariaDb, PASSWORD, PATIENCE, Postgres, Proxy, Server, wait_until};
use crate::world::restock;
use seckill_model::{
    Cause, Fence, JobOutcome, Millis, NewRun, NewSale, OrderEntry, OrderFilter, OrderId,
    OrderTerms, RunEnd, SaleState, ShardId, UserId, VoucherDetails, VoucherId,
};
use seckill_store::{ActivityFilter, AuditEntry, Settings, SharedStore, StoreError};
use tokio::time::timeout;

const NOW: Millis = Millis(1_795_000_000_000);
/// Time limit for any reply.
const SOON: Duration = Duration::from_secs(20);

/// One connection, so that a lost one is noticed at once.
fn settings() -> Settings {
    Settings { pool: 1, ..Settings::default() }
}

/// An operation of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    CreateVoucher,
    CreateSale,
    SetState,
    Restock,
    WriteNew,
    WriteMixed,
    Pay,
    CloseOverdue,
    GaveBack,
    BeginRun,
    EndRun,
    LoseRuns,
    PauseJob,
    FencedWrite,
    DecideSetting,
    ChangeSetting,
    Record,
    Ping,
    Sales,
    Sale,
    Ledger,
    Order,
    Orders,
    Existing,
    ClosedAmong,
    LiveOrders,
    GiveBacks,
    GivenSince,
    Runs,
    LastDue,
    Switches,
    Setting,
    AuditEntries,
}

impl Op {
    const WRITING: &[Self] = &[
        Self::CreateVoucher,
        Self::CreateSale,
        Self::SetState,
        Self::Restock,
        Self::WriteNew,
        Self::WriteMixed,
        Self::Pay,
        Self::CloseOverdue,
        Self::GaveBack,
        Self::BeginRun,
        Self::EndRun,
        Self::LoseRuns,
        Self::PauseJob,
        Self::FencedWrite,
        Self::DecideSetting,
        Self::ChangeSetting,
        Self::Record,
    ];
    const READING: &[Self] = &[
        Self::Ping,
        Self::Sales,
        Self::Sale,
        Self::Ledger,
        Self::Order,
        Self::Orders,
        Self::Existing,
        Self::ClosedAmong,
        Self::LiveOrders,
        Self::GiveBacks,
        Self::GivenSince,
        Self::Runs,
        Self::LastDue,
        Self::Switches,
        Self::Setting,
        Self::AuditEntries,
    ];

    /// Not idempotent, so it is not repeated once it is done.
    fn adds_up(self) -> bool {
        matches!(self, Self::CreateVoucher | Self::CreateSale | Self::FencedWrite | Self::Record)
    }
}

/// The rows of one scenario: a sale with four orders, one of them closed, and a job with a run.
struct Case {
    number: u64,
    voucher: VoucherId,
    made: Millis,
    run: i64,
}

impl Case {
    async fn set(store: &SharedStore, number: u64) -> Self {
        let sale = NewSale {
            title: "hot pot".into(),
            stock: 9,
            begin: None,
            end: None,
            limit: 1,
            shards: 1,
        };
        let voucher = store.create_sale(&sale, NOW).await.unwrap().voucher_id;
        // Each case is older than the previous ones, so that their orders are not overdue with its own.
        let made = Millis(NOW.0 - 10 * number as i64);
        let mut case = Self { number, voucher, made, run: 0 };
        store.write_orders(&[case.entry(0, 0)], Millis(made.0 - 5)).await.unwrap();
        let closed = store
            .close_overdue(
                Millis(made.0 - 4),
                9,
                seckill_store::Overdue::ALL,
                NOW,
                &case.fence("job"),
            )
            .await
            .unwrap();
        assert_eq!(closed.len(), 1);
        let live = [1, 2, 3].map(|at| case.entry(at, at));
        store.write_orders(&live, made).await.unwrap();
        case.run = store.begin_run(&case.new_run(1)).await.unwrap().unwrap();
        store.change_setting(&case.name("old"), None, "one").await.unwrap();
        case
    }

    fn name(&self, what: &str) -> String {
        format!("{what}{}", self.number)
    }

    fn fence(&self, what: &str) -> Fence {
        Fence { name: self.name(what), token: 1 }
    }

    fn id(&self, at: u64) -> OrderId {
        OrderId::new(1_795_000_000, self.number * 100 + at).unwrap()
    }

    fn entry(&self, at: u64, user: u64) -> OrderEntry {
        let (order, user) = (self.id(at), UserId(user + 1));
        OrderEntry::new(order, user, self.voucher)
    }

    fn new_run(&self, due: i64) -> NewRun {
        NewRun {
            job: self.name("job"),
            due: Millis(due),
            cause: Cause::Due,
            node: "n".into(),
            token: due,
            started: NOW,
        }
    }

    /// All SQL rows of this case in one line.
    fn question(&self) -> String {
        let voucher = self.voucher;
        let count = |label: &str, rest: String| format!("'{label}', (SELECT COUNT(*) FROM {rest})");
        let orders = |label, what: &str| {
            count(label, format!("tb_voucher_order WHERE voucher_id = {voucher} AND {what}"))
        };
        let backs = |label, what: &str| {
            count(label, format!("tb_give_back WHERE voucher_id = {voucher} AND given IS {what}"))
        };
        let runs = |label, what: &str| {
            count(label, format!("tb_job_run WHERE job = '{}' AND {what}", self.name("job")))
        };
        let setting = |label: &str| {
            let name = self.name(label);
            format!("'{label}', (SELECT MAX(value) FROM tb_setting WHERE name = '{name}')")
        };
        let made = format!("tb_voucher v WHERE v.title = '{}'", self.name("made"));
        let parts = [
            count("vouchers", made.clone()),
            count(
                "sales",
                made.replace(" v ", " v JOIN tb_seckill_voucher s ON s.voucher_id = v.id "),
            ),
            format!(
                "'sale', (SELECT CONCAT_WS('/', state, version, initial_stock, stock) \
                 FROM tb_seckill_voucher WHERE voucher_id = {voucher})"
            ),
            orders("unpaid", "status = 1"),
            orders("paid", "status = 2 AND pay_time IS NOT NULL"),
            orders("closed", "status = 5 AND close_time IS NOT NULL"),
            backs("returning", "NULL"),
            backs("given", "NOT NULL"),
            runs("running", "outcome = 'running'"),
            runs("done", "outcome = 'done' AND took_ms = 7"),
            runs("lost", "outcome = 'lost'"),
            count("paused", format!("tb_job WHERE paused AND name = '{}'", self.name("job"))),
            format!(
                "'writes', (SELECT MAX(writes) FROM tb_lock_fence WHERE name = '{}')",
                self.name("lock")
            ),
            setting("old"),
            setting("new"),
            count(
                "audit entries",
                format!("tb_audit_log WHERE subject = '{}'", self.name("subject")),
            ),
        ];
        format!("SELECT CONCAT_WS(' ', {}) AS seen", parts.join(", "))
    }

    async fn look<S: Server>(&self, conn: &mut S::Conn) -> String {
        S::read(conn, self.question()).await
    }
}

/// Runs the operation and returns its result as text.
async fn ask(op: Op, store: &SharedStore, case: &Case) -> Result<String, StoreError> {
    fn outcome(answer: impl Debug) -> String {
        format!("{answer:?}")
    }
    let (voucher, ids) = (case.voucher, [1, 2, 3].map(|at| case.id(at)));
    Ok(match op {
        Op::CreateVoucher => {
            outcome(store.create_voucher(&VoucherDetails::titled(case.name("made")), NOW).await?)
        }
        Op::CreateSale => {
            let title = case.name("made");
            let sale = NewSale { title, stock: 5, begin: None, end: None, limit: 1, shards: 1 };
            outcome(store.create_sale(&sale, NOW).await?)
        }
        Op::SetState => outcome(store.set_state(voucher, SaleState::Paused, None, &[]).await?),
        Op::Restock => outcome(restock(store, voucher, 5, Some(1)).await?),
        Op::WriteNew => {
            let batch = [4, 5].map(|at| case.entry(at, at));
            outcome(store.write_orders(&batch, NOW).await?)
        }
        Op::WriteMixed => {
            let batch = [(1, 1), (4, 4), (5, 2), (6, 0)].map(|(at, user)| case.entry(at, user));
            outcome(store.write_orders(&batch, NOW).await?)
        }
        Op::Pay => outcome(store.pay(&ids[..2], NOW).await?),
        Op::CloseOverdue => outcome(
            store
                .close_overdue(
                    case.made.plus(1),
                    9,
                    seckill_store::Overdue::ALL,
                    NOW,
                    &case.fence("job"),
                )
                .await?,
        ),
        Op::GaveBack => outcome(store.gave_back(&[case.id(0)], NOW).await?),
        Op::BeginRun => outcome(store.begin_run(&case.new_run(2)).await?),
        Op::EndRun => {
            let end = RunEnd { outcome: JobOutcome::Done, took_ms: 7, detail: None, rows: 1 };
            outcome(store.end_run(case.run, &end).await?)
        }
        Op::LoseRuns => outcome(store.lose_runs(&case.name("job"), 2, &"gone".into(), NOW).await?),
        Op::PauseJob => outcome(store.pause_job(&case.name("job"), true, NOW).await?),
        Op::FencedWrite => outcome(store.fenced_write(&case.fence("lock"), NOW).await?),
        Op::DecideSetting => outcome(store.change_setting(&case.name("new"), None, "one").await?),
        Op::ChangeSetting => {
            outcome(store.change_setting(&case.name("old"), Some("one"), "two").await?)
        }
        Op::Record => {
            let entry = AuditEntry {
                at: NOW,
                operator: "o".into(),
                node: "n".into(),
                action: "sale end".into(),
                subject: case.name("subject").into(),
                reason: None,
                result: "done".into(),
                ..AuditEntry::default()
            };
            outcome(store.record(&entry).await?)
        }
        Op::Ping => outcome(store.ping().await?),
        Op::Sales => outcome(store.sales().await?),
        Op::Sale => outcome(store.sale(voucher).await?),
        Op::Ledger => outcome(store.ledger(ShardId::only(voucher)).await?),
        Op::Order => outcome(store.order(ids[0]).await?),
        Op::Orders => {
            let is = OrderTerms { voucher: Some(voucher), ..OrderTerms::default() };
            let filter = OrderFilter { is, ..OrderFilter::default() };
            outcome(store.orders(&filter, None, 9).await?)
        }
        Op::Existing => outcome(store.existing(&ids).await?),
        Op::ClosedAmong => outcome(store.closed_among(&ids).await?),
        Op::LiveOrders => outcome(store.live_orders(ShardId::only(voucher), None, 9).await?),
        Op::GiveBacks => outcome(store.give_backs(None, 9).await?),
        Op::GivenSince => {
            outcome(store.given_since(ShardId::only(voucher), Millis(0), None, 9).await?)
        }
        Op::Runs => outcome(store.runs(Some(&case.name("job")), 9).await?),
        Op::LastDue => outcome(store.last_due(&case.name("job"), NOW).await?),
        Op::Switches => outcome(store.job_switches().await?),
        Op::Setting => outcome(store.setting(&case.name("old")).await?),
        Op::AuditEntries => outcome(store.activity(&ActivityFilter::default(), None, 9).await?),
    })
}

/// A connection without prepared statements, so that each cut meets the same messages.
async fn with_a_new_connection(store: &SharedStore, proxy: &Proxy) {
    proxy.sever().await;
    wait_until(PATIENCE, "a new connection", async || store.ping().await.is_ok()).await;
}

/// Asserts an error without a password; `commits` if the cut was at a COMMIT, whose result is unknown.
fn judge(result: &StoreError, commits: bool, at: &str) {
    assert!(result.is_away(), "{at}: {result}");
    assert_eq!(matches!(result, StoreError::Unknown(_)), commits, "{at}: {result}");
    assert!(!format!("{result} {result:?}").contains(PASSWORD), "{at}: {result}");
}

async fn each_write_is_whole_or_nothing_wherever_it_is_cut<S: Server>(server: S) {
    let name = server.create().await;
    let direct = seckill_store::open(&server.url(&name), &settings()).await.unwrap();
    let proxy = Proxy::before(server.port()).await;
    let url = proxy.url(&server.quick_url(&name).await, server.port());
    let store = seckill_store::open(&url, &settings()).await.unwrap();
    let (mut number, mut conn) = (0, server.connect(&name).await);
    let spare = NewSale {
        title: "tea".into(),
        stock: 100_000,
        begin: None,
        end: None,
        limit: 1,
        shards: 1,
    };
    let spare = direct.create_sale(&spare, NOW).await.unwrap().voucher_id;
    for op in Op::WRITING.iter().copied() {
        number += 1;
        let case = Case::set(&direct, number).await;
        let before = case.look::<S>(&mut conn).await;
        ask(op, &direct, &case).await.unwrap();
        let whole = case.look::<S>(&mut conn).await;
        assert_ne!(before, whole, "{op:?} does something");
        // For the server the last two are the same, so one of them is tried everywhere.
        let ways = if op == Op::WriteMixed { &Cut::ALL[..] } else { &Cut::ALL[..2] };
        for cut in ways.iter().copied() {
            let (mut cuts, mut commit) = (0, false);
            for message in 1.. {
                let at = format!("{op:?} cut {cut:?} message {message}");
                number += 1;
                let case = Case::set(&direct, number).await;
                with_a_new_connection(&store, &proxy).await;
                // A batch is tried as all new if the previous one was, so each write begins alike.
                let order = OrderId::new(1_700_000_000, number).unwrap();
                let new = OrderEntry::new(order, UserId(number), spare);
                store.write_orders(&[new], NOW).await.unwrap();
                proxy.cut_at(message, cut);
                let result = timeout(SOON, ask(op, &store, &case)).await.expect(&at);
                let taken = proxy.heal();
                let seen = case.look::<S>(&mut conn).await;
                let Some(commits) = taken.first().copied() else {
                    assert!(result.is_ok(), "{at}: {result:?}");
                    assert_eq!(seen, whole, "{at}");
                    break;
                };
                cuts += 1;
                commit = commits;
                judge(&result.expect_err(&at), commits, &at);
                let done = commits && cut != Cut::Before;
                assert_eq!(&seen, if done { &whole } else { &before }, "{at}");
                if done && op == Op::Restock {
                    let again = ask(op, &store, &case).await.unwrap_err();
                    assert!(matches!(again, StoreError::Changed(_)), "{at}: {again}");
                } else if !(done && op.adds_up()) {
                    timeout(SOON, ask(op, &store, &case)).await.expect(&at).expect(&at);
                }
                assert_eq!(case.look::<S>(&mut conn).await, whole, "{at}, asked again");
                let ledger = direct.ledger(ShardId::only(case.voucher)).await.unwrap();
                let taken = ledger.initial as i64 - ledger.stock;
                assert_eq!((taken, ledger.doubled), (ledger.live as i64, 0), "{at}");
            }
            assert!(cuts >= 3 && commit, "{op:?} ends with a COMMIT, after {cuts} messages");
        }
    }
}

async fn each_question_is_answered_the_next_time_it_is_asked(server: impl Server) {
    let name = server.create().await;
    let direct = seckill_store::open(&server.url(&name), &settings()).await.unwrap();
    let proxy = Proxy::before(server.port()).await;
    let url = proxy.url(&server.quick_url(&name).await, server.port());
    let store = seckill_store::open(&url, &settings()).await.unwrap();
    let case = Case::set(&direct, 1).await;
    for op in Op::READING.iter().copied() {
        let right = ask(op, &direct, &case).await.unwrap();
        for cut in Cut::ALL {
            let mut cuts = 0;
            for message in 1.. {
                let at = format!("{op:?} cut {cut:?} message {message}");
                with_a_new_connection(&store, &proxy).await;
                proxy.cut_at(message, cut);
                let error = timeout(SOON, ask(op, &store, &case)).await.expect(&at);
                let taken = !proxy.heal().is_empty();
                match error {
                    Ok(error) => assert_eq!(error, right, "{at}"),
                    Err(error) => judge(&error, false, &at),
                }
                if !taken {
                    break;
                }
                cuts += 1;
                let again = timeout(SOON, ask(op, &store, &case)).await.expect(&at);
                assert_eq!(again.expect(&at), right, "{at}, asked again");
            }
            assert!(cuts > 0, "{op:?}");
        }
    }
}

/// Also during the creation of tables: the next start completes it.
async fn a_start_that_was_cut_is_ended_by_the_next_one(server: impl Server) {
    let proxy = Proxy::before(server.port()).await;
    let name = server.create().await;
    let url = server.quick_url(&name).await;
    let (cut_url, settings) = (proxy.url(&url, server.port()), settings());
    let mut cuts = 0;
    for message in 1.. {
        let cut = Cut::ALL[message as usize % 3];
        let at = format!("opening cut {cut:?} message {message}");
        server.clear(&name).await;
        proxy.cut_at(message, cut);
        let error = timeout(SOON, seckill_store::open(&cut_url, &settings)).await.expect(&at);
        if proxy.heal().is_empty() {
            error.expect(&at);
            break;
        }
        cuts += 1;
        // The termination message of a connection has no reply.
        if let Err(error) = error {
            judge(&error, false, &at);
        }
        let store = seckill_store::open(&url, &settings).await.expect(&at);
        Case::set(&store, 1).await;
        store.close().await;
    }
    assert!(cuts > 5, "{cuts}");
}

/// A pool that has to reopen every connection while connecting is cut as well.
async fn a_login_that_is_cut_is_tried_again(server: impl Server) {
    let name = server.create().await;
    let proxy = Proxy::before(server.port()).await;
    let url = proxy.url(&server.guarded(&name).await, server.port());
    seckill_store::open(&url, &settings()).await.unwrap().close().await;
    for cut in Cut::ALL {
        for message in 1.. {
            let at = format!("login cut {cut:?} message {message}");
            let store = seckill_store::open(&url, &settings()).await.unwrap();
            proxy.cut_at(message, cut);
            let error = timeout(SOON, store.sales()).await.expect(&at);
            if proxy.heal().is_empty() {
                error.expect(&at);
                break;
            }
            if let Err(error) = error {
                judge(&error, false, &at);
            }
            let again = timeout(SOON, store.sales()).await.expect(&at);
            assert_eq!(again.expect(&at), [], "{at}");
        }
    }
}

crate::on_both_servers![
    each_write_is_whole_or_nothing_wherever_it_is_cut,
    each_question_is_answered_the_next_time_it_is_asked,
    a_start_that_was_cut_is_ended_by_the_next_one,
    a_login_that_is_cut_is_tried_again,
];
