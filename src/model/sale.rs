//! Vouchers and their sales: title, stock and window.

use std::{fmt, ops::Deref, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    Millis, Reason,
    control_chars::shortened,
    reason::{quoted, reason},
};

/// Largest stock of a sale.
pub const MAX_STOCK: u64 = 10_000_000;
/// Maximum number of orders per buyer; admission checks each of these places.
pub const MAX_LIMIT: u8 = 20;
/// Maximum number of shards of a sale, each in a partition of its own.
pub const MAX_SHARDS: u16 = 64;
/// Longest title, in visible characters.
pub const MAX_TITLE: usize = 60;
/// Longest title in bytes, since one visible character may be many code points.
const MAX_TITLE_BYTES: usize = 1_000;

/// Voucher ID, assigned by the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[derive(derive_more::Display)]
pub struct VoucherId(pub u64);

/// A sale: that of the voucher with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[derive(derive_more::Display)]
pub struct SaleId(pub u64);

impl From<VoucherId> for SaleId {
    fn from(voucher: VoucherId) -> Self {
        Self(voucher.0)
    }
}

impl From<SaleId> for VoucherId {
    fn from(sale: SaleId) -> Self {
        Self(sale.0)
    }
}

/// User ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[derive(derive_more::Display)]
pub struct UserId(pub u64);

quoted!(VoucherId, SaleId, UserId);

/// A shard of a sale. Each has its own stock and buyers in Redis, and its own stock in SQL.
///
/// Printed as in the names of its keys: `7` for a sale that is not spread, `7.3` for the third shard of one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId {
    /// The sale.
    pub sale: SaleId,
    /// Number of the shard, from 1; 0 is a sale that is not spread.
    pub number: u16,
}

serde_as_text!(ShardId);
quoted!(ShardId);

impl ShardId {
    /// The only shard of a sale that is not spread.
    pub fn only(sale: impl Into<SaleId>) -> Self {
        Self { sale: sale.into(), number: 0 }
    }

    /// The voucher that is sold.
    pub fn voucher(self) -> VoucherId {
        self.sale.into()
    }

    /// Its number; `None` for a sale that is not spread.
    pub fn numbered(self) -> Option<u16> {
        (self.number > 0).then_some(self.number)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => self.sale.fmt(f),
            number => write!(f, "{}.{number}", self.sale),
        }
    }
}

impl FromStr for ShardId {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (sale, number) = match text.split_once('.') {
            Some((sale, number)) => (sale, number.parse().ok().filter(|number| *number > 0)),
            None => (text, Some(0)),
        };
        match (sale.parse(), number) {
            (Ok(sale), Some(number)) => Ok(Self { sale: SaleId(sale), number }),
            _ => Err(reason!("faults-shard-id", text = shortened(text, 40))),
        }
    }
}

/// The shards over which a sale is spread. A user always meets the same one, so that limits per user stay exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The sale.
    pub sale: SaleId,
    /// Number of shards, at least 2.
    pub count: u16,
}

impl Spread {
    /// The shards, by number.
    pub fn all(self) -> impl Iterator<Item = ShardId> + Clone {
        (1..=self.count).map(move |number| ShardId { sale: self.sale, number })
    }

    /// The shard of a user. Orders depend on it: it must never change.
    pub fn of_user(self, user: UserId) -> ShardId {
        // The finalizer of SplitMix64, as a plain remainder would follow any pattern in the IDs
        // (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
        let mut mixed = user.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // At most the number of shards, which fits 16 bits.
        ShardId { sale: self.sale, number: 1 + (mixed % u64::from(self.count.max(1))) as u16 }
    }
}

/// Serialized as the number of shards.
impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.count.serialize(to)
    }
}

/// Printed as the field of each of its shards in Redis: `7/3` for three shards of the sale of voucher 7.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.sale, self.count)
    }
}

impl FromStr for Spread {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (sale, count) = text.split_once('/').unwrap_or_default();
        match (sale.parse(), count.parse()) {
            (Ok(sale), Ok(count)) if count > 1 => Ok(Self { sale: SaleId(sale), count }),
            _ => Err(reason!("faults-shard", text = shortened(text, 40))),
        }
    }
}

/// One of the places that a buyer has in a sale, up to its limit: each holds one order.
///
/// Printed as the field in Redis' buyers hash: `7` is the first place of user 7, `7/2` the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The buyer.
    pub user: UserId,
    /// The place, from 1.
    pub number: u8,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            1 => self.user.fmt(f),
            number => write!(f, "{}/{number}", self.user),
        }
    }
}

impl FromStr for Place {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (user, number) = text.split_once('/').unwrap_or((text, "1"));
        match (user.parse(), number.parse()) {
            (Ok(user), Ok(number)) if number > 0 => Ok(Self { user: UserId(user), number }),
            _ => Err(reason!("faults-place", place = shortened(text, 40))),
        }
    }
}

impl FromStr for VoucherId {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim_start_matches('#');
        match number.parse::<u64>() {
            Ok(id) if id > 0 && i64::try_from(id).is_ok() => Ok(Self(id)),
            _ => Err(reason!("faults-voucher-id", text = shortened(text, 30))),
        }
    }
}

/// Operator-controlled state of a sale, ordered by how little it sells. The state derived from clock and stock is [`Phase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", parse_err_ty = Reason, parse_err_fn = unknown_state)]
pub enum SaleState {
    /// Sells within its time window.
    Running,
    /// Paused by the operator; may be resumed.
    Paused,
    /// Ended permanently.
    Ended,
    /// Ended and removed from Redis; SQL keeps all data.
    Archived,
}

fn unknown_state(text: &str) -> Reason {
    reason!("faults-sale-state", text = shortened(text, 30))
}

/// State of a sale at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// Its window is not open yet.
    Planned,
    /// Selling.
    Running,
    /// Paused by the operator.
    Paused,
    /// Open but sold out.
    SoldOut,
    /// Ended by the operator or by its window.
    Ended,
    /// Ended and removed from Redis.
    Archived,
}

impl Phase {
    /// Whether selling has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Archived)
    }
}

/// A sale to be created by [`NewSale::checked`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSale {
    /// Title shown to buyers.
    pub title: String,
    /// Pieces on sale.
    pub stock: u64,
    /// Begin of the window; `None` is immediately.
    pub begin: Option<Millis>,
    /// End of the window; `None` is never.
    pub end: Option<Millis>,
    /// Orders per user, 1 to [`MAX_LIMIT`].
    pub limit: u8,
    /// Shards over which the stock is spread; 1 is not spread.
    pub shards: u16,
}

impl NewSale {
    /// Validates a sale and trims its title.
    pub fn checked(
        title: &str,
        stock: u64,
        begin: Option<Millis>,
        end: Option<Millis>,
        now: Millis,
    ) -> Result<Self, Reason> {
        let title = check_title(title)?;
        check_stock(stock)?;
        if let Some(end) = end {
            let begin = begin.unwrap_or(now);
            if end <= now {
                return Err(reason!("faults-over", end));
            }
            if end <= begin {
                return Err(reason!("faults-window", begin, end));
            }
        }
        Ok(Self { title, stock, begin, end, limit: 1, shards: 1 })
    }

    /// Returns the sale with another limit of orders per user.
    pub fn limited(self, limit: u64) -> Result<Self, Reason> {
        match u8::try_from(limit) {
            Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(Self { limit, ..self }),
            _ => Err(reason!("faults-limit", limit, most = MAX_LIMIT)),
        }
    }

    /// Returns the sale spread over this many shards, each with at least one piece.
    pub fn sharded(self, shards: u64) -> Result<Self, Reason> {
        match u16::try_from(shards) {
            Ok(count) if (1..=MAX_SHARDS).contains(&count) && shards <= self.stock => {
                Ok(Self { shards: count, ..self })
            }
            Ok(1..=MAX_SHARDS) => Err(reason!("faults-shards-pieces", shards, stock = self.stock)),
            _ => Err(reason!("faults-shards", shards, most = MAX_SHARDS)),
        }
    }
}

/// Splits pieces into this many parts, as evenly as possible, the larger ones first.
pub fn split(pieces: u64, parts: u64) -> impl Iterator<Item = u64> {
    let (each, rest) = (pieces / parts.max(1), pieces % parts.max(1));
    (0..parts).map(move |number| each + u64::from(number < rest))
}

/// Trims a title and rejects one that cannot be displayed.
///
/// # Errors
/// It is empty, too long or contains control characters.
pub fn check_title(title: &str) -> Result<String, Reason> {
    let title = title.trim();
    if title.width() == 0 {
        return Err(reason!("faults-title-empty", most = MAX_TITLE));
    }
    let length = title.graphemes(true).count();
    if length > MAX_TITLE {
        return Err(reason!("faults-title-long", length, most = MAX_TITLE));
    }
    if title.len() > MAX_TITLE_BYTES {
        return Err(reason!("faults-title-heavy", bytes = title.len(), most = MAX_TITLE_BYTES));
    }
    // Bidirectional overrides reorder the surrounding text on a terminal.
    let hostile =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if title.chars().any(hostile) {
        return Err(reason!("faults-title-control"));
    }
    Ok(title.to_owned())
}

/// Rejects an invalid stock.
pub fn check_stock(stock: u64) -> Result<u64, Reason> {
    if !(1..=MAX_STOCK).contains(&stock) {
        return Err(reason!("faults-stock", stock, most = MAX_STOCK));
    }
    Ok(stock)
}

/// Rejects an invalid restock, which is negative for a cut.
pub fn check_restock(by: i64) -> Result<i64, Reason> {
    if !(1..=MAX_STOCK).contains(&by.unsigned_abs()) {
        return Err(reason!("faults-restock", by, most = MAX_STOCK));
    }
    Ok(by)
}

/// A sale in SQL, the source for Redis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sale {
    /// The voucher that is sold.
    pub voucher_id: VoucherId,
    /// Title shown to buyers.
    pub title: String,
    /// Total stock, sold or not.
    pub initial: u64,
    /// Pieces not held by live orders, by SQL.
    pub stock: u64,
    /// Begin of the window; `None` is immediately.
    pub begin: Option<Millis>,
    /// End of the window; `None` is never.
    pub end: Option<Millis>,
    /// Operator-controlled state.
    pub state: SaleState,
    /// Orders per user.
    pub limit: u8,
    /// When the row was last changed.
    pub changed: Millis,
    /// Increases with each change, so that an older copy never overwrites a newer one in Redis.
    pub version: u64,
    /// The version confirmed by Redis; if lower than `version`, a change is in flight.
    pub delivered: u64,
    /// Creation time; distinguishes sales with the same ID.
    pub created: Millis,
    /// The shards over which it is spread, if it is.
    #[serde(rename = "shards", skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// A shard of a sale: what it sells, with the stock and the versions of the shard. A sale that is not spread has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleShard {
    /// The shard.
    pub id: ShardId,
    /// The sale, whose figures are those of this shard.
    pub sale: Sale,
}

impl SaleShard {
    /// Whether SQL adopts this shard, as Redis has it, if it has `known`: a newer version, or the same one with what another
    /// history gave it. What Redis has at a version that it has confirmed, another program wrote; but no other program
    /// changes pieces and stock alike.
    pub fn is_newer_than(&self, known: &Self) -> bool {
        self.version > known.version
            || (self.version == known.version
                && (self.initial != known.initial
                    || (known.is_undelivered() && self.terms() != known.terms())))
    }
}

impl Deref for SaleShard {
    type Target = Sale;

    fn deref(&self) -> &Sale {
        &self.sale
    }
}

impl Sale {
    /// The sale.
    pub fn id(&self) -> SaleId {
        self.voucher_id.into()
    }

    /// Its shards, by number; without any, its only one.
    pub fn shard_ids(&self) -> Vec<ShardId> {
        let only = || vec![ShardId::only(self.voucher_id)];
        self.spread.map_or_else(only, |spread| spread.all().collect())
    }

    /// Number of live orders in SQL, derived from the stock without counting rows.
    pub fn live_orders(&self) -> u64 {
        self.initial.saturating_sub(self.stock)
    }

    /// The sale of a voucher as buyers see it: the sum of its shards. `None` without any.
    pub fn whole(shards: &[SaleShard]) -> Option<Self> {
        let (first, others) = shards.split_first()?;
        let mut whole = first.sale.clone();
        for shard in others {
            whole.initial += shard.initial;
            whole.stock += shard.stock;
            whole.changed = whole.changed.max(shard.changed);
            whole.version += shard.version;
            whole.delivered += shard.delivered;
        }
        Some(whole)
    }

    /// Whether Redis has not confirmed the last change yet.
    pub fn is_undelivered(&self) -> bool {
        self.delivered < self.version
    }

    /// What decides when and to whom it sells: state, begin, end and orders per user. An archived sale has ended.
    pub fn terms(&self) -> (SaleState, Option<Millis>, Option<Millis>, u8) {
        (self.state.min(SaleState::Ended), self.begin, self.end, self.limit)
    }

    /// Sets each of its [terms](Self::terms) to that of `other` if that sells less. `sell_least` of `sync_sale.lua` has the
    /// same rule.
    pub fn sell_least(&mut self, other: &Self) {
        self.state = self.state.max(other.state).min(SaleState::Ended);
        self.begin = self.begin.max(other.begin);
        // Without an end, it never ends.
        self.end = [self.end, other.end].into_iter().flatten().min();
        self.limit = self.limit.min(other.limit);
    }

    /// State of the sale at `now` with `stock` pieces left in Redis.
    pub fn phase(&self, now: Millis, stock: Option<u64>) -> Phase {
        if self.state == SaleState::Archived {
            Phase::Archived
        } else if self.state == SaleState::Ended || self.end.is_some_and(|end| end <= now) {
            Phase::Ended
        } else if self.state == SaleState::Paused {
            Phase::Paused
        } else if self.begin.is_some_and(|begin| begin > now) {
            Phase::Planned
        } else if stock == Some(0) {
            Phase::SoldOut
        } else {
            Phase::Running
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_795_000_000_000);

    fn checked(title: &str, stock: u64) -> Result<NewSale, Reason> {
        NewSale::checked(title, stock, None, None, NOW)
    }

    #[test]
    fn titles_are_measured_in_visible_characters() {
        assert!(checked("火锅五折 🍲", 1).is_ok());
        assert!(checked(&"👩‍👩‍👧‍👦".repeat(MAX_TITLE / 2), 1).is_ok());
        let long = reason!("faults-title-long", length = 10_000_u64, most = MAX_TITLE);
        assert_eq!(checked(" \t ", 1), Err(reason!("faults-title-empty", most = MAX_TITLE)));
        assert_eq!(checked(&"x".repeat(10_000), 1), Err(long));
        assert_eq!(checked("a\x1b[2Jb", 1), Err(reason!("faults-title-control")));
    }

    #[test]
    fn places_round_trip() {
        for (text, number) in [("7", 1), ("7/2", 2), ("18446744073709551615/20", 20)] {
            let place: Place = text.parse().unwrap();
            assert_eq!((place.number, place.to_string().as_str()), (number, text));
        }
        for bad in ["", "/", "7/0", "7/x", "7/2/3", "-7"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
        assert!(checked("t", 1).unwrap().limited(0).is_err());
        assert!(checked("t", 1).unwrap().limited(21).is_err());
    }

    #[test]
    fn shards_are_bounded_by_partitions_and_pieces() {
        let sharded = |stock, shards| checked("t", stock).unwrap().sharded(shards);
        assert_eq!(sharded(64, 64).unwrap().shards, MAX_SHARDS);
        for shards in [0, 65, 65_536, u64::MAX] {
            let fault = reason!("faults-shards", shards, most = MAX_SHARDS);
            assert_eq!(sharded(MAX_STOCK, shards), Err(fault));
        }
        let fault = reason!("faults-shards-pieces", shards = 8_u64, stock = 7_u64);
        assert_eq!(sharded(7, 8), Err(fault));
    }

    #[test]
    fn pieces_are_split_evenly() {
        assert_eq!(split(10, 4).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(split(1, 3).collect::<Vec<_>>(), [1, 0, 0]);
    }

    /// The shards of users that have ordered may not change: these values are fixed.
    #[test]
    fn a_user_keeps_the_same_shard() {
        let spread = Spread { sale: SaleId(100), count: 8 };
        let shards = [0, 1, 2, 3, u64::MAX].map(|user| spread.of_user(UserId(user)).number);
        assert_eq!(shards, [8, 2, 7, 6, 1]);
    }

    #[test]
    fn shards_round_trip() {
        for (text, number) in [("7", 0), ("7.3", 3), ("18446744073709551615.64", 64)] {
            let shard: ShardId = text.parse().unwrap();
            assert_eq!((shard.number, shard.to_string().as_str()), (number, text));
        }
        for bad in ["", ".", "7.0", "7.x", "7.2.3", "-7", "7/3"] {
            assert!(bad.parse::<ShardId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn stock_is_bounded() {
        let stock = |stock: u64| Err(reason!("faults-stock", stock, most = MAX_STOCK));
        assert_eq!(checked("t", 0), stock(0));
        assert!(checked("t", MAX_STOCK).is_ok());
        assert_eq!(checked("t", u64::MAX), stock(u64::MAX));
        for by in [0, i64::MIN, i64::MAX, MAX_STOCK as i64 + 1] {
            let expected = reason!("faults-restock", by, most = MAX_STOCK);
            assert_eq!(check_restock(by), Err(expected));
        }
        assert_eq!(check_restock(-(MAX_STOCK as i64)), Ok(-(MAX_STOCK as i64)));
    }

    #[test]
    fn window_must_end_after_begin_and_now() {
        let window = |begin: i64, end: i64| {
            NewSale::checked("t", 1, Some(NOW.plus(begin)), Some(NOW.plus(end)), NOW)
        };
        assert!(window(10, 20).is_ok());
        let (begin, end) = (NOW.plus(20), NOW.plus(10));
        assert_eq!(window(20, 10), Err(reason!("faults-window", begin, end)));
        assert_eq!(window(-20, -10), Err(reason!("faults-over", end = NOW.plus(-10))));
    }

    #[test]
    fn the_phase_follows_clock_stock_and_operator() {
        let mut sale = Sale {
            voucher_id: VoucherId(1),
            title: "t".into(),
            initial: 5,
            stock: 5,
            begin: Some(NOW.plus(1)),
            end: Some(NOW.plus(10)),
            state: SaleState::Running,
            limit: 1,
            changed: NOW,
            version: 1,
            delivered: 1,
            created: NOW,
            spread: None,
        };
        assert_eq!(sale.phase(NOW, Some(5)), Phase::Planned);
        assert_eq!(sale.phase(NOW.plus(1), Some(5)), Phase::Running);
        assert_eq!(sale.phase(NOW.plus(1), Some(0)), Phase::SoldOut);
        assert_eq!(sale.phase(NOW.plus(10), Some(5)), Phase::Ended);
        sale.state = SaleState::Paused;
        assert_eq!(sale.phase(NOW.plus(1), Some(5)), Phase::Paused);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_id_or_an_error(text in "[-+#]?[0-9]{0,25}[.,:/]?[0-9]{0,8}|.{0,20}") {
            let _ = (text.parse::<VoucherId>(), text.parse::<Place>(), text.parse::<Spread>());
            if let Ok(shard) = text.parse::<ShardId>() {
                proptest::prop_assert_eq!(shard.to_string().parse::<ShardId>().unwrap(), shard);
            }
        }
    }
}
