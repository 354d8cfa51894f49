//! Acts: from a capital letter to a question, from its yes to the engine, from there to a word.
//!
//! What an act is about is taken by identity when the question is put, with the figures of the
//! newest picture, also while the screen is frozen.

use futures::future::FutureExt;

use super::{
    app::{Answer, App, Course},
    dialogs::{Confirm, Dialog, Intent, SaleForm},
    keymap::Action,
    status::Tone,
    text::{
        self, acts, conventions, director,
        letters::{self, Settling},
    },
    views::View,
};
use crate::{
    engine::{
        command::{
            Command, LettersCounted, LettersDiscarded, LettersReplayed, Pace, ReplayReport, Reply,
            RushPlan, Scope,
        },
        plan::Plan,
    },
    model::{EntryId, Phase, filter::Filter},
    telemetry::snapshot::SaleLine,
};

impl App {
    /// Opens the question or the form of an act, or says why there is none.
    pub(super) fn ask(&mut self, action: Action) {
        if self.newest.read_only {
            self.note(conventions::read_only());
            return;
        }
        match action {
            Action::Arm => self.ask_arm(),
            Action::Fire => self.ask_fire(),
            Action::Abort => self.abort(),
            Action::NewSale => {
                let form = self.draft.take().unwrap_or_else(SaleForm::new);
                self.dialog = Some(Dialog::Sale(form));
            }
            Action::Replay => self.plan_replay(),
            Action::ReplayLetters => self.count_letters(Settling::Replay),
            Action::Discard => self.count_letters(Settling::Discard),
            Action::Compensate => self.count_letters(Settling::Compensate),
            Action::BreakOff => self.ask_cancel(),
            Action::Rewind => self.ask_rewind(),
            Action::Claim => self.ask_claim(),
            Action::RemoveConsumer => self.ask_remove(),
            Action::Pay => self.ask_pay(),
            Action::Release => self.ask_release(),
            Action::RunJob => self.ask_job(true),
            Action::Pause if self.view == View::Jobs => self.ask_job(false),
            _ => {
                if let Some(sale) = self.meant_sale() {
                    self.ask_sale(action, &sale);
                }
            }
        }
    }

    /// The sale that an act is about; where that is not clear, the person is led to choose.
    fn meant_sale(&mut self) -> Option<SaleLine> {
        let sales = &self.shown.sales;
        let open: Vec<&SaleLine> = sales.iter().filter(|sale| !sale.phase.is_over()).collect();
        let only = match (open.as_slice(), sales.as_slice()) {
            ([only], _) => Some(only.voucher_id),
            // Then the answer is that it has ended.
            ([], [only]) => Some(only.voucher_id),
            _ => None,
        };
        let chosen = self.sales.chosen_line(&self.shown).map(|sale| sale.voucher_id);
        let meant = chosen.or(only.filter(|_| self.view == View::Overview));
        let Some(meant) = meant else {
            if sales.is_empty() {
                self.note(acts::NO_SALE);
            } else {
                self.go(View::Sales);
                self.note(acts::CHOOSE_SALE);
            }
            return None;
        };
        self.newest.sale(meant).or_else(|| self.shown.sale(meant)).cloned()
    }

    fn ask_sale(&mut self, action: Action, sale: &SaleLine) {
        let id = sale.voucher_id;
        let asked = match (action, sale.phase) {
            (_, Phase::Ended | Phase::Archived) => None,
            (Action::Rush, _) => {
                self.dialog = Some(Dialog::Rush(self.rush_form(sale)));
                return;
            }
            (Action::Start, Phase::Planned) => Some((acts::start(sale), Command::StartSale(id))),
            (Action::Pause, Phase::Paused) => Some((acts::resume(sale), Command::ResumeSale(id))),
            (Action::Pause, _) => Some((acts::pause(sale), Command::PauseSale(id))),
            (Action::End, _) => Some((acts::end(sale), Command::EndSale(id))),
            _ => None,
        };
        match asked {
            Some((question, command)) => {
                let confirm = Confirm::act(question, command);
                self.dialog = Some(Dialog::Confirm(confirm));
            }
            None => self.note(acts::no_use(sale)),
        }
    }

    /// The question that follows a filled-in rush form.
    pub(super) fn confirm_rush(&mut self, plan: RushPlan) -> Option<Dialog> {
        let sale = self.newest.sale(plan.voucher).or_else(|| self.shown.sale(plan.voucher));
        let Some(sale) = sale else {
            self.note(acts::NO_SALE);
            return None;
        };
        let question = acts::rush(sale, &plan);
        Some(Dialog::Confirm(Confirm::act(question, Command::Rush(plan))))
    }

    /// Has a plan made; the question is put once it is there.
    fn plan_replay(&mut self) {
        let marks: Vec<EntryId> = self.pending.marks.iter().copied().collect();
        if !marks.is_empty() {
            self.send(Command::Plan(Scope::Entries(marks)));
            return;
        }
        if self.newest.stream.as_ref().is_none_or(|stream| stream.pending == 0) {
            return self.note(acts::NOTHING_PENDING);
        }
        self.send(Command::Plan(Scope::All(Filter::default())));
    }

    /// The question about a plan, with its exact counts; what is done is this very plan.
    fn ask_plan(&mut self, plan: Plan, scope: &Scope) {
        if plan.totals.to_do() == 0 {
            return self.note(acts::nothing_to_do(&plan));
        }
        if self.dialog.is_some() || self.filtering {
            return self.note(acts::PLAN_READY);
        }
        let filtered =
            *scope == Scope::All(Filter::default()) && !self.pending.filter.value().is_empty();
        let shown = filtered.then(|| self.pending.rows(&self.shown).len());
        let question = acts::plan(&plan, shown);
        let confirm =
            Confirm::act(question, Command::Apply(plan, Pace::default())).unbidden(self.now);
        self.dialog = Some(Dialog::Confirm(confirm));
    }

    /// Has dead letters counted by what is true of them; the question is put once that is known.
    fn count_letters(&mut self, act: Settling) {
        if self.counting.is_some() {
            return self.note(letters::COUNTING);
        }
        let (scope, about) = match self.meant_letters() {
            Ok(meant) => meant,
            Err(why) => return self.note(why),
        };
        if self.send(Command::CountLetters(scope.clone())) {
            self.counting = Some((act, scope, about));
        }
    }

    /// The question about those letters, with exact counts; what is done is about these very ones.
    fn ask_letters(&mut self, found: &LettersCounted) {
        let Some((act, scope, about)) = self.counting.take() else { return };
        if self.dialog.is_some() || self.filtering {
            return self.note(letters::COUNTED);
        }
        let done = act.done(&found.counts);
        match letters::question(act, found, &about) {
            Ok(question) => {
                let command = match act {
                    Settling::Replay => Command::ReplayLetters { scope, force: false },
                    Settling::Discard => Command::DiscardLetters { scope, compensate: false },
                    Settling::Compensate => Command::DiscardLetters { scope, compensate: true },
                };
                let confirm = Confirm::act(question, command).about(done).unbidden(self.now);
                self.dialog = Some(Dialog::Confirm(confirm));
            }
            Err(why) => self.note(why),
        }
    }

    fn ask_cancel(&mut self) {
        let Some(line) = self.newest.recoveries.iter().find(|line| line.changes) else {
            return self.note(acts::NOTHING_UNDER_WAY);
        };
        let question = acts::break_off(line);
        let confirm = Confirm::act(question, Command::Cancel);
        self.dialog = Some(Dialog::Confirm(confirm));
    }

    /// Takes the lock from the very holder that the question names.
    fn ask_release(&mut self) {
        let (seen, now) = (&self.shown.locks.locks, &self.newest.locks.locks);
        let gone = self.locks.chosen(seen).is_some();
        let Some(lock) = self.locks.chosen(now).cloned() else {
            return self.note(if gone { acts::LOCK_GONE } else { acts::NOTHING_CHOSEN });
        };
        let question = acts::release(&lock);
        let command = Command::ReleaseLock { name: lock.name, owner: lock.owner };
        self.dialog = Some(Dialog::Confirm(Confirm::act(question, command)));
    }

    fn ask_job(&mut self, run: bool) {
        let gone = self.jobs.chosen(&self.shown.jobs).is_some();
        let Some(job) = self.jobs.chosen(&self.newest.jobs).cloned() else {
            return self.note(if gone { acts::JOB_GONE } else { acts::NOTHING_CHOSEN });
        };
        let question = if run { acts::run_job(&job) } else { acts::switch_job(&job) };
        let command = if run {
            Command::RunJob(job.name)
        } else {
            Command::SwitchJob { job: job.name, paused: !job.paused }
        };
        self.dialog = Some(Dialog::Confirm(Confirm::act(question, command)));
    }

    /// Asks before it leaves something undone behind.
    pub(super) fn quit(&mut self) {
        if let Some(launch) = self.director.armed() {
            let question = director::ask_quit(launch);
            self.dialog = Some(Dialog::Confirm(Confirm::new(question, Intent::Quit)));
            return;
        }
        let rushes = &self.newest.rushes;
        if let Some(act) = self.newest.recoveries.iter().find(|it| it.changes) {
            let question = acts::quit_act(&act.act, act.done, act.planned);
            self.dialog = Some(Dialog::Confirm(Confirm::new(question, Intent::Quit)));
            return;
        }
        if rushes.is_empty() {
            self.course = Course::Quit;
            return;
        }
        let sent = rushes.iter().map(|rush| rush.sent).sum();
        let planned = rushes.iter().map(|rush| rush.planned).sum();
        let question = acts::quit(sent, planned);
        self.dialog = Some(Dialog::Confirm(Confirm::new(question, Intent::Quit)));
    }

    /// Sends an act; its answer comes through [`App::next_answer`]. `false` where the engine does not take it.
    pub(super) fn send(&mut self, command: Command) -> bool {
        self.send_because(command, None)
    }

    /// The same with a reason for the audit log.
    pub(super) fn send_because(&mut self, command: Command, reason: Option<String>) -> bool {
        match self.remote.send_because(command.clone(), reason) {
            Ok(reply) => {
                self.note(match &command {
                    Command::CreateSale(sale) => acts::asked::create(sale),
                    Command::StartSale(id)
                    | Command::PauseSale(id)
                    | Command::ResumeSale(id)
                    | Command::EndSale(id)
                    | Command::Restock { voucher: id, .. } => acts::asked::change(*id),
                    Command::Rush(plan) => acts::asked::rush(plan),
                    Command::StopRush(id) => director::stopping(*id),
                    Command::Plan(_) => acts::asked::PLAN.to_string(),
                    Command::Apply(..) => acts::asked::APPLY.to_string(),
                    Command::CountLetters(_) => acts::asked::LETTERS.to_string(),
                    Command::RunJob(job) => acts::asked::job(job),
                    Command::Preview(_) => text::stream::LOOKING.read().to_owned(),
                    Command::Trace(_) => text::orders::LOOKING.read().to_owned(),
                    Command::Pay(_)
                    | Command::CreateVoucher(_)
                    | Command::Repair(_)
                    | Command::Cancel
                    | Command::ReplayLetters { .. }
                    | Command::DiscardLetters { .. }
                    | Command::Rewind(_)
                    | Command::Claim(_)
                    | Command::RemoveConsumer { .. }
                    | Command::ReleaseLock { .. }
                    | Command::SwitchJob { .. } => acts::asked::ACT.to_string(),
                });
                self.answers.push(async move { (command, reply.await) }.boxed());
                true
            }
            Err(refusal) => {
                self.status.failure(text::refusal(&refusal));
                false
            }
        }
    }

    pub(crate) fn on_answer(&mut self, answer: Answer) {
        self.dirty = true;
        if self.launch_goes_on(&answer) {
            return;
        }
        let (command, answer) = answer;
        if let (Command::CountLetters(_), Ok(Ok(Reply::LettersCounted(found)))) =
            (&command, &answer)
        {
            self.status.key_pressed();
            return self.ask_letters(found);
        }
        if matches!(command, Command::CountLetters(_)) {
            self.counting = None;
        }
        let answer = match answer {
            Ok(Ok(Reply::Previewed(preview))) => return self.ask_previewed(&preview),
            Ok(Ok(Reply::Traced(trace))) => return self.take_trace(*trace),
            other => other,
        };
        if let Command::Trace(id) = command {
            self.tracing = false;
            self.orders.miss_trace(id);
        }
        match answer {
            Ok(Ok(reply)) => {
                match (&reply, command) {
                    (Reply::JobSwitched { job, paused }, _) => {
                        self.job_switched(job.clone(), *paused);
                    }
                    (Reply::SaleCreated(id), _) => {
                        self.draft = None;
                        self.sales.await_sale(*id);
                    }
                    (Reply::Planned(plan), Command::Plan(scope)) => {
                        self.status.key_pressed();
                        return self.ask_plan(plan.clone(), &scope);
                    }
                    (Reply::Replayed(ReplayReport { cut_short: false, .. }), _) => {
                        self.pending.marks.clear();
                    }
                    (
                        Reply::LettersReplayed(LettersReplayed { cut_short: false, .. })
                        | Reply::LettersDiscarded(LettersDiscarded { cut_short: false, .. }),
                        _,
                    ) => self.letters.unmark(),
                    _ => {}
                }
                let (text, well) = acts::reply(&reply);
                self.status.note(if well { Tone::Good } else { Tone::Mixed }, text, self.now);
            }
            Ok(Err(refusal)) => self.status.failure(text::refusal(&refusal)),
            Err(_) => self.status.failure(acts::UNANSWERED.to_owned()),
        }
    }
}
