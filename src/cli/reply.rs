//! Executes commands, and prints the replies of the engine.

use seckill_engine::{Command, Operator, Reply};
use seckill_model::{Label, Payment, text};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Context, Output, Reason, Result, error, signals::Signals};

/// Executes a command. A termination signal ends it early, and the reply covers what was done.
pub(super) async fn execute(operator: &Operator, command: Command) -> Result<Reply> {
    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    Ok(signals.cancelling(&stop, operator.execute(command, &stop)).await?)
}

pub(super) fn answer(out: Output, reply: &Reply) -> Result<u8> {
    out.answer(&document(reply), || text(reply))
}

/// Executes a command and prints its reply.
pub(super) async fn run(out: Output, operator: &Operator, command: Command) -> Result<Reply> {
    let reply = execute(operator, command).await?;
    answer(out, &reply)?;
    Ok(reply)
}

/// Runs a command that needs no confirmation, and returns the exit code.
pub(super) async fn run_once(
    context: &mut Context,
    command: Command,
    Reason { reason }: Reason,
) -> Result<u8> {
    let operator = context.operator(reason)?;
    let reply = run(context.out, &operator, command).await?;
    Ok(if reply.is_success() { 0 } else { error::FAILED })
}

/// The reply, and the next step.
pub(super) fn text(reply: &Reply) -> String {
    next(reply).map_or_else(|| reply.to_string(), |next| format!("{reply}\n{next}"))
}

/// The next step, if there is one.
pub(super) fn next(reply: &Reply) -> Option<String> {
    Some(match reply {
        Reply::SaleCreated(voucher) => text!("cli-next-sale-created", voucher),
        Reply::VoucherBought(order) => text!("cli-next-bought", order),
        Reply::Paid { order, payment: Payment::NotFound } => text!("cli-next-not-found", order),
        Reply::Rewound(_) => Label("cli-next-rewound").to_owned(),
        Reply::Claimed(report) if report.without_body > 0 => {
            Label("cli-next-without-body").to_owned()
        }
        Reply::Replayed(report) if report.lost > 0 => Label("cli-next-lost").to_owned(),
        Reply::Replayed(report) if report.changed > 0 => Label("cli-next-changed").to_owned(),
        Reply::LettersDiscarded(report)
            if report.refused.waiting() > 0 && report.compensated == 0 =>
        {
            Label("cli-next-waiting").to_owned()
        }
        _ => return None,
    })
}

/// The keys are a contract of `--json`.
fn document(reply: &Reply) -> Value {
    match reply {
        Reply::VoucherCreated(id) | Reply::SaleCreated(id) => json!({ "voucher_id": id }),
        Reply::VoucherBought(id) => json!({ "order_id": id }),
        Reply::Paid { order, payment } => json!({ "id": order, "payment": payment }),
        Reply::LockReleased { name, owner } => json!({ "name": name, "owner": owner }),
        Reply::JobSwitched { job, paused, changed, skipped } => {
            json!({ "job": job, "paused": paused, "changed": changed, "skipped": skipped })
        }
        Reply::JobRun { job, end } => json!({
            "job": job,
            "outcome": end.outcome,
            "took_ms": end.took_ms,
            "rows": end.rows,
            "detail": end.detail,
        }),
        Reply::Replayed(report) => json!(report),
        Reply::LettersReplayed(report) => json!(report),
        Reply::LettersDiscarded(report) => json!(report),
        Reply::Claimed(report) => json!(report),
        Reply::ConsumerRemoved(report) => json!(report),
        other => json!(other),
    }
}
