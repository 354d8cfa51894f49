//! `seckill tokens`: tokens of operators for the HTTP API.

use clap::Subcommand;
use seckill_engine::EngineError;
use seckill_http::Secret;
use seckill_model::{
    Label, Message, Millis, text,
    user::{Role, Token, check_name},
};
use serde_json::json;

use crate::{CliError, Config, Context, Needs, Output, Reason, Result, Table, local, or_dash};

#[derive(Debug, Subcommand)]
pub(super) enum TokensCommand {
    /// Create a token and print it; it is stored as a digest, and cannot be shown again
    Create {
        /// What its holder may do: operator (create and change vouchers)
        #[arg(long)]
        role: Role,
        /// Who holds it, for the audit log [default: the role]
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        #[command(flatten)]
        reason: Reason,
    },
    /// List all tokens, newest first
    List,
    /// Revoke a token; nodes accept it for a few more seconds
    Revoke {
        /// Number of the token, as in 'tokens list'
        id: u64,
        #[command(flatten)]
        reason: Reason,
    },
}

pub(super) async fn run(config: &Config, out: Output, command: TokensCommand) -> Result<u8> {
    if config.read_only && !matches!(command, TokensCommand::List) {
        return Err(EngineError::ReadOnly.into());
    }
    let command = match command {
        TokensCommand::Create { role, name, reason } => {
            let name = name.unwrap_or_else(|| role.to_string());
            TokensCommand::Create {
                role,
                name: Some(check_name(&name)?),
                reason: reason.checked()?,
            }
        }
        TokensCommand::Revoke { id, reason } => {
            TokensCommand::Revoke { id, reason: reason.checked()? }
        }
        TokensCommand::List => TokensCommand::List,
    };
    Context::with(config, out, Needs::Database, async |context| match command {
        TokensCommand::Create { role, name, reason } => {
            create(context, role, &name.unwrap_or_default(), reason).await
        }
        TokensCommand::List => list(context).await,
        TokensCommand::Revoke { id, reason } => revoke(context, id, reason).await,
    })
    .await
}

async fn create(
    context: &Context,
    role: Role,
    name: &str,
    Reason { reason }: Reason,
) -> Result<u8> {
    let secret = Secret::new();
    let id = context.store.create_token(&secret.digest(), role, name, Millis::now()).await?;
    context.record("token create", subject(id, name), reason).await;
    let token = secret.reveal();
    let shown = json!({ "id": id, "role": role, "name": name, "token": token });
    context.out.answer(&shown, || text!("cli-tokens-created", id = id.to_string(), token))
}

async fn list(context: &Context) -> Result<u8> {
    let tokens = context.store.tokens().await?;
    context.out.answer(&json!({ "tokens": tokens }), || {
        if tokens.is_empty() { Label("cli-tokens-none").to_owned() } else { render(&tokens) }
    })
}

async fn revoke(context: &Context, id: u64, Reason { reason }: Reason) -> Result<u8> {
    if !context.store.revoke_token(id, Millis::now()).await? {
        return Err(CliError::failed(text!("cli-tokens-unknown", id = id.to_string())));
    }
    context.record("token revoke", subject(id, ""), reason).await;
    context.out.answer(&json!({ "id": id }), || text!("cli-tokens-revoked", id = id.to_string()))
}

fn subject(id: u64, name: &str) -> Message {
    format!("#{id} {name}").trim_end().into()
}

fn render(tokens: &[Token]) -> String {
    Table::new(tokens)
        .right("#", |token| token.id)
        .left(&Label("column-token-name"), |token| token.name.clone())
        .left(&Label("column-role"), |token| token.role)
        .left(&Label("column-created"), |token| local(token.create_time))
        .left(&Label("column-revoked"), |token| or_dash(token.revoke_time.map(local)))
        .to_string()
}
