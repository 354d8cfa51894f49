//! The console: one person, one terminal. It draws [`Snapshot`](crate::telemetry::Snapshot)s and
//! sends [`Command`](crate::engine::command::Command)s.
//!
//! This room never touches Redis or SQL, and knows the engine only through its
//! [`Remote`](crate::engine::command::Remote). Inside, arrows go one way: the loop (`run`) hands
//! events to the state (`app`, `dispatch`, `acts`), and the `views` draw it with `widgets`.

mod acts;
mod app;
mod dialogs;
mod dispatch;
mod history;
mod keymap;
mod run;
mod screen;
mod status;
mod story;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod views;
mod widgets;

use jiff::tz::TimeZone;
use tokio::sync::watch;

pub use self::{story::Story, text::lang::Lang, theme::ColorChoice};
use crate::{engine::command::Remote, model::Millis};

/// How the console looks, and what else it shows.
#[derive(Debug, Default)]
pub struct Options {
    /// When to use colour.
    pub color: ColorChoice,
    /// A guided demonstration to tell along.
    pub story: Option<watch::Receiver<Story>>,
    /// What language it speaks.
    pub lang: Lang,
    /// Draw bars, boxes and the chart with ASCII only.
    pub ascii: bool,
}

/// Why the console could not run, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Standard input or output goes elsewhere.
    #[error(
        "the console needs a terminal; use 'seckill status --json' or 'seckill demo --headless' here"
    )]
    NotATerminal,
    /// The terminal refused something.
    #[error("the terminal does not work: {0}; 'seckill doctor' checks it")]
    Terminal(#[from] std::io::Error),
}

/// Runs the console on this process' terminal until the person leaves or a signal ends it. The
/// terminal is given back in every case.
pub async fn run(remote: Remote, options: Options) -> Result<(), ConsoleError> {
    let is_terminal = rustix::termios::isatty(rustix::stdio::stdin())
        && rustix::termios::isatty(rustix::stdio::stdout());
    if !is_terminal {
        return Err(ConsoleError::NotATerminal);
    }
    let Options { color, story, lang, ascii } = options;
    text::lang::speak(lang);
    let theme = theme::Theme::detect(color, ascii, |name| std::env::var(name).ok());
    if color == ColorChoice::Always {
        // The terminal library reads NO_COLOR by itself.
        crossterm::style::force_color_output(true);
    }
    let mut app = app::App::new(remote, theme, TimeZone::system(), Millis::now());
    let mut screen = screen::Screen::take()?;
    let mut keyboard = run::Tty::default();
    run::drive(&mut app, &mut screen, &mut keyboard, story).await?;
    Ok(())
}
