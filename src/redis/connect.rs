//! Finding Redis: one server, the master that sentinels name, or a cluster.
//!
//! Who connects learns which server process answers: an answer may only be relied on as long as
//! that very process lives. What is asked of it goes through a [`Link`].

use std::{
    path::Path,
    sync::{Arc, Once},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
    TlsCertificates, aio::MultiplexedConnection, pipe,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::{
    BrokerError, HostsFault, Link, Reason, UrlFault,
    cluster_slots::{Cluster, Hint, Node},
    error::plain,
    routing::{self, HOME},
    sentinel::Sentinels,
    server::ManagedServer,
    url::{self, Target},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Bound on every command that does not block on purpose.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const OLDEST: (u32, u32) = (7, 0);

/// A Redis that was found: given by URL, or the program's own.
#[derive(Clone, Debug)]
pub struct Redis {
    source: Source,
    place: String,
}

#[derive(Clone, Debug)]
enum Source {
    Server(Client),
    Managed(Client, Arc<ManagedServer>),
    Sentinels(Arc<Sentinels>),
    Cluster(Arc<Cluster>),
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// For example `7.0.15`.
    pub version: String,
    /// Differs after each restart of the server.
    pub run_id: String,
}

/// A connection that was made just now.
pub(super) struct Made {
    pub(super) connection: MultiplexedConnection,
    pub(super) info: ServerInfo,
    /// Where the server is, without user or password.
    pub(super) place: String,
}

impl Redis {
    /// Takes a URL: `redis://`, `rediss://`, `unix://`, `redis+sentinel://` or `redis+cluster://`.
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// [`BrokerError::Url`] without the URL's password in it.
    pub fn from_url(url: &str) -> Result<Self, BrokerError> {
        Self::trusting(url, None)
    }

    /// As [`Redis::from_url`]; of an encrypted server only the certificates in the file `ca` (PEM) are trusted, instead
    /// of the system's.
    ///
    /// # Errors
    /// [`BrokerError::Url`] also where the file can't be read, or has no certificate, or nothing is encrypted.
    pub fn trusting(url: &str, ca: Option<&Path>) -> Result<Self, BrokerError> {
        install_tls();
        let authority = ca.map(Authority::read).transpose()?;
        let trust = |info: ConnectionInfo| match &authority {
            Some(authority) => authority.trusted_by(info),
            None => Ok(info),
        };
        match url::read(url)? {
            Target::Server(info) => Self::one(trust(info)?, Source::Server),
            // redis-rs takes certificates for the sentinels, and none for the master that they name.
            Target::Sentinels { .. } if authority.is_some() => Err(UrlFault::CaOfSentinels.into()),
            Target::Sentinels { sentinels, service, login, place } => {
                let found = Sentinels::new(sentinels, service, login, place.clone());
                Ok(Self { source: Source::Sentinels(Arc::new(found)), place })
            }
            Target::Cluster { seeds, place } => {
                let seeds = seeds.into_iter().map(trust).collect::<Result<Vec<_>, _>>()?;
                let found = Cluster::new(seeds, place.clone())
                    .ok_or(UrlFault::Cluster(HostsFault::None))?;
                Ok(Self { source: Source::Cluster(Arc::new(found)), place })
            }
        }
    }

    /// Takes the program's own server.
    ///
    /// # Errors
    /// [`BrokerError::Url`] when the socket's path can't be put into a URL.
    pub fn from_managed(server: Arc<ManagedServer>) -> Result<Self, BrokerError> {
        let addr = ConnectionAddr::Unix(server.socket().to_path_buf());
        let info = addr.into_connection_info().map_err(|_| UrlFault::Unreadable)?;
        Self::one(info, |client| Source::Managed(client, server))
    }

    fn one(
        info: ConnectionInfo,
        source: impl FnOnce(Client) -> Source,
    ) -> Result<Self, BrokerError> {
        let place = info.addr().to_string();
        let client = Client::open(info).map_err(|_| UrlFault::Unreadable)?;
        Ok(Self { source: source(client), place })
    }

    /// Where it is, without user or password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The program's own server, if this is it.
    pub fn managed(&self) -> Option<&Arc<ManagedServer>> {
        match &self.source {
            Source::Managed(_, server) => Some(server),
            _ => None,
        }
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

    /// A link whose commands are answered within five seconds or fail.
    pub fn link(&self) -> Link {
        Link::new(self.clone(), ANSWER_TIMEOUT)
    }

    /// A link for reads that block on purpose for up to `block`.
    pub fn blocking_link(&self, block: Duration) -> Link {
        Link::new(self.clone(), ANSWER_TIMEOUT + block)
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
        let node = match self.cluster() {
            // Every server of a cluster hears what is said to any of them.
            Some(cluster) => {
                let slots = cluster.look(Hint::None).await?;
                let home = routing::slot_of(HOME);
                Some(slots.owner(home).cloned().ok_or_else(|| self.unserved(home))?)
            }
            None => None,
        };
        let (client, place) = self.client(node.as_ref()).await?;
        let subscribing = async {
            let mut connection = client.get_async_pubsub().await?;
            connection.subscribe(channel).await?;
            Ok::<_, RedisError>(connection.into_on_message())
        };
        let messages = match tokio::time::timeout(CONNECT_TIMEOUT, subscribing).await {
            Ok(messages) => messages.map_err(|error| BrokerError::from_redis(&error, &place)),
            Err(_) => Err(BrokerError::Away { place, detail: Reason::TimedOut }),
        };
        // A message that is no text is none of ours.
        Ok(messages?.filter_map(|message| std::future::ready(message.get_payload().ok())))
    }

    /// Nobody serves a slot: somebody has to mend the cluster.
    pub(super) fn unserved(&self, slot: u16) -> BrokerError {
        BrokerError::Unwilling(Reason::Unserved { cluster: self.place.clone(), slot })
    }

    /// For connecting to the server, or to that one of the cluster; and where it is.
    async fn client(&self, node: Option<&Node>) -> Result<(Client, String), BrokerError> {
        match (&self.source, node) {
            (Source::Cluster(cluster), Some(node)) => Ok((cluster.client(node)?, node.to_string())),
            (Source::Cluster(_), None) => Err(self.unserved(routing::slot_of(HOME))),
            (Source::Server(client), _) => Ok((client.clone(), self.place.clone())),
            (Source::Managed(client, server), _) => {
                server.ensure().await?;
                Ok((client.clone(), self.place.clone()))
            }
            (Source::Sentinels(sentinels), _) => {
                let client = sentinels.master().await?;
                let place = client.get_connection_info().addr().to_string();
                Ok((client, place))
            }
        }
    }

    pub(super) async fn connect(
        &self,
        node: Option<&Node>,
        answer: Duration,
    ) -> Result<Made, BrokerError> {
        let (client, place) = self.client(node).await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(answer));
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| BrokerError::from_redis(&error, &place))?;
        let info = self.introduce(&mut connection, &place).await?;
        Ok(Made { connection, info, place })
    }

    async fn introduce(
        &self,
        connection: &mut MultiplexedConnection,
        place: &str,
    ) -> Result<ServerInfo, BrokerError> {
        let mut ask = pipe();
        ask.cmd("INFO").arg("server").cmd("INFO").arg("replication");
        let (info, role): (String, String) = ask
            .query_async(connection)
            .await
            .map_err(|error| BrokerError::from_redis(&error, place))?;
        let version = field(&info, "redis_version").unwrap_or("of unknown version").to_owned();
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let major_minor = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if major_minor < OLDEST {
            return Err(BrokerError::TooOld { place: place.to_owned(), version });
        }
        // Asked on the very connection that will be used: it may have been demoted since the
        // sentinels were asked.
        if matches!(self.source, Source::Sentinels(_)) && field(&role, "role") != Some("master") {
            return Err(BrokerError::Away { place: place.to_owned(), detail: Reason::NotMaster });
        }
        Ok(ServerInfo { version, run_id: field(&info, "run_id").unwrap_or_default().to_owned() })
    }
}

/// Who signed the certificate of a server.
struct Authority(TlsCertificates);

impl Authority {
    fn read(path: &Path) -> Result<Self, UrlFault> {
        let shown = path.display().to_string();
        let root = match std::fs::read(path) {
            Ok(root) => root,
            Err(why) => return Err(UrlFault::Ca(shown, why.into())),
        };
        let mut certificates = CertificateDer::pem_slice_iter(&root);
        match certificates.next() {
            Some(Ok(_)) => {}
            _ => return Err(UrlFault::CaEmpty(shown)),
        }
        Ok(Self(TlsCertificates { client_tls: None, root_cert: Some(root) }))
    }

    /// The same server, whose certificate has to be signed by this authority.
    fn trusted_by(&self, info: ConnectionInfo) -> Result<ConnectionInfo, UrlFault> {
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(UrlFault::CaUnused);
        }
        let client = Client::build_with_tls(info, self.0.clone());
        let client = client.map_err(|error| UrlFault::Unusable(plain(&error)))?;
        Ok(client.get_connection_info().clone())
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
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
    fn a_file_without_a_certificate_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        let refused = |url: &str| Redis::trusting(url, Some(&file)).map(|_| ()).unwrap_err();
        let told = refused("rediss://h").to_string();
        assert!(told.contains("ca.pem") && told.contains("--redis-ca"), "{told}");
        std::fs::write(&file, "no certificate").unwrap();
        let told = refused("rediss://h").to_string();
        assert!(told.contains("contains no PEM certificate"), "{told}");
    }

    #[test]
    fn a_place_shows_no_login() {
        for (url, place) in [
            ("redis://user:secret@example.test:7000/1", "example.test:7000"),
            ("redis+sentinel://user:secret@a,b:7/m?sentinel_pass=secret", "a:26379,b:7/m"),
            ("redis+cluster://user:secret@a:1,b", "a:1,b:6379"),
        ] {
            let redis = Redis::from_url(url).unwrap();
            assert_eq!(redis.place(), place);
            assert!(!format!("{redis:?}").contains("secret"), "{redis:?}");
        }
    }
}
