//! The names and the order of the views.

use seckill_model::Label;
use strum::{IntoStaticStr, VariantArray};

/// Which view is on the screen, with its message in the catalog; in the order of the tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", prefix = "view-")]
pub(crate) enum View {
    Overview,
    Sales,
    Stream,
    Pending,
    Letters,
    Locks,
    Orders,
    Jobs,
    Ledger,
    Activity,
}

impl View {
    fn message(self) -> Label {
        Label(self.into())
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
                let id: &str = other.into();
                id.strip_prefix("view-").unwrap_or(id)
            }
        }
    }

    pub(crate) fn beside(self, forward: bool) -> Self {
        let all = Self::VARIANTS;
        let by = if forward { 1 } else { all.len() - 1 };
        all[(self as usize + by) % all.len()]
    }
}
