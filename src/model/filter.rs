//! Filters over lists: terms that must all hold, parsed from one line of input.
//!
//! Independent of the list: the values of a row are requested by field name.

use std::borrow::Cow;

use jiff::{Span, SpanRelativeTo};

use crate::{EntryId, Label, Reason, control_chars::shortened, reason};

/// Value of a field of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<'a> {
    /// A number; durations are in milliseconds.
    Number(u64),
    /// A word or sentence.
    Text(Cow<'a, str>),
    /// A stream entry ID.
    Entry(EntryId),
}

/// Type of a field, so that an invalid filter is rejected before a row is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Number,
    /// A duration: `90s`, `5m`, `250ms`, `1h30m`.
    Span,
    /// Any text; `=` matches the whole, `~` a part, both case-insensitive.
    Text,
    /// A stream entry ID.
    Entry,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A field of the rows.
pub type Field = (&'static str, Kind);

/// Terms that must all hold: `verdict=stuck,idle>30s,voucher!=7`.
///
/// An empty filter matches everything. `=`, `!=`, `<` and `>` compare; `~` and `!~` search a part of a text.
#[derive(Clone, Debug, Default, PartialEq, derive_more::Display)]
#[display("{text}")]
pub struct Filter {
    terms: Vec<Term>,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    field: &'static str,
    test: Test,
    value: Fact<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Is,
    IsNot,
    Below,
    Above,
    Holds,
    HoldsNot,
}

/// Longer ones first, because `!=` contains `=`.
const TESTS: [(&str, Test); 6] = [
    ("!=", Test::IsNot),
    ("!~", Test::HoldsNot),
    ("=", Test::Is),
    ("~", Test::Holds),
    ("<", Test::Below),
    (">", Test::Above),
];

impl Filter {
    /// Parses comma-separated terms.
    ///
    /// # Errors
    /// Why a term is invalid.
    pub fn parse(text: &str, fields: &[Field]) -> Result<Self, Reason> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let terms = words.map(|word| Term::parse(word, fields)).collect::<Result<_, _>>()?;
        Ok(Self { terms, text: text.trim().to_owned() })
    }

    /// Whether a row matches; `fact` returns its value of a field, or `None` if it has none. A missing value differs
    /// from every value.
    pub fn passes<'a>(&self, fact: impl Fn(&str) -> Option<Fact<'a>>) -> bool {
        self.terms.iter().all(|term| match fact(term.field) {
            Some(fact) => term.holds(&fact),
            None => matches!(term.test, Test::IsNot | Test::HoldsNot),
        })
    }

    /// Whether the filter is empty and matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl Term {
    fn parse(word: &str, fields: &[Field]) -> Result<Self, Reason> {
        let at = word.find(['!', '=', '~', '<', '>']);
        let found = at.and_then(|at| {
            let (name, rest) = word.split_at(at);
            let (sign, test) = TESTS.iter().find(|(sign, _)| rest.starts_with(sign))?;
            Some((name.trim(), *sign, *test, rest.get(sign.len()..)?.trim()))
        });
        let Some((name, sign, test, value)) =
            found.filter(|(name, .., value)| !name.is_empty() && !value.is_empty())
        else {
            return Err(reason!("faults-term", term = short(word)));
        };
        let Some((field, kind)) = fields.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
            let known = known.join(&Label("list-items"));
            return Err(reason!("faults-term-field", name = short(name), known));
        };
        let takes = match kind {
            Kind::Text => "= != ~ !~",
            Kind::Word(_) => "= !=",
            Kind::Number | Kind::Span | Kind::Entry => "= != < >",
        };
        if !takes.split(' ').any(|it| it == sign) {
            return Err(reason!("faults-term-test", field = *field, test = sign, takes));
        }
        let (value, takes) = match kind {
            Kind::Number => (number(value), Label("faults-takes-number")),
            Kind::Span => (span(value), Label("faults-takes-span")),
            Kind::Text => {
                (Some(Fact::Text(value.to_lowercase().into())), Label("faults-takes-text"))
            }
            Kind::Word(words) => {
                let word = value.to_lowercase().replace(' ', "_");
                if !words.contains(&word.as_str()) {
                    let (field, words) = (*field, words.join(&Label("list-items")));
                    let value = short(value);
                    return Err(reason!("faults-field-is-never-use-one", field, value, words));
                }
                (Some(Fact::Text(word.into())), Label("faults-takes-text"))
            }
            Kind::Entry => (value.parse().ok().map(Fact::Entry), Label("faults-takes-entry")),
        };
        let given = word.rsplit(sign).next().unwrap_or_default();
        let value = value.ok_or_else(|| {
            let value = short(given);
            reason!("faults-is-not-valid-for-field", field = *field, value, takes)
        })?;
        Ok(Self { field, test, value })
    }

    fn holds(&self, fact: &Fact<'_>) -> bool {
        let order = match (fact, &self.value) {
            (Fact::Number(a), Fact::Number(b)) => a.cmp(b),
            (Fact::Entry(a), Fact::Entry(b)) => a.cmp(b),
            (Fact::Text(a), Fact::Text(b)) => {
                let (a, b) = (a.to_lowercase(), b.as_ref());
                return match self.test {
                    Test::Is => a == b,
                    Test::Holds => a.contains(b),
                    Test::HoldsNot => !a.contains(b),
                    _ => a != b,
                };
            }
            _ => return false,
        };
        match self.test {
            Test::Is | Test::Holds => order.is_eq(),
            Test::IsNot | Test::HoldsNot => order.is_ne(),
            Test::Below => order.is_lt(),
            Test::Above => order.is_gt(),
        }
    }
}

fn number(text: &str) -> Option<Fact<'static>> {
    text.trim_start_matches('#').replace('_', "").parse().ok().map(Fact::Number)
}

fn span(text: &str) -> Option<Fact<'static>> {
    // A number without a unit is in seconds.
    let span: Span = text.parse().or_else(|_| format!("{text}s").parse()).ok()?;
    let span = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    u64::try_from(span.as_millis()).ok().map(Fact::Number)
}

fn short(text: &str) -> String {
    shortened(text, 40)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIELDS: &[Field] = &[
        ("idle", Kind::Span),
        ("voucher", Kind::Number),
        ("why", Kind::Text),
        ("entry", Kind::Entry),
        ("action", Kind::Word(&["process", "dead_letter"])),
    ];

    fn row(name: &str) -> Option<Fact<'static>> {
        match name {
            "idle" => Some(Fact::Number(31_000)),
            "voucher" => Some(Fact::Number(7)),
            "why" => Some(Fact::Text("Field id is missing".into())),
            _ => None,
        }
    }

    #[test]
    fn all_terms_must_hold() {
        let passes = |text: &str| Filter::parse(text, FIELDS).unwrap().passes(row);
        for text in [
            "",
            "idle>30s",
            "idle=31, voucher=#7",
            "idle<1h30m",
            "why~ID IS",
            "voucher!=8",
            "entry!=1-0",
        ] {
            assert!(passes(text), "{text}");
        }
        for text in ["idle<31", "voucher=7,idle>1h", "why=missing", "why!~missing", "entry=1-0"] {
            assert!(!passes(text), "{text}");
        }
    }

    #[test]
    fn invalid_filters_are_reported() {
        let fault = |text: &str| Filter::parse(text, FIELDS).unwrap_err().to_string();
        assert!(fault("idle").contains("'idle' is not a filter term"));
        assert!(fault("=5").contains("not a filter term"));
        assert!(fault("age=5").contains("use idle, voucher, why, entry, action"));
        assert!(fault("voucher=seven").contains("a whole number"));
        for bad in ["3 fortnights", "-5s", "2mo"] {
            assert!(fault(&format!("idle>{bad}")).contains("90s"), "{bad}");
        }
        assert!(fault("why>x").contains("= != ~ !~"));
        assert!(fault("action=proces").contains("one of process, dead_letter"));
        assert!(fault("action~pro").contains("= !="));
        assert!(fault("entry=x").contains("1795000000000-0"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_filter_or_an_error(text: String) {
            if let Err(fault) = Filter::parse(&text, FIELDS) {
                prop_assert!(fault.to_string().len() < 300);
            }
        }
    }
}
