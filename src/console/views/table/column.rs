//! Columns of a table, declared once per kind of row: cells, filter, order and export follow from them.

use seckill_model::OrderId;
use serde::Serialize;
use serde_json::Value as Json;

use crate::views::{Users, prelude::*};

/// A column with this width takes the remaining width.
pub(crate) const REST: u16 = 0;

/// The value of a cell.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Missing or unknown: last in either order, null in an export.
    Nothing,
    Number(i64),
    Text(String),
    /// A text in which the ID of this user may occur.
    Mentions(String, Option<UserId>),
    /// A name, truncated so that the state after it is not.
    Tagged(String, &'static str),
    /// A name of the model, as shown on screen and as in JSON output.
    Name(String, String),
    Sale(VoucherId),
    Entry(EntryId),
    User(UserId),
    /// Another ID; it may have more digits than a spreadsheet keeps.
    Id(i64),
    /// Milliseconds.
    Span(u64),
    /// Microseconds, in milliseconds in a file.
    Micros(u64),
    /// The time since a moment, alone or in a phrase.
    Since(Millis),
    Ago(Millis),
    /// The time until a moment, in a phrase.
    In(Millis),
    Time(Millis),
    Period(Option<Millis>, Option<Millis>),
}

impl Value {
    pub(crate) fn name(shown: String, model: &impl Serialize) -> Self {
        match serde_json::to_value(model) {
            Ok(Json::String(name)) => Self::Name(shown, name),
            _ => Self::Text(shown),
        }
    }

    /// A holder, with its state unless it is alive.
    pub(crate) fn holder(name: &str, state: Label) -> Self {
        Self::Tagged(name.to_owned(), if state == text::ALIVE { "" } else { state.read() })
    }

    /// The text of a cell; a truncated number would be misread.
    fn text(&self, scene: &Scene, cells: usize) -> String {
        match self {
            Self::Nothing => "-".to_owned(),
            Self::Number(number @ 0..) => figures::within(number.unsigned_abs(), cells),
            Self::User(user) => scene.users.number(*user),
            Self::Mentions(text, user) => scene.users.within(text, *user),
            Self::Tagged(name, "") => name.clone(),
            Self::Tagged(name, state) => {
                format!("{} {state}", fit(name, cells.saturating_sub(width(state) + 1)))
            }
            Self::Since(at) => figures::span(scene.seen().since(*at)),
            Self::Ago(at) => text!("console-ago", span = figures::span(scene.seen().since(*at))),
            Self::In(at) => text!("console-in", span = figures::span(at.since(scene.seen()))),
            Self::Time(at) => scene.at_second(*at),
            _ => self.search_text(),
        }
    }

    /// The text that a filter searches. What changes with the clock alone is excluded: rows would appear and disappear
    /// while the user reads.
    fn search_text(&self) -> String {
        match self {
            Self::Since(_)
            | Self::Ago(_)
            | Self::In(_)
            | Self::Time(_)
            | Self::Period(..)
            | Self::Nothing => String::new(),
            Self::Number(number) => figures::thousands(*number),
            Self::Text(text) | Self::Mentions(text, _) | Self::Name(text, _) => text.clone(),
            Self::Tagged(name, state) => format!("{name} {state}"),
            Self::Sale(sale) => format!("#{sale}"),
            Self::Entry(entry) => entry.to_string(),
            Self::User(user) => user.to_string(),
            Self::Id(id) => id.to_string(),
            Self::Span(millis) => figures::span(*millis),
            Self::Micros(micros) => figures::latency(*micros),
        }
    }

    fn key(&self) -> Option<Key> {
        let number = |number: i128| Some(Key::Number(number));
        match self {
            Self::Nothing => None,
            Self::Number(value) => number((*value).into()),
            Self::Text(text)
            | Self::Mentions(text, _)
            | Self::Tagged(text, _)
            | Self::Name(text, _) => Some(Key::Text(text.to_lowercase())),
            Self::Sale(sale) => number(sale.0.into()),
            Self::Entry(entry) => Some(Key::Entry(*entry)),
            Self::User(user) => number(user.0.into()),
            Self::Id(id) => number((*id).into()),
            Self::Span(value) | Self::Micros(value) => number((*value).into()),
            Self::Since(at) | Self::Ago(at) => number((-at.0).into()),
            Self::Time(at) | Self::In(at) => number(at.0.into()),
            Self::Period(begin, _) => begin.and_then(|at| number(at.0.into())),
        }
    }

    /// The value in a file: IDs are text whatever their digits, times are in UTC, spans in milliseconds.
    fn exported(&self, users: Users, now: Millis) -> Json {
        let of_text = |text: &str| match text.trim() {
            "" => Json::Null,
            text => text.into(),
        };
        match self {
            Self::Nothing | Self::Period(None, None) => Json::Null,
            Self::Number(number) => (*number).into(),
            Self::Text(text) => of_text(text),
            Self::Tagged(..) => of_text(&self.search_text()),
            Self::Mentions(text, user) => of_text(&users.within(text, *user)),
            Self::Name(_, model) => of_text(model),
            Self::Sale(sale) => sale.to_string().into(),
            Self::Entry(_) | Self::Id(_) => self.search_text().into(),
            Self::User(user) => users.number(*user).into(),
            Self::Span(millis) => (*millis).into(),
            Self::Micros(micros) => (*micros as f64 / 1e3).into(),
            Self::Since(at) => now.since(*at).into(),
            Self::Time(at) | Self::Ago(at) | Self::In(at) => at.to_string().into(),
            // ISO 8601; two dots for an open end.
            Self::Period(begin, end) => {
                let [begin, end] =
                    [begin, end].map(|at| at.map_or_else(|| "..".to_owned(), |at| at.to_string()));
                format!("{begin}/{end}").into()
            }
        }
    }
}

/// The sort key of a value.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Number(i128),
    Entry(EntryId),
    Text(String),
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

impl From<OrderId> for Value {
    fn from(order: OrderId) -> Self {
        Self::Id(order.as_i64())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

macro_rules! values {
    ($($type:ty => $variant:ident,)*) => { $(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )* };
}

values! {
    i64 => Number,
    String => Text,
    VoucherId => Sale,
    EntryId => Entry,
    UserId => User,
}

/// A column: its heading, its value, its width, and what does not follow from its value.
pub(crate) struct Column<R> {
    pub(crate) title: Label,
    /// The width of the table from which the column is shown, and its own width; `None` if it is never shown.
    widths: Option<(u16, u16)>,
    value: fn(&R) -> Value,
    key: Option<fn(&R) -> Value>,
    search: Option<fn(&R) -> String>,
    style: Option<fn(&Scene, &R) -> Style>,
    line: Option<fn(&Scene, &R, u16) -> Line<'static>>,
    when: Option<fn(&Snapshot) -> bool>,
    is_fitted: bool,
    pub(super) is_right: bool,
    in_ms: bool,
    is_exported: bool,
}

impl<R> Column<R> {
    /// A text, aligned to the left.
    pub(crate) const fn text(title: Label, widths: (u16, u16), value: fn(&R) -> Value) -> Self {
        Self {
            title,
            widths: Some(widths),
            value,
            key: None,
            search: None,
            style: None,
            line: None,
            when: None,
            is_fitted: false,
            is_right: false,
            in_ms: false,
            is_exported: true,
        }
    }

    /// A figure; heading and cells are aligned to the right.
    pub(crate) const fn figure(title: Label, widths: (u16, u16), value: fn(&R) -> Value) -> Self {
        Self { is_right: true, ..Self::text(title, widths, value) }
    }

    /// A span of time, as a figure; exports name its unit.
    pub(crate) const fn span(title: Label, widths: (u16, u16), value: fn(&R) -> Value) -> Self {
        Self { in_ms: true, ..Self::figure(title, widths, value) }
    }

    /// Searched by the filter only.
    pub(crate) const fn hidden(value: fn(&R) -> Value) -> Self {
        Self {
            widths: None,
            is_exported: false,
            ..Self::text(Label("common-empty"), (0, REST), value)
        }
    }

    /// Sorts by another value.
    pub(crate) const fn by(mut self, key: fn(&R) -> Value) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the text that a filter searches.
    pub(crate) const fn searched(mut self, search: fn(&R) -> String) -> Self {
        self.search = Some(search);
        self
    }

    pub(crate) const fn styled(mut self, style: fn(&Scene, &R) -> Style) -> Self {
        self.style = Some(style);
        self
    }

    /// For secondary values.
    pub(crate) const fn soft(self) -> Self {
        self.styled(|scene, _| scene.theme.soft)
    }

    /// Sets the content of the cell, given its width.
    pub(crate) const fn shown(mut self, line: fn(&Scene, &R, u16) -> Line<'static>) -> Self {
        self.line = Some(line);
        self
    }

    /// Widens the column to its widest text.
    pub(crate) const fn fit(mut self) -> Self {
        self.is_fitted = true;
        self
    }

    /// Shows the column only for snapshots that match.
    pub(crate) const fn when(mut self, is_useful: fn(&Snapshot) -> bool) -> Self {
        self.when = Some(is_useful);
        self
    }

    /// Excludes values that another column shows as well.
    pub(crate) const fn not_exported(mut self) -> Self {
        self.is_exported = false;
        self
    }

    pub(super) fn is_sortable(&self) -> bool {
        !self.title.is_empty()
    }

    pub(super) fn is_exported(&self, snapshot: &Snapshot) -> bool {
        self.is_exported && self.is_useful(snapshot)
    }

    fn is_useful(&self, snapshot: &Snapshot) -> bool {
        self.when.is_none_or(|is_useful| is_useful(snapshot))
    }

    /// Its width in a table of this width with these rows; `None` if it has no room.
    pub(super) fn cells(&self, scene: &Scene, rows: &[&R], room: u16) -> Option<u16> {
        let (_, cells) = self.widths.filter(|(from, _)| room >= *from)?;
        if !self.is_useful(&scene.shown) {
            return None;
        }
        let fitted = rows.iter().filter(|_| self.is_fitted);
        let widest = fitted.map(|row| width(&self.search_text(row)) as u16).max();
        Some(cells.max(widest.unwrap_or(0)))
    }

    /// The content of a cell, before it is truncated.
    pub(super) fn line(&self, scene: &Scene, row: &R, cells: u16) -> Line<'static> {
        let line = match self.line {
            Some(line) => line(scene, row, cells),
            None => Line::raw((self.value)(row).text(scene, cells.into())),
        };
        let style = self.style.map_or_else(Style::new, |style| style(scene, row));
        Line { style: style.patch(line.style), ..line }
    }

    pub(super) fn search_text(&self, row: &R) -> String {
        self.search.map_or_else(|| (self.value)(row).search_text(), |search| search(row))
    }

    pub(super) fn key(&self, row: &R) -> Option<Key> {
        self.key.unwrap_or(self.value)(row).key()
    }

    pub(super) fn exported(&self, row: &R, users: Users, now: Millis) -> Json {
        (self.value)(row).exported(users, now)
    }

    /// Its name in a file, with the unit, and with a suffix if it is masked.
    pub(super) fn file_name(&self, users: Users) -> String {
        let name = self.title.english().trim().to_lowercase().replace(' ', "_");
        match name.as_str() {
            "" => "mark".to_owned(),
            "user" if users.masked => "user_masked".to_owned(),
            _ if self.in_ms => format!("{name}_ms"),
            _ => name,
        }
    }
}
