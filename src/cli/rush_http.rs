//! `seckill rush --http`: logged-in buyers of any server with the endpoints of `seckill serve`.

use std::{
    cell::Cell,
    error::Error,
    fs, io, mem,
    path::Path,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, StreamExt as _, stream, stream::FuturesUnordered};
use reqwest::{
    Client, Method, StatusCode,
    header::{ACCEPT_LANGUAGE, HeaderMap, HeaderValue, LOCATION},
    redirect::Policy,
};
use rustls::CertificateError;
use seckill_engine::{
    LoadReport, LoadTest,
    commands::{RequestLabel, Tally},
};
use seckill_model::{Label, OrderId, OsError, locale::language, text};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{CliError, Result, rush_tls};

/// A reply that takes longer counts as none.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The wait for orders to be written ends if none has been for this long. The entries of a killed server are claimed by
/// another one after half a minute.
const NO_PROGRESS: Duration = Duration::from_mins(1);
/// How long requests in flight may still be answered after a signal, and how long the last look at the orders may take.
const GRACE: Duration = Duration::from_secs(3);
/// Interval between questions about the same orders: a user may ask ten times as often.
const SETTLE_POLL: Duration = Duration::from_millis(100);
/// Questions about orders at once.
const ASKED: usize = 64;

/// Servers that share one deployment, and the buyers.
pub(super) struct Buyers {
    client: Client,
    servers: Vec<Url>,
    tokens: Vec<HeaderValue>,
    /// Which server is asked for orders.
    asked: Cell<usize>,
}

/// The body of every answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    success: bool,
    error_msg: Option<String>,
    code: u16,
    data: Value,
}

/// An order that was given, and its buyer.
type Given = (OrderId, usize);

/// A server that `--http` names: scheme, host and port.
pub(super) fn server(text: &str) -> Result<Url, String> {
    let is_server = |url: &Url| {
        let origin = url.origin().ascii_serialization();
        ["http", "https"].contains(&url.scheme())
            && url.as_str().strip_suffix('/') == Some(origin.as_str())
    };
    let url = Url::parse(text).ok().filter(is_server);
    url.ok_or_else(|| Label("cli-rush-not-a-url").to_owned())
}

/// Reads one token per line. They are secret: an error names the line.
pub(super) fn tokens(path: &Path) -> Result<Vec<HeaderValue>> {
    let text = fs::read_to_string(path).map_err(|error| {
        let (path, error) = (path.display(), OsError::of(&error));
        CliError::usage(text!("cli-token-file-not-read", path, error))
    })?;
    let parse = |(at, line): (usize, &str)| {
        let value = HeaderValue::from_str(line).ok();
        let is_token = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_graphic());
        let value = value.filter(|_| is_token).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let (path, line) = (path.display(), at + 1);
        value.ok_or_else(|| CliError::usage(text!("cli-token-file-line", path, line)))
    };
    let tokens: Vec<_> = text.lines().enumerate().map(parse).collect::<Result<_>>()?;
    if tokens.is_empty() {
        return Err(CliError::usage(text!("cli-token-file-empty", path = path.display())));
    }
    Ok(tokens)
}

impl Buyers {
    /// Trusts only the certificates in the PEM file `ca`, or those of the system.
    pub(super) fn new(
        servers: Vec<Url>,
        tokens: Vec<HeaderValue>,
        ca: Option<&Path>,
    ) -> Result<Self> {
        if ca.is_some() && servers.iter().all(|server| server.scheme() == "http") {
            return Err(CliError::usage(Label("cli-rush-tls-ca-unused")));
        }
        let language = HeaderValue::from_static(language().tag());
        let client = Client::builder().timeout(REQUEST_TIMEOUT).redirect(Policy::none()).no_proxy();
        let client = client.default_headers(HeaderMap::from_iter([(ACCEPT_LANGUAGE, language)]));
        let client = client.tls_backend_preconfigured(rush_tls::trusting(ca)?).build();
        let client = client.map_err(|error| CliError::failed(error.to_string()))?;
        Ok(Self { client, servers, tokens, asked: Cell::default() })
    }

    /// Sends the requests of a load test, and waits until each order is written. `stop` ends it early, with a report of
    /// what was done.
    ///
    /// # Errors
    /// A server is unreachable, is no seckill server, or has no such voucher.
    pub(super) async fn run(
        &self,
        plan: &LoadTest,
        stop: &CancellationToken,
    ) -> Result<LoadReport> {
        let checks = async {
            for server in &self.servers {
                self.check(server, plan).await?;
            }
            Ok::<_, CliError>(())
        };
        stop.run_until_cancelled(checks).await.unwrap_or(Ok(()))?;
        let (mut report, given) = self.send(plan, stop).await;
        let waited = Instant::now();
        self.settle(given, &mut report, stop).await;
        report.settled_seconds = waited.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Returns an error unless the server knows the voucher.
    async fn check(&self, server: &Url, plan: &LoadTest) -> Result<()> {
        let path = format!("/voucher/{}", plan.voucher);
        let (status, envelope) = self.ask(Method::GET, server, &path, None).await?;
        if envelope.success {
            return Ok(());
        }
        let (status, why) = (status.as_u16(), envelope.error_msg.unwrap_or_default());
        Err(CliError::failed(text!("cli-rush-refused", server, status, why)))
    }

    /// # Errors
    /// There is no answer, or it is not one of this API.
    async fn ask(
        &self,
        method: Method,
        server: &Url,
        path: &str,
        token: Option<&HeaderValue>,
    ) -> Result<(StatusCode, Envelope)> {
        let mut url = server.clone();
        url.set_path(path);
        let mut request = self.client.request(method, url);
        if let Some(token) = token {
            request = request.header("authorization", token.clone());
        }
        let no_answer = |error| no_answer(server, &error);
        let response = request.send().await.map_err(no_answer)?;
        let (status, location) = (response.status(), response.headers().get(LOCATION).cloned());
        let body = response.bytes().await.map_err(no_answer)?;
        serde_json::from_slice(&body).map(|envelope| (status, envelope)).map_err(|_| {
            CliError::failed(match location.as_ref().and_then(|to| to.to_str().ok()) {
                Some(to) => text!("cli-rush-redirected", server, to),
                None => not_seckill(server, status),
            })
        })
    }

    async fn send(&self, plan: &LoadTest, stop: &CancellationToken) -> (LoadReport, Vec<Given>) {
        let (mut tally, mut given) = (Tally::default(), Vec::new());
        let arrivals = plan.arrivals();
        let path = format!("/voucher-order/seckill/{}", plan.voucher);
        let start = Instant::now();
        let buy = async |sent: usize, user: u32| {
            let buyer = user as usize - 1;
            let server = &self.servers[sent % self.servers.len()];
            let began = Instant::now();
            let answer = self.ask(Method::POST, server, &path, Some(&self.tokens[buyer]));
            let (label, order, why) = match until_stopped(stop, answer).await {
                Some(Ok((status, envelope))) => read(server, status, envelope),
                Some(Err(error)) => (RequestLabel::Error, None, error.to_string()),
                None => (RequestLabel::Error, None, Label("cli-rush-abandoned").to_owned()),
            };
            (label, order.map(|order| (order, buyer)), why, began.elapsed())
        };
        let mut take = |(label, order, why, took): (_, Option<Given>, String, _)| {
            given.extend(order);
            tally.take(label, took, || why.into());
        };
        let mut in_flight = FuturesUnordered::new();
        'sending: for (sent, user) in arrivals.iter().enumerate() {
            let due = plan.rate.map_or(0.0, |rate| sent as f64 / rate);
            let due = tokio::time::sleep_until((start + Duration::from_secs_f64(due)).into());
            tokio::pin!(due);
            loop {
                let is_full = in_flight.len() >= plan.concurrency;
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break 'sending,
                    Some(reply) = in_flight.next(), if !in_flight.is_empty() => take(reply),
                    () = &mut due, if !is_full => break,
                }
            }
            in_flight.push(buy(sent, *user));
        }
        // Each has its timeout, and ends soon after a signal.
        while let Some(reply) = in_flight.next().await {
            take(reply);
        }
        let mut report = tally.close(start.elapsed());
        report.cut_short = report.attempts < arrivals.len() as u64;
        (report, given)
    }

    /// Waits until each order is in SQL or a dead letter, by asking for it as its buyer. `stop` makes the next look the
    /// last.
    async fn settle(
        &self,
        mut open: Vec<Given>,
        report: &mut LoadReport,
        stop: &CancellationToken,
    ) {
        let given = open.len() as u64;
        let mut progress = Instant::now();
        loop {
            let (is_last, before) = (stop.is_cancelled(), open.len());
            let states = stream::iter(mem::take(&mut open))
                .map(|given| self.state(given).map(move |state| (given, state)));
            let mut states = states.buffer_unordered(ASKED);
            let look = async {
                while let Some((given, state)) = states.next().await {
                    match state.as_deref() {
                        Some("persisted" | "paid" | "closed") => report.persisted += 1,
                        Some("dead_letter") => report.dead += 1,
                        _ => open.push(given),
                    }
                }
            };
            let look = tokio::time::timeout(NO_PROGRESS, look);
            let looked = until_stopped(stop, look).await.and_then(Result::ok);
            if looked.is_none() || is_last || open.is_empty() {
                break;
            }
            if open.len() < before {
                progress = Instant::now();
            } else if progress.elapsed() < NO_PROGRESS {
                tokio::time::sleep(SETTLE_POLL).await;
            } else {
                break;
            }
        }
        report.settled = report.persisted + report.dead == given;
    }

    /// The state of an order, from the server that knew the last one; if it does not, the next one is asked. `None` if
    /// no server does.
    async fn state(&self, (order, buyer): Given) -> Option<String> {
        let (path, token) = (format!("/voucher-order/{order}"), &self.tokens[buyer]);
        for _ in &self.servers {
            let at = self.asked.get();
            let answer = self.ask(Method::GET, &self.servers[at], &path, Some(token)).await;
            let state = |(_, envelope): (_, Envelope)| {
                Some(envelope.data.get("state")?.as_str()?.to_owned())
            };
            if let Some(state) = answer.ok().and_then(state) {
                return Some(state);
            }
            // Others may have moved on meanwhile.
            if self.asked.get() == at {
                self.asked.set((at + 1) % self.servers.len());
            }
        }
        None
    }
}

/// Waits for `work`, but not for long after `stop`: then `None`.
async fn until_stopped<T>(stop: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    let over = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = over => None,
    }
}

/// How an answer is counted, the order that it gives, and its message.
fn read(
    server: &Url,
    status: StatusCode,
    envelope: Envelope,
) -> (RequestLabel, Option<OrderId>, String) {
    let order = || envelope.data.as_str()?.parse().ok();
    let label = match (status.as_u16(), envelope.code) {
        (200, _) if envelope.success => match order() {
            Some(order) => return (RequestLabel::Admitted, Some(order), String::new()),
            None => return (RequestLabel::Error, None, not_seckill(server, status)),
        },
        (409, _) => RequestLabel::Duplicate,
        (410, 1) => RequestLabel::SoldOut,
        (404 | 410 | 425 | 429 | 503, _) => RequestLabel::Rejected,
        _ => RequestLabel::Error,
    };
    let why = envelope.error_msg.unwrap_or_default();
    (label, None, format!("{}: {why}", status.as_u16()))
}

fn not_seckill(server: &Url, status: StatusCode) -> String {
    text!("cli-rush-not-seckill", server, status = status.as_u16())
}

/// The error for a server that gave no answer.
fn no_answer(server: &Url, error: &reqwest::Error) -> CliError {
    if error.is_timeout() {
        return CliError::unreachable(text!(
            "cli-rush-silent",
            server,
            seconds = REQUEST_TIMEOUT.as_secs()
        ));
    }
    // The innermost cause does not name the URL.
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(inner) = match cause.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as _),
        None => cause.source(),
    } {
        cause = inner;
    }
    if let Some(rustls::Error::InvalidCertificate(why)) = cause.downcast_ref() {
        let why = match why {
            CertificateError::Other(why) => why.to_string(),
            why => why.to_string(),
        };
        return CliError::unreachable(text!("cli-rush-certificate", server, why));
    }
    let why = match cause.downcast_ref() {
        Some(io) => OsError::of(io),
        None => OsError::Quoted(cause.to_string()),
    };
    CliError::unreachable(text!("cli-rush-server-away", server, why))
}
