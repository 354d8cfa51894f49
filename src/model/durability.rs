//! Durability: what a failure may lose, derived from the configuration of the servers.
//!
//! The rules are those of the table in assets/durability.md. Power losses and database commits are described by the
//! servers' documentation; the rest is proven by the tests named in the table.

use serde::{Serialize, Serializer};

use crate::Label;

/// When Redis writes an acknowledged command to disk; later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Append {
    /// Before it replies.
    Always,
    /// Once a second.
    EverySecond,
    /// When the operating system decides.
    Late,
    /// Never: there is no append-only file.
    Off,
}

impl Append {
    /// Derives it from `appendonly` and `appendfsync`.
    pub fn read(appendonly: &str, appendfsync: &str) -> Self {
        match (appendonly, appendfsync) {
            ("yes", "always") => Self::Always,
            ("yes", "everysec") => Self::EverySecond,
            ("yes", _) => Self::Late,
            _ => Self::Off,
        }
    }
}

/// Where an order is when the database has committed it; later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Commit {
    /// On disk.
    Flushed,
    /// In the page cache, which survives the database but not a power loss.
    Written,
    /// In the database's memory, for up to a second.
    Kept,
    /// Undefined: a power loss may damage the files.
    Unsafe,
}

impl Commit {
    /// Derives the weakest guarantee from the settings of a database; `None` if none of them is known.
    pub fn read(settings: &[(String, String)]) -> Option<Self> {
        let all = settings.iter().filter_map(|(name, value)| Self::by(name, value));
        all.max()
    }

    fn by(name: &str, value: &str) -> Option<Self> {
        Some(match (name, value.to_lowercase().as_str()) {
            ("synchronous", "full" | "extra")
            | ("innodb_flush_log_at_trx_commit", "1" | "3")
            | ("synchronous_commit", "on" | "local" | "remote_write" | "remote_apply") => {
                Self::Flushed
            }
            ("synchronous", "normal") | ("innodb_flush_log_at_trx_commit", "2") => Self::Written,
            ("innodb_flush_log_at_trx_commit", _) | ("synchronous_commit", "off") => Self::Kept,
            ("synchronous", _)
            | ("fsync" | "full_page_writes", "off")
            | ("innodb_doublewrite", "0" | "off") => Self::Unsafe,
            _ => return None,
        })
    }
}

/// Configuration of the servers, as far as it is readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Redis' append-only file; `None` if the settings are not readable.
    pub append: Option<Append>,
    /// Redis runs on the host of its nodes and shares their power supply.
    pub one_host: bool,
    /// Sentinels or a cluster promote a replica if the primary fails.
    pub takeover: bool,
    /// Replicas connected to each primary.
    pub replicas: u32,
    /// Replicas that must confirm an admission before the buyer gets a reply.
    pub wait_replicas: u32,
    /// Where the database has a committed order; `None` if the settings are not readable.
    pub commit: Option<Commit>,
}

/// What a failure may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", prefix = "durability-")]
#[derive(derive_more::Display)]
#[display("{}", Label((*self).into()))]
pub enum Cost {
    /// Nothing.
    Nothing,
    /// Nothing while the nodes that admitted the buyers live.
    PutBack,
    /// What was not in SQL yet, except the admissions of the last 30 s, which the nodes restore.
    Waiting,
    /// The last seconds of what was not in SQL yet.
    LastSeconds,
    /// The last half minute of what was not in SQL yet.
    HalfMinute,
    /// Everything that was not in SQL yet.
    Undelivered,
    /// What the failed primary had not replicated, unless it is restored.
    Unsent,
    /// Nothing, provided that the replica which confirmed it is the one promoted.
    Confirmed,
    /// Only time, because no replica is promoted.
    Standstill,
    /// Only time, unless something behind the address promotes a replica.
    Unmanaged,
    /// The last commits, which Redis still has.
    LastCommits,
    /// The database itself.
    Damage,
    /// Unknown: the settings are not readable.
    Unknown,
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Label((*self).into()).english())
    }
}

/// What each failure may lose: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Survival {
    /// A node is killed (kill -9).
    pub node_killed: Cost,
    /// Redis is killed.
    pub redis_killed: Cost,
    /// Both are killed at once.
    pub both_killed: Cost,
    /// The host of Redis loses power.
    pub redis_power_loss: Cost,
    /// The database is killed; for SQLite, its node.
    pub database_killed: Cost,
    /// The host of the database loses power.
    pub database_power_loss: Cost,
    /// A replica is promoted after the Redis primary failed.
    pub failover: Cost,
}

impl Setup {
    /// The row of the table.
    pub fn survival(&self) -> Survival {
        let of_redis = |always, everysec, late, off| match self.append {
            Some(Append::Always) => always,
            Some(Append::EverySecond) => everysec,
            Some(Append::Late) => late,
            Some(Append::Off) => off,
            None => Cost::Unknown,
        };
        // Unwritten data is lost with Redis; which other copies exist depends on what survives.
        let alone = of_redis(Cost::Nothing, Cost::PutBack, Cost::PutBack, Cost::Waiting);
        let both = of_redis(Cost::Nothing, Cost::LastSeconds, Cost::LastSeconds, Cost::Undelivered);
        let power = match self.append {
            Some(Append::Late) => Cost::HalfMinute,
            _ if self.one_host => both,
            _ => alone,
        };
        let failover = match self.wait_replicas {
            _ if !self.takeover && self.one_host => Cost::Standstill,
            0 if !self.takeover => Cost::Unmanaged,
            0 => Cost::Unsent,
            _ => Cost::Confirmed,
        };
        let of_sql = |written, kept, unsure| match self.commit {
            Some(Commit::Flushed) => Cost::Nothing,
            Some(Commit::Written) => written,
            Some(Commit::Kept) => kept,
            Some(Commit::Unsafe) => unsure,
            None => Cost::Unknown,
        };
        Survival {
            node_killed: Cost::Nothing,
            redis_killed: alone,
            both_killed: both,
            redis_power_loss: if self.takeover { failover } else { power },
            database_killed: of_sql(Cost::Nothing, Cost::LastCommits, Cost::LastCommits),
            database_power_loss: of_sql(Cost::LastCommits, Cost::LastCommits, Cost::Damage),
            failover,
        }
    }

    /// Whether more replicas must confirm than are connected: then no buyer gets a reply.
    pub fn waits_in_vain(&self) -> bool {
        self.wait_replicas > self.replicas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The embedded servers.
    const OWN: Setup = Setup {
        append: Some(Append::EverySecond),
        one_host: true,
        takeover: false,
        replicas: 0,
        wait_replicas: 0,
        commit: Some(Commit::Flushed),
    };

    #[test]
    fn redis_costs_match_the_table() {
        use Cost::{
            HalfMinute, LastSeconds, Nothing, PutBack, Standstill, Undelivered, Unknown, Waiting,
        };
        // Redis alone, both, power with the nodes' host, power of a separate host.
        let lines = [
            (Some(Append::Always), [Nothing, Nothing, Nothing, Nothing]),
            (Some(Append::EverySecond), [PutBack, LastSeconds, LastSeconds, PutBack]),
            (Some(Append::Late), [PutBack, LastSeconds, HalfMinute, HalfMinute]),
            (Some(Append::Off), [Waiting, Undelivered, Undelivered, Waiting]),
            (None, [Unknown; 4]),
        ];
        for (append, costs) in lines {
            let here = Setup { append, ..OWN }.survival();
            let apart = Setup { append, one_host: false, ..OWN }.survival();
            let actual = [
                here.redis_killed,
                here.both_killed,
                here.redis_power_loss,
                apart.redis_power_loss,
            ];
            assert_eq!(actual, costs, "{append:?}");
            assert_eq!((here.node_killed, here.failover), (Nothing, Standstill));
        }
    }

    #[test]
    fn failover_cost_depends_on_the_promoted_replica() {
        let led = Setup { takeover: true, one_host: false, replicas: 1, ..OWN };
        assert_eq!(led.survival().failover, Cost::Unsent);
        assert_eq!(led.survival().redis_power_loss, Cost::Unsent);
        let waiting = Setup { wait_replicas: 1, ..led };
        assert_eq!(waiting.survival().failover, Cost::Confirmed);
        assert!(!waiting.waits_in_vain());
        assert!(Setup { wait_replicas: 2, ..led }.waits_in_vain());
        assert_eq!(Setup { wait_replicas: 1, ..OWN }.survival().failover, Cost::Standstill);
        // A URL does not show whether a proxy or an operator promotes a replica.
        let one = Setup { takeover: false, ..led };
        assert_eq!(one.survival().failover, Cost::Unmanaged);
        assert_eq!(Setup { wait_replicas: 1, ..one }.survival().failover, Cost::Confirmed);
    }

    #[test]
    fn database_costs_match_the_table() {
        let read = |settings: &[(&str, &str)]| {
            let settings: Vec<_> =
                settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let line = Setup { commit: Commit::read(&settings), ..OWN }.survival();
            (line.database_killed, line.database_power_loss)
        };
        let (nothing, last) = (Cost::Nothing, Cost::LastCommits);
        assert_eq!(read(&[("journal_mode", "wal"), ("synchronous", "full")]), (nothing, nothing));
        assert_eq!(read(&[("synchronous", "normal")]), (nothing, last));
        assert_eq!(read(&[("synchronous", "off")]), (last, Cost::Damage));
        let flush =
            |value| read(&[("innodb_flush_log_at_trx_commit", value), ("sync_binlog", "0")]);
        assert_eq!(flush("1"), (nothing, nothing));
        assert_eq!(flush("2"), (nothing, last));
        assert_eq!(flush("0"), (last, last));
        let commit = |value| read(&[("fsync", "on"), ("synchronous_commit", value)]);
        assert_eq!(commit("on"), (nothing, nothing));
        assert_eq!(commit("off"), (last, last));
        let unsafe_one = read(&[("fsync", "off"), ("synchronous_commit", "on")]);
        assert_eq!(unsafe_one, (last, Cost::Damage));
        assert_eq!(read(&[("page_size", "4096")]), (Cost::Unknown, Cost::Unknown));
    }
}
