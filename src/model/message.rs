//! What a user reads: a message by its ID in the catalog, with arguments, which becomes text in the language of the reader.
//!
//! `text!("alarms-redis-unreachable", reason)` is a text; [`Label`] is a message without arguments, as a constant.

use std::{borrow::Cow, fmt, ops::Deref};

use fluent_bundle::FluentArgs;

use crate::{
    Said,
    locale::{self, Lang, language},
};

pub use crate::text;

/// A message of the catalog without arguments. It reads as text in the current language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub &'static str);

impl Label {
    /// In English, for what programs read.
    pub fn english(self) -> &'static str {
        locale::label(Lang::En, self.0)
    }

    /// In the current language.
    pub fn read(self) -> &'static str {
        locale::label(language(), self.0)
    }

    /// The same as a text of its own.
    pub fn to_owned(self) -> String {
        self.read().to_owned()
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        self.read()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.read())
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.to_owned()
    }
}

impl From<Label> for Said {
    fn from(label: Label) -> Self {
        label.read().into()
    }
}

impl From<Label> for Cow<'_, str> {
    fn from(label: Label) -> Self {
        Self::Borrowed(label.read())
    }
}

/// A message of the catalog as text in the current language; `text!` calls it.
pub fn format(id: &'static str, args: &[(&'static str, &dyn fmt::Display)]) -> String {
    let mut fluent = FluentArgs::with_capacity(args.len());
    for (name, value) in args {
        fluent.set(*name, value.to_string());
    }
    locale::format(language(), id, &fluent)
}

/// A message of the catalog as text in the current language: `text!("orders-found", count, sale = sale.id)`.
#[macro_export]
macro_rules! text {
    ($id:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::message::format($id, &[$((stringify!($name), &$crate::text!(@ $name $(, $value)?))),*])
    };
    (@ $name:ident) => { $name };
    (@ $name:ident, $value:expr) => { $value };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locale::set_thread_language;

    #[test]
    fn a_message_is_text_in_the_language_of_the_reader() {
        let stock = Label("console-stock");
        let age = || text!("common-old", age = "3 s");
        assert_eq!((stock.read(), age()), ("STOCK", "3 s old".to_owned()));
        set_thread_language(Lang::Zh);
        assert_eq!((stock.read(), stock.english()), ("库存", "STOCK"));
        assert_ne!(age(), "3 s old");
        assert_eq!(Label("no-such-message").read(), "no-such-message");
    }
}
