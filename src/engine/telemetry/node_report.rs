//! What a node publishes of itself with its heartbeats, for the alarms of other processes.

use std::collections::BTreeMap;

use seckill_model::{Message, VoucherId};
use serde::{Deserialize, Serialize};

/// Refused sales that a heartbeat publishes: a fault of more of them is one of the database.
const PUBLISHED: usize = 100;

/// The report of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)] // A node of another version may publish other fields.
pub(crate) struct NodeReport {
    /// Sales of which the database accepts no orders from it, each with the reason as it is stored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<u64, String>,
    /// How far the clock of Redis is ahead of its own, in milliseconds.
    pub(crate) clock_ahead_ms: i64,
    /// The time zone that its settings want for the deployment, if they name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<String>,
}

impl NodeReport {
    /// Builds the report; `refused` is limited to [`PUBLISHED`] sales.
    pub(crate) fn new(
        refused: BTreeMap<VoucherId, Message>,
        clock_ahead_ms: i64,
        zone: Option<String>,
    ) -> Self {
        let refused = refused.into_iter().take(PUBLISHED);
        let refused = refused.map(|(sale, why)| (sale.0, why.stored())).collect();
        Self { refused, clock_ahead_ms, zone }
    }

    /// The JSON that a heartbeat publishes.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Self::to_json`] of another process returned; `None` if it is unreadable.
    pub(crate) fn read(node: &str, json: &str) -> Option<Self> {
        serde_json::from_str(json)
            .inspect_err(|error| tracing::debug!(node, %error, "unreadable report of a node"))
            .ok()
    }

    /// Sales of which the database accepts no orders, each with the reason.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (VoucherId, Message)> {
        self.refused.iter().map(|(sale, why)| (VoucherId(*sale), Message::from_stored(why.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_published() {
        let refused = BTreeMap::from([(VoucherId(3), Message::from("no room"))]);
        let report = NodeReport::new(refused.clone(), -7, Some("Asia/Kolkata".to_owned()));
        let read = NodeReport::read("n", &report.to_json()).unwrap();
        assert_eq!(read, report);
        assert_eq!(read.refused().collect::<BTreeMap<_, _>>(), refused);
        // Of another version.
        let other = NodeReport::read("n", r#"{"clock_ahead_ms":9,"later":[1]}"#).unwrap();
        assert_eq!(other, NodeReport { clock_ahead_ms: 9, ..NodeReport::default() });
        assert_eq!(NodeReport::read("n", "x"), None);
    }
}
