//! `seckill locks`: lists holders and force-releases locks.

use clap::Subcommand;
use seckill_engine::{
    EngineError,
    command::Command,
    command_handler::lock_names,
    locks::{LockError, LockName},
};
use seckill_model::Millis;
use seckill_redis::{
    lock_holders::{self, Holder, Holders},
    nodes::Nodes,
};
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    fault,
    output::{Output, ask, number, span, table},
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum LocksCommand {
    /// List held locks by name
    List {
        /// Maximum number of locks
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Force-release a lock; shows the holder and asks for confirmation
    Release {
        /// Name of the lock
        name: String,
        /// Only if this owner holds it, as in `locks list --json`
        #[arg(long, value_name = "OWNER")]
        owner: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(serde::Serialize)]
struct Released {
    name: String,
    owner: String,
}

pub(super) async fn run(config: &Config, out: Output, command: LocksCommand) -> Result<u8, Fault> {
    let name = match &command {
        LocksCommand::Release { name, .. } => {
            Some(LockName::new(name.as_str()).map_err(|error| Fault::usage(error.to_string()))?)
        }
        LocksCommand::List { .. } => None,
    };
    let mut context = Context::open_answering(config).await?;
    let result = match (command, name) {
        (LocksCommand::Release { owner, consent, .. }, Some(name)) => {
            release(&mut context, out, &name, owner, &consent).await
        }
        (LocksCommand::List { limit }, _) => list(&context, out, limit).await,
        (LocksCommand::Release { .. }, None) => Ok(fault::NO),
    };
    context.close().await;
    result
}

/// Which nodes send heartbeats.
async fn alive(context: &Context) -> Result<impl Fn(&str) -> Option<bool> + use<>, Fault> {
    let nodes = Nodes::read(&mut context.redis.connection(), &context.keys.home()).await?;
    let dead_ms = context.config.engine.node_dead_ms;
    Ok(move |node: &str| nodes.life(node, dead_ms))
}

async fn list(context: &Context, out: Output, limit: usize) -> Result<u8, Fault> {
    let alive = alive(context).await?;
    let mut conn = context.redis.connection();
    let mut held = lock_holders::holders(&mut conn, &context.keys, limit.max(1), alive).await?;
    let names = lock_names(&context.config.engine);
    held.foreign = lock_holders::foreign_locks(&mut conn, &context.keys, &names).await?;
    out.answer(&held, || render(&held))?;
    Ok(0)
}

async fn release(
    context: &mut Context,
    out: Output,
    name: &LockName,
    owner: Option<String>,
    consent: &Consent,
) -> Result<u8, Fault> {
    let operator = context.operator(consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let alive = alive(context).await?;
    let mut conn = context.redis.connection();
    let holder = lock_holders::holder_of(&mut conn, &context.keys, name.as_str(), alive).await?;
    let not_held = || EngineError::from(LockError::NotHeld(name.clone()));
    let holder = holder.ok_or_else(not_held)?;
    if let Some(wanted) = owner.filter(|owner| *owner != holder.owner) {
        return Err(Fault::no(format!(
            "'{name}' is not held by {wanted} but by {}; nothing was changed",
            holder.owner
        )));
    }
    let state = match (holder.orphan, holder.known) {
        (true, _) => "sends no heartbeat",
        (false, true) => "is alive",
        (false, false) => "is unknown",
    };
    let question = format!(
        "Force-release '{name}' of {} ({}), whose node {state}? Its work is cancelled and its late writes are rejected.",
        holder.node, holder.task
    );
    ask(consent, &question)?;
    let Holder { name, owner, .. } = holder;
    let command = Command::ReleaseLock { name: name.clone(), owner: owner.clone() };
    operator.execute(command, &CancellationToken::new()).await?;
    out.answer(&Released { name: name.clone(), owner: owner.clone() }, || {
        format!("'{name}' of {owner} was released.")
    })?;
    Ok(0)
}

fn render(held: &Holders) -> String {
    let mut foreign = String::new();
    for found in &held.foreign {
        foreign.push_str(&format!("! {found}\n"));
    }
    if held.locks.is_empty() {
        return format!("{foreign}No locks are held.");
    }
    let rows: Vec<Vec<String>> = held
        .locks
        .iter()
        .map(|lock| {
            let state = match (lock.orphan, lock.known) {
                (true, _) => " (orphan)",
                (false, true) => "",
                (false, false) => " (no node)",
            };
            vec![
                lock.name.clone(),
                format!("{}{state}", lock.node),
                lock.task.clone(),
                lock.depth.to_string(),
                lock.left_ms.map_or("no end".to_owned(), span),
                lock.since.map_or("-".to_owned(), |at| span(Millis::now().since(at))),
                number(lock.waiting),
                lock.token.map_or("-".to_owned(), |token| token.to_string()),
            ]
        })
        .collect();
    let head = ["lock", "node", "task", "depth", "lease left", "held", "waiting", "token"];
    let mut text = table(&head, &[3, 4, 5, 6, 7], &rows);
    if held.total > held.locks.len() as u64 {
        text.push_str(&format!(
            "{} of {} shown; use --limit for more.",
            number(held.locks.len() as u64),
            number(held.total)
        ));
    }
    format!("{foreign}{text}")
}
