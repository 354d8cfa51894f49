//! Fields of a sale in Redis that another program changes under the running nodes.

use redis::cmd;
use seckill_engine::{EngineError, commands::Command, ledger};
use seckill_model::{ShardId, VoucherId, ledger::Finding};

use super::{
    plan::{Change, Field, Plan},
    stage::{self, until},
    world::World,
};

/// Changes a field. Another sale behind these keys is resolved by the operator.
pub async fn change(world: &World, shard: ShardId, field: Field, to: Change) -> Result<(), String> {
    let (key, name) = (world.keys.sale(shard), format!("{field:?}").to_lowercase());
    let mut redis = stage::connection(world);
    let now: i64 = cmd("HGET").arg(&key).arg(&name).query(&mut redis).unwrap_or(0);
    let other = match field {
        Field::State => "ended".to_owned(),
        Field::Begin => "9999999999999".to_owned(),
        Field::End => "1".to_owned(),
        Field::Limit => "5".to_owned(),
        Field::Last => "0-1".to_owned(),
        Field::Run | Field::Title => "another".to_owned(),
        Field::Shard => "999/9".to_owned(),
        Field::Initial => (now + 7).to_string(),
        Field::Version | Field::Seq | Field::Created => (now + 1_000).to_string(),
    };
    let change = match to {
        Change::Deleted => cmd("HDEL").arg(&key).arg(&name).take(),
        Change::Text => cmd("HSET").arg(&key).arg(&name).arg("no such value").take(),
        Change::Other => cmd("HSET").arg(&key).arg(&name).arg(other).take(),
    };
    // An earlier fault may have replaced the key.
    let _ = change.query::<u64>(&mut redis);
    if field != Field::Created {
        return Ok(());
    }
    until("the operator resolves another sale", async || {
        let Ok(audit) = ledger::audit(&mut world.servers(), None).await else { return false };
        if audit.findings().any(|it| matches!(it.what, Finding::OtherSale)) {
            let _ = stage::repair(world).await;
            return false;
        }
        true
    })
    .await
}

/// A change by an operator reaches a sale whose fields were changed. If Redis `is_ahead` by the version that another program
/// wrote, the change is refused until SQL has adopted the sale.
pub async fn takes_changes(
    world: &World,
    plan: &Plan,
    vouchers: &[VoucherId],
    is_ahead: bool,
) -> Result<(), String> {
    for voucher in vouchers {
        let restock = || world.execute(Command::Restock { voucher: *voucher, by: 2 });
        let mut done = restock().await;
        if is_ahead && matches!(done, Err(EngineError::SqlBehind(_))) {
            stage::agreed(world).await?;
            stage::repair(world).await?;
            done = restock().await;
        }
        done.map_err(|error| format!("restock of #{voucher}: {error}"))?;
        for shard in plan.shards_of(*voucher) {
            let key = world.keys.sale(shard);
            let held: (i64, i64) = cmd("HMGET")
                .arg(key)
                .arg(&["version", "initial"])
                .query(&mut stage::connection(world))
                .unwrap();
            let sale = world.store.shard(shard).await.map_err(|error| error.to_string())?;
            if held != (sale.version as i64, sale.initial as i64) {
                return Err(format!(
                    "{shard:?} has {held:?} in Redis after a change, and {sale:?}"
                ));
            }
        }
    }
    Ok(())
}
