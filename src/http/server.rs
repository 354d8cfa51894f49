//! The listener and its connections: bounded in number, with a timeout for headers, and drained at the end.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::{
    Handle,
    accept::Accept,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use futures::future::{Ready, ready};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
};
use seckill_engine::{EngineError, Operator, Snapshot, telemetry::meters::HttpFigures};
use seckill_model::{OsError, Reason, message::text};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::{HttpSettings, Shared, State, router::router};

/// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`. A further one is tried again by its
/// client after a second.
const BACKLOG: u32 = 4_096;
/// Maximum size of the headers of a request; hyper answers 431 beyond it.
const HEADER_BYTES: usize = 16 * 1024;

/// Why the server cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be used.
    #[error("{}", text!("http-listen", address = _0.to_string(), error = _1))]
    Listen(SocketAddr, OsError),
    /// A certificate or its key cannot be used.
    #[error("{}", text!("http-tls", path = _0.display(), reason = _1))]
    Tls(PathBuf, Reason),
    /// The listener failed.
    #[error("{}", text!("http-failed", error = _0))]
    Failed(OsError),
    /// No engine runs in this process.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A server that is bound to its address and does not answer yet: clients that connect meanwhile wait.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<RustlsConfig>,
}

impl Server {
    /// Binds the address; port 0 selects a free one.
    pub fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let failed = |error: io::Error| ServerError::Listen(address, OsError::of(&error));
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, tls: None })
    }

    /// The same over TLS, with a chain of certificates and its key in PEM files.
    pub fn with_tls(self, certificates: &Path, key: &Path) -> Result<Self, ServerError> {
        let failed = |path: &Path, error: pem::Error| {
            let why = match error {
                pem::Error::Io(error) => OsError::of(&error).into(),
                other => Reason::Quoted(other.to_string()),
            };
            ServerError::Tls(path.to_owned(), why)
        };
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect)
            .map_err(|error| failed(certificates, error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret));
        let config = config.map_err(|error| {
            ServerError::Tls(certificates.to_owned(), Reason::Quoted(error.to_string()))
        })?;
        Ok(Self { tls: Some(RustlsConfig::from_config(Arc::new(config))), ..self })
    }

    /// The scheme of its URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sells through the engine of `operator`, and reports its `snapshots`, until `stop` is cancelled. Then it accepts no
    /// more connections, answers the requests in flight, and closes connections that are still open after the maximum
    /// duration of a request.
    pub async fn run(
        self,
        operator: &Operator,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        settings: HttpSettings,
        stop: CancellationToken,
    ) -> Result<(), ServerError> {
        let url = format!("{}://{}", self.scheme(), self.address);
        let Self { listener, tls, .. } = self;
        let state = State::new(operator, snapshots, settings, stop.clone())?;
        let shared: Shared = Arc::new(state);
        let figures: Arc<HttpFigures> = {
            let shared = Shared::clone(&shared);
            Arc::new(move || shared.figures(&url))
        };
        operator.meters.publish_http(&figures);
        let looking = tokio::spawn({
            let (shared, stop) = (Shared::clone(&shared), stop.clone());
            async move { shared.look_after(&stop).await }
        });
        let failed = |error: io::Error| ServerError::Failed(OsError::of(&error));
        let header = Duration::from_millis(shared.settings.header_ms);
        let handle = Handle::new();
        let mut server = axum_server::from_tcp(listener)
            .map_err(failed)?
            .http1_only()
            .accept_error_handler(|_, error| tracing::debug!(%error, "a connection failed"))
            .handle(handle.clone());
        server.http_builder().http1().header_read_timeout(header).max_buf_size(HEADER_BYTES);
        let endpoints = router(&shared).into_make_service_with_connect_info::<SocketAddr>();
        let bounded = Bounded { free: Arc::clone(&shared.free) };
        let draining = async {
            stop.cancelled().await;
            handle.graceful_shutdown(Some(shared.answers_within));
            // The server ends by itself.
            std::future::pending::<io::Result<()>>().await
        };
        let served = match tls {
            None => {
                tokio::select! {
                    ended = server.acceptor(bounded).serve(endpoints) => ended,
                    ended = draining => ended,
                }
            }
            Some(config) => {
                let tls = RustlsAcceptor::new(config).handshake_timeout(header).acceptor(bounded);
                tokio::select! {
                    ended = server.acceptor(tls).serve(endpoints) => ended,
                    ended = draining => ended,
                }
            }
        };
        // The next heartbeat removes the server from the consoles.
        drop(figures);
        stop.cancel();
        // Both end with `stop`; commands of operators may outlive their clients, and the engine still runs.
        let _ = looking.await;
        shared.commands.close();
        let _ = tokio::time::timeout(shared.answers_within, shared.commands.wait()).await;
        served.map_err(failed)
    }
}

/// Unlike the listener of the standard library, with room for a crowd that connects at once.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// Accepts connections up to a maximum and closes further ones immediately: a waiting connection would occupy a file
/// descriptor. axum-server has no such limit, and those of tower count requests.
#[derive(Clone, Debug)]
struct Bounded {
    free: Arc<Semaphore>,
}

impl<S: Send + 'static> Accept<TcpStream, S> for Bounded {
    type Stream = TcpStream;
    type Service = Held<S>;
    type Future = Ready<io::Result<(TcpStream, Held<S>)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        ready(Arc::clone(&self.free).try_acquire_owned().map_err(io::Error::other).and_then(
            |place| {
                stream.set_nodelay(true)?;
                Ok((stream, Held { service, _place: Arc::new(place) }))
            },
        ))
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
