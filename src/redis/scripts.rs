//! The Lua scripts, compiled in from `lua/`; the header of each documents its arguments.

use std::sync::LazyLock;

use redis::Script;

/// A script preceded by the functions of `shared`. Its shebang stays the first line.
fn with(shared: &str, script: &str) -> Script {
    let (flags, body) = script.split_once('\n').unwrap_or((script, ""));
    let shared = shared.split_once('\n').map_or("", |(_, shared)| shared);
    Script::new(&format!("{flags}\n{shared}\n{body}"))
}

fn with_integrity(script: &str) -> Script {
    with(include_str!("../../lua/integrity.lua"), script)
}

fn with_letter(script: &str) -> Script {
    with(include_str!("../../lua/letter.lua"), script)
}

fn with_moment(script: &str) -> Script {
    with(include_str!("../../lua/moment.lua"), script)
}

fn with_promise(script: &str) -> Script {
    with(include_str!("../../lua/promise.lua"), script)
}

/// The functions of both.
fn with_letter_and_promise(script: &str) -> Script {
    let (_, promise) = include_str!("../../lua/promise.lua").split_once('\n').unwrap_or_default();
    with(&format!("{}\n{promise}", include_str!("../../lua/letter.lua")), script)
}

fn with_pauses(script: &str) -> Script {
    with(include_str!("../../lua/pauses.lua"), script)
}

fn plain(script: &str) -> Script {
    Script::new(script)
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident: $make:ident($file:literal);)+) => {
        $(
            $(#[$doc])*
            pub static $name: LazyLock<Script> =
                LazyLock::new(|| $make(include_str!(concat!("../../lua/", $file))));
        )+
    };
}

scripts! {
    /// Admits a batch of buyers.
    ADMIT: with_integrity("admit.lua");
    /// Updates Redis' copy of a sale from SQL.
    SYNC_SALE: with_integrity("sync_sale.lua");
    /// Reads what Redis has of a sale, also of a damaged one.
    HELD: with_integrity("held.lua");
    /// Removes unsold pieces from a sale.
    CUT: with_integrity("cut.lua");
    /// Records that every node has restored its promises.
    RESTORED: plain("restored.lua");
    /// Renames keys of shards from an earlier version.
    RENAME_SHARDS: plain("rename_shards.lua");
    /// Restores lost buyers.
    RESTORE: with_integrity("restore.lua");
    /// Claims entries that other consumers left idle.
    AUTO_CLAIM: plain("auto_claim.lua");
    /// Claims the given entries.
    TAKE_OVER: plain("take_over.lua");
    /// Moves entries to the dead letters.
    BURY: with_letter("bury.lua");
    /// Replays dead letters into the order stream.
    REPLAY: with_integrity("replay.lua");
    /// Reads a page of the pending list.
    PENDING_PAGE: plain("pending_page.lua");
    /// Reads the given entries of the pending list.
    PENDING_ENTRIES: plain("pending_entries.lua");
    /// Fails if Redis rejects writes.
    TAKES_WRITES: plain("takes_writes.lua");
    /// Records the heartbeat of a node.
    HEARTBEAT: plain("heartbeat.lua");
    /// Records that a node leaves.
    LEAVE: plain("leave.lua");
    /// Returns the pieces of closed orders.
    GIVE_BACK: with_integrity("give_back.lua");
    /// Trims the order stream.
    TRIM: plain("trim.lua");
    /// Begins reconciling one sale.
    RECONCILE_BEGIN: with_integrity("reconcile_begin.lua");
    /// Ends reconciling one sale.
    RECONCILE_END: with_integrity("reconcile_end.lua");
    /// Looks for lost keys of a partition.
    CHECK_PARTITION: with_integrity("check_partition.lua");
    /// Reads the orders at the buyers' places of a sale.
    PROMISED: with_integrity("promised.lua");
    /// Returns which entries of the order stream need no check against the buyers.
    VERIFIED: with_integrity("verified.lua");
    /// Leases order IDs.
    LEASE_IDS: with_integrity("lease_ids.lua");
    /// Names the generation of order IDs.
    ID_GENERATION: plain("id_generation.lua");
    /// Closes the generation of order IDs.
    CLOSE_IDS: plain("close_ids.lua");
    /// Removes empty consumers of dead nodes.
    FORGET_CONSUMERS: plain("forget_consumers.lua");
    /// Moves the group back.
    REWIND: with_integrity("rewind.lua");
    /// Replaces an order stream whose IDs are ahead of the clock.
    RENEW_STREAM: with_integrity("renew_stream.lua");
    /// Renames a key of the wrong type.
    SET_ASIDE: plain("set_aside.lua");
    /// Transfers pending entries to another consumer.
    CLAIM: plain("claim.lua");
    /// Removes an empty consumer.
    REMOVE_CONSUMER: plain("remove_consumer.lua");
    /// Acquires a lock.
    LOCK_ACQUIRE: plain("lock_acquire.lua");
    /// Releases a lock.
    LOCK_RELEASE: plain("lock_release.lua");
    /// Renews many locks.
    LOCK_RENEW: plain("lock_renew.lua");
    /// Releases a simple lock.
    LOCK_RELEASE_SIMPLE: plain("lock_release_simple.lua");
    /// Grants a login code.
    LOGIN_CODE: with_pauses("login_code.lua");
    /// Checks a login code.
    LOGIN: with_pauses("login.lua");
    /// Reads fresh values from the cache.
    CACHE_READ: plain("cache_read.lua");
    /// Stores a value in the cache unless it was changed meanwhile.
    CACHE_STORE: plain("cache_store.lua");
    /// Claims an entry of another program's stream, or moves it to the dead letters of `attach`.
    ATTACH_TAKE: with_letter_and_promise("attach_take.lua");
    /// Confirms that the order of an entry of another program may be committed.
    ATTACH_CONFIRM: with_promise("attach_confirm.lua");
    /// Adds lost buyers of a sale of another program.
    ATTACH_ADD_BUYERS: plain("attach_add_buyers.lua");
    /// Reads the moment of sales of another program.
    ATTACH_MOMENT: with_moment("attach_moment.lua");
    /// Removes buyers of a sale of another program and sets its stock.
    ATTACH_REBUILD: with_moment("attach_rebuild.lua");
    /// Renews or releases the lock of `attach`.
    ATTACH_LOCK: plain("attach_lock.lua");
    /// Renews or releases the lock of a user in another program.
    ATTACH_LOCK_USER: plain("attach_lock_user.lua");
    /// Replays a dead letter of `attach` into the stream of another program.
    ATTACH_REPLAY: plain("attach_replay.lua");
    /// Marks a sale of another program as moving, and renames its stock.
    ATTACH_FENCE: plain("attach_fence.lua");
    /// Takes over the move of a sale from an earlier run.
    ATTACH_CLAIM: plain("attach_claim.lua");
    /// Gives the stock of a sale that has not moved its name again.
    ATTACH_UNFENCE: plain("attach_unfence.lua");
    /// Deletes what a sale that has moved leaves behind.
    ATTACH_FINISH: plain("attach_finish.lua");
    /// Records that a sale returns to another program.
    ATTACH_RECORD: plain("attach_record.lua");
    /// Collects the buyers of a sale that returns to another program.
    ATTACH_STAGE: plain("attach_stage.lua");
    /// Gives a sale back to another program.
    ATTACH_RETURN: plain("attach_return.lua");
    /// Reads a window of the order stream.
    ENTRIES: plain("entries.lua");
    /// Reads all figures of a Snapshot.
    STREAM_STATS: with_integrity("stream_stats.lua");
}
