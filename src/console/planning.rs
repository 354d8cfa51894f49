//! Keeps the plan of an open dialog current: live nodes may take over its entries meanwhile.
//!
//! Planning changes nothing, so a plan is recreated whenever the entries of dead consumers change.

use futures::future::FutureExt;
use seckill_engine::{
    commands::{Command, Pace, Scope, plan::Plan},
    telemetry::Snapshot,
};

use super::{
    app::App,
    dialogs::Dialog,
    text::commands::{self, Question},
    views::pending::wording as recovery,
};

/// Entries of each dead consumer.
type Held = Vec<(String, u64)>;

/// What the plan in question was made for.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    scope: Option<Scope>,
    /// The entries of dead consumers when it was requested.
    held: Held,
    /// It is being recreated.
    again: bool,
}

impl Planning {
    /// A plan was requested.
    pub(super) fn begin(&mut self, snapshot: &Snapshot) {
        self.held = held(snapshot);
    }

    /// The dialog shows the plan for `scope`.
    pub(super) fn asked(&mut self, scope: &Scope) {
        self.scope = Some(scope.clone());
    }

    /// Whether the received plan was recreated for a dialog.
    pub(super) fn take_again(&mut self) -> bool {
        std::mem::take(&mut self.again)
    }
}

impl App {
    /// Keeps an open question about a plan up to date.
    pub(super) fn follow_plan(&mut self) {
        let Some(plan) = self.asked_plan().cloned() else {
            self.planning.scope = None;
            return;
        };
        let question = self.plan_question(&plan);
        if let Some(Dialog::Confirm(confirm)) = &mut self.dialog {
            confirm.set_question(question);
            self.dirty = true;
        }
        let held = held(&self.newest);
        let reads = self.newest.redis.up && self.newest.sql.up;
        if reads
            && !self.planning.again
            && held != self.planning.held
            && let Some(scope) = self.planning.scope.clone()
        {
            let command = Command::Plan(scope);
            if let Ok(reply) = self.remote.send(command.clone(), None) {
                self.planning.held = held;
                self.planning.again = true;
                self.answers.push(async move { (command, reply.await) }.boxed());
            }
        }
    }

    /// Asks for confirmation of a recreated plan, or reports that nothing is left of it.
    pub(super) fn renew_plan(&mut self, plan: Plan) {
        if self.asked_plan().is_none() {
            return;
        }
        if plan.totals.to_do() == 0 {
            self.dialog = None;
            return self.note(recovery::TAKEN_OVER);
        }
        let question = self.plan_question(&plan);
        if let (Some((planned, _)), Some(Scope::Entries(_))) =
            (&mut self.planned, &self.planning.scope)
        {
            *planned = plan.clone();
        }
        if let Some(Dialog::Confirm(confirm)) = &mut self.dialog {
            confirm.renew(question, Command::Apply(plan, Pace::default()), self.now);
        }
    }

    pub(super) fn plan_question(&self, plan: &Plan) -> Question {
        let all = plan.head.filter.is_empty();
        let filtered = all && !self.pending.controls.filter.value().is_empty();
        let shown = filtered.then(|| self.pending.rows(&self.shown).len());
        commands::plan(plan, shown, takeover_ms(&self.newest))
    }

    /// The plan in the open dialog.
    fn asked_plan(&self) -> Option<&Plan> {
        match &self.dialog {
            Some(Dialog::Confirm(confirm)) => confirm.plan(),
            _ => None,
        }
    }
}

fn held(snapshot: &Snapshot) -> Held {
    let consumers = snapshot.stream.iter().flat_map(|stream| &stream.consumers);
    let dead = consumers.filter(|it| !it.alive && it.pending > 0);
    dead.map(|it| (it.name.clone(), it.pending)).collect()
}

/// Milliseconds until a live node takes over the first entry of a dead consumer on the page.
fn takeover_ms(snapshot: &Snapshot) -> Option<u64> {
    let alive = |it: &Snapshot| it.stream.iter().flat_map(|it| &it.consumers).any(|it| it.alive);
    let claim_idle_ms = snapshot.claim_idle_ms.filter(|_| alive(snapshot))?;
    let stranded = snapshot.pending.lines.iter().filter(|line| !line.holder_alive);
    Some(claim_idle_ms.saturating_sub(stranded.map(|line| line.idle_ms).max()?))
}
