//! `seckill serve`: a node that also serves buyers over HTTP.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use seckill_engine::node::Node;
use seckill_http::{HttpSettings, ProxyNetwork, Server, ServerError, files};
use seckill_model::{Label, Reason, text};
use tokio_util::sync::CancellationToken;

use crate::{
    CliError, Config, Context, Needs, Output, Result,
    output::socket_address,
    signals::Signals,
    work::{self, Ended},
};

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address to listen on; port 0 is any free one
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:8080",
        env = "SECKILL_LISTEN",
        allow_hyphen_values = true,
        value_parser = socket_address
    )]
    listen: SocketAddr,
    /// Address for metrics, health checks and the endpoints of operators, which --listen then has no more [default: that
    /// of --listen]
    #[arg(
        long,
        value_name = "ADDR",
        env = "SECKILL_ADMIN_LISTEN",
        allow_hyphen_values = true,
        value_parser = socket_address
    )]
    admin_listen: Option<SocketAddr>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    login: LoginArgs,
    /// Networks of proxies whose Forwarded or X-Forwarded-For is believed, such as 10.0.0.0/8; limits apply to the
    /// address that they name [default: none, the address of the
    /// peer counts]
    #[arg(
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        env = "SECKILL_TRUSTED_PROXIES",
        value_parser = proxy_network
    )]
    trusted_proxies: Vec<ProxyNetwork>,
}

fn proxy_network(text: &str) -> Result<ProxyNetwork, String> {
    text.parse().map_err(|why: Reason| why.to_string())
}

/// How users log in, for every command that listens.
#[derive(Debug, Args)]
pub(super) struct LoginArgs {
    /// Turn on the login by code, for demos: codes are not sent, they are in the log in the data directory, and its
    /// readers can log in as any user
    #[arg(long)]
    pub(super) demo_login: bool,
}

impl LoginArgs {
    /// The settings of the config file with these on top.
    pub(super) fn over(&self, settings: &HttpSettings) -> HttpSettings {
        HttpSettings { demo_login: settings.demo_login || self.demo_login, ..settings.clone() }
    }
}

/// How the server is protected, for every command that listens.
#[derive(Debug, Args)]
pub(super) struct TlsArgs {
    /// Chain of certificates (PEM) for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve without TLS on an address that other hosts can reach, such as behind a proxy
    #[arg(long)]
    insecure: bool,
}

impl TlsArgs {
    /// Whether one of them was given.
    pub(super) fn is_given(&self) -> bool {
        self.tls_cert.is_some() || self.insecure
    }

    /// Binds the addresses for buyers and for operators; one that cannot be used is reported before anything is started.
    pub(super) fn bind(self, listen: SocketAddr, admin: Option<SocketAddr>) -> Result<Server> {
        let Self { tls_cert, tls_key, insecure } = self;
        let tls = tls_cert.zip(tls_key);
        for address in [Some(listen), admin].into_iter().flatten() {
            if !address.ip().is_loopback() && tls.is_none() && !insecure {
                let address = address.to_string();
                return Err(CliError::usage(text!("cli-serve-insecure", address)));
            }
        }
        let server = Server::bind(listen)?;
        let server = match admin {
            Some(admin) => server.with_admin(admin)?,
            None => server,
        };
        Ok(match tls {
            Some((certificates, key)) => server.with_tls(&certificates, &key)?,
            None => server,
        })
    }
}

pub(super) async fn run(config: &Config, out: Output, args: ServeArgs) -> Result<u8> {
    work::check(config)?;
    let mut settings = args.login.over(&config.http);
    let server = args.tls.bind(args.listen, args.admin_listen.or(settings.admin_listen))?;
    let mut signals = Signals::listen()?;
    if !args.trusted_proxies.is_empty() {
        settings.trusted_proxies = args.trusted_proxies;
    }
    let serve = async |context: &mut Context| serve(context, server, settings, &mut signals).await;
    let ended = Context::with(config, out, Needs::Node, serve).await?;
    ended.report(out)
}

/// Serves as long as [`work`] would work.
async fn serve(
    context: &mut Context,
    server: Server,
    settings: HttpSettings,
    signals: &mut Signals,
) -> Result<Ended> {
    let node = context.start_node().await?;
    let name = node.operator().node.clone();
    let url = |address: SocketAddr| format!("{}://{address}", server.scheme());
    let address = url(server.address());
    let (redis, database) = (context.redis.address(), context.store.describe());
    context.out.announce(&text!("cli-serve-started", node = name, address, redis, database));
    match server.admin_address() {
        Some(address) => {
            context.out.announce(&text!("cli-serve-admin", address = url(address)));
        }
        None if !server.address().ip().is_loopback() => {
            context.out.say(&Label("cli-serve-no-admin"));
        }
        None => {}
    }
    let (limit, wanted) = (files::limit(), settings.connections);
    let connections = files::connections(&settings, context.keys.count(), limit);
    if (1..wanted).contains(&connections) {
        context.out.say(&text!("cli-serve-files", connections, wanted, limit));
    }
    if settings.demo_login {
        let log = context.dir.log_path();
        context.out.say(&text!("cli-serve-demo-login", path = log.display()));
    }
    let working = work::until_stopped(context, &node, signals);
    let ended = while_working(&node, server, settings, working).await;
    Ended::of(node, ended).await
}

/// Serves until `working` ends or the server fails, which ends `working`. Returns once the requests in flight are
/// answered, so that the node stops after them.
pub(super) async fn while_working(
    node: &Node,
    server: Server,
    settings: HttpSettings,
    working: impl Future<Output = Result<()>>,
) -> Result<()> {
    let stop = CancellationToken::new();
    let serving = async {
        let snapshots = node.remote().snapshots;
        let served = server.run(node.operator(), snapshots, settings, stop.clone()).await;
        stop.cancel();
        served
    };
    let working = async {
        let worked = stop.run_until_cancelled(working).await;
        stop.cancel();
        worked.unwrap_or(Ok(()))
    };
    let (served, worked) = tokio::join!(serving, working);
    worked.and(served.map_err(CliError::from))
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Engine(error) => error.into(),
            ServerError::Tls(..) => Self::usage(error.to_string()),
            other => Self::failed(other.to_string()),
        }
    }
}
