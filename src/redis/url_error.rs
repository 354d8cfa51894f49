//! Errors in a Redis URL, as data. Contains no part of the URL but its scheme: the rest may hold a password.

use seckill_model::{
    OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

/// Example URL of a server.
pub const SERVER_FORM: &str = "redis://USER:PASSWORD@HOST:PORT/DB";
/// Example URL of a Unix socket.
pub const SOCKET_FORM: &str = "unix:///path/redis.sock";
/// Example URL of sentinels.
pub const SENTINELS_FORM: &str = "redis+sentinel://USER:PASSWORD@HOST:26379,HOST:26379/SERVICE/DB";
/// Example URL of a cluster.
pub const CLUSTER_FORM: &str = "redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379";

/// Why a Redis URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlError {
    /// Unknown or missing scheme.
    #[error("{}", scheme(.0.as_deref()))]
    Scheme(Option<String>),
    /// Malformed server URL.
    #[error("{}", text!("redis-url-unreadable", server = SERVER_FORM, socket = SOCKET_FORM))]
    Unreadable,
    /// Malformed sentinel URL.
    #[error("{}", text!("redis-url-sentinels", fault = .0, form = SENTINELS_FORM))]
    Sentinels(HostsError),
    /// Malformed cluster URL.
    #[error("{}", text!("redis-url-cluster", fault = .0, form = CLUSTER_FORM))]
    Cluster(HostsError),
    /// The server is not part of a cluster.
    #[error("{}", text!("redis-url-no-cluster", place = .0))]
    NoCluster(String),
    /// A certificate file that cannot be used, and why.
    #[error("{}", text!("redis-url-ca", path = .0, reason = .1))]
    Ca(String, OsError),
    /// A file without certificates.
    #[error("{}", text!("redis-url-ca-empty", path = .0))]
    CaEmpty(String),
    /// Certificates without encryption.
    #[error("{}", Label("redis-url-ca-unused"))]
    CaUnused,
    /// Certificates with sentinels.
    #[error("{}", Label("redis-redis-ca-does-not-work"))]
    CaOfSentinels,
    /// An unsupported option; message of the library.
    #[error("{}", text!("redis-url-unusable", reason = .0))]
    Unusable(String),
}

/// Errors in a URL that names several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostsError {
    /// Invalid service name.
    #[error("{}", Label("redis-hosts-service"))]
    Service,
    /// No host.
    #[error("{}", Label("redis-hosts-none"))]
    None,
    /// An empty host.
    #[error("{}", Label("redis-hosts-missing"))]
    Missing,
    /// An invalid host.
    #[error("{}", Label("redis-hosts-host"))]
    Host,
    /// A socket path.
    #[error("{}", Label("redis-hosts-only"))]
    HostsOnly,
    /// Parameters that sentinels do not take.
    #[error("{}", Label("redis-hosts-parameters"))]
    Parameters,
    /// Parameters where none are allowed.
    #[error("{}", Label("redis-no-parameters-are-allowed-after"))]
    NoParameters,
    /// A database number.
    #[error("{}", Label("redis-hosts-databases"))]
    Databases,
    /// Unescaped delimiters in a password.
    #[error("{}", Label("redis-hosts-password"))]
    Password,
}

fn scheme(got: Option<&str>) -> String {
    got.map_or_else(
        || Label("redis-url-scheme").to_owned(),
        |scheme| text!("redis-url-other-scheme", scheme),
    )
}
