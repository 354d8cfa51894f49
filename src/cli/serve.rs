//! `seckill serve`: a node that also serves buyers over HTTP.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use seckill_http::{Server, ServerError};
use seckill_model::text;
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

pub(super) async fn run(config: &Config, out: Output, args: ServeArgs) -> Result<u8> {
    work::check(config)?;
    let ServeArgs { listen, tls_cert, tls_key, insecure } = args;
    let tls = tls_cert.zip(tls_key);
    if !listen.ip().is_loopback() && tls.is_none() && !insecure {
        return Err(CliError::usage(text!("cli-serve-insecure", address = listen.to_string())));
    }
    // A port that is in use is reported before a server is started.
    let mut server = Server::bind(listen)?;
    if let Some((certificates, key)) = tls {
        server = server.with_tls(&certificates, &key)?;
    }
    let mut signals = Signals::listen()?;
    let serve = async |context: &mut Context| serve(context, server, &mut signals).await;
    let ended = Context::with(config, out, Needs::Node, serve).await?;
    ended.report(out)
}

/// Serves as long as [`work`] would work: the node stops after the last request in flight was answered.
async fn serve(context: &mut Context, server: Server, signals: &mut Signals) -> Result<Ended> {
    let node = context.start_node().await?;
    let name = node.operator().node.clone();
    let address = format!("{}://{}", server.scheme(), server.address());
    let (redis, database) = (context.redis.address(), context.store.describe());
    context.out.say(&text!("cli-serve-started", node = name, address, redis, database));
    let (stop, settings) = (CancellationToken::new(), context.config.http.clone());
    let serving = async {
        let snapshots = node.remote().snapshots;
        let served = server.run(node.operator(), snapshots, settings, stop.clone()).await;
        stop.cancel();
        served
    };
    let waiting = async {
        let ended = tokio::select! {
            ended = work::until_stopped(context, &node, signals) => ended,
            // The server has failed.
            () = stop.cancelled() => Ok(()),
        };
        stop.cancel();
        ended
    };
    let (served, ended) = tokio::join!(serving, waiting);
    Ended::of(node, ended.and(served.map_err(CliError::from))).await
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Engine(error) => error.into(),
            other => Self::failed(other.to_string()),
        }
    }
}
