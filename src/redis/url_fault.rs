//! What is wrong with a Redis URL, as data. No part of one is in it but its scheme: the rest may hold a password.

use serde::{Deserialize, Serialize};

/// How the URL of a server looks.
pub const SERVER_FORM: &str = "redis://USER:PASSWORD@HOST:PORT/DB";
/// The same of one behind a socket.
pub const SOCKET_FORM: &str = "unix:///path/redis.sock";
/// The same of sentinels.
pub const SENTINELS_FORM: &str = "redis+sentinel://USER:PASSWORD@HOST:26379,HOST:26379/SERVICE/DB";
/// The same of a cluster.
pub const CLUSTER_FORM: &str = "redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379";

/// Why a URL of Redis can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlFault {
    /// It starts with something else, if with anything.
    #[error(
        "a Redis URL starts with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://{}; for example redis://127.0.0.1:6379",
        .0.as_ref().map_or_else(String::new, |scheme| format!(", not with '{scheme}'"))
    )]
    Scheme(Option<String>),
    /// It is cut up in another way, in the words of the library.
    #[error("the Redis URL can't be read ({0}); it looks like {SERVER_FORM} or {SOCKET_FORM}")]
    Unreadable(String),
    /// That of sentinels.
    #[error("the Sentinel URL can't be read: {0}; it looks like {SENTINELS_FORM}")]
    Sentinels(HostsFault),
    /// That of a cluster.
    #[error("the cluster URL can't be read: {0}; it looks like {CLUSTER_FORM}")]
    Cluster(HostsFault),
    /// What is there is no cluster.
    #[error("Redis at {0} is one server and no cluster; its URL starts with redis:// or rediss://")]
    NoCluster(String),
    /// A file of certificates that can't be used, and why.
    #[error(
        "the certificates of --redis-ca {0} can't be used ({1}); give a PEM file with the certificate of the authority that signed the server's"
    )]
    Ca(String, String),
    /// Certificates, where nothing is encrypted.
    #[error(
        "--redis-ca goes with an encrypted Redis; write its URL with rediss:// or rediss+cluster://, or leave --redis-ca out"
    )]
    CaUnused,
    /// Certificates, where sentinels name the server.
    #[error(
        "--redis-ca does not go with sentinels; add the authority to the certificates of the system, or name the file in SSL_CERT_FILE"
    )]
    CaOfSentinels,
    /// It asks for something that can't be had, in the words of the library.
    #[error("the Redis URL can't be used ({0})")]
    Unusable(String),
}

/// What is wrong with a URL that names several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostsFault {
    /// No plain name of a service.
    #[error("after the hosts comes the plain name of the service")]
    Service,
    /// No host at all.
    #[error("it names no host")]
    None,
    /// Nothing between two commas.
    #[error("a host is missing")]
    Missing,
    /// One of them is no host.
    #[error("a host, port or database is wrong")]
    Host,
    /// A path of a socket.
    #[error("it takes hosts only")]
    HostsOnly,
    /// Other parameters than sentinels take.
    #[error("after the ? come sentinel_user and sentinel_pass only")]
    Parameters,
    /// Parameters, where none are taken.
    #[error("it takes nothing after a ?")]
    NoParameters,
    /// The number of a database.
    #[error("a cluster has no databases to choose from")]
    Databases,
    /// Signs in a password that cut it up.
    #[error("a password writes / ? # @ as %2F %3F %23 %40")]
    Password,
}
