//! A fake engine and snapshots with fixed figures.

use futures::StreamExt;
use jiff::tz::TimeZone;
use ratatui::{Terminal, backend::TestBackend};
use seckill_engine::{
    commands::plan::file::Writer,
    telemetry::{census::Census, event},
};
use tokio::sync::mpsc;

use super::prelude::*;

/// A large window, the usual ones, and the smallest.
pub(super) const SIZES: [(u16, u16); 4] = [(200, 50), (120, 36), (80, 24), (60, 15)];

pub(super) const NOW: Millis = Millis(1_795_000_000_000);

/// A console on a fake engine.
pub(super) struct Tui {
    pub(super) app: App,
    pub(super) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(super) focus: watch::Receiver<Focus>,
    requests: mpsc::Receiver<Request>,
    outstanding: Vec<Request>,
    size: (u16, u16),
}

impl Tui {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self::themed(snapshot, Theme::new(Depth::Ansi256, false))
    }

    pub(super) fn open(snapshot: Snapshot, keys: &str) -> Self {
        let mut tui = Self::new(snapshot);
        tui.press(keys);
        tui
    }

    pub(super) fn themed(snapshot: Snapshot, theme: Theme) -> Self {
        let (snapshots, receiver) = watch::channel(Arc::new(snapshot));
        let (commands, requests) = mpsc::channel(8);
        let (sender, focus) = watch::channel(Focus::default());
        let remote = Remote { snapshots: receiver, commands, focus: sender };
        let mut app = App::new(remote, theme, TimeZone::UTC, NOW);
        // Masked, as in the demo.
        app.display.users.masked = true;
        let (outstanding, size) = (Vec::new(), (120, 36));
        let mut tui = Self { app, snapshots, focus, requests, outstanding, size };
        tui.screen();
        tui
    }

    pub(super) fn show(&mut self, snapshot: Snapshot) -> &mut Self {
        self.app.on_snapshot(Arc::new(snapshot));
        self
    }

    pub(super) fn key(&mut self, code: KeyCode) -> &mut Self {
        self.app.on_event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        self
    }

    pub(super) fn control(&mut self, letter: char) {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        self.app.on_event(&Event::Key(key));
    }

    pub(super) fn paste(&mut self, text: impl Into<String>) {
        self.app.on_event(&Event::Paste(text.into()));
    }

    /// Presses each character in turn: a newline is Enter, `\t` is Tab, `\x1b` is Esc, `\x08` is Backspace, and `⇤` is
    /// Shift-Tab.
    pub(super) fn press(&mut self, keys: &str) -> &mut Self {
        for key in keys.chars() {
            self.key(match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                '⇤' => KeyCode::BackTab,
                '↓' => KeyCode::Down,
                '←' => KeyCode::Left,
                '→' => KeyCode::Right,
                key => KeyCode::Char(key),
            });
        }
        self
    }

    pub(super) fn sent(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        while let Ok(request) = self.requests.try_recv() {
            commands.push(request.command.clone());
            self.outstanding.push(request);
        }
        commands
    }

    pub(super) fn reason(&self) -> Option<String> {
        self.outstanding.last().and_then(|request| request.reason.clone())
    }

    /// Whether a command returned by [`Self::sent`] is outstanding.
    pub(super) fn has_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Answers the oldest command returned by [`Self::sent`].
    pub(super) fn answer(&mut self, answer: Result<Reply, EngineError>) -> &mut Self {
        assert!(self.has_outstanding(), "nothing waits for an answer: {answer:?}");
        let _ = self.outstanding.remove(0).reply.send(answer);
        let answer = self.app.work.answers.next().now_or_never().flatten().expect("the reply");
        self.app.on_answer(answer);
        // Users read the reply before they continue.
        self.app.display.now = self.app.display.now.plus(1_000);
        self
    }

    /// Answers a command that was sent since the last call of [`Self::sent`].
    pub(super) fn reply(&mut self, reply: Result<Reply, EngineError>) -> &mut Self {
        self.sent();
        self.answer(reply)
    }

    pub(super) fn draw(&mut self, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| frame::draw(&mut self.app, frame)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// Sets the size of the window, which has 120 columns at first.
    pub(super) fn at(&mut self, size: (u16, u16)) -> &mut Self {
        self.size = size;
        self
    }

    /// The screen as lines of text, without trailing blanks.
    pub(super) fn screen(&mut self) -> String {
        self.screen_at(self.size.0, self.size.1)
    }

    pub(super) fn screen_at(&mut self, width: u16, height: u16) -> String {
        let buffer = self.draw(width, height);
        lines(&buffer, buffer.area)
    }

    pub(super) fn header(&mut self) -> String {
        self.screen().lines().next().unwrap_or_default().to_owned()
    }

    pub(super) fn status(&mut self) -> String {
        let screen = self.screen();
        screen.lines().nth(usize::from(self.size.1) - 2).unwrap_or_default().trim().to_owned()
    }

    pub(super) fn copied(&mut self) -> String {
        self.app.terminal.clipboard.take().unwrap_or_default()
    }

    #[track_caller]
    pub(super) fn line(&mut self, text: &str) -> String {
        let screen = self.screen();
        let line = screen.lines().find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("{text:?} is not shown:\n{screen}")).to_owned()
    }

    /// Clicks on the first occurrence of a text below the header.
    #[track_caller]
    pub(super) fn click(&mut self, text: &str) -> &mut Self {
        let screen = self.screen();
        let mut rows = screen.lines().enumerate().skip(1);
        let (row, before) = rows.find_map(|(y, it)| Some((y, it.split_once(text)?.0))).unwrap();
        self.mouse(MouseEventKind::Down(MouseButton::Left), width(before) as u16, row as u16);
        self
    }

    pub(super) fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) {
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        self.app.on_event(&Event::Mouse(event));
    }

    /// Asserts that the screen contains each of the texts between `|`.
    #[track_caller]
    pub(super) fn assert_shows(&mut self, texts: impl AsRef<str>) -> &mut Self {
        let screen = self.screen();
        for text in texts.as_ref().split('|') {
            assert!(screen.contains(text), "{text:?} is not shown:\n{screen}");
        }
        self
    }

    /// Asserts that the screen contains none of the texts between `|`.
    #[track_caller]
    pub(super) fn assert_hides(&mut self, texts: impl AsRef<str>) -> &mut Self {
        let screen = self.screen();
        for text in texts.as_ref().split('|') {
            assert!(!screen.contains(text), "{text:?} is shown:\n{screen}");
        }
        self
    }

    #[track_caller]
    pub(super) fn assert_status(&mut self, expected: &str) -> &mut Self {
        assert_eq!(self.status(), expected);
        self
    }

    #[track_caller]
    pub(super) fn assert_status_contains(&mut self, text: &str) -> &mut Self {
        let status = self.status();
        assert!(status.contains(text), "{text:?} is not in the status: {status}");
        self
    }

    /// No question is open, and nothing was sent.
    #[track_caller]
    pub(super) fn assert_idle(&mut self) -> &mut Self {
        assert!(self.app.dialog.is_none() && self.sent().is_empty(), "{}", self.screen());
        self
    }
}

pub(super) fn languages() -> impl Iterator<Item = &'static str> {
    ["en", "zh"].into_iter().inspect(|lang| set_thread_language(lang))
}

/// These items in each language, which it sets.
pub(super) fn in_each_language<I: IntoIterator>(items: fn() -> I) -> impl Iterator<Item = I::Item> {
    languages().flat_map(move |_| items())
}

pub(super) fn view_keys() -> impl Iterator<Item = &'static str> {
    View::of_engine().map(View::key)
}

pub(super) fn with(mut snapshot: Snapshot, change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    change(&mut snapshot);
    snapshot
}

/// Part of a screen as lines of text, without trailing blanks.
pub(super) fn lines(buffer: &Buffer, area: Rect) -> String {
    let mut lines = Vec::new();
    for y in area.top()..area.bottom() {
        let (mut line, mut x) = (String::new(), area.left());
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += width(symbol).max(1) as u16;
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

/// A screen without these lines at its top and its bottom.
pub(super) fn inner(screen: &str, top: usize, bottom: usize) -> String {
    let lines: Vec<&str> = screen.lines().collect();
    lines[top..lines.len() - bottom].join("\n")
}

fn count(total: u64, per_second: f64) -> Count {
    Count { total, per_second }
}

pub(super) fn sale(id: u64, title: &str, phase: Phase, initial: u64, left: u64) -> SaleLine {
    let admitted = initial - left;
    SaleLine {
        voucher_id: VoucherId(id),
        shard: None,
        title: title.to_owned(),
        phase,
        state: if phase == Phase::Ended { SaleState::Ended } else { SaleState::Running },
        sql: SqlCopy::Current,
        limit: 1,
        changed: NOW,
        initial,
        stock: i64::try_from(left).ok(),
        db_stock: left + 20,
        begin: (phase == Phase::Planned).then(|| NOW.plus(3_600_000)),
        end: (phase == Phase::Running).then(|| NOW.plus(252_000)),
        admitted: Some(admitted),
        persisted: admitted.saturating_sub(20),
        funnel: Funnel {
            attempts: count(admitted * 26, 21_840.0),
            admitted: count(admitted, 802.0),
            sold_out: count(admitted * 24, 20_100.0),
            duplicate: count(admitted, 938.0),
            ..Funnel::default()
        },
        shards: Vec::new(),
    }
}

pub(super) fn entry(number: u64) -> EntryId {
    EntryId { millis: 1_794_999_958_000, number, partition: 0 }
}

pub(super) fn no_user() -> Message {
    Message::of(&OrderError::Fields(reason!("faults-field-garbage", field = "userId", value = "x")))
}

fn pending_line(number: u64) -> PendingLine {
    let alive = number.is_multiple_of(3);
    PendingLine {
        entry: entry(number),
        consumer: if alive { "node-a/1" } else { "node-b/1" }.to_owned(),
        holder_alive: alive,
        holder_known: true,
        age_ms: 42_000,
        idle_ms: 41_000,
        deliveries: 1 + number % 3,
        order: OrderId::new(1_795_000_000, number).ok(),
        user: Some(UserId(1_000 + number)),
        voucher: Some(VoucherId(7)),
        fault: (number % 17 == 5).then(no_user),
        verdict: Some(match (number % 17, alive, number % 5) {
            (5, ..) => Verdict::Malformed,
            (_, true, _) => Verdict::InHand,
            (_, _, 0) => Verdict::Written,
            _ => Verdict::Stuck,
        }),
    }
}

/// One page of a list of `total` entries, from entry `first` on.
pub(super) fn page(first: u64, total: u64) -> PendingPage {
    let lines = Arc::new((first..total.min(first + 500)).map(pending_line).collect());
    let before = first.checked_sub(1).map(entry);
    let view = before.and_then(EntryId::next_of_all).unwrap_or(EntryId::MIN);
    PendingPage { view, taken: Some(NOW), more: first + 500 < total, lines }
}

pub(super) fn census(counted: u64, ages: [u64; 5], tries: [u64; 3]) -> Census {
    Census { taken: NOW, counted, whole: true, ages, tries }
}

fn series() -> Series {
    let mut series = Series::default();
    for tick in 0..480_i64 {
        let wave = (tick as f64 / 60.0).sin().abs();
        let seen = !(300..330).contains(&tick);
        series.push(Point {
            at: NOW.plus((tick - 479) * 250),
            admitted: seen.then_some(38_000.0 * wave),
            refused: seen.then_some(180_000.0 * (1.0 - wave)),
            persisted: seen.then_some(30_000.0 * wave * wave),
            lag: seen.then_some(1_000 + tick as u64),
            pending: seen.then_some(128),
            p99_us: seen.then_some(1_830),
            held: false,
        });
    }
    series
}

fn up(name: &str, latency_us: u64) -> Health {
    Health { name: name.to_owned(), up: true, latency_us, last_ok: Some(NOW), ..Health::default() }
}

/// Nothing is sold yet.
pub(super) fn empty() -> Snapshot {
    Snapshot {
        seq: 1,
        taken: NOW,
        node: "node-a".to_owned(),
        redis: up("redis 7.0.15", 210),
        sql: up("sqlite", 910),
        stream: Some(StreamLine { lag: Some(0), group: true, ..StreamLine::default() }),
        pending: page(0, 0),
        census: Some(Census { taken: NOW, whole: true, ..Census::default() }),
        audit: Balance::Balanced { by_id: true },
        ..Snapshot::default()
    }
}

/// An active sale with one dead consumer.
pub(super) fn normal() -> Snapshot {
    let running = sale(7, "hot pot 50% off", Phase::Running, 10_000, 3_120);
    let consumer = stream::consumer;
    let [unpaid, paid] = [(OrderStatus::Unpaid, 1_140), (OrderStatus::Paid, 5_720)];
    let counts = [unpaid, paid, (OrderStatus::Closed, 20)];
    Snapshot {
        funnel: running.funnel,
        written: count(6_860, 640.0),
        sales: vec![
            running,
            sale(8, "milk tea 9.9", Phase::SoldOut, 500, 0),
            sale(9, "cinema ticket", Phase::Planned, 2_000, 2_000),
            sale(5, "noodles", Phase::Ended, 1_000, 120),
        ],
        stream: Some(StreamLine {
            length: 6_880,
            oldest_ms: Some(5_400_000),
            lag: Some(1_204),
            pending: 128,
            oldest_pending_ms: Some(42_000),
            dead: 0,
            group: true,
            consumers: vec![consumer("node-b/1", false, 86), consumer("node-a/1", true, 42)],
        }),
        pending: page(0, 128),
        census: Some(census(128, [0, 12, 104, 9, 3], [86, 30, 12])),
        sale_orders: Some(SaleOrders {
            voucher: VoucherId(7),
            taken: NOW,
            counts: Some(OrderCounts::from(counts)),
            repeat_buyers: Some(vec![(UserId(1_004), 3), (UserId(987_659), 2)]),
        }),
        audit: Balance::InFlight { orders: 1_332 },
        latency: Some(Latency { p50: 412, p99: 1_830, p999: 6_100, max: 6_100, samples: 21_840 }),
        latency_buckets: [250, 500, 1_000, 2_000, 4_000, 8_000]
            .into_iter()
            .zip([2_100, 12_400, 5_800, 1_300, 220, 20])
            .collect(),
        series: Arc::new(series()),
        curves: history::curves(),
        activity: Arc::new(history::log_lines()),
        locks: Holders { total: 3, locks: locks(), foreign: Vec::new() },
        jobs: jobs(),
        http: vec![http("node-a")],
        alarms: vec![dead_consumer("node-b/1", 86, 42_000)],
        ..empty()
    }
}

fn dead_consumer(name: &str, pending: u64, idle_ms: u64) -> Alarm {
    let consumer = name.to_owned();
    let kind = AlarmKind::DeadConsumer {
        consumer,
        known: true,
        pending,
        at_risk: None,
        sale_lost: false,
        idle_ms,
    };
    Alarm { urgency: Urgency::Warning, kind }
}

fn lock(name: &str, node: &str, task: &str, waiting: u64) -> Holder {
    Holder {
        name: name.to_owned(),
        kind: Kind::Reentrant,
        owner: format!("{node}/{task}#0f1e2d3c4b5a"),
        node: node.to_owned(),
        task: task.to_owned(),
        depth: 1,
        left_ms: Some(21_000),
        since: Some(NOW.plus(-9_000)),
        token: Some(1_795_000_000_000_123),
        waiting,
        orphan: node == "node-b",
        known: !node.starts_with("desk"),
    }
}

fn locks() -> Vec<Holder> {
    let mut lent = lock("stock:8", "node-b", "recount", 12);
    lent.depth = 2;
    let mut simple = lock("订单:4711", "node-a", "order", 0);
    (simple.kind, simple.left_ms, simple.since, simple.token) = (Kind::Simple, None, None, None);
    vec![lock("job:close-overdue", "node-a", "job close-overdue", 0), lent, simple]
}

/// The database was unreachable during a command.
pub(super) fn sql_away() -> EngineError {
    StoreError::Away("disk I/O error".into()).into()
}

fn run(id: i64, outcome: JobOutcome, ago_ms: i64, detail: impl Into<Message>) -> JobRun {
    JobRun {
        id,
        job: "close-overdue".to_owned(),
        due: NOW.plus(-ago_ms),
        cause: if id % 2 == 0 { Cause::Due } else { Cause::Missed },
        node: "node-a".to_owned(),
        started: NOW.plus(-ago_ms + 12),
        took_ms: (outcome != JobOutcome::Running).then_some(842),
        outcome,
        detail: Some(detail.into()),
        rows: Some(1_204),
    }
}

fn jobs() -> Vec<JobLine> {
    let job = |name: &str, schedule: &str| JobLine {
        name: name.to_owned(),
        about: text!("job-about", job = name),
        schedule: schedule.to_owned(),
        paused: false,
        next: Some(NOW.plus(754_000)),
        runs: Vec::new(),
    };
    let closed = reason!("job-closed", orders = 1_204_u64, given_back = 1_204_u64);
    let failed = Message::of(&event::Event::Error(sql_away()));
    let mut close = job("close-overdue", "every 30m");
    close.runs = vec![
        run(4, JobOutcome::Done, 1_046_000, Message::of(&closed)),
        run(3, JobOutcome::Lost, 2_846_000, "its node died or was unresponsive for too long"),
        run(2, JobOutcome::Failed, 4_646_000, failed),
    ];
    let mut ids = job("drop-id-keys", "0 10 3 * * ?");
    (ids.paused, ids.next) = (true, None);
    vec![close, ids, job("trim-stream", "every 1m")]
}

fn http(node: &str) -> HttpLine {
    let (node, url) = (node.to_owned(), "http://10.0.0.7:8080".to_owned());
    let mut line = HttpLine { node, url, per_second: 12_204.6, ..HttpLine::default() };
    line.answers = [(200, 6_860), (404, 17), (409, 164_210), (429, 4_296), (503, 12)].into();
    line.latency =
        Some(Latency { p50: 1_210, p99: 8_400, p999: 41_000, max: 41_000, samples: 61_023 });
    (line.in_flight, line.connections, line.max_connections) = (15, 64, 16_384);
    (line.limited_users, line.limited_addresses) = (4_290, 6);
    let user = |(id, per_second)| Talker { id: UserId(id), per_second };
    line.users = [(1_004, 98.2), (987_659, 40.1), (59, 0.4)].map(user).to_vec();
    line.addresses = vec![Talker { id: [203, 0, 113, 57].into(), per_second: 9_120.4 }];
    line
}

/// More of everything than any window shows.
pub(super) fn overflowing() -> Snapshot {
    let mut snapshot = normal();
    for id in 10..200 {
        let title =
            format!("超级秒杀第{id}期：全场火锅五折优惠券限时抢购 🍲🔥👩‍👩‍👧‍👦 \x1b[2J and on it goes");
        let phase = if id % 3 == 0 { Phase::Paused } else { Phase::Running };
        snapshot.sales.push(sale(id, &title, phase, 10_000_000, 9_876_543));
    }
    if let Some(stream) = &mut snapshot.stream {
        stream.pending = 12_340;
        stream.dead = 1_000_000;
        stream.lag = None;
        for node in 0..40 {
            let name = format!("a-node-with-a-very-long-name-{node}/1");
            let consumer = stream::consumer(&name, node % 2 == 0, 300);
            stream.consumers.push(ConsumerLine { idle_ms: 1_000, ..consumer });
        }
    }
    snapshot.pending = page(0, 12_340);
    let partial = census(10_000, [0, 0, 1, 208, 9_791], [9_600, 400, 0]);
    snapshot.census = Some(Census { whole: false, ..partial });
    snapshot.letters = letters::letters(0, 100, true);
    snapshot.locks.total = 98_765;
    for number in 0..197 {
        let name = format!("a-lock-with-a-very-long-name-that-no-window-holds:{number}");
        snapshot.locks.locks.push(lock(&name, "a-node-with-a-very-long-name", "task", number));
    }
    for number in 0..60 {
        let line = run(number, JobOutcome::Done, number * 1_000, "a long story ".repeat(20));
        snapshot.jobs[0].runs.push(line);
        let mut more = snapshot.jobs[2].clone();
        more.name = format!("a-job-with-a-very-long-name-{number}");
        snapshot.jobs.push(more);
    }
    snapshot.funnel.attempts = count(98_765_432_109, 1_234_567.0);
    let kind = AlarmKind::DeadLetters { count: 1_000_000 };
    snapshot.alarms.push(Alarm { urgency: Urgency::Warning, kind });
    for node in 0..20 {
        let name = format!("a-node-with-a-very-long-name-{node}/1");
        snapshot.alarms.push(dead_consumer(&name, 300, 90_000));
    }
    snapshot.http = (0..60).map(|it| http(&format!("a-node-with-a-very-long-name-{it}"))).collect();
    snapshot.order_sales();
    snapshot
}

/// Redis is unreachable, and the data is 42 seconds old.
pub(super) fn outage() -> Snapshot {
    let (address, detail) = ("127.0.0.1:6379".to_owned(), OsError::Number(111).into());
    let error = Message::of(&EngineError::Redis(RedisError::Away { address, detail }));
    with(normal(), |it| {
        (it.redis.up, it.redis.last_ok) = (false, Some(NOW.plus(-42_000)));
        (it.redis.error, it.audit) = (Some(error.clone()), Balance::Unknown);
        let kind = AlarmKind::RedisAway { error };
        it.alarms.insert(0, Alarm { urgency: Urgency::Critical, kind });
    })
}

pub(super) fn lost_server() -> LostServer {
    let address = "10.20.30.40:16379".to_owned();
    let error = RedisError::Silent { address: address.clone(), millis: 1_000 };
    LostServer::unserved(address, (0..22).step_by(3).collect(), error)
}

/// One server of a cluster is unreachable, which holds the newest sale.
pub(super) fn without_server() -> Snapshot {
    with(normal(), |it| {
        let server = lost_server();
        let kind = AlarmKind::ServerLost(server.clone());
        it.alarms.insert(0, Alarm { urgency: Urgency::Critical, kind });
        (it.unreachable, it.audit) = (vec![server], Balance::Unknown);
        (it.sales[0].stock, it.sales[0].admitted) = (None, None);
    })
}

pub(super) fn read_only() -> Snapshot {
    Snapshot { read_only: true, ..normal() }
}

pub(super) fn load_test(sale: u64, sent: u64, planned: u64) -> LoadTestLine {
    LoadTestLine { voucher_id: VoucherId(sale), sent, planned }
}

pub(super) fn with_load_test() -> Snapshot {
    Snapshot { load_tests: vec![load_test(7, 52_000, 110_000)], ..normal() }
}

/// A recovery that has processed 400 of 12,000 entries.
pub(super) fn recovering(action: &str) -> Vec<RecoveryLine> {
    vec![RecoveryLine { action: action.into(), done: 400, planned: 12_000, changes: true }]
}

/// The database is unreachable, and its data is 42 seconds old.
pub(super) fn without_sql(snapshot: Snapshot) -> Snapshot {
    with(snapshot, |it| {
        (it.sql.up, it.sql.last_ok) = (false, Some(NOW.plus(-42_000)));
        it.sql.error = Some("disk I/O error".into());
        it.letters.taken = it.letters.taken.and(it.sql.last_ok);
        it.orders.taken = it.orders.taken.and(it.sql.last_ok);
    })
}

/// Makes a plan of entries with these verdicts; with a `filter`, a partial one.
pub(super) fn plan(entries: &[(EntryId, Verdict)], filter: &str) -> Plan {
    let (filter, up_to) = (filter.into(), EntryId::MAX);
    let head = Head { seckill_plan: 1, deployment: "d".into(), made: Millis(9), filter, up_to };
    let (mut writer, mut totals) = (Writer::new(head).unwrap(), Totals::default());
    for (entry, verdict) in entries {
        let line = Line {
            entry: *entry,
            verdict: *verdict,
            action: verdict.action(),
            consumer: "node\n\"a\"/1".into(),
            idle_ms: 7,
            deliveries: 1,
            order_id: "99".parse().ok(),
            user_id: None,
            voucher_id: None,
            fault: Some("订单 }],".into()),
        };
        totals.add(&line);
        writer.line(&line).unwrap();
    }
    let (all, stuck) = (totals.entries, totals.of(Verdict::Stuck));
    totals.forecast.pending = Change { now: all, after: all - totals.to_do() };
    totals.forecast.persisted = Change { now: 1_000, after: 1_000 + stuck };
    writer.end(totals).unwrap()
}

/// A plan of the first entries, each to be written.
pub(super) fn stuck(count: u64) -> Plan {
    let entries: Vec<_> = (0..count).map(|number| (entry(number), Verdict::Stuck)).collect();
    plan(&entries, "")
}
