//! Entries of the order stream, parsed from their fields.

use std::{fmt, str::FromStr};

use crate::{
    Millis, OrderId, Place, Reason, ShardId, UserId, VoucherId,
    control_chars::shortened,
    reason::{quoted, reason},
};

/// Field names of an entry, as in the tutorial.
pub const FIELD_USER: &str = "userId";
/// The voucher.
pub const FIELD_VOUCHER: &str = "voucherId";
/// Number of the shard; omitted for a sale that is not spread, except where a shard had its voucher ID once: 0.
pub const FIELD_SHARD: &str = "shard";
/// The buyer's place; omitted for the first one.
pub const FIELD_PLACE: &str = "place";
/// The order ID.
pub const FIELD_ORDER: &str = "id";

/// ID of a stream entry: milliseconds, sequence number and partition.
///
/// Sorted by time across all partitions. Printed as Redis writes it, followed by `@` and the partition unless that is
/// 0: `1795000000000-0`, `1795000000000-0@3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Redis' clock in milliseconds when it was added.
    pub millis: u64,
    /// Sequence number within that millisecond.
    pub number: u64,
    /// The partition of its stream.
    pub partition: u16,
}

quoted!(EntryId);
serde_as_text!(EntryId);

impl EntryId {
    /// The smallest ID.
    pub const MIN: Self = Self { millis: 0, number: 0, partition: 0 };
    /// The largest ID.
    pub const MAX: Self = Self { millis: u64::MAX, number: u64::MAX, partition: u16::MAX };

    /// When it was added, by Redis' clock. An ID entered by a user may lie beyond the range of time.
    pub fn added(self) -> Millis {
        Millis(i64::try_from(self.millis).unwrap_or(i64::MAX))
    }

    /// The first ID of any stream at a time.
    pub fn first_of(time: Millis) -> Self {
        Self { millis: u64::try_from(time.0).unwrap_or(0), ..Self::MIN }
    }

    /// The last ID of any stream within a millisecond.
    pub fn last_of(time: Millis) -> Self {
        Self { millis: Self::first_of(time).millis, ..Self::MAX }
    }

    /// Its position in its stream.
    fn position(self) -> u128 {
        (u128::from(self.millis) << 64) | u128::from(self.number)
    }

    fn at(position: u128, partition: u16) -> Self {
        Self { millis: (position >> 64) as u64, number: position as u64, partition }
    }

    /// The next possible ID of the same stream, to continue paging; `None` after the largest one, where paging ends.
    pub fn next(self) -> Option<Self> {
        Some(Self::at(self.position().checked_add(1)?, self.partition))
    }

    /// The previous possible ID of the same stream, to continue after it. The smallest ID returns itself.
    #[must_use]
    pub fn before(self) -> Self {
        Self::at(self.position().saturating_sub(1), self.partition)
    }

    /// The next possible ID across all streams; `None` after the largest one.
    pub fn next_of_all(self) -> Option<Self> {
        match self.partition.checked_add(1) {
            Some(partition) => Some(Self { partition, ..self }),
            None => Some(Self { partition: 0, ..self.next()? }),
        }
    }

    /// The first ID of `partition` that is not before this one; `None` if there is none.
    pub fn first_in(self, partition: u16) -> Option<Self> {
        let skipped = u128::from(partition < self.partition);
        Some(Self::at(self.position().checked_add(skipped)?, partition))
    }

    /// The last ID of `partition` that is not after this one; `None` if there is none.
    pub fn last_in(self, partition: u16) -> Option<Self> {
        let skipped = u128::from(partition > self.partition);
        Some(Self::at(self.position().checked_sub(skipped)?, partition))
    }

    /// The ID as Redis writes it.
    pub fn in_stream(self) -> String {
        format!("{}-{}", self.millis, self.number)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.number)?;
        if self.partition > 0 { write!(f, "@{}", self.partition) } else { Ok(()) }
    }
}

impl FromStr for EntryId {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, partition) = text.split_once('@').unwrap_or((text, "0"));
        let (millis, number) = id.split_once('-').unwrap_or((id, "0"));
        match (millis.parse(), number.parse(), partition.parse()) {
            (Ok(millis), Ok(number), Ok(partition)) => Ok(Self { millis, number, partition }),
            _ => Err(reason!("faults-entry-id", text = shortened(text, 40))),
        }
    }
}

/// A valid entry of the order stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderEntry {
    /// Its ID in the stream.
    pub entry: EntryId,
    /// The order it contains.
    pub order: OrderId,
    /// User ID of the buyer.
    pub user: UserId,
    /// The voucher bought.
    pub voucher: VoucherId,
    /// Number of the shard that sold it; without the field it is 0, a sale that is not spread.
    pub shard: u16,
    /// The buyer's place that the order takes; without the field it is the first one.
    pub place: u8,
}

impl OrderEntry {
    /// An order for the buyer's first place that is in no stream.
    pub fn new(order: OrderId, user: UserId, voucher: VoucherId) -> Self {
        Self { entry: EntryId::MIN, order, user, voucher, shard: 0, place: 1 }
    }

    /// The shard that sold it.
    pub fn sold_by(&self) -> ShardId {
        ShardId { sale: self.voucher.into(), number: self.shard }
    }

    /// The place that the order takes.
    pub fn place(&self) -> Place {
        Place { user: self.user, number: self.place }
    }

    /// Parses an entry's fields; unknown ones are ignored, for compatibility with newer writers.
    pub fn parse<'a>(
        entry: EntryId,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Self, Reason> {
        let (mut order, mut user, mut voucher) = (None, None, None);
        let (mut shard, mut place) = (None, None);
        for (name, value) in fields {
            match name {
                b"id" => order = Some(value),
                b"userId" => user = Some(value),
                b"voucherId" => voucher = Some(value),
                b"shard" => shard = Some(value),
                b"place" => place = Some(value),
                _ => {}
            }
        }
        Ok(Self {
            entry,
            order: OrderId::from_i64(number(FIELD_ORDER, order)?)
                .ok_or_else(|| garbage(FIELD_ORDER, order.unwrap_or_default()))?,
            user: UserId(number(FIELD_USER, user)? as u64),
            voucher: VoucherId(number(FIELD_VOUCHER, voucher)? as u64),
            shard: match shard {
                None => 0,
                Some(text) => u16::try_from(number(FIELD_SHARD, shard)?)
                    .map_err(|_| garbage(FIELD_SHARD, text))?,
            },
            place: match place {
                None => 1,
                Some(text) => u8::try_from(number(FIELD_PLACE, place)?)
                    .ok()
                    .filter(|place| *place > 0)
                    .ok_or_else(|| garbage(FIELD_PLACE, text))?,
            },
        })
    }
}

/// What Redis knows of the buyer of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The buyer holds this order.
    Promised,
    /// The buyer holds another order in this place.
    Other(OrderId),
    /// There is no such buyer.
    Nothing,
    /// The buyers of the sale are unknown: it is not loaded, or its keys are inconsistent.
    Unknown,
}

/// A field as a number in the range of SQL: 0 to 2^63 - 1.
fn number(field: &'static str, value: Option<&[u8]>) -> Result<i64, Reason> {
    let value = value.ok_or_else(|| reason!("faults-field-missing", field))?;
    std::str::from_utf8(value)
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| garbage(field, value))
}

fn garbage(field: &'static str, value: &[u8]) -> Reason {
    let value = shortened(&String::from_utf8_lossy(value), 40);
    reason!("faults-field-garbage", field, value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(fields: &[(&str, &str)]) -> Result<OrderEntry, Reason> {
        OrderEntry::parse(EntryId::MIN, fields.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes())))
    }

    #[test]
    fn parses_the_fields_of_the_tutorial() {
        let entry = parse(&[("userId", "5"), ("voucherId", "7"), ("id", "99"), ("note", "x")]);
        assert_eq!(entry.map(|e| (e.user.0, e.voucher.0, e.order.get())), Ok((5, 7, 99)));
        let entry = parse(&[("userId", "5"), ("voucherId", "7"), ("shard", "3"), ("id", "99")]);
        assert_eq!(entry.map(|e| e.sold_by().to_string()), Ok("7.3".to_owned()));
    }

    #[test]
    fn every_id_has_a_time() {
        let id: EntryId = "1795000000000-3@2".parse().unwrap();
        assert_eq!((id.added(), EntryId::MIN.added()), (Millis(1_795_000_000_000), Millis(0)));
        assert_eq!(Millis(5).since(EntryId::MAX.added()), 0, "beyond the range of time");
    }

    #[test]
    fn largest_id_has_no_successor() {
        let last = EntryId { partition: 0, ..EntryId::MAX };
        assert_eq!((last.next(), EntryId::MAX.next_of_all()), (None, None));
        assert_eq!(last.next_of_all(), Some(EntryId { partition: 1, ..EntryId::MAX }));
        assert_eq!(EntryId::MAX.first_in(0), None);
    }

    #[test]
    fn faults_name_the_field() {
        assert_eq!(
            parse(&[("userId", "5"), ("id", "9")]),
            Err(reason!("faults-field-missing", field = "voucherId"))
        );
        let bad = parse(&[("userId", "5\n\u{202e}"), ("voucherId", "7"), ("id", "9")]);
        assert_eq!(bad, Err(reason!("faults-field-garbage", field = "userId", value = "5··")));
        assert!(parse(&[("userId", "-5"), ("voucherId", "7"), ("id", "9")]).is_err());
        assert!(
            parse(&[("userId", "5"), ("voucherId", "7"), ("id", "18446744073709551615")]).is_err()
        );
    }

    proptest! {
        #[test]
        fn never_panics_on_garbage(fields in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..6)) {
            let _ = OrderEntry::parse(EntryId::MIN, fields.iter().map(|(k, v)| (k.as_slice(), v.as_slice())));
        }

        #[test]
        fn ids_round_trip(millis: u64, number: u64, partition: u16) {
            let id = EntryId { millis, number, partition };
            prop_assert_eq!(id.to_string().parse::<EntryId>(), Ok(id));
            prop_assert!(id.next_of_all().map_or(id == EntryId::MAX, |next| next > id));
            prop_assert!((millis, number) == (0, 0) || id.before().next() == Some(id));
        }

        #[test]
        fn pages_of_all_streams_keep_their_bounds(
            (ms, no, p) in (0..3u64, 0..3u64, 0..3u16),
            (ms2, no2, p2) in (0..3u64, 0..3u64, 0..3u16),
        ) {
            let edge = EntryId { millis: ms, number: no, partition: p };
            let other = EntryId { millis: ms2, number: no2, partition: p2 };
            prop_assert_eq!(other >= edge, edge.first_in(p2).is_some_and(|first| other >= first));
            prop_assert_eq!(other <= edge, edge.last_in(p2).is_some_and(|last| other <= last));
            prop_assert_eq!(other > edge, edge.next_of_all().is_some_and(|next| other >= next));
        }
    }
}
