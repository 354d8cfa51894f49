//! Every word of the console, in each of its languages; no view holds words of its own.

pub(crate) mod acts;
mod alarms;
pub(crate) mod conventions;
pub(crate) mod figures;
pub(crate) mod lang;
pub(crate) mod letters;
mod recovery;

use self::figures::{counted, latency, span, thousands};
pub(crate) use self::{
    alarms::alarm,
    recovery::{act, recovery, verdict, verdict_word},
};
use super::keymap::{Action, Context, key_of};
use crate::{
    model::{Cause, JobOutcome, Phase, VoucherId},
    telemetry::snapshot::{Funnel, Latency},
};

pub(crate) const REDIS: &str = "redis";
pub(crate) const SQL: &str = "sql";
pub(crate) const SALE: &str = "sale";
pub(crate) const SALES: &str = "sales";
pub(crate) const PROGRAM: &str = "seckill";
pub(crate) const STOCK: &str = "STOCK";
pub(crate) const ADMISSION: &str = "ADMISSION";
pub(crate) const RATES: &str = "ORDERS PER SECOND";
pub(crate) const RUSH: &str = "RUSH";
pub(crate) const STREAM: &str = "STREAM";
pub(crate) const PENDING: &str = "PENDING";
pub(crate) const DEAD: &str = "DEAD";
pub(crate) const ATTENTION: &str = "ATTENTION";
pub(crate) const ADMITTED: &str = "admitted";
pub(crate) const PERSISTED: &str = "persisted";
pub(crate) const FROZEN: &str = "FROZEN";
pub(crate) const READ_ONLY: &str = "READ-ONLY";
pub(crate) const UNKNOWN: &str = "unknown";
pub(crate) const NOTHING_WRONG: &str = "Nothing needs you.";
pub(crate) const NO_DATA: &str = "Waiting for the first picture of the engine.";
pub(crate) const READING: &str = "reading";
pub(crate) const DEAD_HOLDER: &str = "dead";
pub(crate) const ALIVE: &str = "alive";
pub(crate) const NO_GROUP: &str = "no group";
pub(crate) const NEVER: &str = "open end";
pub(crate) const NO_END: &str = "no end";
pub(crate) const HELP_TITLE: &str = "Keys";
pub(crate) const PALETTE_TITLE: &str = "Command";
pub(crate) const NO_COMMAND: &str = "No command has that name here.";
pub(crate) const NO_LOCKS: &str = "No lock is held.";
pub(crate) const NO_JOBS: &str = "The jobs have not been read yet.";
pub(crate) const NO_RUNS: &str = "It has not run yet.";
pub(crate) const HISTORY: &str = "HISTORY";
pub(crate) const JOB: &str = "job";
pub(crate) const JOBS: &str = "jobs";
pub(crate) const PAUSED: &str = "paused";
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const NOTHING_PENDING: &str = "Nothing is pending. Orders go straight through.";

/// Names of the views.
pub(crate) mod tabs {
    pub(crate) const OVERVIEW: &str = "Overview";
    pub(crate) const SALES: &str = "Sales";
    pub(crate) const PENDING: &str = "Pending";
    pub(crate) const LETTERS: &str = "Dead";
    pub(crate) const LOCKS: &str = "Locks";
    pub(crate) const JOBS: &str = "Jobs";
}

/// Heads of the tables.
pub(crate) mod columns {
    pub(crate) const ID: &str = "ID";
    pub(crate) const TITLE: &str = "TITLE";
    pub(crate) const PHASE: &str = "PHASE";
    pub(crate) const SOLD: &str = "SOLD";
    pub(crate) const LEFT: &str = "LEFT";
    pub(crate) const OF: &str = "OF";
    pub(crate) const ADMITTED: &str = "ADMITTED";
    pub(crate) const PERSISTED: &str = "PERSISTED";
    pub(crate) const WINDOW: &str = "WINDOW";
    pub(crate) const MARK: &str = "";
    pub(crate) const ENTRY: &str = "ENTRY";
    pub(crate) const AGE: &str = "AGE";
    pub(crate) const IDLE: &str = "IDLE";
    pub(crate) const TRIES: &str = "TRIES";
    pub(crate) const HOLDER: &str = "HOLDER";
    pub(crate) const ORDER: &str = "ORDER";
    pub(crate) const USER: &str = "USER";
    pub(crate) const VOUCHER: &str = "SALE";
    pub(crate) const VERDICT: &str = "VERDICT";
    pub(crate) const LETTER: &str = "LETTER";
    pub(crate) const REPLAYS: &str = "REPLAYS";
    pub(crate) const REASON: &str = "REASON";
    pub(crate) const LOCK: &str = "LOCK";
    pub(crate) const NODE: &str = "NODE";
    pub(crate) const TASK: &str = "TASK";
    pub(crate) const DEPTH: &str = "DEPTH";
    pub(crate) const LEASE: &str = "LEASE";
    pub(crate) const HELD: &str = "HELD";
    pub(crate) const WAITING: &str = "WAITING";
    pub(crate) const TOKEN: &str = "TOKEN";
    pub(crate) const JOB: &str = "JOB";
    pub(crate) const SCHEDULE: &str = "SCHEDULE";
    pub(crate) const NEXT: &str = "NEXT";
    pub(crate) const LAST: &str = "LAST";
    pub(crate) const OUTCOME: &str = "OUTCOME";
    pub(crate) const TOOK: &str = "TOOK";
    pub(crate) const ROWS: &str = "ROWS";
}

/// Labels of a detail pane.
pub(crate) mod details {
    pub(crate) const LEFT_REDIS: &str = "left in Redis";
    pub(crate) const LEFT_SQL: &str = "left in SQL";
    pub(crate) const PERSISTED: &str = "persisted";
    pub(crate) const UNDER_WAY: &str = "under way";
    pub(crate) const WINDOW: &str = "window";
    pub(crate) const INITIAL: &str = "on sale";
    pub(crate) const ENTRY: &str = "entry";
    pub(crate) const HOLDER: &str = "holder";
    pub(crate) const ORDER: &str = "order";
    pub(crate) const USER: &str = "user";
    pub(crate) const VOUCHER: &str = "sale";
    pub(crate) const FAULT: &str = "fault";
    pub(crate) const VERDICT: &str = "verdict";
    pub(crate) const LOCK: &str = "lock";
    pub(crate) const NODE: &str = "node";
    pub(crate) const TASK: &str = "task";
    pub(crate) const HELD: &str = "held";
    pub(crate) const LEASE: &str = "lease";
    pub(crate) const TOKEN: &str = "token";
    pub(crate) const OWNER: &str = "owner";
    pub(crate) const NEXT: &str = "next";
    pub(crate) const NO_FAULT: &str = "none; its fields are good";
}

/// A word for the footer, a sentence for the help screen, and a name for the palette.
pub(crate) fn action(action: Action) -> (&'static str, &'static str, Option<&'static str>) {
    match action {
        Action::Help => ("help", "this screen", Some("help")),
        Action::Palette => ("command", "ask for an act by its name", None),
        Action::Filter => ("filter", "show only the rows that hold a text", Some("filter")),
        Action::Overview => ("overview", "go to the Overview", Some("overview")),
        Action::Sales => ("sales", "go to Sales", Some("sales")),
        Action::Pending => ("pending", "go to Pending", Some("pending")),
        Action::Letters => ("dead", "go to Dead letters", Some("dead letters")),
        Action::Locks => ("locks", "go to Locks", Some("locks")),
        Action::Jobs => ("jobs", "go to Jobs", Some("jobs")),
        Action::NextView => ("next", "next view", None),
        Action::PreviousView => ("previous", "previous view", None),
        Action::Up => ("up", "one up", None),
        Action::Down => ("more", "one down", None),
        Action::PageUp => ("page up", "a screen up, then the page before", None),
        Action::PageDown => ("page down", "a screen down, then the page after", None),
        Action::First => ("first", "first row, then the first page", None),
        Action::Last => ("last", "last row, then the next page", None),
        Action::Open => ("detail", "show all of the chosen row", Some("detail")),
        Action::Close => ("close", "close the detail", None),
        Action::Back => ("back", "take away a message, detail or filter", None),
        Action::Mark => ("mark", "mark or unmark this row and go on", Some("mark")),
        Action::SortNext
        | Action::SortTurn
        | Action::CopyName
        | Action::CopyRow
        | Action::Mouse => conventions::action(action),
        Action::Freeze => ("freeze", "hold the picture still, or let it go", Some("freeze")),
        Action::Quit => ("quit", "leave; asks while a rush is under way", Some("quit")),
        Action::QuitNow => ("quit", "leave at once", None),
        Action::Suspend => ("suspend", "back to the shell; fg returns", None),
        Action::ZoomIn => ("zoom in", "shorter time in the chart", Some("zoom in")),
        Action::ZoomOut => ("zoom out", "longer time in the chart", Some("zoom out")),
        Action::ZoomReset => ("2 min", "back to two minutes", Some("zoom reset")),
        Action::NewSale => ("new sale", "create a sale", Some("new sale")),
        Action::Start => ("start", "open a planned sale now", Some("start")),
        Action::Pause => ("pause", "hold it, or let it go on", Some("pause / resume")),
        Action::End => ("end", "end a sale for good", Some("end")),
        Action::Rush => ("rush", "send simulated buyers to a sale", Some("rush")),
        Action::Replay => ("plan", "plan what to do with entries", Some("plan replay")),
        Action::ReplayLetters => ("replay", "put dead letters back", Some("replay dead letters")),
        Action::Discard => ("discard", "remove those nobody waits for", Some("discard")),
        Action::Compensate => ("give back", "cancel, give back, remove", Some("give back")),
        Action::BreakOff => ("break off", "end an act after its step", Some("break off")),
        Action::Release => ("release", "take a lock from its holder", Some("release")),
        Action::RunJob => ("run now", "run a job at once", Some("run job")),
        Action::Accept => ("yes", "do it", None),
        Action::Cancel => ("cancel", "leave without doing anything", None),
        Action::Press => ("choose", "take what is chosen", None),
        Action::NextPart => ("next", "next field or button", None),
        Action::PreviousPart => ("previous", "field or button before", None),
    }
}

/// Headings of the help screen.
pub(crate) fn context(context: Context) -> &'static str {
    match context {
        Context::Always => "Always",
        Context::Views => "Every view",
        Context::Overview => "Overview",
        Context::Sales => "Sales",
        Context::Pending => "Pending",
        Context::Letters => "Dead letters",
        Context::Locks => "Locks",
        Context::Jobs => "Jobs",
        Context::Confirm => "A question",
        Context::Form => "A form",
        Context::Palette => "Commands",
        Context::Help => "Help",
        Context::Filter => "Filter",
    }
}

pub(crate) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Planned => "planned",
        Phase::Running => "running",
        Phase::Paused => "paused",
        Phase::SoldOut => "sold out",
        Phase::Ended => "ended",
        Phase::Archived => "archived",
    }
}

pub(crate) fn outcome(outcome: JobOutcome) -> &'static str {
    match outcome {
        JobOutcome::Running => "running",
        JobOutcome::Done => "done",
        JobOutcome::Failed => "failed",
        JobOutcome::Cancelled => "cancelled",
        JobOutcome::Lost => "lost",
    }
}

pub(crate) fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Due => "on time",
        Cause::Missed => "made up",
        Cause::Operator => "by hand",
    }
}

pub(crate) fn locks_shown(shown: usize, total: u64) -> String {
    match total {
        0 => String::new(),
        total if shown as u64 >= total => counted(total, "lock", "locks"),
        total => format!("{} of {} locks", thousands(shown as u64), thousands(total)),
    }
}

pub(crate) fn in_span(span: &str) -> String {
    format!("in {span}")
}

pub(crate) fn ago(span: &str) -> String {
    format!("{span} ago")
}

pub(crate) fn held(since: &str, span: &str, depth: u32) -> String {
    format!("since {since}, for {span}, {depth} deep")
}

pub(crate) fn lease(left: &str, waiting: u64) -> String {
    format!("{left} left, {} waiting", thousands(waiting))
}

pub(crate) fn next_run(schedule: &str, next: &str) -> String {
    format!("{next}   ({schedule})")
}

pub(crate) fn sale_name(voucher: VoucherId, title: &str) -> String {
    format!("#{voucher} {title}")
}

pub(crate) fn too_small(width: u16, height: u16) -> String {
    format!("80x24 is needed, this is {width}x{height}; make the window larger")
}

pub(crate) fn ends_in(clock: &str) -> String {
    format!("ends in {clock}")
}

pub(crate) fn starts_in(clock: &str) -> String {
    format!("starts in {clock}")
}

pub(crate) fn starts_at(time: &str) -> String {
    format!("starts {time}")
}

pub(crate) fn left_of(left: &str, initial: u64) -> String {
    format!("{left} / {}", thousands(initial))
}

pub(crate) fn ended_with(left: i64) -> String {
    if left > 0 { format!("ended, {} left", figures::signed(left)) } else { "ended".to_owned() }
}

pub(crate) fn not_in_redis() -> String {
    "not in Redis".to_owned()
}

pub(crate) fn more_sales(count: usize) -> String {
    format!("and {} more; {} shows all", thousands(count as u64), key_of(Action::Sales))
}

pub(crate) fn no_sales() -> String {
    format!("There is no sale yet. {} makes one.", key_of(Action::NewSale))
}

pub(crate) fn no_match(text: &str) -> String {
    format!("No row holds '{text}'. {} ends the filter.", key_of(Action::Back))
}

pub(crate) fn old(age: u64) -> String {
    format!("{} old", span(age))
}

/// An age where there is room for nothing else.
pub(crate) fn age(age: Option<u64>) -> String {
    age.map_or_else(|| UNKNOWN.to_owned(), span)
}

pub(crate) fn away(age: Option<u64>) -> String {
    age.map_or_else(|| "away".to_owned(), |age| format!("away {}", span(age)))
}

pub(crate) const BALANCED: &str = "books balanced";
pub(crate) const BOOKS: &str = "books";
pub(crate) const BOOKS_OFF: &str = "books OFF";
pub(crate) const BOOKS_UNKNOWN: &str = "books unknown";

pub(crate) fn in_flight(orders: u64) -> String {
    format!("{} in flight", thousands(orders))
}

pub(crate) fn last_minutes(minutes: u64) -> String {
    format!("last {minutes} min")
}

pub(crate) fn window(begin: Option<&str>, end: Option<&str>) -> String {
    match (begin, end) {
        (None, None) => NEVER.to_owned(),
        (Some(begin), None) => format!("from {begin}"),
        (None, Some(end)) => format!("until {end}"),
        (Some(begin), Some(end)) => format!("{begin} to {end}"),
    }
}

/// Lines of the admission funnel: a label and its counter.
pub(crate) fn funnel(funnel: &Funnel) -> [(&'static str, crate::telemetry::snapshot::Count); 6] {
    [
        ("attempts", funnel.attempts),
        ("admitted", funnel.admitted),
        ("sold out", funnel.sold_out),
        ("duplicate", funnel.duplicate),
        ("rejected", funnel.rejected),
        ("busy", funnel.busy),
    ]
}

/// Admission latency, as label and figure.
pub(crate) fn latencies(seen: &Latency) -> [(&'static str, String); 4] {
    [
        ("p50", latency(seen.p50)),
        ("p99", latency(seen.p99)),
        ("max", latency(seen.max)),
        ("n", thousands(seen.samples)),
    ]
}

pub(crate) const NO_LATENCY: &str = "no request in the last seconds";

/// What could be replayed.
pub(crate) fn kept(entries: u64, oldest_ms: u64) -> String {
    format!("{} kept, {}", thousands(entries), oldest(oldest_ms))
}

pub(crate) fn lag(lag: Option<u64>) -> String {
    format!("lag {}", lag.map_or_else(|| UNKNOWN.to_owned(), thousands))
}

pub(crate) fn drains_in(millis: u64) -> String {
    format!("drains in {}", span(millis))
}

pub(crate) fn oldest(millis: u64) -> String {
    format!("oldest {}", span(millis))
}

pub(crate) fn more_holders(count: usize) -> String {
    format!("and {} more", thousands(count as u64))
}

pub(crate) fn requests_sent(sent: u64, planned: u64) -> String {
    format!("{} / {}", thousands(sent), thousands(planned))
}

pub(crate) fn more_alarms(count: usize) -> String {
    format!("and {} more", thousands(count as u64))
}

pub(crate) fn rows(first: u64, last: u64, total: u64) -> String {
    format!("{}–{} of {}", thousands(first), thousands(last), thousands(total))
}

pub(crate) fn rows_filtered(shown: usize, of: usize) -> String {
    format!("{} of {} on this page", thousands(shown as u64), thousands(of as u64))
}

pub(crate) fn sales_filtered(shown: usize, of: usize) -> String {
    format!("{} of {}", thousands(shown as u64), thousands(of as u64))
}

pub(crate) fn marked(count: usize) -> String {
    format!("{} marked", thousands(count as u64))
}

pub(crate) fn marks_gone(count: usize) -> String {
    format!(
        "{} no longer pending; the mark is dropped",
        counted(count as u64, "marked entry is", "marked entries are")
    )
}

pub(crate) fn sale_gone(voucher: VoucherId) -> String {
    format!("#{voucher} is no longer listed")
}

pub(crate) fn dead_marker(name: &str, alive: bool) -> String {
    if alive { name.to_owned() } else { format!("{name} {DEAD_HOLDER}") }
}

pub(crate) const PRESS: &str = "press";

pub(crate) fn failures_more(count: usize) -> String {
    let dismiss = key_of(Action::Back);
    match count {
        0 => format!("{dismiss} dismisses"),
        more => format!("{dismiss} dismisses, {} more", thousands(more as u64)),
    }
}
