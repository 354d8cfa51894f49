//! The names and the order of the views.

use seckill_model::message::Label;
use strum::{IntoStaticStr, VariantArray};

/// Passes every view to a macro, in the order of the tabs: its name, and its field of `Views`.
macro_rules! with_views {
    ($define:ident) => {
        $define! {
            Overview => overview: OverviewState,
            Sales => sales: SalesState,
            Stream => stream: StreamState,
            Pending => pending: TableState<PendingLine>,
            Letters => letters: TableState<LetterLine>,
            Locks => locks: TableState<Holder>,
            Orders => orders: OrdersState,
            Jobs => jobs: TableState<JobLine>,
            Ledger => ledger: TableState<SaleAudit>,
            Activity => log: TableState<AuditEntry>,
        }
    };
}
pub(crate) use with_views;

macro_rules! name_views {
    ($($view:ident => $field:ident: $state:ty,)+) => {
        /// Which view is on the screen, with its message in the catalog.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash, IntoStaticStr, VariantArray,
        )]
        #[strum(serialize_all = "kebab-case", prefix = "view-")]
        pub(crate) enum View {
            $($view,)+
        }
    };
}

with_views!(name_views);

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
