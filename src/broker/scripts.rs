//! The scripts that Redis runs, compiled in from `lua/`; what each one takes stands in its head.

use std::sync::LazyLock;

use redis::Script;

macro_rules! script {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        pub static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("../../lua/", $file))));
    };
}

script!(
    /// Decides for a batch of buyers.
    ADMIT,
    "admit.lua"
);
script!(
    /// Brings Redis' copy of a sale up to SQL.
    SYNC_SALE,
    "sync_sale.lua"
);
script!(
    /// Puts forgotten buyers back.
    RESTORE,
    "restore.lua"
);
script!(
    /// Moves an entry to the dead letters.
    BURY,
    "bury.lua"
);
script!(
    /// Reads a page of the pending list.
    PENDING_PAGE,
    "pending_page.lua"
);
script!(
    /// A node's sign of life.
    BEAT,
    "beat.lua"
);
script!(
    /// Reads all that a Snapshot shows.
    SURVEY,
    "survey.lua"
);
