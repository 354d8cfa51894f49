//! A table as CSV or JSON: every loaded row that matches the filter, in full. JSON states whether there are further
//! rows; CSV cannot, so the status line does.
//!
//! Content may come from any writer of the stream, and is opened in spreadsheets and terminals: no cell becomes a
//! formula, and no control character is kept.

use seckill_model::{Millis, escape_json, is_display_control};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::views::table::sheet::{Extent, Sheet};

pub(super) fn csv(sheet: &Sheet) -> csv::Result<String> {
    let mut file =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    file.write_record(sheet.columns.iter().map(|name| cell(name)))?;
    for row in &sheet.rows {
        file.write_record(row.iter().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => cell(text),
            other => other.to_string(),
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
    columns: &'a [String],
    values: &'a [Value],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.columns.iter().zip(self.values))
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
    let row = |values| Row { columns: &sheet.columns, values };
    let rows = sheet.rows.iter().map(|values| row(values)).collect();
    let Extent { total, more, .. } = sheet.extent;
    let document = Document { view, taken_ms: taken.0, total, more, rows };
    serde_json::to_string_pretty(&document).map(|text| escape_json(&text) + "\n")
}

/// One row in one line, with the names and values of the whole document.
pub(crate) fn row(sheet: &Sheet, at: usize) -> Option<String> {
    let values = sheet.rows.get(at)?;
    let row = serde_json::to_string(&Row { columns: &sheet.columns, values }).ok()?;
    Some(escape_json(&row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(rows: Vec<Vec<Value>>) -> Sheet {
        let columns = ["mark", "title", "left_in_sql", "order"].map(str::to_owned).to_vec();
        Sheet { columns, rows, ..Sheet::default() }
    }

    #[test]
    fn csv_is_complete_and_harmless() {
        let id = "618475290624131073";
        let sheet = sheet(vec![
            vec![Value::Null, "hot pot, \"50%\" off".into(), 1_204.into(), id.into()],
            vec!["◆".into(), "=HYPERLINK(\"http://x\")".into(), (-3).into(), Value::Null],
            vec![Value::Null, "a\r\nb\x1b[2J\u{202e}".into(), "unknown".into(), "7".into()],
        ]);
        assert_eq!(
            csv(&sheet).unwrap(),
            "mark,title,left_in_sql,order\r\n\
             ,\"hot pot, \"\"50%\"\" off\",1204,618475290624131073\r\n\
             ◆,\"'=HYPERLINK(\"\"http://x\"\")\",-3,\r\n\
             ,a\\r\\nb\\u{1b}[2J\\u{202e},unknown,7\r\n"
        );
        for bad in ["=1", "+1", "-1+1", "@x", "＝1"] {
            assert!(cell(bad).starts_with('\''), "{bad}");
        }
        assert_eq!(cell("\t=1"), "\\t=1");
    }

    #[test]
    fn json_keeps_the_order_and_every_digit() {
        let text = "a\x1b\"\u{9b}\u{200f}";
        let mut sheet = sheet(vec![
            vec!["◆".into(), text.into(), 1_204.into(), "618475290624131073".into()],
            vec![Value::Null, "b".into(), Value::Null, "7".into()],
        ]);
        sheet.extent = Extent { rows: 2, total: Some(9), more: true };
        let json = json(&sheet, "pending", Millis(5)).unwrap();
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["rows"][0]["left_in_sql"], 1204);
        assert_eq!(read["rows"][0]["order"], "618475290624131073");
        assert_eq!(read["rows"][0]["mark"], "◆");
        assert_eq!(read["rows"][1]["left_in_sql"], Value::Null);
        assert_eq!((read["view"].as_str(), read["taken_ms"].as_i64()), (Some("pending"), Some(5)));
        assert_eq!((read["total"].as_u64(), read["more"].as_bool()), (Some(9), Some(true)));
        let at = |name: &str| json.find(name).unwrap();
        assert!(at("mark") < at("title") && at("title") < at("left_in_sql"));
        assert_eq!(read["rows"][0]["title"], text);
        assert!(!json.contains(|c| is_display_control(c) && c != '\n'));
    }
}
