//! A launch: a sale that opens after a countdown, together with its load test.

use seckill_engine::LoadTest;
use seckill_model::{VoucherId, text};

use super::{text::sale_name, widgets::plain};

/// A launch as the operator confirms it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launch {
    /// The planned sale that it opens; without one, a sale is created when the countdown ends.
    pub(crate) planned: Option<VoucherId>,
    pub(crate) title: String,
    pub(crate) pieces: u64,
    pub(crate) buyers: u64,
    /// Seconds over which buyers arrive; 0 is as fast as possible.
    pub(crate) within: u64,
    /// Seconds from confirmation to start.
    pub(crate) countdown: u64,
    /// The reason, for the audit log.
    pub(crate) reason: Option<String>,
}

impl Launch {
    pub(super) fn rush(&self, voucher: VoucherId) -> LoadTest {
        LoadTest::new(voucher, self.buyers).within(self.within)
    }

    /// What is sold, in short.
    pub(super) fn subject(&self) -> String {
        match self.planned {
            Some(id) => sale_name(id, &self.title),
            None => text!("director-new-sale", title = plain(&self.title)),
        }
    }

    /// The launch in the top line of every view; without IDs in presenter mode.
    pub(crate) fn badge(&self, ids: bool) -> String {
        let subject = if ids { self.subject() } else { self.title.clone() };
        text!("director-with-buyers", subject, buyers = self.buyers)
    }

    /// What happens at the end of the countdown, one sentence per line.
    pub(crate) fn events(&self) -> String {
        let (count, title) = (self.pieces, plain(&self.title));
        let start = match self.planned {
            Some(id) => text!("director-starts-with-pieces-before", id, count),
            None => text!("director-sale-is-created-with-pieces", title, count),
        };
        let twice = self.rush(VoucherId(0)).twice();
        text!("director-events", start, buyers = self.buyers, seconds = self.within, twice)
    }
}
