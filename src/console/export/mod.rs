//! Exports of the screen, or of the loaded rows of its table, to a file. The formats are in the files beside this one;
//! the content of a table comes from its view.
//!
//! The state only builds the content; the event loop writes it on a separate thread, so that a slow
//! disk delays no key.

mod screen;
mod svg;
mod table;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use seckill_model::{Label, Millis, OsError, text};
use tokio::task::JoinSet;

pub(super) use self::table::row;
use super::views::table::sheet::{Extent, Sheet};

/// The command-line name of the export directory.
const DIR_FLAG: &str = "--export-dir";

/// The format of an export, in menu order. Its name is the file extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Format {
    #[strum(serialize = "txt")]
    Text,
    Ansi,
    Svg,
    Csv,
    Json,
}

impl Format {
    /// The file extension.
    pub(crate) fn extension(self) -> &'static str {
        self.into()
    }

    /// Its key in the menu.
    pub(crate) fn letter(self) -> char {
        self.extension().chars().next().unwrap_or_default()
    }

    /// What it contains.
    pub(crate) fn title(self) -> String {
        text!("export-format", format = self.extension())
    }

    /// Whether it exports the table, not the screen.
    pub(crate) fn is_of_table(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// `None` is the working directory.
    pub(super) dir: Option<PathBuf>,
    /// Name without extension.
    pub(super) stem: String,
    pub(super) format: Format,
    /// For a table, its rows and the rows of the whole list.
    pub(super) rows: Option<Extent>,
    pub(super) body: String,
}

/// Why an export was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(
        "{}",
        text!("export-cannot-write-fix", path = .0.display(), why = OsError::of(.1), DIR_FLAG)
    )]
    Unwritable(PathBuf, io::Error),
    #[error("{}", text!("export-and-following-names-exist-move", path = .0.display(), DIR_FLAG))]
    Taken(PathBuf),
    /// The table cannot be represented in this format.
    #[error("{}", text!("export-table-not-as-json", why = .0))]
    Unmade(io::Error),
    #[error("{}", Label("export-export-failed-try-again"))]
    BrokenOff,
}

/// How many rows of a table are exported.
pub(crate) fn row_count(rows: Option<Extent>) -> String {
    match rows {
        None => text!("export-no-rows"),
        Some(Extent { rows, more: false, .. }) => text!("export-rows", rows),
        Some(Extent { rows, total: None, .. }) => text!("export-rows-there-are-more", rows),
        Some(Extent { rows, total: Some(total), .. }) => text!("export-of-rows", rows, total),
    }
}

/// Exports of one view within one second before the next is rejected.
const MOST_ALIKE: u32 = 100;

impl Export {
    /// Writes a new file, and returns its path.
    fn write(&self) -> Saved {
        let dir = self.dir.as_deref().unwrap_or(Path::new("."));
        let extension = self.format.extension();
        let named = |copy: &str| dir.join(format!("{}{copy}.{extension}", self.stem));
        let copies = (2..=MOST_ALIKE).map(|copy| format!("-{copy}"));
        for path in std::iter::once(String::new()).chain(copies).map(|copy| named(&copy)) {
            let wrong = |why| ExportError::Unwritable(path.clone(), why);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let written = file.write_all(self.body.as_bytes()).and_then(|()| file.flush());
                    if written.is_err() {
                        // A partial file would look complete.
                        let _ = std::fs::remove_file(&path);
                    }
                    written.map_err(wrong)?;
                    return Ok((std::path::absolute(&path).unwrap_or(path), self.rows));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(wrong(error)),
            }
        }
        Err(ExportError::Taken(named("")))
    }
}

/// The written file, with [`Export::rows`].
pub(super) type Saved = Result<(PathBuf, Option<Extent>), ExportError>;

/// Exports in progress.
#[derive(Debug, Default)]
pub(super) struct Saver(JoinSet<Saved>);

/// How long the console waits for a file before it exits.
const LAST_WRITE: Duration = Duration::from_secs(2);

impl Saver {
    pub(super) fn start(&mut self, exports: &mut Vec<Export>) {
        for export in exports.drain(..) {
            self.0.spawn_blocking(move || export.write());
        }
    }

    /// The next finished export; `None` if none is in progress.
    pub(super) async fn next(&mut self) -> Option<Saved> {
        let saved = self.0.join_next().await?;
        Some(saved.unwrap_or(Err(ExportError::BrokenOff)))
    }

    /// Waits for exports in progress, up to a limit.
    pub(super) async fn finish(mut self) {
        let written = async { while self.0.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WRITE, written).await;
    }
}

/// The screen as a text or an image; `name` is that of its view.
pub(super) fn of_screen(format: Format, buffer: &Buffer, light: bool, name: &str) -> String {
    match format {
        Format::Text => screen::text(buffer),
        Format::Ansi => screen::ansi(buffer),
        _ => svg::svg(buffer, light, name),
    }
}

/// The table of a view.
pub(super) fn of_table(
    format: Format,
    sheet: &Sheet,
    name: &str,
    taken: Millis,
) -> Result<String, ExportError> {
    let body = match format {
        Format::Csv => table::csv(sheet).map_err(io::Error::from),
        _ => table::json(sheet, name, taken).map_err(io::Error::from),
    };
    body.map_err(ExportError::Unmade)
}

/// A timestamp for file names that sorts chronologically.
pub(super) fn stamp(now: Millis, zone: &TimeZone) -> String {
    now.date_time(zone).replace(['-', ':'], "").replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(dir: &Path) -> Export {
        let stem = "seckill-pending-20261121-170000".to_owned();
        let (dir, body) = (Some(dir.to_owned()), "a,b\n".to_owned());
        Export { dir, stem, format: Format::Csv, rows: None, body }
    }

    #[test]
    fn a_file_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..3)
            .map(|_| export(dir.path()).write().unwrap())
            .map(|(path, _)| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        let stem = "seckill-pending-20261121-170000";
        assert_eq!(
            names,
            [format!("{stem}.csv"), format!("{stem}-2.csv"), format!("{stem}-3.csv")]
        );
        for name in names {
            assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), "a,b\n");
        }
    }

    #[test]
    fn obstacles_are_reported() {
        let error = export(Path::new("/nowhere/at/all")).write().unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("/nowhere/at/all/seckill-pending") && error.contains("--export-dir")
        );
        let dir = tempfile::tempdir().unwrap();
        (0..MOST_ALIKE).for_each(|_| drop(export(dir.path()).write().unwrap()));
        assert!(matches!(export(dir.path()).write(), Err(ExportError::Taken(_))));
    }

    #[test]
    fn names_sort_by_time() {
        assert_eq!(stamp(Millis(1_795_000_000_000), &TimeZone::UTC), "20261118-110640");
    }

    #[tokio::test]
    async fn quitting_waits_for_running_exports() {
        let dir = tempfile::tempdir().unwrap();
        let mut saver = Saver::default();
        let mut exports = vec![export(dir.path()), export(dir.path())];
        saver.start(&mut exports);
        assert!(exports.is_empty());
        saver.next().await.unwrap().unwrap();
        saver.finish().await;
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
