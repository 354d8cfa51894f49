//! Carries out actions: moving, opening, typing, sorting, copying, exporting, and asking for confirmation of commands.
//!
//! A question refers to its subject by identity, with the figures of the newest snapshot, even while the display is
//! paused.

use crossterm::event::Event;
use ratatui::{buffer::Buffer, layout::Rect};
use seckill_engine::{
    Command, Pace, SaleLine, Scope,
    commands::{audit_record, plan::Plan},
    recovery::dead_letters::{LetterScope, LettersCounted},
    telemetry::snapshot::RecoveryLine,
};
use seckill_model::{
    Label, Phase, VoucherId, in_english, is_display_control, message::Lines, text,
};
use strum::VariantArray as _;
use tui_input::Input;

use super::{
    app::{App, Course},
    dialogs::{
        Confirm, Dialog, Effect, ExportMenu, Form, Help, Intent, MOST, Offer, Palette, Subject,
        is_cut, typed,
    },
    director::{NOTHING_TO_STOP, away},
    export::{self, Export, Format, of_screen, of_table, stamp},
    frame,
    keymap::{self, Action, Binding, Context, key_of},
    launch::Launch,
    text::{commands, commands::question, conventions, time::event_name},
    view::View,
    views::{
        Component as _, Order, Pane, Sheet, Step, Turn, ledger,
        letters::{self, in_scope},
        orders::query_of_sale,
    },
    widgets::fit,
};

/// Maximum number of bytes of a copy: more than any row, and accepted by every terminal.
const MOST_COPIED: usize = 32 * 1024;
/// Cells of a copy that the status line repeats.
const REPEATED: usize = 40;
/// The setting that makes tmux forward a copy.
const TMUX_SETTING: &str = "set -s set-clipboard on";

impl App {
    pub(super) fn run(&mut self, action: Action) {
        match action {
            Action::QuitNow => self.terminal.course = Course::Quit,
            Action::Suspend => self.suspend(),
            Action::Picture => self.export(Format::Svg),
            _ => match self.dialog.take() {
                Some(dialog) => {
                    let kept = self.answer_dialog(dialog, action);
                    self.dialog = kept.or(self.dialog.take());
                }
                None if self.views.filtering => self.run_in_filter(action),
                None => self.run_in_view(action),
            },
        }
    }

    /// Inserts pasted text into the focused input; a paste into a view is ignored.
    pub(super) fn type_in(&mut self, event: &Event) {
        if self.input().is_some_and(|input| is_cut(input, event)) {
            self.note(text!("conventions-pasted-text-was-truncated", kept = MOST));
        }
        match &mut self.dialog {
            Some(Dialog::Form(form)) => return form.type_in(event, &self.display),
            Some(Dialog::Export(_)) => {
                if let Some(format) = ExportMenu::of_letter(event) {
                    self.dialog = None;
                    self.export(format);
                }
            }
            _ => {}
        }
        let changed = self.input().is_some_and(|input| typed(input, event));
        match &mut self.dialog {
            Some(Dialog::Palette(palette)) if changed => palette.cursor = 0,
            None if changed => self.filter_changed(),
            _ => {}
        }
    }

    /// The focused text input.
    fn input(&mut self) -> Option<&mut Input> {
        if self.dialog.is_none() && self.views.filtering {
            return self.filter();
        }
        self.dialog.as_mut()?.input()
    }

    /// Applies an action to a dialog; returns it if it stays open.
    fn answer_dialog(&mut self, dialog: Dialog, action: Action) -> Option<Dialog> {
        match (dialog, action) {
            (Dialog::Confirm(confirm), _) => self.answer_confirm(confirm, action),
            (Dialog::Form(mut form), _) if form.is_left_by(action) => {
                form.focus = 0;
                let is_kept = self.work.keep_draft(form);
                self.note(if is_kept { commands::DRAFT_KEPT } else { commands::CANCELLED });
                None
            }
            (Dialog::Form(mut form), Action::Press) if form.at_submit() => {
                let Some(effect) = form.submit(&self.display) else {
                    // The error is shown under its field.
                    return Some(Dialog::Form(form));
                };
                self.apply(effect);
                match &mut self.dialog {
                    Some(Dialog::Confirm(confirm)) => confirm.form = Some(Box::new(form)),
                    _ => _ = self.work.keep_draft(form),
                }
                None
            }
            (Dialog::Palette(_) | Dialog::Help(_) | Dialog::Export(_), Action::Cancel) => None,
            (Dialog::Palette(palette), Action::Press) => self.run_by_name(palette),
            (Dialog::Export(menu), Action::Press) => {
                if let Some(format) = menu.chosen() {
                    self.export(format);
                }
                None
            }
            (mut dialog, _) => {
                dialog.step(!matches!(action, Action::PreviousPart | Action::Up));
                Some(dialog)
            }
        }
    }

    /// Runs the selected command of the palette, or reports why it is unavailable.
    fn run_by_name(&mut self, palette: Palette) -> Option<Dialog> {
        let Some(offer) = palette.chosen() else { return Some(Dialog::Palette(palette)) };
        if let Some(why) = &offer.why {
            self.note(why.clone());
            return Some(Dialog::Palette(palette));
        }
        let Offer { action, view, row, .. } = offer.clone();
        if let Some(view) = view {
            self.go(view);
            if self.view != view {
                return None;
            }
        }
        if let Some(row) = row {
            let row = if row.is_empty() { palette.input.value().trim() } else { &row };
            self.views.get_mut(self.view).point_to(&self.display.shown, row);
            self.views.sales.choose_pointed();
            return None;
        }
        self.work.asked.retain(|it| *it != action);
        self.work.asked.insert(0, action);
        self.run_in_view(action);
        None
    }

    fn answer_confirm(&mut self, mut confirm: Confirm, action: Action) -> Option<Dialog> {
        match action {
            Action::Accept if confirm.is_unread(self.display.now) => {
                self.note(text!("conventions-question-has-just-appeared-read"));
            }
            Action::Accept | Action::Press if action == Action::Accept || confirm.on_yes() => {
                let Some(count) = confirm.number_missing() else {
                    self.accepted(&mut confirm);
                    return None;
                };
                self.note(text!("conventions-this-affects-type-that-number", count));
            }
            // Enter ends the text; it never runs a command.
            Action::Press if confirm.in_reason() => confirm.leave_reason(),
            Action::Cancel | Action::Press => {
                self.note(commands::CANCELLED);
                return confirm.form.map(|form| Dialog::Form(*form));
            }
            Action::NextPart | Action::PreviousPart => confirm.step(action == Action::NextPart),
            _ => {}
        }
        Some(Dialog::Confirm(confirm))
    }

    /// The only place that sends a confirmed command.
    fn accepted(&mut self, confirm: &mut Confirm) {
        self.status.begin();
        let reason = confirm.reason();
        let (newest, now) = (&self.display.newest, self.display.now);
        match &confirm.intent {
            Intent::Send(command) => {
                let is_sent = self.send(Command::clone(command), reason);
                let created = confirm.creates().filter(|_| is_sent).cloned();
                // Until the sale exists, its input may be needed again.
                if (created.is_some() || !is_sent)
                    && let Some(form) = confirm.form.take()
                {
                    self.work.keep_draft(*form);
                }
                if is_sent {
                    self.work.creating = created.or(self.work.creating.take());
                    // A command on a row also selects it.
                    let about = audit_record::about(command).filter(|_| self.view == View::Sales);
                    if let Some(voucher) = about {
                        self.views.sales.choose(voucher);
                    }
                }
            }
            Intent::Arm(launch) => {
                let armed = self.director.arm(Launch { reason, ..Launch::clone(launch) }, now);
                self.apply(armed);
                self.advance_launch();
            }
            Intent::Fire => {
                let fired = self.director.fire(reason, newest, now);
                self.direct(Some(fired));
            }
            Intent::Disarm => match self.director.disarm() {
                Some(done) => self.apply(done),
                None => self.abort(),
            },
            Intent::Abort { voucher, pauses } => {
                let sale = newest.sale(*voucher);
                let sells = sale.is_some_and(|sale| sale.phase == Phase::Running);
                self.send(Command::StopLoadTest(*voucher), reason.clone());
                if *pauses && sells {
                    self.send(Command::PauseSale(*voucher), reason);
                }
            }
            Intent::Quit => self.terminal.course = Course::Quit,
            Intent::Suspend => self.terminal.course = Course::Suspend,
        }
    }

    fn run_in_filter(&mut self, action: Action) {
        // An invalid query is corrected, not submitted.
        let taken = action == Action::Cancel || self.views.get_mut(self.view).submit_filter();
        self.views.filtering = !taken;
        if action == Action::Cancel
            && let Some(filter) = self.filter()
        {
            filter.reset();
            self.filter_changed();
        }
    }

    /// The filter of the current view.
    pub(super) fn filter(&mut self) -> Option<&mut Input> {
        self.views.get_mut(self.view).filter()
    }

    fn filter_changed(&mut self) {
        let view = self.views.get_mut(self.view);
        if let Some(table) = view.table_mut() {
            table.settle_cursor(&self.display.shown);
        }
        if !self.views.filtering {
            self.views.get_mut(self.view).submit_filter();
            self.look();
        }
    }

    fn run_in_view(&mut self, action: Action) {
        if let Some(why) = self.why_not(action) {
            return self.note(why);
        }
        match action {
            Action::Help => {
                let foot = self.terminal.drawn.summary();
                let bindings = keymap::table().iter().filter(|it| self.has_use(it)).collect();
                self.dialog = Some(Dialog::Help(Help::new(self.context(), foot, bindings)));
            }
            Action::Export => {
                let rows = self.sheet().map(|sheet| sheet.extent);
                let menu = ExportMenu::new(rows, self.terminal.export_dir.as_deref());
                self.dialog = Some(Dialog::Export(menu));
            }
            Action::Palette => self.dialog = Some(Dialog::Palette(self.palette())),
            Action::Go(view) => self.go(view),
            Action::NextView | Action::PreviousView if self.view == View::Attach => {
                self.run_by_view(action);
            }
            Action::NextView => self.go(self.view.beside(true)),
            Action::PreviousView => self.go(self.view.beside(false)),
            Action::Filter => self.views.filtering = true,
            Action::Up => self.step(Step::By(-1)),
            Action::Down => self.step(Step::By(1)),
            Action::PageUp => self.step(Step::Screens(-1)),
            Action::PageDown => self.step(Step::Screens(1)),
            Action::First => self.step(Step::First),
            Action::Last => self.step(Step::Last),
            Action::Open => self.open(),
            Action::Close if self.close() => {}
            Action::Close => self.note(text!("conventions-no-details-are-open-press")),
            Action::Back => self.back(),
            Action::SortNext => self.order(false),
            Action::SortTurn => self.order(true),
            Action::CopyName => self.copy(false),
            Action::CopyRow => self.copy(true),
            Action::Mouse => {
                self.terminal.mouse = !self.terminal.mouse;
                self.note(text!("conventions-mouse", is_enabled = self.terminal.mouse));
            }
            Action::Freeze => self.freeze(),
            Action::Users => {
                self.display.users.masked = !self.display.users.masked;
                self.note(text!("stream-users", are_masked = self.display.users.masked));
            }
            Action::Present => {
                self.presenter.on = !self.presenter.on;
                // The audience may remain after the presentation.
                self.display.users.masked |= self.presenter.on;
            }
            Action::GuideNext => self.terminal.course = Course::NextPage,
            Action::Quit => self.quit(),
            action if action.is_command() => self.ask(action),
            action => {
                let is_scrub = (Action::Earlier..=Action::MarkAfter).contains(&action);
                // The chart stays while the user moves along it.
                if is_scrub && self.views.overview.axis.is_some() && !self.display.frozen {
                    self.freeze();
                }
                self.run_by_view(action);
            }
        }
    }

    /// Passes an action to the view; returns whether the view has it.
    pub(super) fn run_by_view(&mut self, action: Action) -> bool {
        let effect = self.views.get_mut(self.acting_view()).run(action, &self.display);
        effect.map(|effect| self.apply(effect)).is_some()
    }

    /// No other query can be answered while the display is paused.
    fn keeps_query(&self) -> bool {
        self.display.frozen && self.view == View::Orders
    }

    pub(super) fn step(&mut self, step: Step) {
        if self.presenter.on {
            return self.step_in_presenter(step);
        }
        let shown = &self.display.shown;
        let turn = match self.view {
            View::Overview if self.views.sales.step_choice(shown, step) => Turn::Moved,
            View::Overview => Turn::edge(step),
            view => self.views.get_mut(view).step(shown, step, self.display.frozen),
        };
        if let Some(note) = turn.note() {
            self.note(note);
        }
    }

    /// Shows the next sale in the presenter layout.
    fn step_in_presenter(&mut self, step: Step) {
        let sales = &self.display.shown.sales;
        let at = sales.iter().position(|sale| Some(sale.voucher_id) == self.presented());
        let next = at.map_or(0, |at| step.from(at, sales.len(), sales.len()));
        if at.is_none_or(|at| at == next) {
            let is_forward = step.is_forward();
            return self.note(match sales.len() {
                0 => text!("presenter-no-sales-yet-press"),
                count => text!("presenter-there-is-no-other-sale", count, is_forward),
            });
        }
        self.presenter.sale = sales.get(next).map(|sale| sale.voucher_id);
        self.presenter.launched = false;
        self.presenter.stranded = 0;
    }

    fn open(&mut self) {
        let sales = &mut self.views.sales;
        match self.view {
            View::Overview if self.display.shown.sales.is_empty() => self.note(commands::NO_SALE),
            View::Overview => {
                self.go_to_sales();
                self.views.sales.table.controls.detail = true;
            }
            View::Sales if sales.table.controls.detail => {
                sales.choose_pointed();
                self.open_orders_of_sale();
            }
            View::Lab => _ = self.run_by_view(Action::Open),
            View::Stream if self.views.stream.pane == Pane::Consumers => {
                self.note(Label("stream-consumer-has-no-details-beyond"));
            }
            _ if self.chosen_name().is_none() => self.note(conventions::no_row()),
            view => {
                match view {
                    View::Sales => self.views.sales.choose_pointed(),
                    View::Orders => self.views.orders.forget_trace(),
                    _ => {}
                }
                if let Some(table) = self.table_mut() {
                    table.controls_mut().detail = true;
                }
            }
        }
    }

    /// Opens Sales, with the cursor on the sale in the header.
    fn go_to_sales(&mut self) {
        let named = self.target_sale().or_else(|| self.active_sale());
        if let Some(sale) = named.map(|sale| sale.voucher_id) {
            self.views.sales.table.cursor = Some(sale);
        }
        self.go(View::Sales);
    }

    /// Opens the orders of the chosen sale.
    fn open_orders_of_sale(&mut self) {
        let Some(sale) = self.pointed_sale().map(|sale| sale.voucher_id) else {
            return self.note(commands::NOTHING_CHOSEN);
        };
        if self.display.frozen {
            return self.note(conventions::frozen());
        }
        self.views.orders.input = query_of_sale(sale).into();
        self.go(View::Orders);
        self.views.orders.submit_filter();
    }

    pub(super) fn go(&mut self, view: View) {
        if self.display.frozen && !self.views.get(view).is_read(&self.display.shown) {
            return self.note(conventions::frozen());
        }
        if self.alone && view != self.view {
            return self.note(self.alone());
        }
        // Its results would not be shown.
        if view != View::Lab && self.views.lab.cancel() {
            self.note(Label("lab-view-cancelling"));
        }
        self.view = view;
        self.views.filtering = false;
        self.presenter.on = false;
        self.look();
        self.views.get_mut(view).enter(&self.display.shown);
    }

    pub(super) fn close(&mut self) -> bool {
        let table = self.table_mut();
        table.is_some_and(|table| std::mem::take(&mut table.controls_mut().detail))
    }

    /// Dismisses one thing at a time, the most urgent first.
    pub(super) fn back(&mut self) {
        if self.status.dismiss() || std::mem::take(&mut self.presenter.on) {
            return;
        }
        // Cancels a count that is still running.
        if self.work.counting.take().is_some() {
            return self.note(Label("command-counting-dead-letters-was-cancelled"));
        }
        if self.view == View::Lab && self.views.lab.cancel() {
            return self.note(Label("lab-view-cancelling"));
        }
        self.views.orders.cancel_trace();
        if self.views.overview.let_go() || self.close() {
            return;
        }
        let keeps_query = self.keeps_query();
        if let Some(filter) = self.filter()
            && !filter.value().is_empty()
        {
            if keeps_query {
                return self.note(conventions::frozen());
            }
            filter.reset();
            self.filter_changed();
        } else if self.view == View::Overview {
            self.views.sales.let_go();
        } else if !self.status.took_note {
            // If there was a message, the key only dismissed it.
            self.go(View::Overview);
        }
    }

    /// The ID or name of the chosen row.
    fn chosen_name(&self) -> Option<String> {
        match self.table() {
            None => self.pointed_sale().map(|sale| sale.voucher_id.to_string()),
            Some(table) => table.chosen_name(&self.display.shown),
        }
    }

    /// Sorts by the next column, or reverses the order.
    pub(super) fn order(&mut self, turn: bool) {
        let Some(table) = self.table_mut() else { return };
        let controls = table.controls_mut();
        let before = controls.order;
        match &mut controls.order {
            Some(order) if turn => order.is_descending = !order.is_descending,
            None if turn => return self.note(text!("conventions-no-sort-column-press")),
            _ => controls.next_order(),
        }
        let text = match (before, controls.order) {
            (_, Some(Order { title: head, is_descending })) => {
                text!("conventions-sorted", head, is_descending)
            }
            (Some(_), None) => text!("conventions-default-order-restored"),
            (None, None) => text!("conventions-these-rows-cannot-be-sorted"),
        };
        self.note(text);
    }

    /// The table of the view with all loaded rows that match the filter; `None` if there is none or it was not read
    /// yet.
    pub(crate) fn sheet(&self) -> Option<Sheet> {
        let table = self.table().filter(|_| self.display.has_data())?;
        table.sheet(&self.display)
    }

    /// The chosen row as exported.
    fn chosen_row(&self) -> Option<Sheet> {
        let scene = &self.display;
        match self.view {
            // The Overview has no table, and the filter of Sales may hide the chosen sale.
            View::Overview | View::Sales => {
                let sale = [self.pointed_sale()?];
                Some(self.views.sales.table.sheet_of(scene, &sale, Some(0)))
            }
            _ => self.table()?.sheet(scene),
        }
    }

    /// Copies the chosen row, or its name, to the clipboard.
    pub(super) fn copy(&mut self, whole: bool) {
        let row = || self.chosen_row().and_then(|sheet| export::row(&sheet, sheet.cursor?));
        let text = self.chosen_name().and_then(|name| if whole { row() } else { Some(name) });
        let Some(text) = text else { return self.note(conventions::no_row()) };
        let text = plain(&text);
        let (what, in_tmux) = (fit(&text, REPEATED), self.terminal.in_tmux);
        self.note(text!("conventions-copied", what, in_tmux, setting = TMUX_SETTING));
        self.terminal.clipboard = Some(text);
    }

    /// Pauses or resumes the display; snapshots are collected meanwhile.
    pub(super) fn freeze(&mut self) {
        self.display.frozen = !self.display.frozen;
        if self.display.frozen {
            if self.view == View::Overview && self.views.overview.axis.is_some() {
                self.note(text!("time-display-paused-and-step-through"));
            }
        } else {
            self.views.overview.let_go();
            self.show_newest();
        }
    }

    /// Builds an export of the screen or its table.
    pub(super) fn export(&mut self, format: Format) {
        let (name, mut rows) = (self.view.name(), None);
        let body = if format.is_of_table() {
            let Some(sheet) = self.sheet() else {
                return self.note(&*Label("export-there-are-no-rows"));
            };
            rows = Some(sheet.extent);
            match of_table(format, &sheet, name, self.display.shown.taken) {
                Ok(body) => body,
                Err(why) => return self.on_saved(Err(why)),
            }
        } else {
            let (width, height) = self.terminal.size;
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            frame::paint(self, &mut buffer);
            of_screen(format, &buffer, self.display.theme.is_light, name)
        };
        let stem = format!("seckill-{name}-{}", stamp(self.display.now, &self.display.zone));
        let dir = self.terminal.export_dir.clone();
        self.terminal.exports.push(Export { dir, stem, format, rows, body });
        self.note(&*Label("export-writing-the-file"));
    }

    /// Opens the question or form of a command.
    fn ask(&mut self, action: Action) {
        match action {
            Action::Arm => self.ask_arm(),
            Action::Fire => {
                if let Some(launch) = self.director.armed() {
                    let question = question!("ask-launch-now", events = Lines(launch.events()));
                    self.dialog = Some(Dialog::Confirm(Confirm::new(question, Intent::Fire)));
                }
            }
            Action::Abort => self.abort(),
            Action::NewSale => self.ask_new_sale(),
            Action::ReplayLetters | Action::Discard | Action::Compensate => {
                self.count_letters(action);
            }
            Action::StopCommand => {
                if let Some(line) = self.running_command() {
                    let (action, done) = (event_name(&line.action), line.done);
                    let question =
                        question!("ask-stop-command", action, done, planned = line.planned);
                    self.apply(Effect::confirm(question, Command::Cancel));
                }
            }
            action if self.run_by_view(action) => {}
            action => {
                if let Some(sale) = self.meant_sale(action) {
                    self.ask_sale(action, &sale);
                }
            }
        }
    }

    /// The command of any console that changes data now.
    fn running_command(&self) -> Option<&RecoveryLine> {
        self.display.newest.recoveries.iter().find(|line| line.changes)
    }

    /// Opens the draft of the form on this subject, or a new form.
    fn open_form(&mut self, subject: &Subject, new: impl FnOnce() -> Form) {
        let drafts = &mut self.work.drafts;
        let draft = drafts.iter().position(|form| form.subject == *subject);
        let draft = draft.map(|at| drafts.swap_remove(at));
        self.dialog = Some(Dialog::Form(draft.unwrap_or_else(new)));
    }

    fn ask_arm(&mut self) {
        if self.director.launch.is_some() {
            return self.note(text!("director-launch-is-scheduled-press"));
        }
        let newest = &self.display.newest;
        let planned =
            |id: &VoucherId| newest.sale(*id).is_some_and(|sale| sale.phase == Phase::Planned);
        let meant = self.seen_sale().filter(planned).or(self.presented().filter(planned));
        self.open_form(&Subject::Launch(meant), || Form::launch(meant));
    }

    /// Asks for confirmation before aborting the launch or stopping a load test: that of the sale on the screen, or the
    /// only one.
    fn abort(&mut self) {
        let rushed = self.display.newest.rushed();
        let only = if let [only] = rushed.as_slice() { Some(*only) } else { None };
        let chosen = self.seen_sale().filter(|id| rushed.contains(id)).or(only);
        if let Some(confirm) = self.director.ask_abort(&self.display.newest, chosen) {
            self.dialog = Some(Dialog::Confirm(confirm));
        } else if rushed.is_empty() {
            self.note(NOTHING_TO_STOP);
        } else {
            if !self.presenter.on {
                self.go(View::Sales);
            }
            self.note(text!("director-several-load-tests-are-running"));
        }
    }

    /// The sale that a command applies to; if it is ambiguous, the operator is asked to choose.
    fn meant_sale(&mut self, action: Action) -> Option<SaleLine> {
        let Some(meant) = self.target_sale().map(|sale| sale.voucher_id) else {
            self.go_to_sales();
            self.note(text!("conventions-select-sale-with-and-then", again = key_of(action)));
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
                return self.open_form(&Subject::LoadTest(id), || Form::load_test(sale));
            }
            (Action::Restock, _) => {
                return self.open_form(&Subject::Restock(id), || Form::restock(sale));
            }
            (Action::Start, Phase::Planned) => Command::StartSale(id),
            (Action::Pause, Phase::Paused) => Command::ResumeSale(id),
            (Action::Pause, _) => Command::PauseSale(id),
            (Action::End, _) => Command::EndSale(id),
            _ => return self.note(commands::no_use(sale)),
        };
        self.apply(Effect::confirm(commands::change(&command, sale), command));
    }

    fn ask_new_sale(&mut self) {
        if let Some(sale) = &self.work.creating {
            let title = sale.title.clone();
            return self.note(text!("command-is-being-created-wait", title));
        }
        self.open_form(&Subject::NewSale, Form::new_sale);
    }

    /// Asks for confirmation of a plan, with its exact counts; confirming executes exactly this plan. The engine skips
    /// entries that changed since it was made.
    pub(super) fn ask_plan(&mut self, plan: &Plan, scope: &Scope) {
        if plan.totals.to_do() == 0 {
            return self.note(match plan.totals.entries {
                0 => text!("command-these-entries-are-no-longer"),
                held => text!("command-held-by-live-nodes-nothing", held),
            });
        }
        let state = &self.views.pending;
        let filtered = plan.head.filter.is_empty() && !state.controls.filter.value().is_empty();
        let shown = filtered.then(|| state.rows(&self.display.shown).len());
        let command = Command::Apply(plan.clone(), Pace::default());
        let confirm = Confirm::command(commands::plan(plan, shown), command);
        let is_asked =
            self.ask_late(Label("command-plan-is-ready"), Action::PlanRecovery, Ok(confirm));
        if let (true, Scope::Entries(marks)) = (is_asked, scope) {
            self.work.planned = Some((plan.clone(), marks.clone()));
        }
        self.follow_plan();
        self.look();
    }

    /// Updates what the question about a plan says of its entries now. The plan stays the one that was made.
    pub(super) fn follow_plan(&mut self) {
        if let Some(Dialog::Confirm(confirm)) = &mut self.dialog
            && let Some(plan) = confirm.plan()
        {
            let marks = self.work.planned.as_ref().filter(|(planned, _)| planned == plan);
            let marks = marks.map(|(_, marks)| marks.as_slice());
            confirm.note = commands::plan_now(plan, marks, &self.display.newest);
            self.terminal.dirty = true;
        }
    }

    /// Requests a count of dead letters by verdict; the question follows when it arrives.
    fn count_letters(&mut self, action: Action) {
        if self.work.counting.is_some() {
            return self.note(Label("letters-counting-the-dead-letters"));
        }
        let meant = in_scope(&self.views.letters, &self.display.shown);
        let Some((scope, about)) = meant else { return self.note(commands::NOTHING_CHOSEN) };
        if self.send(Command::CountLetters(scope.clone()), None) {
            self.work.counting = Some((action, scope, about));
        }
    }

    /// Asks for confirmation, with exact counts; confirming applies to exactly these letters.
    pub(super) fn ask_letters(&mut self, found: &LettersCounted, counted: &LetterScope) {
        // A cancelled count may still arrive.
        let awaited = self.work.counting.take_if(|(_, scope, _)| scope == counted);
        let Some((action, scope, about)) = awaited else { return };
        // Letters added after the count are excluded.
        let command = letters::command(action, scope.as_counted(found));
        let question = letters::question(action, found, &about);
        let done = letters::done(action, &found.counts);
        let asked = question.map(|it| Confirm::command(it, command).about(done));
        let what = Label("letters-the-dead-letters-are-counted");
        self.ask_late(what, action, asked);
    }

    /// Suspends the console, and with it the node of its process: it asks first, unless it was asked twice.
    fn suspend(&mut self) {
        let is_asked = matches!(&self.dialog, Some(Dialog::Confirm(it)) if it.is_suspension());
        if self.alone || self.display.newest.read_only || is_asked {
            self.dialog = self.dialog.take().filter(|_| !is_asked);
            self.terminal.course = Course::Suspend;
        } else if self.dialog.is_some() {
            self.note(text!("conventions-close-before-suspending"));
        } else {
            let question = question!("ask-suspend");
            self.dialog = Some(Dialog::Confirm(Confirm::new(question, Intent::Suspend)));
        }
    }

    /// Asks for confirmation before quitting while something is in progress.
    pub(super) fn quit(&mut self) {
        let load_tests = &self.display.newest.load_tests;
        let question = if let Some(launch) = self.director.armed() {
            question!("ask-quit-during-launch", launch = launch.badge(true))
        } else if let Some(line) = self.running_command() {
            let (action, done) = (event_name(&line.action), line.done);
            question!("ask-quit-during-command", action, done, planned = line.planned)
        } else if load_tests.is_empty() {
            self.terminal.course = Course::Quit;
            return;
        } else {
            let sent: u64 = load_tests.iter().map(|it| it.sent).sum();
            let planned: u64 = load_tests.iter().map(|it| it.planned).sum();
            let unsent = planned.saturating_sub(sent);
            question!("ask-quit-during-load-test", sent, planned, unsent)
        };
        self.dialog = Some(Dialog::Confirm(Confirm::new(question, Intent::Quit)));
    }

    /// The palette with every named action: those of this view first.
    pub(super) fn palette(&self) -> Palette {
        let here = keymap::actions(self.place()).into_iter().map(|action| (action, None));
        let elsewhere = keymap::table().iter().filter_map(|it| match it.context {
            Context::View(view) => Some((it.action, Some(view))),
            _ => None,
        });
        let mut offers: Vec<Offer> = Vec::new();
        for (action, view) in here.chain(elsewhere) {
            let is_alone = !action.needs_engine() && view.is_none_or(|it| it == self.view);
            let is_here = !self.alone || is_alone;
            let is_new = is_here && !offers.iter().any(|it| it.action == action);
            let Some(name) = action.name().filter(|_| is_new) else { continue };
            let why = if view.is_none() { self.why_not(action) } else { None };
            // The English name and the settings name, in every language.
            let english = in_english(|| action.name()).unwrap_or_default();
            let alias = format!("{english} {}", action.setting().replace('-', " "));
            offers.push(Offer { action, name: name.to_owned(), alias, why, view, row: None });
        }
        for view in View::VARIANTS.iter().copied() {
            let names = self.views.get(view).names(&self.display.shown);
            offers.extend(names.into_iter().map(|(row, name)| Offer {
                action: Action::Go(view),
                name,
                alias: String::new(),
                why: None,
                view: Some(view),
                row: Some(row),
            }));
        }
        Palette::new(offers, &self.work.asked)
    }

    /// The unreachable server that a command would have to wait for.
    pub(super) fn away(&self) -> Option<String> {
        away(&self.display.newest).map(|away| text!("command-try-again-once", away))
    }

    /// Whether a key has a use: in one view alone, those of the engine and of other views have none, and in the lab none
    /// of the order.
    fn has_use(&self, binding: &Binding) -> bool {
        if !self.alone {
            return binding.context != Context::View(View::Attach);
        }
        let is_here = match binding.context {
            Context::View(view) => view == self.view,
            Context::Presenter | Context::Confirm => false,
            Context::Form | Context::Button => self.view == View::Lab,
            _ => {
                !(self.view == View::Lab
                    && matches!(binding.action, Action::SortNext | Action::SortTurn))
            }
        };
        is_here && !self.lacks_engine(binding.action)
    }

    /// Whether an action has no use here without an engine. An attached service has panels for views.
    fn lacks_engine(&self, action: Action) -> bool {
        let turns = matches!(action, Action::NextView | Action::PreviousView);
        self.alone && action.needs_engine() && !(turns && self.view == View::Attach)
    }

    /// Why nothing else can be opened.
    fn alone(&self) -> String {
        if self.view == View::Attach { text!("attach-alone") } else { text!("lab-alone") }
    }

    /// Why an action of this view would have no effect, for the palette and for its key.
    pub(super) fn why_not(&self, action: Action) -> Option<String> {
        let newest = &self.display.newest;
        if self.lacks_engine(action) {
            return Some(self.alone());
        }
        if action.is_command() && newest.read_only {
            return Some(text!("conventions-read-only-mode-commands"));
        }
        let of_view = self.views.get(self.acting_view()).why_not(action, &self.display);
        if of_view.is_some() {
            return of_view;
        }
        let unless = |is_possible: bool, why: Label| (!is_possible).then(|| why.to_owned());
        match action {
            Action::Repair => {
                let is_needed = !ledger::is_balanced(&newest.ledger);
                unless(is_needed, ledger::NOTHING_TO_REPAIR).or_else(|| self.away())
            }
            Action::StopCommand => {
                unless(self.running_command().is_some(), Label("command-no-command-is-running"))
            }
            Action::Start | Action::Pause | Action::End | Action::Rush | Action::Restock
                if self.view != View::Jobs =>
            {
                let has_sales = !self.display.shown.sales.is_empty();
                unless(has_sales, commands::NO_SALE).or_else(|| self.away())
            }
            Action::Fire => self.director.why_not_fire(),
            Action::Abort => {
                let is_active = self.director.launch.is_some() || !newest.load_tests.is_empty();
                unless(is_active, NOTHING_TO_STOP)
            }
            Action::GuideNext => unless(!self.guide.is_blank(), Label("console-there-is-no-guide")),
            Action::Filter if self.keeps_query() => Some(conventions::frozen()),
            Action::Filter => {
                unless(self.table().is_some(), Label("command-this-view-has-no-rows"))
            }
            Action::SortNext | Action::SortTurn => match self.table() {
                Some(table) => table.fixed_order(&self.display.shown),
                None => Some(Label("conventions-this-view-has-no-table").to_owned()),
            },
            Action::CopyName | Action::CopyRow if self.chosen_name().is_none() => {
                Some(conventions::no_row())
            }
            _ => None,
        }
    }
}

/// Returns one line of limited length without control characters.
fn plain(text: &str) -> String {
    text[..text.floor_char_boundary(MOST_COPIED)].replace(is_display_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_one_bounded_line_without_control_characters() {
        assert_eq!(plain("a\x1b[31m\r\nb\u{9b}c"), "a [31m  b c");
        assert!(plain(&"锅".repeat(MOST_COPIED)).len() <= MOST_COPIED);
    }
}
