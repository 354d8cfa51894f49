//! Finding Redis and staying connected to it.
//!
//! Each task owns a [`Link`] of its own: a blocking read never stands in another's way, and a broken
//! connection is noticed by the one who used it, who knows whether his command may be repeated.

use std::{
    sync::{Arc, Once},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue,
    IntoConnectionInfo, Pipeline, RedisError, ScriptInvocation, aio::MultiplexedConnection,
};

use super::{BrokerError, server::ManagedServer};
use crate::model::Millis;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Bound on every command that does not block on purpose.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const OLDEST: (u32, u32) = (7, 0);

/// A Redis that was found: given by URL, or the program's own.
#[derive(Clone, Debug)]
pub struct Redis {
    client: Client,
    place: String,
    managed: Option<Arc<ManagedServer>>,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// For example `7.0.15`.
    pub version: String,
    /// Differs after each restart of the server.
    pub run_id: String,
}

impl Redis {
    /// Takes a URL: `redis://`, `rediss://` or `unix://`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`BrokerError::Url`] without the URL's password in it.
    pub fn from_url(url: &str) -> Result<Self, BrokerError> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        if !matches!(
            scheme,
            Some("redis" | "rediss" | "unix" | "redis+unix" | "valkey" | "valkeys")
        ) {
            let got = scheme.map_or(String::new(), |s| {
                format!(", not with '{}'", s.chars().take(20).collect::<String>())
            });
            return Err(BrokerError::Url(format!(
                "a Redis URL starts with redis://, rediss:// or unix://{got}; for example redis://127.0.0.1:6379"
            )));
        }
        install_tls();
        let info = url.into_connection_info().map_err(|error| url_error(&error))?;
        Self::from_info(info, None)
    }

    /// Takes the program's own server.
    ///
    /// # Errors
    /// [`BrokerError::Url`] when the socket's path can't be put into a URL.
    pub fn from_managed(server: Arc<ManagedServer>) -> Result<Self, BrokerError> {
        let addr = ConnectionAddr::Unix(server.socket().to_path_buf());
        let info = addr.into_connection_info().map_err(|error| url_error(&error))?;
        Self::from_info(info, Some(server))
    }

    fn from_info(
        info: ConnectionInfo,
        managed: Option<Arc<ManagedServer>>,
    ) -> Result<Self, BrokerError> {
        let place = info.addr().to_string();
        let client = Client::open(info).map_err(|error| url_error(&error))?;
        Ok(Self { client, place, managed })
    }

    /// Where it is, without user or password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether several primaries share the keys.
    pub fn is_cluster(&self) -> bool {
        false
    }

    /// The program's own server, if this is it.
    pub fn managed(&self) -> Option<&Arc<ManagedServer>> {
        self.managed.as_ref()
    }

    /// A link whose commands are answered within five seconds or fail.
    pub fn link(&self) -> Link {
        Link {
            redis: self.clone(),
            connection: None,
            answer: ANSWER_TIMEOUT,
            info: None,
            generation: 0,
        }
    }

    /// A link for reads that block on purpose for up to `block`.
    pub fn blocking_link(&self, block: Duration) -> Link {
        Link { answer: ANSWER_TIMEOUT + block, ..self.link() }
    }

    /// Listens to a channel on a connection of its own. The stream ends when that breaks; what was
    /// said meanwhile is lost.
    ///
    /// # Errors
    /// The server can't be reached.
    pub async fn subscribe(
        &self,
        channel: &str,
    ) -> Result<impl Stream<Item = String> + Unpin + use<>, BrokerError> {
        if let Some(server) = &self.managed {
            server.ensure().await?;
        }
        let subscribing = async {
            let mut connection = self.client.get_async_pubsub().await?;
            connection.subscribe(channel).await?;
            Ok::<_, RedisError>(connection.into_on_message())
        };
        let messages = match tokio::time::timeout(CONNECT_TIMEOUT, subscribing).await {
            Ok(messages) => messages.map_err(|error| BrokerError::from_redis(&error, &self.place)),
            Err(_) => Err(BrokerError::Away {
                place: self.place.clone(),
                detail: "no answer in time".to_owned(),
            }),
        };
        // A message that is no text is none of ours.
        Ok(messages?.filter_map(|message| std::future::ready(message.get_payload().ok())))
    }

    async fn connect(&self, answer: Duration) -> Result<MultiplexedConnection, BrokerError> {
        if let Some(server) = &self.managed {
            server.ensure().await?;
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(answer));
        self.client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| BrokerError::from_redis(&error, &self.place))
    }
}

/// One task's connection, made when it is first used and again after it broke.
#[derive(Debug)]
pub struct Link {
    redis: Redis,
    connection: Option<MultiplexedConnection>,
    answer: Duration,
    info: Option<ServerInfo>,
    generation: u64,
}

impl Link {
    /// The connection, made now if there is none. Use it for several commands in flight, and call
    /// [`Link::broke`] with what went wrong.
    pub async fn connection(&mut self) -> Result<MultiplexedConnection, BrokerError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let mut connection = self.redis.connect(self.answer).await?;
        let info = self.introduce(&mut connection).await?;
        self.info = Some(info);
        self.generation += 1;
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    /// What the server said of itself when this link was last connected.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.info.as_ref()
    }

    /// Where the server is, without user or password.
    pub fn place(&self) -> &str {
        &self.redis.place
    }

    /// One setting of the server, as it runs now.
    pub async fn setting(&mut self, name: &str) -> Result<String, BrokerError> {
        let (_, value): (String, String) =
            self.query(redis::cmd("CONFIG").arg("GET").arg(name)).await?;
        Ok(value)
    }

    /// Runs one command.
    pub async fn query<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T, BrokerError> {
        let mut connection = self.connection().await?;
        let result = cmd.query_async(&mut connection).await;
        result.map_err(|error| self.broke(&error))
    }

    /// Runs a pipeline.
    pub async fn pipe<T: FromRedisValue>(&mut self, pipe: &Pipeline) -> Result<T, BrokerError> {
        let mut connection = self.connection().await?;
        let result = pipe.query_async(&mut connection).await;
        result.map_err(|error| self.broke(&error))
    }

    /// Runs a script, loading it where the server does not know it.
    pub async fn invoke<T: FromRedisValue>(
        &mut self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, BrokerError> {
        let mut connection = self.connection().await?;
        let result = script.invoke_async(&mut connection).await;
        result.map_err(|error| self.broke(&error))
    }

    /// The clock of Redis, by which sales begin and end, and jobs are due.
    pub async fn now(&mut self) -> Result<Millis, BrokerError> {
        let (seconds, micros): (i64, i64) = self.query(&redis::cmd("TIME")).await?;
        Ok(Millis(seconds * 1_000 + micros / 1_000))
    }

    /// Rises with each connection that is made: whose call failed on an older one must not drop it.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Drops the connection: somebody found it mute before its own bound did.
    pub fn forget(&mut self) {
        self.connection = None;
    }

    /// Sorts an error, and forgets the connection when it is of no more use.
    pub fn broke(&mut self, error: &RedisError) -> BrokerError {
        // A server that was demoted says so on a connection that would last for ever.
        let demoted = error.code() == Some("READONLY");
        if error.is_unrecoverable_error() || error.is_io_error() || error.is_timeout() || demoted {
            self.connection = None;
        }
        BrokerError::from_redis(error, &self.redis.place)
    }

    async fn introduce(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<ServerInfo, BrokerError> {
        let place = &self.redis.place;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(connection)
            .await
            .map_err(|error| BrokerError::from_redis(&error, place))?;
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let version = field("redis_version").unwrap_or("of unknown version").to_owned();
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let major_minor = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if major_minor < OLDEST {
            return Err(BrokerError::TooOld { place: place.clone(), version });
        }
        Ok(ServerInfo { version, run_id: field("run_id").unwrap_or_default().to_owned() })
    }
}

fn url_error(error: &RedisError) -> BrokerError {
    // redis-rs may quote the URL in its detail, and with it the password.
    BrokerError::Url(format!(
        "the Redis URL can't be read ({}); it looks like redis://USER:PASSWORD@HOST:PORT/DB or unix:///path/redis.sock",
        error.category()
    ))
}

/// rediss:// needs a process-wide choice of cryptography; a second call changes nothing.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_or_refused_without_their_password() {
        for good in ["redis://u:p@h:1/2", "rediss://h", "unix:///tmp/x.sock", "redis+unix:///x"] {
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
    fn a_place_shows_no_login() {
        let place = Redis::from_url("redis://user:secret@example.test:7000/1")
            .map(|r| r.place().to_owned());
        assert_eq!(place.ok().as_deref(), Some("example.test:7000"));
    }
}
