//! `seckill doctor`: checks with results and fixes.

use std::{fmt::Display, fs, io::IsTerminal as _, os::unix::fs::MetadataExt as _, path::Path};

use seckill_attach::doctor::Grade;
use seckill_engine::{
    commands::command_handler::lock_names,
    deployment::{
        self,
        time_zone::{self, Zone},
    },
    recovery::partition_repair::{self, PartitionFindings},
    telemetry::{alarms::CLOCK_SKEW_MS, snapshot::skew_side, write_probe::takes_writes},
};
use seckill_http::files;
use seckill_model::{
    Label, Millis, OrderFilter,
    durability::{Append, Survival},
    text,
};
use seckill_redis::{
    HOME, RedisError,
    commands::{self, Denied},
    data_dir::DataDir,
    lock_holders::foreign_locks,
    permissions::others_may,
    server_binary::{self, ServerBinary},
    stream,
    stream_stats::takes_writes as redis_takes_writes,
};
use seckill_store::{ActivityFilter, StoreError};
use serde::Serialize;

use crate::{
    CliError, Config, Context, Needs, Output, Result, Table, error, fields, indented, span,
    tested_servers,
};

/// With less free space than this, one sale may fill the disk.
const ENOUGH_BYTES: u64 = 1 << 30;

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    grade: Grade,
    found: String,
    fix: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    healthy: bool,
    checks: Vec<Check>,
    /// What each failure may lose with these servers, as far as their settings are readable.
    data_loss: Option<Survival>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        name: &'static str,
        grade: Grade,
        found: impl Display,
        fix: Option<String>,
    ) {
        self.checks.push(Check { name, grade, found: found.to_string(), fix });
    }

    pub(super) fn ok(&mut self, name: &'static str, found: impl Display) {
        self.add(name, Grade::Ok, found, None);
    }

    fn note(&mut self, name: &'static str, found: impl Display, fix: Option<Label>) {
        self.add(name, Grade::Note, found, fix.map(String::from));
    }

    /// Records a server that answers; one that was not tested is noted.
    fn version(&mut self, name: &'static str, product: &str, version: &str, found: String) {
        match tested_servers::others(product, version) {
            None => self.ok(name, found),
            Some(versions) => {
                let fix = text!("cli-doctor-untested", versions);
                self.add(name, Grade::Note, found, Some(fix));
            }
        }
    }

    /// Records a passed check, or a problem with this fix.
    fn check(&mut self, name: &'static str, passes: bool, found: String, fix: impl Into<String>) {
        if passes {
            self.ok(name, found);
        } else {
            self.add(name, Grade::Problem, found, Some(fix.into()));
        }
    }

    /// The message of the error states the fix.
    fn unreachable(&mut self, name: &'static str, error: impl Display) {
        self.add(name, Grade::Unreachable, error, None);
    }

    /// A step that failed; its message states the cause and the fix.
    pub(super) fn failed(&mut self, name: &'static str, error: &CliError) {
        let grade = if error.is_unreachable() { Grade::Unreachable } else { Grade::Problem };
        self.add(name, grade, error.message(), None);
    }

    /// Prints the checks; returns the exit code of the worst.
    pub(super) fn finish(mut self, out: Output) -> Result<u8> {
        let worst = self.checks.iter().map(|check| check.grade).max().unwrap_or(Grade::Ok);
        self.healthy = worst < Grade::Problem;
        out.answer(&self, || render(&self))?;
        Ok(match worst {
            Grade::Ok | Grade::Note => 0,
            Grade::Problem => error::FAILED,
            Grade::Unreachable => error::UNREACHABLE,
        })
    }
}

pub(super) async fn run(config: &Config, out: Output) -> Result<u8> {
    let mut report = Report::default();
    if config.redis.is_none() {
        match server_binary::find_server() {
            Ok(found) => report.ok("server", server(&found)),
            Err(error) => report.unreachable("server", error),
        }
    }
    match config.open_data_dir() {
        Ok(dir) => data_dir(config, &dir, &mut report),
        Err(error) => report.unreachable("data directory", error),
    }
    open_files(config, &mut report);
    match Context::open(config, out, Needs::Database).await {
        Ok(context) => {
            redis(&context, &mut report).await;
            clocks(&context, &mut report).await;
            commands(&context, &mut report).await;
            partitions(&context, &mut report).await;
            database(&context, &mut report).await;
            time_zone_of_jobs(&context, &mut report).await;
            losses(&context, &mut report).await;
            context.close().await;
        }
        // The message names the failing server.
        Err(error) => report.failed("opening", &error),
    }
    terminal(&mut report);
    report.finish(out)
}

/// The server program; the package of the Redis tools has it under the name of a check tool only.
fn server(ServerBinary { path, arg0, version }: &ServerBinary) -> String {
    let shown = path.display();
    if path.ends_with(arg0) {
        text!("cli-doctor-server", version, path = shown)
    } else {
        text!("cli-doctor-server-in-tool", server = arg0, version, path = shown)
    }
}

fn data_dir(config: &Config, dir: &DataDir, report: &mut Report) {
    report.ok("data directory", dir.path().display());
    // Other users must not read the data.
    let inside = dir.database_url();
    let database = seckill_store::file_of(config.database.as_ref().unwrap_or(&inside));
    let wide: Vec<String> = [Some(dir.path().to_owned()), database.clone(), Some(dir.log_path())]
        .into_iter()
        .flatten()
        .filter_map(|path| Some((others_may(&path)?, path)))
        .map(|(mode, path)| {
            text!("cli-doctor-mode", path = path.display(), mode = format!("{mode:04o}"))
        })
        .collect();
    if !wide.is_empty() {
        let found = text!("cli-doctor-open-to-others", paths = wide.join(&Label("list-items")));
        report.check("permissions", false, found, Label("cli-doctor-chmod"));
    }
    disk("disk", dir.path(), Label("cli-doctor-free-space"), report);
    let device = |path: &Path| fs::metadata(path).map(|it| it.dev()).ok();
    // The file is created later if it is missing.
    let place = database.as_deref().and_then(|it| it.ancestors().find(|at| at.exists()));
    if let Some(place) = place.filter(|it| device(it) != device(dir.path())) {
        disk("database disk", place, Label("cli-doctor-free-database-space"), report);
    }
}

/// Whether a server could have as many connections of clients as the settings allow. The command has raised its own limit as a
/// server does.
fn open_files(config: &Config, report: &mut Report) {
    let (limit, wanted) = (files::limit(), config.http.connections);
    let connections = files::connections(&config.http, config.partitions.unwrap_or(1), limit);
    let found = text!("cli-doctor-files", limit, connections, wanted);
    if connections < wanted {
        report.note("open files", found, Some(Label("cli-doctor-files-raise")));
    } else {
        report.ok("open files", found);
    }
}

/// The free space of the file system that this path is on.
fn disk(name: &'static str, path: &Path, fix: Label, report: &mut Report) {
    if let Ok(space) = rustix::fs::statvfs(path) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let (mib, needed) = (free >> 20, ENOUGH_BYTES >> 20);
        let found = text!("cli-doctor-disk", mib, path = path.display(), needed);
        report.check(name, free >= ENOUGH_BYTES, found, fix);
    }
}

async fn redis(context: &Context, report: &mut Report) {
    // Probed, so that a lost server fails at once and with the same error in each check.
    let mut conn = context.probed().await.conn;
    if let Err(error) = conn.multiplexed(HOME).await {
        return report.unreachable("redis", error);
    }
    let product = conn.server(HOME).map_or_else(String::new, |server| server.product.clone());
    let found = text!("cli-doctor-redis", product, place = context.redis.address());
    let (name, version) = product.split_once(' ').unwrap_or((&product, ""));
    report.version("redis", name, version, found);
    match conn.setting(HOME, "appendonly").await {
        Ok(on) if on == "yes" => {
            let fsync = conn.setting(HOME, "appendfsync").await.unwrap_or_default();
            let is_safe = matches!(Append::read(&on, &fsync), Append::Always | Append::EverySecond);
            let found = text!("cli-doctor-aof", fsync);
            report.check("append-only file", is_safe, found, Label("cli-doctor-sync-aof"));
        }
        Ok(_) => {
            let found = Label("cli-doctor-no-aof").to_owned();
            report.check("append-only file", false, found, Label("cli-doctor-turn-on-aof"));
        }
        // CONFIG is forbidden, or renamed.
        Err(_) => match conn.info(HOME, "persistence", "aof_enabled").await.as_deref() {
            Ok("0") => {
                let found = Label("cli-doctor-no-aof").to_owned();
                report.check("append-only file", false, found, Label("cli-doctor-turn-on-aof"));
            }
            Ok(_) => report.note("append-only file", Label("cli-doctor-aof-on"), None),
            Err(_) => report.note("append-only file", Label("cli-doctor-no-config"), None),
        },
    }
    match conn.info(HOME, "memory", "maxmemory_policy").await {
        Ok(policy) => {
            let is_safe = policy == "noeviction";
            report.check("eviction", is_safe, policy, Label("cli-doctor-no-eviction"));
        }
        Err(_) => report.note("eviction", Label("cli-doctor-no-config"), None),
    }
}

/// Compares the clocks of Redis and of the database with this host's. Of several Redis servers, the largest difference counts.
async fn clocks(context: &Context, report: &mut Report) {
    let mut conn = context.probed().await.conn;
    let mut most: Option<i64> = None;
    for of in conn.reachable(&context.keys) {
        let asked = Millis::now();
        let Ok(now) = conn.now_at(&of.orders()).await else { continue };
        let ahead = now.ahead(0, asked, Millis::now());
        if most.is_none_or(|most| ahead.unsigned_abs() > most.unsigned_abs()) {
            most = Some(ahead);
        }
    }
    // A server that does not reply is reported by other checks.
    let of_sql = context.store.clock_ahead_ms(0).await.ok().flatten();
    let described = context.store.describe();
    let sql = described.split(' ').next().unwrap_or_default();
    let servers = [("Redis", most), (sql, of_sql)];
    for (server, ahead) in servers {
        let Some(ahead) = ahead else { continue };
        let differs = ahead.unsigned_abs() > CLOCK_SKEW_MS;
        let state = if differs { skew_side(ahead) } else { "same" };
        let by = span(if differs { ahead.unsigned_abs() } else { CLOCK_SKEW_MS });
        let found = text!("cli-doctor-clock", server, state, by);
        report.check("clock", !differs, found, Label("cli-doctor-clock-set"));
    }
}

/// The time zone of cron expressions, and whether it is this host's.
async fn time_zone_of_jobs(context: &Context, report: &mut Report) {
    match time_zone::of(&context.store).await {
        Ok(zone) if zone != Zone::of_host() => {
            let found = text!("cli-doctor-zone", zone, host = Zone::of_host());
            report.note("time zone", found, Some(Label("cli-doctor-zone-set")));
        }
        Ok(zone) => report.ok("time zone", zone),
        // An unreachable database is reported by its own check.
        Err(error) if error.is_away() => {}
        Err(error) => {
            report.check("time zone", false, error.to_string(), Label("cli-doctor-zone-set"));
        }
    }
}

/// Whether Redis accepts writes, and each command from this user.
async fn commands(context: &Context, report: &mut Report) {
    let (mut conn, keys) = (context.probed().await.conn, &context.keys);
    if conn.reachable(keys).next().is_none() {
        return report.unreachable("redis writes", conn.why_lost());
    }
    match redis_takes_writes(&mut conn, keys).await {
        // A missing permission is reported below.
        Ok(()) | Err(RedisError::Rejected(_)) => {}
        Err(error) => return report.unreachable("redis writes", error),
    }
    if context.config.read_only {
        return report.note("commands", Label("cli-doctor-skipped"), None);
    }
    let mut denied: Vec<Denied> = Vec::new();
    for of in conn.reachable(keys) {
        match commands::try_all(&mut conn, keys, &of).await {
            Ok(found) => denied.extend(found),
            Err(error) => return report.unreachable("commands", error),
        }
        if !conn.is_cluster() {
            break;
        }
    }
    if denied.is_empty() {
        return report.ok("commands", Label("cli-doctor-commands"));
    }
    let (unknown, denied): (Vec<Denied>, Vec<Denied>) =
        denied.into_iter().partition(|(_, why)| commands::is_unknown(why));
    refused(&unknown, |_| Label("cli-doctor-commands-unknown").to_owned(), report);
    let grant = |names: &[&str]| {
        let rules: Vec<String> = names.iter().map(|name| commands::acl_rule(name)).collect();
        text!("cli-doctor-acl", rules = rules.join(" "))
    };
    refused(&denied, grant, report);
}

/// Reports commands, or families of keys, that Redis refuses, if there are any.
fn refused(denied: &[Denied], fix: impl FnOnce(&[&str]) -> String, report: &mut Report) {
    let Some((_, why)) = denied.first() else { return };
    let mut names: Vec<&str> = denied.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let found = text!("cli-doctor-refused", names = names.join(&Label("list-items")), why);
    report.check("commands", false, found, fix(&names));
}

async fn database(context: &Context, report: &mut Report) {
    let store = &context.store;
    match store.ping().await {
        Ok(version) => {
            let found = text!("cli-doctor-database", version, place = store.describe());
            match tested_servers::product(&store.describe(), &version) {
                Some(product) => report.version("database", product, &version, found),
                None => report.ok("database", found),
            }
        }
        Err(error) => return report.unreachable("database", error),
    }
    if let Err(error) = takes_writes(store).await {
        report.unreachable("writes", error);
    } else if !context.config.read_only
        && let Err(error) = store.try_writes().await
    {
        report.check("writes", false, error.to_string(), Label("cli-doctor-grant-writes"));
    }
    let read = read_each_table(context).await;
    let found = match &read {
        Ok(()) => Label("cli-doctor-schema").to_owned(),
        Err(error) => error.to_string(),
    };
    report.check("schema", read.is_ok(), found, Label("cli-doctor-restore"));
    if let Ok(settings) = store.durability().await {
        let settings = settings.iter().map(|(name, value)| format!("{name} {value}"));
        report.ok("durability", settings.collect::<Vec<_>>().join(&Label("list-items")));
    }
}

/// A cheap read of each table, because an existing table may still be damaged.
async fn read_each_table(context: &Context) -> Result<(), StoreError> {
    let store = &context.store;
    store.sales().await?;
    store.vouchers(None, 1).await?;
    store.orders(&OrderFilter::default(), None, 1).await?;
    store.give_backs(None, 1).await?;
    store.job_switches().await?;
    store.runs(None, 1).await?;
    store.activity(&ActivityFilter::default(), None, 1).await?;
    Ok(())
}

/// Whether each partition has a server: a cluster may lack some.
async fn partitions(context: &Context, report: &mut Report) {
    let mut conn = context.probed().await.conn;
    for lost in conn.lost() {
        report.unreachable("partitions", lost);
    }
    if !conn.lost().is_empty() {
        return;
    }
    for of in context.keys.partitions() {
        if let Err(error) = stream::length(&mut conn, &of).await {
            let partition = text!("cli-partition-finding", n = of.number(), finding = error);
            return report.unreachable("partitions", partition);
        }
    }
    match partition_repair::all_faults(&mut context.deployment.servers()).await {
        Err(error) => return report.failed("partitions", &error.into()),
        Ok(faults) if faults.is_empty() => {}
        Ok(faults) => {
            for PartitionFindings { partition, findings } in faults {
                for fault in findings {
                    let (n, finding) = (partition, fault.reason());
                    let found = text!("cli-partition-finding", n, finding);
                    report.check("partitions", false, found, Label("cli-doctor-repair"));
                }
            }
            return;
        }
    }
    let names = lock_names(&context.config.engine);
    match foreign_locks(&mut conn, &context.keys, &names).await {
        Err(error) => return report.failed("partitions", &error.into()),
        Ok(found) if found.is_empty() => {}
        Ok(found) => {
            let named: Vec<String> = found.iter().map(ToString::to_string).collect();
            report.add("partitions", Grade::Problem, named.join(" "), None);
            return;
        }
    }
    report.ok("partitions", text!("cli-doctor-partitions", partitions = context.keys.count()));
}

/// What each failure may lose with these servers.
async fn losses(context: &Context, report: &mut Report) {
    let wait = context.config.engine.wait_replicas;
    let sentinels = context.config.redis.as_ref().is_some_and(|url| url.contains("+sentinel://"));
    let setup = match deployment::durability(&context.deployment, sentinels).await {
        Ok(setup) => setup,
        // In a cluster, some servers may be unavailable.
        Err(error) => return report.unreachable("durability", error),
    };
    if setup.takeover || setup.replicas > 0 || wait > 0 {
        let found = text!("cli-doctor-replicas", replicas = setup.replicas, wait);
        let passes = !setup.waits_in_vain();
        report.check("replicas", passes, found, Label("cli-doctor-more-replicas"));
    }
    report.data_loss = Some(setup.survival());
}

fn terminal(report: &mut Report) {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let none = Label("common-none");
        return report.note("terminal", none, Some(Label("cli-doctor-no-terminal")));
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) {
        let found = format!("{term} {}x{}", size.ws_col, size.ws_row);
        if size.ws_col < 80 || size.ws_row < 24 {
            report.note("terminal", found, Some(Label("cli-doctor-small-window")));
        } else {
            report.ok("terminal", found);
        }
    }
    if let Some(locale) = seckill_console::not_utf8(|name| std::env::var(name).ok()) {
        let found = text!("cli-doctor-locale", locale);
        report.note("locale", found, Some(Label("cli-doctor-set-locale")));
    }
}

fn render(report: &Report) -> String {
    // A fix has a line of its own below its check.
    let mut lines = Vec::new();
    for Check { name, grade, found, fix } in &report.checks {
        let grade = text!("cli-doctor-grade", grade);
        lines.push([
            grade,
            text!("cli-doctor-check", name = name.replace(' ', "-")),
            found.clone(),
        ]);
        let fix = fix.as_ref().map(|fix| text!("cli-doctor-fix", fix));
        lines.extend(fix.map(|fix| [String::new(), String::new(), fix]));
    }
    let column = |place: usize| move |line: &[String; 3]| line[place].clone();
    let table = Table::new(&lines).left("", column(0)).left("", column(1)).left("", column(2));
    let mut text = table.to_string();
    if let Some(losses) = &report.data_loss {
        text.push_str(&format!("{}\n", Label("cli-doctor-data-loss")));
        let lines = [
            (Label("cli-doctor-node-killed"), losses.node_killed),
            (Label("cli-doctor-redis-killed"), losses.redis_killed),
            (Label("cli-doctor-both-killed"), losses.both_killed),
            (Label("cli-doctor-redis-power"), losses.redis_power_loss),
            (Label("cli-doctor-database-killed"), losses.database_killed),
            (Label("cli-doctor-database-power"), losses.database_power_loss),
            (Label("cli-doctor-failover"), losses.failover),
        ];
        let lines = lines.map(|(event, cost)| (event, cost.to_string()));
        let (table, more) = (fields(&lines).to_string(), Label("cli-doctor-durability"));
        text.push_str(&format!("{}\n{}\n", indented(&table), indented(&more)));
    }
    let conclusion =
        if report.healthy { Label("cli-doctor-passed") } else { Label("cli-doctor-problems") };
    text + &conclusion
}
