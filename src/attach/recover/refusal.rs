//! Whether an error of the database is about an order, about its sale, or about the database.
//!
//! No error code decides that: a trigger of the service raises what it likes, for one user or for all. What else the
//! database accepts decides it. Only an order that is rejected again and again while others of its sale are accepted
//! becomes a dead letter, and only for a reply to it; one that the database did not process waits for the next run.

use std::{
    collections::BTreeMap,
    mem,
    time::{Duration, Instant},
};

use seckill_model::{OrderError, OrderId, UserId, Verdict, VoucherId, in_english};
use seckill_redis::{Connection, scripts};
use seckill_store::{StoreError, plain::PlainConnection};

use super::{
    Buyer, EntryPlan, Newest, Order, Recovery, Run,
    lease::{Lease, USER_LEASE},
    promise_of,
    rows::{Confirmed, Facts, Placed, is_outage, place, try_write},
};
use crate::{AttachError, Profile, Result, marks::mark_of};

/// Orders of other entries that are tried beside one that the database has rejected.
const TRIED: usize = 3;
/// How far the users are away for whom a like order is tried.
const NEAR: [u64; 3] = [1, 1_000, 1_000_000];
/// How often an order is rejected while others are accepted, before it is at fault.
const PROOFS: u32 = 2;
/// Tries that the database did not process, and no other between them, after which it is the database.
const OUTAGES: u32 = 2;
/// How long tries of one order may take: its user is locked meanwhile.
const LONGEST: Duration = Duration::from_secs(10);

/// What came of an order.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Written, written before, or not an order.
    Judged(Verdict, Option<OrderError>),
    /// The service has given the piece back.
    NotPromised,
    /// The lock of its user was lost.
    Locked,
    /// Its sale moves or has moved to an engine.
    Moved,
    /// The database did not process it, for this reason, and accepts others of the sale.
    Later(String),
    /// The database accepts no order of its sale, for this reason.
    SaleRefused(String),
}

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blame {
    Order,
    Sale,
    Database,
}

/// Whether the database has accepted one of some orders.
#[derive(Debug)]
enum Tried {
    Accepted,
    /// Not one of them, for this reason.
    Refused(AttachError),
    /// None of them may be written anyway.
    Nothing,
}

impl Run<'_> {
    /// Finds the sales of which the database accepts no order, before an entry of them is taken.
    pub(super) async fn try_sales(
        &mut self,
        conn: &mut PlainConnection,
        entries: &[EntryPlan],
    ) -> Result<()> {
        let mut sales: BTreeMap<VoucherId, Order> = BTreeMap::new();
        for order in entries.iter().filter_map(EntryPlan::order) {
            sales.entry(order.voucher).or_insert(order);
        }
        let (mut is_accepted, mut outage) = (false, None);
        for (voucher, order) in sales {
            match self.try_sale(conn, order, true).await? {
                Tried::Accepted => is_accepted = true,
                Tried::Nothing => {}
                // It would be the same for each of them.
                Tried::Refused(error) if is_outage(&error) && !is_accepted && outage.is_some() => {
                    return Err(error);
                }
                Tried::Refused(error) => {
                    self.rejected.insert(voucher, why(&error));
                    if is_outage(&error) {
                        outage = Some(error);
                    }
                }
            }
        }
        outage.filter(|_| !is_accepted).map_or(Ok(()), Err)
    }

    /// Writes the order of an entry, or finds out why that is not possible.
    pub(super) async fn settle(
        &mut self,
        conn: &mut PlainConnection,
        planned: &EntryPlan,
        order: Order,
    ) -> Result<Outcome> {
        let (started, mut proofs) = (Instant::now(), 0);
        if planned.buyer == Buyer::MaybeMoved {
            // It could not be written when it was planned. If it could be by now, it may be sold by an engine as well.
            let profile = &self.recovery.profile;
            let facts = Facts::read(&self.database, conn, profile, &[order]).await?;
            return Ok(match facts.judge(&Ok(order)) {
                (Verdict::Stuck, _) => Outcome::Moved,
                (verdict, other) => Outcome::Judged(verdict, other),
            });
        }
        if let Some(fault @ OrderError::BoughtAgain { .. }) = &planned.fault {
            let profile = &self.recovery.profile;
            let facts = Facts::read(&self.database, conn, profile, &[order]).await?;
            return Ok(match facts.judge(&Ok(order)) {
                (Verdict::Stuck, _) => Outcome::Judged(Verdict::Refused, Some(fault.clone())),
                (verdict, other) => Outcome::Judged(verdict, other),
            });
        }
        loop {
            let lock = self.lock_of(planned);
            let Recovery { conn: redis, profile, .. } = &mut *self.recovery;
            let confirmed = Confirm {
                redis,
                profile,
                lease: self.lease,
                lock,
                newest: &mut self.newest,
                planned,
                order,
            };
            let confirmed = confirmed.read();
            let error = match place(&self.database, conn, profile, order, confirmed).await {
                Ok(Placed::NotConfirmed(Confirmed::LockLost)) => return Ok(Outcome::Locked),
                Ok(Placed::NotConfirmed(Confirmed::Moved)) => return Ok(Outcome::Moved),
                Ok(Placed::NotConfirmed(_)) => return Ok(Outcome::NotPromised),
                Ok(Placed::Judged(Verdict::Refused, fault)) if planned.order().is_some() => {
                    // It was not so when it was planned.
                    return Ok(match self.blame(conn, order, None).await? {
                        Blame::Order => Outcome::Judged(Verdict::Refused, fault),
                        _ => Outcome::SaleRefused(
                            fault.map_or_else(String::new, |it| in_english(|| it.to_string())),
                        ),
                    });
                }
                Ok(Placed::Judged(verdict, fault)) => return Ok(Outcome::Judged(verdict, fault)),
                Err(error) => error,
            };
            // The one is not the database, and the other may yet become a row.
            if matches!(error, AttachError::Redis(_) | AttachError::Store(StoreError::Unknown(_))) {
                return Err(error);
            }
            let why = why(&error);
            match self.blame(conn, order, Some(&error)).await? {
                Blame::Database => return Err(error),
                Blame::Sale => return Ok(Outcome::SaleRefused(why)),
                Blame::Order if is_outage(&error) || started.elapsed() > LONGEST => {
                    return Ok(Outcome::Later(why));
                }
                Blame::Order if proofs + 1 < PROOFS => proofs += 1,
                Blame::Order => {
                    return Ok(Outcome::Judged(Verdict::Refused, Some(OrderError::Rejected(why))));
                }
            }
        }
    }

    /// What is at fault if an order was not accepted, with this error or for what SQL has: the order, if the database
    /// accepts another one of its sale; the sale, if it accepts one of another sale.
    async fn blame(
        &mut self,
        conn: &mut PlainConnection,
        order: Order,
        error: Option<&AttachError>,
    ) -> Result<Blame> {
        if error.is_some_and(is_outage) {
            self.reconnect(conn).await?;
        }
        if let Tried::Accepted = self.try_sale(conn, order, false).await? {
            return Ok(Blame::Order);
        }
        if !error.is_some_and(is_outage) {
            // Orders of other sales are tried when it is their turn.
            return Ok(Blame::Sale);
        }
        let others = self.plan.entries.iter().filter_map(EntryPlan::order);
        let others: BTreeMap<VoucherId, Order> =
            others.filter(|it| it.voucher != order.voucher).map(|it| (it.voucher, it)).collect();
        let others: Vec<Order> = others.into_values().take(TRIED).collect();
        Ok(match self.try_orders(conn, &others).await? {
            Tried::Accepted => Blame::Sale,
            _ => Blame::Database,
        })
    }

    /// Whether the database accepts an order of a sale: of planned entries, or like this one for other users; without
    /// `itself`, another order than this one.
    async fn try_sale(
        &mut self,
        conn: &mut PlainConnection,
        like: Order,
        itself: bool,
    ) -> Result<Tried> {
        let planned = self.plan.entries.iter().filter_map(EntryPlan::order);
        let planned = planned.filter(|it| it.voucher == like.voucher && it.user != like.user);
        let others = planned.take(TRIED).chain(like_for_others(like));
        let orders: Vec<Order> = itself.then_some(like).into_iter().chain(others).collect();
        self.try_orders(conn, &orders).await
    }

    async fn try_orders(&mut self, conn: &mut PlainConnection, orders: &[Order]) -> Result<Tried> {
        let (mut tried, mut outages) = (Tried::Nothing, 0);
        for order in orders {
            self.lease.renew(&mut self.recovery.conn).await?;
            match try_write(&self.database, conn, &self.recovery.profile, *order).await {
                Ok(true) => return Ok(Tried::Accepted),
                Ok(false) => {}
                Err(error) => {
                    let is_outage = is_outage(&error);
                    // The first one is the one that was asked for.
                    if matches!(tried, Tried::Nothing) {
                        tried = Tried::Refused(error);
                    }
                    if is_outage {
                        self.reconnect(conn).await?;
                    }
                    outages = if is_outage { outages + 1 } else { 0 };
                    if outages == OUTAGES {
                        break;
                    }
                }
            }
        }
        Ok(tried)
    }

    /// Replaces a connection that may be in the middle of a statement.
    async fn reconnect(&self, conn: &mut PlainConnection) -> Result<()> {
        let other = self.database.connection().await?;
        mem::replace(conn, other).abandon();
        Ok(())
    }
}

/// What is confirmed about an order before its commit, because the transaction may have waited for the database.
struct Confirm<'c> {
    redis: &'c mut Connection,
    profile: &'c Profile,
    lease: &'c Lease,
    lock: Option<String>,
    newest: &'c mut Newest,
    planned: &'c EntryPlan,
    order: Order,
}

impl Confirm<'_> {
    async fn read(self) -> Result<Confirmed> {
        let Self { redis, profile, lease, lock, newest, planned, order } = self;
        // A second recovery must not have begun either.
        lease.renew(redis).await?;
        loop {
            if newest.replaced(&planned.entry, &order).is_some() {
                return Ok(Confirmed::NotPromised);
            }
            let mut confirm = scripts::ATTACH_CONFIRM.prepare_invoke();
            confirm.key(&profile.stream.key).key(profile.stock(order.voucher));
            confirm.key(profile.buyers(order.voucher)).key(mark_of(profile, order.voucher));
            if let Some(lock) = &lock {
                confirm.key(lock);
            }
            confirm.arg(lease.owner()).arg(USER_LEASE.as_millis() as u64);
            let without_stock = planned.buyer == Buyer::LostSale;
            confirm.arg(&promise_of(profile, Some(&order), without_stock, newest));
            match redis.invoke::<u8>(&confirm).await? {
                1 => return Ok(Confirmed::Yes),
                2 => newest.read_on(redis, profile).await?,
                0 => return Ok(Confirmed::LockLost),
                5 => return Ok(Confirmed::Moved),
                _ => return Ok(Confirmed::NotPromised),
            };
        }
    }
}

/// The cause; stored text has no language.
fn why(error: &AttachError) -> String {
    in_english(|| match error {
        AttachError::Store(StoreError::Locked) => error.to_string(),
        AttachError::Store(error) => error.clone().reason().to_string(),
        other => other.to_string(),
    })
}

/// Orders like this one for users near this one, with an ID that a counter of the day does not reach.
fn like_for_others(order: Order) -> impl Iterator<Item = Order> {
    let id = OrderId::from_i64(order.id.as_i64() | 0xffff_ffff);
    NEAR.iter().filter_map(move |near| {
        let user = UserId(order.user.0.checked_add(*near)?);
        Some(Order { id: id?, user, ..order })
    })
}
