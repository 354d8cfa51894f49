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
    /// Takes unsold pieces out of a sale.
    CUT,
    "cut.lua"
);
script!(
    /// Puts forgotten buyers back.
    RESTORE,
    "restore.lua"
);
script!(
    /// Takes over what other consumers have left lying.
    AUTO_CLAIM,
    "auto_claim.lua"
);
script!(
    /// Takes named entries over.
    TAKE_OVER,
    "take_over.lua"
);
script!(
    /// Moves entries to the dead letters.
    BURY,
    "bury.lua"
);
script!(
    /// Puts dead letters back into the order stream.
    REPLAY,
    "replay.lua"
);
script!(
    /// Reads a page of the pending list.
    PENDING_PAGE,
    "pending_page.lua"
);
script!(
    /// Reads these entries of the pending list.
    PENDING_ENTRIES,
    "pending_entries.lua"
);
script!(
    /// A node's sign of life.
    BEAT,
    "beat.lua"
);
script!(
    /// A node gives its name back.
    LEAVE,
    "leave.lua"
);
script!(
    /// Gives pieces of closed orders back.
    GIVE_BACK,
    "give_back.lua"
);
script!(
    /// Trims the order stream.
    TRIM,
    "trim.lua"
);
script!(
    /// Counts a sale's stock anew.
    RECOUNT,
    "recount.lua"
);
script!(
    /// Removes empty consumers of dead nodes.
    FORGET_CONSUMERS,
    "forget_consumers.lua"
);
script!(
    /// Moves the group back.
    REWIND,
    "rewind.lua"
);
script!(
    /// Gives pending entries to another consumer.
    CLAIM,
    "claim.lua"
);
script!(
    /// Removes an empty consumer.
    REMOVE_CONSUMER,
    "remove_consumer.lua"
);
script!(
    /// Takes a lock.
    LOCK_ACQUIRE,
    "lock_acquire.lua"
);
script!(
    /// Gives a lock back.
    LOCK_RELEASE,
    "lock_release.lua"
);
script!(
    /// Renews many locks.
    LOCK_RENEW,
    "lock_renew.lua"
);
script!(
    /// Gives a simple lock back.
    LOCK_RELEASE_SIMPLE,
    "lock_release_simple.lua"
);
script!(
    /// Reads a window of the order stream.
    ENTRIES,
    "entries.lua"
);
script!(
    /// Reads all that a Snapshot shows.
    SURVEY,
    "survey.lua"
);
