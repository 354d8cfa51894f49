//! Verdicts on dead letters, from facts of Redis and SQL that are read for a page at once.
//!
//! Read-only.

use std::{borrow::Cow, collections::HashMap};

use seckill_model::{
    Backing, EntryId, LetterAction, LetterVerdict, Millis, Order, OrderEntry, OrderError, OrderId,
    SaleOrder, SaleState, ShardId,
    dead_letter::{self, LetterEvidence, Row, Sale},
    filter::{Fact, Field, Kind},
};
use seckill_redis::dead_letters::DeadLetter;
use seckill_store::{SharedStore, StoreError};
use strum::VariantNames as _;

use crate::{Result, deployment::servers::Servers, ledger::entry_check::backing};

/// Fields available in a filter of dead letters.
pub const LETTER_FIELDS: &[Field] = &[
    ("letter", Kind::Entry),
    ("entry", Kind::Entry),
    ("reason", Kind::Text),
    ("consumer", Kind::Text),
    ("voucher", Kind::Number),
    ("user", Kind::Number),
    ("order", Kind::Number),
    ("replays", Kind::Number),
    ("deliveries", Kind::Number),
    ("age", Kind::Span),
    ("verdict", Kind::Word(LetterVerdict::VARIANTS)),
    ("action", Kind::Word(LetterAction::VARIANTS)),
];

/// A dead letter with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifiedLetter {
    /// The letter.
    pub letter: DeadLetter,
    /// Its verdict.
    pub verdict: LetterVerdict,
    /// The SQL row with its order ID of any buyer.
    pub row: Option<Order>,
    /// The live order that its buyer holds instead.
    pub another: Option<OrderEntry>,
}

impl ClassifiedLetter {
    /// Returns the value of a field of [`LETTER_FIELDS`].
    pub fn fact(&self, field: &str, now: Millis) -> Option<Fact<'_>> {
        let Self { letter, verdict, .. } = self;
        let order = letter.order;
        Some(match field {
            "letter" => Fact::Entry(letter.letter),
            "entry" => Fact::Entry(letter.entry?),
            "reason" => Fact::Text(Cow::Borrowed(&letter.reason)),
            "consumer" => Fact::Text(Cow::Borrowed(&letter.consumer)),
            "voucher" => Fact::Number(order?.voucher.0),
            "user" => Fact::Number(order?.user.0),
            "order" => Fact::Number(order?.order.get()),
            "replays" => Fact::Number(letter.replays),
            "deliveries" => Fact::Number(letter.deliveries),
            "age" => Fact::Number(now.since(letter.at)),
            "verdict" => Fact::Text(Cow::Borrowed(verdict.into())),
            "action" => Fact::Text(Cow::Borrowed(verdict.action().into())),
            _ => return None,
        })
    }

    /// Returns its order if closed or cancelled, so that Redis is updated; repeating the update is harmless.
    pub(super) fn returning(&self) -> Option<SaleOrder> {
        let row = self.row.as_ref().filter(|row| !row.status.is_live())?;
        (self.verdict == LetterVerdict::Written).then_some(SaleOrder {
            id: row.id,
            user_id: row.user_id,
            voucher_id: row.voucher_id,
            shard: self.letter.order?.shard,
            place: row.place?,
        })
    }
}

/// Classifies letters by Redis and SQL, read in this order: an order reaches SQL before its buyer leaves Redis.
pub async fn classify(
    servers: &mut Servers,
    max_replays: u64,
    letters: Vec<DeadLetter>,
) -> Result<Vec<ClassifiedLetter>> {
    let orders: Vec<OrderEntry> = letters.iter().filter_map(|letter| letter.order).collect();
    let backing = backing(servers, &orders).await?;
    let backing: HashMap<EntryId, Backing> =
        orders.iter().map(|order| order.entry).zip(backing).collect();
    let refused_for = |letter: &DeadLetter| match letter.reason.data()? {
        OrderError::Holds { holds, .. } => Some(holds),
        _ => None,
    };
    let ids = orders.iter().map(|order| order.order);
    let ids: Vec<OrderId> = ids.chain(letters.iter().filter_map(refused_for)).collect();
    let rows: HashMap<OrderId, Order> =
        servers.store.orders_among(&ids).await?.into_iter().map(|row| (row.id, row)).collect();
    // A sale is in only one of both after one of them was restored from a backup.
    let mut sales: HashMap<ShardId, Sale> = HashMap::new();
    for order in &orders {
        let may_wait =
            !matches!(backing.get(&order.entry), Some(Backing::Nothing | Backing::Other(_)));
        let shard = order.sold_by();
        if may_wait && !sales.contains_key(&shard) {
            sales.insert(shard, sale(&servers.store, shard).await?);
        }
    }
    let classified = letters.into_iter().map(|letter| {
        let row = letter.order.and_then(|order| rows.get(&order.order).cloned());
        let another = another_order(&letter, &rows);
        let evidence = LetterEvidence {
            fields_good: letter.order.is_some(),
            row: match (&row, letter.order) {
                (Some(row), Some(order)) if is_row_of(row, &order) => Row::This,
                (Some(_), _) => Row::Other,
                (None, _) => Row::None,
            },
            backing: backing.get(&letter.letter).copied().unwrap_or(Backing::Nothing),
            sale: letter
                .order
                .and_then(|order| sales.get(&order.sold_by()).copied())
                .unwrap_or(Sale::Open),
            replays: letter.replays,
            superseded: another.is_some(),
        };
        let verdict = dead_letter::judge(&evidence, max_replays);
        ClassifiedLetter { letter, verdict, row, another }
    });
    Ok(classified.collect())
}

/// The buyer's live order because of which SQL refused the letter.
fn another_order(letter: &DeadLetter, rows: &HashMap<OrderId, Order>) -> Option<OrderEntry> {
    let order = letter.order?;
    let OrderError::Holds { holds, .. } = letter.reason.data()? else { return None };
    let row = rows.get(&holds)?;
    let other = OrderEntry { order: holds, ..order };
    (row.status.is_live() && is_row_of(row, &other)).then_some(other)
}

/// A shard that its sale does not have is missing, as a sale is.
async fn sale(store: &SharedStore, shard: ShardId) -> Result<Sale> {
    match store.shard(shard).await {
        Ok(sale) if sale.state == SaleState::Archived => Ok(Sale::Archived),
        Ok(_) => Ok(Sale::Open),
        Err(StoreError::NoSale(_)) => Ok(Sale::Missing),
        Err(error) => Err(error.into()),
    }
}

fn is_row_of(row: &Order, order: &OrderEntry) -> bool {
    (row.user_id, row.voucher_id, row.place) == (order.user, order.voucher, Some(order.place))
}
