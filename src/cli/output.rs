//! Output and confirmations.

use std::{
    fmt::Display,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    net::SocketAddr,
    ops::RangeInclusive,
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};

use jiff::tz::TimeZone;
use seckill_model::{Filter, Label, Millis, OsError, escape_json, filter::Field, one_line, text};
use serde::Serialize;
use serde_json::Value;

use crate::{CliError, Consent, Result, error::FAILED, signals};

/// Numbers with grouped digits.
pub(super) use seckill_text::figures::thousands as number;

/// Whether stdout has a JSON document: a command that fails afterwards adds no other one. One a process, as stdout is.
static HAS_DOCUMENT: AtomicBool = AtomicBool::new(false);

/// Text, or one JSON document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) json: bool,
}

impl Output {
    /// Prints the result, and returns the exit code 0. A closed pipe (`| head`) is not an error.
    ///
    /// # Errors
    /// The result could not be written.
    pub(super) fn answer(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<u8> {
        self.verdict(true, value, text)
    }

    /// Like [`Output::answer`]; the exit code of a negative result is 1.
    pub(super) fn verdict(
        self,
        is_positive: bool,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<u8> {
        let text = if self.json {
            let document = serde_json::to_string_pretty(value)
                .unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
            HAS_DOCUMENT.store(true, Ordering::Relaxed);
            // Its values may reach a terminal as well.
            escape_json(&document)
        } else {
            // Titles and fields are untrusted.
            text().lines().map(plain).collect::<Vec<_>>().join("\n")
        };
        print(text.trim_end())?;
        Ok(if is_positive { 0 } else { FAILED })
    }

    /// The document of a command that failed without one. Its exit code says more than a failure to write it.
    pub(super) fn fail(self, document: &Value) {
        if self.json && !HAS_DOCUMENT.load(Ordering::Relaxed) {
            let _ = self.answer(document, String::new);
        }
    }

    /// What a command says while it runs and its user has to know, such as the port: with JSON on stderr, since stdout has
    /// the document at the end.
    pub(super) fn announce(self, text: &str) {
        if self.json {
            let _ = writeln!(io::stderr(), "seckill: {}", plain(text));
        } else {
            self.say(text);
        }
    }

    /// Progress message, for text output only.
    pub(super) fn say(self, text: &str) {
        if !self.json {
            for line in text.lines() {
                let _ = writeln!(io::stdout(), "{}", plain(line));
            }
        }
    }
}

/// Prints a text with a trailing newline.
pub(super) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    finished(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// The result of writing to stdout. A closed pipe (`| head`) is not an error.
pub(super) fn finished(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::failed(text!("cli-output-not-written", error = OsError::of(&error))))
        }
        _ => Ok(()),
    }
}

/// Parses a number, perhaps with separators of thousands; the error describes the expected format.
fn parse<T: FromStr>(text: &str, expected: Label) -> Result<T, String> {
    let mut groups = text.split([',', '_']);
    let first = groups.next().unwrap_or_default().trim_start_matches(['+', '-']).len();
    let rest: Vec<&str> = groups.collect();
    // A decimal comma is not one of them.
    let is_grouped = (1..=3).contains(&first) && rest.iter().all(|group| group.len() == 3);
    if !rest.is_empty() && !is_grouped {
        return Err(expected.to_owned());
    }
    text.replace([',', '_'], "").parse().map_err(|_| expected.to_owned())
}

pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| Label("cli-expected-address").to_owned())
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    parse(text, Label("cli-expected-count"))
}

pub(super) fn count_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| match count(text) {
        Ok(number) if !range.contains(&number) => {
            Err(text!("cli-expected-range", from = range.start(), to = range.end()))
        }
        parsed => parsed,
    }
}

/// Parses a signed number; a negative one removes.
pub(super) fn difference(text: &str) -> Result<i64, String> {
    parse(text, Label("cli-expected-difference"))
}

/// Parses a filter on these fields. A filter that matches everything is an error.
pub(super) fn filter(text: &str, fields: &[Field]) -> Result<Filter, String> {
    let filter = Filter::parse(text, fields).map_err(|error| error.to_string())?;
    if filter.is_empty() {
        return Err(Label("cli-empty-filter").to_owned());
    }
    Ok(filter)
}

/// Maximum number of rows per page.
pub(super) fn rows() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1_000)
}

/// Maximum number of rows that are all in memory.
pub(super) fn limit() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..=1_000_000)
}

/// Truncates a page that was read with one extra row; returns the key of the next page, if there is one.
pub(super) fn page<T, K>(rows: &mut Vec<T>, limit: u32, key: impl FnOnce(&T) -> K) -> Option<K> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    rows.last().filter(|_| more).map(key)
}

/// The command that shows the next page, if there is one.
pub(super) fn next_page(command: &str, next: Option<impl Display>) -> String {
    let command = next.map(|next| format!("{command} {next}"));
    command.map_or_else(String::new, |command| text!("cli-next-page", command))
}

/// Whether a terminal is available for confirmations.
fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn read_answer(prompt: &str) -> String {
    let _ = write!(io::stderr(), "{} ", plain(prompt));
    let mut answer = String::new();
    let _ = signals::asking(|| io::stdin().lock().read_line(&mut answer));
    plain(answer.trim())
}

/// Asks for confirmation. Without a terminal, `--yes` is required.
pub(super) fn ask(consent: &Consent, question: &str) -> Result<()> {
    if consent.yes {
        return Ok(());
    }
    if !is_interactive() {
        return Err(CliError::usage(text!("cli-confirmation-needed", question)));
    }
    match read_answer(&format!("{question} [y/N]")).to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CliError::failed(Label("cli-cancelled"))),
    }
}

/// The reason of a recovery command: as given, or entered now, possibly empty. Does not ask with `--yes` or without a
/// terminal.
pub(super) fn ask_reason(consent: &Consent) -> Option<String> {
    let reason = match &consent.reason.reason {
        Some(reason) => reason.clone(),
        None if consent.yes || !is_interactive() => return None,
        None => read_answer(&Label("cli-reason-prompt")),
    };
    Some(reason).filter(|reason| !reason.trim().is_empty())
}

/// Date and time in the zone of the system.
pub(super) fn local(at: Millis) -> String {
    at.date_time(&TimeZone::system())
}

/// A text as part of one line, with control characters and those that reorder a line escaped.
pub(super) fn plain(text: &str) -> String {
    one_line(text).into_owned()
}

/// Each line, indented by two columns.
pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// A duration for display; below a second in milliseconds.
pub(super) fn span(millis: u64) -> String {
    if millis < 1_000 { text!("cli-ms", millis) } else { seckill_text::figures::span(millis) }
}

/// Placeholder for an unknown value in a table.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The counts above 0, one indented line each.
pub(super) fn counts(parts: &[(u64, impl Display)]) -> String {
    let mut text = String::new();
    for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("\n  {:>10}  {what}", number(*count)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_return_the_key_of_the_next_one() {
        let mut rows = vec![9, 8, 7];
        assert_eq!(page(&mut rows, 3, |row| *row), None);
        assert_eq!((page(&mut rows, 2, |row| *row), rows), (Some(8), vec![9, 8]));
        assert_eq!(page(&mut Vec::<u8>::new(), 2, |row| *row), None);
    }

    #[test]
    fn differences_have_a_sign() {
        assert_eq!(["-1,000", "20", "+5"].map(difference), [Ok(-1_000), Ok(20), Ok(5)]);
        for bad in [
            "",
            "-",
            "1.5",
            "1,5",
            "1,0000",
            ",100",
            "10,",
            "many",
            "--yes",
            "9999999999999999999999",
        ] {
            assert!(difference(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }
}
