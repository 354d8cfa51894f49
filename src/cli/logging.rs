//! The log file in the data directory. Terminal and stdout are for results.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Mutex,
};

use rustix::fs::{FlockOperation, flock};
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

/// A larger file is renamed, in place of the one before: together, the log takes at most about twice as much.
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
    let Ok(file) = Rotated::open(path, LARGE) else { return Ok(()) };
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

/// A file that is renamed to `….log.1` when it has become large, and begun again.
///
/// Written here: all processes on a data directory append to this file, and the crates for this count only the bytes of
/// their own process and go on with a file that another one has renamed.
struct Rotated {
    path: PathBuf,
    file: File,
    inode: u64,
    most: u64,
}

impl Rotated {
    fn open(path: &Path, most: u64) -> io::Result<Self> {
        let (file, inode) = append_to(path)?;
        Ok(Self { path: path.to_owned(), file, inode, most })
    }

    /// Selects the file to append to, with one system call unless it has become large or was renamed.
    fn select(&mut self) -> io::Result<()> {
        match self.path.metadata() {
            Ok(found) if found.ino() == self.inode => {
                if found.len() <= self.most {
                    return Ok(());
                }
                self.rotate()?;
            }
            // Another process has renamed it, or it was deleted.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        (self.file, self.inode) = append_to(&self.path)?;
        Ok(())
    }

    /// Renames the file, unless another process has done so: the lock is on the file, not on its name.
    fn rotate(&self) -> io::Result<()> {
        flock(&self.file, FlockOperation::LockExclusive)?;
        if self.path.metadata()?.ino() == self.inode {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        Ok(())
    }
}

impl Write for Rotated {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.select()?;
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The file and its inode, which is not reused while the file is open.
fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let inode = file.metadata()?.ino();
    Ok((file, inode))
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

    /// Two processes, here two open files, append to one log.
    #[test]
    fn a_log_is_rotated_while_it_is_written_and_bounded() {
        const MOST: u64 = 1_000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seckill.log");
        let mut writers = [(); 2].map(|()| Rotated::open(&path, MOST).unwrap());
        let line = [b'x'; 99];
        let size = |path: &Path| path.metadata().unwrap().len();
        for n in 0..1_000 {
            writers[n % 2].write_all(&line).unwrap();
            writers[n % 2].write_all(b"\n").unwrap();
            assert!(size(&path) <= MOST + 200, "{n}");
        }
        let old = path.with_extension("log.1");
        assert!((MOST..=MOST + 200).contains(&size(&old)), "{}", size(&old));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        std::fs::remove_file(&path).unwrap();
        writers[0].write_all(&line).unwrap();
        assert_eq!(size(&path), 99, "a log that was deleted begins again");
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
