//! The launch director: arms a launch, fires it at the end of its countdown, and cancels it if anything differs from
//! what the operator confirmed.
//!
//! It decides; the application asks and sends. The countdown follows the clock of Redis, and the engine is not called
//! before its end, so an aborted launch has no effect.

use std::time::Duration;

use seckill_engine::{Command, Reply, SaleLine, Snapshot};
use seckill_model::{Label, Millis, NewSale, Phase, VoucherId, text};

use super::{
    Answer,
    dialogs::{Confirm, Effect, Intent},
    launch::Launch,
    text::{commands::question, figures::span, sale_in},
};

pub(crate) const NOTHING_TO_STOP: Label = Label("director-no-launch-is-scheduled-and-no-load");

/// A console that was suspended for longer than this at the end of the countdown no longer fires.
const LATE_MS: u64 = 3_000;

/// The state of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LaunchState {
    /// When it fires.
    Counting(Millis),
    /// The command is outstanding; `true` if its buyers are no longer wanted.
    Opening(Box<Command>, bool),
    /// Its buyers are arriving.
    Rushing(VoucherId),
}

/// Holds at most one launch.
#[derive(Debug, Default)]
pub(crate) struct Director {
    pub(super) launch: Option<(Launch, LaunchState)>,
}

impl Director {
    /// The launch whose sale is not open yet, and when it fires; `None` while the sale opens.
    pub(crate) fn scheduled(&self) -> Option<(&Launch, Option<Millis>)> {
        match self.launch.as_ref()? {
            (launch, LaunchState::Counting(at)) => Some((launch, Some(*at))),
            (launch, LaunchState::Opening(..)) => Some((launch, None)),
            (_, LaunchState::Rushing(_)) => None,
        }
    }

    /// The launch that is counting down.
    pub(super) fn armed(&self) -> Option<&Launch> {
        self.scheduled().filter(|(_, at)| at.is_some()).map(|(launch, _)| launch)
    }

    /// Why no launch can be fired now.
    pub(super) fn why_not_fire(&self) -> Option<String> {
        match self.scheduled() {
            Some((_, Some(_))) => None,
            Some((_, None)) => Some(Label("director-sale-is-being-started-load").to_owned()),
            None => Some(text!("director-arms-one")),
        }
    }

    /// The sale being launched, once its number is known.
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        match self.launch.as_ref()? {
            (_, LaunchState::Rushing(id)) => Some(*id),
            (launch, _) => launch.planned,
        }
    }

    /// Time until the countdown shows another second, or ends.
    pub(super) fn due(&self, now: Millis) -> Option<Duration> {
        let left = self.scheduled()?.1?.since(now);
        let step = left.checked_sub(1).map_or(0, |left| left % 1_000 + 1);
        Some(Duration::from_millis(step))
    }

    /// Starts the countdown of a confirmed launch.
    pub(super) fn arm(&mut self, launch: Launch, now: Millis) -> Effect {
        let at = now.plus(i64::try_from(launch.countdown).unwrap_or(0) * 1_000);
        let (subject, seconds) = (launch.subject(), launch.countdown);
        self.launch = Some((launch, LaunchState::Counting(at)));
        Effect::Note(text!("director-scheduled-starts-in-s-press", subject, seconds))
    }

    /// Cancels the launch, and reports the reason and the next step.
    fn call_off(&mut self, why: &str) -> Effect {
        let subject = self.launch.take().map(|(launch, _)| launch.subject()).unwrap_or_default();
        Effect::Failure(text!("director-launch-of-cancelled-nothing", subject, why))
    }

    /// Fires the launch at the end of its countdown, unless that has long passed. Until then, cancels a launch that no
    /// longer matches what the operator confirmed.
    pub(super) fn advance(&mut self, newest: &Snapshot, now: Millis) -> Option<Effect> {
        let (launch, at) = self.scheduled()?;
        let at = at?;
        Some(match now.since(at) {
            _ if at > now => self.call_off(&unfit(newest, launch, Some(at))?),
            late if late > LATE_MS => {
                self.call_off(&text!("director-console-was-suspended", late = span(late)))
            }
            _ => self.fire(None, newest, now),
        })
    }

    /// Opens the sale of the launch, or cancels the launch if that is impossible now.
    pub(super) fn fire(
        &mut self,
        reason: Option<String>,
        newest: &Snapshot,
        now: Millis,
    ) -> Effect {
        let Some((launch, state @ LaunchState::Counting(_))) = &mut self.launch else {
            return Effect::Done;
        };
        launch.reason = reason.or_else(|| launch.reason.take());
        let away = away(newest).map(Label::to_owned);
        if let Some(why) = away.or_else(|| unfit(newest, launch, None)) {
            return self.call_off(&why);
        }
        let created = || NewSale::checked(&launch.title, launch.pieces, None, None, now);
        let command = match launch.planned {
            Some(planned) => Ok(Command::StartSale(planned)),
            None => created().map(Command::CreateSale),
        };
        match command {
            Ok(command) => {
                *state = LaunchState::Opening(Box::new(command.clone()), false);
                Effect::Send(command, launch.reason.clone())
            }
            Err(fault) => {
                self.launch = None;
                Effect::Failure(fault.to_string())
            }
        }
    }

    /// Removes the launch if it waits for the reply to this command.
    pub(super) fn take_awaiting(&mut self, command: &Command) -> Option<(Launch, LaunchState)> {
        self.launch.take_if(|(_, state)| match state {
            LaunchState::Counting(_) => false,
            LaunchState::Opening(asked, _) => **asked == *command,
            LaunchState::Rushing(voucher) => {
                matches!(command, Command::LoadTest(plan) if plan.voucher == *voucher)
            }
        })
    }

    /// The sale that the launch has opened, and what follows; `None` if this is not the reply that it waits for. A
    /// failure is reported like that of any command.
    pub(super) fn on_answer(&mut self, (command, answer): &Answer) -> Option<(VoucherId, Effect)> {
        let (launch, LaunchState::Opening(_, withdrawn)) = self.take_awaiting(command)? else {
            return None;
        };
        let Ok(Ok(Reply::SaleChanged { voucher: opened, .. } | Reply::SaleCreated(opened))) =
            answer
        else {
            return None;
        };
        let (opened, reason) = (*opened, launch.reason.clone());
        if withdrawn {
            return Some((opened, Effect::Send(Command::PauseSale(opened), reason)));
        }
        let command = Command::LoadTest(launch.rush(opened));
        self.launch = Some((launch, LaunchState::Rushing(opened)));
        Some((opened, Effect::Send(command, reason)))
    }

    /// Aborts the launch; `None` if its load test has to be stopped instead.
    pub(super) fn disarm(&mut self) -> Option<Effect> {
        match &mut self.launch {
            Some((launch, LaunchState::Counting(_))) => {
                let subject = launch.subject();
                self.launch = None;
                Some(Effect::Success(text!("director-cancelled-was-not-started-nothing", subject)))
            }
            Some((_, LaunchState::Opening(_, withdrawn))) => {
                *withdrawn = true;
                Some(Effect::note(Label("director-no-requests-will-be-sent")))
            }
            _ => None,
        }
    }

    /// Asks for confirmation before aborting the launch or stopping its load test, or else that of `chosen`; `None` if
    /// there is none.
    pub(super) fn ask_abort(
        &self,
        newest: &Snapshot,
        chosen: Option<VoucherId>,
    ) -> Option<Confirm> {
        let voucher = match &self.launch {
            Some((_, LaunchState::Rushing(id))) => *id,
            Some((launch, _)) => {
                let question = question!("ask-cancel-launch", launch = launch.badge(true));
                return Some(Confirm::new(question, Intent::Disarm));
            }
            None => chosen?,
        };
        let sale = newest.sale(voucher);
        let pauses = sale.is_some_and(|sale| sale.phase == Phase::Running);
        let name = sale_in(newest, voucher);
        let of = || newest.load_tests.iter().filter(|rush| rush.voucher_id == voucher);
        let sent: u64 = of().map(|rush| rush.sent).sum();
        let planned: u64 = of().map(|rush| rush.planned).sum();
        let question = if pauses {
            question!("ask-stop-load-test-and-pause", name, sent, planned)
        } else {
            question!("ask-stop-load-test", name, sent, planned)
        };
        Some(Confirm::new(question, Intent::Abort { voucher, pauses }))
    }
}

/// Why a launch no longer matches what the operator confirmed; `at` is when it would fire.
fn unfit(newest: &Snapshot, launch: &Launch, at: Option<Millis>) -> Option<String> {
    let starts = |sale: &SaleLine| sale.begin.zip(at).is_some_and(|(begin, at)| begin <= at);
    match newest.sale(launch.planned?) {
        None => Some(text!("command-sale-is-no-longer-listed")),
        Some(sale) if sale.phase != Phase::Planned => Some(text!("director-sale-is-no-longer")),
        Some(sale) if sale.initial != launch.pieces => {
            Some(text!("director-stock-changed", now = sale.initial, asked = launch.pieces))
        }
        Some(sale) if starts(sale) => Some(text!("director-sale-starts-by-itself-before")),
        Some(_) => None,
    }
}

/// The unreachable server that a sale command waits for.
pub(super) fn away(newest: &Snapshot) -> Option<Label> {
    match (&newest.redis, &newest.sql) {
        (redis, _) if !redis.up => Some(Label("director-redis-is-unreachable")),
        (redis, _) if !redis.takes_writes() => Some(Label("director-redis-rejects-writes")),
        (_, sql) if !sql.up => Some(Label("director-database-is-unreachable")),
        (_, sql) if !sql.takes_writes() => Some(Label("director-database-rejects-writes")),
        _ => None,
    }
}
