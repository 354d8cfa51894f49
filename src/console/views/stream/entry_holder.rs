//! The holder of a stream entry and its label; combines the replies of both servers.

use seckill_engine::telemetry::snapshot::{DeliveryState, EntryLine};
use seckill_model::message::Label;

use crate::text::UNKNOWN;

/// The holder of an entry. Row, detail, filter and copy all use it.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryHolder<'a> {
    Letters,
    /// It is unknown whether a dead letter refers to it.
    LettersOrNot,
    Done,
    Waiting,
    Held {
        consumer: &'a str,
        idle_ms: u64,
        deliveries: u64,
    },
    Unknown,
}

impl<'a> EntryHolder<'a> {
    pub(super) fn of(line: &'a EntryLine) -> Self {
        match (line.dead, &line.holding) {
            (Some(true), _) => Self::Letters,
            (None, _) => Self::LettersOrNot,
            (Some(false), DeliveryState::Acknowledged) => Self::Done,
            (Some(false), DeliveryState::Undelivered) => Self::Waiting,
            (Some(false), DeliveryState::Pending { consumer, idle_ms, deliveries }) => {
                Self::Held { consumer, idle_ms: *idle_ms, deliveries: *deliveries }
            }
            (Some(false), DeliveryState::Unknown) => Self::Unknown,
        }
    }

    pub(super) fn word(self) -> &'static str {
        let word = match self {
            Self::Letters => Label("stream-in-dead-letters"),
            Self::LettersOrNot => Label("stream-acknowledged-or-dead"),
            Self::Done => Label("stream-acknowledged"),
            Self::Waiting => Label("stream-waiting"),
            Self::Held { .. } => Label("common-pending"),
            Self::Unknown => UNKNOWN,
        };
        word.read()
    }
}
