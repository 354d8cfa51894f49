//! `seckill rush`: simulated buyers.

use std::path::PathBuf;

use clap::Args;
use seckill_engine::{
    Command, EngineError, LoadReport, LoadTest, Reply, admission::AdmissionError,
    commands::AggregateLine, recovery::adoption::shards_of,
};
use seckill_model::{Label, Message, Outcome, VoucherId, text};
use seckill_redis::connection::LostServer;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    CliError, Config, Context, Needs, Output, Result, Table, indented,
    output_file::{Existing, OutputFile},
    rush_http::{self, Buyers},
    signals::Signals,
    table,
};

#[derive(Debug, Args)]
pub(super) struct RushArgs {
    /// Voucher ID
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    voucher: VoucherId,
    /// Number of distinct buyers [default with --http: all tokens]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = super::output::count)]
    #[arg(required_unless_present = "http")]
    users: Option<u64>,
    /// Fraction of buyers who send a duplicate request, 0 to 1
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_hyphen_values = true)]
    repeat: f64,
    /// Maximum concurrent requests [default: 2048, or 256 with --http]
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Requests per second [default: unlimited]
    #[arg(long, value_name = "R", allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Fraction of admitted buyers who pay, 0 to 1
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_hyphen_values = true)]
    #[arg(conflicts_with = "http")]
    pay: f64,
    /// Random seed for duplicate requests and the order of buyers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the latencies by outcome to this file as CSV, in microseconds
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Send the requests to this server (http:// or https://) instead of running a node; several share them in turn
    #[arg(long, value_name = "URL", requires = "tokens", value_parser = rush_http::server)]
    http: Vec<Url>,
    /// With --http: file with a token per line, as 'seckill users create' writes it; one for each buyer
    #[arg(long, value_name = "FILE", requires = "http")]
    tokens: Option<PathBuf>,
    /// With an https:// server: trust only the certificates in this file (PEM), of authorities or self-signed with
    /// CA:FALSE [default: the system's]
    #[arg(long, value_name = "FILE", requires = "http")]
    tls_ca: Option<PathBuf>,
}

pub(super) async fn run(config: &Config, out: Output, args: RushArgs) -> Result<u8> {
    let RushArgs { voucher, repeat, rate, pay, seed, .. } = args;
    let tokens = args.tokens.as_deref().map(rush_http::tokens).transpose()?;
    let found = tokens.as_ref().map(|tokens| tokens.len() as u64);
    let users = args.users.or(found).unwrap_or_default();
    if let Some(found) = found.filter(|found| *found < users) {
        return Err(CliError::usage(text!("cli-token-file-too-short", found, users)));
    }
    let concurrency = args.concurrency.unwrap_or(if tokens.is_some() { 256 } else { 2048 });
    let plan = LoadTest { voucher, users, repeat, concurrency, rate, seed, settle: true, pay };
    plan.check()?;
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    // An unwritable file is reported before a request is sent.
    let csv = args.csv.map(|path| OutputFile::create(path, Existing::Replace));
    let csv = csv.transpose()?;
    let mut signals = Signals::listen()?;
    let (report, lost) = if let Some(tokens) = tokens {
        let (buyers, stop) =
            (Buyers::new(args.http, tokens, args.tls_ca.as_deref())?, CancellationToken::new());
        (signals.cancelling(&stop, buyers.run(&plan, &stop)).await?, Vec::new())
    } else {
        let rush = async |context: &mut Context| rush(context, plan, &mut signals).await;
        Context::with(config, out, Needs::Both, rush).await?
    };
    if let Some(mut file) = csv {
        let written = write_csv(&mut file, &report.aggregate);
        written.map_err(|error| file.failed(&error.into()))?;
        file.finish()?;
    }
    // A sale that has ended, is paused or has not started rejects each request.
    let is_on_sale = report.rejected < report.attempts;
    let well =
        is_on_sale && report.settled && report.errors == 0 && report.dead == 0 && !report.cut_short;
    let code = out.verdict(well, &report, || render(&report))?;
    Ok(CliError::name_lost(&lost, code))
}

/// The report, and the servers that are lost after the test: their shards sold nothing since.
async fn rush(
    context: &mut Context,
    plan: LoadTest,
    signals: &mut Signals,
) -> Result<(LoadReport, Vec<LostServer>)> {
    shards_of(&mut context.servers(), plan.voucher.into()).await?;
    let node = context.start_node().await?;
    // The engine runs until every buyer has a reply.
    let stop = node.stopping().child_token();
    let operator = node.operator().clone();
    let reply = tokio::select! {
        // After a signal, the report covers the requests sent so far.
        reply = signals.cancelling(&stop, operator.execute(Command::LoadTest(plan), &stop)) => {
            reply.map_err(CliError::from)
        }
        // No report: it would count lost orders as written.
        error = context.files_lost() => Err(error),
    };
    node.stop().await;
    // Results count only while the written files exist.
    context.check_files().await?;
    match reply? {
        Reply::LoadTestDone(report) => Ok((report, context.probed().await.conn.lost().to_vec())),
        _ => Err(CliError::unexpected_reply()),
    }
}

fn render(report: &LoadReport) -> String {
    let (requests, rate) = (report.attempts, report.per_second as u64);
    let mut figures = vec![(Label("column-persisted"), report.persisted)];
    let more = [(Label("cli-paid"), report.paid), (Label("column-dead"), report.dead)];
    figures.extend(more.into_iter().filter(|(_, count)| *count > 0));
    let seconds = format!("{:.1}", report.settled_seconds);
    let rejection = report.first_rejection.as_ref().map(Message::localized::<Outcome>);
    let error = report.first_error.as_ref().map(Message::localized::<AdmissionError>);
    let aggregate = seckill_text::aggregate(&report.aggregate).into_iter().enumerate();
    let aggregate = aggregate
        .fold(Table::new(&report.aggregate), |table, (place, cells)| table.cells(place > 0, cells));
    let mut lines = vec![
        text!("cli-rush-requests", requests, rate),
        indented(&aggregate.to_string()),
        String::new(),
        indented(&table::figures(&figures).to_string()),
        indented(&text!("cli-rush-settled", seconds)),
    ];
    lines.extend(rejection.map(|reason| indented(&text!("cli-rush-first-rejection", reason))));
    lines.extend(report.cut_short.then(|| indented(&Label("cli-rush-cut-short"))));
    lines.extend(error.map(|error| indented(&text!("cli-rush-first-error", error))));
    lines.extend((report.dead > 0).then(|| text!("cli-rush-dead", buyers = report.dead)));
    lines.extend((!report.settled).then(|| Label("cli-rush-unsettled").to_owned()));
    lines.join("\n")
}

/// Writes the aggregate report as CSV; latencies in microseconds.
fn write_csv(file: &mut OutputFile, lines: &[AggregateLine]) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(file);
    for line in lines {
        csv.serialize(line)?;
    }
    Ok(csv.flush()?)
}
