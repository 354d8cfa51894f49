//! Verdict on a pending entry and the recommended action: rules without I/O.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::{OrderError, text};

/// Evidence about one pending entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Its order is in SQL.
    pub is_written: bool,
    /// Why it yields no order, however often it is delivered.
    pub fault: Option<OrderError>,
    /// Its buyer waits, and its sale is in Redis but not in SQL.
    pub sale_lost: bool,
    /// The node of its consumer sends heartbeats.
    pub holder_alive: bool,
    /// Milliseconds since its last delivery.
    pub idle_ms: u64,
    /// Number of deliveries.
    pub deliveries: u64,
}

/// Limits of the verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a live consumer may hold an entry, in milliseconds.
    pub claim_idle_ms: u64,
    /// More deliveries than this are too many.
    pub max_deliveries: u64,
}

/// Verdict on one pending entry, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, IntoStaticStr, VariantNames)]
#[cfg_attr(test, derive(strum::EnumIter))]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// Its order is in SQL; only the acknowledgement is missing.
    Written,
    /// No order yet, fields valid, and its holder is dead or idle too long.
    Stuck,
    /// Its body is gone from the stream.
    BodyGone,
    /// Its fields are invalid.
    Malformed,
    /// Delivered more often than allowed.
    TooOften,
    /// Its order can never be written because of the data in SQL.
    Refused,
    /// No buyer in Redis was admitted with its order ID.
    NotPromised,
    /// Its buyer waits, and its sale is in Redis but not in SQL.
    SaleLost,
    /// Held by a live node, and recent.
    InHand,
}

/// Recommended action for one pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RecoveryAction {
    /// Acknowledge it in Redis.
    Acknowledge,
    /// Claim it and write its order.
    Process,
    /// Leave it to its holder.
    Leave,
    /// Rebuild it from the buyers hash, or report the loss.
    Rebuild,
    /// Move it to the dead letters.
    DeadLetter,
}

/// The verdict supported by the evidence.
pub fn judge(evidence: &Evidence, limits: Limits) -> Verdict {
    if evidence.is_written {
        return Verdict::Written;
    }
    // A live holder may be writing it right now.
    if evidence.holder_alive && evidence.idle_ms < limits.claim_idle_ms {
        return Verdict::InHand;
    }
    if evidence.sale_lost {
        return Verdict::SaleLost;
    }
    match evidence.fault {
        Some(OrderError::Gone) => Verdict::BodyGone,
        Some(OrderError::Fields(_)) => Verdict::Malformed,
        Some(OrderError::NotPromised) => Verdict::NotPromised,
        Some(_) => Verdict::Refused,
        None if evidence.deliveries > limits.max_deliveries => Verdict::TooOften,
        None => Verdict::Stuck,
    }
}

impl Verdict {
    /// The recommended action.
    pub fn action(self) -> RecoveryAction {
        match self {
            Self::Written => RecoveryAction::Acknowledge,
            Self::Stuck => RecoveryAction::Process,
            Self::SaleLost | Self::InHand => RecoveryAction::Leave,
            Self::BodyGone => RecoveryAction::Rebuild,
            Self::Malformed | Self::TooOften | Self::Refused | Self::NotPromised => {
                RecoveryAction::DeadLetter
            }
        }
    }

    /// Why this action is recommended.
    pub fn why(self) -> String {
        text!("pending-why", verdict = <&str>::from(self))
    }

    /// Whether a later verdict only completes the planned one: an order that was written but not acknowledged before an
    /// interruption.
    pub fn continues(self, planned: Self) -> bool {
        self == planned || (planned == Self::Stuck && self == Self::Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OrderId, VoucherId};
    use strum::IntoEnumIterator as _;

    const LIMITS: Limits = Limits { claim_idle_ms: 30_000, max_deliveries: 5 };
    const STUCK: Evidence = Evidence {
        is_written: false,
        fault: None,
        sale_lost: false,
        holder_alive: false,
        idle_ms: 10,
        deliveries: 1,
    };

    #[test]
    fn verdict_table() {
        let order = OrderId::from_i64(7).unwrap();
        let faulty = |fault| Evidence { fault: Some(fault), ..STUCK };
        let table = [
            (Evidence { is_written: true, ..faulty(OrderError::Gone) }, Verdict::Written),
            (STUCK, Verdict::Stuck),
            (Evidence { holder_alive: true, idle_ms: 30_000, ..STUCK }, Verdict::Stuck),
            (Evidence { holder_alive: true, ..STUCK }, Verdict::InHand),
            (faulty(OrderError::Gone), Verdict::BodyGone),
            (faulty(OrderError::Fields("no ID".into())), Verdict::Malformed),
            (Evidence { deliveries: 6, ..STUCK }, Verdict::TooOften),
            (Evidence { sale_lost: true, deliveries: 6, ..STUCK }, Verdict::SaleLost),
            (Evidence { sale_lost: true, holder_alive: true, ..STUCK }, Verdict::InHand),
            (Evidence { deliveries: 5, ..STUCK }, Verdict::Stuck),
            (
                Evidence { deliveries: 6, ..faulty(OrderError::NoSale(VoucherId(1))) },
                Verdict::Refused,
            ),
            (faulty(OrderError::IdTaken(order)), Verdict::Refused),
            (faulty(OrderError::NotPromised), Verdict::NotPromised),
            (Evidence { deliveries: 6, ..faulty(OrderError::NotPromised) }, Verdict::NotPromised),
            (
                Evidence { holder_alive: true, ..faulty(OrderError::IdTaken(order)) },
                Verdict::InHand,
            ),
        ];
        for (evidence, verdict) in table {
            assert_eq!(judge(&evidence, LIMITS), verdict, "{evidence:?}");
        }
    }
    #[test]
    fn names_match_json_and_all_are_listed() {
        for verdict in Verdict::iter() {
            assert!(Verdict::VARIANTS.contains(&verdict.into()));
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(json, format!("\"{}\"", <&str>::from(verdict)));
            let json = serde_json::to_string(&verdict.action()).unwrap();
            assert_eq!(json, format!("\"{}\"", <&str>::from(verdict.action())));
            assert!(RecoveryAction::VARIANTS.contains(&verdict.action().into()));
        }
    }

    #[test]
    fn only_interrupted_actions_are_completed_later() {
        assert!(Verdict::Written.continues(Verdict::Stuck));
        for (now, planned) in [
            (Verdict::Stuck, Verdict::Written),
            (Verdict::InHand, Verdict::Stuck),
            (Verdict::Malformed, Verdict::Stuck),
        ] {
            assert!(!now.continues(planned), "{now:?} {planned:?}");
        }
    }
}
