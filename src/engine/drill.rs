//! Faults on purpose, for the demo: what they leave behind is what the real ones leave.

use std::time::Duration;

use redis::cmd;

use super::EngineError;
use crate::broker::{
    Layout, Redis, scripts,
    stream::{self, ReadFrom},
};

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
    let mut taken = 0;
    for of in keys.partitions() {
        let mut beat = scripts::BEAT.prepare_invoke();
        beat.key(of.nodes()).key(of.instances()).key(of.healed()).arg(node).arg(u32::MAX);
        beat.arg("drill").arg(0).arg("take");
        let _: (i64, i64) = link.invoke(&beat).await?;
        let from = ReadFrom::New(Duration::from_millis(100));
        while taken < most {
            let want = most - taken;
            let batch = stream::read_group(&mut link, &of, &of.consumer(node), from, want).await?;
            if batch.is_empty() {
                break;
            }
            taken += batch.len();
        }
        link.query::<u64>(cmd("ZREM").arg(of.nodes()).arg(node)).await?;
    }
    Ok(taken)
}
