//! Arming, firing and stopping a launch. If anything differs from what the operator confirmed, it is cancelled.

use std::time::Duration;

use seckill_engine::{
    commands::{Command, Reply},
    telemetry::snapshot::SaleLine,
};
use seckill_model::{
    Millis, NewSale, Phase, VoucherId,
    message::{Label, text},
};

use super::{
    app::{Answer, App},
    dialogs::{Confirm, Dialog, Form, Intent, Subject},
    keymap::{Action, key_of},
    launch::{Launch, LaunchState, NOTHING_TO_STOP, OPENING, away, fire_hint},
    status::Tone,
    text::{commands::question, figures::span, sale_name},
    view::View,
};

/// A console that was suspended for longer than this at the end of the countdown no longer fires.
const LATE_MS: u64 = 3_000;

impl App {
    pub(super) fn ask_arm(&mut self) {
        if self.director.launch.is_some() {
            return self
                .note(text!("director-launch-is-scheduled-press", abort = key_of(Action::Abort)));
        }
        let planned = |id: &VoucherId| {
            self.display.newest.sale(*id).is_some_and(|sale| sale.phase == Phase::Planned)
        };
        let meant = self.seen_sale().filter(planned).or(self.presented().filter(planned));
        let draft = self.work.drafts.take(&Subject::Launch(meant));
        let form = draft.unwrap_or_else(|| Form::launch(meant, &self.display.newest.sales));
        self.dialog = Some(Dialog::Form(form));
    }

    pub(super) fn arm(&mut self, launch: Launch) {
        let at = self.display.now.plus(i64::try_from(launch.countdown).unwrap_or(0) * 1_000);
        self.director.last_title.clone_from(&launch.title);
        self.note(text!(
            "director-scheduled-starts-in-s-press",
            subject = launch.subject(),
            seconds = launch.countdown,
            abort = key_of(Action::Abort)
        ));
        self.director.launch = Some((launch, LaunchState::Counting(at)));
        self.settle_launch();
    }

    /// Why a launch no longer matches what the operator confirmed; `at` is when it would fire.
    fn unfit(&self, launch: &Launch, at: Option<Millis>) -> Option<String> {
        let starts = |sale: &SaleLine| sale.begin.zip(at).is_some_and(|(begin, at)| begin <= at);
        match self.display.newest.sale(launch.planned?) {
            None => Some(text!("director-it-is-no-longer-listed")),
            Some(sale) if sale.phase != Phase::Planned => Some(text!("director-sale-is-no-longer")),
            Some(sale) if sale.initial != launch.pieces => {
                Some(text!("director-stock-changed", now = sale.initial, asked = launch.pieces))
            }
            Some(sale) if starts(sale) => Some(text!("director-sale-starts-by-itself-before")),
            Some(_) => None,
        }
    }

    /// Cancels the launch, and reports the reason and the next step.
    fn call_off(&mut self, launch: &Launch, why: &str) {
        self.director.launch = None;
        self.terminal.dirty = true;
        self.close_fire();
        let (subject, arm) = (launch.subject(), key_of(Action::Arm));
        self.status.failure(text!("director-launch-of-cancelled-nothing", subject, why, arm));
    }

    /// Follows the newest snapshot, also while the display is paused.
    pub(super) fn settle_launch(&mut self) {
        if let Some((launch, Some(at))) = self.director.scheduled()
            && let Some(why) = self.unfit(launch, Some(at))
        {
            let launch = launch.clone();
            self.call_off(&launch, &why);
        }
    }

    /// Time until the countdown shows another second, or ends.
    pub(super) fn launch_due(&self) -> Option<Duration> {
        let left = self.director.scheduled()?.1?.since(self.display.now);
        Some(Duration::from_millis(match left {
            0 => 0,
            left => (left - 1) % 1_000 + 1,
        }))
    }

    /// Advances the countdown, and fires the launch at its end unless that has long passed.
    pub(super) fn on_launch_due(&mut self) {
        self.terminal.dirty = true;
        let Some((launch, Some(at))) = self.director.scheduled() else { return };
        let late = self.display.now.since(at);
        if late > LATE_MS {
            let why = text!("director-console-was-suspended", late = span(late));
            self.call_off(&launch.clone(), &why);
        } else if at <= self.display.now {
            self.fire();
        }
    }

    pub(super) fn ask_fire(&mut self) {
        let Some(launch) = self.director.armed() else {
            return;
        };
        let question = question!("ask-launch-now", events = launch.events());
        let intent = Intent::Fire(Box::new(launch.clone()));
        self.dialog = Some(Dialog::Confirm(Confirm::new(question, intent)));
    }

    /// Fires the confirmed launch, unless the countdown has already fired it.
    pub(super) fn fire_now(&mut self, asked: &Launch, reason: Option<String>) {
        match &mut self.director.launch {
            Some((launch, LaunchState::Counting(_))) if launch == asked => {
                launch.reason = reason.or_else(|| launch.reason.take());
                self.fire();
            }
            Some((_, LaunchState::Opening(..) | LaunchState::Rushing(_))) => self.note(OPENING),
            _ => self.note(fire_hint()),
        }
    }

    /// Closes a question about a launch that has fired or was aborted.
    fn close_fire(&mut self) {
        if matches!(&self.dialog, Some(Dialog::Confirm(it)) if matches!(it.intent, Intent::Fire(_)))
        {
            self.dialog = None;
        }
    }

    fn fire(&mut self) {
        let Some((launch, LaunchState::Counting(_))) = self.director.launch.take() else {
            return;
        };
        self.close_fire();
        let newest = &self.display.newest;
        let away = away(&newest.redis, &newest.sql).map(Label::to_owned);
        if let Some(why) = away.or_else(|| self.unfit(&launch, None)) {
            return self.call_off(&launch, &why);
        }
        let Launch { title, pieces, .. } = &launch;
        let command = match launch.planned.map(Command::StartSale) {
            Some(start) => Ok(start),
            None => NewSale::checked(title, *pieces, None, None, self.display.now)
                .map(Command::CreateSale),
        };
        let command = match command {
            Ok(command) => command,
            Err(fault) => return self.status.failure(fault.to_string()),
        };
        if self.send_because(command.clone(), launch.reason.clone()) {
            self.director.launch = Some((launch, LaunchState::Opening(Box::new(command), false)));
        }
    }

    /// Handles the replies that a launch waits for; `false` if this is not one of them.
    pub(super) fn launch_goes_on(&mut self, (command, answer): &Answer) -> bool {
        let is_awaited = match &self.director.launch {
            Some((_, LaunchState::Opening(asked, _))) => **asked == *command,
            Some((_, LaunchState::Rushing(voucher))) => {
                matches!(command, Command::LoadTest(plan) if plan.voucher == *voucher)
            }
            _ => false,
        };
        let awaited = self.director.launch.take_if(|_| is_awaited);
        let Some((launch, LaunchState::Opening(_, withdrawn))) = awaited else {
            return false;
        };
        let Ok(Ok(Reply::SaleChanged { voucher: opened, .. } | Reply::SaleCreated(opened))) =
            answer
        else {
            // Reported like any failed command; there is nothing to continue.
            return false;
        };
        let opened = *opened;
        self.presenter.sale = Some(opened);
        self.presenter.launched = true;
        if withdrawn {
            self.send_because(Command::PauseSale(opened), launch.reason);
        } else if self.send_because(Command::LoadTest(launch.rush(opened)), launch.reason.clone()) {
            self.director.launch = Some((launch, LaunchState::Rushing(opened)));
        }
        true
    }

    /// Aborts the confirmed launch, or handles its outcome if it is already over.
    pub(super) fn disarm(&mut self, about: &Launch) {
        match &mut self.director.launch {
            Some((launch, LaunchState::Counting(_))) if launch == about => {
                let subject = launch.subject();
                self.director.launch = None;
                let done = text!("director-cancelled-was-not-started-nothing", subject);
                self.status.note(Tone::Good, done, self.display.now);
            }
            Some((_, LaunchState::Opening(_, withdrawn))) => {
                *withdrawn = true;
                self.note(Label("director-no-requests-will-be-sent"));
            }
            _ => self.abort(),
        }
    }

    /// Asks for confirmation before aborting a launch or stopping its load test.
    pub(super) fn abort(&mut self) {
        let newest = &self.display.newest;
        let voucher = match &self.director.launch {
            Some((_, LaunchState::Rushing(id))) => *id,
            Some((launch, _)) => {
                let question = question!("ask-cancel-launch", launch = launch.badge(true));
                let intent = Intent::Disarm(Box::new(launch.clone()));
                self.dialog = Some(Dialog::Confirm(Confirm::new(question, intent)));
                return;
            }
            None if newest.load_tests.is_empty() => return self.note(NOTHING_TO_STOP),
            None => match self.meant_rush() {
                Some(id) => id,
                None => return self.choose_rush(),
            },
        };
        let sale = newest.sale(voucher);
        let pauses = sale.is_some_and(|sale| sale.phase == Phase::Running);
        let name = sale.map_or_else(|| format!("#{voucher}"), |it| sale_name(voucher, &it.title));
        let of = || newest.load_tests.iter().filter(|rush| rush.voucher_id == voucher);
        let sent: u64 = of().map(|rush| rush.sent).sum();
        let planned: u64 = of().map(|rush| rush.planned).sum();
        let question = if pauses {
            question!("ask-stop-load-test-and-pause", name, sent, planned)
        } else {
            question!("ask-stop-load-test", name, sent, planned)
        };
        let confirm = Confirm::new(question, Intent::Abort { voucher, pauses });
        self.dialog = Some(Dialog::Confirm(confirm));
    }

    /// The sale on the screen that has a load test, or the only such sale.
    fn meant_rush(&self) -> Option<VoucherId> {
        let rushed = self.display.newest.rushed();
        let only = if let [only] = rushed.as_slice() { Some(*only) } else { None };
        self.seen_sale().filter(|id| rushed.contains(id)).or(only)
    }

    /// Asks the operator to select one of several.
    fn choose_rush(&mut self) {
        if !self.presenter.on {
            self.go(View::Sales);
        }
        self.note(text!(
            "director-several-load-tests-are-running",
            up = key_of(Action::Up),
            down = key_of(Action::Down),
            again = key_of(Action::Abort)
        ));
    }

    /// Stops the load test, and pauses the sale for all other buyers.
    pub(super) fn stop_rush(&mut self, voucher: VoucherId, pauses: bool, reason: Option<String>) {
        self.send_because(Command::StopLoadTest(voucher), reason.clone());
        let sells =
            self.display.newest.sale(voucher).is_some_and(|sale| sale.phase == Phase::Running);
        if pauses && sells {
            self.send_because(Command::PauseSale(voucher), reason);
        }
    }
}
