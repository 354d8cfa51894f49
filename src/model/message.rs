//! Localized messages: an ID in the catalog with arguments, formatted in the current language.
//!
//! `text!("outcome-duplicate", order)` is a text; [`Label`] is a message without arguments, as a constant.

use std::{borrow::Cow, fmt, ops::Deref};

use fluent_bundle::{FluentArgs, FluentValue};

use crate::{
    Message,
    control_chars::one_line,
    locale::{self, Language, group_digits, language},
};

pub use crate::text;

/// A message of the catalog without arguments. Displays itself in the current language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub &'static str);

impl Label {
    /// In English, for what programs read.
    pub fn english(self) -> &'static str {
        locale::label(Language::ENGLISH, self.0)
    }

    /// In the current language.
    pub fn read(self) -> &'static str {
        locale::label(language(), self.0)
    }

    /// An attribute of the message in the current language, if it has one of that name.
    pub fn attribute(self, name: &str) -> Option<&'static str> {
        locale::attribute(language(), self.0, name)
    }

    /// As an owned string.
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

impl From<Label> for Message {
    fn from(label: Label) -> Self {
        label.read().into()
    }
}

impl From<Label> for Cow<'_, str> {
    fn from(label: Label) -> Self {
        Self::Borrowed(label.read())
    }
}

/// An argument of a message. `text!` chooses between [`Count`] and [`Quote`] by the type of the value.
#[derive(Debug)]
pub struct Argument<'a, T: ?Sized>(pub &'a T);

/// A number: the catalog chooses singular or plural by it, and it is shown with grouped digits.
pub trait Count {
    /// The value as a Fluent argument.
    fn value(&self) -> FluentValue<'static>;
}

/// Anything else, formatted with its Display, as part of one line: it may be untrusted.
pub trait Quote {
    /// The value as a Fluent argument.
    fn value(&self) -> FluentValue<'static>;
}

/// A number, or its digits if it would be rounded: the numbers of Fluent are floats.
pub(crate) fn exact(number: impl TryInto<i64> + ToString + Copy) -> FluentValue<'static> {
    match number.try_into() {
        Ok(small) if small.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS => small.into(),
        _ => group_digits(&number.to_string()).into(),
    }
}

macro_rules! counts {
    ($($number:ty),*) => { $(
        impl Count for Argument<'_, $number> {
            fn value(&self) -> FluentValue<'static> {
                exact(*self.0)
            }
        }
        impl Count for Argument<'_, &$number> {
            fn value(&self) -> FluentValue<'static> {
                exact(**self.0)
            }
        }
    )* };
}

counts!(u8, u16, u32, u64, usize, i32, i64);

// One more reference than the impl for `Count`, so that the macro's method call prefers `Count` for numbers.
impl<T: fmt::Display + ?Sized> Quote for &Argument<'_, T> {
    fn value(&self) -> FluentValue<'static> {
        one_line(&self.0.to_string()).into_owned().into()
    }
}

/// Several lines of text as an argument: each line is one already.
#[derive(Debug)]
pub struct Lines<T>(pub T);

impl<T: fmt::Display> Count for Argument<'_, Lines<T>> {
    fn value(&self) -> FluentValue<'static> {
        self.0.0.to_string().into()
    }
}

/// A message of the catalog as text in the current language; `text!` calls it.
pub fn format<const N: usize>(
    id: &'static str,
    args: [(&'static str, FluentValue<'static>); N],
) -> String {
    locale::format(language(), id, &FluentArgs::from_iter(args))
}

/// A message of the catalog as text in the current language: `text!("outcome-duplicate", order = held.id)`.
///
/// Integers select the plural (`{ $count -> [one] an order *[other] { $count } orders }`) and are formatted as `1,234`.
/// Identifiers, such as a port or a year, are passed as text.
#[macro_export]
macro_rules! text {
    ($id:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::message::format($id, [$((stringify!($name), {
            #[allow(unused_imports)]
            use $crate::message::{Count as _, Quote as _};
            (&$crate::message::Argument(&$crate::text!(@ $name $(, $value)?))).value()
        })),*])
    };
    (@ $name:ident) => { $name };
    (@ $name:ident, $value:expr) => { $value };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locale::set_thread_language;

    #[test]
    fn numbers_choose_the_plural_and_are_grouped() {
        let stopped = |rushes: u64| text!("common-entries", count = rushes);
        assert_eq!((stopped(1), stopped(12_345)), ("1 entry".into(), "12,345 entries".into()));
        assert_eq!(text!("common-old", age = 1_234_567_i64), "1,234,567 old");
        assert_eq!(text!("common-old", age = -1_234_i64), "-1,234 old");
        assert_eq!(text!("common-old", age = i64::MAX), "9,223,372,036,854,775,807 old");
        assert_eq!(text!("common-old", age = i64::MIN), "-9,223,372,036,854,775,808 old");
    }

    #[test]
    fn messages_use_the_current_language() {
        let stock = Label("console-stock");
        let age = || text!("common-old", age = "3 s");
        assert_eq!((stock.read(), age()), ("STOCK", "3 s old".to_owned()));
        set_thread_language("zh");
        assert_eq!((stock.read(), stock.english()), ("库存", "STOCK"));
        assert_ne!(age(), "3 s old");
        assert_eq!(Label("no-such-message").read(), "no-such-message");
    }
}
