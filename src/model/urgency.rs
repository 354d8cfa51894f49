//! How urgent an alarm is.

use serde::Serialize;

/// How urgent an alarm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// Orders are lost or sold twice, nothing can be sold, or a server is unreachable.
    Critical,
    /// The operator should act soon.
    Warning,
    /// For the operator's information.
    Notice,
}
