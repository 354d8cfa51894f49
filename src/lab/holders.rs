//! The holders of locks: the requests that an incident happens to, and how it happens.
//!
//! A process of its own serves them, before all others. As soon as each of them holds its lock, the incident happens, and
//! the other instances begin.

use std::time::Duration;

use seckill_redis::Redis;
use tokio::time::timeout;

use crate::{
    Incident, Result,
    fleet::Fleet,
    meeting::{Meeting, Reached},
    parent::{Reply, Served},
    shop::Shop,
    stalls::Timing,
    trace::{Action, Instant, Saw, Step},
    work::Work,
};

/// The step of a holder whose server was replaced.
pub(crate) const FAILOVER: &str = "REPLICAOF NO ONE";
/// Serves all requests. An incident happens as soon as each holder has its lock, and the other requests follow.
pub(crate) async fn serve(fleet: &mut Fleet, shop: &mut Shop, work: &Work) -> Result<Vec<Served>> {
    let incident = work.holder_incident();
    let held = fleet.hold().await?;
    let begun = Instant::now();
    let (mut happened, mut paused) = (None, None);
    match incident.filter(|_| !held.is_empty()) {
        Some(Incident::HolderPauses) => {
            paused = fleet.pause_holder()?;
            happened = Some((Action::Incident, "SIGSTOP"));
        }
        Some(Incident::HolderDies) => {
            fleet.kill_holder().await;
            happened = Some((Action::Killed, "SIGKILL"));
        }
        Some(Incident::Failover) => {
            shop.fail_over().await?;
            happened = Some((Action::Incident, FAILOVER));
        }
        // A holder stalls by itself.
        _ => {}
    }
    let ended = Instant::now();
    fleet.go().await?;
    if paused.is_some() {
        // As long as a stall that begins when the locks are taken.
        let taken = held.iter().flat_map(|it| &it.steps).filter(|it| it.action == Action::Acquire);
        let taken = taken.map(|it| it.ended).max().unwrap_or(ended);
        let since = Duration::from_nanos(Instant::now().since(taken));
        let rest = Timing::of(incident).stall.saturating_sub(since);
        // Or until each lock is that of the second request of its user.
        let _ = timeout(rest, second_holders(shop, &held)).await;
        drop(paused);
    }
    let mut served = fleet.served().await?;
    if incident == Some(Incident::HolderDies) {
        served.extend(held.iter().cloned());
    }
    if let Some((action, what)) = happened {
        // It is a step of each request that it happened to.
        let is_holder = |it: &&mut Served| held.iter().any(|held| held.lane() == it.lane());
        for served in served.iter_mut().filter(is_holder) {
            let (what, values, saw) = (what.into(), Vec::new(), Saw::default());
            let step = served.steps.first().cloned();
            let step = step.map(|it| Step { action, what, values, saw, begun, ended, ..it });
            served.steps.extend(step);
        }
    }
    Ok(served)
}

/// Waits until the second request of each user whose holder stalls has the lock, and stalls as well.
async fn second_holders(shop: &Shop, held: &[Served]) -> Result<()> {
    let redis = Redis::from_url(&shop.redis_url())?;
    let stalls = |it: &&Served| matches!(it.reply, Reply::Failed(_));
    let users: Vec<i64> = held.iter().filter(stalls).map(|it| it.user).collect();
    if users.is_empty() {
        return std::future::pending().await;
    }
    for user in users {
        Meeting::new(&redis, user).until(Reached::Stall).await;
    }
    Ok(())
}
