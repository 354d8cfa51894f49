//! Which certificates of https:// servers `seckill rush --http` trusts.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem, pem::PemObject as _},
};
use seckill_model::{OsError, text};

use crate::{CliError, Result};

/// Trusts only the certificates in the PEM file `ca`, or those of the system.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub(super) fn trusting(ca: Option<&Path>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CliError::failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        let unusable = |reason: OsError| {
            CliError::usage(text!("cli-rush-tls-ca", path = path.display(), reason))
        };
        let quoted = |error: &dyn std::error::Error| OsError::Quoted(error.to_string());
        let listed = CertificateDer::pem_file_iter(path).map_err(|error| match error {
            pem::Error::Io(error) => unusable(OsError::of(&error)),
            other => unusable(quoted(&other)),
        })?;
        for certificate in listed {
            let certificate = certificate.map_err(|error| unusable(quoted(&error)))?;
            roots.add(certificate).map_err(|error| unusable(quoted(&error)))?;
        }
        if roots.is_empty() {
            return Err(unusable(quoted(&pem::Error::NoItemsFound)));
        }
    } else {
        // What cannot be read is not trusted, and the error of the connection says so.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
