//! Executes actions: moving, opening, typing, confirming.

use std::sync::Arc;

use crossterm::event::Event;
use seckill_engine::{
    audit_record,
    command::{Command, Focus},
};
use seckill_model::message::{Label, text};
use tui_input::Input;

use super::{
    app::{App, Course},
    dialogs::{Confirm, Dialog, ExportMenu, Help, Intent, MOST, is_cut, typed},
    export::Format,
    keymap::{Action, key_of},
    launch::Launch,
    text::{self, commands, conventions},
    views::{self, Pane, Step, TableView, Turn, View},
};

impl App {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::QuitNow => self.course = Course::Quit,
            Action::Suspend => self.course = Course::Suspend,
            Action::Picture => self.export(Format::Svg),
            _ => match self.dialog.take() {
                Some(dialog) => self.dialog = self.answer_dialog(dialog, action),
                None if self.filtering => self.act_in_filter(action),
                None => self.act_in_view(action),
            },
        }
        self.look();
    }

    /// Inserts pasted text into the focused input; a paste into a view is ignored.
    pub(super) fn type_in(&mut self, event: &Event) {
        let now = self.now;
        if self.input().is_some_and(|input| is_cut(input, event)) {
            self.note(text!("conventions-the-paste-was-cut-a-field", kept = MOST));
        }
        match &mut self.dialog {
            Some(Dialog::Sale(sale)) => sale.type_in(event, now),
            Some(Dialog::Rush(rush)) => rush.type_in(event),
            Some(Dialog::Launch(launch)) => launch.type_in(event, &self.newest.sales, now),
            Some(Dialog::Group(group)) => group.type_in(event),
            Some(Dialog::Palette(palette)) => palette.type_in(event),
            Some(Dialog::Confirm(confirm)) => confirm.type_in(event),
            Some(Dialog::Export(_)) => {
                if let Some(format) = ExportMenu::of_letter(event) {
                    self.dialog = None;
                    self.export(format);
                }
            }
            None if self.filtering => {
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
        if self.filtering { self.filter().map(|filter| &*filter) } else { None }
    }

    /// Applies an action to a dialog; returns the dialog if it stays open.
    fn answer_dialog(&mut self, mut dialog: Dialog, action: Action) -> Option<Dialog> {
        if dialog.form().is_some_and(|it| it.is_left_by(action)) {
            self.leave(dialog);
            return None;
        }
        match (&mut dialog, action) {
            (Dialog::Confirm(confirm), Action::Accept) if confirm.is_unread(self.now) => {
                self.note(text!(
                    "conventions-that-question-has-only-just-come",
                    key = key_of(Action::Accept)
                ));
            }
            (Dialog::Confirm(confirm), Action::Accept | Action::Press)
                if action == Action::Accept || confirm.on_yes() =>
            {
                match confirm.number_missing() {
                    Some(count) => self.note(conventions::number_first(count)),
                    None => return self.accepted(confirm),
                }
            }
            // Enter ends the text; it never runs a command.
            (Dialog::Confirm(confirm), Action::Press) if confirm.in_reason() => {
                confirm.leave_reason();
            }
            (Dialog::Confirm(confirm), Action::Cancel | Action::Press) => {
                let kept = confirm.creates().is_some() && self.draft.is_some();
                self.note(if kept { commands::DRAFT_KEPT } else { commands::CANCELLED });
                return None;
            }
            (Dialog::Confirm(confirm), Action::NextPart | Action::PreviousPart) => {
                confirm.step(action == Action::NextPart);
            }
            (Dialog::Sale(sale), Action::Press) if sale.form.at_submit() => {
                // Otherwise the error is shown under its field.
                if let Some(wanted) = sale.submit(self.now) {
                    if let Dialog::Sale(sale) = dialog {
                        self.draft = Some(sale);
                    }
                    return Some(self.confirm_sale(wanted));
                }
            }
            (Dialog::Rush(rush), Action::Press) if rush.form.at_submit() => {
                if let Some(plan) = rush.submit() {
                    self.keep(dialog);
                    return self.confirm_rush(plan);
                }
            }
            (Dialog::Launch(form), Action::Press) if form.form.at_submit() => {
                if let Some(launch) = form.submit(&self.newest.sales, self.now) {
                    self.keep(dialog);
                    return Some(Self::confirm_launch(launch));
                }
            }
            (Dialog::Group(group), Action::Press) if group.form.at_submit() => {
                if let Some(act) = group.submit() {
                    self.preview(act);
                    return None;
                }
            }
            (Dialog::Launch(launch), _) => launch.form.step(action != Action::PreviousPart),
            (Dialog::Group(group), _) => group.form.step(action != Action::PreviousPart),
            (Dialog::Sale(sale), _) => sale.form.step(action != Action::PreviousPart),
            (Dialog::Rush(rush), _) => rush.form.step(action != Action::PreviousPart),
            (Dialog::Palette(palette), Action::Press) => {
                if let Some(offer) = palette.chosen() {
                    if let Some(why) = &offer.why {
                        self.note(why.clone());
                    } else {
                        let action = offer.action;
                        self.remember(action);
                        self.act_in_view(action);
                        return self.dialog.take();
                    }
                }
            }
            (Dialog::Export(menu), Action::Press) => {
                if let Some(format) = menu.chosen() {
                    self.export(format);
                }
                return None;
            }
            (Dialog::Palette(_) | Dialog::Help(_) | Dialog::Export(_), Action::Cancel) => {
                return None;
            }
            (Dialog::Export(menu), _) => menu.step(action != Action::PreviousPart),
            (Dialog::Palette(palette), _) => palette.step(action != Action::PreviousPart),
            (Dialog::Help(help), _) => help.step(action == Action::Down),
            (Dialog::Confirm(_), _) => {}
        }
        Some(dialog)
    }

    /// The only place that sends a confirmed command.
    fn accepted(&mut self, confirm: &Confirm) -> Option<Dialog> {
        self.status.begin();
        self.drafts.settle(&confirm.intent);
        let reason = confirm.reason();
        match &confirm.intent {
            Intent::Send(command) => {
                if self.send_because(Command::clone(command), reason) {
                    if let Some(sale) = confirm.creates() {
                        self.creating = self.draft.take().map(|form| (sale.clone(), form));
                    }
                    // A command on a row also chooses it.
                    let about = audit_record::about(command).filter(|_| self.view == View::Sales);
                    if let Some(voucher) = about {
                        self.sales.choose(voucher);
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
            Intent::Quit => self.course = Course::Quit,
        }
        None
    }

    fn act_in_filter(&mut self, action: Action) {
        // An invalid query is corrected, not submitted.
        let taken = action == Action::Cancel || self.view != View::Orders || self.ask_orders();
        self.filtering = !taken;
        if action == Action::Cancel
            && let Some(filter) = self.filter()
        {
            filter.reset();
            self.filter_changed();
        }
    }

    /// The filter of the current view.
    pub(super) fn filter(&mut self) -> Option<&mut Input> {
        self.table_mut().map(TableView::input)
    }

    pub(super) fn filter_changed(&mut self) {
        let shown = Arc::clone(&self.shown);
        if let Some(table) = self.table_mut() {
            table.settle_cursor(&shown);
        }
        if self.view == View::Orders && !self.filtering {
            self.ask_orders();
        }
    }

    fn act_in_view(&mut self, action: Action) {
        match action {
            Action::Help => {
                let foot = text::export::drawn(self.drawn);
                self.dialog = Some(Dialog::Help(Help::new(foot)));
            }
            Action::Export => {
                let rows = views::sheet(self).map(|sheet| (sheet.rows.len(), sheet.extent));
                let menu = ExportMenu::new(rows, self.export_dir.as_deref());
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
                Some(_) => self.filtering = true,
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
                        "conventions-no-detail-is-open-opens-one",
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
            Action::ZoomReset => self.overview.reset(),
            Action::Earlier | Action::Later | Action::MarkBefore | Action::MarkAfter => {
                self.scrub(action);
            }
            Action::Level => self.turn_level(),
            Action::Present => self.present(),
            Action::Quit => self.quit(),
            Action::Pane
            | Action::Partition
            | Action::Users
            | Action::NextPage
            | Action::PreviousPage => self.act_in_stream_or_orders(action),
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
            View::Overview if self.sales.step_choice(&self.shown, step) => Turn::Moved,
            View::Overview => Turn::edge(step),
            _ => self.step_in_table(step),
        };
        let of_sales = matches!(self.view, View::Overview | View::Sales);
        match turn {
            Turn::Edge { .. } if of_sales && self.shown.sales.is_empty() => {
                self.note(Label("acts-no-sale-to-choose"));
            }
            turn => self.turn(turn),
        }
    }

    /// Reports to the engine what is on the screen, so that only that is read.
    pub(super) fn look(&self) {
        let looking_at = Focus {
            pending: (self.view == View::Pending).then(|| self.pending.from()),
            letters_from: (self.view == View::Letters).then(|| self.letters.from()),
            stream: (self.view == View::Stream).then(|| self.stream.view()),
            sale: self.looked_at_sale(),
            orders: (self.view == View::Orders).then(|| self.orders.view()),
            log: (self.view == View::Activity).then(|| self.log.look()),
            ledger: self.view == View::Ledger,
        };
        self.remote
            .focus
            .send_if_modified(|focus| std::mem::replace(focus, looking_at) != looking_at);
    }

    fn open(&mut self) {
        match self.view {
            View::Overview if self.shown.sales.is_empty() => self.note(commands::NO_SALE),
            View::Overview => {
                let named = self.target_sale().or_else(|| self.at_sale());
                if let Some(sale) = named.map(|sale| sale.voucher_id) {
                    self.sales.table.cursor = Some(sale);
                }
                self.go(View::Sales);
                self.sales.table.controls.detail = true;
            }
            View::Sales if self.sales.table.controls.detail => {
                self.choose_pointed();
                self.open_orders_of_sale();
            }
            View::Stream if self.stream.pane == Pane::Consumers => {
                self.note(Label("stream-a-consumer-has-no-detail-its").read());
            }
            _ if !self.has_choice() => self.note(self.no_choice()),
            view => {
                match view {
                    View::Sales => self.choose_pointed(),
                    View::Orders => self.orders.forget_trace(),
                    _ => {}
                }
                if let Some(table) = self.table_mut() {
                    table.controls_mut().detail = true;
                }
            }
        }
    }

    fn zoom(&mut self, by: isize) {
        if !self.overview.zoom(by) {
            self.note(Label("acts-the-chart-shows-no-other-time"));
        }
    }
}
