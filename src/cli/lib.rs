//! The command line: one file per subcommand. Prints text, or one JSON document with `--json`.
//!
//! Names, flags, JSON keys and exit codes are a contract. Decisions belong to the engine.

mod activity;
mod attach;
mod audit;
mod bench;
mod completions;
mod config;
mod console;
mod context;
mod dead;
mod demo;
mod display_args;
mod doctor;
mod drill;
mod error;
mod incident;
mod jobs;
mod keys;
mod lab;
mod locks;
mod logging;
mod man;
mod orders;
mod output;
mod output_file;
mod pending;
mod reply;
mod rush;
mod rush_http;
mod rush_tls;
mod sale;
mod sandbox;
mod serve;
mod signals;
mod status;
mod stream;
mod table;
mod tested_servers;
mod tokens;
mod users;
mod voucher;
mod work;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use rustix::fs::Mode;
use seckill_engine::commands::audit_record;
use seckill_http::files::raise_limit;
use seckill_model::{Message, OsError, local_zone, text};
use tokio::runtime;

use self::{
    config::Config,
    context::{Context, Needs},
    error::{CliError, Result},
    output::{
        Output, ask, ask_reason, count, count_in, counts, indented, local, next_page, number,
        or_dash, page, plain, rows, span,
    },
    sandbox::Setup,
    table::{Table, fields, figures},
};

/// The flag of the data directory.
const DATA_DIR: &str = "--data-dir";

/// Runs flash sales, monitors them live, and repairs them after failures.
///
/// Without a command it opens the console. No configuration is needed: all state is in the data directory. Without
/// --redis, an embedded Redis server is started; without --database, an SQLite file is used.
///
/// Exit codes: 0, done, also with an empty list. 1, the command was rejected or failed, or its result is negative (the
/// audit failed, nothing matched). 2, the arguments or settings are invalid or forbid it (--read-only), and the command
/// was not tried. 3, Redis, the database or the data directory cannot be used, or rejects writes. 130, interrupted by a
/// second Ctrl-C. With --json, stdout is one document, also of a command that fails.
#[derive(Debug, Parser)]
#[command(name = "seckill", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    console: console::ConsoleArgs,
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Directory for all state [default: the XDG data directory]
    #[arg(long, global = true, value_name = "DIR", env = "SECKILL_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Redis to use: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// [default: an embedded server
    /// in the data directory]
    #[arg(long, global = true, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    redis: Option<String>,
    /// CA certificates (PEM) for TLS connections to Redis [default: the system's]
    #[arg(long, global = true, value_name = "FILE", env = "SECKILL_REDIS_CA")]
    redis_ca: Option<PathBuf>,
    /// Certificate of this client (PEM) for TLS connections to Redis that require one; needs --redis-key
    #[arg(long, global = true, value_name = "FILE", env = "SECKILL_REDIS_CERT")]
    redis_cert: Option<PathBuf>,
    /// Private key (PEM) of --redis-cert
    #[arg(long, global = true, value_name = "FILE", env = "SECKILL_REDIS_KEY")]
    redis_key: Option<PathBuf>,
    /// Database to use: sqlite:PATH, mysql://… or postgres://… [default: SQLite in the data directory]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "SECKILL_DATABASE",
        hide_env_values = true
    )]
    database: Option<String>,
    /// Number of partitions, each with its own order stream [default: the existing number, or 1]
    #[arg(long, global = true, value_name = "N", env = "SECKILL_PARTITIONS")]
    partitions: Option<u16>,
    /// Config file [default: seckill/config.toml in the XDG config directory]
    #[arg(long, global = true, value_name = "FILE", env = "SECKILL_CONFIG")]
    config: Option<PathBuf>,
    /// Read-only mode: reject every command that changes data
    #[arg(long, global = true)]
    read_only: bool,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    display: display_args::DisplayArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play a scripted flash sale with a failure to repair, in a temporary data directory
    Demo(demo::DemoArgs),
    /// Practise a recovery in a temporary data directory; without a name, list the drills
    Drill(drill::DrillArgs),
    /// Run a node (the engine without a console) until SIGTERM
    Work,
    /// Run a node that also serves buyers over HTTP, until SIGTERM
    Serve(serve::ServeArgs),
    /// Create, show and control sales
    #[command(subcommand)]
    Sale(sale::SaleCommand),
    /// Create, buy and list vouchers, ordinary ones and those of flash sales
    #[command(subcommand)]
    Voucher(voucher::VoucherCommand),
    /// Create users for load tests over HTTP
    #[command(subcommand)]
    Users(users::UsersCommand),
    /// Create, list and revoke tokens of operators, for HTTP
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Run simulated buyers against a sale and wait until every admitted order is settled
    Rush(rush::RushArgs),
    /// Show the current state of servers, nodes and sales, and the open alarms
    Status,
    /// Show and recover pending entries (delivered, not acknowledged)
    #[command(subcommand)]
    Pending(pending::PendingCommand),
    /// Show, replay and discard dead letters
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Show the order stream and its group, redeliver entries, transfer pending ones to another consumer
    #[command(subcommand)]
    Stream(stream::StreamCommand),
    /// Show held locks and force-release one
    #[command(subcommand)]
    Locks(locks::LocksCommand),
    /// Show, run, pause and resume scheduled jobs
    #[command(subcommand)]
    Jobs(jobs::JobsCommand),
    /// List, look up and pay orders
    #[command(subcommand)]
    Orders(orders::OrdersCommand),
    /// Show the log of commands and events, newest last
    Activity(activity::ActivityArgs),
    /// Write an incident report (Markdown): events, current state and audit
    Incident(incident::IncidentArgs),
    /// Audit all orders; exit 0 when the audit passes, 1 when it fails
    Audit(audit::AuditArgs),
    /// Run benchmarks against a baseline on the same server
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Judge the designs of the flash-sale tutorials on the same work; without a name, list them
    Lab(lab::LabArgs),
    /// Look at a flash-sale service that another program runs, recover it, and take over its sales
    ///
    /// Without a subcommand, opens a screen with its sales, stream, consumers, locks and alarms.
    Attach(attach::AttachArgs),
    /// List the keys of the console and the action names for [keys] in the config file
    Keys,
    /// Check servers, versions, durability, schema and terminal, and suggest a fix for each problem
    Doctor,
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the man pages, one for each command
    Man(man::ManArgs),
}

/// For commands that are recorded in the audit log.
#[derive(Clone, Debug, Args)]
struct Reason {
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Reason {
    /// This reason, which the audit log can hold.
    fn checked(self) -> Result<Self> {
        audit_record::check_reason(self.reason.as_deref())?;
        Ok(self)
    }
}

/// For commands that ask for confirmation and are recorded in the audit log.
#[derive(Clone, Debug, Args)]
struct Consent {
    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    reason: Reason,
}

impl Command {
    /// Whether a console opens, so that all messages use its language; other commands write English, unless `--lang`
    /// is given.
    fn has_console(command: Option<&Self>) -> bool {
        match command {
            None => true,
            Some(Self::Demo(args)) => !args.headless,
            Some(Self::Drill(args)) => args.has_console(),
            Some(Self::Lab(args)) => args.has_console(),
            Some(Self::Attach(args)) => args.has_console(),
            Some(_) => false,
        }
    }

    /// Whether the command describes the program for a packager or a shell: it needs no settings, and all users may
    /// read its files.
    fn describes_the_program(&self) -> bool {
        matches!(self, Self::Completions(_) | Self::Man(_))
    }
}

/// Runs the command of this process's command line; returns its exit code.
pub fn main() -> ExitCode {
    // The lab starts its instances like this. They are no command of a user, and read no settings.
    if std::env::args_os().nth(1).is_some_and(|it| it == lab::INSTANCE) {
        return run_to_end(Output { json: false }, lab::run_instance());
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| reject(&error));
    // Before any file is opened. Whether the limit is high enough is checked where it matters.
    let _ = raise_limit();
    run_to_end(Output { json: cli.global.json }, cli.run())
}

/// Ends with clap's text; invalid arguments are an error with a document as well, if one was asked for.
fn reject(error: &clap::Error) -> ! {
    let json = std::env::args_os().take_while(|it| it != "--").any(|it| it == "--json");
    if error.use_stderr() {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let error = CliError::usage(first.trim_start_matches("error: ").to_owned());
        Output { json }.fail(&error.document());
    }
    error.exit()
}

/// Runs a command on a runtime of its own; returns its exit code.
fn run_to_end(out: Output, command: impl Future<Output = Result<u8>>) -> ExitCode {
    let done = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::unreachable(text!("cli-runtime", error = OsError::of(&error))));
    let done = done.and_then(|runtime| {
        let done = runtime.block_on(command);
        // Tasks that still run have had their time limit; the exit does not wait for them.
        runtime.shutdown_background();
        done
    });
    done.unwrap_or_else(|error| error.report(out)).into()
}

impl Cli {
    /// Runs the requested command; a negative result is exit code 1 with output on stdout, and no error.
    async fn run(self) -> Result<u8> {
        let Self { console, global, command } = self;
        let (json, display) = (global.json, &global.display);
        let describes = command.as_ref().is_some_and(Command::describes_the_program);
        if !describes {
            // Files of this program and its Redis server contain personal data and are for this user only.
            rustix::process::umask(Mode::RWXG | Mode::RWXO);
        }
        // Environment variables have the same effect as flags.
        let given = [
            ("--redis/REDIS_URL", global.redis.is_some()),
            ("--database", global.database.is_some()),
            (DATA_DIR, global.data_dir.is_some()),
        ];
        let server_flag = given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag);
        // A language that was asked for applies to all texts; documents are in English.
        if Command::has_console(command.as_ref()) || (display.names_language() && !json) {
            display.set_language();
        }
        let mut config = if describes {
            Config::default()
        } else {
            display.localized(|| Config::load(global.config.as_deref()))?
        };
        config.data_dir = global.data_dir.or(config.data_dir);
        config.redis = global.redis.or(config.redis);
        config.redis_ca = global.redis_ca.or(config.redis_ca);
        config.redis_cert = global.redis_cert.or(config.redis_cert);
        config.redis_key = global.redis_key.or(config.redis_key);
        config.database = global.database.or(config.database);
        config.partitions = global.partitions.or(config.partitions);
        config.read_only |= global.read_only;
        // The demo has an audience.
        config.mask_users |= matches!(command, Some(Command::Demo(_)));
        if !describes {
            // Each command shows or reads local times.
            local_zone().map_err(|why| CliError::usage(Message::of(&why)))?;
            config.check().map_err(|(_, why)| CliError::usage(why))?;
            // Also where no console shows it: what was asked for is used, or is an error.
            display.localized(|| display.palette(&config))?;
        }
        console.check(command.is_some(), &config)?;
        let (config, out) = (&config, Output { json });
        let setup = Setup { config, out, display, server_flag };
        match command {
            None => console::run(config, out, display, console).await,
            Some(Command::Demo(args)) => Box::pin(demo::run(&setup, &args)).await,
            Some(Command::Drill(args)) => Box::pin(drill::run(&setup, &args)).await,
            Some(Command::Work) => work::run(config, out).await,
            Some(Command::Serve(args)) => Box::pin(serve::run(config, out, args)).await,
            Some(Command::Sale(command)) => sale::run(config, out, command).await,
            Some(Command::Voucher(command)) => voucher::run(config, out, command).await,
            Some(Command::Users(command)) => users::run(config, out, command).await,
            Some(Command::Tokens(command)) => tokens::run(config, out, command).await,
            Some(Command::Rush(args)) => rush::run(config, out, args).await,
            Some(Command::Status) => Box::pin(status::run(config, out)).await,
            Some(Command::Pending(command)) => pending::run(config, out, command).await,
            Some(Command::Dead(command)) => dead::run(config, out, command).await,
            Some(Command::Stream(command)) => stream::run(config, out, command).await,
            Some(Command::Locks(command)) => locks::run(config, out, command).await,
            Some(Command::Jobs(command)) => jobs::run(config, out, command).await,
            Some(Command::Orders(command)) => orders::run(config, out, command).await,
            Some(Command::Activity(args)) => activity::run(config, out, &args).await,
            Some(Command::Incident(args)) => incident::run(config, out, &args).await,
            Some(Command::Audit(args)) => audit::run(config, out, &args).await,
            Some(Command::Bench(command)) => Box::pin(bench::run(config, out, command)).await,
            Some(Command::Lab(args)) => Box::pin(lab::run(&setup, &args)).await,
            Some(Command::Attach(args)) => Box::pin(attach::run(&setup, &args)).await,
            Some(Command::Keys) => keys::run(config, out),
            Some(Command::Doctor) => doctor::run(config, out).await,
            Some(Command::Completions(args)) => completions::run(out, args),
            Some(Command::Man(args)) => man::run(out, &args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use seckill_engine::{commands::pending::FIELDS, recovery::dead_letters::LETTER_FIELDS};
    use seckill_model::locale::set_thread_language;

    #[test]
    fn only_consoles_are_localized() {
        for (line, has_console) in [
            ("seckill", true),
            ("seckill demo", true),
            ("seckill demo --headless", false),
            ("seckill drill poison", true),
            ("seckill drill poison --headless", false),
            ("seckill drill list", false),
            ("seckill drill", false),
            ("seckill lab --tui", true),
            ("seckill lab unguarded", false),
            ("seckill attach", true),
            ("seckill attach status", false),
            ("seckill work", false),
            ("seckill status", false),
            ("seckill doctor", false),
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(Command::has_console(cli.command.as_ref()), has_console, "{line}");
        }
    }

    #[test]
    fn help_lists_the_fields_of_filters() {
        for (command, expected) in [("dead", LETTER_FIELDS), ("pending", FIELDS)] {
            let cli = Cli::command();
            let list = cli.find_subcommand(command).and_then(|it| it.find_subcommand("list"));
            let filter =
                list.and_then(|list| list.get_arguments().find(|it| it.get_id() == "filter"));
            let help = filter.and_then(|filter| filter.get_help()).unwrap().to_string();
            let (_, listed) = help.split_once("fields: ").unwrap();
            let expected: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
            assert_eq!(listed, expected.join(", "), "{command}");
        }
    }

    #[test]
    fn sandbox_rejects_server_flags() {
        let display = &Cli::try_parse_from(["seckill"]).unwrap().global.display;
        let (config, out) = (&Config::default(), Output { json: false });
        let server_flag = Some("--data-dir");
        let setup = Setup { config, out, display, server_flag };
        let refusal = |lang| {
            set_thread_language(lang);
            setup.options(demo::NAME, true).unwrap_err().message()
        };
        let english = "the demo runs on temporary servers and keeps no data; omit --data-dir";
        assert_eq!(refusal("en"), english);
        assert_eq!(refusal("zh"), "演示使用临时服务器，不保留数据；请去掉 --data-dir");
    }
}
