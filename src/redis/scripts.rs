//! The Lua scripts, compiled in from `lua/`; the header of each documents its arguments.

use std::sync::LazyLock;

use redis::Script;

/// Functions shared by several scripts.
const INTEGRITY: &str = include_str!("../../lua/integrity.lua");

/// A script preceded by [`INTEGRITY`]. Its shebang stays the first line.
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
    /// Admits a batch of buyers.
    ADMIT,
    "admit.lua",
    with_integrity
);
script!(
    /// Updates Redis' copy of a sale from SQL.
    SYNC_SALE,
    "sync_sale.lua",
    with_integrity
);
script!(
    /// Removes unsold pieces from a sale.
    CUT,
    "cut.lua",
    with_integrity
);
script!(
    /// Restores lost buyers.
    RESTORE,
    "restore.lua",
    with_integrity
);
script!(
    /// Claims entries that other consumers left idle.
    AUTO_CLAIM,
    "auto_claim.lua"
);
script!(
    /// Claims the given entries.
    TAKE_OVER,
    "take_over.lua"
);
script!(
    /// Moves entries to the dead letters.
    BURY,
    "bury.lua"
);
script!(
    /// Replays dead letters into the order stream.
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
    /// Reads the given entries of the pending list.
    PENDING_ENTRIES,
    "pending_entries.lua"
);
script!(
    /// Fails if Redis rejects writes.
    TAKES_WRITES,
    "takes_writes.lua"
);
script!(
    /// Records the heartbeat of a node.
    BEAT,
    "beat.lua"
);
script!(
    /// Records that a node leaves.
    LEAVE,
    "leave.lua"
);
script!(
    /// Returns the pieces of closed orders.
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
    /// Begins reconciling one sale.
    RECONCILE_BEGIN,
    "reconcile_begin.lua",
    with_integrity
);
script!(
    /// Ends reconciling one sale.
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
    /// Reads the orders in the buyer slots of a sale.
    PROMISED,
    "promised.lua",
    with_integrity
);
script!(
    /// Returns which entries of the order stream need no check against the buyers.
    VERIFIED,
    "verified.lua",
    with_integrity
);
script!(
    /// Leases order IDs.
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
    /// Replaces an order stream whose IDs are ahead of the clock.
    RENEW_STREAM,
    "renew_stream.lua",
    with_integrity
);
script!(
    /// Renames a key of the wrong type.
    SET_ASIDE,
    "set_aside.lua"
);
script!(
    /// Transfers pending entries to another consumer.
    CLAIM,
    "claim.lua"
);
script!(
    /// Removes an empty consumer.
    REMOVE_CONSUMER,
    "remove_consumer.lua"
);
script!(
    /// Acquires a lock.
    LOCK_ACQUIRE,
    "lock_acquire.lua"
);
script!(
    /// Releases a lock.
    LOCK_RELEASE,
    "lock_release.lua"
);
script!(
    /// Renews many locks.
    LOCK_RENEW,
    "lock_renew.lua"
);
script!(
    /// Releases a simple lock.
    LOCK_RELEASE_SIMPLE,
    "lock_release_simple.lua"
);
script!(
    /// Reads a window of the order stream.
    ENTRIES,
    "entries.lua"
);
script!(
    /// Reads all figures of a Snapshot.
    STREAM_STATS,
    "stream_stats.lua",
    with_integrity
);
