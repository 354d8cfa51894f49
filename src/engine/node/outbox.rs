//! Audit log lines to be written to SQL: a line that cannot be written now is kept and retried.
//!
//! The queue is bounded. A line that overflows, or that the database rejects permanently, goes to the log file in full.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use seckill_model::{Message, Millis};
use seckill_store::{ActivityFilter, AuditEntry, ENGINE, SharedStore, StoreError, Which};
use tokio::sync::Notify;

/// Capacity of the queue, and number of lost lines kept.
const MOST: usize = 1_000;
/// Timeout for writing one line.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a text: what every database accepts.
const MOST_CHARS: usize = 16_000;
/// Lines searched for the same event.
const LOOKED_AT: u32 = 200;

/// A queue shared by the tasks of a node. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    lines: Arc<Mutex<VecDeque<Line>>>,
    /// One writer at a time: lines stay in order, and none is written twice.
    writing: Arc<tokio::sync::Mutex<()>>,
    /// The newest lines that the database rejected or the queue dropped.
    lost: Arc<Mutex<VecDeque<AuditEntry>>>,
    /// A line was added.
    came: Arc<Notify>,
}

#[derive(Clone, Debug)]
struct Line {
    entry: AuditEntry,
    /// A line with the same content within this time makes this one redundant.
    near_ms: i64,
}

impl Outbox {
    /// Queues the line of a command.
    pub fn put(&self, entry: AuditEntry) {
        self.push(Line { entry, near_ms: 0 });
    }

    /// Queues a line about an automatic action of the engine on `node`.
    pub fn put_own(&self, node: &str, action: &str, subject: Message, result: Message) {
        self.put(AuditEntry {
            at: Millis::now(),
            operator: ENGINE.to_owned(),
            node: node.to_owned(),
            action: action.to_owned(),
            subject,
            result,
            ..AuditEntry::default()
        });
    }

    /// Queues an event that other nodes see as well: the first line written wins.
    pub fn put_event(&self, entry: AuditEntry, near_ms: u64) {
        self.push(Line { entry, near_ms: near_ms as i64 });
    }

    fn push(&self, mut line: Line) {
        // A write with an unknown outcome is retried, and must not create a second line.
        line.entry.once.get_or_insert_with(|| uuid::Uuid::new_v4().simple().to_string());
        let AuditEntry { subject, reason, result, .. } = &mut line.entry;
        reason.iter_mut().for_each(bound);
        for message in [subject, result] {
            message.bound(MOST_CHARS + 1, bound);
        }
        let dropped = push_bounded(&mut self.lines.lock(), line);
        self.came.notify_one();
        if let Some(Line { entry, .. }) = dropped {
            tracing::error!(
                ?entry,
                "the queue of the audit log is full; its oldest line is dropped"
            );
            push_bounded(&mut self.lost.lock(), entry);
        }
    }

    /// Lines that are only in the log file.
    pub fn lost(&self) -> Vec<AuditEntry> {
        self.lost.lock().iter().cloned().collect()
    }

    /// Waits until a line is added; returns immediately if one was added since the last call. For a single task.
    pub(crate) async fn line_came(&self) {
        self.came.notified().await;
    }

    /// Lines that are not written yet, oldest first.
    pub fn waiting(&self) -> Vec<AuditEntry> {
        self.lines.lock().iter().map(|line| line.entry.clone()).collect()
    }

    /// Writes queued lines, oldest first, until the database rejects one; returns whether all were written. Bounded by
    /// the timeout of one line.
    pub async fn write(&self, store: &SharedStore) -> bool {
        let _turn = self.writing.lock().await;
        loop {
            let Some(line) = self.lines.lock().front().cloned() else { return true };
            let entry = &line.entry;
            let result = tokio::time::timeout(WRITE_TIMEOUT, write_line(store, &line)).await;
            match result {
                Ok(Ok(())) => {}
                Ok(Err(error)) if !error.stands_for_all() && !error.is_away() => {
                    tracing::error!(%error, ?entry, "the database rejects this line of the audit log");
                    push_bounded(&mut self.lost.lock(), entry.clone());
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, action = entry.action, "cannot write the audit log; retrying");
                    return false;
                }
                Err(_) => {
                    tracing::warn!(
                        action = entry.action,
                        "writing the audit log timed out; retrying"
                    );
                    return false;
                }
            }
            let mut lines = self.lines.lock();
            // A full queue may have dropped it during the write.
            if lines.front().is_some_and(|first| first.entry.once == line.entry.once) {
                lines.pop_front();
            }
        }
    }
}

/// Adds a value to a bounded queue; returns the oldest one if the queue was full.
fn push_bounded<T>(queue: &mut VecDeque<T>, value: T) -> Option<T> {
    let dropped = if queue.len() >= MOST { queue.pop_front() } else { None };
    queue.push_back(value);
    dropped
}

/// The query before the write finds lines of other nodes; for two concurrent writes, the unique key admits one.
async fn write_line(store: &SharedStore, Line { entry, near_ms }: &Line) -> Result<(), StoreError> {
    if *near_ms > 0 {
        let filter = ActivityFilter {
            since: Some(entry.at.plus(-near_ms)),
            until: Some(Millis(entry.at.0 + near_ms + 1)),
            which: Some(Which::Events),
        };
        let near = store.activity(&filter, None, LOOKED_AT).await?;
        if near.iter().any(|it| it.action == entry.action && *it.subject == *entry.subject) {
            return Ok(());
        }
    }
    store.record(entry).await
}

/// What every database accepts: no NUL, and a limited length.
fn bound(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
    if let Some((end, _)) = text.char_indices().nth(MOST_CHARS) {
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_and_each_text_are_bounded() {
        let outbox = Outbox::default();
        for number in 0..MOST + 3 {
            outbox.put(AuditEntry { node: number.to_string(), ..AuditEntry::default() });
        }
        let waiting = outbox.waiting();
        assert_eq!((waiting.len(), waiting[0].node.as_str()), (MOST, "3"));
        assert!(waiting[0].once.is_some() && waiting[0].once != waiting[1].once);
        assert_eq!(outbox.lost().len(), 3);
        outbox.put(AuditEntry {
            result: format!("\0{}", "锅".repeat(99_999)).into(),
            ..AuditEntry::default()
        });
        let last = outbox.waiting().pop().unwrap().result;
        assert_eq!(last.chars().count(), MOST_CHARS + 1);
        assert!(!last.contains('\0') && last.ends_with('…'));
    }
}
