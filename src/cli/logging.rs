//! The log file in the data directory. Terminal and stdout are for results.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
    sync::Mutex,
};

use seckill_model::{in_english, is_display_control, text};
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    filter::{ParseError, Targets},
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::error::{CliError, Result};

/// A larger file is rotated at the next start.
const LARGE: u64 = 16 * 1024 * 1024;

const DEFAULT_FILTER: &str = "info,sqlx=warn";
const EXAMPLE: &str = "warn,seckill_engine=debug";

/// Writes log lines to `path`, filtered by `SECKILL_LOG`: `debug`, `warn,seckill_engine=trace`. An unwritable log is
/// ignored.
pub(super) fn to_file(path: &Path) -> Result<()> {
    let filter = std::env::var("SECKILL_LOG").unwrap_or_else(|_| DEFAULT_FILTER.to_owned());
    let targets: Targets = filter.parse().map_err(|why: ParseError| {
        CliError::usage(text!("cli-log-filter-invalid", filter, why, example = EXAMPLE))
    })?;
    if path.metadata().is_ok_and(|meta| meta.len() > LARGE) {
        let _ = std::fs::rename(path, path.with_extension("log.1"));
    }
    let Ok(file) = OpenOptions::new().create(true).append(true).open(path) else { return Ok(()) };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .map_event_format(English)
        .with_writer(Mutex::new(Harmless(file)));
    // A second start in one process (tests) keeps the file of the first.
    let _ = tracing_subscriber::registry().with(targets).with(lines).try_init();
    Ok(())
}

/// Formats events in English, whatever the language of the console.
struct English<F>(F);

impl<S, N, F> FormatEvent<S, N> for English<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        in_english(|| self.0.format_event(context, writer, event))
    }
}

/// Replaces control characters, because log lines quote untrusted text.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    /// Expects whole lines, as written by the subscriber: a partial character would be replaced.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let harmless = |c: char| if is_display_control(c) && c != '\n' { '·' } else { c };
        let shown: String = String::from_utf8_lossy(lines).chars().map(harmless).collect();
        self.0.write_all(shown.as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use seckill_model::{locale::set_thread_language, message::Label};

    use super::*;

    #[test]
    fn lines_contain_no_control_characters() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Mutex::new(Harmless(file.reopen().unwrap()));
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(writer);
        tracing::subscriber::with_default(lines.finish(), || {
            let title = "火锅\u{202e}a\u{2066}b\u{2028}c\u{9b}d";
            tracing::warn!(title, "an order of {title}");
        });
        let read = std::fs::read_to_string(file.path()).unwrap();
        assert!(!read.contains(|c| is_display_control(c) && c != '\n'), "{read:?}");
        assert!(read.contains("火锅·a·b·c") && read.ends_with('\n'), "{read:?}");
        assert_eq!(read.lines().count(), 1, "{read:?}");
    }

    #[test]
    fn log_is_english_in_every_console_language() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(Mutex::new(file.reopen().unwrap()))
            .map_event_format(English);
        set_thread_language("zh");
        tracing::subscriber::with_default(lines.finish(), || {
            tracing::warn!(error = %Label("common-lag"), "failed");
        });
        let read = std::fs::read_to_string(file.path()).unwrap();
        assert!(read.contains("error=lag") && read.is_ascii(), "{read:?}");
    }
}
