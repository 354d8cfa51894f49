//! Commands: from a key to a question, from its confirmation to the engine, from there to the outcome.
//!
//! A question refers to its subject by identity, with the figures of the newest snapshot, even while the display is
//! paused.

use futures::future::FutureExt;
use seckill_engine::{
    commands::{Command, Pace, ReplayReport, Reply, Scope, plan::Plan},
    dead_letters::{LetterScope, LettersCounted, LettersDiscarded, LettersReplayed},
    recovery::repair::SaleRepair,
    telemetry::snapshot::SaleLine,
    trace::Trace,
};
use seckill_model::{
    EntryId, Millis, Phase,
    filter::Filter,
    message::{Label, text},
};

use super::{
    app::{Answer, App, Course},
    dialogs::{Confirm, Dialog, Form, Intent, Subject, Submission},
    keymap::{Action, key_of},
    presenter::is_gone,
    status::Tone,
    text::{
        commands::{self, Question},
        conventions,
    },
    views::{
        View,
        ledger::wording as ledger,
        letters::wording::{self as letters, LetterCommand},
    },
};

/// Maximum age of an audit that can be acted on, in milliseconds.
const FRESH_MS: u64 = 15_000;

impl App {
    /// Opens the question or form of a command, or reports why there is none.
    pub(super) fn ask(&mut self, action: Action) {
        if self.display.newest.read_only {
            return self.note(text!("conventions-read-only-mode-commands"));
        }
        if let Some(why) = self.why_not(action) {
            return self.note(why);
        }
        match action {
            Action::Arm => self.ask_arm(),
            Action::Fire => self.ask_fire(),
            Action::Abort => self.abort(),
            Action::NewSale => self.ask_new_sale(),
            Action::PlanRecovery => self.request_plan(),
            Action::Repair => self.ask_repair(),
            Action::ReplayLetters => self.count_letters(LetterCommand::Replay),
            Action::Discard => self.count_letters(LetterCommand::Discard),
            Action::Compensate => self.count_letters(LetterCommand::Compensate),
            Action::StopCommand => self.ask_stop(),
            Action::Rewind => self.ask_rewind(),
            Action::Claim => self.ask_claim(),
            Action::RemoveConsumer => self.ask_remove(),
            Action::Pay => self.ask_pay(),
            Action::Release => self.ask_release(),
            Action::RunJob => self.ask_job(true),
            Action::Pause if self.view == View::Jobs => self.ask_job(false),
            _ => {
                if let Some(sale) = self.meant_sale(action) {
                    self.ask_sale(action, &sale);
                }
            }
        }
    }

    /// The sale that a command applies to; if it is ambiguous, the operator is asked to choose.
    fn meant_sale(&mut self, action: Action) -> Option<SaleLine> {
        let Some(meant) = self.target_sale().map(|sale| sale.voucher_id) else {
            // The cursor starts at the sale in the header.
            if let Some(named) = self.at_sale().map(|sale| sale.voucher_id) {
                self.tables.sales.table.cursor = Some(named);
            }
            self.go(View::Sales);
            self.note(text!(
                "conventions-select-sale-with-and-then",
                up = key_of(Action::Up),
                down = key_of(Action::Down),
                again = key_of(action)
            ));
            return None;
        };
        let sale = self.display.newest.sale(meant).cloned();
        if sale.is_none() {
            self.note(Label("command-sale-is-no-longer-listed"));
        }
        sale
    }

    fn ask_sale(&mut self, action: Action, sale: &SaleLine) {
        let id = sale.voucher_id;
        if matches!(sale.phase, Phase::Ended | Phase::Archived) {
            return self.note(commands::no_use(sale));
        }
        let command = match (action, sale.phase) {
            (Action::Rush, _) => {
                let draft = self.work.drafts.take(&Subject::LoadTest(id));
                let form = draft.unwrap_or_else(|| Form::load_test(sale));
                self.dialog = Some(Dialog::Form(form));
                return;
            }
            (Action::Start, Phase::Planned) => Command::StartSale(id),
            (Action::Pause, Phase::Paused) => Command::ResumeSale(id),
            (Action::Pause, _) => Command::PauseSale(id),
            (Action::End, _) => Command::EndSale(id),
            _ => return self.note(commands::no_use(sale)),
        };
        self.confirm(commands::change(&command, sale), command);
    }

    fn ask_new_sale(&mut self) {
        if let Some(sale) = &self.work.creating {
            let title = sale.title.clone();
            return self.note(text!("command-is-being-created-wait", title));
        }
        let form = self.work.drafts.take(&Subject::NewSale).unwrap_or_else(Form::new_sale);
        self.dialog = Some(Dialog::Form(form));
    }

    /// Asks for confirmation of a completed form.
    pub(super) fn submit(&mut self, submission: Submission) -> Option<Dialog> {
        let confirm = match submission {
            Submission::NewSale(sale) => {
                let at = |at: Option<Millis>| at.map(|at| at.date_time(&self.display.zone));
                let (begin, end) = (at(sale.begin), at(sale.end));
                let question = commands::create(&sale, begin.as_deref(), end.as_deref());
                Confirm::command(question, Command::CreateSale(sale))
            }
            Submission::LoadTest(plan) => {
                let sale = self
                    .display
                    .newest
                    .sale(plan.voucher)
                    .or_else(|| self.display.shown.sale(plan.voucher));
                let Some(sale) = sale else {
                    self.note(commands::NO_SALE);
                    return None;
                };
                Confirm::command(commands::rush(sale, &plan), Command::LoadTest(plan))
            }
            Submission::Launch(launch) => {
                Confirm::new(launch.ask_arm(), Intent::Arm(Box::new(launch)))
            }
            // The question follows when the preview arrives.
            Submission::Group(command) => {
                self.send(Command::Preview(command));
                return None;
            }
        };
        Some(Dialog::Confirm(confirm))
    }

    /// Handles the reply to a sale creation; on failure the form is restored.
    fn settle_creating(&mut self, command: &Command, created: bool) {
        let Command::CreateSale(sale) = command else { return };
        if self.work.creating.take_if(|sent| sent == sale).is_some() && created {
            self.work.drafts.take(&Subject::NewSale);
        }
    }

    /// Requests a plan; the question follows when it arrives.
    fn request_plan(&mut self) {
        let marks: Vec<EntryId> = self.tables.pending.marks.iter().copied().collect();
        self.send(Command::Plan(if marks.is_empty() {
            Scope::All(Filter::default())
        } else {
            Scope::Entries(marks)
        }));
    }

    /// Asks for confirmation of a plan, with its exact counts; confirming executes exactly this plan. The engine skips
    /// entries that changed since it was made.
    fn ask_plan(&mut self, plan: Plan, scope: &Scope) {
        if plan.totals.to_do() == 0 {
            return self.note(commands::nothing_to_do(&plan));
        }
        if self.dialog.is_some() || self.tables.filtering {
            let text = conventions::behind(
                Label("command-plan-is-ready"),
                self.context(),
                Action::PlanRecovery,
            );
            return self.note(text);
        }
        let all = plan.head.filter.is_empty();
        let filtered = all && !self.tables.pending.controls.filter.value().is_empty();
        let shown = filtered.then(|| self.tables.pending.rows(&self.display.shown).len());
        let consumers = self.display.newest.stream.iter().flat_map(|stream| &stream.consumers);
        let is_claimed = consumers.into_iter().any(|it| it.alive);
        let claim_idle_ms = self.display.newest.claim_idle_ms.filter(|_| is_claimed);
        let question = commands::plan(&plan, shown, claim_idle_ms);
        if let Scope::Entries(marks) = scope {
            self.work.planned = Some((plan.clone(), marks.clone()));
        }
        let confirm = Confirm::command(question, Command::Apply(plan, Pace::default()))
            .unbidden(self.display.now);
        self.dialog = Some(Dialog::Confirm(confirm));
    }

    /// Asks for confirmation of the repair of the marked sales, or of all, as the newest audit found them.
    fn ask_repair(&mut self) {
        if self.view != View::Ledger {
            self.go(View::Ledger);
            if self.view != View::Ledger {
                return;
            }
        }
        if let Some(away) = self.away() {
            return self.note(away);
        }
        let page = &self.display.newest.ledger;
        let fresh = page.taken.is_some_and(|at| self.display.newest.taken.since(at) <= FRESH_MS);
        if !fresh {
            let why = page.limit.map_or_else(ledger::awaited, ledger::limit);
            return self.note(why);
        }
        let marks = &self.tables.ledger.marks;
        let meant = page.lines.iter().filter(|line| {
            !line.findings.is_empty() && (marks.is_empty() || marks.contains(&line.voucher_id))
        });
        let meant = meant.map(|line| SaleRepair::of(line.voucher_id, line.findings.clone()));
        let (plan, left): (Vec<_>, Vec<_>) = meant.partition(|sale| !sale.cures.is_empty());
        if plan.is_empty() && page.partitions.is_empty() {
            let none = left.is_empty();
            return self.note(if none { ledger::NOTHING_TO_REPAIR } else { ledger::BY_HAND });
        }
        let question = ledger::question(&plan, !marks.is_empty(), page.partitions.len());
        self.confirm(question, Command::Repair(plan));
    }

    /// Requests a count of dead letters by verdict; the question follows when it arrives.
    fn count_letters(&mut self, kind: LetterCommand) {
        if self.work.counting.is_some() {
            return self.note(Label("letters-counting-the-dead-letters"));
        }
        let (scope, about) = match self.letters_in_scope() {
            Ok(meant) => meant,
            Err(why) => return self.note(why),
        };
        if self.send(Command::CountLetters(scope.clone())) {
            self.work.counting = Some((kind, scope, about));
        }
    }

    /// Asks for confirmation, with exact counts; confirming applies to exactly these letters.
    fn ask_letters(&mut self, found: &LettersCounted, counted: &LetterScope) {
        // A cancelled count may still arrive.
        let awaited = self.work.counting.take_if(|(_, scope, _)| scope == counted);
        let Some((kind, scope, about)) = awaited else { return };
        if self.dialog.is_some() || self.tables.filtering {
            let text = conventions::behind(
                Label("letters-the-dead-letters-are-counted"),
                self.context(),
                kind.action(),
            );
            return self.note(text);
        }
        let done = kind.done(&found.counts);
        match letters::question(kind, found, &about) {
            Ok(question) => {
                // Letters added after the count are excluded.
                let scope = scope.as_counted(found);
                let command = match kind {
                    LetterCommand::Replay => Command::ReplayLetters { scope, force: false },
                    LetterCommand::Discard => Command::DiscardLetters { scope, compensate: false },
                    LetterCommand::Compensate => {
                        Command::DiscardLetters { scope, compensate: true }
                    }
                };
                let confirm =
                    Confirm::command(question, command).about(done).unbidden(self.display.now);
                self.dialog = Some(Dialog::Confirm(confirm));
            }
            Err(why) => self.note(why),
        }
    }

    fn ask_stop(&mut self) {
        let Some(line) = self.display.newest.recoveries.iter().find(|line| line.changes) else {
            return;
        };
        let question = commands::break_off(line);
        self.confirm(question, Command::Cancel);
    }

    /// Releases the lock of the exact holder that the question names.
    fn ask_release(&mut self) {
        let Some(lock) = self.tables.locks.chosen(&self.display.newest).cloned() else {
            return self.note(Label("command-holder-no-longer-holds-lock"));
        };
        let question = commands::release(&lock);
        let command = Command::ReleaseLock { name: lock.name, owner: lock.owner };
        self.confirm(question, command);
    }

    fn ask_job(&mut self, run: bool) {
        let Some(job) = self.tables.jobs.chosen(&self.display.newest).cloned() else {
            return self.note(Label("command-job-no-longer-exists"));
        };
        if run {
            self.confirm(commands::run_job(&job), Command::RunJob(job.name));
        } else {
            let question = commands::switch_job(&job);
            self.confirm(question, Command::SwitchJob { job: job.name, paused: !job.paused });
        }
    }

    /// Asks for confirmation before quitting while something is in progress.
    pub(super) fn quit(&mut self) {
        let load_tests = &self.display.newest.load_tests;
        let question = if let Some(launch) = self.director.armed() {
            launch.ask_quit()
        } else if let Some(line) = self.display.newest.recoveries.iter().find(|it| it.changes) {
            commands::quit_command(&line.act, line.done, line.planned)
        } else if load_tests.is_empty() {
            self.terminal.course = Course::Quit;
            return;
        } else {
            let sent = load_tests.iter().map(|it| it.sent).sum();
            commands::quit(sent, load_tests.iter().map(|it| it.planned).sum())
        };
        self.dialog = Some(Dialog::Confirm(Confirm::new(question, Intent::Quit)));
    }

    /// Asks for confirmation of a command.
    pub(super) fn confirm(&mut self, question: Question, command: Command) {
        self.dialog = Some(Dialog::Confirm(Confirm::command(question, command)));
    }

    /// Sends a command; its reply arrives through [`App::next_answer`]. `false` if the engine does not accept it.
    pub(super) fn send(&mut self, command: Command) -> bool {
        self.send_because(command, None)
    }

    /// As [`App::send`], with a reason for the audit log.
    pub(super) fn send_because(&mut self, command: Command, reason: Option<String>) -> bool {
        match self.remote.send(command.clone(), reason) {
            Ok(reply) => {
                let text = commands::sent(&command);
                let sells = |id| !self.display.newest.sale(id).is_some_and(is_gone);
                match &command {
                    Command::LoadTest(plan) if sells(plan.voucher) => {
                        self.status.note_rush(text, plan.voucher, self.display.now);
                    }
                    _ => self.note(text),
                }
                self.work.answers.push(async move { (command, reply.await) }.boxed());
                true
            }
            Err(error) => {
                self.status.failure(error.to_string());
                false
            }
        }
    }

    pub(crate) fn on_answer(&mut self, answer: Answer) {
        self.terminal.dirty = true;
        if self.launch_goes_on(&answer) {
            return;
        }
        let (command, answer) = answer;
        self.settle_creating(&command, matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(Ok(reply)) => self.on_reply(command, &reply),
            Ok(Err(error)) => self.on_failure(&command, error.to_string()),
            Err(_) => {
                let key = key_of(Action::Go(View::Activity));
                let why = text!("command-engine-stopped-before-it-replied", key);
                self.on_failure(&command, why);
            }
        }
    }

    fn on_failure(&mut self, command: &Command, why: String) {
        match command {
            Command::CountLetters(failed) => {
                self.work.counting.take_if(|(_, scope, _)| scope == failed);
            }
            Command::Trace(id) => {
                self.work.tracing.take_if(|awaited| awaited == id);
                self.tables.orders.miss_trace(*id);
            }
            _ => {}
        }
        self.status.failure(why);
    }

    /// Asks the question that a reply leads to, or reports the outcome of a command.
    fn on_reply(&mut self, command: Command, reply: &Reply) {
        match (reply, command) {
            (Reply::LettersCounted(found), Command::CountLetters(scope)) => {
                self.status.key_pressed();
                return self.ask_letters(found, &scope);
            }
            (Reply::Previewed(preview), _) => return self.ask_previewed(preview),
            (Reply::Planned(plan), Command::Plan(scope)) => {
                self.status.key_pressed();
                return self.ask_plan(plan.clone(), &scope);
            }
            (Reply::Traced(trace), _) => return self.take_trace(Trace::clone(trace)),
            (Reply::SaleCreated(id), _) => self.tables.sales.await_sale(*id),
            (Reply::Replayed(ReplayReport { cut_short: false, .. }), Command::Apply(plan, _)) => {
                let done = self.work.planned.take_if(|(planned, _)| *planned == plan);
                for mark in done.iter().flat_map(|(_, marks)| marks) {
                    self.tables.pending.marks.remove(mark);
                }
            }
            (
                Reply::LettersReplayed(LettersReplayed { cut_short: false, .. })
                | Reply::LettersDiscarded(LettersDiscarded { cut_short: false, .. }),
                Command::ReplayLetters { scope, .. } | Command::DiscardLetters { scope, .. },
            ) => match scope {
                LetterScope::Letters(done) => {
                    self.tables.letters.marks.retain(|mark| !done.contains(mark));
                }
                LetterScope::Matching { .. } => self.tables.letters.unmark(),
            },
            _ => {}
        }
        let tone = if reply.is_success() { Tone::Good } else { Tone::Mixed };
        self.status.note(tone, reply.to_string(), self.display.now);
    }
}
