//! Dead letters in the Snapshot: one page of them, as far as somebody looks at it.

use std::sync::Arc;

use serde::Serialize;

use seckill_model::{
    EntryId, LetterVerdict, Millis, OrderId, Said, UserId, VoucherId, dead_letter::Burial,
};

/// One page of the dead letters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LetterPage {
    /// Where the page starts: letters with this id or later.
    pub from: EntryId,
    /// When it was read, by the clock of Redis; `None` while nobody looks, or until it could be read.
    pub taken: Option<Millis>,
    /// Others stand behind it.
    pub more: bool,
    /// The letters, oldest first.
    pub lines: Arc<Vec<LetterLine>>,
}

/// One dead letter. Texts of unknown origin are bounded, and without what steers a terminal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LetterLine {
    /// Its own id.
    pub letter: EntryId,
    /// The entry that it was; `None` for a promise that never was one.
    pub entry: Option<EntryId>,
    /// When it was given up.
    pub at: Millis,
    /// Milliseconds since then, when the page was read.
    pub age_ms: u64,
    /// Why it was given up.
    pub reason: Said,
    /// From whose hands; empty where nobody held it.
    pub consumer: String,
    /// How often it had been delivered since it was last put into the stream.
    pub deliveries: u64,
    /// How often it was replayed before.
    pub replays: u64,
    /// The order that it asks for; `None` where the fields are not good.
    pub order: Option<OrderId>,
    /// Who bought.
    pub user: Option<UserId>,
    /// What was bought.
    pub voucher: Option<VoucherId>,
    /// Why it asks for no order.
    pub fault: Option<Said>,
    /// What is true of it.
    pub verdict: LetterVerdict,
    /// Every time that it was given up, oldest first.
    pub history: Vec<Burial>,
    /// Its own fields, the first of them.
    pub payload: Vec<(String, String)>,
    /// Fields that are left out.
    pub fields_more: usize,
}
