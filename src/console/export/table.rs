//! A table as CSV or JSON: every loaded row that matches the filter, in full. JSON states whether there are further
//! rows; CSV cannot, so the status line does.
//!
//! Content may come from any writer of the stream, and is opened in spreadsheets and terminals: no cell becomes a
//! formula, and no control character is kept.

use seckill_model::{Millis, escape_json, is_display_control};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use crate::widgets::{Extent, Sheet, Value};

/// Columns of IDs, which are text whatever their digits.
const IDS: [&str; 7] = ["ID", "ENTRY", "LETTER", "ORDER", "USER", "SALE", "TOKEN"];
/// Columns of durations, exported in milliseconds.
const SPANS: [&str; 5] = ["AGE", "IDLE", "LEASE", "HELD", "TOOK"];

/// The value of a text on the screen.
fn meant(text: &str, title: &str, numeric: bool) -> Value {
    let text = text.trim();
    // The placeholder for a missing value.
    if matches!(text, "" | "-") {
        return Value::Nothing;
    }
    if IDS.contains(&title) {
        return Value::Text(text.strip_prefix('#').unwrap_or(text).to_owned());
    }
    let plain: String = text.chars().filter(|it| *it != ',').collect();
    match plain.parse() {
        Ok(number) if numeric => Value::Number(number),
        _ => Value::Text(text.to_owned()),
    }
}

/// The name of a column in a file, with its unit.
fn name(title: &str) -> String {
    let name = title.trim().to_lowercase().replace(' ', "_");
    match title {
        "" => "mark".to_owned(),
        _ if SPANS.contains(&title) => format!("{name}_ms"),
        _ => name,
    }
}

/// Exported columns with their names.
fn columns(sheet: &Sheet) -> Vec<(usize, String)> {
    let named = sheet.columns.iter().enumerate().map(|(at, (title, _))| (at, name(title)));
    named
        .filter(|(at, name)| {
            let mut cells = sheet.rows.iter().filter_map(|row| row.get(*at)).map(|(text, _)| text);
            !(name == "mark" && cells.all(|cell| cell.trim().is_empty()))
        })
        .collect()
}

fn value(sheet: &Sheet, row: &[(String, Option<Value>)], at: usize) -> Value {
    let Some((title, numeric)) = sheet.columns.get(at) else { return Value::Nothing };
    match row.get(at) {
        Some((_, Some(exact))) => exact.clone(),
        Some((text, None)) => meant(text, title, *numeric),
        None => Value::Nothing,
    }
}

pub(super) fn csv(sheet: &Sheet) -> csv::Result<String> {
    let columns = columns(sheet);
    let mut file =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    file.write_record(columns.iter().map(|(_, name)| cell(name)))?;
    for row in &sheet.rows {
        file.write_record(columns.iter().map(|(at, _)| match value(sheet, row, *at) {
            Value::Nothing => String::new(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => cell(&text),
        }))?;
    }
    let bytes = file.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Escapes a text for spreadsheets.
fn cell(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if is_display_control(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    // Formula prefixes, including their full-width forms.
    if plain.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        plain.insert(0, '\'');
    }
    plain
}

/// A row with its column names, in order.
struct Row<'a> {
    sheet: &'a Sheet,
    columns: &'a [(usize, String)],
    cells: &'a [(String, Option<Value>)],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (at, name) in self.columns {
            map.serialize_entry(name, &value(self.sheet, self.cells, *at))?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Document<'a> {
    view: &'a str,
    /// When the snapshot was taken, in Unix milliseconds.
    taken_ms: i64,
    /// Rows of the whole list, if known.
    total: Option<u64>,
    /// Some of them were not loaded.
    more: bool,
    rows: Vec<Row<'a>>,
}

pub(super) fn json(sheet: &Sheet, view: &str, taken: Millis) -> serde_json::Result<String> {
    let columns = columns(sheet);
    let row = |cells| Row { sheet, columns: &columns, cells };
    let rows = sheet.rows.iter().map(|cells| row(cells)).collect();
    let Extent { total, more } = sheet.extent;
    let document = Document { view, taken_ms: taken.0, total, more, rows };
    serde_json::to_string_pretty(&document).map(|text| escape_json(&text) + "\n")
}

/// One row in one line, with the names and values of the whole document.
pub(super) fn row(sheet: &Sheet, at: usize) -> Option<String> {
    let (cells, columns) = (sheet.rows.get(at)?, columns(sheet));
    let row = serde_json::to_string(&Row { sheet, columns: &columns, cells }).ok()?;
    Some(escape_json(&row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(cells: &[&[&str]]) -> Sheet {
        let column = |title: &str, numeric| (title.to_owned(), numeric);
        Sheet {
            columns: vec![
                column("", false),
                column("TITLE", false),
                column("LEFT IN SQL", true),
                column("ORDER", true),
            ],
            rows: cells
                .iter()
                .map(|row| row.iter().map(|it| ((*it).to_owned(), None)).collect())
                .collect(),
            extent: Extent::default(),
            cursor: None,
        }
    }

    #[test]
    fn csv_is_complete_and_free_of_formulas() {
        let sheet = sheet(&[
            &[" ", "hot pot, \"50%\" off", "1,204", "618475290624131073"],
            &[" ", "=HYPERLINK(\"http://x\")", "-3", "-"],
            &[" ", "a\r\nb\x1b[2J\u{202e}", "unknown", "7"],
        ]);
        assert_eq!(
            csv(&sheet).unwrap(),
            "title,left_in_sql,order\r\n\
             \"hot pot, \"\"50%\"\" off\",1204,618475290624131073\r\n\
             \"'=HYPERLINK(\"\"http://x\"\")\",-3,\r\n\
             a\\r\\nb\\u{1b}[2J\\u{202e},unknown,7\r\n"
        );
        for bad in ["=1", "+1", "-1+1", "@x", "＝1"] {
            assert!(cell(bad).starts_with('\''), "{bad}");
        }
        assert_eq!(cell("\t=1"), "\\t=1");
    }

    #[test]
    fn json_keeps_the_order_and_every_digit() {
        let mut sheet = sheet(&[
            &["◆", "a\x1b\"\u{9b}\u{200f}", "1,204", "618475290624131073"],
            &[" ", "b", "-", "7"],
        ]);
        sheet.extent = Extent { total: Some(9), more: true };
        let text = json(&sheet, "pending", Millis(5)).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["rows"][0]["left_in_sql"], 1204);
        assert_eq!(read["rows"][0]["order"], "618475290624131073");
        assert_eq!(read["rows"][0]["mark"], "◆");
        assert_eq!(read["rows"][1]["left_in_sql"], serde_json::Value::Null);
        assert_eq!((read["view"].as_str(), read["taken_ms"].as_i64()), (Some("pending"), Some(5)));
        assert_eq!((read["total"].as_u64(), read["more"].as_bool()), (Some(9), Some(true)));
        let at = |name: &str| text.find(name).unwrap();
        assert!(at("mark") < at("title") && at("title") < at("left_in_sql"));
        assert_eq!(read["rows"][0]["title"], "a\x1b\"\u{9b}\u{200f}");
        assert!(!text.contains(|c| is_display_control(c) && c != '\n'));
    }
}
