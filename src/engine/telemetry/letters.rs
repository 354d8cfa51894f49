//! Dead letters in the Snapshot.

use serde::Serialize;

use seckill_model::{
    EntryId, LetterVerdict, Message, Millis, OrderId, UserId, VoucherId, dead_letter::Burial,
};

/// One dead letter. Texts of unknown origin are truncated and free of control characters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LetterLine {
    /// Its own id.
    pub letter: EntryId,
    /// The ID of its entry; `None` for a promise that was never enqueued.
    pub entry: Option<EntryId>,
    /// When it became a dead letter.
    pub at: Millis,
    /// Its age in milliseconds when the page was read.
    pub age_ms: u64,
    /// The cause.
    pub reason: Message,
    /// Its last consumer; empty if there was none.
    pub consumer: String,
    /// Deliveries since it was last enqueued.
    pub deliveries: u64,
    /// Number of replays.
    pub replays: u64,
    /// The requested order; `None` if the fields are invalid.
    #[serde(rename = "order_id")]
    pub order: Option<OrderId>,
    /// The buyer.
    #[serde(rename = "user_id")]
    pub user: Option<UserId>,
    /// The voucher.
    #[serde(rename = "voucher_id")]
    pub voucher: Option<VoucherId>,
    /// The fault of its fields.
    pub fault: Option<Message>,
    /// Its verdict.
    pub verdict: LetterVerdict,
    /// All its failures, oldest first.
    pub history: Vec<Burial>,
    /// Its first fields.
    pub payload: Vec<(String, String)>,
    /// Number of fields omitted.
    pub fields_more: usize,
}
