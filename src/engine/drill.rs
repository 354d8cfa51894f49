//! Faults on purpose, for the demo: what they leave behind is what the real ones leave.

use redis::cmd;

use super::EngineError;
use crate::{
    broker::{
        Layout, Redis, scripts,
        stream::{self, ReadFrom},
    },
    model::EntryId,
};
use std::time::Duration;

/// A node that takes a batch of entries and dies before it writes or acknowledges one of them.
/// Its last sign of life is made old at once, so that nobody has to wait until it counts as dead.
///
/// Returns how many entries it took with it.
pub async fn die_with_batch(
    redis: &Redis,
    keys: &Layout,
    node: &str,
    most: usize,
) -> Result<usize, EngineError> {
    let mut link = redis.link();
    let mut beat = scripts::BEAT.prepare_invoke();
    beat.key(keys.nodes()).arg(node).arg(u32::MAX);
    let _: i64 = link.invoke(&beat).await?;
    let from = ReadFrom::New(Duration::from_millis(100));
    let mut taken: Vec<EntryId> = Vec::new();
    while taken.len() < most {
        let want = most - taken.len();
        let batch = stream::read_group(&mut link, keys, &format!("{node}/1"), from, want).await?;
        if batch.is_empty() {
            break;
        }
        taken.extend(batch.iter().map(|delivered| delivered.entry));
    }
    link.query::<u64>(cmd("ZREM").arg(keys.nodes()).arg(node)).await?;
    Ok(taken.len())
}
