//! Which certificates of https:// servers `seckill rush --http` trusts.

use std::{path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime, pem, pem::PemObject as _},
    server::ParsedCertificate,
};
use seckill_model::{OsError, text};

use crate::{CliError, Result};

/// Trusts only the certificates in the PEM file `ca`, or those of the system.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub(super) fn trusting(ca: Option<&Path>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| CliError::failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        // What cannot be read is not trusted, and the error of the connection says so.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(config.with_root_certificates(roots).with_no_client_auth());
    };
    let unusable =
        |reason: OsError| CliError::usage(text!("cli-rush-tls-ca", path = path.display(), reason));
    let listed: Vec<_> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(
        |error| match error {
            pem::Error::Io(error) => unusable(OsError::of(&error)),
            other => unusable(OsError::Quoted(other.to_string())),
        },
    )?;
    roots.add_parsable_certificates(listed.iter().cloned());
    let chains = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
        .build()
        .map_err(|error| unusable(OsError::Quoted(error.to_string())))?;
    let verifier = Arc::new(Listed { chains, listed });
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Trusts what the listed certificates have signed, and themselves: `openssl req -x509` writes a self-signed
/// certificate as one of an authority, which webpki does not accept from a server.
#[derive(Debug)]
struct Listed {
    chains: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.chains.verify_server_cert(certificate, chain, server, ocsp, now) {
            // webpki has checked the validity period before; it has an error of its own.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.listed.contains(certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, server)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
