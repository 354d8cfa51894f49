//! What is true of a pending entry, and which act follows: a rule without I/O.

use serde::Serialize;

/// What somebody found out about one pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The order that it asks for stands in SQL.
    pub order_in_sql: bool,
    /// Its body is still in the stream.
    pub body: Body,
    /// The node of its consumer gave a sign of life lately.
    pub holder_alive: bool,
    /// Milliseconds since it was last delivered.
    pub idle_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// The fields of a pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// They make an order.
    Good,
    /// They make none.
    Malformed,
    /// The entry was trimmed or deleted.
    Gone,
}

/// Limits that turn evidence into a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A holder that is alive keeps an entry this long, in milliseconds.
    pub claim_idle_ms: u64,
    /// More deliveries than this are too many.
    pub max_deliveries: u64,
}

/// What is true of one pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its order is in SQL; only the acknowledgement is missing.
    Written,
    /// No order yet, fields good, and its holder is dead or idle too long.
    Stuck,
    /// Held by a live node, and still young.
    InHand,
    /// Its body is gone from the stream.
    BodyGone,
    /// Its fields make no order.
    Malformed,
    /// Delivered more often than allowed.
    TooOften,
}

/// What should be done with one pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Tell Redis that it is done.
    Acknowledge,
    /// Take it over and write its order.
    Process,
    /// Leave it to its holder.
    Leave,
    /// Rebuild it from the buyers hash, else report the loss.
    Rebuild,
    /// Put it aside for a person.
    DeadLetter,
}

/// The verdict that the evidence supports.
pub fn judge(evidence: &Evidence, limits: Limits) -> Verdict {
    if evidence.order_in_sql {
        return Verdict::Written;
    }
    // A live holder may be writing it at this moment, whatever else is true.
    if evidence.holder_alive && evidence.idle_ms < limits.claim_idle_ms {
        return Verdict::InHand;
    }
    match evidence.body {
        Body::Gone => Verdict::BodyGone,
        Body::Malformed => Verdict::Malformed,
        Body::Good if evidence.deliveries > limits.max_deliveries => Verdict::TooOften,
        Body::Good => Verdict::Stuck,
    }
}

impl Verdict {
    /// The act that follows.
    pub fn act(self) -> Act {
        match self {
            Self::Written => Act::Acknowledge,
            Self::Stuck => Act::Process,
            Self::InHand => Act::Leave,
            Self::BodyGone => Act::Rebuild,
            Self::Malformed | Self::TooOften => Act::DeadLetter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { claim_idle_ms: 30_000, max_deliveries: 5 };
    const STUCK: Evidence = Evidence {
        order_in_sql: false,
        body: Body::Good,
        holder_alive: false,
        idle_ms: 10,
        deliveries: 1,
    };

    #[test]
    fn each_line_of_the_table() {
        let table = [
            (Evidence { order_in_sql: true, body: Body::Gone, ..STUCK }, Verdict::Written),
            (STUCK, Verdict::Stuck),
            (Evidence { holder_alive: true, idle_ms: 30_000, ..STUCK }, Verdict::Stuck),
            (Evidence { holder_alive: true, ..STUCK }, Verdict::InHand),
            (Evidence { body: Body::Gone, ..STUCK }, Verdict::BodyGone),
            (Evidence { body: Body::Malformed, ..STUCK }, Verdict::Malformed),
            (Evidence { deliveries: 6, ..STUCK }, Verdict::TooOften),
            (Evidence { deliveries: 5, ..STUCK }, Verdict::Stuck),
        ];
        for (evidence, verdict) in table {
            assert_eq!(judge(&evidence, LIMITS), verdict, "{evidence:?}");
        }
    }
}
