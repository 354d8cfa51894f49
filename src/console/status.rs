//! The status line: why a key had no effect, the outcome of a command, an error.

use seckill_model::Millis;

/// Milliseconds that a note stays if no key is pressed.
const STAYS_MS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Note,
    Good,
    /// Done, with a caveat.
    Mixed,
    Failure,
}

/// Notes expire; errors stay until they are dismissed.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// A note, and since when it is shown.
    note: Option<(Tone, String, Millis)>,
    /// The last key dismissed a note.
    pub(super) took_note: bool,
    failures: Vec<String>,
}

impl Status {
    pub(crate) fn note(&mut self, tone: Tone, text: impl Into<String>, now: Millis) {
        self.note = Some((tone, text.into(), now));
    }

    pub(crate) fn failure(&mut self, text: String) {
        // The note states that it is running, which is no longer true.
        self.note = None;
        self.failures.push(text);
    }

    /// The next key dismisses a note.
    pub(crate) fn key_pressed(&mut self) {
        self.took_note = self.note.take().is_some();
    }

    /// Dismisses the newest error; returns whether there was one.
    pub(crate) fn dismiss(&mut self) -> bool {
        self.failures.pop().is_some()
    }

    /// The operator started another command, and so has read earlier errors. What the console does by itself, such as a
    /// launch, does not count.
    pub(crate) fn begin(&mut self) {
        self.failures.clear();
    }

    /// Returns whether a note expired.
    pub(crate) fn expire(&mut self, now: Millis) -> bool {
        self.note.take_if(|(.., since)| now.since(*since) >= STAYS_MS).is_some()
    }

    /// The visible message, and the number of errors beneath it.
    pub(crate) fn shown(&self) -> Option<(Tone, &str, usize)> {
        if let Some((tone, text, _)) = &self.note {
            return Some((*tone, text, 0));
        }
        let (newest, rest) = self.failures.split_last()?;
        Some((Tone::Failure, newest, rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_expire_and_errors_stay() {
        let mut status = Status::default();
        status.failure("one".into());
        status.failure("two".into());
        status.note(Tone::Note, "why", Millis(0));
        assert_eq!(status.shown(), Some((Tone::Note, "why", 0)));
        assert!(!status.expire(Millis(9_999)) && status.expire(Millis(10_000)));
        assert_eq!(status.shown(), Some((Tone::Failure, "two", 1)));
        status.key_pressed();
        assert!(status.dismiss() && status.dismiss() && !status.dismiss());
        assert_eq!(status.shown(), None);
    }
}
