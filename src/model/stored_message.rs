//! Messages as stored and published: an English sentence with the data it was made from.
//!
//! The command line prints the sentence. Other languages are formatted from the data, never from the sentence. The type
//! of the data is known to its creator; here it is opaque.

use std::fmt;

use derive_more::{Deref, Display};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::locale::in_english;

/// A sentence with its data. In a document it is the sentence alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deref, Display, Deserialize)]
#[display("{text}")]
#[serde(from = "String")]
pub struct Message {
    #[deref(forward)]
    text: String,
    is: Option<Value>,
}

/// As stored in SQL.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    text: String,
    is: Value,
}

impl Message {
    /// From data, with its English sentence.
    pub fn of(data: &(impl Serialize + fmt::Display)) -> Self {
        Self { text: in_english(|| data.to_string()), is: serde_json::to_value(data).ok() }
    }

    /// The data, if it is of this type.
    pub fn data<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.is.as_ref()?).ok()
    }

    /// The data in the current language, if it is of this type; otherwise the sentence.
    pub fn localized<T: DeserializeOwned + fmt::Display>(&self) -> String {
        self.data::<T>().map_or_else(|| self.text.clone(), |data| data.to_string())
    }

    /// A part of the data, by its path.
    pub fn part<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        T::deserialize(self.is.as_ref()?.pointer(path)?).ok()
    }

    /// The data as JSON; `None` if it is longer than this many bytes.
    pub fn data_json(&self, most: usize) -> Option<String> {
        serde_json::to_string(self.is.as_ref()?).ok().filter(|data| data.len() <= most)
    }

    /// From a sentence and its data as untrusted JSON.
    pub fn with_data(text: String, data: &str) -> Self {
        Self { text, is: serde_json::from_str(data).ok() }
    }

    /// From SQL; rows of older versions have only a sentence.
    pub fn from_stored(stored: String) -> Self {
        match serde_json::from_str::<Stored>(&stored) {
            Ok(Stored { text, is }) => Self { text, is: Some(is) },
            Err(_) => stored.into(),
        }
    }

    /// As stored in SQL.
    pub fn stored(&self) -> String {
        let Some(is) = &self.is else { return self.text.clone() };
        let stored = Stored { text: self.text.clone(), is: is.clone() };
        serde_json::to_string(&stored).unwrap_or(stored.text)
    }

    /// Bounds the text with `text`, and the whole to this many characters: data that is too long is reduced to the name
    /// of its variant, which identifies a failure, and the text is cut further if that is too long as well.
    pub fn bound(&mut self, most: usize, text: impl FnOnce(&mut String)) {
        text(&mut self.text);
        if self.stored().chars().count() > most {
            let variant = |is: &Value| is.as_object()?.keys().next().cloned();
            self.is = self.is.as_ref().and_then(variant).map(|it| json!({ it: null }));
        }
        if let Some(excess) = self.stored().chars().count().checked_sub(most).filter(|it| *it > 0) {
            let kept = self.text.chars().count().saturating_sub(excess + 1);
            self.text = self.text.chars().take(kept).chain(['…']).collect();
        }
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self { text, is: None }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OrderError;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Closed {
        orders: u64,
    }

    impl fmt::Display for Closed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{} closed", self.orders)
        }
    }

    #[test]
    fn text_and_data_are_kept() {
        let message = Message::of(&Closed { orders: 7 });
        let read = Message::from_stored(message.stored());
        assert_eq!(read, message);
        assert_eq!((&*read, read.data()), ("7 closed", Some(Closed { orders: 7 })));
        assert_eq!(read.part::<u64>("/orders"), Some(7));
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"7 closed\"");
    }

    #[test]
    fn rows_of_older_versions_are_plain_text() {
        for text in ["7 closed", "", "{", "{\"text\":\"x\"}"] {
            let read = Message::from_stored(text.to_owned());
            assert_eq!((&*read, read.data::<Closed>()), (text, None));
            assert_eq!(read.stored(), text);
        }
    }

    #[test]
    fn data_is_stored_beside_the_text() {
        let message = Message::of(&Closed { orders: 7 });
        let beside = message.data_json(20).unwrap();
        assert_eq!(Message::with_data("7 closed".into(), &beside), message);
        assert_eq!((message.data_json(3), Message::from("x").data_json(20)), (None, None));
        assert_eq!(Message::with_data("7 closed".into(), "{orders"), Message::from("7 closed"));
    }

    #[test]
    fn long_data_is_reduced_to_its_variant() {
        let mut message = Message::of(&Closed { orders: 7 });
        message.bound(36, |_| {});
        assert_eq!(message.stored(), r#"{"text":"7 c…","is":{"orders":null}}"#);
        let mut failed = Message::of(&OrderError::Rejected("x".repeat(50)));
        failed.bound(60, |text| text.truncate(9));
        assert_eq!((failed.part("/rejected"), failed.data::<OrderError>()), (Some(()), None));
    }
}
