//! Commands: from a key to a question, from its confirmation to the engine, from there to the outcome.
//!
//! A question refers to its subject by identity, with the figures of the newest snapshot, even while the display is
//! paused.

use futures::future::FutureExt;
use seckill_engine::{
    commands::{Command, Pace, ReplayReport, Reply, Scope, plan::Plan},
    dead_letters::{LetterScope, LettersCounted, LettersDiscarded, LettersReplayed},
    telemetry::snapshot::{PendingLine, SaleLine},
};
use seckill_model::{
    Phase,
    locale::in_english,
    message::{Label, text},
};

use super::{
    app::{Answer, App, Course},
    dialogs::{Confirm, Dialog, Form, Intent, Offer, Palette, Subject, Submission},
    keymap::{self, Action, Context, key_of},
    launch,
    presenter::is_gone,
    status::Tone,
    text::{
        self,
        commands::{self, Question},
        conventions,
    },
    views::{
        Row as _, View,
        ledger::wording as ledger,
        letters::{
            in_scope,
            wording::{self as letters, LetterCommand},
        },
        stream,
    },
};

/// Maximum number of recent actions in the palette.
const REMEMBERED: usize = 20;

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
            Action::Repair => self.ask_repair(),
            Action::ReplayLetters => self.count_letters(LetterCommand::Replay),
            Action::Discard => self.count_letters(LetterCommand::Discard),
            Action::Compensate => self.count_letters(LetterCommand::Compensate),
            Action::StopCommand => self.ask_stop(),
            action if self.run_by_view(action) => {}
            action => {
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
            if let Some(named) = self.active_sale().map(|sale| sale.voucher_id) {
                self.views.sales.table.cursor = Some(named);
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
                let [begin, end] =
                    [sale.begin, sale.end].map(|at| at.map(|at| at.date_time(&self.display.zone)));
                let question = commands::create(&sale, begin.as_deref(), end.as_deref());
                Confirm::command(question, Command::CreateSale(sale))
            }
            Submission::LoadTest(plan) => {
                let snapshots = [&self.display.newest, &self.display.shown];
                let Some(sale) = snapshots.into_iter().find_map(|it| it.sale(plan.voucher)) else {
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

    /// Asks for confirmation of a plan, with its exact counts; confirming executes exactly this plan. The engine skips
    /// entries that changed since it was made.
    fn ask_plan(&mut self, plan: &Plan, scope: &Scope) {
        if plan.totals.to_do() == 0 {
            return self.note(commands::nothing_to_do(plan));
        }
        if self.defer_question(Label("command-plan-is-ready"), Action::PlanRecovery) {
            return;
        }
        let state = &self.views.pending;
        let filtered = plan.head.filter.is_empty() && !state.controls.filter.value().is_empty();
        let shown = filtered.then(|| state.rows(&self.display.shown).len());
        let newest = &self.display.newest;
        let mut consumers = newest.stream.iter().flat_map(|stream| &stream.consumers);
        let claim_idle_ms = newest.claim_idle_ms.filter(|_| consumers.any(|it| it.alive));
        let command = Command::Apply(plan.clone(), Pace::default());
        let confirm = Confirm::command(commands::plan(plan, shown, claim_idle_ms), command);
        if let Scope::Entries(marks) = scope {
            self.work.planned = Some((plan.clone(), marks.clone()));
        }
        self.confirm_reply(confirm);
    }

    /// Reports that `what` is ready, and that `again` asks for it, if no question can open because the user is typing or
    /// answering another one; returns whether that is so.
    pub(super) fn defer_question(&mut self, what: Label, again: Action) -> bool {
        self.status.key_pressed();
        let is_busy = self.dialog.is_some() || self.views.filtering;
        if is_busy {
            self.note(conventions::behind(what, self.context(), again));
        }
        is_busy
    }

    /// Opens a question that a reply leads to.
    pub(super) fn confirm_reply(&mut self, confirm: Confirm) {
        self.dialog = Some(Dialog::Confirm(confirm.unbidden(self.display.now)));
    }

    /// Repairs what the newest audit found; the question is in the Ledger.
    fn ask_repair(&mut self) {
        if self.view != View::Ledger {
            self.go(View::Ledger);
        }
        if self.view != View::Ledger {
            return;
        }
        match self.away() {
            Some(away) => self.note(away),
            None => {
                self.run_by_view(Action::Repair);
            }
        }
    }

    /// Requests a count of dead letters by verdict; the question follows when it arrives.
    fn count_letters(&mut self, kind: LetterCommand) {
        if self.work.counting.is_some() {
            return self.note(Label("letters-counting-the-dead-letters"));
        }
        let meant = in_scope(&self.views.letters, &self.display.shown);
        let Some((scope, about)) = meant else { return self.note(commands::NOTHING_CHOSEN) };
        if self.send(Command::CountLetters(scope.clone())) {
            self.work.counting = Some((kind, scope, about));
        }
    }

    /// Asks for confirmation, with exact counts; confirming applies to exactly these letters.
    fn ask_letters(&mut self, found: &LettersCounted, counted: &LetterScope) {
        // A cancelled count may still arrive.
        let awaited = self.work.counting.take_if(|(_, scope, _)| scope == counted);
        let Some((kind, scope, about)) = awaited else { return };
        if self.defer_question(Label("letters-the-dead-letters-are-counted"), kind.action()) {
            return;
        }
        let question = match letters::question(kind, found, &about) {
            Ok(question) => question,
            Err(why) => return self.note(why),
        };
        // Letters added after the count are excluded.
        let command = kind.command(scope.as_counted(found));
        let confirm = Confirm::command(question, command).about(kind.done(&found.counts));
        self.confirm_reply(confirm);
    }

    fn ask_stop(&mut self) {
        let Some(line) = self.display.newest.recoveries.iter().find(|line| line.changes) else {
            return;
        };
        let question = commands::break_off(line);
        self.confirm(question, Command::Cancel);
    }

    /// Asks for confirmation before quitting while something is in progress.
    pub(super) fn quit(&mut self) {
        let load_tests = &self.display.newest.load_tests;
        let question = if let Some(launch) = self.director.armed() {
            launch.ask_quit()
        } else if let Some(line) = self.display.newest.recoveries.iter().find(|it| it.changes) {
            commands::quit_command(&line.action, line.done, line.planned)
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
        if let Command::CountLetters(failed) = command {
            self.work.counting.take_if(|(_, scope, _)| scope == failed);
        }
        self.views.orders.miss_trace(command);
        self.status.failure(why);
    }

    /// Asks the question that a reply leads to, or reports the outcome of a command.
    fn on_reply(&mut self, command: Command, reply: &Reply) {
        match (reply, command) {
            (Reply::LettersCounted(found), Command::CountLetters(scope)) => {
                return self.ask_letters(found, &scope);
            }
            (Reply::Previewed(preview), _) => {
                let (again, confirm) = stream::commands::confirm(preview, &self.display.zone);
                if !self.defer_question(Label("stream-statistics-are-ready"), again) {
                    self.confirm_reply(confirm);
                }
                return;
            }
            (Reply::Planned(plan), Command::Plan(scope)) => return self.ask_plan(plan, &scope),
            (Reply::Traced(trace), _) => {
                self.status.key_pressed();
                self.views.orders.take_trace(trace);
                // The user may have moved on to another order.
                return self.send_wanted();
            }
            (Reply::SaleCreated(id), _) => self.views.sales.await_sale(*id),
            (Reply::Replayed(ReplayReport { cut_short: false, .. }), Command::Apply(plan, _)) => {
                let done = self.work.planned.take_if(|(planned, _)| *planned == plan);
                for mark in done.iter().flat_map(|(_, marks)| marks) {
                    self.views.pending.marks.remove(mark);
                }
            }
            (
                Reply::LettersReplayed(LettersReplayed { cut_short: false, .. })
                | Reply::LettersDiscarded(LettersDiscarded { cut_short: false, .. }),
                Command::ReplayLetters { scope, .. } | Command::DiscardLetters { scope, .. },
            ) => match scope {
                LetterScope::Letters(done) => {
                    self.views.letters.marks.retain(|mark| !done.contains(mark));
                }
                LetterScope::Matching { .. } => self.views.letters.unmark(),
            },
            _ => {}
        }
        let tone = if reply.is_success() { Tone::Good } else { Tone::Mixed };
        self.status.note(tone, reply.to_string(), self.display.now);
    }

    /// The palette with every named action: those of this view first.
    pub(super) fn palette(&self) -> Palette {
        let here = keymap::actions(self.place());
        let elsewhere = Context::views().flat_map(keymap::actions);
        let mut offers: Vec<Offer> = Vec::new();
        for action in here.iter().copied().chain(elsewhere) {
            let homes = homes(action);
            // A repair opens the Ledger by itself.
            let why = if here.contains(&action) || action == Action::Repair {
                self.why_not(action)
            } else {
                Some(text!("conventions-in", views = homes))
            };
            // Bindings of all views apply here.
            let is_useful = here.contains(&action) || !homes.is_empty();
            if is_useful && !offers.iter().any(|it| it.action == action) {
                offers.extend(offer(action, why));
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
        let (newest, is_overview) = (&self.display.newest, self.view == View::Overview);
        if action.is_command() && newest.read_only {
            return Some(text::READ_ONLY.to_lowercase());
        }
        let (is_useless, why) = match action {
            Action::PlanRecovery => {
                let is_none = PendingLine::page(newest).total == Some(0);
                (newest.redis.up && is_none, Label("command-there-are-no-pending-entries"))
            }
            Action::Repair => (ledger::is_balanced(&newest.ledger), ledger::NOTHING_TO_REPAIR),
            Action::ReplayLetters | Action::Discard | Action::Compensate => {
                let stream = newest.stream.as_ref();
                (stream.is_none_or(|it| it.dead == 0), letters::NOTHING_DEAD)
            }
            Action::StopCommand => {
                let is_running = newest.recoveries.iter().any(|line| line.changes);
                (!is_running, Label("command-no-command-is-running"))
            }
            Action::Start | Action::Pause | Action::End | Action::Rush
                if self.view != View::Jobs =>
            {
                let is_none = self.display.shown.sales.is_empty();
                return is_none.then(|| commands::NO_SALE.to_owned()).or_else(|| self.away());
            }
            Action::Fire => return self.director.why_not_fire(),
            Action::Abort => {
                let is_none = self.director.launch.is_none() && newest.load_tests.is_empty();
                (is_none, launch::NOTHING_TO_STOP)
            }
            Action::Filter => (is_overview, commands::NO_FILTER),
            Action::SortNext | Action::SortTurn => match self.paged_total() {
                Some(total) => return Some(conventions::in_pages(total)),
                None => (is_overview, conventions::NO_TABLE),
            },
            Action::CopyName
            | Action::CopyRow
            | Action::Release
            | Action::RunJob
            | Action::Pause
            | Action::Pay => return (!self.has_choice()).then(|| self.no_choice()),
            _ => return None,
        };
        is_useless.then(|| why.to_owned())
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
