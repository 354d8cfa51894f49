//! Certificates for TLS connections: those of the authorities that are trusted, and that of this program.

use std::path::{Path, PathBuf};

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use seckill_model::{OsError, reason::reason};

use super::{RedisError, Result, error::plain};

/// Files in PEM for TLS connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that are trusted instead of those of the system.
    pub ca: Option<PathBuf>,
    /// The chain of certificates with which this program authenticates itself.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether one of them was given, which needs an encrypted connection.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }

    /// Their content; `None` without any.
    ///
    /// # Errors
    /// [`RedisError::Url`] with the file that cannot be used. It quotes no part of it.
    pub(super) fn read(&self) -> Result<Option<TlsCertificates>> {
        if !self.is_given() {
            return Ok(None);
        }
        let root_cert = self.ca.as_deref().map(authorities).transpose()?;
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(client(cert, key)?),
            (None, None) => None,
            _ => return Err(RedisError::Url(reason!("redis-url-cert-alone"))),
        };
        Ok(Some(TlsCertificates { client_tls, root_cert }))
    }
}

/// The error of files that are given for a connection that is not encrypted.
pub fn unused() -> RedisError {
    RedisError::Url(reason!("redis-url-tls-unused"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|why| {
        RedisError::Url(reason!("redis-url-tls-file", path, reason = OsError::from(why)))
    })
}

fn authorities(path: &Path) -> Result<Vec<u8>> {
    let root = read(path)?;
    match CertificateDer::pem_slice_iter(&root).next() {
        Some(Ok(_)) => Ok(root),
        _ => Err(RedisError::Url(reason!("redis-url-ca-empty", path))),
    }
}

/// The certificate of this program, and its key. Tried here: redis-rs would do so at each connection.
fn client(cert: &Path, key: &Path) -> Result<ClientTlsConfig> {
    let (client_cert, client_key) = (read(cert)?, read(key)?);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&client_cert)
        .collect::<Result<_, _>>()
        .ok()
        .filter(|chain: &Vec<_>| !chain.is_empty())
        .ok_or_else(|| RedisError::Url(reason!("redis-url-cert-empty", path = cert)))?;
    let secret = PrivateKeyDer::from_pem_slice(&client_key)
        .map_err(|_| RedisError::Url(reason!("redis-url-key-empty", path = key)))?;
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    config.with_client_auth_cert(chain, secret).map_err(|error| {
        let why = error.to_string();
        RedisError::Url(reason!("redis-url-cert-key", path = cert, key, why))
    })?;
    Ok(ClientTlsConfig { client_cert, client_key })
}

/// The connection settings with these certificates.
pub(super) fn secured(info: ConnectionInfo, tls: &TlsCertificates) -> Result<ConnectionInfo> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Err(unused());
    }
    let client = Client::build_with_tls(info, tls.clone());
    let client = client.map_err(|error| RedisError::unusable_url(plain(&error)))?;
    Ok(client.get_connection_info().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redis;

    #[test]
    fn files_that_cannot_be_used_are_rejected_and_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let [missing, other] = ["missing.pem", "other.pem"].map(|name| dir.path().join(name));
        std::fs::write(&other, "secret").unwrap();
        let files = |ca: Option<&PathBuf>, cert: Option<&PathBuf>, key: Option<&PathBuf>| {
            TlsFiles { ca: ca.cloned(), cert: cert.cloned(), key: key.cloned() }
        };
        for (files, why) in [
            (files(Some(&missing), None, None), "missing.pem"),
            (files(Some(&other), None, None), "contains no PEM certificate"),
            (files(None, Some(&missing), Some(&other)), "missing.pem"),
            (files(None, Some(&other), Some(&other)), "contains no PEM certificate"),
            (files(None, Some(&other), None), "--redis-key"),
            (files(None, None, Some(&other)), "--redis-cert"),
        ] {
            for url in ["rediss://h", "rediss+sentinel://h/m", "rediss+cluster://h"] {
                let error = Redis::with_tls(url, &files).map(|_| ()).unwrap_err().to_string();
                assert!(error.contains(why) && !error.contains("secret"), "{error}");
            }
        }
    }
}
