//! Redis URLs: one server, sentinels or a cluster.
//!
//! Errors quote no part of a URL, because it may contain a password.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisConnectionInfo};
use url::form_urlencoded;

use seckill_model::{Reason, reason::reason};

use super::{RedisError, Result, cluster_slots::Node};

const SENTINEL_PORT: u16 = 26_379;
const SERVER_PORT: u16 = 6_379;

/// Deployment named by a URL.
pub(super) enum Target {
    /// One server.
    Server(ConnectionInfo),
    /// The primary that sentinels report for a service.
    Sentinels {
        sentinels: Vec<ConnectionInfo>,
        service: String,
        login: RedisConnectionInfo,
        address: String,
    },
    /// A cluster.
    Cluster { seeds: Vec<ConnectionInfo>, address: String },
}

pub(super) fn read(url: &str) -> Result<Target> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    match scheme.split_once('+') {
        Some((base @ ("redis" | "rediss" | "valkey" | "valkeys"), "sentinel")) => {
            sentinels(base, rest)
        }
        Some((base @ ("redis" | "rediss" | "valkey" | "valkeys"), "cluster")) => {
            cluster(base, rest)
        }
        _ if matches!(
            scheme,
            "redis" | "rediss" | "unix" | "redis+unix" | "valkey" | "valkeys"
        ) =>
        {
            let info = url.into_connection_info().map_err(|_| unreadable())?;
            Ok(Target::Server(info))
        }
        _ => {
            let scheme: String = scheme.chars().take(20).collect();
            Err(RedisError::Url(match scheme.as_str() {
                "" => reason!("redis-url-scheme"),
                _ => reason!("redis-url-other-scheme", scheme),
            }))
        }
    }
}

/// The URL of a server cannot be parsed.
pub(super) fn unreadable() -> RedisError {
    let (server, socket) = ("redis://USER:PASSWORD@HOST:PORT/DB", "unix:///path/redis.sock");
    RedisError::Url(reason!("redis-url-unreadable", server, socket))
}

fn wrong_sentinels(fault: Reason) -> RedisError {
    let form = "redis+sentinel://USER:PASSWORD@HOST:26379,HOST:26379/SERVICE/DB";
    RedisError::Url(reason!("redis-url-sentinels", fault, form))
}

/// The URL of a cluster cannot be parsed.
pub(super) fn wrong_cluster(fault: Reason) -> RedisError {
    let form = "redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379";
    RedisError::Url(reason!("redis-url-cluster", fault, form))
}

fn sentinels(base: &str, rest: &str) -> Result<Target> {
    let wrong = wrong_sentinels;
    let parts = Parts::of(rest).map_err(wrong)?;
    let (service, db) = parts.path.split_once('/').unwrap_or((parts.path, "0"));
    if service.is_empty() || service.contains('%') {
        return Err(wrong(reason!("redis-hosts-service")));
    }
    let mut members = parts.members(base, db, SENTINEL_PORT).map_err(wrong)?;
    let login = members.first().ok_or_else(|| wrong(reason!("redis-hosts-none")))?;
    let login = login.redis_settings().clone();
    let mut own = RedisConnectionInfo::default();
    for (name, value) in form_urlencoded::parse(parts.query.as_bytes()) {
        own = match name.as_ref() {
            "sentinel_user" => own.set_username(value),
            "sentinel_pass" => own.set_password(value),
            _ => return Err(wrong(reason!("redis-hosts-parameters"))),
        };
    }
    members = members.into_iter().map(|info| info.set_redis_settings(own.clone())).collect();
    let address = format!("{}/{service}", address_of(&members));
    Ok(Target::Sentinels { sentinels: members, service: service.to_owned(), login, address })
}

fn cluster(base: &str, rest: &str) -> Result<Target> {
    let wrong = wrong_cluster;
    let parts = Parts::of(rest).map_err(wrong)?;
    if !matches!(parts.path, "" | "0") {
        return Err(wrong(reason!("redis-hosts-databases")));
    }
    if !parts.query.is_empty() {
        return Err(wrong(reason!("redis-no-parameters-are-allowed-after")));
    }
    let seeds = parts.members(base, "0", SERVER_PORT).map_err(wrong)?;
    let address = address_of(&seeds);
    Ok(Target::Cluster { seeds, address })
}

/// Addresses of the hosts, without user and password.
fn address_of(members: &[ConnectionInfo]) -> String {
    members.iter().filter_map(Node::of).map(|node| node.to_string()).collect::<Vec<_>>().join(",")
}

/// A URL with several hosts, which no library accepts: it is split and reassembled for each host.
struct Parts<'a> {
    login: &'a str,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Result<Self, Reason> {
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') || query.contains('@') || fragment.contains('@') {
            return Err(reason!("redis-hosts-password"));
        }
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        Ok(Self { login, hosts, path: path.trim_end_matches('/'), query, fragment })
    }

    /// Parses each host as a separate server.
    fn members(&self, base: &str, db: &str, port: u16) -> Result<Vec<ConnectionInfo>, Reason> {
        let member = |host: &str| {
            // An IPv6 address is in brackets.
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port { String::new() } else { format!(":{port}") };
            let (login, fragment) = (self.login, self.fragment);
            let at = if login.is_empty() { "" } else { "@" };
            let hash = if fragment.is_empty() { "" } else { "#" };
            let url = format!("{base}://{login}{at}{host}{port}/{db}{hash}{fragment}");
            let info = url.into_connection_info().map_err(|_| reason!("redis-hosts-host"))?;
            match info.addr() {
                ConnectionAddr::Unix(_) => Err(reason!("redis-hosts-only")),
                _ => Ok(info),
            }
        };
        let hosts = self.hosts.split(',').map(str::trim);
        hosts
            .map(
                |host| {
                    if host.is_empty() { Err(reason!("redis-hosts-missing")) } else { member(host) }
                },
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match read(url) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{url} was taken"),
        }
    }

    #[test]
    fn sentinel_credentials_are_separate() {
        let url =
            "redis+sentinel://u:p%40@a,b:7,[::1]/mymaster/3?sentinel_user=s&sentinel_pass=%26";
        let Ok(Target::Sentinels { sentinels, service, login, address }) = read(url) else {
            panic!()
        };
        assert_eq!(service, "mymaster");
        assert_eq!((login.username(), login.password(), login.db()), (Some("u"), Some("p@"), 3));
        assert_eq!(address, "a:26379,b:7,[::1]:26379/mymaster");
        assert_eq!(sentinels.len(), 3);
        let own = sentinels[2].redis_settings();
        assert_eq!((own.username(), own.password(), own.db()), (Some("s"), Some("&"), 0));
        assert!(matches!(sentinels[0].addr(), ConnectionAddr::Tcp(..)));
    }

    #[test]
    fn cluster_url_lists_some_hosts() {
        let Ok(Target::Cluster { seeds, address }) = read("rediss+cluster://:p@a:1, b/") else {
            panic!()
        };
        assert_eq!(address, "a:1,b:6379");
        assert!(seeds.iter().all(|it| it.redis_settings().password() == Some("p")));
        assert!(seeds.iter().all(|it| matches!(it.addr(), ConnectionAddr::TcpTls { .. })));
    }

    #[test]
    fn errors_never_contain_credentials() {
        for (url, why) in [
            ("redis+sentinel://u:secret@a:1", "name of the service"),
            ("redis+sentinel://u:secret@/m", "a host is missing"),
            ("redis+sentinel://u:secret@a/m/secret", "a host, port or database"),
            ("redis+sentinel://u:secret@a/m?secret=1", "sentinel_user and sentinel_pass"),
            ("redis+sentinel://u:secret/x@a/m", "%2F"),
            ("redis+cluster://u:secret@a:secret", "a host, port or database"),
            ("redis+cluster://u:secret@a,,b", "a host is missing"),
            ("redis+cluster://u:secret@a/1", "no databases"),
            ("redis+cluster://u:secret@a?x=secret", "no parameters"),
            ("rediss+cluster://u:secret@a#secret", "a host, port or database"),
            ("redis+nothing://u:secret@a", "starts with"),
            ("u:secret@a", "starts with"),
        ] {
            let error = refusal(url);
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
