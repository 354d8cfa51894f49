//! Which server is the master now, asked of the sentinels that watch it.
//!
//! redis-rs asks them, and the server itself for its role. It must not know what is asked of that
//! server then.

use std::time::Duration;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisConnectionInfo, TlsMode,
    sentinel::{Sentinel, SentinelNodeConnectionInfo},
};

use super::{BrokerError, Reason};

/// Bound on the whole search; redis-rs gives each server a second of it.
const SEARCH: Duration = Duration::from_secs(3);

/// Sentinels, and the service whose master they name.
#[derive(Debug)]
pub(super) struct Sentinels {
    addresses: Vec<ConnectionInfo>,
    service: String,
    master: SentinelNodeConnectionInfo,
    place: String,
}

impl Sentinels {
    /// `login` is the one for the servers; that of the sentinels is in their own addresses.
    pub(super) fn new(
        addresses: Vec<ConnectionInfo>,
        service: String,
        login: RedisConnectionInfo,
        place: String,
    ) -> Self {
        let master = SentinelNodeConnectionInfo::default().set_redis_connection_info(login);
        // What speaks TLS does so everywhere.
        let master = match addresses.first().map(ConnectionInfo::addr) {
            Some(ConnectionAddr::TcpTls { insecure: true, .. }) => {
                master.set_tls_mode(TlsMode::Insecure)
            }
            Some(ConnectionAddr::TcpTls { .. }) => master.set_tls_mode(TlsMode::Secure),
            _ => master,
        };
        Self { addresses, service, master, place }
    }

    /// The master, which has just said that it is one.
    pub(super) async fn master(&self) -> Result<Client, BrokerError> {
        let away = |detail| BrokerError::Away { place: self.place.clone(), detail };
        let mut sentinel = Sentinel::build(self.addresses.clone())
            .map_err(|error| BrokerError::from_redis(&error, &self.place))?;
        let asking = sentinel.async_master_for(&self.service, Some(&self.master));
        match tokio::time::timeout(SEARCH, asking).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) if error.kind() == ErrorKind::MasterNameNotFoundBySentinel => {
                Err(away(Reason::NoMaster(self.service.clone())))
            }
            Ok(Err(error)) => Err(match BrokerError::from_redis(&error, &self.place) {
                BrokerError::Login { place, detail } => {
                    BrokerError::Login { place, detail: Reason::SentinelLogin(Box::new(detail)) }
                }
                other => other,
            }),
            Err(_) => Err(away(Reason::SentinelsTimedOut)),
        }
    }
}
