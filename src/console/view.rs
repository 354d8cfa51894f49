//! The views by name.

use seckill_model::Label;
use strum::{EnumProperty, IntoStaticStr, VariantArray};

/// A view of the console, in the order of the tabs, with the key that opens it. Its message is `view-…` in the catalog.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash, EnumProperty, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case", prefix = "view-")]
pub(crate) enum View {
    #[strum(props(key = "1"))]
    Overview,
    #[strum(props(key = "2"))]
    Sales,
    #[strum(props(key = "3"))]
    Stream,
    #[strum(props(key = "4"))]
    Pending,
    #[strum(props(key = "5"))]
    Letters,
    #[strum(props(key = "6"))]
    Locks,
    #[strum(props(key = "7"))]
    Orders,
    #[strum(props(key = "8"))]
    Jobs,
    #[strum(props(key = "9"))]
    Ledger,
    #[strum(props(key = "0"))]
    Activity,
    #[strum(props(key = "s"))]
    Http,
    #[strum(props(key = "e"))]
    Lab,
    /// It has no key: only `seckill attach` opens it, and no other view beside it.
    Attach,
}

impl View {
    /// Its message in the catalog.
    pub(crate) fn message(self) -> Label {
        Label(self.into())
    }

    /// The key that opens it, unless the settings say otherwise.
    pub(crate) fn key(self) -> &'static str {
        self.get_str("key").unwrap_or_default()
    }

    /// Its name as a heading.
    pub(crate) fn title(self) -> &'static str {
        self.message().read()
    }

    /// Its name on the tab line.
    pub(crate) fn tab(self) -> &'static str {
        self.message().attribute("tab").unwrap_or_else(|| self.title())
    }

    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Letters => "dead",
            other => {
                let Label(id) = other.message();
                id.strip_prefix("view-").unwrap_or(id)
            }
        }
    }

    /// The views of a console with an engine.
    pub(crate) fn of_engine() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied().filter(|it| *it != Self::Attach)
    }

    pub(crate) fn beside(self, forward: bool) -> Self {
        let all: Vec<_> = Self::of_engine().collect();
        let by = if forward { 1 } else { all.len() - 1 };
        all[(self as usize + by) % all.len()]
    }
}
