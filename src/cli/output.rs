//! Output and confirmations.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// Numbers with grouped digits, and counted nouns.
pub(super) use seckill_console::{counted, signed, thousands as number};
use seckill_model::{escape_json, is_display_control};
use serde::Serialize;

use super::{Consent, Fault};

/// Text, or one JSON document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) json: bool,
}

impl Output {
    /// Prints the result. A closed pipe (`| head`) is no error.
    ///
    /// # Errors
    /// The result could not be written.
    pub(super) fn answer(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Fault> {
        let text = if self.json {
            let document = serde_json::to_string_pretty(value)
                .unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
            // Its values may reach a terminal as well.
            escape_json(&document)
        } else {
            // Titles and fields are untrusted.
            text().lines().map(plain).collect::<Vec<_>>().join("\n")
        };
        print(text.trim_end())
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

/// Prints a text with a trailing newline. A closed pipe (`| head`) is no error.
///
/// # Errors
/// The text could not be written.
pub(super) fn print(text: &str) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Fault::no(format!("cannot write the output ({error})")))
        }
        _ => Ok(()),
    }
}

/// Joins several messages on one line.
pub(super) fn sentences(messages: &[impl ToString]) -> String {
    messages.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Parses a number; the error describes the expected format.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let digits = text.replace([',', '_'], "");
    digits.parse().map_err(|_| "expected a non-negative integer".to_owned())
}

/// The same with a sign; negative means fewer.
pub(super) fn difference(text: &str) -> Result<i64, String> {
    let digits = text.replace([',', '_'], "");
    digits.parse().map_err(|_| "expected an integer; a negative one removes stock".to_owned())
}

/// Maximum number of rows per page.
pub(super) fn rows() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1_000)
}

/// Truncates a page that was read with one extra row; returns the key of the next page, if there is one.
pub(super) fn page<T, K>(rows: &mut Vec<T>, limit: u32, key: impl FnOnce(&T) -> K) -> Option<K> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    rows.last().filter(|_| more).map(key)
}

/// Asks for confirmation. Without a terminal, `--yes` is required.
pub(super) fn ask(consent: &Consent, question: &str) -> Result<(), Fault> {
    if consent.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Fault::usage(format!(
            "{question} No terminal for the confirmation; pass --yes."
        )));
    }
    let _ = write!(io::stderr(), "{} [y/N] ", plain(question));
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(Fault::no("cancelled; nothing was changed"))
    }
}

/// The reason of a recovery command: as given, or entered now, possibly empty. Does not ask with `--yes` or without a
/// terminal.
pub(super) fn why(consent: &Consent) -> Option<String> {
    let silent = consent.yes || !io::stdin().is_terminal() || !io::stderr().is_terminal();
    if consent.reason.is_some() || silent {
        return consent.reason.clone().filter(|reason| !reason.trim().is_empty());
    }
    let _ = write!(io::stderr(), "Reason for the audit log (optional): ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    let answer = plain(answer.trim());
    (!answer.is_empty()).then_some(answer)
}

/// Removes control characters and those that reorder a line.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_display_control(c) { ' ' } else { c }).collect()
}

/// A duration for display.
pub(super) fn span(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{} s", millis / 1_000),
        60_000..3_600_000 => format!("{} min", millis / 60_000),
        _ => format!("{} h", millis / 3_600_000),
    }
}

/// Aligns columns by display width: to the left, and those in `right` to the right.
pub(super) fn table(head: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    use unicode_width::UnicodeWidthStr as _;
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let cells = rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.width());
            cells.chain([name.width()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            let (before, after) =
                if right.contains(&i) { (pad.as_str(), "") } else { ("", pad.as_str()) };
            text.push_str(&format!("{before}{cell}{after}  "));
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_titles_keep_columns_aligned() {
        let rows =
            [vec!["火锅".to_owned(), "7".to_owned()], vec!["tea".to_owned(), "12".to_owned()]];
        assert_eq!(table(&["title", "n"], &[1], &rows), "title   n\n火锅    7\ntea    12\n");
    }

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
        for bad in ["", "-", "1.5", "many", "--yes", "9999999999999999999999"] {
            assert!(difference(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }
}
