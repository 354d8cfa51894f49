//! The scripts that Redis runs, compiled in from `lua/`; what each one takes stands in its head.

use std::sync::LazyLock;

use redis::Script;

/// Functions that several scripts share.
const INTEGRITY: &str = include_str!("../../lua/integrity.lua");

/// A script behind [`INTEGRITY`]. Its first line, which says how Redis runs it, stays the first.
fn with_integrity(script: &str) -> Script {
    let (flags, body) = script.split_once('\n').unwrap_or((script, ""));
    let shared = INTEGRITY.split_once('\n').map_or("", |(_, shared)| shared);
    Script::new(&format!("{flags}\n{shared}\n{body}"))
}

macro_rules! script {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        pub static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("../../lua/", $file))));
    };
    ($(#[$doc:meta])* $name:ident, $file:literal, with_integrity) => {
        $(#[$doc])*
        pub static $name: LazyLock<Script> =
            LazyLock::new(|| with_integrity(include_str!(concat!("../../lua/", $file))));
    };
}

script!(
    /// Decides for a batch of buyers.
    ADMIT,
    "admit.lua",
    with_integrity
);
script!(
    /// Brings Redis' copy of a sale up to SQL.
    SYNC_SALE,
    "sync_sale.lua",
    with_integrity
);
script!(
    /// Takes unsold pieces out of a sale.
    CUT,
    "cut.lua",
    with_integrity
);
script!(
    /// Puts forgotten buyers back.
    RESTORE,
    "restore.lua",
    with_integrity
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
    "replay.lua",
    with_integrity
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
    /// Refused where Redis takes no writes.
    TAKES_WRITES,
    "takes_writes.lua"
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
    "give_back.lua",
    with_integrity
);
script!(
    /// Trims the order stream.
    TRIM,
    "trim.lua"
);
script!(
    /// Begins to reconcile one sale.
    RECONCILE_BEGIN,
    "reconcile_begin.lua",
    with_integrity
);
script!(
    /// Ends the reconciling of one sale.
    RECONCILE_END,
    "reconcile_end.lua",
    with_integrity
);
script!(
    /// Looks for lost keys of a partition.
    CHECK_PARTITION,
    "check_partition.lua",
    with_integrity
);
script!(
    /// Reads which orders the places of a sale hold.
    PROMISED,
    "promised.lua",
    with_integrity
);
script!(
    /// Which entries of the order stream need no check against the buyers.
    VERIFIED,
    "verified.lua",
    with_integrity
);
script!(
    /// Leases numbers for order ids.
    LEASE_IDS,
    "lease_ids.lua",
    with_integrity
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
    /// Replaces an order stream that left the clock behind.
    RENEW_STREAM,
    "renew_stream.lua",
    with_integrity
);
script!(
    /// Renames a key of another type.
    SET_ASIDE,
    "set_aside.lua"
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
    "survey.lua",
    with_integrity
);
