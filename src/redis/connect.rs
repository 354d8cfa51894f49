//! Connecting to Redis: a single server, the primary that sentinels report, or a cluster.
//!
//! A connection records which server process it talks to: a reply is valid only while that process lives. Commands go
//! through a `Connection`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, InfoDict, IntoConnectionInfo,
    RedisError as DriverError, aio::MultiplexedConnection, cmd, pipe,
};
use seckill_model::{message::Label, reason::reason};

use super::{
    RedisError, Result,
    cluster_slots::{Cluster, Hint, Node},
    data_dir::DataDir,
    routing::{self, HOME},
    sentinel::Sentinels,
    server::ManagedServer,
    tls::{self, TlsFiles},
    url::{self, Target},
};

const CONNECT_TIMEOUT_MS: u64 = 3_000;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(CONNECT_TIMEOUT_MS);
const OLDEST: (u32, u32) = (7, 0);
/// Name of every connection of the program in CLIENT LIST, by which its own reads differ from those of other services.
pub const CLIENT_NAME: &str = "seckill-engine";

/// A Redis deployment, given by URL or managed by the program.
#[derive(Clone, Debug)]
pub struct Redis {
    source: Source,
    address: String,
    /// The data directory of this process.
    dir: Option<DataDir>,
    /// Whether a server has answered since the process began.
    was_connected: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
enum Source {
    Server(Client),
    Managed(Client, Arc<ManagedServer>),
    Sentinels(Arc<Sentinels>),
    Cluster(Arc<Cluster>),
}

/// Server identity, from INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name and version, for example `redis 7.0.15` or `valkey 8.1.1`.
    pub product: String,
    /// Changes with each restart of the server.
    pub run_id: String,
}

/// A new connection.
pub(super) struct Connected {
    pub(super) connection: MultiplexedConnection,
    pub(super) info: ServerInfo,
    /// Address without user and password.
    pub(super) address: String,
}

impl Redis {
    /// Parses a URL: `redis://`, `rediss://`, `unix://`, `redis+sentinel://` or `redis+cluster://`. Does not connect.
    ///
    /// # Errors
    /// [`RedisError::Url`], without the URL's password.
    pub fn from_url(url: &str) -> Result<Self> {
        Self::with_tls(url, &TlsFiles::default())
    }

    /// Like [`Redis::from_url`], with these files for all connections: also those to sentinels and to each server of a
    /// cluster.
    ///
    /// # Errors
    /// [`RedisError::Url`], also when a file cannot be used, or the URL is not encrypted.
    pub fn with_tls(url: &str, files: &TlsFiles) -> Result<Self> {
        // The process-wide crypto provider that rediss:// needs; it is installed once.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = files.read()?;
        let secured = |info: ConnectionInfo| match &tls {
            Some(tls) => tls::secured(info, tls),
            None => Ok(info),
        };
        let was_connected = Arc::default();
        match url::read(url)? {
            Target::Server(info) => Self::one(secured(info)?, Source::Server),
            Target::Sentinels { sentinels, service, login, address } => {
                let sentinels =
                    sentinels.into_iter().map(secured).collect::<Result<Vec<_>, _>>()?;
                let found = Sentinels::new(sentinels, service, login, address.clone(), tls);
                Ok(Self {
                    source: Source::Sentinels(Arc::new(found)),
                    address,
                    dir: None,
                    was_connected,
                })
            }
            Target::Cluster { seeds, address } => {
                let seeds = seeds.into_iter().map(secured).collect::<Result<Vec<_>, _>>()?;
                let found = Cluster::new(seeds, address.clone())
                    .ok_or_else(|| url::wrong_cluster(reason!("redis-hosts-none")))?;
                Ok(Self {
                    source: Source::Cluster(Arc::new(found)),
                    address,
                    dir: None,
                    was_connected,
                })
            }
        }
    }

    /// Returns the deployment that consists of the managed server.
    pub fn from_managed(server: Arc<ManagedServer>) -> Result<Self> {
        let addr = ConnectionAddr::Unix(server.socket().to_path_buf());
        let info = addr.into_connection_info().map_err(|_| url::unreadable())?;
        let dir = server.dir().clone();
        Ok(Self::one(info, |client| Source::Managed(client, server))?.used_from(&dir))
    }

    /// Sets the data directory, which shows whether other processes that use the same one have ended.
    #[must_use]
    pub fn used_from(self, dir: &DataDir) -> Self {
        Self { dir: Some(dir.clone()), ..self }
    }

    /// Whether the process with this ID has certainly ended.
    pub(super) fn has_ended(&self, instance: &str) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.has_ended(instance))
    }

    fn one(info: ConnectionInfo, source: impl FnOnce(Client) -> Source) -> Result<Self> {
        let address = info.addr().to_string();
        let client = Client::open(info).map_err(|_| url::unreadable())?;
        let was_connected = Arc::default();
        Ok(Self { source: source(client), address, dir: None, was_connected })
    }

    /// Address without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The managed server, if the deployment consists of it.
    pub fn managed(&self) -> Option<&Arc<ManagedServer>> {
        match &self.source {
            Source::Managed(_, server) => Some(server),
            _ => None,
        }
    }

    /// Whether a replica may be promoted: by sentinels or a cluster.
    pub fn has_failover(&self) -> bool {
        self.is_cluster() || matches!(self.source, Source::Sentinels(_))
    }

    /// Whether keys are spread over several servers.
    pub fn is_cluster(&self) -> bool {
        self.cluster().is_some()
    }

    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.source {
            Source::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// Node of a cluster that served a key when the slots were last read; `None` without a cluster, or if none did.
    pub(super) async fn last_node(&self, key: &str) -> Result<Option<Node>> {
        let Some(cluster) = self.cluster() else { return Ok(None) };
        Ok(cluster.last_slots().await?.owner(routing::slot_of(key)).cloned())
    }

    /// Subscribes to a channel on a separate connection. The stream ends when the connection breaks; messages sent
    /// after that are lost.
    pub async fn subscribe(
        &self,
        channel: &str,
    ) -> Result<impl Stream<Item = String> + Unpin + use<>> {
        let node = match self.cluster() {
            // A cluster forwards published messages to all of its servers.
            Some(cluster) => {
                let slots = cluster.look(Hint::None).await?;
                let home = routing::slot_of(HOME);
                Some(slots.owner(home).cloned().ok_or_else(|| self.unserved(home))?)
            }
            None => None,
        };
        let (client, address) = self.client(node.as_ref()).await?;
        let subscribing = async {
            let mut connection = client.get_async_pubsub().await?;
            connection.subscribe(channel).await?;
            Ok::<_, DriverError>(connection.into_on_message())
        };
        let messages = match tokio::time::timeout(CONNECT_TIMEOUT, subscribing).await {
            Ok(messages) => messages.map_err(|error| RedisError::from_redis(&error, &address)),
            Err(_) => Err(RedisError::Silent { address, millis: CONNECT_TIMEOUT_MS }),
        };
        // The program's own messages are valid UTF-8; others are ignored.
        Ok(messages?.filter_map(|message| std::future::ready(message.get_payload().ok())))
    }

    /// Error for a slot that no server serves: the cluster needs repair.
    pub(super) fn unserved(&self, slot: u16) -> RedisError {
        let (cluster, slot) = (self.address(), slot.to_string());
        RedisError::ClusterDown(reason!("redis-unserved", cluster, slot))
    }

    /// Returns a client for the server, or for `node` of a cluster, with its address.
    async fn client(&self, node: Option<&Node>) -> Result<(Client, String)> {
        match (&self.source, node) {
            (Source::Cluster(cluster), Some(node)) => Ok((cluster.client(node)?, node.to_string())),
            (Source::Cluster(_), None) => Err(self.unserved(routing::slot_of(HOME))),
            (Source::Server(client), _) => Ok((client.clone(), self.address.clone())),
            (Source::Managed(client, server), _) => {
                server.ensure().await?;
                Ok((client.clone(), self.address.clone()))
            }
            (Source::Sentinels(sentinels), _) => {
                let client = sentinels.master().await?;
                let address = client.get_connection_info().addr().to_string();
                Ok((client, address))
            }
        }
    }

    pub(super) async fn connect(&self, node: Option<&Node>, answer: Duration) -> Result<Connected> {
        let node = self.cluster().zip(node);
        if let Some((cluster, node)) = node {
            cluster.check_silent(node)?;
        }
        let (client, address) = self.client(node.map(|(_, node)| node)).await?;
        // After the first connection, the URL is known to fit the server.
        let is_first = !self.was_connected.load(Ordering::Relaxed);
        let connecting = self.log_in(&client, address.clone(), answer);
        match (tokio::time::timeout(CONNECT_TIMEOUT, connecting).await, node) {
            (Ok(connected), _) => connected,
            (Err(_), Some((cluster, node))) => Err(cluster.note_silent(node, CONNECT_TIMEOUT_MS)),
            (Err(_), None) if is_first && is_tls(&client) => {
                let seconds = CONNECT_TIMEOUT_MS / 1_000;
                Err(RedisError::Away { address, detail: reason!("redis-no-handshake", seconds) })
            }
            (Err(_), None) => Err(RedisError::Silent { address, millis: CONNECT_TIMEOUT_MS }),
        }
    }

    async fn log_in(
        &self,
        client: &Client,
        address: String,
        answer: Duration,
    ) -> Result<Connected> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(Some(answer));
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| {
                let has_tls = is_tls(client);
                match client.get_connection_info().addr() {
                    ConnectionAddr::Unix(_) => RedisError::from_redis(&error, &address),
                    _ if self.was_connected.load(Ordering::Relaxed) => {
                        RedisError::from_redis(&error, &address)
                    }
                    _ => RedisError::at_connect(&error, &address, has_tls),
                }
            })?;
        // A user who may not set a name works without one; a migration then takes its reads for those of a service.
        let name = cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME).take();
        if let Err(error) = name.query_async::<()>(&mut connection).await {
            tracing::debug!(%error, "the connection has no name");
        }
        let info = self.identify(&mut connection, &address).await?;
        self.was_connected.store(true, Ordering::Relaxed);
        Ok(Connected { connection, info, address })
    }

    async fn identify(
        &self,
        connection: &mut MultiplexedConnection,
        address: &str,
    ) -> Result<ServerInfo> {
        let mut ask = pipe();
        ask.cmd("INFO").arg("server").cmd("INFO").arg("replication");
        let (info, role): (InfoDict, InfoDict) =
            ask.query_async(connection).await.map_err(|error| {
                match RedisError::from_redis(&error, address) {
                    RedisError::Rejected(reason) => {
                        RedisError::Rejected(reason!("redis-no-info", reason))
                    }
                    error => error,
                }
            })?;
        let version: String =
            info.get("redis_version").unwrap_or_else(|| Label("common-unknown").to_owned());
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let major_minor = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if major_minor < OLDEST {
            return Err(RedisError::TooOld { address: address.to_owned(), version });
        }
        // Checked on the connection that will be used: the server may have been demoted since the sentinels were asked.
        let is_master = || role.get::<String>("role").is_some_and(|role| role == "master");
        if matches!(self.source, Source::Sentinels(_)) && !is_master() {
            let (address, detail) = (address.to_owned(), reason!("redis-not-master"));
            return Err(RedisError::Away { address, detail });
        }
        // Valkey reports the version of Redis that it is compatible with, beside its own.
        let own = info.get::<String>("server_name").filter(|name| name != "redis");
        let own = own.and_then(|name| {
            let version: String = info.get(&format!("{name}_version"))?;
            Some(format!("{name} {version}"))
        });
        let product = own.unwrap_or_else(|| format!("redis {version}"));
        Ok(ServerInfo { product, run_id: info.get("run_id").unwrap_or_default() })
    }
}

fn is_tls(client: &Client) -> bool {
    matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_errors_never_contain_the_password() {
        for good in [
            "redis://u:p@h:1/2",
            "rediss://h",
            "unix:///tmp/x.sock",
            "redis+unix:///x",
            "redis+sentinel://u:p@h,i:7/m/2",
            "rediss+sentinel://h/m",
            "redis+cluster://u:p@h:1,i:2",
            "rediss+cluster://h",
        ] {
            assert!(Redis::from_url(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "localhost:6379",
            "http://secret@h",
            "redis://u:secret@h:port/",
            "redis://:secret@/x/y",
        ] {
            if let Err(error) = Redis::from_url(bad) {
                assert!(!error.to_string().contains("secret"), "{error}");
            }
        }
        assert!(Redis::from_url("http://h").is_err());
    }

    #[test]
    fn displayed_addresses_have_no_credentials() {
        for (url, address) in [
            ("redis://user:secret@example.test:7000/1", "example.test:7000"),
            ("redis+sentinel://user:secret@a,b:7/m?sentinel_pass=secret", "a:26379,b:7/m"),
            ("redis+cluster://user:secret@a:1,b", "a:1,b:6379"),
        ] {
            let redis = Redis::from_url(url).unwrap();
            assert_eq!(redis.address(), address);
            assert!(!format!("{redis:?}").contains("secret"), "{redis:?}");
        }
    }
}
