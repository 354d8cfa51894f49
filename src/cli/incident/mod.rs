//! `seckill incident`: an incident report in Markdown: events, current state and audit.

mod chart;
mod redact;
mod report;

use std::{io::Write as _, path::PathBuf};

use clap::Args;
use seckill_model::{Label, Millis, text};

use crate::{
    CliError, Config, Context, Needs, Output, Result, error,
    output_file::{Existing, OutputFile},
};

/// Default period before the end.
const PERIOD_MS: i64 = 3_600_000;

#[derive(Debug, Args)]
pub(super) struct IncidentArgs {
    /// Start of the period: 2026-11-20T14:30:00Z, '2026-11-20 14:30' (local), 14:30 (today) or -2h
    /// [default: one hour before the end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<Millis>,
    /// End of the period [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<Millis>,
    /// Output file [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    yes: bool,
    /// Show full user IDs instead of the first and last digit
    #[arg(long)]
    unmask: bool,
}

pub(super) async fn run(config: &Config, out: Output, args: &IncidentArgs) -> Result<u8> {
    let now = Millis::now();
    let until = args.until.unwrap_or(now).min(now);
    let since = args.since.unwrap_or(until.plus(-PERIOD_MS));
    if since >= until {
        return Err(CliError::usage(Label("cli-incident-period")));
    }
    let existing = if args.yes { Existing::Replace } else { Existing::KeepWithoutYes };
    let file = args.out.clone().map(|path| OutputFile::create(path, existing));
    let file = file.transpose()?;
    let report = Context::with(config, out, Needs::Nothing, async |context| {
        Ok(Box::pin(report::write(context, since, until, args.unmask)).await)
    });
    let mut report = Box::pin(report).await?;
    if let Some(mut file) = file {
        let markdown = report.markdown.take().unwrap_or_default();
        file.write_all(markdown.as_bytes()).map_err(|error| file.failed(&error))?;
        report.file = Some(file.path().display().to_string());
        file.finish()?;
    }
    let code = out.answer(&report, || {
        match (&report.markdown, report.file.as_deref().unwrap_or_default()) {
            (Some(markdown), _) => markdown.clone(),
            (None, file) => match report.balanced {
                Some(true) => text!("cli-incident-written-passed", file),
                Some(false) => text!("cli-incident-written-failed", file),
                None => text!("cli-incident-written-unknown", file),
            },
        }
    })?;
    let code = if report.away.is_empty() { code } else { error::UNREACHABLE };
    Ok(CliError::name_lost(&report.unreachable, code))
}
