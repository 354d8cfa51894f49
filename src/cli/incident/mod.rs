//! `seckill incident`: an incident report in Markdown: events, current state and audit.

mod chart;
mod redact;
mod report;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::Args;
use seckill_model::{Label, Millis, text};

use crate::{CliError, Config, Context, Needs, Output, Result, error};

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
    if let Some(file) = args.out.as_deref().filter(|file| file.exists() && !args.yes) {
        return Err(CliError::usage(text!("cli-incident-exists", file = file.display())));
    }
    let report = Context::with(config, out, Needs::Nothing, async |context| {
        Ok(Box::pin(report::write(context, since, until, args.unmask)).await)
    });
    let mut report = Box::pin(report).await?;
    if let Some(file) = &args.out {
        write(file, &report.markdown.take().unwrap_or_default(), args.yes)?;
        report.file = Some(file.display().to_string());
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

/// Writes the file atomically, readable only by its owner.
fn write(file: &Path, text: &str, replace: bool) -> Result<()> {
    let parent = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let failed = |error: std::io::Error| CliError::not_written(file, &error);
    let mut new =
        tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new("."))).map_err(failed)?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
    let kept = if replace { new.persist(file) } else { new.persist_noclobber(file) };
    kept.map(drop).map_err(|error| failed(error.error))
}
