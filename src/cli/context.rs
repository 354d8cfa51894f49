//! Resources of a command: data directory, Redis and store, and their release.

use std::{os::unix::ffi::OsStrExt as _, sync::Arc, time::Duration};

use seckill_engine::{
    EngineError, Operator,
    commands::{audit_record, command_handler::login_name, outcome::CommandOutcome},
    deployment::{self, Deployment, partitions},
    locks::{Locks, Timing},
    node::{Node, NodeConfig, heartbeat::take_name, outbox::Outbox},
    recovery::{former_names, partition_repair},
    telemetry::Meters,
};
use seckill_model::{Label, Message, Millis, reason, text};
use seckill_redis::{
    DataDirError, HOME, Layout, Redis, RedisError,
    data_dir::{DataDir, NodeSlot},
    stream_stats::partitions_there,
};
use seckill_store::{AuditEntry, Expected, Opening, SharedStore, Store, StoreError};
use seckill_text::audit_log::localized_result;
use sha2::{Digest as _, Sha256};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{CliError, Config, Consent, Output, Result, logging, signals};

/// How often a command that reports written data checks that the files still exist.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Timeout of closing the generations of order IDs at the end.
const CLOSE_IDS_WITHIN: Duration = Duration::from_secs(1);
/// Timeout of counting the partitions in Redis.
const COUNT_TIMEOUT: Duration = Duration::from_secs(30);

/// The servers that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// None: it reports what it can read. Every operation on a database that cannot be opened fails.
    Nothing,
    /// Redis alone: no database is opened.
    Redis,
    /// The database; Redis may be unreachable.
    Database,
    /// Both servers, to read: of a cluster, one server is enough, and the command names those that it lacks.
    Readable,
    /// Both servers; of a cluster, also the one that stores to which database it belongs.
    Both,
    /// Both servers, for a benchmark: it creates tables in an empty database, and stores no setting of a deployment there.
    Benchmark,
    /// Both servers, for a node: it changes the number of partitions to the requested one.
    Node,
}

impl Needs {
    /// Whether the database has to be that of Redis: a benchmark in a database of its own leaves none of its keys there.
    fn is_bound(self, config: &Config) -> bool {
        self != Self::Benchmark || config.database.is_some()
    }
}

/// All open resources. Release them with [`Context::close`], or use them with [`Context::run`].
#[derive(derive_more::Deref)]
pub(super) struct Context {
    pub(super) config: Config,
    pub(super) out: Output,
    pub(super) dir: DataDir,
    #[deref]
    pub(super) deployment: Deployment,
    /// Why the embedded server did not start. Commands that need only the database work without it.
    not_started: Option<DataDirError>,
    slot: Option<NodeSlot>,
    /// Distinguishes this process from another one with the same node name.
    instance: String,
    /// Watchdogs of the operators' locks, which [`Context::close`] ends by `stop`.
    watchdogs: TaskTracker,
    stop: CancellationToken,
    /// Audit log lines of operators in this process.
    outbox: Outbox,
}

impl Context {
    /// Opens the configured resources; a configured server is used, or is an error.
    pub(super) async fn open(config: &Config, out: Output, needs: Needs) -> Result<Self> {
        Self::open_in(config, out, config.open_data_dir()?, needs).await
    }

    /// Like [`Context::open`], with an open data directory.
    pub(super) async fn open_in(
        config: &Config,
        out: Output,
        dir: DataDir,
        needs: Needs,
    ) -> Result<Self> {
        logging::to_file(&dir.log_path())?;
        // Invalid URLs are reported before a server is started.
        let redis = config.redis(&dir)?;
        let database = config.database_url(&dir)?;
        signals::guard(&redis)?;
        let started = start(&redis).await;
        let opened = match needs {
            Needs::Redis => {
                Ok(Store::unopened(StoreError::Away(Label("store-reason-closed").into())))
            }
            _ => open_database(&redis, &started, &database, config, needs).await,
        };
        let store = match opened {
            Ok(store) => store,
            Err(error) => {
                let _ = stop(&redis).await;
                return Err(error);
            }
        };
        let mut context = Self {
            config: config.clone(),
            out,
            dir,
            deployment: Deployment {
                redis,
                store,
                keys: Layout::default(),
                settings: config.engine.clone(),
            },
            not_started: started.err(),
            slot: None,
            instance: uuid::Uuid::new_v4().simple().to_string(),
            watchdogs: TaskTracker::new(),
            stop: CancellationToken::new(),
            outbox: Outbox::default(),
        };
        match context.prepare(needs).await {
            Ok(()) => Ok(context),
            Err(error) => {
                context.close().await;
                Err(error)
            }
        }
    }

    /// Opens the resources, runs `command`, and closes everything.
    pub(super) async fn with<T>(
        config: &Config,
        out: Output,
        needs: Needs,
        command: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        Self::open(config, out, needs).await?.run(command).await
    }

    /// Runs `command` and closes everything.
    pub(super) async fn run<T>(
        mut self,
        command: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let result = command(&mut self).await;
        self.close().await;
        result
    }

    /// Checks the servers that the command needs.
    async fn prepare(&mut self, needs: Needs) -> Result<()> {
        self.agree(needs).await?;
        if matches!(needs, Needs::Nothing | Needs::Database | Needs::Benchmark) {
            return Ok(());
        }
        if let Some(error) = &self.not_started {
            return Err(error.clone().into());
        }
        let mut conn = self.redis.connection();
        if !matches!(needs, Needs::Both | Needs::Redis) {
            conn.probe(&self.keys).await;
        }
        if conn.lost().is_empty() {
            conn.multiplexed(HOME).await?;
        } else {
            conn.reachable(&self.keys).next().ok_or_else(|| conn.why_lost())?;
        }
        Ok(())
    }

    /// Checks that this Redis belongs to this database, and reads the number of partitions, or changes it.
    async fn agree(&mut self, needs: Needs) -> Result<()> {
        if needs == Needs::Redis {
            return Ok(());
        }
        let wanted = self.config.partitions;
        let read_only = self.config.read_only || needs == Needs::Benchmark;
        let cluster = self.redis.is_cluster();
        let agreed = match partitions::agreed(&self.store, wanted, read_only).await {
            Ok(agreed) => agreed,
            Err(error) => {
                let error = CliError::from(error);
                if needs != Needs::Nothing || !error.is_unreachable() {
                    return Err(error);
                }
                let partitions = match wanted {
                    Some(wanted) => wanted,
                    None => self.count_partitions().await,
                };
                self.deployment.keys = Layout::new(partitions, cluster);
                return Ok(());
            }
        };
        let former = self.store.former_shards().await?;
        self.deployment.keys = Layout::new(agreed, cluster).formerly(former.iter().copied());
        if self.not_started.is_none() && needs.is_bound(&self.config) {
            let mut servers = self.probed().await;
            let tied = match deployment::reject_second_redis(&mut servers).await {
                Ok(()) => deployment::tie(&mut servers, read_only).await,
                rejected => rejected,
            };
            match tied {
                // Nothing is changed in a Redis that may belong to another database.
                Err(EngineError::Redis(_))
                    if needs == Needs::Both && servers.conn.is_lost(&servers.keys.home()) =>
                {
                    // A server that replies that the cluster is down does not name the one that is missing.
                    return Err(EngineError::Redis(servers.conn.why_lost()).into());
                }
                // Commands that need Redis report its errors themselves; a node checks again before it admits buyers.
                Err(EngineError::Redis(_)) => {}
                other => other?,
            }
            if !read_only {
                // A node renames those that are left before it sells.
                if let Err(error) = former_names::rename_all(&mut servers).await {
                    tracing::warn!(%error, "keys of an earlier version are not renamed yet");
                }
            }
        }
        let Some(wanted) = wanted.filter(|wanted| *wanted != agreed) else { return Ok(()) };
        if needs != Needs::Node || read_only {
            return Err(CliError::usage(text!("cli-partitions-differ", agreed, wanted)));
        }
        let new = Layout::new(wanted, cluster).formerly(former);
        let dead_ms = self.config.engine.node_dead_ms;
        partitions::change(&mut self.servers(), &new, dead_ms).await?;
        let subject = reason!("subject-partition-count", from = agreed, to = wanted);
        self.record("partitions change", Message::of(&subject), None).await;
        self.deployment.keys = new;
        Ok(())
    }

    /// Adds a command that this process has carried out itself to the audit log.
    pub(super) async fn record(&self, action: &str, subject: Message, reason: Option<String>) {
        let line = AuditEntry {
            at: Millis::now(),
            operator: login_name(),
            node: String::new(),
            action: action.to_owned(),
            subject,
            reason,
            result: Message::of(&CommandOutcome::Finished),
            ..AuditEntry::default()
        };
        self.outbox.put(line);
        self.outbox.write(&self.store).await;
    }

    /// The number of partitions in Redis, while SQL, which decides, is unavailable; 1 if Redis is as well.
    async fn count_partitions(&self) -> u16 {
        let mut conn = self.redis.connection();
        let count = partitions_there(&mut conn, self.redis.is_cluster());
        tokio::time::timeout(COUNT_TIMEOUT, count).await.map_or(1, |count| count.unwrap_or(1))
    }

    /// Node name of this process: stable across restarts, and unique among live processes.
    pub(super) fn node_name(&mut self) -> Result<String> {
        if let Some(name) = &self.config.node {
            return Ok(name.clone());
        }
        let slot = match &self.slot {
            Some(slot) => slot.number(),
            None => self.slot.insert(self.dir.node_slot()?).number(),
        };
        if self.redis.managed().is_some() {
            // Only processes on this data directory use this Redis.
            return Ok(format!("node-{slot}"));
        }
        let host: String = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_alphanumeric() || c == '-' { c } else { '-' })
            .take(40)
            .collect();
        // Stable between releases, unlike the hashes of the standard library.
        let dir = Sha256::digest(self.dir.path().as_os_str().as_bytes());
        Ok(format!("{host}-{:02x}{:02x}-{slot}", dir[0], dir[1]))
    }

    /// Starts an engine in this process once it owns its node name.
    pub(super) async fn start_node(&mut self) -> Result<Node> {
        let (name, dead_ms) = (self.node_name()?, self.config.engine.node_dead_ms);
        if !self.config.read_only {
            if let Some(Err(error)) = self.slot.as_ref().map(|it| it.write_instance(&self.instance))
            {
                tracing::warn!(%error, "other nodes cannot see when this process ends");
            }
            let mut servers = self.servers();
            // A key of the wrong type would block the name. An unavailable server is reported below.
            let _ = partition_repair::repair_all(&mut servers, &self.outbox, &name).await;
            servers.conn.probe(&servers.keys).await;
            let taken = take_name(&mut servers, &name, &self.instance, dead_ms, false).await;
            if let Err(
                error @ EngineError::Redis(RedisError::Unwilling(_) | RedisError::ClusterDown(_)),
            ) = taken
            {
                let mut refused = CliError::from(error);
                refused.text = text!("cli-read-only-works", why = refused.message()).into();
                return Err(refused);
            }
            taken?;
        }
        let (deployment, instance) = (self.deployment.clone(), self.instance.clone());
        let read_only = self.config.read_only;
        Ok(Node::start(NodeConfig { deployment, name, instance, read_only }))
    }

    /// Operator access for a command that changes something.
    ///
    /// # Errors
    /// The mode is read-only, or the reason is too long.
    pub(super) fn writer(&mut self, consent: &Consent) -> Result<Operator> {
        let operator = self.operator(consent.reason.reason.clone())?;
        if operator.read_only {
            return Err(EngineError::ReadOnly.into());
        }
        Ok(operator)
    }

    /// Operator access without an engine in this process.
    pub(super) fn operator(&mut self, reason: Option<String>) -> Result<Operator> {
        audit_record::check_reason(reason.as_deref())?;
        let node = self.node_name()?;
        let (locks, keeper) = Locks::new(&self.redis, self.keys.clone(), &node, Timing::default());
        self.watchdogs.spawn(keeper.run(self.stop.clone()));
        Ok(Operator {
            deployment: self.deployment.clone(),
            login: login_name(),
            node,
            locks,
            read_only: self.config.read_only,
            admission: None,
            meters: Arc::new(Meters::default()),
            reason,
            outbox: self.outbox.clone(),
        })
    }

    /// Checks that the data files, which may be removed or replaced while in use, still exist. An unavailable database
    /// has lost nothing.
    pub(super) async fn check_files(&self) -> Result<()> {
        if let Some(server) = self.redis.managed() {
            server.check()?;
        }
        match self.store.ping().await {
            Err(gone @ StoreError::File(_)) => Err(gone.into()),
            _ => Ok(()),
        }
    }

    /// Waits until a data file is lost, and returns why.
    pub(super) async fn files_lost(&self) -> CliError {
        loop {
            if let Err(error) = self.check_files().await {
                return error;
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// Closes everything; the last process on a data directory stops its server.
    pub(super) async fn close(mut self) {
        self.stop.cancel();
        self.watchdogs.close();
        // Shutdown has its own timeout.
        self.watchdogs.wait().await;
        self.outbox.write(&self.store).await;
        for entry in self.outbox.lost().into_iter().chain(self.outbox.waiting()) {
            tracing::error!(?entry, "the audit log does not contain this line");
            let (command, result) = (typed(&entry.action), localized_result(&entry.result));
            let message = if entry.failed() {
                text!("cli-failed-and-not-logged", command, result)
            } else {
                text!("cli-done-but-not-logged", command, result)
            };
            CliError::failed(message).print();
        }
        let is_managed = self.redis.managed().is_some() && self.not_started.is_none();
        if is_managed && !self.config.read_only {
            // This may be the last process, which stops the server. Its slot, which may be that of a killed node, would make that
            // node look alive.
            self.slot = None;
            match tokio::time::timeout(CLOSE_IDS_WITHIN, self.close_ids()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "later order IDs may be ahead of the clock");
                }
                Err(_) => {
                    tracing::debug!("no reply in time: later order IDs may be ahead of the clock");
                }
            }
        }
        self.store.close().await;
        if let Err(error) = stop(&self.redis).await {
            tracing::warn!(%error, "the server was not stopped");
            // The command has succeeded regardless of the server, but the user must know.
            CliError::from(error).print();
        }
    }
}

/// Opens the database that belongs to Redis. Nothing is created or upgraded in another one, or while it is unknown which one
/// that is.
async fn open_database(
    redis: &Redis,
    started: &Result<(), DataDirError>,
    url: &str,
    config: &Config,
    needs: Needs,
) -> Result<SharedStore> {
    let mut conn = redis.connection();
    let expected = match started {
        Ok(()) if !needs.is_bound(config) => Ok(Expected::Any),
        Ok(()) => deployment::expected(&mut conn, &Layout::default()).await,
        Err(error) => Err(error.clone().into()),
    };
    let opening = Opening {
        read_only: config.read_only,
        expected: expected.as_ref().map_or(Expected::Unknown, Clone::clone),
    };
    match (seckill_store::open_as(url, &config.store, &opening).await, expected) {
        (Err(StoreError::Foreign(_)), _) => Err(deployment::foreign(&conn).into()),
        (Err(StoreError::Unbound(_)), Err(error))
            if needs != Needs::Nothing || started.is_err() =>
        {
            Err(error.into())
        }
        (Err(error), _) if needs == Needs::Nothing && started.is_ok() => {
            let shown = CliError::from(error.clone());
            if shown.is_unreachable() { Ok(Store::unopened(error)) } else { Err(shown) }
        }
        (opened, _) => Ok(opened?),
    }
}

/// Starts the embedded server, unless a Redis was configured.
pub(super) async fn start(redis: &Redis) -> Result<(), DataDirError> {
    match redis.managed() {
        Some(server) => server.ensure().await,
        None => Ok(()),
    }
}

/// Releases the embedded server, which stops with its last user. Does not return if a signal is ending the process.
pub(super) async fn stop(redis: &Redis) -> Result<(), DataDirError> {
    match redis.managed() {
        Some(server) => {
            let stopped = server.detach().await;
            signals::end_if_interrupted().await;
            stopped
        }
        None => Ok(()),
    }
}

/// The command as it is typed, from its name in the audit log.
fn typed(action: &str) -> &str {
    match action.strip_suffix(" begun").unwrap_or(action) {
        "sale cut" => "sale restock",
        "audit repair" => "audit --repair",
        "order pay" => "orders pay",
        "lock release" => "locks release",
        "job run" => "jobs run",
        "job pause" => "jobs pause",
        "job resume" => "jobs resume",
        typed => typed,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use seckill_engine::commands::Command;
    use seckill_model::{OrderId, VoucherId};

    use super::*;

    #[test]
    fn a_command_is_named_as_it_is_typed() {
        let (voucher, job) = (VoucherId(1), || "close-overdue".to_owned());
        let order = "665373799471624262".parse::<OrderId>();
        for command in [
            Command::PauseSale(voucher),
            Command::Restock { voucher, by: 1 },
            Command::Restock { voucher, by: -1 },
            Command::Repair(Vec::new()),
            Command::Pay(order.unwrap()),
            Command::ReleaseLock { name: job(), owner: job() },
            Command::RunJob(job()),
            Command::SwitchJob { job: job(), paused: true },
            Command::SwitchJob { job: job(), paused: false },
        ] {
            let (name, _) = audit_record::describe(&command);
            let mut cli = crate::Cli::command();
            for word in typed(name).split(' ') {
                let is_flag = cli.get_arguments().any(|it| {
                    it.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
                });
                let found = cli.find_subcommand(word).cloned();
                assert!(is_flag || found.is_some(), "'{name}' is typed '{}'", typed(name));
                cli = found.unwrap_or(cli);
            }
        }
    }
}
