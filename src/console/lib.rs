//! The interactive console. It draws [`Snapshot`](seckill_engine::telemetry::Snapshot)s and sends
//! [`Command`](seckill_engine::commands::Command)s through a [`Remote`](seckill_engine::commands::Remote), its only
//! access to the engine. The `event_loop` passes events to the state (`app`, `dispatch`), and the `views`
//! draw it with `widgets`.

mod active_sale;
mod app;
mod bench_harness;
mod dialogs;
mod director;
mod dispatch;
mod event_loop;
mod export;
mod frame;
mod key;
mod keymap;
mod keymap_config;
mod lag_trend;
mod launch;
mod locale;
mod presenter;
mod status;
mod terminal;
mod terminal_writer;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod view;
mod views;
mod widgets;

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::tz::TimeZone;
use seckill_attach::Watcher;
use seckill_engine::{
    Command, EngineError, Reply, Snapshot,
    commands::{Focus, Remote},
};
use seckill_lab::{Database, Design, Program, Work};
use seckill_model::{
    Label, Millis, OsError,
    locale::{Language, set_language},
    text,
};
use tokio::sync::{mpsc, oneshot::error::RecvError, watch};

pub use self::{
    bench_harness::{Drawing, Person, gauge},
    keymap_config::{KeyFault, KeyLine, Keys},
    locale::not_utf8,
    theme::{ColorChoice, Palette, ThemeError},
};
/// Appearance and features of the console.
#[derive(Debug, Default)]
pub struct Options {
    /// When to use colour.
    pub color: ColorChoice,
    /// A guided demonstration.
    pub guide: Option<Guide>,
    /// The display language.
    pub lang: Language,
    /// Draw bars, boxes and the chart with ASCII only.
    pub ascii: bool,
    /// The locale variable that allows ASCII only, as [`not_utf8`] returns it; reported once at start.
    pub plain_locale: Option<String>,
    /// The colour palette.
    pub palette: Palette,
    /// Where exports are written; `None` is the working directory.
    pub export_dir: Option<PathBuf>,
    /// Custom key bindings.
    pub keys: Keys,
    /// Start in the presenter layout.
    pub present: bool,
    /// Start with masked user IDs.
    pub mask_users: bool,
    /// What the lab starts with.
    pub lab: LabSetup,
}

/// What the lab starts with. Without a program it cannot run.
#[derive(Clone, Debug)]
pub struct LabSetup {
    /// The program of its instances.
    pub program: Option<Program>,
    /// The designs that are marked at first.
    pub designs: Vec<&'static Design>,
    /// The database on which designs run.
    pub database: Database,
    /// The work of each.
    pub work: Work,
    /// One run per design and seed.
    pub seeds: Vec<u64>,
}

impl Default for LabSetup {
    fn default() -> Self {
        let (designs, seeds) = (Vec::new(), vec![1]);
        Self { program: None, designs, database: Database::Sqlite, work: Work::default(), seeds }
    }
}

/// A service that another program runs, and how it is read.
#[derive(Debug)]
pub struct Attached {
    /// Reads it.
    pub watcher: Watcher,
    /// Time between two passes.
    pub every: Duration,
    /// The profile, as the user named it.
    pub profile: String,
    /// Its Redis, without credentials.
    pub redis: String,
}

/// A guided demonstration.
#[derive(Debug)]
pub struct Guide {
    /// Its pages.
    pub pages: watch::Receiver<GuidePage>,
    /// How often the user has asked for the next page.
    pub asked: watch::Sender<usize>,
}

/// One page of a guided demonstration: what is happening, and the next key of the presenter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuidePage {
    /// A short title, in bold.
    pub title: String,
    /// What is happening, in a sentence or two.
    pub text: String,
    /// The labels of the keys that the presenter presses next.
    pub key: Option<String>,
    /// A number shown in large digits in the middle of the Overview.
    pub countdown: Option<u8>,
    /// The guide has ended.
    pub done: bool,
    /// Labels and figures of the result, in a box over the screen until a key is pressed.
    pub summary: Vec<(String, String)>,
    /// What to do next, below the summary.
    pub next: String,
}

impl GuidePage {
    /// Whether there is nothing to show, so that the banner takes no rows.
    pub(crate) fn is_blank(&self) -> bool {
        self.title.is_empty() && self.text.is_empty()
    }
}

/// Why the console could not run, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Standard input or output is redirected.
    #[error("{}", Label("terminal-console-requires-terminal-use-seckill").to_owned())]
    NotATerminal,
    /// The terminal, by its `TERM` name, cannot be drawn on.
    #[error("{}", text!("terminal-console-does-not-support-use", term = .0.as_deref().unwrap_or("none")))]
    Dumb(Option<String>),
    /// A terminal operation failed.
    #[error("{}", text!("terminal-terminal-error-run-seckill-doctor", why = OsError::of(.0)))]
    Terminal(#[from] std::io::Error),
    /// The key bindings are invalid.
    #[error(transparent)]
    Keys(#[from] KeyFault),
}

/// Checks for a usable terminal; called before anything is started for the console.
pub fn check_terminal() -> Result<(), ConsoleError> {
    let is_terminal = rustix::termios::isatty(rustix::stdio::stdin())
        && rustix::termios::isatty(rustix::stdio::stdout());
    if !is_terminal {
        return Err(ConsoleError::NotATerminal);
    }
    match std::env::var("TERM") {
        Ok(term) if !matches!(term.as_str(), "" | "dumb") => Ok(()),
        term => Err(ConsoleError::Dumb(term.ok().filter(|it| !it.is_empty()))),
    }
}

/// A command with its outcome.
type Answer = (Command, Result<Result<Reply, EngineError>, RecvError>);

/// Runs the console on the terminal of this process until the user quits or a signal arrives. The terminal is restored
/// in every case.
pub async fn run(remote: Remote, options: Options) -> Result<(), ConsoleError> {
    start(remote, options, None).await
}

/// Runs the console with the lab only, without an engine, as [`run`] does. It ends once the servers of the lab are
/// stopped.
pub async fn run_lab(options: Options) -> Result<(), ConsoleError> {
    run_alone(options, Alone::Lab).await
}

/// Runs the console with an attached service only, without an engine, as [`run`] does.
pub async fn run_attach(attached: Attached, options: Options) -> Result<(), ConsoleError> {
    run_alone(options, Alone::Attached(Box::new(attached))).await
}

/// What is open without an engine.
enum Alone {
    Lab,
    Attached(Box<Attached>),
}

async fn run_alone(options: Options, alone: Alone) -> Result<(), ConsoleError> {
    let read_only = matches!(alone, Alone::Attached(_));
    let snapshot = Snapshot { seq: 1, read_only, ..Snapshot::default() };
    // Kept, because their end would mean that an engine has stopped. Nothing is sent.
    let (_snapshots, snapshots) = watch::channel(Arc::new(snapshot));
    let (commands, _requests) = mpsc::channel(1);
    let (focus, _focus) = watch::channel(Focus::default());
    start(Remote { snapshots, commands, focus }, options, Some(alone)).await
}

async fn start(remote: Remote, options: Options, alone: Option<Alone>) -> Result<(), ConsoleError> {
    check_terminal()?;
    keymap::choose(options.keys.table()?);
    set_language(options.lang);
    let depth = theme::Depth::detect(options.color, |name| std::env::var(name).ok());
    let theme = theme::Theme::of(&options.palette, depth, options.ascii);
    if options.color == ColorChoice::Always {
        // The terminal library reads NO_COLOR by itself.
        crossterm::style::force_color_output(true);
    }
    let mut app = app::App::new(remote, theme, TimeZone::system(), Millis::now());
    if let Some(locale) = options.plain_locale {
        // Chinese has no ASCII form, and is drawn only on request.
        app.note(text!("terminal-is-not-utf-locale-drawing", locale, in_ascii = options.ascii));
    }
    app.terminal.export_dir = options.export_dir;
    app.terminal.in_tmux = std::env::var_os("TMUX").is_some_and(|socket| !socket.is_empty());
    app.presenter.on = options.present && alone.is_none();
    app.views.lab.set_up(options.lab);
    app.alone = alone.is_some();
    match alone {
        None => {}
        Some(Alone::Lab) => app.view = view::View::Lab,
        Some(Alone::Attached(attached)) => {
            app.view = view::View::Attach;
            app.views.attach.follow(*attached);
        }
    }
    app.display.users.masked = options.mask_users;
    let mut screen = terminal::Screen::take()?;
    let mut keyboard = event_loop::Tty::default();
    let driven = event_loop::drive(&mut app, &mut screen, &mut keyboard, options.guide).await;
    // The user has the terminal back while the servers of the lab stop.
    drop(screen);
    app.views.lab.end().await;
    Ok(driven?)
}
