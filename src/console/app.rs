//! The state of the console: what is shown, what is open, which replies are outstanding, and which sale is meant.
//!
//! Events change it; nothing in here waits, draws, or accesses the terminal.

use std::{path::PathBuf, sync::Arc};

use crossterm::event::{Event, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use futures::{
    future::{BoxFuture, FutureExt},
    stream::FuturesUnordered,
};
use jiff::tz::TimeZone;
use ratatui::layout::{Position, Rect};
use seckill_engine::{
    Command, ReplayReport, Reply, SaleLine, Snapshot,
    commands::{Focus, Remote, plan::Plan},
    recovery::dead_letters::{LetterScope, LettersDiscarded, LettersReplayed},
};
use seckill_model::{EntryId, Label, Millis, NewSale, VoucherId, locale::set_key_label, text};
use strum::VariantArray as _;

use super::{
    Answer, GuidePage,
    active_sale::ActiveSale,
    dialogs::{Confirm, Dialog, Effect, Form, Intent, Subject},
    director::Director,
    export::{Export, Saved, row_count},
    keymap::{self, Action, Context, Key},
    keymap_config,
    presenter::{Presenter, is_gone},
    status::{Status, Tone},
    text::{commands, conventions},
    theme::Theme,
    view::View,
    views::{
        Scene, Step, Table, Views, attach::Pass, is_stale, is_too_small, lab::run::LabEvent,
        letters::Selected, stream,
    },
};

/// What the loop does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Course {
    #[default]
    GoOn,
    /// Asks the guide for its next page.
    NextPage,
    Suspend,
    Quit,
}

pub(crate) struct App {
    pub(super) remote: Remote,
    pub(crate) display: Scene,
    pub(crate) view: View,
    pub(crate) views: Views,
    pub(crate) dialog: Option<Dialog>,
    pub(super) work: Work,
    pub(crate) presenter: Presenter,
    pub(crate) selling: ActiveSale,
    pub(crate) director: Director,
    pub(crate) status: Status,
    pub(crate) guide: GuidePage,
    pub(crate) terminal: TerminalState,
    /// There is no engine: only the lab, or an attached service, is open.
    pub(crate) alone: bool,
}

/// Commands and forms in progress.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Outstanding replies.
    pub(super) answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// The command whose dead letters are being counted for its confirmation.
    pub(super) counting: Option<(Action, LetterScope, Selected)>,
    /// The sale whose creation is outstanding.
    pub(super) creating: Option<NewSale>,
    /// The last plan, with the marks it was made for.
    pub(super) planned: Option<(Plan, Vec<EntryId>)>,
    /// Forms that were left, or whose sale is being created: input is never lost.
    pub(super) drafts: Vec<Form>,
    /// Commands recently run from the palette, the newest first.
    pub(super) asked: Vec<Action>,
}

impl Work {
    /// Keeps a form that has input; `false` if nothing is kept.
    pub(super) fn keep_draft(&mut self, form: Form) -> bool {
        let is_of_group = matches!(
            form.subject,
            Subject::Rewind(_) | Subject::Claim(_) | Subject::Restock(_) | Subject::LabWork
        );
        let is_kept = form.is_changed() && !is_of_group;
        if is_kept {
            self.drafts.push(form);
        }
        is_kept
    }
}

/// Rows per notch of the wheel.
const NOTCH: isize = 3;

/// What the event loop and the terminal do next, and what was drawn last.
#[derive(Debug, Default)]
pub(crate) struct TerminalState {
    pub(crate) course: Course,
    /// The window is too small to draw, so that only the quit keys work.
    pub(crate) unseen: bool,
    /// Something visible changed since the last frame.
    pub(super) dirty: bool,
    /// Output counters of the terminal.
    pub(crate) drawn: Drawn,
    /// Exports that wait to be written.
    pub(super) exports: Vec<Export>,
    pub(super) export_dir: Option<PathBuf>,
    /// Columns and rows of the terminal at the last draw.
    pub(crate) size: (u16, u16),
    /// The mouse is captured.
    pub(crate) mouse: bool,
    /// The cells of tabs and key hints, and the action that a click on each runs.
    pub(crate) clickable: Vec<(Rect, Action)>,
    /// Text to copy to the clipboard of the terminal.
    pub(crate) clipboard: Option<String>,
    /// The console runs inside tmux, which by default keeps clipboard copies to itself.
    pub(crate) in_tmux: bool,
}

/// Output counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Bytes of the last frame.
    pub(crate) last: u64,
}

impl Drawn {
    /// The number of frames, and their size.
    pub(crate) fn summary(self) -> Option<String> {
        let mean = self.bytes.checked_div(self.frames)?;
        let (frames, last) = (self.frames, self.last);
        Some(text!("export-frames-bytes-on-average-last", frames, mean, last))
    }
}

impl App {
    pub(crate) fn new(remote: Remote, theme: Theme, zone: TimeZone, now: Millis) -> Self {
        keymap_config::choose_default();
        set_key_label(keymap::key_named);
        let first = remote.snapshots.borrow().clone();
        let mut app = Self {
            remote,
            display: Scene::new(theme, zone, now),
            view: View::Overview,
            views: Views::default(),
            dialog: None,
            work: Work::default(),
            presenter: Presenter::default(),
            selling: ActiveSale::default(),
            director: Director::default(),
            status: Status::default(),
            guide: GuidePage::default(),
            terminal: TerminalState::default(),
            alone: false,
        };
        app.on_snapshot(first);
        app
    }

    pub(crate) fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.display.newest = snapshot;
        self.presenter.look(&self.display.newest);
        if !self.display.frozen {
            self.show_newest();
        }
        self.follow_plan();
        self.advance_launch();
    }

    /// Applies a new snapshot; selections and marks follow their objects.
    pub(super) fn show_newest(&mut self) {
        self.display.shown = Arc::clone(&self.display.newest);
        self.terminal.dirty = true;
        let lag = self.display.shown.stream.as_ref().filter(|_| self.display.shown.redis.up);
        self.display.lag.push(self.display.shown.taken, lag.and_then(|stream| stream.lag));
        let mut notes = Vec::new();
        for view in View::VARIANTS {
            let settled = self.views.get_mut(*view).settle(&self.display.shown);
            notes.extend(settled.note);
            // While a command is running, marks disappear because it processes their rows.
            if settled.unmarked > 0 && self.work.answers.is_empty() {
                let (view, count) = (view.name(), settled.unmarked);
                notes.push(text!("console-unmarked", view, count));
            }
        }
        let has_turned = self.selling.look(&self.display.shown, self.views.sales.chosen);
        // A sale chosen by key stays.
        let is_over = |id| self.display.shown.sale(id).is_some_and(is_gone);
        if has_turned && self.presenter.launched && self.presenter.sale.is_some_and(is_over) {
            self.presenter.sale = None;
        }
        // Another page has to be read if the rows of this one are gone.
        self.look();
        self.send_wanted();
        for note in notes {
            self.note(note);
        }
    }

    /// The engine has stopped: no more snapshots.
    pub(crate) fn on_engine_gone(&mut self) {
        self.status.failure(Label("command-engine-has-stopped-display").to_owned());
        self.terminal.dirty = true;
    }

    pub(crate) fn on_guide(&mut self, guide: GuidePage) {
        self.terminal.dirty |= self.guide != guide;
        self.guide = guide;
    }

    /// The slow tick: ages increase, notices expire.
    pub(crate) fn on_tick(&mut self) {
        let expired = self.status.expire(self.display.now);
        self.terminal.dirty |= expired || self.display.frozen || self.shows_time();
    }

    /// Whether the screen shows something that changes with the clock alone.
    fn shows_time(&self) -> bool {
        if self.alone {
            return self.view == View::Attach;
        }
        let snapshot = &self.display.shown;
        let windows = snapshot.sales.iter().any(|sale| sale.begin.is_some() || sale.end.is_some());
        let leases = self.view == View::Locks && !snapshot.locks.locks.is_empty();
        windows
            || leases
            || is_stale(&snapshot.redis, self.display.now)
            || is_stale(&snapshot.sql, self.display.now)
    }

    pub(crate) fn on_event(&mut self, event: &Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(key, event),
            Event::Paste(_) if !self.terminal.unseen => {
                self.terminal.dirty = true;
                self.type_in(event);
            }
            Event::Resize(width, height) => {
                self.terminal.dirty = true;
                // A key pressed immediately afterwards is meant for the new window.
                self.terminal.unseen = is_too_small(*width, *height);
            }
            Event::Mouse(event) if !self.terminal.unseen => self.on_mouse(*event),
            _ => {}
        }
        self.look();
        self.send_wanted();
    }

    fn on_key(&mut self, key: &KeyEvent, event: &Event) {
        self.terminal.dirty = true;
        self.status.key_pressed();
        let pressed = Key::of(key);
        let always = keymap::lookup(Context::Always, pressed);
        if self.terminal.unseen {
            return always.into_iter().for_each(|action| self.run(action));
        }
        let context = self.context();
        let action = keymap::lookup(context, pressed);
        // A key closes the summary and does nothing else, unless it quits.
        let closes = always.is_none() && action != Some(Action::Quit);
        if closes && !std::mem::take(&mut self.guide.summary).is_empty() {
            return;
        }
        if let Some(Dialog::Confirm(confirm)) = &mut self.dialog
            && confirm.takes_digit(key)
        {
            return;
        }
        if let Some(action) = action {
            self.run(action);
        } else if matches!(context, Context::Form | Context::Palette | Context::Filter) {
            self.type_in(event);
        } else {
            let (key, meanings) = (pressed.label(), keymap::elsewhere(context, pressed));
            self.note(if meanings.is_empty() || self.dialog.is_some() || self.alone {
                let has_help = keymap::actions(context).contains(&Action::Help);
                text!("command-does-nothing-here", key, has_help)
            } else if context == Context::Presenter {
                text!("presenter-works-in-views-press", key)
            } else {
                commands::works_elsewhere(&key, &meanings)
            });
        }
    }

    /// The table of this view.
    pub(crate) fn table(&self) -> Option<&dyn Table> {
        self.views.get(self.view).table()
    }

    pub(crate) fn table_mut(&mut self) -> Option<&mut dyn Table> {
        self.views.get_mut(self.view).table_mut()
    }

    /// The context that keys are looked up in.
    pub(crate) fn context(&self) -> Context {
        match &self.dialog {
            Some(dialog) => dialog.context(),
            None if self.views.filtering => Context::Filter,
            None => self.place(),
        }
    }

    /// The context of the view, ignoring dialogs over it.
    pub(super) fn place(&self) -> Context {
        if self.presenter.on { Context::Presenter } else { Context::View(self.view) }
    }

    /// The view that carries out an action: the presenter layout has those of Pending only.
    pub(super) fn acting_view(&self) -> View {
        if self.presenter.on { View::Pending } else { self.view }
    }

    /// Sends the command that the view needs without a key, if any.
    pub(super) fn send_wanted(&mut self) {
        if let Some(command) = self.views.get_mut(self.view).wants()
            && !self.send(command.clone(), None)
        {
            self.views.orders.miss_trace(&command);
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.status.note(Tone::Note, text, self.display.now);
    }

    /// Applies what a view or the director decided.
    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Done => {}
            Effect::Note(text) => self.note(text),
            Effect::Success(text) => self.status.note(Tone::Good, text, self.display.now),
            Effect::Failure(text) => self.status.failure(text),
            Effect::Open(dialog) => self.dialog = Some(dialog),
            Effect::Send(command, reason) => {
                if !self.send(command.clone(), reason) {
                    self.director.take_awaiting(&command);
                }
            }
            Effect::LabWork(work, seeds) => self.views.lab.set_work(work, seeds),
        }
    }

    /// Applies what the director decided. A question about a launch that is over closes.
    pub(super) fn direct(&mut self, effect: Option<Effect>) {
        if let Some(effect) = effect {
            self.terminal.dirty = true;
            self.apply(effect);
        }
        let asks_to_fire =
            matches!(&self.dialog, Some(Dialog::Confirm(it)) if it.intent == Intent::Fire);
        if asks_to_fire && self.director.armed().is_none() {
            self.dialog = None;
        }
    }

    pub(super) fn advance_launch(&mut self) {
        let effect = self.director.advance(&self.display.newest, self.display.now);
        self.direct(effect);
    }

    /// Sends a command, with a reason for the audit log; its reply arrives in [`Work::answers`]. `false` if the engine
    /// does not accept it.
    pub(super) fn send(&mut self, command: Command, reason: Option<String>) -> bool {
        match self.remote.send(command.clone(), reason) {
            Ok(reply) => {
                self.note(commands::sent(&command));
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
        if let Some((opened, next)) = self.director.on_answer(&answer) {
            (self.presenter.sale, self.presenter.launched) = (Some(opened), true);
            return self.apply(next);
        }
        let (command, answer) = answer;
        if let Command::CreateSale(sale) = &command
            && self.work.creating.take_if(|sent| sent == sale).is_some()
            && matches!(answer, Ok(Ok(_)))
        {
            self.work.drafts.retain(|form| form.subject != Subject::NewSale);
        }
        let why = match answer {
            Ok(Ok(reply)) => return self.on_reply(command, &reply),
            Ok(Err(error)) => error.to_string(),
            Err(_) => text!("command-engine-stopped-before-it-replied"),
        };
        if let Command::CountLetters(failed) = &command {
            self.work.counting.take_if(|(_, scope, _)| scope == failed);
        }
        self.views.orders.miss_trace(&command);
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
                self.ask_late(Label("stream-statistics-are-ready"), again, Ok(confirm));
                return;
            }
            (Reply::Planned(plan), Command::Plan(scope)) => return self.ask_plan(plan, &scope),
            (Reply::Traced(trace), _) => {
                self.status.key_pressed();
                self.views.orders.take_trace(trace);
                // The user may have moved on to another order.
                return self.send_wanted();
            }
            (Reply::LoadTestDone(report), Command::LoadTest(plan)) => {
                self.display.load_reports.insert(plan.voucher, report.aggregate.clone());
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

    /// Opens a question that a reply leads to, or reports why there is none. If the user is typing or answering another
    /// one, reports instead that `what` is ready, and that `again` asks for it. Returns whether the question is open.
    pub(super) fn ask_late(
        &mut self,
        what: Label,
        again: Action,
        asked: Result<Confirm, String>,
    ) -> bool {
        self.status.key_pressed();
        match asked {
            _ if self.dialog.is_some() || self.views.filtering => {
                self.note(conventions::behind(what, self.context(), again));
            }
            Ok(confirm) => {
                self.dialog = Some(Dialog::Confirm(confirm.unbidden(self.display.now)));
                return true;
            }
            Err(why) => self.note(why),
        }
        false
    }

    pub(crate) fn on_lab_event(&mut self, event: LabEvent) {
        self.terminal.dirty = true;
        let effect = self.views.lab.on_event(event);
        self.apply(effect);
    }

    pub(crate) fn on_pass(&mut self, pass: Pass) {
        self.terminal.dirty = true;
        // Exports state when their rows were read.
        let taken = pass.ended;
        self.display.shown = Arc::new(Snapshot { taken, ..Snapshot::clone(&self.display.shown) });
        self.views.attach.on_pass(pass);
    }

    pub(super) fn on_saved(&mut self, saved: Saved) {
        self.terminal.dirty = true;
        match saved {
            Ok((path, rows)) => {
                let path = path.display();
                let part = rows.filter(|extent| extent.more);
                let (tone, text) = if part.is_some() {
                    let rows = row_count(part);
                    (Tone::Mixed, text!("export-written-to-loaded-rows-only", rows, path))
                } else {
                    (Tone::Good, text!("export-written-to", path))
                };
                self.status.note(tone, text, self.display.now);
            }
            Err(error) => self.status.failure(error.to_string()),
        }
    }

    /// Reports to the engine what is on the screen, so that only that is read.
    pub(super) fn look(&self) {
        let mut looking_at = Focus::default();
        let asks = matches!(&self.dialog, Some(Dialog::Confirm(it)) if it.plan().is_some());
        let view = if asks { View::Pending } else { self.view };
        self.views.get(view).focus(&self.display.shown, &mut looking_at);
        self.remote
            .focus
            .send_if_modified(|focus| std::mem::replace(focus, looking_at) != looking_at);
    }

    /// A click chooses, the wheel moves. Neither opens, confirms nor runs anything.
    fn on_mouse(&mut self, event: MouseEvent) {
        if !self.terminal.mouse || self.presenter.on {
            return;
        }
        let wheel = match event.kind {
            MouseEventKind::ScrollUp => Some(-NOTCH),
            MouseEventKind::ScrollDown => Some(NOTCH),
            MouseEventKind::Down(MouseButton::Left) => None,
            _ => return,
        };
        self.terminal.dirty = true;
        match (&mut self.dialog, wheel) {
            (Some(Dialog::Help(help)), Some(rows)) => return help.step(rows > 0),
            // Questions are answered with keys only.
            (Some(_), _) => return,
            (None, _) => self.status.key_pressed(),
        }
        if let Some(rows) = wheel {
            if self.table().is_some_and(|table| table.controls().total > 0) {
                self.step(Step::By(rows));
            }
            return;
        }
        let at = Position::new(event.column, event.row);
        let clicked = self.terminal.clickable.iter().find(|(cells, _)| cells.contains(at));
        match clicked {
            // A tab opens its view also from the filter.
            Some((_, Action::Go(view))) => return self.go(*view),
            Some((_, action)) => return self.run(*action),
            None => {}
        }
        if self.view == View::Overview
            && let Some(sale) = self.views.overview.sale_at(at)
        {
            return self.views.sales.choose(sale);
        }
        if let Some(row) = self.table().and_then(|table| table.controls().row_at(event.row)) {
            self.step(Step::Row(row));
        }
    }

    /// The sale that keys apply to: the row under the cursor in the table, elsewhere the chosen sale.
    pub(super) fn pointed_sale(&self) -> Option<&SaleLine> {
        let sales = &self.views.sales;
        let pointed = if self.view == View::Sales { sales.table.cursor } else { sales.chosen };
        pointed.and_then(|voucher| self.display.shown.sale(voucher))
    }

    /// The sale that a command would affect, which the header names: the subject of the open dialog, else
    /// [`Self::pointed_sale`], else on the Overview the only open sale. `None` if the operator has to choose.
    pub(crate) fn target_sale(&self) -> Option<&SaleLine> {
        if let Some(asked) = self.dialog.as_ref().and_then(Dialog::sale) {
            return self.display.shown.sale(asked).or_else(|| self.display.newest.sale(asked));
        }
        let only = || {
            let sales = &self.display.shown.sales;
            let mut open = sales.iter().filter(|sale| !sale.phase.is_over());
            match (open.next(), open.next(), sales.as_slice()) {
                // A sale that has ended is still the answer.
                (Some(only), None, _) | (None, _, [only]) => Some(only),
                _ => None,
            }
        };
        self.pointed_sale().or_else(|| if self.view == View::Overview { only() } else { None })
    }

    /// [`App::pointed_sale`], or the shown sale in the presenter layout.
    pub(super) fn seen_sale(&self) -> Option<VoucherId> {
        let pointed = || self.pointed_sale().map(|sale| sale.voucher_id);
        if self.presenter.on { self.presented() } else { pointed() }
    }

    /// The sale shown by the presenter layout, and by the header while no sale is chosen: the one with a load test from
    /// here, else the active one, else the chosen one. Old sales are not listed in a snapshot.
    pub(crate) fn active_sale(&self) -> Option<&SaleLine> {
        let rushed = self.display.shown.rushed();
        let only = if let [only] = rushed.as_slice() { Some(*only) } else { None };
        let mut candidates =
            only.into_iter().chain(self.selling.sale()).chain(self.views.sales.chosen);
        candidates.find_map(|voucher| self.display.shown.sale(voucher))
    }

    /// The sale that the presenter layout shows.
    pub(crate) fn presented(&self) -> Option<VoucherId> {
        let there = |id: &VoucherId| self.display.shown.sale(*id).is_some();
        let launched = self.director.sale().or(self.presenter.sale).filter(there);
        launched
            .or_else(|| self.active_sale().map(|sale| sale.voucher_id))
            .or_else(|| self.display.shown.foremost().map(|sale| sale.voucher_id))
    }
}
