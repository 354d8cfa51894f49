//! What a view sees of the console, and the texts that all views share.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use jiff::tz::TimeZone;
use ratatui::text::{Line, Span};
use seckill_engine::{
    Health, SaleLine, Snapshot, commands::AggregateLine, telemetry::snapshot::number_list,
};
use seckill_model::{Millis, VoucherId};

use super::Users;
use crate::{lag_trend::LagTrend, text, theme::Theme, widgets::fit};

/// Smallest window of the full console, and of the reduced one.
pub(crate) const COMPLETE: (u16, u16) = (80, 24);
const COMPACT: (u16, u16) = (60, 15);

/// Whether a window is too small for more than a message.
pub(crate) fn is_too_small(width: u16, height: u16) -> bool {
    width < COMPACT.0 || height < COMPACT.1
}

/// Age in milliseconds from which figures are marked as outdated.
const STALE_MS: u64 = 2_000;
/// Cells of the partitions that a heading names; the alarm names all of them.
const NUMBERS: usize = 16;

/// Age from which a page is marked as outdated; pages are read once a second.
const STALE_PAGE_MS: u64 = 4_000;

/// Whether data of a server is outdated.
pub(crate) fn is_stale(health: &Health, now: Millis) -> bool {
    !health.up || health.last_ok.is_none_or(|at| now.since(at) > STALE_MS)
}

/// The origin of a panel's figures.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Redis,
    Sql,
}

/// What a view sees of the console: the snapshot on the screen, how it is drawn, and the newest snapshot, which commands
/// refer to.
pub(crate) struct Scene {
    /// The snapshot on the screen.
    pub(crate) shown: Arc<Snapshot>,
    /// The newest snapshot; the same one unless the display is paused.
    pub(crate) newest: Arc<Snapshot>,
    pub(crate) frozen: bool,
    pub(crate) now: Millis,
    pub(crate) zone: TimeZone,
    pub(crate) theme: Theme,
    /// Whether user IDs are masked, in every view.
    pub(crate) users: Users,
    pub(crate) lag: LagTrend,
    /// The window is too small for blank rows and details beside the figures.
    pub(crate) compact: bool,
    /// The chosen sale.
    pub(crate) chosen: Option<VoucherId>,
    /// The filter has the focus.
    pub(crate) typing: bool,
    /// The number that the guide counts down to the start of a sale.
    pub(crate) countdown: Option<u8>,
    /// Aggregate report of the last load test of this console on a sale.
    pub(crate) load_reports: BTreeMap<VoucherId, Vec<AggregateLine>>,
}

impl Scene {
    pub(crate) fn new(theme: Theme, zone: TimeZone, now: Millis) -> Self {
        Self {
            shown: Arc::default(),
            newest: Arc::default(),
            frozen: false,
            now,
            zone,
            theme,
            users: Users::default(),
            lag: LagTrend::default(),
            compact: false,
            chosen: None,
            typing: false,
            countdown: None,
            load_reports: BTreeMap::new(),
        }
    }

    /// A sale of the newest snapshot, or of that on the screen if it is no longer listed.
    pub(crate) fn sale(&self, voucher: VoucherId) -> Option<&SaleLine> {
        self.newest.sale(voucher).or_else(|| self.shown.sale(voucher))
    }

    /// The reference time of ages; it stops while the display is paused.
    pub(crate) fn seen(&self) -> Millis {
        if self.frozen { self.shown.taken } else { self.now }
    }

    /// Whether a snapshot was taken.
    pub(crate) fn has_data(&self) -> bool {
        self.shown.seq > 0 || self.shown.taken != Millis(0)
    }

    pub(crate) fn health(&self, source: Source) -> &Health {
        match source {
            Source::Redis => &self.shown.redis,
            Source::Sql => &self.shown.sql,
        }
    }

    /// The heading of a panel, with the age of its figures if they are outdated, and with the partitions that they lack.
    pub(crate) fn heading(&self, title: &str, sources: &[Source]) -> Line<'static> {
        let mut heading = self.whole_heading(title, sources);
        let of_redis = sources.iter().any(|it| matches!(it, Source::Redis));
        let missing = self.missing().filter(|_| of_redis);
        heading
            .extend(missing.map(|missing| Span::styled(format!("  {missing}"), self.theme.warn)));
        heading
    }

    /// The partitions of lost servers, whose figures are unknown.
    pub(crate) fn missing(&self) -> Option<String> {
        let lost = self.shown.unreachable.iter();
        let mut partitions: Vec<u16> = lost.flat_map(|server| server.partitions.clone()).collect();
        partitions.sort_unstable();
        let numbers = fit(&number_list(&partitions), NUMBERS);
        let count = partitions.len();
        (count > 0).then(|| text!("console-without-partitions", count, numbers))
    }

    /// As [`Self::heading`], of figures that no partition lacks.
    pub(crate) fn whole_heading(&self, title: &str, sources: &[Source]) -> Line<'static> {
        let mut spans = vec![Span::styled(title.to_owned(), self.theme.heading)];
        for source in sources.iter().filter(|it| is_stale(self.health(**it), self.seen())) {
            spans.push(Span::styled(format!("  {}", self.age(*source)), self.theme.warn));
        }
        Line::from(spans)
    }

    /// As [`Self::heading`], with the age of a page that was not read again for a while.
    pub(crate) fn page_heading(
        &self,
        title: &str,
        sources: &[Source],
        taken: Option<Millis>,
    ) -> Line<'static> {
        let mut heading = self.heading(title, sources);
        let age = taken.map_or(0, |taken| self.seen().since(taken));
        // The age of an outdated source is already shown.
        if heading.spans.len() == 1 && age > STALE_PAGE_MS {
            heading.push_span(Span::styled(format!("  {}", text::old(age)), self.theme.warn));
        }
        heading
    }

    /// The age of the last figures of a server.
    pub(crate) fn age(&self, source: Source) -> String {
        let age = self.health(source).last_ok.map(|at| text::old(self.seen().since(at)));
        let age = age.unwrap_or_else(|| text::UNKNOWN.to_owned());
        let name = if matches!(source, Source::Redis) { text::REDIS } else { text::SQL };
        format!("{name} {age}")
    }

    /// Whether the data of Redis is currently unknown.
    pub(crate) fn is_blind(&self) -> bool {
        is_stale(&self.shown.redis, self.seen())
    }

    /// The line of a view at which its table begins.
    pub(crate) fn table_top(&self) -> u16 {
        if self.compact { 1 } else { 2 }
    }

    /// A time in the user's time zone, in at most 11 cells: to the second, or of another day its date and minute.
    pub(crate) fn at_second(&self, at: Millis) -> String {
        self.on_day(at, 11..19)
    }

    /// As [`Self::at_second`], today to the minute as well.
    pub(crate) fn at(&self, at: Millis) -> String {
        self.on_day(at, 11..16)
    }

    /// This part of a time, or of another day its date and minute.
    fn on_day(&self, at: Millis, today: Range<usize>) -> String {
        let full = at.date_time(&self.zone);
        let is_today = full.get(..10) == self.seen().date_time(&self.zone).get(..10);
        full.get(if is_today { today } else { 5..16 }).unwrap_or(&full).to_owned()
    }
}
