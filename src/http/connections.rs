//! Connections: how many there may be, in all and of one address, and how long one that is not read is kept.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::accept::Accept;
use futures::future::{Ready, ready};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutStream;
use tower::Service;

use crate::{
    HttpSettings, Shared,
    client::{ProxyNetwork, is_trusted},
    limits::network,
};

/// Bytes of answers that the kernel keeps for a client that does not read (Linux reserves twice as much). With the default,
/// which grows to megabytes, a crowd of such clients would fill the memory of the kernel.
pub(crate) const SEND_BUFFER: u32 = 64 * 1024;

/// How long a connection without a request in progress is kept when the server stops, for the rest of an answer, or of a
/// request that was begun.
pub(crate) const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// The places of connections.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    /// `None` is unlimited.
    of_address: Option<usize>,
    /// Many clients share the address of a proxy; their requests are limited instead.
    trusted: Vec<ProxyNetwork>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Why a connection is closed at once, as the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full(pub(crate) &'static str);

impl Places {
    /// `most` places. If that is fewer than the settings allow, one address gets at most half of them.
    pub(crate) fn new(settings: &HttpSettings, most: usize) -> Self {
        let half = if most < settings.connections { (most / 2).max(1) } else { usize::MAX };
        let of_address = match settings.address_connections {
            0 => None,
            limit => Some(limit.min(half)),
        };
        let (trusted, taken) = (settings.trusted_proxies.clone(), Mutex::default());
        Self { most, of_address, trusted, taken }
    }

    /// Places for connections of any address.
    pub(crate) fn unshared(most: usize) -> Self {
        Self { most, of_address: None, trusted: Vec::new(), taken: Mutex::default() }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().all
    }

    /// A place for a connection from this address.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr) -> Result<Place, Full> {
        let from = from.to_canonical();
        let limit = self.of_address.filter(|_| !is_trusted(&self.trusted, from));
        let address = limit.map(|_| network(from));
        let mut taken = self.taken.lock();
        if taken.all >= self.most {
            return Err(Full("connections"));
        }
        if let Some((address, limit)) = address.zip(limit) {
            let count = taken.by_address.entry(address).or_default();
            if *count >= limit {
                return Err(Full("address_connections"));
            }
            *count += 1;
        }
        taken.all += 1;
        Ok(Place { places: Arc::clone(self), address })
    }
}

/// A place, which is free again once this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    address: Option<IpAddr>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        if let Some(Entry::Occupied(mut count)) =
            self.address.map(|address| taken.by_address.entry(address))
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Accepts connections that get a place and closes further ones immediately: a waiting connection would occupy a file
/// descriptor. axum-server has no such limit, and those of tower count requests.
#[derive(Clone, Debug)]
pub(crate) struct Bounded {
    shared: Shared,
    places: Arc<Places>,
    write: Duration,
}

impl Bounded {
    pub(crate) fn new(shared: &Shared, places: &Arc<Places>) -> Self {
        let write = Duration::from_millis(shared.settings.write_ms);
        Self { shared: Shared::clone(shared), places: Arc::clone(places), write }
    }

    fn admit(&self, stream: TcpStream) -> io::Result<(Watched, Place)> {
        let place = self.places.take(stream.peer_addr()?.ip()).map_err(|Full(by)| {
            self.shared.metrics.note_limited(by);
            io::Error::other(by)
        })?;
        stream.set_nodelay(true)?;
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write));
        Ok((Box::pin(stream), place))
    }
}

/// A connection that ends with an error once its client has read nothing for a while. Reading has limits in hyper and in
/// `body`.
type Watched = Pin<Box<TimeoutStream<TcpStream>>>;

impl<S: Send + 'static> Accept<TcpStream, S> for Bounded {
    type Stream = Watched;
    type Service = Held<S>;
    type Future = Ready<io::Result<(Watched, Held<S>)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let admitted = self.admit(stream);
        ready(admitted.map(|(stream, place)| (stream, Held { service, _place: Arc::new(place) })))
    }
}

/// The service of a connection, with the place that the connection takes until it ends.
#[derive(Clone, Debug)]
pub(crate) struct Held<S> {
    service: S,
    _place: Arc<Place>,
}

impl<R, S: Service<R>> Service<R> for Held<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.service.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_takes_its_share_of_the_places_and_a_proxy_any_number() {
        let settings = HttpSettings {
            connections: 6,
            address_connections: 2,
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
            ..HttpSettings::default()
        };
        let places = Arc::new(Places::new(&settings, 6));
        let take = |from: &str| places.take(address(from));
        let mut held = vec![take("192.0.2.1").unwrap(), take("::ffff:192.0.2.1").unwrap()];
        assert_eq!(take("192.0.2.1").unwrap_err(), Full("address_connections"));
        held.extend(
            ["10.0.0.1", "10.0.0.1", "10.0.0.1", "2001:db8::1"].map(|it| take(it).unwrap()),
        );
        assert_eq!(take("192.0.2.2").unwrap_err(), Full("connections"));
        assert_eq!(places.taken(), 6);
        drop(held);
        assert_eq!((places.taken(), places.taken.lock().by_address.len()), (0, 0));
        assert!(take("192.0.2.1").is_ok());
    }

    #[test]
    fn few_places_are_not_for_one_address_alone() {
        let settings = HttpSettings::default();
        let of_address = |settings: &HttpSettings, most| Places::new(settings, most).of_address;
        assert_eq!(of_address(&settings, settings.connections), Some(settings.address_connections));
        assert_eq!(of_address(&settings, 848), Some(424));
        assert_eq!(of_address(&settings, 1), Some(1));
        let unlimited = HttpSettings { address_connections: 0, ..settings };
        assert_eq!(of_address(&unlimited, 848), None);
    }
}
