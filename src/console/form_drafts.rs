//! Drafts of forms that lead to a question: input is restored when the form is opened again for the same sale, until
//! the command is sent.

use seckill_engine::{command::Command, telemetry::snapshot::SaleLine};
use seckill_model::{VoucherId, message::Label};

use super::{
    app::App,
    dialogs::{Dialog, Intent, LaunchForm, RushForm},
    text::commands,
};

#[derive(Debug, Default)]
pub(crate) struct FormDrafts {
    rush: Option<RushForm>,
    launch: Option<LaunchForm>,
}

impl FormDrafts {
    /// The command was sent: the next form starts empty.
    pub(super) fn settle(&mut self, intent: &Intent) {
        match intent {
            Intent::Send(command) if matches!(**command, Command::LoadTest(_)) => self.rush = None,
            Intent::Arm(_) => self.launch = None,
            _ => {}
        }
    }
}

impl App {
    /// Keeps a form that has input; `false` if nothing is kept.
    pub(super) fn keep(&mut self, dialog: Dialog) -> bool {
        match dialog {
            Dialog::Sale(sale) if !sale.is_blank() => self.draft = Some(sale),
            Dialog::Rush(mut rush) if rush.form.is_touched() => {
                rush.form.focus(0);
                self.drafts.rush = Some(rush);
            }
            Dialog::Launch(mut launch) if launch.form.is_touched() => {
                launch.form.focus(0);
                self.drafts.launch = Some(launch);
            }
            _ => return false,
        }
        true
    }

    /// Reports what happened to a form that was left.
    pub(super) fn leave(&mut self, dialog: Dialog) {
        let text = match dialog {
            Dialog::Sale(_) => commands::DRAFT_KEPT,
            _ => Label("acts-nothing-was-done-the-form-keeps"),
        };
        let kept = self.keep(dialog);
        self.note(if kept { text } else { commands::CANCELLED });
    }

    pub(super) fn rush_form(&mut self, sale: &SaleLine) -> RushForm {
        let kept = self.drafts.rush.take().filter(|it| it.voucher() == sale.voucher_id);
        kept.unwrap_or_else(|| RushForm::new(sale))
    }

    pub(super) fn launch_form(&mut self, planned: Option<VoucherId>) -> LaunchForm {
        let kept = self.drafts.launch.take().filter(|it| it.planned() == planned);
        kept.unwrap_or_else(|| LaunchForm::new(planned, &self.newest.sales))
    }
}
