//! What a command works with: the data dir, Redis, the store, and how they are given back.

use std::{io::Write as _, os::unix::ffi::OsStrExt as _, sync::Arc, time::Duration};

use seckill_console::{act_word, told_result};
use seckill_engine::{
    EngineError, audit_record,
    command_handler::{Operator, login_name},
    deployment,
    heartbeat::take_name,
    load_generator::Rushes,
    locks::{Locks, Timing},
    mend,
    node::{Node, NodeConfig},
    operator_lock::UnderWay,
    outbox::Outbox,
    outcome::CommandOutcome,
    partitions,
    telemetry::Meters,
};
use seckill_model::{
    Millis, Said,
    locale::{Lang, language},
    message::text,
};
use seckill_redis::{
    BrokerError, HOME, Layout, Redis,
    data_dir::{DataDir, NodeSlot},
    server::ManagedServer,
};
use seckill_store::{Act, SharedStore, StoreError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Fault, logging, output::plain};
use crate::config::Config;

/// How often a command that reports what was written looks whether it is still there.
const PLACE_EVERY: Duration = Duration::from_millis(500);

/// Everything opened. Give it back with [`Context::close`].
pub(super) struct Context {
    pub(super) config: Config,
    pub(super) dir: DataDir,
    pub(super) redis: Redis,
    pub(super) store: SharedStore,
    pub(super) keys: Layout,
    server: Option<Arc<ManagedServer>>,
    slot: Option<NodeSlot>,
    /// This process, as opposed to another one of the same node name.
    instance: String,
    /// Keepers of the operators' locks, ended by [`Context::close`].
    keeping: Vec<(CancellationToken, JoinHandle<()>)>,
    /// Lines of the audit log that operators of this process wrote.
    outbox: Outbox,
}

impl Context {
    /// Opens what the settings name: what was asked for is used, or is an error.
    pub(super) async fn open(config: &Config) -> Result<Self, Fault> {
        let dir = match &config.data_dir {
            Some(path) => DataDir::open(path)?,
            None => DataDir::open(&DataDir::default_path()?)?,
        };
        Self::open_in(config, dir, false).await
    }

    /// As [`Context::open`], in a data dir that is open already. `changes`: whether the number of partitions may be
    /// changed to the one that was asked for.
    pub(super) async fn open_in(
        config: &Config,
        dir: DataDir,
        changes: bool,
    ) -> Result<Self, Fault> {
        logging::to_file(&dir.log_path());
        // A URL that can't be read is told before a server is started for nothing.
        let (given, server) = match &config.redis {
            Some(url) => (Some(Redis::trusting(url, config.redis_ca.as_deref())?), None),
            None => (None, Some(Arc::new(ManagedServer::attach(&dir)?))),
        };
        let database = config.database.clone().unwrap_or_else(|| dir.database_url());
        // Both take tens of milliseconds, and neither needs the other.
        let (store, answering) =
            futures::join!(seckill_store::open(&database, &config.store), async {
                match &server {
                    Some(server) => server.ensure().await,
                    None => Ok(()),
                }
            });
        let opened = store.map_err(Fault::from).and_then(|store| {
            answering?;
            Ok(store)
        });
        let store = match opened {
            Ok(store) => store,
            Err(fault) => {
                if let Some(server) = &server {
                    let _ = server.detach().await;
                }
                return Err(fault);
            }
        };
        let redis = match (given, &server) {
            (Some(redis), _) => redis,
            (None, Some(server)) => Redis::from_managed(Arc::clone(server))?,
            (None, None) => {
                return Err(Fault::usage("neither a Redis URL nor a server of our own"));
            }
        };
        let instance = uuid::Uuid::new_v4().simple().to_string();
        let (config, keys) = (config.clone(), Layout::default());
        let mut context = Self {
            config,
            dir,
            redis,
            store,
            keys,
            server,
            slot: None,
            instance,
            keeping: Vec::new(),
            outbox: Outbox::default(),
        };
        match context.agree(changes).await {
            Ok(()) => Ok(context),
            Err(fault) => {
                context.close().await;
                Err(fault)
            }
        }
    }

    /// Sees to it that this Redis goes with this database, and takes the number of partitions that they have, or
    /// changes it.
    async fn agree(&mut self, changes: bool) -> Result<(), Fault> {
        let (wanted, read_only) = (self.config.partitions, self.config.read_only);
        let cluster = self.redis.is_cluster();
        let agreed = partitions::agreed(&self.store, wanted, read_only).await?;
        self.keys = Layout::new(agreed, cluster);
        let mut link = self.redis.link();
        match deployment::tie(&self.store, &mut link, &self.keys, read_only).await {
            // Whoever needs Redis says so in his own words; a node looks again before it admits anybody.
            Err(EngineError::Broker(_)) => {}
            other => other?,
        }
        let Some(wanted) = wanted.filter(|wanted| *wanted != agreed) else { return Ok(()) };
        if !changes || read_only {
            return Err(Fault::usage(text!(
                "cli-the-number-of-partitions-is-seckill",
                agreed,
                wanted
            )));
        }
        let new = Layout::new(wanted, cluster);
        let dead_ms = self.config.engine.node_dead_ms;
        partitions::change(&self.store, &mut link, &self.keys, &new, dead_ms).await?;
        let line = Act {
            at: Millis::now(),
            operator: login_name(),
            node: String::new(),
            act: "partitions change".to_owned(),
            subject: format!("{agreed} to {wanted}").into(),
            result: Said::of(&CommandOutcome::Finished),
            ..Act::default()
        };
        self.outbox.put(line);
        self.outbox.write(&self.store).await;
        self.keys = new;
        Ok(())
    }

    /// As [`Context::open_answering`], for a node that may change the number of partitions.
    pub(super) async fn open_to_work(config: &Config) -> Result<Self, Fault> {
        let dir = match &config.data_dir {
            Some(path) => DataDir::open(path)?,
            None => DataDir::open(&DataDir::default_path()?)?,
        };
        Self::open_in(config, dir, true).await?.answering().await
    }

    /// As [`Context::open`], and Redis has answered: for commands that are of no use without it.
    pub(super) async fn open_answering(config: &Config) -> Result<Self, Fault> {
        Self::open(config).await?.answering().await
    }

    async fn answering(self) -> Result<Self, Fault> {
        match self.redis.link().connection(HOME).await {
            Ok(_) => Ok(self),
            Err(error) => {
                self.close().await;
                Err(error.into())
            }
        }
    }

    /// This process' node name: it survives a restart, and no other live process has it.
    pub(super) fn node_name(&mut self) -> Result<String, Fault> {
        if let Some(name) = &self.config.node {
            return Ok(name.clone());
        }
        let slot = match &self.slot {
            Some(slot) => slot.number(),
            None => self.slot.insert(self.dir.node_slot()?).number(),
        };
        if self.server.is_some() {
            // Nobody else speaks to this Redis but processes on this data dir.
            return Ok(format!("node-{slot}"));
        }
        let host: String = gethostname::gethostname()
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_alphanumeric() || c == '-' { c } else { '-' })
            .take(40)
            .collect();
        let dir = fnv1a(self.dir.path().as_os_str().as_bytes());
        Ok(format!("{host}-{:04x}-{slot}", dir & 0xffff))
    }

    /// Starts an engine in this process, once its name is its own.
    pub(super) async fn start_node(&mut self) -> Result<Node, Fault> {
        let (name, dead_ms) = (self.node_name()?, self.config.engine.node_dead_ms);
        if !self.config.read_only {
            // Whoever had this slot of the data dir before is gone: its lock says so.
            let sure = self.config.node.is_none() && self.server.is_some();
            let mut link = self.redis.link();
            // A key of another type would stand in the way of the name. A server that is away is reported below.
            let (store, keys) = (&self.store, &self.keys);
            let _ = mend::mend_all(store, &mut link, keys, &self.outbox, &name).await;
            let (keys, instance) = (&self.keys, &self.instance);
            let taken = take_name(&mut link, keys, &name, instance, dead_ms, sure).await;
            if let Err(error @ EngineError::Broker(BrokerError::Unwilling(_))) = taken {
                let mut fault = Fault::from(error);
                let why = fault.told();
                fault.sentence = text!("cli-read-only-works", why).into();
                return Err(fault);
            }
            taken?;
        }
        Ok(Node::start(NodeConfig {
            redis: self.redis.clone(),
            store: Arc::clone(&self.store),
            keys: self.keys.clone(),
            settings: self.config.engine.clone(),
            name,
            instance: self.instance.clone(),
            read_only: self.config.read_only,
        }))
    }

    /// The hands of an operator, without an engine in this process.
    pub(super) fn operator(&mut self, reason: Option<String>) -> Result<Operator, Fault> {
        audit_record::check_reason(reason.as_deref())?;
        let node = self.node_name()?;
        let (locks, keeper) = Locks::new(&self.redis, self.keys.clone(), &node, Timing::default());
        let stop = CancellationToken::new();
        self.keeping.push((stop.clone(), tokio::spawn(keeper.run(stop))));
        Ok(Operator {
            redis: self.redis.clone(),
            store: Arc::clone(&self.store),
            keys: self.keys.clone(),
            settings: self.config.engine.clone(),
            node,
            locks,
            read_only: self.config.read_only,
            admission: None,
            meters: Arc::new(Meters::default()),
            reason,
            under_way: UnderWay::default(),
            rushes: Rushes::default(),
            outbox: self.outbox.clone(),
        })
    }

    /// Where this process keeps its data.
    pub(super) fn place(&self) -> Place {
        Place { server: self.server.clone(), store: Arc::clone(&self.store) }
    }

    /// Gives everything back; the last process on a data dir stops its server.
    pub(super) async fn close(self) {
        for (stop, keeping) in self.keeping {
            stop.cancel();
            // Its end has a bound of its own.
            let _ = keeping.await;
        }
        self.outbox.write(&self.store).await;
        for act in self.outbox.lost().into_iter().chain(self.outbox.waiting()) {
            tracing::error!(?act, "the audit log does not contain this line");
            // In English the line says it as the log would have.
            let result = match language() {
                Lang::En => act.result.to_string(),
                Lang::Zh => told_result(&act.result),
            };
            let failed = matches!(act.result.data(), Some(CommandOutcome::Failed(_)));
            let act = act_word(&act.act);
            let told = if failed {
                text!("cli-the-audit-log-could-not-be", act, result)
            } else {
                text!("cli-was-done-but-the-audit-log", act, result)
            };
            let _ = writeln!(std::io::stderr(), "seckill: {}", plain(&told));
        }
        self.store.close().await;
        if let Some(server) = self.server
            && let Err(error) = server.detach().await
        {
            tracing::warn!(%error, "the server was not stopped");
            // What was done is done, whatever the server does; but a person has to know.
            let _ = writeln!(std::io::stderr(), "seckill: {}", Fault::from(error).told());
        }
    }
}

/// Where a process keeps its data: files that may be removed or replaced while they are in use.
pub(super) struct Place {
    server: Option<Arc<ManagedServer>>,
    store: SharedStore,
}

impl Place {
    /// Checks that what was written is still there to be read. A database that is away for now has lost nothing.
    pub(super) async fn check(&self) -> Result<(), Fault> {
        if let Some(server) = &self.server {
            server.check()?;
        }
        match self.store.ping().await {
            Err(gone @ StoreError::File(_)) => Err(gone.into()),
            _ => Ok(()),
        }
    }

    /// Waits until it is lost, and returns why.
    pub(super) async fn lost(&self) -> Fault {
        loop {
            if let Err(fault) = self.check().await {
                return fault;
            }
            tokio::time::sleep(PLACE_EVERY).await;
        }
    }
}

/// FNV-1a with 64 bits (draft-eastlake-fnv): a name must stay the same over releases, which the
/// standard library's hashers do not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    #[test]
    fn a_name_stays_the_same_over_releases() {
        // Test vectors of the draft.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
