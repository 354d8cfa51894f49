//! Which actions can be run by name, and why one is unavailable.

use seckill_engine::telemetry::snapshot::PendingLine;
use seckill_model::{
    ledger::SaleAudit,
    locale::in_english,
    message::{Label, text},
};

use super::{
    app::App,
    dialogs::{Offer, Palette},
    keymap::{self, Action, Context},
    launch,
    text::{self, commands, conventions as wording},
    views::{Row as _, View, ledger::wording as ledger, letters::wording as letters},
};

/// Maximum number of recent actions in the palette.
const REMEMBERED: usize = 20;

impl App {
    /// The palette with every named action: those of this view first.
    pub(super) fn palette(&self) -> Palette {
        let here = keymap::actions(self.place());
        let mut offers: Vec<Offer> =
            here.iter().filter_map(|action| offer(*action, self.why_not(*action))).collect();
        for view in Context::views() {
            for action in keymap::actions(view) {
                let homes = homes(action);
                // Bindings of all views apply here.
                let elsewhere = !here.contains(&action) && !homes.is_empty();
                if elsewhere && !offers.iter().any(|it| it.action == action) {
                    // A repair opens the Ledger automatically.
                    let why = match action {
                        Action::Repair => self.why_not(action),
                        _ => Some(text!("conventions-in", views = homes)),
                    };
                    offers.extend(offer(action, why));
                }
            }
        }
        Palette::new(offers, &self.work.asked)
    }

    /// Remembers an action run by name.
    pub(super) fn remember(&mut self, action: Action) {
        self.work.asked.retain(|it| *it != action);
        self.work.asked.insert(0, action);
        self.work.asked.truncate(REMEMBERED);
    }

    /// The unreachable server that a command would have to wait for.
    pub(super) fn away(&self) -> Option<String> {
        let away = launch::away(&self.display.newest.redis, &self.display.newest.sql);
        away.map(|server| text!("command-try-again-once", away = server))
    }

    /// Why an action of this view would have no effect, for the palette and for its key.
    pub(super) fn why_not(&self, action: Action) -> Option<String> {
        if action.is_command() && self.display.newest.read_only {
            return Some(text::READ_ONLY.to_lowercase());
        }
        let stream = self.display.newest.stream.as_ref();
        let reason = |why: bool, word: String| why.then_some(word);
        match action {
            Action::PlanRecovery => {
                let none = self.display.newest.redis.up
                    && PendingLine::page(&self.display.newest).total == Some(0);
                reason(none, commands::NOTHING_PENDING.to_string())
            }
            Action::Repair => {
                let audited = self.display.newest.ledger.taken.is_some();
                let found = |line: &SaleAudit| !line.findings.is_empty();
                let page = &self.display.newest.ledger;
                let none = !page.lines.iter().any(found) && page.partitions.is_empty();
                reason(audited && none, ledger::NOTHING_TO_REPAIR.to_string())
            }
            Action::ReplayLetters | Action::Discard | Action::Compensate => {
                reason(stream.is_none_or(|it| it.dead == 0), letters::NOTHING_DEAD.to_string())
            }
            Action::StopCommand => reason(
                !self.display.newest.recoveries.iter().any(|line| line.changes),
                commands::NOTHING_UNDER_WAY.to_string(),
            ),
            Action::Pause if self.view == View::Jobs => {
                reason(!self.has_choice(), self.no_choice())
            }
            Action::Start | Action::Pause | Action::End | Action::Rush => {
                reason(self.display.shown.sales.is_empty(), commands::NO_SALE.to_string())
                    .or_else(|| self.away())
            }
            Action::Fire => self.director.why_not_fire(),
            Action::Abort => reason(
                self.director.launch.is_none() && self.display.newest.load_tests.is_empty(),
                launch::NOTHING_TO_STOP.to_string(),
            ),
            Action::Filter => reason(self.view == View::Overview, commands::NO_FILTER.to_string()),
            Action::SortNext | Action::SortTurn => match self.paged_total() {
                Some(total) => Some(wording::in_pages(total)),
                None => reason(self.view == View::Overview, wording::NO_TABLE.to_string()),
            },
            Action::CopyName | Action::CopyRow | Action::Release | Action::RunJob | Action::Pay => {
                reason(!self.has_choice(), self.no_choice())
            }
            _ => None,
        }
    }
}

fn offer(action: Action, why: Option<String>) -> Option<Offer> {
    let name = action.name()?;
    // The English name and the settings name, in every language.
    let english = in_english(|| action.name()).unwrap_or_default();
    let alias = format!("{english} {}", action.setting().replace('-', " "));
    Some(Offer { action, name, alias, why })
}

/// The views in which an action is available.
fn homes(action: Action) -> String {
    let of = |context: &Context| {
        keymap::table().iter().any(|it| it.context == *context && it.action == action)
    };
    Context::views().filter(of).map(Context::heading).collect::<Vec<_>>().join(&Label("list-items"))
}
