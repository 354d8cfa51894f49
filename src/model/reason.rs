//! Why something failed, as data: a message of the catalog with its arguments, displayed in the language of the reader.

use std::{borrow::Cow, collections::BTreeMap, error::Error, fmt, path::Path};

use fluent_bundle::FluentArgs;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{
    Label,
    control_chars::one_line,
    locale::{self, Language, language},
    message,
};

pub use crate::reason;

type Id = Cow<'static, str>;

/// Why something failed. Stored and published as a message ID with arguments, never as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reason {
    /// Text of a server, a library or a user, as it is.
    Quoted(String),
    /// Several in a row.
    Joined(Vec<Reason>),
    /// A message of the catalog; [`reason!`] makes it.
    Localized {
        /// The message. A document with an unknown one is rejected: it was written by a newer version.
        #[serde(deserialize_with = "known")]
        id: Id,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        args: BTreeMap<Id, Arg>,
    },
}

/// An argument of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Arg {
    /// A number, which chooses the plural and is grouped.
    Number(i64),
    /// Text, or another message.
    Text(Reason),
}

fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    let id = String::deserialize(deserializer)?;
    // A message that the catalog lacks is shown as its ID.
    if locale::format(Language::ENGLISH, &id, &FluentArgs::new()) == id {
        return Err(D::Error::custom("unknown message"));
    }
    Ok(id.into())
}

impl Reason {
    /// A message with its arguments; `reason!` calls it.
    pub fn new<const N: usize>(id: &'static str, args: [(&'static str, Arg); N]) -> Self {
        let args = args.into_iter().map(|(name, arg)| (name.into(), arg)).collect();
        Self::Localized { id: id.into(), args }
    }

    /// Reasons with a separator between them.
    pub fn list(reasons: impl IntoIterator<Item = Self>, separator: Label) -> Self {
        let mut all = Vec::new();
        for reason in reasons {
            if !all.is_empty() {
                all.push(separator.into());
            }
            all.push(reason);
        }
        Self::Joined(all)
    }

    /// Replaces each value by the result of `replace` for its text.
    #[must_use]
    pub fn with_values(self, replace: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Localized { id, args } => {
                let replaced = |arg: Arg| match arg {
                    Arg::Number(number) => replace(&number.to_string()).into(),
                    Arg::Text(text) => replace(&text.to_string()).into(),
                };
                let args = args.into_iter().map(|(name, arg)| (name, replaced(arg))).collect();
                Self::Localized { id, args }
            }
            other => Self::Quoted(replace(&other.to_string())),
        }
    }

    /// The ID of its message, unless it is quoted.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Localized { id, .. } => Some(id),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quoted(text) => f.write_str(text),
            Self::Joined(parts) => parts.iter().try_for_each(|part| part.fmt(f)),
            Self::Localized { id, args } => {
                if let Some(text) = locale::constant(language(), id).filter(|_| args.is_empty()) {
                    return f.write_str(text);
                }
                let value = |arg: &Arg| match arg {
                    Arg::Number(number) => message::exact(*number),
                    Arg::Text(text) => one_line(&text.to_string()).into_owned().into(),
                };
                let args: FluentArgs<'_> =
                    args.iter().map(|(name, arg)| (name.as_ref(), value(arg))).collect();
                f.write_str(&locale::format(language(), id, &args))
            }
        }
    }
}

impl Error for Reason {}

impl Default for Reason {
    fn default() -> Self {
        Self::Quoted(String::new())
    }
}

impl From<Label> for Reason {
    fn from(label: Label) -> Self {
        Self::new(label.0, [])
    }
}

impl<T: Into<Reason>> From<T> for Arg {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl From<$number> for Arg {
            fn from(number: $number) -> Self {
                Self::Number(number.try_into().unwrap_or(i64::MAX))
            }
        })*
    };
}

numbers!(i64, u64, usize, u32, u16, u8);

/// Types whose values are quoted as they are displayed: texts and IDs.
macro_rules! quoted {
    ($($text:ty),*) => {
        $(impl From<$text> for $crate::Reason {
            fn from(text: $text) -> Self {
                Self::Quoted(text.to_string())
            }
        })*
    };
}
pub(crate) use quoted;

quoted!(&str, String, &String, f64);

impl From<&Path> for Reason {
    fn from(path: &Path) -> Self {
        Self::Quoted(path.display().to_string())
    }
}

/// Why something failed: a message of the catalog with its arguments.
///
/// `reason!("redis-no-master", service)`. Integers choose the plural and are grouped; other values are texts.
#[macro_export]
macro_rules! reason {
    ($id:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::Reason::new($id, [$((
            stringify!($name),
            $crate::reason::Arg::from($crate::reason!(@ $name $(, $value)?)),
        )),*])
    };
    (@ $name:ident) => { $name };
    (@ $name:ident, $value:expr) => { $value };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locale::set_thread_language;

    #[test]
    fn reasons_are_stored_as_data() {
        let inner = reason!("store-reason-too-many-connections", message = "no");
        let why = reason!("store-unknown", reason = inner);
        let stored = serde_json::to_string(&why).unwrap();
        assert!(!stored.contains(' '), "{stored}");
        let read: Reason = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, why);
        let english = read.to_string();
        set_thread_language("zh");
        assert_ne!(read.to_string(), english);
    }

    #[test]
    fn messages_of_newer_versions_are_no_reasons() {
        let read = |json: &str| serde_json::from_str::<Reason>(json);
        assert!(read(r#"{"id":"no-such-message"}"#).is_err());
        assert_eq!(read(r#""disk I/O error""#).unwrap(), Reason::from("disk I/O error"));
    }
}
