//! What keys do to the display alone: the presenter layout, exports, and forms that are left.

use ratatui::{buffer::Buffer, layout::Rect};
use seckill_model::{
    VoucherId,
    message::{Label, text},
};

use super::{
    app::App,
    dialogs::{Form, Subject},
    export::{Export, Format, Saved, Written, of_screen, of_table, row_count, stamp},
    frame,
    presenter::is_gone,
    status::Tone,
    text::commands,
    views::Step,
};

impl App {
    /// Toggles the presenter layout.
    pub(super) fn present(&mut self) {
        self.presenter.on = !self.presenter.on;
    }

    /// The sale that the presenter layout shows.
    pub(crate) fn presented(&self) -> Option<VoucherId> {
        let there = |id: &VoucherId| self.display.shown.sale(*id).is_some();
        let launched = self.director.sale().or(self.presenter.sale).filter(there);
        launched
            .or_else(|| self.active_sale().map(|sale| sale.voucher_id))
            .or_else(|| self.display.shown.foremost().map(|sale| sale.voucher_id))
    }

    /// Switches to the newly active sale if the shown one was launched and is over. A sale chosen by key stays.
    pub(super) fn leave_what_is_gone(&mut self) {
        let over = |id: &VoucherId| self.display.shown.sale(*id).is_some_and(is_gone);
        if self.presenter.launched && self.presenter.sale.is_some_and(|id| over(&id)) {
            self.presenter.sale = None;
        }
    }

    pub(super) fn step_in_presenter(&mut self, step: Step) {
        let sales = &self.display.shown.sales;
        let at = sales.iter().position(|sale| Some(sale.voucher_id) == self.presented());
        let next = match (at, step) {
            (Some(at), Step::By(by)) => at.saturating_add_signed(by).min(sales.len() - 1),
            _ => 0,
        };
        let next = sales.get(next).map(|sale| sale.voucher_id);
        if at.is_none() || next == self.presented() {
            return self.note(match step {
                _ if sales.is_empty() => text!("presenter-no-sales-yet-press"),
                _ if sales.len() == 1 => Label("presenter-there-is-no-other-sale").to_string(),
                Step::By(..0) => Label("presenter-this-is-the-first-sale").to_string(),
                _ => Label("presenter-this-is-the-last-sale").to_string(),
            });
        }
        self.presenter.sale = next;
        self.presenter.launched = false;
    }

    /// Builds an export of the screen or its table.
    pub(super) fn export(&mut self, format: Format) {
        let (name, mut rows) = (self.view.name(), None);
        let body = if format.is_of_table() {
            let Some(sheet) = self.sheet() else {
                return self.note(&*Label("export-there-are-no-rows"));
            };
            rows = Some((sheet.rows.len(), sheet.extent));
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

    pub(super) fn on_saved(&mut self, saved: Saved) {
        self.terminal.dirty = true;
        match saved {
            Ok(Written { path, rows }) => {
                let path = path.display();
                let part = rows.filter(|(_, extent)| extent.more);
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

    /// Reports what happened to a form that was left.
    pub(super) fn leave(&mut self, mut form: Form) {
        let kept = match form.subject {
            Subject::NewSale => commands::DRAFT_KEPT,
            _ => Label("command-nothing-was-changed-form-keeps"),
        };
        form.focus(0);
        let is_kept = self.work.drafts.keep(form);
        self.note(if is_kept { kept } else { commands::CANCELLED });
    }
}
