//! Dead letters for display: classified, and bounded because received data may be of any size.
//!
//! Reads one page and changes nothing.

use seckill_model::{EntryId, Message, Millis, OrderError, dead_letter::shown};

use super::{ClassifiedLetter, Letters};
use crate::EngineError;
use crate::telemetry::snapshot::{LetterLine, LetterPage};

/// Letters per page.
const LINES: usize = 100;
/// Fields per letter, and characters per name and value.
const FIELDS: usize = 24;
const NAME: usize = 40;
const VALUE: usize = 240;
/// The field with earlier failures, displayed separately.
const HISTORY: &str = "history";

impl Letters {
    /// Returns a page for a screen, starting at this letter.
    pub async fn screen_page(&mut self, from: EntryId) -> Result<LetterPage, EngineError> {
        let taken = self.servers.conn.now().await?;
        // Reads one extra letter to detect whether more follow.
        let letters = self.page(from, EntryId::MAX, LINES + 1).await?;
        let lines = letters.iter().map(|letter| LetterLine::of(letter, taken)).collect();
        Ok(LetterPage::of(from, taken, lines, LINES))
    }
}

impl LetterLine {
    /// Makes the line of a letter at `now`.
    pub fn of(classified: &ClassifiedLetter, now: Millis) -> Self {
        let ClassifiedLetter { letter, verdict, .. } = classified;
        let order = letter.order;
        let text = |raw: &[u8], most: usize| {
            // A character has at most four bytes; one extra character marks a truncated value.
            let cut = raw.get(..(most + 1) * 4).unwrap_or(raw);
            shown(&String::from_utf8_lossy(cut), most)
        };
        let fields = letter.body.iter().filter(|(name, _)| name.as_slice() != HISTORY.as_bytes());
        let payload: Vec<(String, String)> = fields
            .clone()
            .take(FIELDS)
            .map(|(name, value)| (text(name, NAME), text(value, VALUE)))
            .collect();
        Self {
            letter: letter.letter,
            entry: letter.entry,
            at: letter.at,
            age_ms: now.since(letter.at),
            reason: letter.reason.clone(),
            consumer: letter.consumer.clone(),
            deliveries: letter.deliveries,
            replays: letter.replays,
            order: order.map(|order| order.order),
            user: order.map(|order| order.user),
            voucher: order.map(|order| order.voucher),
            fault: letter.fault.clone().map(|fault| Message::of(&OrderError::Fields(fault))),
            verdict: *verdict,
            history: letter.history(),
            fields_more: fields.count().saturating_sub(payload.len()),
            payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{LetterVerdict, reason};
    use seckill_redis::dead_letters::DeadLetter;

    #[test]
    fn received_data_is_bounded_and_free_of_control_characters() {
        let field = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let mut body = vec![
            field("history", r#"[1,"n/1",1,"x",null]"#),
            field("a\x1b[2J", &"火".repeat(100_000)),
        ];
        body.extend((0..60).map(|number| field(&number.to_string(), "v")));
        body.push((vec![0xff, 0xfe], vec![0xff; 1_000]));
        let letter = DeadLetter {
            letter: EntryId::MIN,
            entry: None,
            reason: "why".into(),
            consumer: String::new(),
            deliveries: 3,
            at: Millis(1_000),
            replays: 0,
            earlier: Vec::new(),
            order: None,
            fault: Some(reason!("faults-field-missing", field = "userId")),
            body,
        };
        let classified = ClassifiedLetter {
            letter,
            verdict: LetterVerdict::Malformed,
            row: None,
            another: None,
        };
        let line = LetterLine::of(&classified, Millis(43_000));
        assert_eq!((line.age_ms, line.history.len()), (42_000, 1));
        assert_eq!((line.payload.len(), line.fields_more), (FIELDS, 62 - FIELDS));
        let (name, value) = &line.payload[0];
        assert_eq!((name.as_str(), value.chars().count()), ("a·[2J", VALUE + 1));
        assert!(value.ends_with('…'));
    }
}
