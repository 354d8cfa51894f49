//! State of the presenter layout: whether it is on, which sale it shows, and how long that sale took to sell out.

use std::collections::{HashMap, HashSet};

use seckill_engine::{SaleLine, Snapshot};
use seckill_model::{Millis, VoucherId};

/// When the full stock of a sale was last seen, and when it was first seen sold out.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    whole: Option<Millis>,
    gone: Option<Millis>,
}

#[derive(Debug, Default)]
pub(crate) struct Presenter {
    pub(crate) on: bool,
    /// The sale chosen here or launched; independent of the choice in the views.
    pub(crate) sale: Option<VoucherId>,
    /// Set by a launch, not by a key.
    pub(super) launched: bool,
    seen: HashMap<VoucherId, Seen>,
}

impl Presenter {
    /// Records what a snapshot shows of each sale.
    pub(super) fn look(&mut self, snapshot: &Snapshot) {
        if !snapshot.redis.up {
            return;
        }
        let listed: HashSet<_> = snapshot.sales.iter().map(|sale| sale.voucher_id).collect();
        self.seen.retain(|id, _| listed.contains(id));
        for sale in &snapshot.sales {
            let Some(left) = sale.stock.and_then(|left| u64::try_from(left).ok()) else { continue };
            let seen = self.seen.entry(sale.voucher_id).or_default();
            if left >= sale.initial {
                seen.whole = Some(snapshot.taken);
            }
            seen.gone = (left == 0).then(|| seen.gone.unwrap_or(snapshot.taken));
        }
    }

    /// Milliseconds from the first piece sold to the last; `None` unless this console saw both.
    pub(crate) fn took_ms(&self, voucher: VoucherId) -> Option<u64> {
        let seen = self.seen.get(&voucher)?;
        seen.gone.zip(seen.whole).map(|(gone, whole)| gone.since(whole))
    }
}

/// Replaces sale IDs with titles, as the presenter layout shows them. What looks like an ID inside the title of a sale
/// or launch is kept.
pub(crate) fn by_title(snapshot: &Snapshot, launched: &[&str], text: &str) -> String {
    let titles = snapshot.sales.iter().map(|sale| &*sale.title).chain(launched.iter().copied());
    let titles: Vec<&str> = titles.filter(|title| title.contains('#')).collect();
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let title = titles.iter().filter(|title| rest.starts_with(**title));
        if let Some(title) = title.max_by_key(|title| title.len()) {
            out.push_str(title);
            rest = rest.strip_prefix(title).unwrap_or_default();
            continue;
        }
        let Some(after) = rest.strip_prefix('#') else {
            out.push(c);
            rest = rest.strip_prefix(c).unwrap_or_default();
            continue;
        };
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (id, behind) = after.split_at(digits);
        let sale = id.parse().ok().and_then(|id| snapshot.sale(VoucherId(id)));
        rest = behind;
        match sale {
            Some(sale) => {
                out.push_str(&sale.title);
                // The title already follows the ID: do not repeat it.
                let again = behind.strip_prefix(' ').and_then(|it| it.strip_prefix(&*sale.title));
                rest = again.unwrap_or(behind);
            }
            None => out.extend(["#", id]),
        }
    }
    out
}

/// Whether nothing is left for buyers to come for.
pub(super) fn is_gone(sale: &SaleLine) -> bool {
    sale.phase.is_over() || sale.stock.is_some_and(|left| left <= 0)
}
