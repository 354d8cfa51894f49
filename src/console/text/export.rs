//! Words about exports: the menu, and where a file went.

use super::{
    figures::thousands,
    lang::{Word, tell, word},
    system,
};
use crate::{
    export::{DIR_FLAG, ExportError, Format, Written},
    ink::Drawn,
    widgets::Extent,
};

pub(crate) const TITLE: Word = word("Export", "导出");
pub(crate) const NO_TABLE: Word =
    word("there are no rows here to export; the screen can be", "这里没有可导出的行；屏幕可以导出");
pub(crate) const WRITING: Word = word("writing the file", "正在写入文件");
pub(crate) const HERE: Word = word("the working directory", "当前目录");

/// What a format holds.
pub(crate) fn format(format: Format) -> Word {
    match format {
        Format::Text => word("the screen as text", "屏幕，纯文本"),
        Format::Ansi => word("the screen as text with colours (ANSI)", "屏幕，带颜色文本（ANSI）"),
        Format::Svg => word("the screen as a picture (SVG)", "屏幕，图片（SVG）"),
        Format::Csv => word("the table as CSV", "表格，CSV"),
        Format::Json => word("the table as JSON", "表格，JSON"),
    }
}

/// How much of a table there is to write.
pub(crate) fn rows(rows: Option<(usize, Extent)>) -> String {
    let Some((rows, Extent { total, more })) = rows else { return tell!("no rows", "无数据") };
    let told = thousands(rows as u64);
    match (total.filter(|_| more), more) {
        (Some(total), _) => {
            let total = thousands(total);
            tell!("{told} of {total} rows", "{total} 行中的 {told} 行")
        }
        (None, true) => tell!("{told} rows, there are more", "{told} 行，还有更多"),
        (None, false) if rows == 1 => tell!("1 row", "1 行"),
        (None, false) => tell!("{told} rows", "{told} 行"),
    }
}

pub(crate) fn goes_to(dir: &str) -> String {
    tell!("into {dir}", "写入 {dir}")
}

/// Where a file is; of a table that is not whole, also how much of it is there.
pub(crate) fn written(written: &Written) -> String {
    let path = written.path.display();
    match written.rows.filter(|(_, extent)| extent.more) {
        None => tell!("written to {path}", "已写入 {path}"),
        part => {
            let rows = rows(part);
            tell!(
                "{rows} written to {path}; only what is loaded",
                "{rows}已写入 {path}；仅限已加载的数据"
            )
        }
    }
}

/// Why a file was not written.
pub(crate) fn failed(why: &ExportError) -> String {
    match why {
        ExportError::Unwritable { path, why } => {
            let (path, why) = (path.display(), system::fault(why));
            tell!(
                "{path} can't be written ({why}); free what is in the way, or give another {DIR_FLAG}",
                "无法写入 {path}（{why}）；请清除障碍，或另指定 {DIR_FLAG}"
            )
        }
        ExportError::Taken(path) => {
            let path = path.display();
            tell!(
                "{path} and the names after it are taken; move some of them, or give another {DIR_FLAG}",
                "{path} 及其后续文件名均已存在；请移走一些，或另指定 {DIR_FLAG}"
            )
        }
        ExportError::Unmade(why) => tell!(
            "the table can't be told as JSON ({why}); CSV can",
            "无法将表格写成 JSON（{why}）；可改用 CSV"
        ),
        ExportError::BrokenOff => tell!("the export broke off; try once more", "导出中断；请重试"),
    }
}

/// What drawing costs the line to the terminal.
pub(crate) fn drawn(drawn: Drawn) -> Option<String> {
    let (mean, last) = (thousands(drawn.mean()?), thousands(drawn.last));
    let pictures = thousands(drawn.pictures);
    Some(tell!(
        "{pictures} pictures drawn, {mean} bytes each, the last {last}",
        "已绘制 {pictures} 帧，平均 {mean} 字节，最近 {last} 字节"
    ))
}
