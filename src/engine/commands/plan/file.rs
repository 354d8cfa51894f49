//! A plan's file: one JSON document with a line for its head, one for each entry, and one for its totals.
//!
//! It is read line by line, and only if unchanged: a digest (SHA-256 of all bytes before it) detects edits. This module
//! knows neither Redis nor SQL.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

use seckill_model::escape_json;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    commands::plan::{Head, Line, Totals},
    error::PlanError,
};

/// Maximum length of a line of a plan.
const LONGEST: u64 = 64 * 1024;
const ENTRIES: &str = ",\"entries\":[\n";
const LAST: &str = "],";

/// A plan whose lines are in the file it was read from, or in a private temporary file.
#[derive(Clone, Debug)]
pub struct Plan {
    file: Arc<File>,
    /// Byte offset of its first entry.
    start: u64,
    digest: String,
    /// Its head.
    pub head: Head,
    /// Its totals.
    pub totals: Totals,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// The part after the entries.
#[derive(Serialize, Deserialize)]
struct Tail {
    totals: Totals,
    sha256: String,
}

impl Plan {
    /// Reads a plan; rejects one that was changed.
    ///
    /// # Errors
    /// [`PlanError`]; no entry was processed.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(PlanError::NotOne);
        }
        Self::check(Arc::new(file))
    }

    fn check(file: Arc<File>) -> Result<Self, PlanError> {
        let mut lines = lines_at(&file, 0);
        let first = next_line(&mut lines)?.ok_or(PlanError::NotOne)?;
        let head = first.strip_suffix(ENTRIES).map(|head| format!("{head}}}"));
        let head: Head =
            head.and_then(|head| serde_json::from_str(&head).ok()).ok_or(PlanError::NotOne)?;
        if head.seckill_plan != 1 {
            return Err(PlanError::Version(head.seckill_plan));
        }
        let start = first.len() as u64;
        let mut sum = Sha256::new_with_prefix(&first);
        let mut entries = 0;
        let last = loop {
            let Some(line) = next_line(&mut lines)? else { return Err(PlanError::Truncated) };
            if line.starts_with(LAST) {
                break line;
            }
            sum.update(&line);
            entries += 1;
        };
        if !last.ends_with('\n') {
            return Err(PlanError::Truncated);
        }
        let tail = last.strip_prefix(LAST).map(|tail| format!("{{{tail}"));
        let tail: Option<Tail> = tail.and_then(|tail| serde_json::from_str(&tail).ok());
        let tail = tail.ok_or(PlanError::Edited)?;
        sum.update(totals_bytes(&tail.totals)?);
        let digest = format!("{:x}", sum.finalize());
        if digest != tail.sha256
            || entries != tail.totals.entries
            || next_line(&mut lines)?.is_some()
        {
            return Err(PlanError::Edited);
        }
        Ok(Self { file, start, digest, head, totals: tail.totals })
    }

    /// Returns its entries from the first on, each read on demand.
    pub fn lines(&self) -> PlanLines {
        PlanLines { lines: lines_at(&self.file, self.start), left: self.totals.entries }
    }

    /// Writes the whole document.
    pub fn copy_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut whole = At { file: Arc::clone(&self.file), at: 0 };
        io::copy(&mut whole, out)?;
        out.flush()
    }

    /// Its unique identifier.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// Iterator over the entries of a plan.
#[derive(Debug)]
pub struct PlanLines {
    lines: Lines,
    left: u64,
}

impl PlanLines {
    /// Returns at most `count` more; none at the end.
    ///
    /// # Errors
    /// [`PlanError`] if the file has changed since it was checked.
    pub fn next(&mut self, count: usize) -> Result<Vec<Line>, PlanError> {
        let count = count.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut page = Vec::with_capacity(count);
        for _ in 0..count {
            let text = next_line(&mut self.lines)?.ok_or(PlanError::Truncated)?;
            let line = text.trim_end_matches(['\n', ',']);
            page.push(serde_json::from_str(line).map_err(|_| PlanError::Edited)?);
            self.left -= 1;
        }
        Ok(page)
    }
}

/// Writes a plan into an unnamed temporary file as it is made.
#[derive(Debug)]
pub struct Writer {
    out: BufWriter<File>,
    sum: Sha256,
    head: Head,
    start: u64,
    /// The previous line still needs its comma or the end of the list.
    open: bool,
}

impl Writer {
    /// Creates the file.
    pub fn new(head: Head) -> io::Result<Self> {
        let mut first = escape_json(&serde_json::to_string(&head)?);
        // The closing bracket is written at the end.
        first.pop();
        first.push_str(ENTRIES);
        let mut out = BufWriter::with_capacity(256 * 1024, tempfile::tempfile()?);
        out.write_all(first.as_bytes())?;
        let sum = Sha256::new_with_prefix(&first);
        Ok(Self { out, sum, head, start: first.len() as u64, open: false })
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Adds an entry.
    pub fn line(&mut self, line: &Line) -> Result<(), PlanError> {
        if self.open {
            self.put(b",\n")?;
        }
        // A consumer's name may hold any characters, and the file is displayed as it is.
        let text = serde_json::to_string(line).map_err(io::Error::from)?;
        self.put(escape_json(&text).as_bytes())?;
        self.open = true;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.out.write_all(bytes)
    }

    /// Completes the file.
    pub fn end(mut self, totals: Totals) -> io::Result<Plan> {
        if self.open {
            self.put(b"\n")?;
        }
        self.sum.update(totals_bytes(&totals)?);
        let digest = format!("{:x}", self.sum.clone().finalize());
        let tail = serde_json::to_string(&Tail { totals: totals.clone(), sha256: digest.clone() })?;
        let tail = tail.strip_prefix('{').unwrap_or(&tail);
        self.out.write_all(format!("{LAST}{tail}\n").as_bytes())?;
        let mut file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        let (file, start, head) = (Arc::new(file), self.start, self.head);
        Ok(Plan { file, start, digest, head, totals })
    }
}

fn totals_bytes(totals: &Totals) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(totals)?)
}

/// Reads at its own offset, so that several readers can share one file.
#[derive(Debug)]
struct At {
    file: Arc<File>,
    at: u64,
}

impl Read for At {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

type Lines = BufReader<At>;

/// Reads lines from this offset on.
fn lines_at(file: &Arc<File>, at: u64) -> Lines {
    BufReader::new(At { file: Arc::clone(file), at })
}

/// Reads one line with its end. A file with a line longer than the maximum is not a plan.
fn next_line(lines: &mut Lines) -> Result<Option<String>, PlanError> {
    let mut line = String::new();
    match lines.take(LONGEST).read_line(&mut line) {
        Ok(0) => Ok(None),
        Ok(_) if !line.ends_with('\n') && line.len() as u64 >= LONGEST => Err(PlanError::NotOne),
        Ok(_) => Ok(Some(line)),
        Err(fault) if fault.kind() == io::ErrorKind::InvalidData => Err(PlanError::NotOne),
        Err(fault) => Err(fault.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{EntryId, Millis, Verdict};

    fn entry(number: u64) -> EntryId {
        EntryId { millis: 5, number, partition: 1 }
    }

    fn plan(lines: u64) -> Plan {
        let (deployment, filter) = ("d".to_owned(), "verdict=stuck".to_owned());
        let head =
            Head { seckill_plan: 1, deployment, made: Millis(9), filter, up_to: EntryId::MAX };
        let (mut writer, mut totals) = (Writer::new(head).unwrap(), Totals::default());
        for number in 0..lines {
            let line = Line {
                entry: entry(number),
                verdict: Verdict::Stuck,
                action: Verdict::Stuck.action(),
                consumer: "node\n\"a\"/1".into(),
                idle_ms: 7,
                deliveries: 1,
                order_id: "99".parse().ok(),
                user_id: None,
                voucher_id: None,
                fault: Some("订单 }],".into()),
            };
            totals.add(&line);
            writer.line(&line).unwrap();
        }
        writer.end(totals).unwrap()
    }

    fn bytes(plan: &Plan) -> Vec<u8> {
        let mut bytes = Vec::new();
        plan.copy_to(&mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Plan, PlanError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Plan::read(file.path())
    }

    #[test]
    fn a_written_plan_is_read_in_pages() {
        for count in [0, 1, 2_500] {
            let made = plan(count);
            let json: serde_json::Value = serde_json::from_slice(&bytes(&made)).unwrap();
            assert_eq!(json["entries"].as_array().map(Vec::len), Some(count as usize));
            let back = read(&bytes(&made)).unwrap();
            assert_eq!((&back.head, &back.totals), (&made.head, &made.totals));
            let (mut lines, mut seen) = (back.lines(), Vec::new());
            loop {
                let page = lines.next(1_000).unwrap();
                if page.is_empty() {
                    break;
                }
                seen.extend(page.into_iter().map(|line| line.entry));
            }
            assert_eq!(seen, (0..count).map(entry).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_changed_or_truncated_plan_is_refused() {
        let whole = bytes(&plan(3));
        for cut in 1..whole.len() {
            let error = read(&whole[..cut]).unwrap_err();
            assert!(matches!(error, PlanError::Truncated | PlanError::NotOne), "{cut}: {error}");
        }
        let text = String::from_utf8(whole.clone()).unwrap();
        for (from, to) in [
            ("\"stuck\",\"action\"", "\"written\",\"action\""),
            ("\"entries\":3", "\"entries\":4"),
            ("\"idle_ms\":7", "\"idle_ms\":8"),
            ("verdict=stuck", "verdict=other"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = read(text.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(matches!(error, PlanError::Edited), "{error}");
        }
        let pretty: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pretty = serde_json::to_string_pretty(&pretty).unwrap();
        assert!(matches!(read(pretty.as_bytes()), Err(PlanError::NotOne)));
        assert!(matches!(read(b""), Err(PlanError::NotOne)));
        assert!(matches!(read(&vec![0xff; 200_000]), Err(PlanError::NotOne)));
        let mut more = whole;
        more.extend(b"{}\n");
        assert!(matches!(read(&more), Err(PlanError::Edited)));
        let old = text.replacen("\"seckill_plan\":1", "\"seckill_plan\":2", 1);
        assert!(matches!(read(old.as_bytes()), Err(PlanError::Version(2))));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_plan_or_an_error(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }

        #[test]
        fn a_plan_with_a_byte_of_another_value_is_no_other_plan(at: proptest::sample::Index, to: u8) {
            let made = plan(2);
            let mut changed = bytes(&made);
            let at = at.index(changed.len());
            if std::mem::replace(&mut changed[at], to) == to {
                return Ok(());
            }
            if let Ok(read) = read(&changed) {
                // A space between two values, for example.
                proptest::prop_assert_eq!((&read.head, &read.totals), (&made.head, &made.totals));
            }
        }
    }
}
