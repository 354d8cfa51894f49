//! Executes actions: moving, opening, typing, confirming.

use std::sync::Arc;

use crossterm::event::Event;
use seckill_engine::commands::{Command, Focus, audit_record};
use seckill_model::message::{Label, text};
use tui_input::Input;

use super::{
    app::{App, Course},
    dialogs::{Confirm, Dialog, ExportMenu, Help, Intent, MOST, Palette, is_cut, typed},
    export::Format,
    keymap::{Action, key_of},
    launch::Launch,
    text::{commands, conventions},
    views::{self, Pane, Step, Turn, View},
};

impl App {
    pub(super) fn run(&mut self, action: Action) {
        match action {
            Action::QuitNow => self.terminal.course = Course::Quit,
            Action::Suspend => self.terminal.course = Course::Suspend,
            Action::Picture => self.export(Format::Svg),
            _ => match self.dialog.take() {
                Some(dialog) => self.dialog = self.answer_dialog(dialog, action),
                None if self.tables.filtering => self.run_in_filter(action),
                None => self.run_in_view(action),
            },
        }
        self.look();
    }

    /// Inserts pasted text into the focused input; a paste into a view is ignored.
    pub(super) fn type_in(&mut self, event: &Event) {
        if self.input().is_some_and(|input| is_cut(input, event)) {
            self.note(text!("conventions-pasted-text-was-truncated", kept = MOST));
        }
        match &mut self.dialog {
            Some(Dialog::Form(form)) => {
                form.type_in(event, &self.display.newest.sales, self.display.now);
            }
            Some(Dialog::Palette(palette)) => palette.type_in(event),
            Some(Dialog::Confirm(confirm)) => confirm.type_in(event),
            Some(Dialog::Export(_)) => {
                if let Some(format) = ExportMenu::of_letter(event) {
                    self.dialog = None;
                    self.export(format);
                }
            }
            None if self.tables.filtering => {
                let changed = self.filter().is_some_and(|filter| typed(filter, event));
                if changed {
                    self.filter_changed();
                }
            }
            _ => {}
        }
    }

    /// The focused text input.
    fn input(&mut self) -> Option<&Input> {
        if self.dialog.is_some() {
            return self.dialog.as_ref().and_then(Dialog::input);
        }
        if self.tables.filtering { self.filter().map(|filter| &*filter) } else { None }
    }

    /// Applies an action to a dialog; returns the dialog that is open after it.
    fn answer_dialog(&mut self, dialog: Dialog, action: Action) -> Option<Dialog> {
        let forward = action != Action::PreviousPart;
        match (dialog, action) {
            (Dialog::Confirm(confirm), _) => self.answer_confirm(confirm, action),
            (Dialog::Form(form), _) if form.is_left_by(action) => {
                self.leave(form);
                None
            }
            (Dialog::Form(mut form), Action::Press) if form.at_submit() => {
                match form.submit(&self.display.newest.sales, self.display.now) {
                    Some(submission) => {
                        self.work.drafts.keep(form);
                        self.submit(submission)
                    }
                    // The error is shown under its field.
                    None => Some(Dialog::Form(form)),
                }
            }
            (Dialog::Form(mut form), _) => {
                form.step(forward);
                Some(Dialog::Form(form))
            }
            (Dialog::Palette(_) | Dialog::Help(_) | Dialog::Export(_), Action::Cancel) => None,
            (Dialog::Palette(palette), Action::Press) => self.run_by_name(palette),
            (Dialog::Palette(mut palette), _) => {
                palette.step(forward);
                Some(Dialog::Palette(palette))
            }
            (Dialog::Export(menu), Action::Press) => {
                if let Some(format) = menu.chosen() {
                    self.export(format);
                }
                None
            }
            (Dialog::Export(mut menu), _) => {
                menu.step(forward);
                Some(Dialog::Export(menu))
            }
            (Dialog::Help(mut help), _) => {
                help.step(action == Action::Down);
                Some(Dialog::Help(help))
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
        let action = offer.action;
        self.remember(action);
        self.run_in_view(action);
        self.dialog.take()
    }

    fn answer_confirm(&mut self, mut confirm: Confirm, action: Action) -> Option<Dialog> {
        match action {
            Action::Accept if confirm.is_unread(self.display.now) => {
                let key = key_of(Action::Accept);
                self.note(text!("conventions-question-has-just-appeared-read", key));
            }
            Action::Accept | Action::Press if action == Action::Accept || confirm.on_yes() => {
                match confirm.number_missing() {
                    Some(count) => self.note(conventions::number_first(count)),
                    None => return self.accepted(&confirm),
                }
            }
            // Enter ends the text; it never runs a command.
            Action::Press if confirm.in_reason() => confirm.leave_reason(),
            Action::Cancel | Action::Press => {
                let kept = confirm.creates().is_some();
                self.note(if kept { commands::DRAFT_KEPT } else { commands::CANCELLED });
                return None;
            }
            Action::NextPart | Action::PreviousPart => confirm.step(action == Action::NextPart),
            _ => {}
        }
        Some(Dialog::Confirm(confirm))
    }

    /// The only place that sends a confirmed command.
    fn accepted(&mut self, confirm: &Confirm) -> Option<Dialog> {
        self.status.begin();
        self.work.drafts.settle(&confirm.intent);
        let reason = confirm.reason();
        match &confirm.intent {
            Intent::Send(command) => {
                if self.send_because(Command::clone(command), reason) {
                    if let Some(sale) = confirm.creates() {
                        self.work.creating = Some(sale.clone());
                    }
                    // A command on a row also selects it.
                    let about = audit_record::about(command).filter(|_| self.view == View::Sales);
                    if let Some(voucher) = about {
                        self.tables.sales.choose(voucher);
                    }
                }
            }
            Intent::Arm(launch) => self.arm(Launch { reason, ..Launch::clone(launch) }),
            Intent::Fire(launch) => self.fire_now(launch, reason),
            Intent::Disarm(launch) => {
                self.disarm(launch);
                return self.dialog.take();
            }
            Intent::Abort { voucher, pauses } => self.stop_rush(*voucher, *pauses, reason),
            Intent::Quit => self.terminal.course = Course::Quit,
        }
        None
    }

    fn run_in_filter(&mut self, action: Action) {
        // An invalid query is corrected, not submitted.
        let taken = action == Action::Cancel || self.view != View::Orders || self.ask_orders();
        self.tables.filtering = !taken;
        if action == Action::Cancel
            && let Some(filter) = self.filter()
        {
            filter.reset();
            self.filter_changed();
        }
    }

    /// The filter of the current view.
    pub(super) fn filter(&mut self) -> Option<&mut Input> {
        self.tables.get_mut(self.view).filter()
    }

    pub(super) fn filter_changed(&mut self) {
        let shown = Arc::clone(&self.display.shown);
        if let Some(table) = self.table_mut() {
            table.settle_cursor(&shown);
        }
        if self.view == View::Orders && !self.tables.filtering {
            self.ask_orders();
        }
    }

    fn run_in_view(&mut self, action: Action) {
        match action {
            Action::Help => {
                let foot = self.terminal.drawn.summary();
                self.dialog = Some(Dialog::Help(Help::new(self.context(), foot)));
            }
            Action::Export => {
                let rows = views::sheet(self).map(|sheet| (sheet.rows.len(), sheet.extent));
                let menu = ExportMenu::new(rows, self.terminal.export_dir.as_deref());
                self.dialog = Some(Dialog::Export(menu));
            }
            Action::Palette => {
                self.dialog = Some(Dialog::Palette(self.palette()));
            }
            Action::Go(view) => self.go(view),
            Action::NextView => self.go(self.view.beside(true)),
            Action::PreviousView => self.go(self.view.beside(false)),
            Action::Filter if self.keeps_query() => self.note(conventions::frozen()),
            Action::Filter => match self.filter() {
                Some(_) => self.tables.filtering = true,
                None => self.note(commands::NO_FILTER),
            },
            Action::Up => self.step(Step::By(-1)),
            Action::Down => self.step(Step::By(1)),
            Action::PageUp => self.step(Step::Screens(-1)),
            Action::PageDown => self.step(Step::Screens(1)),
            Action::First => self.step(Step::First),
            Action::Last => self.step(Step::Last),
            Action::Open => self.open(),
            Action::Close => {
                if !self.close() {
                    self.note(text!(
                        "conventions-no-details-are-open-press",
                        key = key_of(Action::Open)
                    ));
                }
            }
            Action::Back => self.back(),
            Action::Mark => self.mark(),
            Action::MarkAll => self.mark_all(),
            Action::SortNext => self.order(false),
            Action::SortTurn => self.order(true),
            Action::CopyName => self.copy(false),
            Action::CopyRow => self.copy(true),
            Action::Mouse => self.switch_mouse(),
            Action::Freeze => self.freeze(),
            Action::ZoomIn => self.zoom(-1),
            Action::ZoomOut => self.zoom(1),
            Action::ZoomReset => self.tables.overview.reset(),
            Action::Earlier | Action::Later | Action::MarkBefore | Action::MarkAfter => {
                self.scrub(action);
            }
            Action::Level => self.turn_level(),
            Action::Present => self.present(),
            Action::Quit => self.quit(),
            Action::Pane => self.tables.stream.switch(),
            Action::Partition => self.next_partition(),
            Action::Users => self.switch_users(),
            Action::NextPage | Action::PreviousPage => {
                let step = Step::Screens(if action == Action::NextPage { 1 } else { -1 });
                let turn = self.tables.orders.table.beyond(&self.display.shown, step);
                self.turn(turn);
            }
            // Handled in dialogs or above.
            Action::Accept
            | Action::Cancel
            | Action::Press
            | Action::NextPart
            | Action::PreviousPart
            | Action::QuitNow
            | Action::Picture
            | Action::Suspend => {}
            command => self.ask(command),
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        if self.presenter.on {
            return self.step_in_presenter(step);
        }
        let turn = match self.view {
            View::Overview if self.tables.sales.step_choice(&self.display.shown, step) => {
                Turn::Moved
            }
            View::Overview => Turn::edge(step),
            _ => self.step_in_table(step),
        };
        let of_sales = matches!(self.view, View::Overview | View::Sales);
        match turn {
            Turn::Edge { .. } if of_sales && self.display.shown.sales.is_empty() => {
                self.note(Label("command-there-is-no-sale"));
            }
            turn => self.turn(turn),
        }
    }

    /// Reports to the engine what is on the screen, so that only that is read.
    pub(super) fn look(&self) {
        let mut looking_at = Focus::default();
        self.tables.get(self.view).focus(&mut looking_at);
        self.remote
            .focus
            .send_if_modified(|focus| std::mem::replace(focus, looking_at) != looking_at);
    }

    fn open(&mut self) {
        match self.view {
            View::Overview if self.display.shown.sales.is_empty() => self.note(commands::NO_SALE),
            View::Overview => {
                let named = self.target_sale().or_else(|| self.at_sale());
                if let Some(sale) = named.map(|sale| sale.voucher_id) {
                    self.tables.sales.table.cursor = Some(sale);
                }
                self.go(View::Sales);
                self.tables.sales.table.controls.detail = true;
            }
            View::Sales if self.tables.sales.table.controls.detail => {
                self.choose_pointed();
                self.open_orders_of_sale();
            }
            View::Stream if self.tables.stream.pane == Pane::Consumers => {
                self.note(Label("stream-consumer-has-no-details-beyond").read());
            }
            _ if !self.has_choice() => self.note(self.no_choice()),
            view => {
                match view {
                    View::Sales => self.choose_pointed(),
                    View::Orders => self.tables.orders.forget_trace(),
                    _ => {}
                }
                if let Some(table) = self.table_mut() {
                    table.controls_mut().detail = true;
                }
            }
        }
    }

    fn zoom(&mut self, by: isize) {
        if !self.tables.overview.zoom(by) {
            self.note(Label("command-no-other-time-range"));
        }
    }
}
