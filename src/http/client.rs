//! The address that a request comes from: that of the peer or, behind proxies that are trusted, the one that they name.

use std::{net::IpAddr, str::FromStr};

use axum::http::{HeaderMap, HeaderName, header::FORWARDED};
use ipnet::IpNet;
use seckill_model::{Reason, reason};
use serde::Deserialize;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Where a request comes from, as an extension of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) IpAddr);

/// A network of proxies: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ProxyNetwork(IpNet);

impl FromStr for ProxyNetwork {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let network = text.parse::<IpNet>().or_else(|_| match text.parse::<IpAddr>() {
            Ok(address) => Ok(IpNet::from(address.to_canonical())),
            Err(_) => Err(reason!("http-network", text)),
        });
        network.map(Self)
    }
}

impl TryFrom<String> for ProxyNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|why: Reason| why.to_string())
    }
}

/// Whether an address is that of a trusted proxy.
pub(crate) fn is_trusted(trusted: &[ProxyNetwork], address: IpAddr) -> bool {
    trusted.iter().any(|it| it.0.contains(&address))
}

/// The address of the client. Headers count only if the peer is a trusted proxy: then it is the rightmost address that is
/// not one, since all to the left of it may be invented by the client.
///
/// A proxy sets `Forwarded` or `X-Forwarded-For` and often passes on the other as the client sent it. If both are there and
/// differ, which one that is cannot be known, and the peer counts: a client that sends both chooses no address.
///
/// Written here: the crates for this prefer one of the two headers, or split a header at a comma only outside of quotes,
/// which a client may open before the part that the proxy adds.
pub(crate) fn address(trusted: &[ProxyNetwork], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let peer = peer.to_canonical();
    let is_trusted = |address: IpAddr| is_trusted(trusted, address);
    if !is_trusted(peer) {
        return peer;
    }
    let named = |header: &HeaderName, parse: fn(&str) -> Option<IpAddr>| {
        let mut nearest = None;
        let values = headers.get_all(header).iter().rev();
        for node in values.flat_map(|it| it.to_str().unwrap_or_default().rsplit(',')) {
            let before = nearest.unwrap_or(peer);
            let address = parse(node);
            nearest = Some(address.unwrap_or(before));
            // The sender of an unreadable one is the nearest that is known.
            if address.is_none_or(|address| !is_trusted(address)) {
                break;
            }
        }
        nearest
    };
    match (named(&FORWARDED, forwarded_for), named(&X_FORWARDED_FOR, node)) {
        (None, None) => peer,
        (Some(one), None) | (None, Some(one)) => one,
        (Some(one), Some(other)) if one == other => one,
        (Some(_), Some(_)) => {
            tracing::debug!(%peer, "Forwarded and X-Forwarded-For differ; neither is used");
            peer
        }
    }
}

/// The node of an element of `Forwarded` (RFC 7239): `for=192.0.2.1;proto=https`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut parameters = element.split(';').filter_map(|it| it.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    node(value)
}

/// An address with or without a port: `192.0.2.1:80`, `"[2001:db8::1]:80"`.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(text.parse::<std::net::SocketAddr>().ok()?.ip()));
    address.map(|it| it.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_trusted_proxies_name_the_address_of_a_client() {
        let trusted: Vec<ProxyNetwork> =
            ["10.0.0.0/8", "::1"].map(|it| it.parse().unwrap()).to_vec();
        let of = |peer: &str, headers: &[(HeaderName, &str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), value));
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, value.parse().unwrap());
            }
            address(&trusted, peer.parse().unwrap(), &map).to_string()
        };
        let (forwarded, x) = (FORWARDED, X_FORWARDED_FOR);
        for (peer, headers, client) in [
            ("192.0.2.9", &[(x.clone(), "192.0.2.1")][..], "192.0.2.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[(x.clone(), "192.0.2.1")], "192.0.2.1"),
            ("::ffff:10.0.0.1", &[(x.clone(), "::ffff:192.0.2.1")], "192.0.2.1"),
            ("::1", &[(x.clone(), "[2001:db8::1]:443")], "2001:db8::1"),
            // What the client invents is to the left.
            ("10.0.0.1", &[(x.clone(), "1.1.1.1, 192.0.2.1:80, 10.2.3.4")], "192.0.2.1"),
            ("10.0.0.1", &[(x.clone(), "1.1.1.1"), (x.clone(), "192.0.2.1")], "192.0.2.1"),
            ("10.0.0.1", &[(x.clone(), "1.1.1.1, unknown, 10.2.3.4")], "10.2.3.4"),
            ("10.0.0.1", &[(x.clone(), "10.9.9.9, 10.2.3.4")], "10.9.9.9"),
            ("10.0.0.1", &[(x.clone(), "")], "10.0.0.1"),
            ("10.0.0.1", &[(forwarded.clone(), "for=192.0.2.1;proto=https")], "192.0.2.1"),
            (
                "10.0.0.1",
                &[(forwarded.clone(), "for=1.1.1.1, proto=http;For=\"[2001:db8::1]:9\"")],
                "2001:db8::1",
            ),
            ("10.0.0.1", &[(forwarded.clone(), "for=\"1.1.1.1, for=192.0.2.1")], "192.0.2.1"),
            ("10.0.0.1", &[(forwarded.clone(), "for=_hidden")], "10.0.0.1"),
            // One of them is of the client.
            (
                "10.0.0.1",
                &[(forwarded.clone(), "for=1.1.1.1"), (x.clone(), "192.0.2.1")],
                "10.0.0.1",
            ),
            ("10.0.0.1", &[(forwarded, "for=192.0.2.1"), (x, "192.0.2.1")], "192.0.2.1"),
        ] {
            assert_eq!(of(peer, headers), client, "{peer} {headers:?}");
        }
        for wrong in ["", "x", "10.0.0.0/33", "10.0.0", "localhost"] {
            assert!(wrong.parse::<ProxyNetwork>().is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        /// What a client sends reaches this: its own address, if no proxy is trusted.
        #[test]
        fn any_header_names_an_address_or_none(
            one: Vec<u8>,
            other in "(for=)?[0-9a-fA-F:.,;= \"\\[\\]_-]{0,60}",
        ) {
            let trusted: Vec<ProxyNetwork> = vec!["10.0.0.0/8".parse().unwrap()];
            let mut map = HeaderMap::new();
            for (name, value) in [(FORWARDED, one.as_slice()), (X_FORWARDED_FOR, other.as_bytes())] {
                if let Ok(value) = value.try_into() {
                    map.append(name.clone(), value);
                    map.append(if name == FORWARDED { X_FORWARDED_FOR } else { FORWARDED }, HeaderValue::from_static("for=a"));
                }
            }
            let peer: IpAddr = "192.0.2.9".parse().unwrap();
            proptest::prop_assert_eq!(address(&trusted, peer, &map), peer);
            address(&trusted, "10.0.0.1".parse().unwrap(), &map);
        }
    }
}
