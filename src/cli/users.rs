//! `seckill users`: users who are logged in already, for load tests over HTTP.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seckill_engine::EngineError;
use seckill_http::{Session, Sessions, new_nick_name};
use seckill_model::{Message, Millis, UserId, reason, text};
use serde::Serialize;

use crate::{
    Config, Context, Needs, Output, Reason, Result,
    output::count_in,
    output_file::{Existing, OutputFile},
    signals::Signals,
};
use tokio_util::sync::CancellationToken;

/// Maximum number of users per command.
const MAX_USERS: u64 = 1_000_000;
/// Users per transaction, and sessions that are stored at once.
const PAGE: u64 = 500;

#[derive(Debug, Subcommand)]
pub(super) enum UsersCommand {
    /// Create users and a session for each; write one token per line
    Create {
        /// Number of users
        #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count_in(1..=MAX_USERS))]
        count: u64,
        /// File for the tokens; it is replaced
        #[arg(long, value_name = "FILE")]
        tokens: PathBuf,
        #[command(flatten)]
        reason: Reason,
    },
}

#[derive(Serialize)]
struct Created<'a> {
    users: u64,
    first_id: Option<UserId>,
    last_id: Option<UserId>,
    tokens: &'a Path,
}

pub(super) async fn run(config: &Config, out: Output, command: UsersCommand) -> Result<u8> {
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let UsersCommand::Create { count, tokens, reason } = command;
    let Reason { reason } = reason.checked()?;
    // An unwritable file is reported before a user is created.
    let mut file = OutputFile::create(tokens.clone(), Existing::Replace)?.private();
    let mut signals = Signals::listen()?;
    let create = async |context: &mut Context| {
        let stop = CancellationToken::new();
        let mut created = Created { users: 0, first_id: None, last_id: None, tokens: &tokens };
        let create = create(context, count, &mut created, &mut file, &stop);
        let done = signals.cancelling(&stop, create).await;
        if created.users > 0 {
            // Also after a failure: these users exist.
            file.finish()?;
        }
        done?;
        let subject = Message::of(&reason!("subject-users", count = created.users));
        context.record("users create", subject, reason).await;
        context.out.verdict(created.users == count, &created, || {
            text!("cli-users-created", count = created.users, path = tokens.display())
        })
    };
    Context::with(config, out, Needs::Both, create).await
}

/// Creates the users in pages, each with its sessions; ends after a page when `stop` is cancelled.
async fn create(
    context: &Context,
    count: u64,
    created: &mut Created<'_>,
    file: &mut OutputFile,
    stop: &CancellationToken,
) -> Result<()> {
    let redis = context.redis.shared_connection();
    let sessions = Sessions::new(redis, context.keys.clone(), context.config.http.session());
    while created.users < count && !stop.is_cancelled() {
        let page = PAGE.min(count - created.users);
        let names: Vec<String> = (0..page).map(|_| new_nick_name()).collect();
        let users = context.store.create_users(&names, Millis::now()).await?;
        created.first_id = created.first_id.or(users.first().map(|user| user.id));
        created.last_id = users.last().map(|user| user.id);
        let users: Vec<Session> = users.into_iter().map(Session::from).collect();
        let opened = stream::iter(&users).map(|user| sessions.open(user));
        let tokens: Vec<_> = opened.buffered(PAGE as usize).try_collect().await?;
        for token in tokens {
            writeln!(file, "{}", token.simple()).map_err(|error| file.failed(&error))?;
        }
        created.users += page;
    }
    Ok(())
}
