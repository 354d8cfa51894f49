//! Texts of exports: the menu, and where a file was written.

use seckill_model::{
    OsError,
    message::{Label, text},
};

use crate::{
    export::{DIR_FLAG, ExportError, Format, Written},
    frame_writer::Drawn,
    views::Extent,
};

/// What a format contains.
pub(crate) fn format(format: Format) -> Label {
    match format {
        Format::Text => Label("export-the-screen-as-text"),
        Format::Ansi => Label("export-screen-as-text-with-colours"),
        Format::Svg => Label("export-screen-as-image-svg"),
        Format::Csv => Label("export-the-table-as-csv"),
        Format::Json => Label("export-the-table-as-json"),
    }
}

/// How many rows of a table are exported.
pub(crate) fn rows(rows: Option<(usize, Extent)>) -> String {
    let Some((rows, Extent { total, more })) = rows else { return text!("export-no-rows") };
    match (total.filter(|_| more), more) {
        (Some(total), _) => text!("export-of-rows", rows, total),
        (None, true) => text!("export-rows-there-are-more", rows),
        (None, false) => text!("export-rows", rows),
    }
}

/// The path of a file; for an incomplete table, also its row count.
pub(crate) fn written(written: &Written) -> String {
    let path = written.path.display();
    match written.rows.filter(|(_, extent)| extent.more) {
        None => text!("export-written-to", path),
        part => {
            let rows = rows(part);
            text!("export-written-to-loaded-rows-only", rows, path)
        }
    }
}

/// Why a file was not written.
pub(crate) fn failed(why: &ExportError) -> String {
    match why {
        ExportError::Unwritable { path, why } => {
            let (path, why) = (path.display(), OsError::of(why));
            text!("export-cannot-write-fix", path, why, DIR_FLAG)
        }
        ExportError::Taken(path) => {
            text!("export-and-following-names-exist-move", path = path.display(), DIR_FLAG)
        }
        ExportError::Unmade(why) => text!("export-table-not-as-json", why),
        ExportError::BrokenOff => text!("export-export-failed-try-again"),
    }
}

/// The number of frames drawn, and their size.
pub(crate) fn drawn(drawn: Drawn) -> Option<String> {
    let mean = drawn.mean()?;
    let (frames, last) = (drawn.frames, drawn.last);
    Some(text!("export-frames-bytes-on-average-last", frames, mean, last))
}
