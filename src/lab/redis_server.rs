//! The Redis servers of the lab: the shop's own, independent ones for locks, and a replica that takes over.
//!
//! Instances reach the shop's Redis by an address that moves, a symbolic link to the socket of the server in charge, as
//! clients of a deployment reach it by the address that a Sentinel gives them.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use redis::{Cmd, FromRedisValue, InfoDict, cmd};
use seckill_model::{Label, OsError, Reason};
use seckill_redis::{Connection, DataDir, HOME, ManagedServer, Redis, RedisError};
use tokio::time::{Instant, sleep};

use crate::{LabError, Result};

/// Timeout for a replica to receive the data.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// A key that the replica receives before its link is cut.
const MARK: &str = "lab-replicated";

/// A server in a temporary directory of its own, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct RedisServer {
    server: Arc<ManagedServer>,
    connection: Connection,
    dir: DataDir,
}

impl RedisServer {
    pub(crate) async fn start() -> Result<Self> {
        let dir = DataDir::throw_away()?;
        let server = Arc::new(ManagedServer::attach(&dir)?);
        server.ensure().await?;
        let connection = Redis::from_managed(Arc::clone(&server))?.connection();
        Ok(Self { server, connection, dir })
    }

    /// Its directory, which holds other files of the lab too.
    pub(crate) fn dir(&self) -> &DataDir {
        &self.dir
    }

    pub(crate) fn socket(&self) -> &Path {
        self.server.socket()
    }

    pub(crate) fn url(&self) -> String {
        url(self.socket())
    }

    /// A client of its own.
    pub(crate) fn client(&self) -> Result<Redis> {
        Ok(Redis::from_managed(Arc::clone(&self.server))?)
    }

    pub(crate) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        Ok(self.connection.query(command).await?)
    }

    /// Stops the server and starts it again, with what it has stored.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        // The connection ends instead of a reply.
        let _ = self.connection.query::<redis::Value>(&cmd("SHUTDOWN")).await;
        self.connection.forget();
        Ok(self.server.ensure().await?)
    }

    /// Removes all keys. Starts the server if a failover ended it.
    pub(crate) async fn clear(&mut self) -> Result<()> {
        self.server.ensure().await?;
        // The first command after a restart finds the broken connection.
        self.connection.forget();
        Ok(self.connection.query(&cmd("FLUSHALL")).await?)
    }

    pub(crate) async fn stop(&self) -> Result<()> {
        Ok(self.server.detach().await?)
    }

    /// Makes `replica` a replica, waits until it has all data, and cuts the link: it receives nothing that follows.
    pub(crate) async fn replicate_until_now(&mut self, replica: &mut Self) -> Result<()> {
        replica.clear().await?;
        for server in [&mut *self, &mut *replica] {
            // Nothing has to survive, and the end of a server does not wait for a disk.
            server.connection.set(HOME, "appendonly", "no").await?;
        }
        let () = self.connection.query(cmd("SET").arg(MARK).arg(1)).await?;
        self.connection.set(HOME, "repl-diskless-sync-delay", "0").await?;
        let port = self.listen().await?;
        let (host, port) = (Ipv4Addr::LOCALHOST.to_string(), port.to_string());
        let () = replica.connection.query(cmd("REPLICAOF").arg(host).arg(port)).await?;
        let begun = Instant::now();
        while !replica.has_mark().await? {
            if begun.elapsed() > SYNC_TIMEOUT {
                return Err(failed(Label("lab-replica-late")));
            }
            sleep(POLL_INTERVAL).await;
        }
        self.connection.set(HOME, "port", "0").await?;
        let _: i64 = self.connection.query(cmd("CLIENT").arg(&["KILL", "TYPE", "replica"])).await?;
        Ok(())
    }

    /// Opens a TCP port for replicas, on the loopback interface only.
    async fn listen(&mut self) -> Result<u16> {
        let io = |error: io::Error| failed(OsError::of(&error));
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
        let port = free.local_addr().map_err(io)?.port();
        drop(free);
        self.connection.set(HOME, "bind", &Ipv4Addr::LOCALHOST.to_string()).await?;
        self.connection.set(HOME, "port", &port.to_string()).await?;
        Ok(port)
    }

    /// Whether the mark has arrived and the first transfer is over.
    async fn has_mark(&mut self) -> Result<bool> {
        let info: InfoDict = self.connection.query(cmd("INFO").arg("replication")).await?;
        if info.get::<String>("master_link_status").as_deref() != Some("up") {
            return Ok(false);
        }
        Ok(self.connection.query(cmd("EXISTS").arg(MARK)).await?)
    }

    /// Promotes the replica, which then serves at `address`, and ends this server.
    pub(crate) async fn fail_over(&mut self, replica: &mut Self, address: &Address) -> Result<()> {
        let () = replica.connection.query(cmd("REPLICAOF").arg("NO").arg("ONE")).await?;
        if !replica.connection.query::<bool>(cmd("EXISTS").arg(MARK)).await? {
            return Err(failed(Label("lab-replica-late")));
        }
        address.move_to(replica)?;
        // The connection ends instead of a reply.
        let ended: Result<(), RedisError> =
            self.connection.query(cmd("SHUTDOWN").arg("NOSAVE").arg("NOW")).await;
        match ended {
            Err(error) if !error.is_away() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The address of the shop's Redis, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Address(PathBuf);

impl Address {
    /// An address of this server, beside its socket and with a path of the same length.
    pub(crate) fn of(server: &RedisServer) -> Result<Self> {
        let address = Self(server.socket().with_extension("link"));
        address.move_to(server)?;
        Ok(address)
    }

    pub(crate) fn url(&self) -> String {
        url(&self.0)
    }

    /// New connections reach this server.
    pub(crate) fn move_to(&self, server: &RedisServer) -> Result<()> {
        let next = self.0.with_extension("next");
        let _ = std::fs::remove_file(&next);
        let moved = std::os::unix::fs::symlink(server.socket(), &next)
            .and_then(|()| std::fs::rename(&next, &self.0));
        moved.map_err(|error| failed(OsError::of(&error)))
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn url(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}

fn failed(why: impl Into<Reason>) -> LabError {
    LabError::Replica(why.into())
}
