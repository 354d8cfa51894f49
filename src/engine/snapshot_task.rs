//! The task that takes snapshots: it reads what the screen shows, and runs the audit while there are few buyers.
//!
//! It changes nothing but the snapshot, and continues while a server is unreachable.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{
    EntryId, Message, Millis, Order, OrderCounts, VoucherId,
    ledger::{SaleAudit, SaleFinding},
};
use seckill_redis::stream::Pending;
use seckill_store::{Act, ActivityFilter, Recorded, SharedStore, StoreError, Which};
use tokio::{
    sync::{Notify, watch},
    task::{JoinError, JoinHandle},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    EngineError,
    command::Focus,
    command_handler::Operator,
    deployment::Deployment,
    jobs::{board, builtin},
    ledger, mend,
    sale_versions::SaleVersions,
};
use crate::telemetry::{
    OrdersView, Snapshot, StreamView,
    alarms::alarms,
    census::Census,
    collector::Collector,
    data_loss::{RecentLosses, add_published},
    ledger_page::{AuditLimit, LedgerPage, PartitionFinding},
    ledger_totals::Figures,
    log::{LogPage, LogView},
    snapshot::{JobLine, LetterPage, OrdersPage, PendingPage, SaleOrders, StreamPage},
};

/// Interval between snapshots, under load and idle.
const TICK: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Minimum interval between snapshots, even on request.
const BREATH: Duration = Duration::from_millis(100);
/// An audit by order ID reads every buyer; above this number it is left to `seckill audit`.
pub const AUDIT_UP_TO: u64 = 300_000;
/// Unchanged figures are audited again after this, or after this multiple of the last audit's duration: an idle node
/// spends a three-hundredth of a core on it.
const AUDIT_AGAIN: Duration = Duration::from_millis(750);
const AUDIT_SHARE: u32 = 300;
/// A new finding is checked again this many times at most, at this interval.
const AUDIT_LOOKS: u32 = 3;
const AUDIT_SURE: Duration = Duration::from_millis(50);
/// Changed figures are audited at a higher rate for this long.
const HASTE: Duration = Duration::from_secs(1);
/// Delay after an audit that was interrupted by a server.
const AUDIT_PAUSE: Duration = Duration::from_secs(10);
/// Delay between audits for the screen, and the timeout of one.
const AUDIT_EVERY: Duration = Duration::from_secs(2);
const AUDIT_WITHIN: Duration = Duration::from_secs(10);
/// Interval between reads of the job history and of the log, and the timeout of each.
const JOBS_EVERY: Duration = Duration::from_secs(1);
/// Timeout for classifying a page of the pending list.
const JUDGE_WITHIN: Duration = Duration::from_secs(1);
/// Runs of each job in a snapshot.
const JOB_RUNS: u32 = 20;
/// Lines of the log in a snapshot.
const ACTIVITY: u32 = 50;

/// Interval between counts of all pending entries.
const CENSUS_EVERY: Duration = Duration::from_secs(2);
/// Interval between reads of a page of dead letters, which change rarely, and the timeout of one.
const LETTERS_EVERY: Duration = Duration::from_secs(1);
const LETTERS_WITHIN: Duration = Duration::from_secs(2);
/// Interval between reads of a page of orders, its size, and the timeout of one read.
const ORDERS_EVERY: Duration = Duration::from_secs(1);
const ORDERS: u32 = 100;
const ORDERS_WITHIN: Duration = Duration::from_secs(2);
/// Interval between counts of a sale's orders, the timeout of one, and the pause after a timeout.
const COUNT_EVERY: Duration = Duration::from_secs(3);
const COUNT_WITHIN: Duration = Duration::from_secs(1);
const COUNT_PAUSE: Duration = Duration::from_mins(1);
/// Maximum of repeat buyers listed for a sale, those with the most orders.
const REPEAT_BUYERS: u32 = 5;
/// Lines of a page of the log.
const LOG_PAGE: usize = 200;

/// The collector's task.
pub(super) struct SnapshotTask {
    collector: Collector,
    operator: Operator,
    looking_at: watch::Receiver<Focus>,
    /// A command has ended: its changes are read now.
    acted: Arc<Notify>,
    snapshot_sender: watch::Sender<Arc<Snapshot>>,
    tasks: TaskTracker,
    /// Receives each sale in SQL.
    versions: SaleVersions,
    jobs: (Option<Instant>, Vec<JobLine>),
    activity: (Option<Instant>, Arc<Vec<Recorded>>),
    pending: PendingPage,
    census: (Option<Instant>, Option<Census>),
    letters: (Instant, LetterPage),
    stream: StreamPage,
    orders: (Instant, OrdersPage),
    /// Earliest time of the next attempt.
    sale_orders: (Instant, Option<SaleOrders>),
    log: (Instant, LogPage),
    ledger: LedgerPage,
    /// The last request, whether or not it succeeded: a slow page is no reason to hurry.
    asked: (Option<EntryId>, Option<OrdersView>, Option<LogView>),
}

impl SnapshotTask {
    pub(super) fn new(
        collector: Collector,
        operator: Operator,
        looking_at: watch::Receiver<Focus>,
        acted: Arc<Notify>,
        snapshot_sender: watch::Sender<Arc<Snapshot>>,
        tasks: TaskTracker,
        versions: SaleVersions,
    ) -> Self {
        let now = Instant::now();
        Self {
            collector,
            operator,
            looking_at,
            acted,
            snapshot_sender,
            tasks,
            versions,
            jobs: (None, Vec::new()),
            activity: (None, Arc::default()),
            pending: PendingPage::default(),
            census: (None, None),
            letters: (now, LetterPage::default()),
            stream: StreamPage::default(),
            orders: (now, OrdersPage::default()),
            sale_orders: (now, None),
            log: (now, LogPage::default()),
            ledger: LedgerPage::default(),
            asked: (None, None, None),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut auditing: Option<JoinHandle<Audited>> = None;
        let (mut audit_from, mut last, mut acted) = (Instant::now(), None, false);
        let mut screen_from = audit_from;
        let (mut changed, mut shown, mut hurried) = (audit_from, None, false);
        loop {
            if let Some(audit) = auditing.take_if(|audit| audit.is_finished()) {
                screen_from = Instant::now() + AUDIT_EVERY;
                if !self.take_audit(audit.await) {
                    audit_from = Instant::now() + AUDIT_PAUSE;
                }
            }
            let Focus { pending, letters_from, stream, sale, orders, log, ledger } =
                *self.looking_at.borrow_and_update();
            let mut snapshot = self.collector.collect().await;
            self.collector.sales().iter().for_each(|sale| self.versions.note(sale));
            snapshot.claim_idle_ms = Some(self.operator.deployment.settings.claim_idle_ms);
            snapshot.pending = self.look_at_pending(pending, &snapshot).await;
            snapshot.census = self.look_at_census(pending.is_some(), acted, snapshot.taken).await;
            snapshot.letters = self.look_at_letters(letters_from, acted, &snapshot).await;
            snapshot.entries = self.look_at_stream(stream).await;
            snapshot.orders = self.look_at_orders(orders, acted, &snapshot).await;
            snapshot.sale_orders = self.count_orders(sale, acted, &snapshot).await;
            // Before the log: what is written meanwhile is in both.
            let losses = self.collector.losses().await;
            snapshot.log = self.look_at_log(log, acted, &snapshot, &losses).await;
            // The first snapshot is needed quickly; the next one has the jobs.
            if snapshot.seq > 1 {
                snapshot.jobs = self.look_at_jobs(&snapshot).await;
                snapshot.activity = self.look_at_activity(&snapshot, &losses).await;
                let losses = RecentLosses::of(&snapshot.activity, snapshot.taken);
                snapshot.alarms = alarms(&snapshot, losses);
            }
            let moves = moving(&snapshot);
            if shown.as_ref() != Some(&snapshot.audit) || self.collector.is_changing() {
                (changed, shown) = (Instant::now(), Some(snapshot.audit.clone()));
            }
            let calm = !moves && last == Some(moves) && changed.elapsed() >= HASTE;
            last = Some(moves);
            let small = snapshot.funnel.admitted.total <= AUDIT_UP_TO;
            let allowed = small || self.collector.needs_audit();
            match self.ledger.limit {
                Some(AuditLimit::Orders(_)) if allowed => self.ledger.limit = None,
                _ if !allowed => self.ledger.limit = Some(AuditLimit::Orders(AUDIT_UP_TO)),
                _ => {}
            }
            snapshot.ledger = self.ledger.clone();
            let (taken, up) = (snapshot.taken, snapshot.redis.up && snapshot.sql.up);
            self.snapshot_sender.send_replace(Arc::new(snapshot));
            let now = Instant::now();
            let figures = self.collector.audit_due();
            let on_screen = ledger && up && (acted || now >= screen_from);
            let due = figures.is_some() || on_screen;
            if due && allowed && auditing.is_none() && now >= audit_from {
                let (operator, stop) = (self.operator.clone(), stop.clone());
                let known = figures.as_ref().and_then(|figures| self.collector.found(figures));
                let known = known.map(<[SaleFinding]>::to_vec);
                hurried = figures.is_none() || known.is_none();
                let changed = Arc::clone(&self.acted);
                auditing = Some(self.tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => Audited::BrokenOff,
                        audited = audit(operator, taken, figures, known, &changed) => audited,
                    }
                }));
            }
            let ended = Instant::now();
            acted = false;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(TICK[usize::from(calm && !(hurried && auditing.is_some()))]) => {}
                () = self.acted.notified() => acted = true,
                changed = self.looking_at.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            // A held key must not take the servers from the buyers.
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(BREATH.saturating_sub(ended.elapsed())) => {}
            }
        }
    }
}

impl SnapshotTask {
    /// Stores the result of an audit; `false` if it was not completed, and the next one has to wait.
    fn take_audit(&mut self, audited: Result<Audited, JoinError>) -> bool {
        match audited {
            Ok(Audited::Found { figures, findings, page, again }) => {
                if let Some(figures) = figures {
                    self.collector.note_audit(figures, findings, again);
                }
                self.ledger = page;
                return true;
            }
            Ok(Audited::TooSlow) => {
                self.ledger.limit = Some(AuditLimit::Seconds(AUDIT_WITHIN.as_secs()));
            }
            Ok(Audited::BrokenOff) => {}
            Err(error) => tracing::error!(%error, "the audit broke down"),
        }
        false
    }

    /// The page of the pending list on screen; the old one stays if it cannot be read.
    async fn look_at_pending(&mut self, from: Option<EntryId>, snapshot: &Snapshot) -> PendingPage {
        let Some(from) = from else {
            self.pending = PendingPage::default();
            return self.pending.clone();
        };
        if let Some(rows) = self.collector.pending(from).await {
            self.pending = self.collector.pending_page(from, &rows, snapshot);
            if self.pending.is_whole() {
                let census = Collector::census_of(&rows, snapshot.taken);
                self.census.1 = Some(census);
            }
            self.judge(rows, snapshot).await;
        }
        self.pending.clone()
    }

    /// Classifies each entry of that page; without verdicts if a server is unreachable.
    async fn judge(&mut self, rows: Vec<Pending>, snapshot: &Snapshot) {
        if rows.is_empty() || !snapshot.sql.up {
            return;
        }
        let judging = async { self.operator.judge().await?.judge(rows).await };
        let Ok(Ok(judged)) = tokio::time::timeout(JUDGE_WITHIN, judging).await else { return };
        for (line, judged) in self.pending.lines.iter_mut().zip(judged) {
            line.verdict = Some(judged.verdict);
            line.fault = judged.fault().as_ref().map(Message::of);
        }
    }

    /// The total of pending entries, counted separately if the page is a part of it; the old count stays, with its
    /// time, if it cannot be counted.
    async fn look_at_census(&mut self, wanted: bool, acted: bool, taken: Millis) -> Option<Census> {
        if !wanted {
            return None;
        }
        let (at, census) = &mut self.census;
        let whole = self.pending.is_whole() && self.pending.taken == Some(taken);
        if !whole && (acted || at.is_none_or(|at| at.elapsed() >= CENSUS_EVERY)) {
            if let Some(counted) = self.collector.census().await {
                *census = Some(counted);
            }
            *at = Some(Instant::now());
        }
        census.clone()
    }

    /// The page on screen. If it cannot be read, the old one stays with its age.
    async fn look_at_letters(
        &mut self,
        from: Option<EntryId>,
        acted: bool,
        snapshot: &Snapshot,
    ) -> LetterPage {
        let (at, page) = &mut self.letters;
        let Some(from) = from else {
            *page = LetterPage::default();
            self.asked.0 = None;
            return page.clone();
        };
        let another = self.asked.0.replace(from) != Some(from);
        if snapshot.redis.up
            && snapshot.sql.up
            && (another || acted || at.elapsed() >= LETTERS_EVERY)
        {
            let mut letters = self.operator.letters();
            let looking = letters.screen_page(from);
            match tokio::time::timeout(LETTERS_WITHIN, looking).await {
                Ok(Ok(read)) => *page = read,
                Ok(Err(error)) => tracing::debug!(%error, "the dead letters were not read"),
                Err(_) => tracing::debug!("the dead letters took too long to read"),
            }
            *at = Instant::now();
        }
        page.clone()
    }

    /// The part of the stream on screen; the old one stays if it cannot be read.
    async fn look_at_stream(&mut self, view: Option<StreamView>) -> StreamPage {
        match view {
            None => self.stream = StreamPage::default(),
            Some(view) => {
                if let Some(read) = self.collector.stream_page(view).await {
                    self.stream = read;
                }
            }
        }
        self.stream.clone()
    }

    /// The same for orders, at most once a second to limit the load on SQL.
    async fn look_at_orders(
        &mut self,
        view: Option<OrdersView>,
        acted: bool,
        snapshot: &Snapshot,
    ) -> OrdersPage {
        let (at, page) = &mut self.orders;
        let Some(view) = view else {
            *page = OrdersPage::default();
            self.asked.1 = None;
            return page.clone();
        };
        let another = self.asked.1.replace(view) != Some(view);
        if snapshot.sql.up && (another || acted || at.elapsed() >= ORDERS_EVERY) {
            let looking = orders_page(&self.operator.deployment.store, view);
            match tokio::time::timeout(ORDERS_WITHIN, looking).await {
                Ok(Ok((lines, more))) => {
                    let (taken, lines) = (Some(snapshot.taken), Arc::new(lines));
                    *page = OrdersPage { view, taken, more, late: None, lines };
                }
                Ok(Err(error)) => {
                    page.late = None;
                    tracing::debug!(%error, "the orders were not read");
                }
                Err(_) => page.late = Some(view),
            }
            *at = Instant::now();
        }
        page.clone()
    }

    /// At most once a second to limit the load on SQL: jobs change rarely.
    async fn look_at_jobs(&mut self, snapshot: &Snapshot) -> Vec<JobLine> {
        if snapshot.sql.up && self.jobs.0.is_none_or(|at| at.elapsed() >= JOBS_EVERY) {
            let Deployment { store, settings, .. } = &self.operator.deployment;
            let jobs = builtin::jobs(settings);
            let looking = board(store, &jobs, snapshot.taken, JOB_RUNS);
            // The collector reports an unreachable database; the lines are kept.
            if let Ok(Ok(lines)) = tokio::time::timeout(JOBS_EVERY, looking).await {
                self.jobs.1 = lines;
            }
            self.jobs.0 = Some(Instant::now());
        }
        self.jobs.1.clone()
    }

    /// The same for the log.
    async fn look_at_activity(
        &mut self,
        snapshot: &Snapshot,
        losses: &[Act],
    ) -> Arc<Vec<Recorded>> {
        let (at, _) = &self.activity;
        if snapshot.sql.up && at.is_none_or(|at| at.elapsed() >= JOBS_EVERY) {
            let filter = ActivityFilter::default();
            let looking = self.operator.deployment.store.activity(&filter, None, ACTIVITY);
            if let Ok(Ok(lines)) = tokio::time::timeout(JOBS_EVERY, looking).await {
                self.activity.1 = Arc::new(lines);
            }
            self.activity.0 = Some(Instant::now());
        }
        let mut lines = Arc::clone(&self.activity.1);
        if !losses.is_empty() {
            add_published(Arc::make_mut(&mut lines), losses.to_vec());
        }
        lines
    }
}

/// The result for a sale, if SQL answered in time, and the delay before the next query.
async fn in_time<T>(
    name: &'static str,
    asking: impl Future<Output = Result<T, StoreError>>,
) -> (Option<T>, Duration) {
    match tokio::time::timeout(COUNT_WITHIN, asking).await {
        Ok(Ok(counted)) => return (Some(counted), COUNT_EVERY),
        Ok(Err(error)) => tracing::debug!(name, %error, "not counted"),
        Err(_) => {
            tracing::debug!(name, "took too long to count");
            return (None, COUNT_PAUSE);
        }
    }
    (None, COUNT_EVERY)
}

/// One page of orders, and whether more follow.
async fn orders_page(
    store: &SharedStore,
    view: OrdersView,
) -> Result<(Vec<Order>, bool), StoreError> {
    let OrdersView { query, before } = view;
    if let Some(id) = query.id {
        let order = store.order(id).await?;
        return Ok((order.into_iter().filter(|order| query.holds(order)).collect(), false));
    }
    let mut lines = store.orders(&query.filter, before, ORDERS + 1).await?;
    let more = lines.len() > ORDERS as usize;
    lines.truncate(ORDERS as usize);
    Ok((lines, more))
}

impl SnapshotTask {
    /// The order counts of that sale: a full read of its orders, so rarely, and less often if there are too many.
    async fn count_orders(
        &mut self,
        sale: Option<VoucherId>,
        acted: bool,
        snapshot: &Snapshot,
    ) -> Option<SaleOrders> {
        let (next, known) = &mut self.sale_orders;
        let Some(voucher) = sale else {
            *known = None;
            return None;
        };
        let another = known.as_ref().is_none_or(|known| known.voucher != voucher);
        let slow = known.as_ref().is_some_and(|known| known.counts.is_none());
        if snapshot.sql.up && (another || acted && !slow || Instant::now() >= *next) {
            let line = snapshot.sales.iter().find(|line| line.voucher_id == voucher);
            let limit = line.map_or(1, |line| line.limit);
            let store = &self.operator.deployment.store;
            let (counts, mut pause) =
                in_time("the orders of a sale", store.order_counts(voucher)).await;
            // If a buyer may hold one order, only buyers whose order was closed return.
            let may = |it: &OrderCounts| limit > 1 || it.closed + it.cancelled > 0;
            let repeat_buyers = match &counts {
                Some(counts) if may(counts) => {
                    let asking = store.repeat_buyers(voucher, REPEAT_BUYERS);
                    let (buyers, longer) = in_time("the repeat buyers of a sale", asking).await;
                    pause = pause.max(longer);
                    buyers
                }
                Some(_) => Some(Vec::new()),
                None => None,
            };
            *known = Some(SaleOrders { voucher, taken: snapshot.taken, counts, repeat_buyers });
            *next = Instant::now() + pause;
        }
        known.clone().filter(|known| known.voucher == voucher)
    }

    /// The page of the log on screen. Only the newest one is refreshed.
    async fn look_at_log(
        &mut self,
        look: Option<LogView>,
        acted: bool,
        snapshot: &Snapshot,
        losses: &[Act],
    ) -> LogPage {
        let (at, page) = &mut self.log;
        let Some(look) = look else {
            *page = LogPage::default();
            self.asked.2 = None;
            return page.clone();
        };
        let another = self.asked.2.replace(look) != Some(look);
        let wanted = look.before.is_none() || page.taken.is_none() || page.look != look;
        let due = wanted && (acted || at.elapsed() >= JOBS_EVERY);
        if snapshot.sql.up && (another || due) {
            let filter = ActivityFilter { which: look.which, ..ActivityFilter::default() };
            let store = &self.operator.deployment.store;
            let looking = store.activity(&filter, look.before, LOG_PAGE as u32 + 1);
            match tokio::time::timeout(JOBS_EVERY, looking).await {
                Ok(Ok(mut lines)) => {
                    if look.before.is_none() && look.which != Some(Which::Acts) {
                        add_published(&mut lines, losses.to_vec());
                    }
                    *page = LogPage::of(look, snapshot.taken, lines, LOG_PAGE);
                }
                Ok(Err(error)) => tracing::debug!(%error, "the log was not read"),
                Err(_) => tracing::debug!("the log took too long to read"),
            }
            *at = Instant::now();
        }
        page.clone()
    }
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
    /// A server did not answer, or the engine stops.
    BrokenOff,
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
    if figures.is_none() {
        let looking = look_at_ledger(&operator, taken);
        return match tokio::time::timeout(AUDIT_WITHIN, looking).await {
            Ok(Ok(page)) => found(None, page, begun),
            Ok(Err(error)) => broken_off(&error),
            Err(_) => Audited::TooSlow,
        };
    }
    // A sale that changes during the audit looks wrong once.
    let mut before = known.clone().unwrap_or_default();
    let mut look = 1;
    let (page, took) = loop {
        let begun = Instant::now();
        let page = match look_at_ledger(&operator, taken).await {
            Ok(page) => page,
            Err(error) => return broken_off(&error),
        };
        let findings = findings(&page);
        if findings.is_empty() || findings == before || look >= AUDIT_LOOKS {
            if known.is_some_and(|known| known != findings) {
                changed.notify_one();
            }
            // Findings were confirmed by several reads.
            let looks = if findings.is_empty() { 1 } else { ledger::LOOKS };
            break (page, begun.elapsed() / looks);
        }
        (before, look) = (findings, look + 1);
        tokio::time::sleep(AUDIT_SURE).await;
    };
    let again = begun + AUDIT_AGAIN.max(took * AUDIT_SHARE);
    found(figures, page, again)
}

fn found(figures: Option<Figures>, page: LedgerPage, again: Instant) -> Audited {
    Audited::Found { figures, findings: findings(&page), page, again }
}

fn findings(page: &LedgerPage) -> Vec<SaleFinding> {
    page.lines.iter().flat_map(SaleAudit::found).collect()
}

fn broken_off(error: &EngineError) -> Audited {
    tracing::warn!(%error, "the audit was broken off; it is tried again");
    Audited::BrokenOff
}

async fn look_at_ledger(operator: &Operator, taken: Millis) -> Result<LedgerPage, EngineError> {
    let Deployment { redis, store, keys, .. } = &operator.deployment;
    let (mut conn, mut partitions) = (redis.connection(), Vec::new());
    for of in keys.partitions() {
        let found = mend::faults(&mut conn, keys, &of).await?.into_iter();
        let partition = of.number();
        partitions.extend(found.map(|it| PartitionFinding { partition, fault: Message::of(&it) }));
    }
    let audit = ledger::audit(store, &mut conn, keys, None).await?;
    Ok(LedgerPage::of(taken, audit.sales, partitions))
}

/// Whether the next snapshot will differ: buyers arrive, or orders are in flight.
fn moving(snapshot: &Snapshot) -> bool {
    let busy = snapshot.funnel.attempts.per_second > 0.0 || !snapshot.load_tests.is_empty();
    let under_way = snapshot.stream.as_ref().is_some_and(|s| s.pending > 0 || s.lag != Some(0));
    busy || under_way || !snapshot.redis.up || !snapshot.sql.up
}
