//! `seckill`: the console, with the engine inside, and with a server for buyers on request.

use std::net::SocketAddr;

use clap::Args;
use seckill_console::{LabSetup, Options};
use seckill_engine::EngineError;
use seckill_http::{HttpSettings, Server};
use seckill_model::Label;

use crate::{
    CliError, Config, Context, Needs, Output, Result,
    display_args::DisplayArgs,
    lab,
    output::socket_address,
    serve::{self, LoginArgs, TlsArgs},
    signals,
};

/// Unlike `seckill serve`, ignores `SECKILL_LISTEN`: a console on the host of a server would try to bind the same address.
#[derive(Debug, Args)]
pub(super) struct ConsoleArgs {
    /// Also serve buyers over HTTP while the console runs; port 0 is any free one
    #[arg(long, value_name = "ADDR", allow_hyphen_values = true, value_parser = socket_address)]
    listen: Option<SocketAddr>,
    /// Address for metrics, health checks and the endpoints of operators, which --listen then has no more
    #[arg(long, value_name = "ADDR", allow_hyphen_values = true, value_parser = socket_address)]
    admin_listen: Option<SocketAddr>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    login: LoginArgs,
}

impl ConsoleArgs {
    /// Rejects options that would have no effect.
    pub(super) fn check(&self, has_command: bool, config: &Config) -> Result<()> {
        let given = self.listen.is_some()
            || self.admin_listen.is_some()
            || self.tls.is_given()
            || self.login.demo_login;
        let why = match self.listen {
            _ if has_command && given => Label("cli-listen-with-command"),
            None if given => Label("cli-listen-missing"),
            Some(_) if config.read_only => Label("cli-listen-read-only"),
            _ => return Ok(()),
        };
        Err(CliError::usage(why))
    }
}

pub(super) async fn run(
    config: &Config,
    out: Output,
    display: &DisplayArgs,
    args: ConsoleArgs,
) -> Result<u8> {
    if out.json {
        return Err(CliError::usage(Label("cli-console-json")));
    }
    display.localized(|| Ok(seckill_console::check_terminal()?))?;
    // The lab is a view, and its instances are processes of this program.
    let lab = LabSetup { program: lab::program().ok(), ..LabSetup::default() };
    let options = Options { lab, ..display.options(config)? };
    let settings = args.login.over(&config.http);
    let admin = args.admin_listen.or(settings.admin_listen);
    let server = args.listen.map(|address| args.tls.bind(address, admin)).transpose()?;
    let server = server.map(|server| (server, settings));
    let show = async |context: &mut Context| show(context, options, server).await;
    Box::pin(Context::with(config, out, Needs::Node, show)).await
}

async fn show(
    context: &mut Context,
    options: Options,
    server: Option<(Server, HttpSettings)>,
) -> Result<u8> {
    let node = context.start_node().await?;
    let (name, replaced) = (node.operator().node.clone(), node.stopping().clone());
    // The console restores the terminal first.
    signals::handled();
    let showing = async {
        tokio::select! {
            shown = seckill_console::run(node.remote(), options) => Ok(shown?),
            // Another process has taken this node's name, and its engine has stopped.
            () = replaced.cancelled() => Ok(()),
        }
    };
    let shown = match server {
        Some((server, settings)) => {
            Box::pin(serve::while_working(&node, server, settings, showing)).await
        }
        None => showing.await,
    };
    let is_replaced = replaced.is_cancelled();
    node.stop().await;
    shown?;
    if is_replaced { Err(EngineError::NameTaken(name).into()) } else { Ok(0) }
}
