//! `seckill incident`: an incident report in Markdown: events, current state and audit.

mod chart;
mod collect;
mod markdown;
mod redact;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::Args;
use seckill_model::{
    Millis, OsError,
    message::{Label, text},
};
use serde::Serialize;

use super::{
    CliError, Result,
    context::{Context, Needs},
    error,
    output::Output,
};
use crate::config::Config;

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

/// The keys are a contract of `incident --json`.
#[derive(Serialize)]
struct Report {
    file: Option<String>,
    /// `None` if the audit could not be performed.
    balanced: Option<bool>,
    /// Unavailable servers.
    away: Vec<&'static str>,
    /// Missing parts, one sentence each.
    unknown: Vec<String>,
    /// The report, unless it was written to a file.
    markdown: Option<String>,
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
    let bundle = Context::with(config, out, Needs::Nothing, async |context| {
        Ok(collect::collect(context, since, until).await)
    });
    let bundle = Box::pin(bundle).await?;
    let markdown = markdown::render(&bundle, args.unmask);
    if let Some(file) = &args.out {
        write(file, &markdown, args.yes)?;
    }
    let report = Report {
        file: args.out.as_ref().map(|file| file.display().to_string()),
        balanced: bundle.proof.as_ref().ok().map(|(audit, _)| audit.balanced),
        away: bundle.away(),
        unknown: bundle.unknown(),
        markdown: args.out.is_none().then_some(markdown),
    };
    out.answer(&report, || match (&report.markdown, report.file.as_deref().unwrap_or_default()) {
        (Some(markdown), _) => markdown.clone(),
        (None, file) => match report.balanced {
            Some(true) => text!("cli-incident-written-passed", file),
            Some(false) => text!("cli-incident-written-failed", file),
            None => text!("cli-incident-written-unknown", file),
        },
    })?;
    Ok(if report.away.is_empty() { 0 } else { error::UNREACHABLE })
}

/// Atomic, and readable only by its owner.
fn write(file: &Path, text: &str, replace: bool) -> Result<()> {
    let parent = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let failed = |error: std::io::Error| {
        CliError::failed(text!(
            "cli-incident-not-written",
            file = file.display(),
            error = OsError::of(&error)
        ))
    };
    let mut new =
        tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new("."))).map_err(failed)?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
    let kept = if replace { new.persist(file) } else { new.persist_noclobber(file) };
    kept.map(drop).map_err(|error| failed(error.error))
}
