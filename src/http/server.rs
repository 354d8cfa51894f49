//! The listener and its connections: bounded in number, with a timeout for headers, and drained at the end.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::{
    Handle,
    accept::{Accept, NoDelayAcceptor},
};
use futures::{FutureExt as _, future::BoxFuture};
use seckill_engine::{EngineError, Operator};
use seckill_model::{OsError, message::text};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::{HttpSettings, Shared, State, router::router};

/// Maximum size of the headers of a request; hyper answers 431 beyond it.
const HEADER_BYTES: usize = 16 * 1024;

/// Why the server cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be used.
    #[error("{}", text!("http-listen", address = _0.to_string(), error = _1))]
    Listen(SocketAddr, OsError),
    /// The listener failed.
    #[error("{}", text!("http-failed", error = _0))]
    Failed(OsError),
    /// No engine runs in this process.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A server that holds its address and does not answer yet: who connects meanwhile, waits.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address; port 0 is one that is free.
    pub fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let failed = |error: io::Error| ServerError::Listen(address, OsError::of(&error));
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The address that it holds.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sells through the engine of `operator` until `stop` is cancelled. Then it accepts no more connections, answers
    /// what is in flight, and closes connections that are still open after the longest time that a request may take.
    pub async fn run(
        self,
        operator: &Operator,
        settings: HttpSettings,
        stop: CancellationToken,
    ) -> Result<(), ServerError> {
        let listener = self.listener;
        let shared: Shared = Arc::new(State::new(operator, settings, stop.clone())?);
        let failed = |error: io::Error| ServerError::Failed(OsError::of(&error));
        let handle = Handle::new();
        let mut server = axum_server::from_tcp(listener)
            .map_err(failed)?
            .http1_only()
            .accept_error_handler(|_, error| tracing::warn!(%error, "a connection failed"))
            .handle(handle.clone())
            .acceptor(Bounded {
                inner: NoDelayAcceptor,
                free: Arc::new(Semaphore::new(shared.settings.connections)),
            });
        let header = Duration::from_millis(shared.settings.header_ms);
        server.http_builder().http1().header_read_timeout(header).max_buf_size(HEADER_BYTES);
        let serve =
            server.serve(router(&shared).into_make_service_with_connect_info::<SocketAddr>());
        tokio::pin!(serve);
        let served = tokio::select! {
            ended = &mut serve => ended,
            () = stop.cancelled() => {
                handle.graceful_shutdown(Some(shared.answers_within));
                serve.await
            }
        };
        // Their clients may have left; the engine still runs.
        shared.commands.close();
        let _ = tokio::time::timeout(shared.answers_within, shared.commands.wait()).await;
        served.map_err(failed)
    }
}

/// Accepts connections up to a maximum and closes further ones immediately: what waits for a place would wait with a
/// descriptor. axum-server bounds nothing, and limits of tower count requests.
#[derive(Clone, Debug)]
struct Bounded<A> {
    inner: A,
    free: Arc<Semaphore>,
}

impl<I, S, A> Accept<I, S> for Bounded<A>
where
    A: Accept<I, S, Future: Send + 'static>,
{
    type Stream = A::Stream;
    type Service = Held<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let place = Arc::clone(&self.free).try_acquire_owned();
        let accepted = place.map(|place| (self.inner.accept(stream, service), Arc::new(place)));
        async move {
            let (accepted, place) = accepted.map_err(io::Error::other)?;
            let (stream, service) = accepted.await?;
            Ok((stream, Held { service, _place: place }))
        }
        .boxed()
    }
}

/// The service of a connection, with the place that the connection takes until it ends.
#[derive(Clone, Debug)]
struct Held<S> {
    service: S,
    _place: Arc<OwnedSemaphorePermit>,
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
