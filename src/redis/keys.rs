//! The names of all Redis keys. No other module formats one.

use std::{collections::HashMap, fmt::Display, sync::Arc};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use parking_lot::RwLock;

use seckill_model::{
    EntryId, OrderEntry, OrderId, Reason, ShardId, VoucherId, entry::FIELD_SHARD, sale::MAX_SHARDS,
};

use super::RedisError;

/// Maximum number of partitions: each has a stream, and every node reads all of them.
pub const MAX_PARTITIONS: u16 = MAX_SHARDS;

/// The channel of [`Layout::lock_channel`].
pub(super) const LOCK_CHANNEL: &str = "locks:events";

/// What follows the number of each partition but the first in the hash tags of a cluster, as in `{p1-316}`.
///
/// Tags without it would lie on four of eight servers. Found by a search: with the slots that `redis-cli --cluster
/// create` assigns to up to 11, or to 16, 32 or 64 servers, as many partitions lie on one server each. For powers of two
/// this is also true of any consecutive partitions, and so of the shards of a sale.
#[rustfmt::skip]
const TAG_ENDS: [u16; MAX_PARTITIONS as usize] = [
    0, 316, 290, 339, 224, 923, 988, 203, 687, 416, 787, 482, 755, 318, 188, 710,
    141, 178, 428, 570, 544, 275, 302, 613, 350, 458, 193, 622, 376, 123, 769, 464,
    239, 760, 227, 596, 656, 914, 223, 870, 447, 848, 148, 139, 483, 297, 437, 885,
    354, 575, 205, 973, 425, 310, 911, 707, 141, 539, 758, 604, 472, 116, 662, 377,
];

/// Names of keys and of the group. A value, because deployments may use different names.
///
/// A shard belongs to one partition, and all keys that a script touches share its hash tag, so the same scripts run on
/// Redis Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
    group: String,
    partitions: u16,
    cluster: bool,
    former: FormerIds,
}

/// The shards that an earlier version sold as vouchers of their own, by those IDs: entries of the streams have them. All
/// copies of a layout share them.
#[derive(Clone, Debug, Default)]
struct FormerIds(Arc<RwLock<HashMap<VoucherId, ShardId>>>);

impl FormerIds {
    fn get(&self, voucher: VoucherId) -> Option<ShardId> {
        self.0.read().get(&voucher).copied()
    }
}

impl PartialEq for FormerIds {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0.read() == *other.0.read()
    }
}

impl Eq for FormerIds {}

impl Default for Layout {
    /// One partition, `p0`, on one server.
    fn default() -> Self {
        Self::new(1, false)
    }
}

impl Layout {
    /// Returns a layout with this many partitions, at least one. On a cluster, locks and counters have a hash tag as
    /// well.
    pub fn new(partitions: u16, cluster: bool) -> Self {
        let (prefix, group) = ("seckill".to_owned(), "g1".to_owned());
        let partitions = partitions.clamp(1, MAX_PARTITIONS);
        Self { prefix, group, partitions, cluster, former: FormerIds::default() }
    }

    /// Returns the same names for a deployment whose shards had these voucher IDs in an earlier version.
    #[must_use]
    pub fn formerly(self, ids: impl IntoIterator<Item = (VoucherId, ShardId)>) -> Self {
        Self { former: FormerIds(Arc::new(RwLock::new(ids.into_iter().collect()))), ..self }
    }

    /// Adds a shard that had this voucher ID, for all copies of this layout.
    pub fn learn_former(&self, id: VoucherId, shard: ShardId) {
        self.former.0.write().insert(id, shard);
    }

    /// Number of a shard in entries of its orders. A sale that is not spread needs none, unless a shard had its ID: then 0
    /// distinguishes its entries from those of the earlier version.
    pub fn number_in_entries(&self, shard: ShardId) -> Option<u16> {
        let is_needed = shard.number > 0 || self.former.get(shard.voucher()).is_some();
        is_needed.then_some(shard.number)
    }

    /// The same with its sale, as scripts expect it that add entries: `7`, `7.3` or `7.0`.
    pub fn name_in_entries(&self, shard: ShardId) -> String {
        match self.number_in_entries(shard) {
            Some(number) => format!("{}.{number}", shard.sale),
            None => shard.to_string(),
        }
    }

    /// The shards of a partition that an earlier version sold as vouchers of their own, by those IDs.
    pub fn former_of(&self, of: &Partition) -> Vec<(VoucherId, ShardId)> {
        let all = self.former.0.read();
        let mut found: Vec<_> = all.iter().map(|(id, shard)| (*id, *shard)).collect();
        found.retain(|(_, shard)| self.number_of(*shard) == of.number);
        found.sort_unstable();
        found
    }

    /// The keys of a shard that had this voucher ID: sale, stock, buyers and tally.
    pub fn former_keys(&self, shard: ShardId, former: VoucherId) -> [String; 4] {
        let of = self.tag(self.number_of(shard));
        ["sale", "stock", "buyers", "tally"]
            .map(|what| format!("{}:{of}:{what}:{former}", self.prefix))
    }

    /// Returns the same names under another prefix.
    #[must_use]
    pub fn prefixed(self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self }
    }

    /// Number of partitions.
    pub fn count(&self) -> u16 {
        self.partitions
    }

    /// All partitions.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        let keys = self.clone();
        (0..self.partitions).map(move |number| keys.partition(number))
    }

    /// One partition.
    pub fn partition(&self, number: u16) -> Partition {
        Partition {
            prefix: format!("{}:{}", self.prefix, self.tag(number)),
            group: self.group.clone(),
            number,
            of: self.partitions,
            tag: (self.cluster || self.partitions > 1).then(|| self.tag(number)),
            former: self.former.clone(),
        }
    }

    /// The hash tag of a partition. The first is [`HOME`](super::HOME) everywhere.
    fn tag(&self, number: u16) -> String {
        match TAG_ENDS.get(usize::from(number)) {
            Some(end) if self.cluster && number > 0 => format!("{{p{number}-{end}}}"),
            _ => format!("{{p{number}}}"),
        }
    }

    /// The partition that holds deployment-wide keys.
    pub fn home(&self) -> Partition {
        self.partition(0)
    }

    /// The partition of a shard.
    pub fn partition_of(&self, shard: ShardId) -> Partition {
        self.partition(self.number_of(shard))
    }

    /// The partition that issued an order ID, unless the number of partitions has changed since.
    pub fn partition_of_order(&self, order: OrderId) -> Partition {
        // Less than the number of partitions, which fits 16 bits.
        self.partition((order.sequence() % u32::from(self.partitions)) as u16)
    }

    /// Shards of a sale follow one another.
    fn number_of(&self, shard: ShardId) -> u16 {
        // Less than the number of partitions, which fits 16 bits.
        (shard.sale.0.wrapping_add(shard.number.into()) % u64::from(self.partitions)) as u16
    }

    /// Hash of a shard: title, begin, end, state, initial, limit, version, created, seq, and the run ID of the server on which it
    /// was reconciled; what a cut or a reconciliation in progress notes; `former` is the voucher ID that it had in an earlier
    /// version.
    pub fn sale(&self, shard: ShardId) -> String {
        self.of_shard("sale", shard)
    }

    /// String: pieces left.
    pub fn stock(&self, shard: ShardId) -> String {
        self.of_shard("stock", shard)
    }

    /// Hash: place of a buyer -> order ID; `seq` as in the sale.
    pub fn buyers(&self, shard: ShardId) -> String {
        self.of_shard("buyers", shard)
    }

    /// The keys of a shard that must be consistent with one another: sale, stock, buyers.
    pub fn sale_keys(&self, shard: ShardId) -> [String; 3] {
        [self.sale(shard), self.stock(shard), self.buyers(shard)]
    }

    /// Hash: counters of admission results; the newest `version` of the sale and its `initial` stock, by which the other keys
    /// of the sale are checked.
    pub fn tally(&self, shard: ShardId) -> String {
        self.of_shard("tally", shard)
    }

    /// String: JSON of a user, while their session lasts.
    pub fn session(&self, token: impl Display) -> String {
        format!("login:token:{token}")
    }

    /// The cache entry of a voucher.
    pub fn voucher_cache(&self, voucher: VoucherId) -> CacheKeys {
        CacheKeys {
            entry: self.of_shard("cache", ShardId::only(voucher)),
            loading: self.of_shard("loading", ShardId::only(voucher)),
        }
    }

    /// The cache entry of the vouchers of a shop.
    pub fn shop_cache(&self, shop: u64) -> CacheKeys {
        let key = |what: &str| format!("{}:{{p0}}:shop-{what}:{shop}", self.prefix);
        CacheKeys { entry: key("cache"), loading: key("loading") }
    }

    /// String: the login code of a phone. All keys of the login have one hash tag: a code and its bounds are checked in one
    /// step.
    pub fn login_code(&self, phone: &str) -> String {
        format!("login:{{login}}:code:{phone}")
    }

    /// String: a phone has logged in from a network.
    pub fn login_known(&self, phone: &str, network: impl Display) -> String {
        format!("login:{{login}}:known:{phone}:{network}")
    }

    /// Hash: the pause of what `of` asks for (`codes`) or has guessed (`wrong`): a phone, a network, or both.
    pub fn login_pause(&self, what: &str, of: impl Display) -> String {
        format!("login:{{login}}:{what}:{of}")
    }

    /// String: how many codes were granted (`codes`) or wrong (`wrong`) in this minute, for a network or for all.
    pub fn login_minute(&self, what: &str, of: impl Display) -> String {
        format!("login:{{login}}:minute:{what}:{of}")
    }

    /// String: set while the number of partitions is being changed.
    pub fn changing(&self) -> String {
        format!("{}:{{p0}}:changing", self.prefix)
    }

    /// String: ID of the deployment that owns these keys, from its database.
    pub fn deployment(&self) -> String {
        format!("{}:{{p0}}:deployment", self.prefix)
    }

    /// A lock. Hash: owner -> depth, with token and acquisition time; a simple lock is a string.
    pub fn lock(&self, name: &str) -> String {
        self.of_locks(format!("lock:{name}"))
    }

    /// Sorted set: held locks -> end of their lease in ms.
    pub fn locks(&self) -> String {
        self.of_locks("locks".to_owned())
    }

    /// String: the last fencing token.
    pub fn lock_token(&self) -> String {
        self.of_locks("locks:token".to_owned())
    }

    /// Sorted set: waiters of a lock -> expiry in ms.
    pub fn lock_waiting(&self, name: &str) -> String {
        self.of_locks(format!("locks:waiting:{name}"))
    }

    /// Channel: releases of locks that have waiters, and forced releases.
    pub fn lock_channel(&self) -> String {
        LOCK_CHANNEL.to_owned()
    }

    /// Each family of keys, as the pattern with which an access list allows it, and one key of it. Those of `attach` belong
    /// to another service.
    pub fn families(&self, of: &Partition) -> Vec<(String, String)> {
        let lock = |name: &str| format!("~{}", self.of_locks(name.to_owned()));
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        vec![
            (format!("~{}:*", self.prefix), of.scratch("doctor", "string")),
            ("~icr:*".to_owned(), of.sequence(today)),
            ("~login:*".to_owned(), self.session("doctor")),
            (lock("lock:*"), self.lock("doctor")),
            (lock("locks"), self.locks()),
            (lock("locks:*"), self.lock_token()),
        ]
    }

    /// A benchmark lock: a string, separate from the locks of an engine.
    pub fn plain_lock(&self, name: &str) -> String {
        format!("{}:{{p0}}:lock:{name}", self.prefix)
    }

    /// String: number of order IDs that a benchmark issued, separate from those of an engine.
    pub fn plain_counter(&self) -> String {
        format!("{}:{{p0}}:ids", self.prefix)
    }

    /// One script takes a lock, its token and its index entry: in a cluster all locks share a slot.
    fn of_locks(&self, name: String) -> String {
        if self.cluster { format!("{{locks}}:{name}") } else { name }
    }

    fn of_shard(&self, what: &str, shard: ShardId) -> String {
        format!("{}:{}:{what}:{shard}", self.prefix, self.tag(self.number_of(shard)))
    }
}

/// Stream: entries of another program's stream that `attach` has given up.
pub fn attach_dead(stream: &str) -> String {
    format!("seckill:attach:{stream}:dead")
}

/// String: the lock of the process that recovers another program's stream.
pub fn attach_lock(stream: &str) -> String {
    format!("seckill:attach:{stream}:lock")
}

/// The keys of a cache entry, in one slot: both are strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKeys {
    /// The value as JSON.
    pub entry: String,
    /// The lock of the loader.
    pub loading: String,
}

/// One partition: its stream, its group and the nodes that work on it, all on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    prefix: String,
    group: String,
    number: u16,
    of: u16,
    /// The hash tag of its counter, which has none with a single partition on one server.
    tag: Option<String>,
    former: FormerIds,
}

impl Partition {
    /// Parses the fields of an entry. If it names no shard and the voucher is one as which an earlier version sold a shard,
    /// it has the voucher that was sold and the shard that sold it.
    pub(super) fn parse_order<'a>(
        &self,
        entry: EntryId,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<OrderEntry, Reason> {
        let order = OrderEntry::parse(entry, fields.clone())?;
        Ok(match self.former.get(order.voucher) {
            Some(sold) if !names_shard(fields) => {
                OrderEntry { voucher: sold.voucher(), shard: sold.number, ..order }
            }
            _ => order,
        })
    }

    /// The voucher that was sold, where an earlier version named one of its shards.
    pub(super) fn sold(&self, voucher: VoucherId) -> VoucherId {
        self.former.get(voucher).map_or(voucher, ShardId::voucher)
    }

    /// Number of the partition, from 0.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Parses the ID of an entry of this partition, as Redis writes it.
    pub(super) fn entry_id(&self, id: &str) -> Result<EntryId, RedisError> {
        let id: EntryId = id.parse().map_err(|_| RedisError::Reply(None))?;
        Ok(EntryId { partition: self.number, ..id })
    }

    /// Number of partitions.
    pub fn of(&self) -> u16 {
        self.of
    }

    /// Stream of admitted orders.
    pub fn orders(&self) -> String {
        format!("{}:orders", self.prefix)
    }

    /// Stream of dead letters.
    pub fn dead(&self) -> String {
        format!("{}:dead", self.prefix)
    }

    /// Sorted set: node -> last heartbeat.
    pub fn nodes(&self) -> String {
        format!("{}:nodes", self.prefix)
    }

    /// Hash: node -> process instance.
    pub fn instances(&self) -> String {
        format!("{}:instances", self.prefix)
    }

    /// Hash: node -> orders that it writes per second, as of its last heartbeat.
    pub fn rates(&self) -> String {
        format!("{}:rates", self.prefix)
    }

    /// Hash: node -> figures of its HTTP server as of its last heartbeat, as JSON; in the home partition only.
    pub fn http(&self) -> String {
        format!("{}:http", self.prefix)
    }

    /// Hash: node -> its report as of its last heartbeat, as JSON; in the home partition only.
    pub fn reports(&self) -> String {
        format!("{}:reports", self.prefix)
    }

    /// Hash: node -> run ID of the Redis server that it has reconciled.
    pub fn reconciled(&self) -> String {
        format!("{}:reconciled", self.prefix)
    }

    /// Hash: node -> the losses that it has reconciled in the last minutes, as JSON.
    pub fn losses(&self) -> String {
        format!("{}:losses", self.prefix)
    }

    /// String: the run ID of the server when the last node left, or when an embedded server was shut down: what was written
    /// before is not lost as long as this is there. A node that starts removes it.
    pub fn stopped(&self) -> String {
        format!("{}:stopped", self.prefix)
    }

    /// Sorted set: orders that were returned lately -> ms of the return. None of them is admitted again.
    pub fn returned(&self) -> String {
        format!("{}:returned", self.prefix)
    }

    /// Set: entries claimed without a body, until their orders are rebuilt.
    pub fn gone(&self) -> String {
        format!("{}:gone", self.prefix)
    }

    /// Set: entries that were delivered too often, while a consumer tries to write their order.
    pub fn trials(&self) -> String {
        format!("{}:trials", self.prefix)
    }

    /// Pattern of the keys of each sale of the partition: `sale`, `stock`, `buyers`. A single one, because each costs a
    /// scan of all keys; callers ignore other matches.
    pub fn sales(&self) -> String {
        format!("{}:[sb]*:*", glob(&self.prefix))
    }

    /// Hash: number of entries ever added to the streams (`orders`, `dead`), the last order entry (`last_orders`), the
    /// highest voucher ID and the number of leased order IDs, which reveal that one of these keys was lost or set
    /// back. Entries up to `unverified_until` are checked against the buyers before they are written.
    pub fn watermark(&self) -> String {
        format!("{}:watermark", self.prefix)
    }

    /// A key of this type, written and removed only as a write test.
    pub fn scratch(&self, name: &str, kind: &str) -> String {
        format!("{}:{name}:{kind}", self.prefix)
    }

    /// The consumer group of the order stream.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Consumer of a node in this partition: `node-1/1` reads the first one.
    pub fn consumer(&self, node: &str) -> String {
        format!("{node}/{}", self.number + 1)
    }

    /// String: number of order IDs leased on that UTC day. Each partition counts separately, so that admission needs no
    /// other server and a failover is noticed where it matters.
    pub fn sequence(&self, day: Date) -> String {
        let day = format!("icr:order:{:04}:{:02}:{:02}", day.year(), day.month(), day.day());
        match &self.tag {
            Some(tag) => format!("{day}:{tag}"),
            None => day,
        }
    }
}

/// Whether an entry with these fields names its shard.
pub(super) fn names_shard<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> bool {
    fields.into_iter().any(|(name, _)| name == FIELD_SHARD.as_bytes())
}

/// Escapes a name for use in a pattern.
fn glob(name: &str) -> String {
    name.chars().fold(String::new(), |mut pattern, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
        pattern
    })
}

/// Redis type of a key of a partition or of the locks, by its name; `None` for other keys.
pub fn type_of(key: &str) -> Option<&'static str> {
    match key.strip_prefix("{locks}:").unwrap_or(key) {
        "locks" => return Some("zset"),
        "locks:token" => return Some("string"),
        name if name.starts_with("locks:waiting:") => return Some("zset"),
        _ => {}
    }
    let (_, name) = key.split_once("}:")?;
    match name.split_once(':').map_or(name, |(kind, _)| kind) {
        "orders" | "dead" => Some("stream"),
        "nodes" | "returned" => Some("zset"),
        "gone" | "trials" => Some("set"),
        "stock" | "stopped" | "deployment" => Some("string"),
        "instances" | "reconciled" | "rates" | "http" | "reports" | "losses" | "watermark"
        | "sale" | "buyers" | "tally" => Some("hash"),
        _ => None,
    }
}

/// The node of a consumer `NODE/NUMBER`.
pub fn node_of(consumer: &str) -> &str {
    consumer.rsplit_once('/').map_or(consumer, |(node, _)| node)
}

/// The consumer under which an operator on `node` claims entries; active only while the operator's lock is held.
pub fn replay_of(node: &str) -> String {
    format!("{node}/{REPLAY}")
}

/// Whether this is such a consumer.
pub fn is_replay(consumer: &str) -> bool {
    consumer.rsplit_once('/').is_some_and(|(_, task)| task == REPLAY)
}

const REPLAY: &str = "replay";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use seckill_model::SaleId;

    use super::{
        super::routing::{SLOTS, slot_of},
        *,
    };

    #[test]
    fn key_names_match_the_design() {
        let keys = Layout::default();
        assert_eq!(keys.sale(ShardId::only(VoucherId(7))), "seckill:{p0}:sale:7");
        assert_eq!(keys.buyers(ShardId::only(VoucherId(7))), "seckill:{p0}:buyers:7");
        let third = ShardId { sale: SaleId(7), number: 3 };
        assert_eq!(keys.sale(third), "seckill:{p0}:sale:7.3");
        let former = keys.former_keys(third, VoucherId(10));
        assert_eq!(former.first().map(String::as_str), Some("seckill:{p0}:sale:10"));
        assert_eq!(keys.home().orders(), "seckill:{p0}:orders");
        assert_eq!(keys.home().sequence(Date::constant(2026, 1, 9)), "icr:order:2026:01:09");
        assert_eq!(keys.lock("a"), "lock:a");
        assert_eq!(keys.session("5f"), "login:token:5f");
        assert_eq!(keys.home().consumer("node-1"), "node-1/1");
        assert_eq!(node_of("node-1/2"), "node-1");
        assert!(is_replay(&replay_of("node-1")) && !is_replay("replay/1"));
    }

    #[test]
    fn each_key_of_a_partition_has_a_type() {
        let (keys, shard) = (Layout::default(), ShardId::only(VoucherId(7)));
        let of = keys.home();
        for (key, kind) in [
            (of.orders(), Some("stream")),
            (of.dead(), Some("stream")),
            (of.nodes(), Some("zset")),
            (of.instances(), Some("hash")),
            (of.reconciled(), Some("hash")),
            (of.gone(), Some("set")),
            (keys.sale(shard), Some("hash")),
            (keys.stock(shard), Some("string")),
            (keys.buyers(shard), Some("hash")),
            (keys.tally(shard), Some("hash")),
            (keys.lock("a"), None),
        ] {
            assert_eq!(type_of(&key), kind, "{key}");
        }
    }

    #[test]
    fn vouchers_stay_in_their_partition() {
        for (cluster, tag, lock) in
            [(false, "{p5}", "lock:a"), (true, "{p5-923}", "{locks}:lock:a")]
        {
            let keys = Layout::new(8, cluster);
            let shard = ShardId { sale: SaleId(10), number: 3 };
            let of = keys.partition_of(shard);
            assert_eq!(of, keys.partition_of(ShardId::only(VoucherId(13))));
            assert_eq!((of.number(), of.orders()), (5, format!("seckill:{tag}:orders")));
            assert_eq!(keys.stock(shard), format!("seckill:{tag}:stock:10.3"));
            assert_eq!(
                of.sequence(Date::constant(2026, 1, 9)),
                format!("icr:order:2026:01:09:{tag}")
            );
            assert_eq!(keys.lock("a"), lock);
        }
    }

    /// The server of each partition, as `redis-cli --cluster create` assigns the slots of a cluster to its primaries.
    fn servers_of(partitions: impl Iterator<Item = u16>, servers: u16) -> HashSet<u16> {
        let keys = Layout::new(MAX_PARTITIONS, true);
        let each = f64::from(SLOTS) / f64::from(servers);
        let first_of = |server: u16| (f64::from(server) * each).round() as u16;
        partitions
            .map(|number| {
                let slot = slot_of(keys.partition(number % MAX_PARTITIONS).orders());
                (0..servers).rfind(|server| first_of(*server) <= slot).unwrap()
            })
            .collect()
    }

    #[test]
    fn partitions_of_a_cluster_lie_on_a_server_each() {
        for servers in (1..=11).chain([16, 32, 64]) {
            assert_eq!(servers_of(0..servers, servers).len(), usize::from(servers), "{servers}");
        }
        for (servers, first) in [2, 4, 8, 16, 32]
            .into_iter()
            .flat_map(|n| (0..MAX_PARTITIONS).map(move |first| (n, first)))
        {
            let shards = servers_of(first..first + servers, servers);
            assert_eq!(shards.len(), usize::from(servers), "{servers} from {first}");
        }
    }
}
