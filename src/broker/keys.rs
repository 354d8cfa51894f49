//! The names of every key in Redis. Nothing else formats one.

use jiff::civil::Date;

use crate::model::VoucherId;

/// Names of keys and of the group. A value, since another deployment may use other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
    group: String,
}

impl Default for Layout {
    /// One partition, `p0`; its hash tag keeps all that one script touches in one slot.
    fn default() -> Self {
        Self { prefix: "seckill:{p0}".to_owned(), group: "g1".to_owned() }
    }
}

impl Layout {
    /// Hash: title, begin, end, state, initial, version.
    pub fn sale(&self, voucher: VoucherId) -> String {
        self.of_voucher("sale", voucher)
    }

    /// String: pieces left.
    pub fn stock(&self, voucher: VoucherId) -> String {
        self.of_voucher("stock", voucher)
    }

    /// Hash: user id -> order id.
    pub fn buyers(&self, voucher: VoucherId) -> String {
        self.of_voucher("buyers", voucher)
    }

    /// Hash: how admission answered, counted.
    pub fn tally(&self, voucher: VoucherId) -> String {
        self.of_voucher("tally", voucher)
    }

    /// Stream of admitted orders.
    pub fn orders(&self) -> String {
        format!("{}:orders", self.prefix)
    }

    /// Stream of dead letters.
    pub fn dead(&self) -> String {
        format!("{}:dead", self.prefix)
    }

    /// Sorted set: node -> its last sign of life.
    pub fn nodes(&self) -> String {
        format!("{}:nodes", self.prefix)
    }

    /// Hash: node -> the run of the Redis server that it has made whole.
    pub fn healed(&self) -> String {
        format!("{}:healed", self.prefix)
    }

    /// The consumer group of the order stream.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// String: how many order ids were leased on that UTC day.
    pub fn sequence(&self, day: Date) -> String {
        format!("icr:order:{:04}:{:02}:{:02}", day.year(), day.month(), day.day())
    }

    /// A lock. Hash: owner -> depth, with its token and since when; a simple one is a string.
    pub fn lock(&self, name: &str) -> String {
        format!("lock:{name}")
    }

    /// Sorted set: locks that are held -> end of their lease in ms.
    pub fn locks(&self) -> String {
        "locks".to_owned()
    }

    /// String: the last fencing token.
    pub fn lock_token(&self) -> String {
        "locks:token".to_owned()
    }

    /// Sorted set: who waits for a lock -> until when that counts, in ms.
    pub fn lock_waiting(&self, name: &str) -> String {
        format!("locks:waiting:{name}")
    }

    /// Channel: releases of locks for which somebody waits, and locks taken from their owner.
    pub fn lock_channel(&self) -> String {
        "locks:events".to_owned()
    }

    fn of_voucher(&self, what: &str, voucher: VoucherId) -> String {
        format!("{}:{what}:{voucher}", self.prefix)
    }
}

/// The node that a consumer `NODE/NUMBER` belongs to.
pub fn node_of(consumer: &str) -> &str {
    consumer.rsplit_once('/').map_or(consumer, |(node, _)| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_design() {
        let keys = Layout::default();
        assert_eq!(keys.sale(VoucherId(7)), "seckill:{p0}:sale:7");
        assert_eq!(keys.buyers(VoucherId(7)), "seckill:{p0}:buyers:7");
        assert_eq!(keys.orders(), "seckill:{p0}:orders");
        assert_eq!(keys.sequence(Date::constant(2026, 1, 9)), "icr:order:2026:01:09");
        assert_eq!(node_of("node-1/2"), "node-1");
    }
}
