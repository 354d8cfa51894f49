//! The current primary, as reported by its sentinels. redis-rs asks the sentinels, and the server itself for its role.

use std::time::Duration;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisConnectionInfo, RedisResult,
    TlsCertificates, TlsMode,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
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
    login: RedisConnectionInfo,
    address: String,
    tls: Option<TlsCertificates>,
}

impl Sentinels {
    /// `login` is that of the servers; the sentinels' credentials and certificates are in their addresses.
    pub(super) fn new(
        addresses: Vec<ConnectionInfo>,
        service: String,
        login: RedisConnectionInfo,
        address: String,
        tls: Option<TlsCertificates>,
    ) -> Self {
        Self { addresses, service, login, address, tls }
    }

    /// What redis-rs needs to ask the sentinels, and to connect to the primary that they report.
    fn client(&self) -> RedisResult<SentinelClient> {
        let addresses = self.addresses.iter().map(|info| info.addr().clone());
        let mut builder =
            SentinelClientBuilder::new(addresses, &self.service, SentinelServerType::Master)?
                .set_client_to_redis_db(self.login.db())
                .set_client_to_redis_protocol(self.login.protocol());
        if let Some(user) = self.login.username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = self.login.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        // The same for all of them.
        let Some(first) = self.addresses.first() else { return builder.build() };
        if let Some(user) = first.redis_settings().username() {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = first.redis_settings().password() {
            builder = builder.set_client_to_sentinel_password(password);
        }
        // TLS applies to all connections or to none.
        if let ConnectionAddr::TcpTls { insecure, .. } = first.addr() {
            let mode = if *insecure { TlsMode::Insecure } else { TlsMode::Secure };
            builder = builder.set_client_to_redis_tls_mode(mode);
        }
        if let Some(tls) = &self.tls {
            builder = builder.set_client_to_redis_certificates(tls.clone());
        }
        builder.build()
    }

    /// The primary, whose role was just confirmed.
    pub(super) async fn master(&self) -> Result<Client> {
        let away = |detail| RedisError::Away { address: self.address.clone(), detail };
        let mut client =
            self.client().map_err(|error| RedisError::from_redis(&error, &self.address))?;
        // Boxed: its type is nested deeply, and is part of that of each task that may connect.
        let asking = Box::pin(client.async_get_client());
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
