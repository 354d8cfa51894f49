//! The task that takes snapshots: it reads what the screen shows, and runs the audit while there are few buyers.
//!
//! It changes nothing but the snapshot, and continues while a server is unreachable.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{
    EntryId, Message, Millis, OrderCounts, VoucherId,
    ledger::{SaleAudit, SaleFinding},
};
use seckill_store::{ActivityFilter, AuditEntry, SharedStore, StoreError, Which};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Result,
    commands::{Focus, command_handler::Operator},
    deployment::Deployment,
    jobs::{board, builtin},
    ledger,
    recovery::{partition_repair, sale_versions::SaleVersions},
    telemetry::{
        OrdersView, Page, Snapshot, StreamView,
        alarms::alarms,
        census::Census,
        collector::Collector,
        data_loss::{RecentLosses, add_published},
        ledger_page::{AuditLimit, LedgerPage},
        ledger_totals::Figures,
        log::LogView,
        snapshot::{JobLine, LetterPage, LogPage, OrdersPage, PendingPage, SaleOrders, StreamPage},
    },
};

/// Interval between snapshots under load.
const BUSY_TICK: Duration = Duration::from_millis(250);
/// Interval between snapshots while idle.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// Minimum interval between snapshots, even on request.
const MIN_TICK: Duration = Duration::from_millis(100);
/// An audit by order ID reads every buyer; above this number it is left to `seckill audit`.
pub const AUDIT_UP_TO: u64 = 300_000;
/// Unchanged figures are audited again after this, or after this multiple of the last audit's duration: an idle node
/// spends a three-hundredth of a core on it.
const AUDIT_AGAIN: Duration = Duration::from_millis(750);
const AUDIT_SHARE: u32 = 300;
/// Changed figures are audited at a higher rate for this long.
const HASTE: Duration = Duration::from_secs(1);
/// Delay after an audit that was interrupted by a server.
const AUDIT_PAUSE: Duration = Duration::from_secs(10);
/// Delay between audits for the screen, and the timeout of one.
const AUDIT_EVERY: Duration = Duration::from_secs(2);
const AUDIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between reads of the job history and of the log, and the timeout of each.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// Timeout for classifying a page of the pending list.
const CLASSIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for reading a page; one of Redis has a shorter one of its own.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Runs of each job in a snapshot.
const JOB_RUNS: u32 = 20;
/// Lines of the log in a snapshot.
const ACTIVITY: u32 = 50;

/// Interval between counts of all pending entries, and the timeout of one.
const CENSUS_EVERY: Duration = Duration::from_secs(2);
/// Interval between reads of a page of dead letters, which change rarely.
const LETTERS_EVERY: Duration = Duration::from_secs(1);
/// Interval between reads of a page of orders, and its size.
const ORDERS_EVERY: Duration = Duration::from_secs(1);
const ORDERS: usize = 100;
/// Interval between counts of a sale's orders, the timeout of one, and the pause after a timeout.
const COUNT_EVERY: Duration = Duration::from_secs(3);
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);
const COUNT_PAUSE: Duration = Duration::from_mins(1);
/// Maximum number of repeat buyers listed for a sale, those with the most orders.
const REPEAT_BUYERS: u32 = 5;
/// Lines of a page of the log.
const LOG_PAGE: usize = 200;

/// The collector's task.
pub(crate) struct SnapshotTask {
    pub(crate) collector: Collector,
    pub(crate) operator: Operator,
    pub(crate) focus: watch::Receiver<Focus>,
    /// A command has ended: its changes are read now.
    pub(crate) acted: Arc<Notify>,
    pub(crate) snapshot_sender: watch::Sender<Arc<Snapshot>>,
    pub(crate) tasks: TaskTracker,
    /// Receives each sale in SQL.
    pub(crate) versions: SaleVersions,
    pub(crate) ledger: LedgerPage,
    pub(crate) parts: Parts,
}

/// The parts of a snapshot that are read while they are displayed.
pub(crate) struct Parts {
    pending: Part<EntryId, PendingPage>,
    stream: Part<StreamView, StreamPage>,
    census: Part<(), Option<Census>>,
    letters: Part<EntryId, LetterPage>,
    orders: Part<OrdersView, OrdersPage>,
    sale_orders: Part<VoucherId, Option<SaleOrders>>,
    log: Part<LogView, LogPage>,
    jobs: Part<(), Vec<JobLine>>,
    activity: Part<(), Arc<Vec<AuditEntry>>>,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            pending: Part::new("the pending list", Duration::ZERO, PAGE_TIMEOUT + CLASSIFY_TIMEOUT),
            stream: Part::new("the order stream", Duration::ZERO, PAGE_TIMEOUT),
            census: Part::new("the pending entries", CENSUS_EVERY, CENSUS_EVERY),
            letters: Part::new("the dead letters", LETTERS_EVERY, PAGE_TIMEOUT),
            orders: Part::new("the orders", ORDERS_EVERY, PAGE_TIMEOUT),
            sale_orders: Part::new("the orders of a sale", COUNT_EVERY, COUNT_TIMEOUT * 3),
            log: Part::new("the log", LOG_EVERY, LOG_EVERY),
            jobs: Part::new("the jobs", LOG_EVERY, LOG_EVERY),
            activity: Part::new("the activity", LOG_EVERY, LOG_EVERY),
        }
    }
}

impl SnapshotTask {
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut auditing: Option<JoinHandle<Audited>> = None;
        let (mut audit_from, mut was_busy, mut acted) = (Instant::now(), true, false);
        let mut screen_from = audit_from;
        let (mut changed, mut shown, mut hurried) = (audit_from, None, false);
        while !stop.is_cancelled() {
            if let Some(audit) = auditing.take_if(|audit| audit.is_finished()) {
                screen_from = Instant::now() + AUDIT_EVERY;
                if !self.take_audit(audit).await {
                    audit_from = Instant::now() + AUDIT_PAUSE;
                }
            }
            let focus = *self.focus.borrow_and_update();
            let mut snapshot = self.collect(&focus, acted).await;
            let is_busy = is_busy(&snapshot);
            if shown.as_ref() != Some(&snapshot.audit) || self.collector.is_changing() {
                (changed, shown) = (Instant::now(), Some(snapshot.audit.clone()));
            }
            let is_calm = !is_busy && !was_busy && changed.elapsed() >= HASTE;
            was_busy = is_busy;
            let small = snapshot.funnel.admitted.total <= AUDIT_UP_TO;
            let allowed = small || self.collector.needs_audit();
            match self.ledger.limit {
                Some(AuditLimit::Orders(_)) if allowed => self.ledger.limit = None,
                _ if !allowed => self.ledger.limit = Some(AuditLimit::Orders(AUDIT_UP_TO)),
                _ => {}
            }
            let (taken, up) = (snapshot.taken, snapshot.redis.up && snapshot.sql.up);
            snapshot.ledger = if up { self.ledger.clone() } else { self.ledger.clone().outdated() };
            self.snapshot_sender.send_replace(Arc::new(snapshot));
            let now = Instant::now();
            let figures = self.collector.audit_due();
            let on_screen = focus.ledger && up && (acted || now >= screen_from);
            let due = figures.is_some() || on_screen;
            if due && allowed && auditing.is_none() && now >= audit_from {
                let (operator, stop) = (self.operator.clone(), stop.clone());
                let known = figures.as_ref().and_then(|figures| self.collector.found(figures));
                let known = known.map(<[SaleFinding]>::to_vec);
                hurried = figures.is_none() || known.is_none();
                let changed = Arc::clone(&self.acted);
                auditing = Some(self.tasks.spawn(async move {
                    let audit = audit(operator, taken, figures, known, &changed);
                    stop.run_until_cancelled(audit).await.unwrap_or(Audited::Interrupted)
                }));
            }
            let ended = Instant::now();
            let is_hurried = hurried && auditing.is_some();
            let tick = if is_calm && !is_hurried { IDLE_TICK } else { BUSY_TICK };
            acted = false;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(tick) => {}
                () = self.acted.notified() => acted = true,
                changed = self.focus.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            // A key that is held down must not take server capacity from the buyers.
            let rest = MIN_TICK.saturating_sub(ended.elapsed());
            stop.run_until_cancelled(tokio::time::sleep(rest)).await;
        }
    }

    /// Stores the result of an audit; `false` if it was not completed, and the next one has to wait.
    async fn take_audit(&mut self, audit: JoinHandle<Audited>) -> bool {
        match audit.await {
            Ok(Audited::Found { figures, findings, page, again }) => {
                if let Some(figures) = figures {
                    self.collector.note_audit(figures, findings, again);
                }
                self.ledger = page;
                return true;
            }
            Ok(Audited::TooSlow) => {
                self.ledger.limit = Some(AuditLimit::Seconds(AUDIT_TIMEOUT.as_secs()));
            }
            Ok(Audited::Interrupted) => {}
            Err(error) => tracing::error!(%error, "the audit task failed"),
        }
        false
    }

    /// Takes a snapshot with the parts on display. A part that cannot be read keeps its last value and time.
    async fn collect(&mut self, focus: &Focus, acted: bool) -> Snapshot {
        let Self { collector, operator, parts, versions, .. } = self;
        let mut snapshot = collector.collect().await;
        collector.sales().iter().for_each(|sale| versions.note(sale));
        let (taken, redis_up, sql_up) = (snapshot.taken, snapshot.redis.up, snapshot.sql.up);
        let Deployment { store, settings, .. } = &operator.deployment;
        snapshot.claim_idle_ms = Some(settings.claim_idle_ms);
        let pending = async |from| pending_page(collector, operator, from, taken, sql_up).await;
        snapshot.pending = parts.pending.read(focus.pending, acted, redis_up, pending).await;
        snapshot.census = if snapshot.pending.is_whole() {
            Some(snapshot.pending.census())
        } else {
            let count = async |()| collector.census().await.map(Some);
            parts.census.read(focus.pending.map(|_| ()), acted, redis_up, count).await
        };
        snapshot.sale_orders =
            count_orders(&mut parts.sale_orders, store, focus.sale, acted, &snapshot).await;
        let letters = async |from| operator.letters().screen_page(from).await;
        let both_up = redis_up && sql_up;
        snapshot.letters = parts.letters.read(focus.letters_from, acted, both_up, letters).await;
        let entries = async |view| collector.stream_page(view).await;
        snapshot.entries = parts.stream.read(focus.stream, acted, redis_up, entries).await;
        let orders = async |view| orders_page(store, view, taken).await;
        snapshot.orders = parts.orders.read(focus.orders, acted, sql_up, orders).await;
        snapshot.late_orders = parts.orders.late;
        // Before the log: what is written in between is in both.
        let losses = if redis_up { collector.losses().await } else { Ok(Vec::new()) };
        let losses = losses
            .inspect_err(|error| tracing::debug!(%error, "the published losses were not read"))
            .unwrap_or_default();
        // Only the newest page of the log changes.
        let last = &parts.log.value;
        let is_newest = focus.log.is_some_and(|view| view.before.is_none());
        let may_change = is_newest || last.taken.is_none() || focus.log != Some(last.view);
        let log = async |view| log_page(store, view, taken, &losses).await;
        snapshot.log = parts.log.read(focus.log, acted, sql_up && may_change, log).await;
        // The first snapshot is needed quickly; the next one has the jobs.
        if snapshot.seq > 1 {
            let jobs = async |()| board(store, &builtin::jobs(settings), taken, JOB_RUNS).await;
            snapshot.jobs = parts.jobs.read(Some(()), acted, sql_up, jobs).await;
            let newest = async |()| {
                store.activity(&ActivityFilter::default(), None, ACTIVITY).await.map(Arc::new)
            };
            snapshot.activity = parts.activity.read(Some(()), false, sql_up, newest).await;
            if !losses.is_empty() {
                add_published(Arc::make_mut(&mut snapshot.activity), losses);
            }
            let losses = RecentLosses::of(&snapshot.activity, taken);
            snapshot.alarms = alarms(&snapshot, losses);
        }
        snapshot
    }
}

/// Reads one page of the pending list, with verdicts if the entries can be classified in time.
async fn pending_page(
    collector: &mut Collector,
    operator: &Operator,
    from: EntryId,
    taken: Millis,
    sql_up: bool,
) -> Result<PendingPage> {
    let rows = collector.pending(from).await?;
    let mut page = collector.pending_page(from, &rows, taken);
    if rows.is_empty() || !sql_up {
        return Ok(page);
    }
    let classifying = async {
        let servers = operator.deployment.probed().await;
        operator.classifier(servers).await?.classify(rows).await
    };
    if let Ok(Ok(entries)) = tokio::time::timeout(CLASSIFY_TIMEOUT, classifying).await {
        for (line, entry) in Arc::make_mut(&mut page.lines).iter_mut().zip(entries) {
            line.verdict = Some(entry.verdict);
            line.fault = entry.fault.as_ref().map(Message::of);
        }
    }
    Ok(page)
}

/// Counts the orders of a sale. This reads all of them, so it is done rarely, and less often if it times out.
async fn count_orders(
    part: &mut Part<VoucherId, Option<SaleOrders>>,
    store: &SharedStore,
    sale: Option<VoucherId>,
    acted: bool,
    snapshot: &Snapshot,
) -> Option<SaleOrders> {
    let is_slow =
        part.value.as_ref().is_some_and(|it| it.counts.is_none() || it.repeat_buyers.is_none());
    part.interval = if is_slow { COUNT_PAUSE } else { COUNT_EVERY };
    let count = async |voucher| -> Result<_> {
        let sale = snapshot.sale(voucher);
        let limit = sale.map_or(1, |line| line.limit);
        let counts = in_time(store.order_counts(voucher)).await?;
        // If a buyer may hold one order, only buyers whose order was closed return.
        let may_repeat = |it: &OrderCounts| limit > 1 || !it.keys().all(|it| it.is_live());
        let repeat_buyers = match &counts {
            Some(counts) if may_repeat(counts) => {
                in_time(store.repeat_buyers(voucher, REPEAT_BUYERS)).await?
            }
            Some(_) => Some(Vec::new()),
            None => None,
        };
        Ok(Some(SaleOrders { voucher, taken: snapshot.taken, counts, repeat_buyers }))
    };
    let counted = part.read(sale, acted && !is_slow, snapshot.sql.up, count).await;
    counted.filter(|counted| Some(counted.voucher) == sale)
}

/// A part of the snapshot that is read while it is displayed, at most once per interval.
struct Part<V, T> {
    /// For the log file.
    name: &'static str,
    interval: Duration,
    timeout: Duration,
    /// The view requested last, whether or not it could be read.
    view: Option<V>,
    /// The view whose last read timed out.
    late: Option<V>,
    /// When the last read ended.
    read_at: Instant,
    value: T,
}

impl<V: Copy + PartialEq, T: Clone + Default> Part<V, T> {
    fn new(name: &'static str, interval: Duration, timeout: Duration) -> Self {
        let (read_at, value) = (Instant::now(), T::default());
        Self { name, interval, timeout, view: None, late: None, read_at, value }
    }

    /// Returns the part for `view`, read again for another view, after a command (`acted`) and after the interval, if
    /// `may_read`. The last value is kept if that fails, and dropped once the part is not displayed.
    async fn read<E: fmt::Display>(
        &mut self,
        view: Option<V>,
        acted: bool,
        may_read: bool,
        read: impl AsyncFnOnce(V) -> Result<T, E>,
    ) -> T {
        let Some(view) = view else {
            (self.view, self.late, self.value) = (None, None, T::default());
            return T::default();
        };
        let is_new = self.view.replace(view) != Some(view);
        let is_due = is_new || acted || self.read_at.elapsed() >= self.interval;
        if may_read && is_due {
            let name = self.name;
            self.late = None;
            match tokio::time::timeout(self.timeout, read(view)).await {
                Ok(Ok(value)) => self.value = value,
                Ok(Err(error)) => tracing::debug!(name, %error, "not read"),
                Err(_) => {
                    tracing::debug!(name, "took too long to read");
                    self.late = Some(view);
                }
            }
            self.read_at = Instant::now();
        }
        self.value.clone()
    }
}

/// Waits for a count of orders; `None` if it timed out.
async fn in_time<T>(counting: impl Future<Output = Result<T, StoreError>>) -> Result<Option<T>> {
    Ok(tokio::time::timeout(COUNT_TIMEOUT, counting).await.ok().transpose()?)
}

/// Reads one page of orders.
async fn orders_page(store: &SharedStore, view: OrdersView, taken: Millis) -> Result<OrdersPage> {
    let OrdersView { query, before } = view;
    let lines = match query.id {
        Some(id) => store.order(id).await?.into_iter().filter(|it| query.holds(it)).collect(),
        None => store.orders(&query.filter, before, ORDERS as u32 + 1).await?,
    };
    Ok(Page::of(view, taken, lines, ORDERS))
}

/// Reads one page of the log; the newest one includes the published losses.
async fn log_page(
    store: &SharedStore,
    view: LogView,
    taken: Millis,
    losses: &[AuditEntry],
) -> Result<LogPage> {
    let filter = ActivityFilter { which: view.which, ..ActivityFilter::default() };
    let mut lines = store.activity(&filter, view.before, LOG_PAGE as u32 + 1).await?;
    if view.before.is_none() && view.which != Some(Which::Commands) {
        add_published(&mut lines, losses.to_vec());
    }
    let mut page = Page::of(view, taken, lines, LOG_PAGE);
    Arc::make_mut(&mut page.lines).reverse();
    Ok(page)
}

/// Result of an audit.
enum Audited {
    /// It was completed; `figures` are those that it proves or disproves.
    Found {
        figures: Option<Figures>,
        findings: Vec<SaleFinding>,
        page: LedgerPage,
        /// The next one is due then.
        again: Instant,
    },
    /// It exceeded the timeout of an audit for the screen.
    TooSlow,
    /// A server did not reply, or the engine stops.
    Interrupted,
}

/// Audits all sales. Without figures it is for the screen only, and has a timeout. Differences from `known`, the
/// findings of the last audit of these figures, are sent to `changed`.
async fn audit(
    operator: Operator,
    taken: Millis,
    figures: Option<Figures>,
    known: Option<Vec<SaleFinding>>,
    changed: &Notify,
) -> Audited {
    let begun = Instant::now();
    let auditing = ledger_page(&operator, taken);
    let result = match figures {
        Some(_) => Ok(auditing.await),
        None => tokio::time::timeout(AUDIT_TIMEOUT, auditing).await,
    };
    let page = match result {
        // It proves nothing about these figures.
        Ok(Ok(page)) if figures.is_some() && !page.unread.is_empty() => {
            return Audited::Interrupted;
        }
        Ok(Ok(page)) => page,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the audit was interrupted; retrying");
            return Audited::Interrupted;
        }
        Err(_) => return Audited::TooSlow,
    };
    let findings: Vec<_> = page.lines.iter().flat_map(SaleAudit::found).collect();
    if known.is_some_and(|known| known != findings) {
        changed.notify_one();
    }
    // Findings were confirmed by several reads.
    let reads = if findings.is_empty() { 1 } else { ledger::LOOKS };
    let again = begun + AUDIT_AGAIN.max(begun.elapsed() / reads * AUDIT_SHARE);
    Audited::Found { figures, findings, page, again }
}

async fn ledger_page(operator: &Operator, taken: Millis) -> Result<LedgerPage> {
    let mut servers = operator.deployment.probed().await;
    let partitions = partition_repair::all_faults(&mut servers).await?;
    let audit = ledger::audit(&mut servers, None).await?;
    Ok(LedgerPage { unread: audit.unread.into(), ..LedgerPage::of(taken, audit.sales, partitions) })
}

/// Whether the next snapshot will differ: buyers arrive, or orders are in flight.
fn is_busy(snapshot: &Snapshot) -> bool {
    let busy = snapshot.funnel.attempts.per_second > 0.0 || !snapshot.load_tests.is_empty();
    let under_way = snapshot.stream.as_ref().is_some_and(|s| s.pending > 0 || s.lag != Some(0));
    let away = !snapshot.redis.up || !snapshot.unreachable.is_empty() || !snapshot.sql.up;
    busy || under_way || away
}
