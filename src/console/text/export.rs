//! Words about exports: the menu, and where a file went.

use super::{
    figures::thousands,
    lang::{Word, tell, word},
};
use crate::console::{export::Format, ink::Drawn};

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
pub(crate) fn rows(rows: Option<usize>) -> String {
    match rows {
        None => tell!("no rows", "无数据"),
        Some(1) => tell!("1 row", "1 行"),
        Some(rows) => {
            let rows = thousands(rows as u64);
            tell!("{rows} rows", "{rows} 行")
        }
    }
}

pub(crate) fn goes_to(dir: &str) -> String {
    tell!("into {dir}", "写入 {dir}")
}

pub(crate) fn written(path: &str) -> String {
    tell!("written to {path}", "已写入 {path}")
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
