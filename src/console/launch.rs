//! The sale launcher: a launch is armed, counts down by the clock of Redis, then opens a sale and sends its buyers.
//!
//! The engine is not called before the countdown ends, so an aborted launch has no effect. If anything differs from
//! what the operator confirmed, the launch is aborted.

use std::time::Duration;

use seckill_engine::commands::{Command, LoadTest, Reply};
use seckill_model::{
    Millis, NewSale, Phase, VoucherId,
    message::{Label, text},
};

use super::{
    app::{Answer, App},
    dialogs::{Confirm, Dialog, Form, Intent, Subject},
    keymap::{Action, key_of},
    status::Tone,
    text::{
        launch::{self as wording, Off},
        sale_name,
    },
    views::View,
};

/// A console that was suspended for longer than this at the end of the countdown no longer fires.
const LATE_MS: u64 = 3_000;

/// What a launch opens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    /// An existing planned sale.
    Planned(VoucherId),
    /// A sale that is created when the countdown ends.
    New,
}

/// A launch as the operator confirms it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launch {
    pub(crate) target: Target,
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
    fn rush(&self, voucher: VoucherId) -> LoadTest {
        let plan = LoadTest::new(voucher, self.buyers);
        let requests = plan.users + plan.twice();
        let rate = (self.within > 0).then(|| requests as f64 / self.within as f64);
        LoadTest { rate, ..plan }
    }

    /// How many of its buyers repeat their request.
    pub(crate) fn twice(&self) -> u64 {
        self.rush(VoucherId(0)).twice()
    }
}

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
    /// Title of the last launch; messages refer to it after the launch is over.
    last_title: String,
}

/// What the top line of every view shows of a launch.
pub(crate) enum LaunchSummary<'a> {
    Counting(&'a Launch, u64),
    Opening(&'a Launch),
}

impl Director {
    /// What is armed, and the milliseconds until it fires.
    pub(crate) fn summary(&self, now: Millis) -> Option<LaunchSummary<'_>> {
        match self.launch.as_ref()? {
            (launch, LaunchState::Counting(at)) => {
                Some(LaunchSummary::Counting(launch, at.since(now)))
            }
            (launch, LaunchState::Opening(..)) => Some(LaunchSummary::Opening(launch)),
            (_, LaunchState::Rushing(_)) => None,
        }
    }

    /// The launch that is counting down.
    pub(super) fn armed(&self) -> Option<&Launch> {
        let (launch, state) = self.launch.as_ref()?;
        matches!(state, LaunchState::Counting(_)).then_some(launch)
    }

    /// Why no launch can be fired now.
    pub(super) fn why_not_fire(&self) -> Option<String> {
        match &self.launch {
            Some((_, LaunchState::Counting(_))) => None,
            Some((_, LaunchState::Opening(..))) => Some(wording::OPENING.to_owned()),
            _ => Some(wording::fire_hint()),
        }
    }

    /// Title of the last launch.
    pub(crate) fn last_title(&self) -> &str {
        &self.last_title
    }

    /// The sale being launched, once its number is known.
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        match self.launch.as_ref()? {
            (_, LaunchState::Rushing(id)) => Some(*id),
            (launch, _) => match launch.target {
                Target::Planned(id) => Some(id),
                Target::New => None,
            },
        }
    }
}

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
        if let Some(why) = self.unfit(&launch, Some(at)) {
            return self.call_off(&launch, &why);
        }
        self.note(text!(
            "director-scheduled-starts-in-s-press",
            subject = wording::subject(&launch),
            seconds = &launch.countdown,
            abort = key_of(Action::Abort)
        ));
        self.director.launch = Some((launch, LaunchState::Counting(at)));
    }

    /// Why a launch no longer matches what the operator confirmed; `at` is when it would fire.
    fn unfit(&self, launch: &Launch, at: Option<Millis>) -> Option<Off> {
        let Target::Planned(id) = launch.target else { return None };
        match self.display.newest.sale(id) {
            None => Some(Off::Gone),
            Some(sale) if sale.phase != Phase::Planned => Some(Off::Changed),
            Some(sale) if sale.initial != launch.pieces => Some(Off::Stock(sale.initial)),
            Some(sale) if sale.begin.zip(at).is_some_and(|(begin, at)| begin <= at) => {
                Some(Off::Early)
            }
            Some(_) => None,
        }
    }

    fn call_off(&mut self, launch: &Launch, why: &Off) {
        self.director.launch = None;
        self.terminal.dirty = true;
        self.close_fire();
        self.status.failure(wording::off(launch, why));
    }

    /// Follows the newest snapshot, also while the display is paused.
    pub(super) fn settle_launch(&mut self) {
        if let Some((launch, LaunchState::Counting(at))) = &self.director.launch
            && let Some(why) = self.unfit(launch, Some(*at))
        {
            let launch = launch.clone();
            self.call_off(&launch, &why);
        }
    }

    /// Time until the countdown shows another second, or ends.
    pub(super) fn launch_due(&self) -> Option<Duration> {
        let Some((_, LaunchState::Counting(at))) = &self.director.launch else { return None };
        let left = at.since(self.display.now);
        Some(Duration::from_millis(match left {
            0 => 0,
            left => (left - 1) % 1_000 + 1,
        }))
    }

    /// Advances the countdown and fires the launch at its end.
    pub(super) fn on_launch_due(&mut self) {
        self.terminal.dirty = true;
        if let Some((_, LaunchState::Counting(at))) = self.director.launch
            && at <= self.display.now
        {
            self.fire(Some(self.display.now.since(at)));
        }
    }

    pub(super) fn ask_fire(&mut self) {
        let Some(launch) = self.director.armed() else { return };
        let intent = Intent::Fire(Box::new(launch.clone()));
        self.dialog = Some(Dialog::Confirm(Confirm::new(wording::ask_fire(launch), intent)));
    }

    /// Fires the confirmed launch, unless the countdown has already fired it.
    pub(super) fn fire_now(&mut self, asked: &Launch, reason: Option<String>) {
        match &mut self.director.launch {
            Some((launch, LaunchState::Counting(_))) if launch == asked => {
                launch.reason = reason.or_else(|| launch.reason.take());
                self.fire(None);
            }
            Some((_, LaunchState::Opening(..) | LaunchState::Rushing(_))) => {
                self.note(wording::OPENING);
            }
            _ => self.note(wording::fire_hint()),
        }
    }

    /// Closes a question about a launch that has fired or was aborted.
    fn close_fire(&mut self) {
        if matches!(&self.dialog, Some(Dialog::Confirm(it)) if matches!(it.intent, Intent::Fire(_)))
        {
            self.dialog = None;
        }
    }

    fn fire(&mut self, late_ms: Option<u64>) {
        let Some((launch, _)) = self.director.launch.take() else { return };
        self.close_fire();
        let away =
            wording::away(&self.display.newest.redis, &self.display.newest.sql).map(Off::Away);
        let late = || late_ms.filter(|late| *late > LATE_MS).map(Off::Late);
        if let Some(why) = away.or_else(late).or_else(|| self.unfit(&launch, None)) {
            return self.call_off(&launch, &why);
        }
        let command = match launch.target {
            Target::Planned(id) => Command::StartSale(id),
            Target::New => {
                let sale =
                    NewSale::checked(&launch.title, launch.pieces, None, None, self.display.now);
                match sale {
                    Ok(sale) => Command::CreateSale(sale),
                    Err(fault) => return self.status.failure(fault.to_string()),
                }
            }
        };
        if self.send_because(command.clone(), launch.reason.clone()) {
            self.director.launch = Some((launch, LaunchState::Opening(Box::new(command), false)));
        }
    }

    /// Handles the replies that a launch waits for; `false` if this is not one of them.
    pub(super) fn launch_goes_on(&mut self, (command, answer): &Answer) -> bool {
        match self.director.launch.take() {
            Some((launch, LaunchState::Opening(asked, withdrawn))) if *asked == *command => {
                let opened = match answer {
                    Ok(Ok(Reply::SaleChanged { voucher, .. } | Reply::SaleCreated(voucher))) => {
                        *voucher
                    }
                    // Reported like any failed command; there is nothing to continue.
                    _ => return false,
                };
                self.presenter.sale = Some(opened);
                self.presenter.launched = true;
                if withdrawn {
                    self.send_because(Command::PauseSale(opened), launch.reason);
                } else if self
                    .send_because(Command::LoadTest(launch.rush(opened)), launch.reason.clone())
                {
                    self.director.launch = Some((launch, LaunchState::Rushing(opened)));
                }
                true
            }
            Some((_, LaunchState::Rushing(voucher))) if matches!(command, Command::LoadTest(plan) if plan.voucher == voucher) => {
                false
            }
            other => {
                self.director.launch = other;
                false
            }
        }
    }

    /// Aborts the confirmed launch, or handles its outcome if it is already over.
    pub(super) fn disarm(&mut self, about: &Launch) {
        match self.director.launch.take() {
            Some((launch, LaunchState::Counting(_))) if launch == *about => {
                self.status.note(
                    Tone::Good,
                    text!(
                        "director-cancelled-was-not-started-nothing",
                        subject = wording::subject(&launch)
                    ),
                    self.display.now,
                );
            }
            Some((launch, LaunchState::Opening(asked, _))) => {
                self.director.launch = Some((launch, LaunchState::Opening(asked, true)));
                self.note(Label("director-no-requests-will-be-sent"));
            }
            other => {
                self.director.launch = other;
                self.abort();
            }
        }
    }

    /// Asks for confirmation before aborting a launch or stopping its load test.
    pub(super) fn abort(&mut self) {
        let under_way = match &self.director.launch {
            Some((launch, LaunchState::Counting(_) | LaunchState::Opening(..))) => {
                let intent = Intent::Disarm(Box::new(launch.clone()));
                let confirm = Confirm::new(wording::ask_disarm(launch), intent);
                self.dialog = Some(Dialog::Confirm(confirm));
                return;
            }
            Some((_, LaunchState::Rushing(id))) => Some(*id),
            None if self.display.newest.load_tests.is_empty() => None,
            None => match self.meant_rush() {
                Some(id) => Some(id),
                None => return self.choose_rush(),
            },
        };
        let Some(voucher) = under_way else { return self.note(wording::NOTHING_TO_STOP) };
        let sale = self.display.newest.sale(voucher);
        let pauses = sale.is_some_and(|sale| sale.phase == Phase::Running);
        let name = sale.map_or_else(|| format!("#{voucher}"), |it| sale_name(voucher, &it.title));
        let of = self.display.newest.load_tests.iter().filter(|rush| rush.voucher_id == voucher);
        let (sent, planned) =
            of.fold((0, 0), |sum, rush| (sum.0 + rush.sent, sum.1 + rush.planned));
        let question = wording::ask_abort(&name, sent, planned, pauses);
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
