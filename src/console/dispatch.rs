//! Executes actions: moving, opening, typing, confirming.

use crossterm::event::Event;
use seckill_engine::{
    commands::{Command, Focus, audit_record},
    telemetry::snapshot::PendingLine,
};
use seckill_model::{
    is_display_control,
    message::{Label, text},
};
use tui_input::Input;

use super::{
    app::{App, Course},
    dialogs::{Confirm, Dialog, ExportMenu, Help, Intent, MOST, Palette, is_cut, typed},
    export::{self, Format},
    keymap::{Action, key_of},
    launch::Launch,
    text::{commands, conventions},
    views::{
        Effect, Order, Pane, Row as _, Scene, Sheet, Step, Turn, Users, View,
        orders::wording::query_of_sale,
    },
    widgets::fit,
};

/// Most bytes of a copy: more than any row, and accepted by every terminal.
const MOST_COPIED: usize = 32 * 1024;
/// Cells of a copy that the status line repeats.
const REPEATED: usize = 40;
/// The setting that makes tmux forward a copy.
const TMUX_SETTING: &str = "set -s set-clipboard on";

impl App {
    pub(super) fn run(&mut self, action: Action) {
        match action {
            Action::QuitNow => self.terminal.course = Course::Quit,
            Action::Suspend => self.terminal.course = Course::Suspend,
            Action::Picture => self.export(Format::Svg),
            _ => match self.dialog.take() {
                Some(dialog) => self.dialog = self.answer_dialog(dialog, action),
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
            None if self.views.filtering => {
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
        if self.views.filtering { self.filter().map(|filter| &*filter) } else { None }
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
                        self.views.sales.choose(voucher);
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
        match action {
            Action::Help => {
                let foot = self.terminal.drawn.summary();
                self.dialog = Some(Dialog::Help(Help::new(self.context(), foot)));
            }
            Action::Export => {
                let rows = self.sheet().map(|sheet| (sheet.rows.len(), sheet.extent));
                let menu = ExportMenu::new(rows, self.terminal.export_dir.as_deref());
                self.dialog = Some(Dialog::Export(menu));
            }
            Action::Palette => self.dialog = Some(Dialog::Palette(self.palette())),
            Action::Go(view) => self.go(view),
            Action::NextView => self.go(self.view.beside(true)),
            Action::PreviousView => self.go(self.view.beside(false)),
            Action::Filter if self.keeps_query() => self.note(conventions::frozen()),
            Action::Filter => match self.filter() {
                Some(_) => self.views.filtering = true,
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
                    let key = key_of(Action::Open);
                    self.note(text!("conventions-no-details-are-open-press", key));
                }
            }
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
                self.display.users.shown = !self.display.users.shown;
                self.note(text!("stream-users", are_shown = self.display.users.shown));
            }
            Action::Present => self.present(),
            Action::Quit => self.quit(),
            // Handled in dialogs or above.
            Action::Accept
            | Action::Cancel
            | Action::Press
            | Action::NextPart
            | Action::PreviousPart
            | Action::QuitNow
            | Action::Picture
            | Action::Suspend => {}
            action if action.is_command() => self.ask(action),
            action => {
                let is_scrub = matches!(
                    action,
                    Action::Earlier | Action::Later | Action::MarkBefore | Action::MarkAfter
                );
                // The chart stays while the user moves along it.
                if is_scrub && self.views.overview.has_chart() && !self.display.frozen {
                    self.freeze();
                }
                self.run_by_view(action);
            }
        }
    }

    /// Passes an action to the view; returns whether the view has it.
    pub(super) fn run_by_view(&mut self, action: Action) -> bool {
        let scene = Scene::of(&self.display);
        match self.views.get_mut(self.view).run(action, &scene) {
            Some(Effect::Done) => {}
            Some(Effect::Note(text)) => self.note(text),
            Some(Effect::Confirm(question, command)) => self.confirm(question, command),
            Some(Effect::Form(form)) => self.dialog = Some(Dialog::Form(form)),
            Some(Effect::Send(command)) => {
                self.send(command);
            }
            None => return false,
        }
        true
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
        let of_sales = matches!(self.view, View::Overview | View::Sales);
        match turn {
            Turn::Edge { .. } if of_sales && shown.sales.is_empty() => {
                self.note(Label("command-there-is-no-sale"));
            }
            turn => turn.note().into_iter().for_each(|note| self.note(note)),
        }
    }

    /// Reports to the engine what is on the screen, so that only that is read.
    pub(super) fn look(&self) {
        let mut looking_at = Focus::default();
        self.views.get(self.view).focus(&self.display.shown, &mut looking_at);
        self.remote
            .focus
            .send_if_modified(|focus| std::mem::replace(focus, looking_at) != looking_at);
    }

    fn open(&mut self) {
        let sales = &mut self.views.sales;
        match self.view {
            View::Overview if self.display.shown.sales.is_empty() => self.note(commands::NO_SALE),
            View::Overview => {
                let named = self.target_sale().or_else(|| self.active_sale());
                if let Some(sale) = named.map(|sale| sale.voucher_id) {
                    self.views.sales.table.cursor = Some(sale);
                }
                self.go(View::Sales);
                self.views.sales.table.controls.detail = true;
            }
            View::Sales if sales.table.controls.detail => {
                sales.choose_pointed();
                self.open_orders_of_sale();
            }
            View::Stream if self.views.stream.pane == Pane::Consumers => {
                self.note(Label("stream-consumer-has-no-details-beyond"));
            }
            _ if !self.has_choice() => self.note(self.no_choice()),
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
        self.views.orders.ask();
    }

    pub(super) fn go(&mut self, view: View) {
        if self.display.frozen && !self.views.get(view).is_read(&self.display.shown) {
            return self.note(conventions::frozen());
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
        } else if !self.status.took_note() {
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

    pub(super) fn has_choice(&self) -> bool {
        self.chosen_name().is_some()
    }

    /// Why no row is chosen.
    pub(super) fn no_choice(&self) -> String {
        let shown = &self.display.shown;
        let has_none = shown.redis.up && PendingLine::page(shown).total == Some(0);
        if self.view == View::Pending && has_none {
            return Label("conventions-no-pending-entries").to_owned();
        }
        let [up, down] = [Action::Up, Action::Down].map(key_of);
        text!("conventions-no-row-is-selected-use", up, down)
    }

    /// The total of a list that is read in pages in a fixed order, if it is longer than one page.
    pub(super) fn paged_total(&self) -> Option<u64> {
        self.table()?.fixed_order(&self.display.shown)
    }

    /// Sorts by the next column, or reverses the order.
    pub(super) fn order(&mut self, turn: bool) {
        if let Some(total) = self.paged_total() {
            return self.note(conventions::in_pages(total));
        }
        if self.view == View::Stream {
            return self.note(Label("conventions-stream-is-always-in-delivery"));
        }
        let Some(table) = self.table_mut() else { return self.note(conventions::NO_TABLE) };
        let controls = table.controls_mut();
        let before = controls.order;
        match &mut controls.order {
            Some(order) if turn => order.is_descending = !order.is_descending,
            None if turn => {
                let key = key_of(Action::SortNext);
                return self.note(text!("conventions-no-sort-column-press", key));
            }
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
        let extent = table.extent(&self.display.shown);
        table.sheet(&Scene::of(&self.display)).map(|sheet| Sheet { extent, ..sheet })
    }

    /// The chosen row as exported, which names no user.
    fn chosen_row(&self) -> Option<Sheet> {
        let scene = Scene { users: Users::MASKED, ..Scene::of(&self.display) };
        match self.view {
            // The Overview has no table, and the filter of Sales may hide the chosen sale.
            View::Overview | View::Sales => {
                let sale = [self.pointed_sale()?];
                Some(Sheet::of(&self.views.sales.table, &scene, &sale, Some(0)))
            }
            _ => self.table()?.sheet(&scene),
        }
    }

    /// Copies the chosen row, or its name, to the clipboard.
    pub(super) fn copy(&mut self, whole: bool) {
        let text = match self.chosen_name() {
            Some(_) if whole => {
                self.chosen_row().and_then(|sheet| export::row(&sheet, sheet.cursor?))
            }
            name => name,
        };
        let Some(text) = text else { return self.note(self.no_choice()) };
        let text = plain(&text);
        let shown = fit(&text, REPEATED);
        self.note(if self.terminal.in_tmux {
            text!("conventions-copied-tmux-forwards-it-only", what = shown, setting = TMUX_SETTING)
        } else {
            text!("conventions-copied", what = shown)
        });
        self.terminal.clipboard = Some(text);
    }

    /// Pauses or resumes the display; snapshots are collected meanwhile.
    pub(super) fn freeze(&mut self) {
        self.display.frozen = !self.display.frozen;
        if self.display.frozen {
            if self.view == View::Overview && self.views.overview.has_chart() {
                let [earlier, later, go_on] =
                    [Action::Earlier, Action::Later, Action::Freeze].map(key_of);
                self.note(text!("time-display-paused-and-step-through", earlier, later, go_on));
            }
        } else {
            self.views.overview.let_go();
            self.show_newest();
        }
    }
}

/// Returns one line of limited length without control characters.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if plain.len() + c.len_utf8() > MOST_COPIED {
            break;
        }
        plain.push(if is_display_control(c) { ' ' } else { c });
    }
    plain
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
