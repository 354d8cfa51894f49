//! The newest entry of a user in a sale: the one that counts, wherever it waits.
//!
//! A service admits a user in one step: it adds the user to the buyers, unless the user is one already, and an entry to the
//! stream. So between two entries of one user it has given a piece back, or Redis has lost the buyer; and what it has
//! replied last, and what the user in the set stands for, is the order of the newer one. This holds for entries that are
//! pending, undelivered or passed, and for those that are added after the plan. An entry that the service has deleted from
//! the stream cannot be seen.

use std::collections::{HashMap, HashSet};

use seckill_model::{OrderError, OrderId, UserId, VoucherId};
use seckill_redis::Connection;

use super::rows::{Order, order_of};
use crate::{
    Profile, Result,
    stream::{self, entry_order},
};

/// Entries of one step.
const PAGE: usize = 1_000;

/// The newest entries of some users, up to one entry of the stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Newest {
    /// All up to this one were read.
    seen: String,
    of: HashMap<(VoucherId, UserId), Option<(String, OrderId)>>,
}

impl Newest {
    /// Reads those of the users of these orders, from the first of their entries on.
    pub(crate) async fn read<'e>(
        conn: &mut Connection,
        profile: &Profile,
        entries: impl Iterator<Item = (&'e str, Order)> + Clone,
    ) -> Result<Self> {
        let first = entries.clone().map(|(entry, _)| entry_order(entry)).min();
        // Without an entry, there is nothing to compare.
        let Some((millis, number)) = first else { return Ok(Self::default()) };
        // The one before it.
        let seen = match (millis, number) {
            (millis, 1..) => format!("{millis}-{}", number - 1),
            (millis, 0) => format!("{}-{}", millis.saturating_sub(1), u64::MAX),
        };
        let of = entries.map(|(_, order)| ((order.voucher, order.user), None)).collect();
        let mut newest = Self { seen, of };
        newest.read_on(conn, profile).await?;
        Ok(newest)
    }

    /// Reads those of these users that are newer than this entry; returns them with the number of entries read.
    pub(super) async fn after(
        conn: &mut Connection,
        profile: &Profile,
        entry: &str,
        users: impl Iterator<Item = (VoucherId, UserId)>,
    ) -> Result<(Self, u64)> {
        let mut newest =
            Self { seen: entry.to_owned(), of: users.map(|user| (user, None)).collect() };
        let read = newest.read_on(conn, profile).await?;
        Ok((newest, read))
    }

    /// Reads on to the end of the stream; returns the number of entries.
    pub(super) async fn read_on(
        &mut self,
        conn: &mut Connection,
        profile: &Profile,
    ) -> Result<u64> {
        let mut read = 0;
        loop {
            let page = stream::entries_after(conn, profile, &self.seen, PAGE).await?;
            let (is_last, count) = (page.len() < PAGE, page.len() as u64);
            read += count;
            for (id, fields) in page {
                if let Ok(order) = order_of(profile, Some(&fields))
                    && let Some(newest) = self.of.get_mut(&(order.voucher, order.user))
                {
                    *newest = Some((id.clone(), order.id));
                }
                self.seen = id;
            }
            if is_last {
                return Ok(read);
            }
        }
    }

    /// Those of these users whose newest entry is none of these.
    pub(super) fn users_beyond(
        &self,
        known: &HashSet<String>,
    ) -> impl Iterator<Item = (VoucherId, String)> {
        let others = self
            .of
            .iter()
            .filter(|(_, newest)| newest.as_ref().is_some_and(|(entry, _)| !known.contains(entry)));
        others.map(|((voucher, user), _)| (*voucher, user.to_string()))
    }

    /// The last entry that was read.
    pub(super) fn seen(&self) -> &str {
        &self.seen
    }

    /// Whether one of these users has an entry among those that were read.
    pub(super) fn has(&self, voucher: VoucherId, user: UserId) -> bool {
        self.of.get(&(voucher, user)).is_some_and(Option::is_some)
    }

    /// Why the order of this entry counts no more: its user has bought again. An entry that was added twice is one order.
    pub(crate) fn replaced(&self, entry: &str, order: &Order) -> Option<OrderError> {
        let (newest, by) = self.of.get(&(order.voucher, order.user))?.as_ref()?;
        let is_newer = entry_order(newest) > entry_order(entry) && *by != order.id;
        is_newer.then_some(OrderError::BoughtAgain { user: order.user, order: *by })
    }
}
