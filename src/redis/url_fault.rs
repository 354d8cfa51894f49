//! What is wrong with a Redis URL, as data. No part of one is in it but its scheme: the rest may hold a password.

use seckill_model::{
    OsError,
    message::{Label, text},
};
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
    #[error("{}", scheme(.0.as_deref()))]
    Scheme(Option<String>),
    /// It is cut up in another way.
    #[error("{}", text!("redis-url-unreadable", server = SERVER_FORM, socket = SOCKET_FORM))]
    Unreadable,
    /// That of sentinels.
    #[error("{}", text!("redis-url-sentinels", fault = .0, form = SENTINELS_FORM))]
    Sentinels(HostsFault),
    /// That of a cluster.
    #[error("{}", text!("redis-url-cluster", fault = .0, form = CLUSTER_FORM))]
    Cluster(HostsFault),
    /// What is there is no cluster.
    #[error("{}", text!("redis-url-no-cluster", place = .0))]
    NoCluster(String),
    /// A file of certificates that can't be used, and why.
    #[error("{}", text!("redis-url-ca", path = .0, reason = .1))]
    Ca(String, OsError),
    /// A file without certificates.
    #[error("{}", text!("redis-url-ca-empty", path = .0))]
    CaEmpty(String),
    /// Certificates, where nothing is encrypted.
    #[error("{}", Label("redis-url-ca-unused"))]
    CaUnused,
    /// Certificates, where sentinels name the server.
    #[error("{}", Label("redis-url-ca-of-sentinels"))]
    CaOfSentinels,
    /// It asks for something that can't be had, in the words of the library.
    #[error("{}", text!("redis-url-unusable", reason = .0))]
    Unusable(String),
}

/// What is wrong with a URL that names several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostsFault {
    /// No plain name of a service.
    #[error("{}", Label("redis-hosts-service"))]
    Service,
    /// No host at all.
    #[error("{}", Label("redis-hosts-none"))]
    None,
    /// Nothing between two commas.
    #[error("{}", Label("redis-hosts-missing"))]
    Missing,
    /// One of them is no host.
    #[error("{}", Label("redis-hosts-host"))]
    Host,
    /// A path of a socket.
    #[error("{}", Label("redis-hosts-only"))]
    HostsOnly,
    /// Other parameters than sentinels take.
    #[error("{}", Label("redis-hosts-parameters"))]
    Parameters,
    /// Parameters, where none are taken.
    #[error("{}", Label("redis-hosts-no-parameters"))]
    NoParameters,
    /// The number of a database.
    #[error("{}", Label("redis-hosts-databases"))]
    Databases,
    /// Signs in a password that cut it up.
    #[error("{}", Label("redis-hosts-password"))]
    Password,
}

fn scheme(got: Option<&str>) -> String {
    got.map_or_else(
        || Label("redis-url-scheme").to_owned(),
        |scheme| text!("redis-url-other-scheme", scheme),
    )
}
