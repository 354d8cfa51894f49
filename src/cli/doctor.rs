//! `seckill doctor`: checks with results and fixes.

use std::io::IsTerminal as _;

use seckill_engine::{durability, telemetry::write_probe::takes_writes};
use seckill_model::{
    OrderFilter,
    durability::{Append, Survival},
};
use seckill_redis::{
    HOME, RedisError,
    commands::{self, Denied},
    data_dir::DataDir,
    permissions::others_may,
    server_binary, stream,
    stream_stats::takes_writes as takes_writes_redis,
};
use seckill_store::StoreError;
use serde::Serialize;

use super::{Fault, context::Context, fault, output::Output};
use crate::config::Config;

/// With less free space than this, one sale may fill the disk.
const ENOUGH_BYTES: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Good,
    Note,
    Bad,
    Away,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    grade: Grade,
    found: String,
    mend: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    healthy: bool,
    checks: Vec<Check>,
    /// What each failure may lose with these servers, as far as their settings are readable.
    may_cost: Option<Survival>,
}

impl Report {
    fn add(
        &mut self,
        name: &'static str,
        grade: Grade,
        found: impl Into<String>,
        mend: Option<&str>,
    ) {
        let mend = mend.map(str::to_owned);
        self.checks.push(Check { name, grade, found: found.into(), mend });
    }
}

pub(super) async fn run(config: &Config, out: Output) -> Result<u8, Fault> {
    let mut report = Report::default();
    if config.redis.is_none() {
        server_binary(&mut report);
    }
    data_dir(config, &mut report);
    match Context::open(config).await {
        Ok(context) => {
            redis(&context, &mut report).await;
            commands(&context, &mut report).await;
            partitions(&context, &mut report).await;
            database(&context, &mut report).await;
            losses(&context, &mut report).await;
            context.close().await;
        }
        Err(error) => {
            // The message names the failing server.
            let away = error.code == fault::UNREACHABLE;
            let grade = if away { Grade::Away } else { Grade::Bad };
            report.add("opening", grade, error.sentence.to_string(), None);
        }
    }
    terminal(&mut report);
    let worst = report.checks.iter().map(|check| check.grade).max().unwrap_or(Grade::Good);
    report.healthy = worst < Grade::Bad;
    out.answer(&report, || render(&report))?;
    Ok(match worst {
        Grade::Good | Grade::Note => 0,
        Grade::Bad => fault::NO,
        Grade::Away => fault::UNREACHABLE,
    })
}

fn server_binary(report: &mut Report) {
    match server_binary::find_server() {
        Ok(found) => {
            let text = format!("{} {}", found.path.display(), found.version);
            report.add("server", Grade::Good, text, None);
        }
        Err(error) => report.add("server", Grade::Away, error.to_string(), None),
    }
}

fn data_dir(config: &Config, report: &mut Report) {
    let path = config.data_dir.clone().map_or_else(DataDir::default_path, Ok);
    match path.and_then(|path| DataDir::open(&path)) {
        Ok(dir) => {
            let path = dir.path().display().to_string();
            report.add("data dir", Grade::Good, path, None);
            rights(config, &dir, report);
            if let Ok(space) = rustix::fs::statvfs(dir.path()) {
                let free = space.f_bavail.saturating_mul(space.f_frsize);
                let grade = if free < ENOUGH_BYTES { Grade::Bad } else { Grade::Good };
                let mend = (grade == Grade::Bad)
                    .then_some("free some disk space, or pass another --data-dir");
                report.add("disk", grade, format!("{} MiB free", free >> 20), mend);
            }
        }
        Err(error) => report.add("data dir", Grade::Away, error.to_string(), None),
    }
}

/// Whether other users may read the stored data.
fn rights(config: &Config, dir: &DataDir, report: &mut Report) {
    let inside = dir.database_url();
    let database = seckill_store::file_of(config.database.as_ref().unwrap_or(&inside));
    let wide: Vec<String> = [Some(dir.path().to_owned()), database, Some(dir.log_path())]
        .into_iter()
        .flatten()
        .filter_map(|path| Some((others_may(&path)?, path)))
        .map(|(mode, path)| format!("{} (mode {mode:04o})", path.display()))
        .collect();
    if !wide.is_empty() {
        let found = format!("open to other users: {}", wide.join(", "));
        report.add("permissions", Grade::Bad, found, Some("chmod go= on each of them"));
    }
}

async fn redis(context: &Context, report: &mut Report) {
    let mut conn = context.redis.connection();
    if let Err(error) = conn.multiplexed(HOME).await {
        return report.add("redis", Grade::Away, error.to_string(), None);
    }
    let version = conn.server(HOME).map_or_else(String::new, |server| server.version.clone());
    report.add("redis", Grade::Good, format!("{version} at {}", context.redis.place()), None);
    match conn.setting(HOME, "appendonly").await {
        Ok(on) if on == "yes" => {
            let fsync = conn.setting(HOME, "appendfsync").await.unwrap_or_default();
            let grade = match Append::read(&on, &fsync) {
                Append::Always | Append::EverySecond => Grade::Good,
                Append::Late | Append::Off => Grade::Bad,
            };
            let mend = (grade == Grade::Bad).then_some("CONFIG SET appendfsync everysec");
            report.add("append-only file", grade, format!("on, appendfsync {fsync}"), mend);
        }
        Ok(_) => report.add(
            "append-only file",
            Grade::Bad,
            "off: a restart of Redis loses admitted orders",
            Some("CONFIG SET appendonly yes, and put it into redis.conf"),
        ),
        Err(_) => {
            report.add("append-only file", Grade::Note, "this user may not read CONFIG", None);
        }
    }
    if let Ok(policy) = conn.setting(HOME, "maxmemory-policy").await {
        let grade = if policy == "noeviction" { Grade::Good } else { Grade::Bad };
        let mend = (grade == Grade::Bad)
            .then_some("CONFIG SET maxmemory-policy noeviction: evicted keys are lost buyers");
        report.add("eviction", grade, policy, mend);
    }
}

/// Whether Redis accepts writes, and each command from this user.
async fn commands(context: &Context, report: &mut Report) {
    let (mut conn, keys) = (context.redis.connection(), &context.keys);
    match takes_writes_redis(&mut conn, keys).await {
        // A missing permission is reported below.
        Ok(()) | Err(RedisError::Refused(_)) => {}
        Err(error) => return report.add("redis writes", Grade::Away, error.to_string(), None),
    }
    if context.config.read_only {
        return report.add("commands", Grade::Note, "skipped because of --read-only", None);
    }
    let mut denied: Vec<Denied> = Vec::new();
    for of in keys.partitions() {
        match commands::try_all(&mut conn, keys, &of).await {
            Ok(found) => denied.extend(found),
            Err(error) => return report.add("commands", Grade::Away, error.to_string(), None),
        }
        if !conn.is_cluster() {
            break;
        }
    }
    let Some((_, why)) = denied.first() else {
        return report.add("commands", Grade::Good, "all required commands are allowed", None);
    };
    let mut names: Vec<&str> = denied.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    let found = format!("refused: {} ({why})", names.join(", "));
    let rules: Vec<String> =
        names.iter().map(|name| format!("+{}", name.to_lowercase().replace(' ', "|"))).collect();
    let mend = format!("ACL SETUSER the user of the URL: {}", rules.join(" "));
    report.add("commands", Grade::Bad, found, Some(&mend));
}

async fn database(context: &Context, report: &mut Report) {
    match context.store.ping().await {
        Ok(version) => {
            let text = format!("{version}, {}", context.store.describe());
            report.add("database", Grade::Good, text, None);
            if let Err(why) = takes_writes(&context.store).await {
                report.add("writes", Grade::Away, why.to_string(), None);
            }
            match read_each_table(context).await {
                Ok(()) => {
                    report.add("schema", Grade::Good, "up to date, every table answers", None);
                }
                Err(error) => report.add(
                    "schema",
                    Grade::Bad,
                    error.to_string(),
                    Some("restore a backup, or pass another --database"),
                ),
            }
        }
        Err(error) => return report.add("database", Grade::Away, error.to_string(), None),
    }
    if let Ok(settings) = context.store.durability().await {
        let text: Vec<String> =
            settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        report.add("durability", Grade::Good, text.join(", "), None);
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
    store.acts(1).await?;
    Ok(())
}

/// Whether each partition has a server: a cluster may lack some.
async fn partitions(context: &Context, report: &mut Report) {
    let mut conn = context.redis.connection();
    let mut away: Option<String> = None;
    for of in context.keys.partitions() {
        if let Err(error) = stream::length(&mut conn, &of).await {
            away.get_or_insert(format!("partition {}: {error}", of.number()));
        }
    }
    match away {
        Some(away) => report.add("partitions", Grade::Away, away, None),
        None => {
            report.add(
                "partitions",
                Grade::Good,
                format!("{}, all served", context.keys.count()),
                None,
            );
        }
    }
}

/// The row of the table in assets/durability.md that applies to these servers.
async fn losses(context: &Context, report: &mut Report) {
    let wait = context.config.engine.wait_replicas;
    let sentinels = context.config.redis.as_ref().is_some_and(|url| url.contains("+sentinel://"));
    let setup = match durability::setup(&context.deployment(), sentinels).await {
        Ok(setup) => setup,
        // In a cluster, some servers may be unavailable.
        Err(error) => return report.add("durability", Grade::Away, error.to_string(), None),
    };
    if setup.takeover || setup.replicas > 0 || wait > 0 {
        let grade = if setup.waits_in_vain() { Grade::Bad } else { Grade::Good };
        let mend = (grade == Grade::Bad).then_some(
            "connect more replicas or lower engine.wait_replicas: no buyer gets a reply now",
        );
        let found = format!("{} connected, {wait} have to confirm", setup.replicas);
        report.add("replicas", grade, found, mend);
    }
    report.may_cost = Some(setup.survival());
}

fn terminal(report: &mut Report) {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let mend = Some("the console needs one; commands with --json do not");
        return report.add("terminal", Grade::Note, "none", mend);
    }
    let term = std::env::var("TERM").unwrap_or_else(|_| "unset".to_owned());
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) {
        let small = size.ws_col < 80 || size.ws_row < 24;
        let mend = small.then_some("the full console needs 80x24; enlarge the window");
        let grade = if small { Grade::Note } else { Grade::Good };
        report.add("terminal", grade, format!("{term}, {}x{}", size.ws_col, size.ws_row), mend);
    }
    if let Some(locale) = seckill_console::not_utf8(|name| std::env::var(name).ok()) {
        let mend = Some("export LC_ALL=C.UTF-8, or the console draws in ASCII only");
        report.add("locale", Grade::Note, format!("{locale} is not UTF-8"), mend);
    }
}

fn render(report: &Report) -> String {
    let mut text = String::new();
    for Check { name, grade, found, mend } in &report.checks {
        let mark = match grade {
            Grade::Good => "ok  ",
            Grade::Note => "note",
            Grade::Bad => "BAD ",
            Grade::Away => "AWAY",
        };
        text.push_str(&format!("{mark}  {name:<16}  {found}\n"));
        if let Some(mend) = mend {
            text.push_str(&format!("      {:<16}  mend: {mend}\n", ""));
        }
    }
    if let Some(costs) = &report.may_cost {
        text.push_str("Possible data loss, see assets/durability.md:\n");
        let events = [
            ("kill -9 of a node", costs.node_killed),
            ("kill -9 of Redis", costs.redis_killed),
            ("kill -9 of both", costs.both_killed),
            ("power, Redis", costs.redis_power_loss),
            ("kill -9, database", costs.database_killed),
            ("power, database", costs.database_power_loss),
            ("failover of Redis", costs.failover),
        ];
        for (event, cost) in events {
            text.push_str(&format!("      {event:<17} {cost}\n"));
        }
    }
    text.push_str(if report.healthy { "All checks passed." } else { "Problems found." });
    text
}
