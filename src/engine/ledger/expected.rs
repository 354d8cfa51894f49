//! What Redis should hold of a shard, by what SQL has.

use std::sync::Arc;

use seckill_model::{Millis, SaleShard, SaleState, ShardId, Spread};

/// A shard as SQL has it, to compare its keys in Redis with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) shard: ShardId,
    /// A different time means a different sale: SQL was rolled back, and the ID was assigned again.
    pub(crate) created: Millis,
    pub(crate) version: u64,
    pub(crate) state: SaleState,
    pub(crate) begin: Millis,
    pub(crate) end: Millis,
    pub(crate) limit: u8,
    pub(crate) initial: u64,
    pub(crate) spread: Option<Spread>,
    pub(crate) title: Arc<str>,
}

impl From<&SaleShard> for Expected {
    fn from(sale: &SaleShard) -> Self {
        Self {
            shard: sale.id,
            created: sale.created,
            version: sale.version,
            state: sale.state,
            begin: sale.begin.unwrap_or_default(),
            end: sale.end.unwrap_or_default(),
            limit: sale.limit,
            initial: sale.initial,
            spread: sale.spread,
            title: sale.title.as_str().into(),
        }
    }
}

impl Expected {
    /// What its version determines, as `check_partition.lua` expects it.
    pub(crate) fn fields(&self) -> String {
        let Self { version, state, begin, end, limit, initial, spread, title, .. } = self;
        let (state, spread) = (<&str>::from(*state), shards_of(*spread));
        let window = format!("{}:{}", begin.0, end.0);
        format!("{version}:{state}:{window}:{limit}:{initial}:{spread}:{title}")
    }
}

/// The text of the shards in Redis; empty without any.
pub(super) fn shards_of(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| spread.to_string())
}
