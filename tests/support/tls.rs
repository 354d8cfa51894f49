//! A TLS proxy for a plain server: Debian's Redis is built without TLS.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::{Certificate, Client};
use rustls::{
    ConfigBuilder, RootCertStore, ServerConfig, ServerConnection, StreamOwned, WantsVerifier,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{WantsServerCert, WebPkiClientVerifier},
};

/// A test CA, valid for a century.
pub const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBmDCCAT+gAwIBAgIUX+Xaf9+kmmeb1iNLhGFPPPUXj9cwCgYIKoZIzj0EAwIw
ITEfMB0GA1UEAwwWc2Vja2lsbCB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMjIxMzE0
MzlaGA8yMTI2MTAyOTEzMTQzOVowITEfMB0GA1UEAwwWc2Vja2lsbCB0ZXN0IGF1
dGhvcml0eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABA9qda54TaX5FiQTsRvl
4KWEzYFr0kq2pZJSUDFQ9bPxxAQ9SaS1uQPZF6PZoLGusNQeRBy0GyMECaZdlpkf
zISjUzBRMB0GA1UdDgQWBBQE1skeRensQ4Yf0awnPzxwp5vN+TAfBgNVHSMEGDAW
gBQE1skeRensQ4Yf0awnPzxwp5vN+TAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49
BAMCA0cAMEQCICzVM0IrCSwwHTgImfI7wowbBub5efblLsEBhJaYvIwpAiABpwpk
nEzYfwLGwApOBMnQzC4N4WX3OSvKJhvyDAnj+Q==
-----END CERTIFICATE-----
";
/// A certificate for localhost, signed by [`AUTHORITY`].
pub const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBtzCCAV2gAwIBAgIUTPnw+XzCLxZXdjzAq+5T/yUfBCMwCgYIKoZIzj0EAwIw
ITEfMB0GA1UEAwwWc2Vja2lsbCB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMjIxMzE0
MzlaGA8yMTI2MTAyOTEzMTQzOVowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYH
KoZIzj0CAQYIKoZIzj0DAQcDQgAEnw2yvsswBjzh2tVnFn4OGAkgWnRCfJTHx8jA
mHeQj8uHoRynUf51F1sg2hxbgw61qU1GSkctB8l4NRoYd8AxD6N+MHwwGgYDVR0R
BBMwEYIJbG9jYWxob3N0hwR/AAABMAkGA1UdEwQCMAAwEwYDVR0lBAwwCgYIKwYB
BQUHAwEwHQYDVR0OBBYEFJmjat2/3haGSn9cxNSfYXIm/AJOMB8GA1UdIwQYMBaA
FATWyR5F6exDhh/RrCc/PHCnm835MAoGCCqGSM49BAMCA0gAMEUCIEr4F4pwqFjy
cU/G1dYzyI3N+FJ1Vs3zqI7dEp0HFWSyAiEA2MD60QVG18TdsyBmVpCL8L93Gr1U
7wWyQGCR5jJuiyY=
-----END CERTIFICATE-----
";
/// Its key.
pub const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVBZ6G79S6p5ZkmDj
3esvwcqfMGOMRpDMyxRW9d5071ahRANCAASfDbK+yzAGPOHa1WcWfg4YCSBadEJ8
lMfHyMCYd5CPy4ehHKdR/nUXWyDaHFuDDrWpTUZKRy0HyXg1Ghh3wDEP
-----END PRIVATE KEY-----
";
/// The CA of clients, valid for a century.
pub const CLIENT_AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBljCCATugAwIBAgIUSsYfN/71vifF43jFYPFYSBzAFukwCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUc2Vja2lsbCB0ZXN0IGNsaWVudHMwIBcNMjYxMTI5MTMxMzU0
WhgPMjEyNjExMDUxMzEzNTRaMB8xHTAbBgNVBAMMFHNlY2tpbGwgdGVzdCBjbGll
bnRzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEt+HekDdoFmYHT+ywfDIXkAvC
XSsEFzM8tFuvBgBFbHwg3+Hml7yzhS03YfT6LLCJUQkW/8PZP13+Fdd/UG9jm6NT
MFEwHQYDVR0OBBYEFF87ID8lXnVQxMHQCSDZ7HeP0Xc0MB8GA1UdIwQYMBaAFF87
ID8lXnVQxMHQCSDZ7HeP0Xc0MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwID
SQAwRgIhAOOSTqtjATUdWDdzvgpBJM+q6+UkKNO7e5Sbg2j4xy8QAiEAswMq6mHW
XQjj4wVCCqt4BCgYbYGlBvd0MBdfgqDqvZs=
-----END CERTIFICATE-----
";
/// A certificate of a client, signed by it.
pub const CLIENT_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBljCCAT2gAwIBAgIUaotRN7vQs1/iFJGnLO6tAaSpJ9kwCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUc2Vja2lsbCB0ZXN0IGNsaWVudHMwIBcNMjYxMTI5MTMxMzU0
WhgPMjEyNjExMDUxMzEzNTRaMBIxEDAOBgNVBAMMB3NlY2tpbGwwWTATBgcqhkjO
PQIBBggqhkjOPQMBBwNCAARA+rpVKXybCyXjr0CUUJ31M3FNWajL3/FM4zezmaYK
jZz7vEsUgX3czitfnQ2vfNvG98wLXWP7mJyimhwpjIGqo2IwYDAJBgNVHRMEAjAA
MBMGA1UdJQQMMAoGCCsGAQUFBwMCMB0GA1UdDgQWBBTNfR7icApsq/PS7gVuAHbA
ojt1ADAfBgNVHSMEGDAWgBRfOyA/JV51UMTB0Akg2ex3j9F3NDAKBggqhkjOPQQD
AgNHADBEAiBulib8hyhPxMnqnDrjZRDY+v9T/jbSAd9OPBXykue74gIgHrIUJ5M+
9m5eLAE0mC32hftIDrFUwyvVYEvW4XZZx4o=
-----END CERTIFICATE-----
";
/// Its key.
pub const CLIENT_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg33mYSCVrVVk3+daW
o072tJbfnoSGonzks4Jlg6uNq3ehRANCAARA+rpVKXybCyXjr0CUUJ31M3FNWajL
3/FM4zezmaYKjZz7vEsUgX3czitfnQ2vfNvG98wLXWP7mJyimhwpjIGq
-----END PRIVATE KEY-----
";
/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 22;
/// Poll interval of both sides.
const TURN: Duration = Duration::from_millis(2);

/// A client of HTTP servers that trusts [`AUTHORITY`].
pub fn http_client() -> Client {
    // reqwest is built without a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authority = Certificate::from_pem(AUTHORITY.as_bytes()).unwrap();
    Client::builder().no_proxy().tls_certs_only([authority]).build().unwrap()
}

/// A server behind a proxy.
#[derive(Clone, Debug)]
pub enum Behind {
    Socket(PathBuf),
    Port(u16),
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Behind {
    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TURN))?;
                Ok(Box::new(stream))
            }
            Self::Port(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_read_timeout(Some(TURN))?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Listens on a loopback port for the lifetime of the process, with a certificate for localhost
/// signed by [`AUTHORITY`], and forwards to the socket.
pub fn encrypted(socket: &Path) -> u16 {
    forward(Behind::Socket(socket.to_owned()), config().with_no_client_auth())
}

/// The same for clients with a certificate like [`CLIENT_CERTIFICATE`]; connections without TLS are
/// forwarded as they are, as those of a sentinel to the server that it watches.
pub fn encrypted_for_clients(server: Behind) -> u16 {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CLIENT_AUTHORITY.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    forward(server, config().with_client_cert_verifier(clients.build().unwrap()))
}

fn config() -> ConfigBuilder<ServerConfig, WantsVerifier> {
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
}

fn forward(server: Behind, config: ConfigBuilder<ServerConfig, WantsServerCert>) -> u16 {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let config = Arc::new(config.with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for outside in listener.incoming().flatten() {
            let (config, server) = (Arc::clone(&config), server.clone());
            std::thread::spawn(move || pass(outside, config, &server));
        }
    });
    port
}

/// Ends when either side closes.
fn pass(mut outside: TcpStream, config: Arc<ServerConfig>, server: &Behind) -> Option<()> {
    let mut inside = server.connect().ok()?;
    let mut first = [0];
    outside.peek(&mut first).ok()?;
    outside.set_read_timeout(Some(TURN)).ok()?;
    let closing = outside.try_clone().ok()?;
    if first == [HANDSHAKE] {
        let mut outside = StreamOwned::new(ServerConnection::new(config).ok()?, outside);
        exchange(&mut outside, &mut inside);
        // With the alert, if the client was not accepted.
        let _ = outside.conn.complete_io(&mut outside.sock);
    } else {
        exchange(&mut outside, &mut inside);
    }
    closing.shutdown(Shutdown::Both).ok()
}

fn exchange(outside: &mut impl Stream, inside: &mut impl Stream) {
    while copy(outside, inside).and_then(|()| copy(inside, outside)).is_ok() {}
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut part = [0; 16 * 1024];
    match from.read(&mut part) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(read) => {
            to.write_all(&part[..read])?;
            to.flush()
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
