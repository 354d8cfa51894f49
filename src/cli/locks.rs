//! `seckill locks`: lists holders and force-releases locks.

use clap::Subcommand;
use seckill_engine::{
    Command, EngineError, LockName, commands::command_handler::lock_names, locks::LockError,
};
use seckill_model::{ForeignKey, Label, Millis, text};
use seckill_redis::{
    Connection,
    lock_holders::{self, Holder, Holders},
    nodes::Nodes,
};

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Result, Table, ask, number, or_dash,
    output::limit, reply, span,
};

#[derive(Debug, Subcommand)]
pub(super) enum LocksCommand {
    /// List held locks by name
    List {
        /// Maximum number of locks
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = limit())]
        limit: usize,
    },
    /// Force-release a lock; shows the holder and asks for confirmation
    Release {
        /// Name of the lock
        #[arg(value_parser = |name: &str| LockName::new(name))]
        name: LockName,
        /// Only if this owner holds it, as in 'locks list --json'
        #[arg(long, value_name = "OWNER")]
        owner: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
}

pub(super) async fn run(config: &Config, out: Output, command: LocksCommand) -> Result<u8> {
    let needs = match command {
        LocksCommand::List { .. } => Needs::Readable,
        LocksCommand::Release { .. } => Needs::Both,
    };
    let done = Context::with(config, out, needs, async |context| match command {
        LocksCommand::List { limit } => list(context, limit).await,
        LocksCommand::Release { name, owner, consent } => {
            release(context, &name, owner, &consent).await
        }
    });
    done.await
}

/// Which nodes send heartbeats, as they do in each partition.
async fn alive(
    conn: &mut Connection,
    context: &Context,
) -> Result<impl Fn(&str) -> Option<bool> + use<>> {
    conn.probe(&context.keys).await;
    let of = conn.reachable(&context.keys).next().ok_or_else(|| conn.why_lost())?;
    let nodes = Nodes::read(conn, &of).await?;
    let dead_ms = context.config.engine.node_dead_ms;
    Ok(move |node: &str| nodes.life(node, dead_ms))
}

async fn list(context: &Context, limit: usize) -> Result<u8> {
    let mut conn = context.redis.connection();
    let alive = alive(&mut conn, context).await?;
    let (keys, names) = (&context.keys, lock_names(&context.config.engine));
    let held = lock_holders::holders(&mut conn, keys, limit, &names, alive).await?;
    // A key of another program may hide a holder.
    context.out.verdict(held.foreign.is_empty(), &held, || render(&held))
}

async fn release(
    context: &mut Context,
    name: &LockName,
    owner: Option<String>,
    consent: &Consent,
) -> Result<u8> {
    let operator = context.writer(consent)?;
    let mut conn = context.redis.connection();
    let alive = alive(&mut conn, context).await?;
    let holder = lock_holders::holder_of(&mut conn, &context.keys, name.as_str(), alive).await?;
    let not_held = || EngineError::from(LockError::NotHeld(name.clone()));
    let Holder { name, owner: holder, node, task, orphan, known, .. } =
        holder.ok_or_else(not_held)?;
    if let Some(wanted) = owner.filter(|owner| *owner != holder) {
        return Err(CliError::failed(text!("cli-lock-other-holder", name, wanted, holder)));
    }
    let question = match (orphan, known) {
        (true, _) => text!("cli-lock-release-dead", name, node, task),
        (false, true) => text!("cli-lock-release-alive", name, node, task),
        (false, false) => text!("cli-lock-release-unknown", name, node, task),
    };
    ask(consent, &text!("cli-lock-release", question))?;
    let release = Command::ReleaseLock { name, owner: holder };
    reply::run(context.out, &operator, release).await.map(|_| 0)
}

fn render(held: &Holders) -> String {
    let mut text = String::new();
    text.extend(held.foreign.iter().map(|found| format!("! {found}\n")));
    if held.locks.is_empty() {
        // Without the index, only some of the held locks are found.
        let is_complete = held.foreign.iter().all(ForeignKey::is_lock);
        let found = if is_complete { Label("cli-locks-none") } else { Label("cli-locks-unknown") };
        return text + &found;
    }
    text.push_str(&table(&held.locks, str::to_owned).to_string());
    let shown = held.locks.len() as u64;
    if held.total > shown {
        text.push_str(&text!("cli-locks-more", shown, total = held.total));
    }
    text
}

/// Held locks; `name` formats the names of locks and tasks.
pub(super) fn table(locks: &[Holder], name: impl Fn(&str) -> String) -> Table<'_, Holder> {
    let holder = |lock: &Holder| match (lock.orphan, lock.known) {
        (true, _) => text!("cli-locks-orphan", node = lock.node),
        (false, true) => lock.node.clone(),
        (false, false) => text!("cli-locks-no-node", node = lock.node),
    };
    let since = |lock: &Holder| lock.since.map(|at| span(Millis::now().since(at)));
    Table::new(locks)
        .left(&Label("column-lock"), |lock| name(&lock.name))
        .left(&Label("column-node"), holder)
        .left(&Label("column-task"), |lock| name(&lock.task))
        .right(&Label("column-depth"), |lock| lock.depth)
        .right(&Label("column-lease-left"), |lock| {
            lock.left_ms.map_or_else(|| Label("cli-locks-no-end").to_owned(), span)
        })
        .right(&Label("column-held"), |lock| or_dash(since(lock)))
        .right(&Label("column-waiting"), |lock| number(lock.waiting))
        .right(&Label("column-token"), |lock| or_dash(lock.token))
}
