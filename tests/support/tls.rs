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
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
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
/// Poll interval of both sides.
const TURN: Duration = Duration::from_millis(2);

/// A client of HTTP servers that trusts [`AUTHORITY`].
pub fn http_client() -> Client {
    // reqwest is built without a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authority = Certificate::from_pem(AUTHORITY.as_bytes()).unwrap();
    Client::builder().no_proxy().tls_certs_only([authority]).build().unwrap()
}

/// Listens on a loopback port for the lifetime of the process, with a certificate for localhost
/// signed by [`AUTHORITY`], and forwards to the socket.
pub fn encrypted(socket: &Path) -> u16 {
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap(),
            )
            .unwrap();
    let (config, socket) = (Arc::new(config), socket.to_path_buf());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for outside in listener.incoming().flatten() {
            let (config, socket) = (Arc::clone(&config), socket.clone());
            std::thread::spawn(move || pass(outside, config, socket));
        }
    });
    port
}

/// Ends when either side closes.
fn pass(outside: TcpStream, config: Arc<ServerConfig>, socket: PathBuf) -> Option<()> {
    let mut inside = UnixStream::connect(socket).ok()?;
    outside.set_read_timeout(Some(TURN)).ok()?;
    inside.set_read_timeout(Some(TURN)).ok()?;
    let closing = outside.try_clone().ok()?;
    let mut outside = StreamOwned::new(ServerConnection::new(config).ok()?, outside);
    while copy(&mut outside, &mut inside).and_then(|()| copy(&mut inside, &mut outside)).is_ok() {}
    closing.shutdown(Shutdown::Both).ok()
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
