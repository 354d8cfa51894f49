//! The listeners, for buyers and for operators, and their end: requests in flight are answered.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use axum_server::{
    Control, Handle,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
};
use seckill_engine::{EngineError, Operator, Snapshot, telemetry::meters::HttpFigures};
use seckill_model::{OsError, Reason, message::text};
use tokio::{
    net::TcpSocket,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    HttpSettings, Shared, State,
    connections::{Bounded, LEAVES_WITHIN, Places, SEND_BUFFER},
    router::{self, Routers},
};

/// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`. A further one is tried again by its
/// client after a second.
const BACKLOG: u32 = 4_096;
/// Maximum size of the headers of a request; hyper answers 431 beyond it.
const HEADER_BYTES: usize = 16 * 1024;
/// Connections to the address for operators; those of buyers take none of them.
const OPERATORS: usize = 256;

/// Why the server cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be used.
    #[error("{}", text!("http-listen", address = _0.to_string(), error = _1))]
    Listen(SocketAddr, OsError),
    /// A certificate or its key cannot be used.
    #[error("{}", text!("http-tls", path = _0.display(), reason = _1))]
    Tls(PathBuf, Reason),
    /// The limit of open files leaves none for connections of clients.
    #[error("{}", text!("http-files", limit = _0))]
    Files(u64),
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
    buyers: Listener,
    /// `None`: operators use the same.
    operators: Option<Listener>,
    tls: Option<RustlsConfig>,
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let failed = |error: io::Error| ServerError::Listen(address, OsError::of(&error));
        let socket = listen(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }
}

impl Server {
    /// Binds the address; port 0 selects a free one.
    pub fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        Ok(Self { buyers: Listener::bind(address)?, operators: None, tls: None })
    }

    /// The same with another address for metrics, health checks and the endpoints of operators, which the first one then
    /// has no more.
    pub fn with_admin(self, address: SocketAddr) -> Result<Self, ServerError> {
        Ok(Self { operators: Some(Listener::bind(address)?), ..self })
    }

    /// The same over TLS at each address, with a chain of certificates and its key in PEM files.
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
        self.buyers.address
    }

    /// The bound address for operators, if they have one of their own.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.operators.as_ref().map(|listener| listener.address)
    }

    /// Sells through the engine of `operator`, and reports its `snapshots`, until `stop` is cancelled. Then it accepts no
    /// more connections, answers the requests in flight, for at most the maximum duration of a request, and closes
    /// connections without one a moment later.
    pub async fn run(
        self,
        operator: &Operator,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        settings: HttpSettings,
        stop: CancellationToken,
    ) -> Result<(), ServerError> {
        let url = format!("{}://{}", self.scheme(), self.buyers.address);
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
        let control = Control::new();
        let draining = async {
            stop.cancelled().await;
            drain(&shared, &control).await;
            // The listeners end by themselves.
            std::future::pending::<io::Result<()>>().await
        };
        let served = tokio::select! {
            ended = self.listen(&shared, &control) => ended,
            ended = draining => ended,
        };
        // The next heartbeat removes the server from the consoles.
        drop(figures);
        stop.cancel();
        // If one of the listeners has failed, the other one ends as well.
        control.shutdown();
        // Both end with `stop`; steps may outlive their requests, and the engine still runs.
        let _ = looking.await;
        shared.tasks.close();
        let _ = timeout(shared.answers_within, shared.tasks.wait()).await;
        served.map_err(|error| ServerError::Failed(OsError::of(&error)))
    }

    /// Accepts connections until `control` ends that.
    async fn listen(self, shared: &Shared, control: &Control) -> io::Result<()> {
        let Self { buyers, operators, tls } = self;
        let Routers { all, of_operators } = router::routers(shared, operators.is_some());
        let bounded = Bounded::new(shared, &shared.places);
        let buying = serve(buyers.socket, tls.clone(), all, bounded, shared, control);
        let Some((listener, router)) = operators.zip(of_operators) else { return buying.await };
        let bounded = Bounded::new(shared, &Arc::new(Places::unshared(OPERATORS)));
        let operating = serve(listener.socket, tls, router, bounded, shared, control);
        tokio::try_join!(buying, operating).map(|_| ())
    }
}

async fn serve(
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    router: Router,
    bounded: Bounded,
    shared: &Shared,
    control: &Control,
) -> io::Result<()> {
    let header = Duration::from_millis(shared.settings.header_ms);
    let mut server = axum_server::from_tcp(listener)?
        .http1_only()
        .accept_error_handler(|_, error| tracing::debug!(%error, "a connection failed"))
        .handle(Handle::with_control(control.clone()));
    server.http_builder().http1().header_read_timeout(header).max_buf_size(HEADER_BYTES);
    let endpoints = router.into_make_service_with_connect_info::<SocketAddr>();
    match tls {
        None => server.acceptor(bounded).serve(endpoints).await,
        Some(config) => {
            let tls = RustlsAcceptor::new(config).handshake_timeout(header).acceptor(bounded);
            server.acceptor(tls).serve(endpoints).await
        }
    }
}

/// Accepts no more connections, and closes each once it has no request in progress. A client that does not read its answer,
/// or does not end its request, delays the end only for a moment.
async fn drain(shared: &Shared, control: &Control) {
    control.graceful_shutdown(None);
    shared.requests.close();
    let answered = async {
        loop {
            shared.requests.wait().await;
            sleep(LEAVES_WITHIN).await;
            if shared.requests.is_empty() {
                return;
            }
        }
    };
    let _ = timeout(shared.answers_within, answered).await;
    control.shutdown();
}

/// Unlike the listener of the standard library, with room for a crowd that connects at once.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}
