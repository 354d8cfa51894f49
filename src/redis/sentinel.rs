//! The current primary, as reported by its sentinels. redis-rs asks the sentinels, and the server itself for its role.

use std::time::Duration;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisConnectionInfo, TlsMode,
    sentinel::{Sentinel, SentinelNodeConnectionInfo},
};

use seckill_model::reason::reason;

use super::{RedisError, Result};

/// Timeout of the whole search; redis-rs allows each server one second of it.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);

/// Sentinels, and the service whose primary they monitor.
#[derive(Debug)]
pub(super) struct Sentinels {
    addresses: Vec<ConnectionInfo>,
    service: String,
    master: SentinelNodeConnectionInfo,
    address: String,
}

impl Sentinels {
    /// `login` is that of the servers; the sentinels' credentials are in their addresses.
    pub(super) fn new(
        addresses: Vec<ConnectionInfo>,
        service: String,
        login: RedisConnectionInfo,
        address: String,
    ) -> Self {
        let master = SentinelNodeConnectionInfo::default().set_redis_connection_info(login);
        // TLS applies to all connections or to none.
        let master = match addresses.first().map(ConnectionInfo::addr) {
            Some(ConnectionAddr::TcpTls { insecure: true, .. }) => {
                master.set_tls_mode(TlsMode::Insecure)
            }
            Some(ConnectionAddr::TcpTls { .. }) => master.set_tls_mode(TlsMode::Secure),
            _ => master,
        };
        Self { addresses, service, master, address }
    }

    /// The primary, whose role was just confirmed.
    pub(super) async fn master(&self) -> Result<Client> {
        let away = |detail| RedisError::Away { address: self.address.clone(), detail };
        let mut sentinel = Sentinel::build(self.addresses.clone())
            .map_err(|error| RedisError::from_redis(&error, &self.address))?;
        let asking = sentinel.async_master_for(&self.service, Some(&self.master));
        match tokio::time::timeout(SEARCH_TIMEOUT, asking).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) if error.kind() == ErrorKind::MasterNameNotFoundBySentinel => {
                Err(away(reason!("redis-no-master", service = &self.service)))
            }
            Ok(Err(error)) => Err(match RedisError::from_redis(&error, &self.address) {
                RedisError::Login { address, detail } => {
                    let detail = reason!("redis-sentinel-login", reason = detail);
                    RedisError::Login { address, detail }
                }
                other => other,
            }),
            Err(_) => Err(away(reason!("redis-sentinels-timed-out"))),
        }
    }
}
