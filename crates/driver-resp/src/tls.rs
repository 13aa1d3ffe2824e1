//! Encrypted connections. The server's certificate is always checked.

use std::sync::Arc;

use kvmark_driver::OpenError;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::address::Target;

/// How to encrypt, and for whom the server's certificate must be.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tls({:?})", self.name)
    }
}

impl Tls {
    pub(crate) fn new(
        target: &Target,
        authorities: Option<&str>,
        name: Option<&str>,
    ) -> Result<Self, OpenError> {
        let name = match (name, target) {
            (Some(name), _) => name.to_owned(),
            (None, Target::Tcp { host, .. }) => host.clone(),
            (None, Target::Unix(_)) => {
                let text = "a Unix socket has no name for its certificate: give server_name";
                return Err(OpenError::Option(text.to_owned()));
            }
        };
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            OpenError::Option(format!("no certificate can be for '{name}': give server_name"))
        })?;
        let roots = match authorities {
            Some(path) => from_file(path)?,
            None => from_machine()?,
        };
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider serves the default versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

fn from_file(path: &str) -> Result<RootCertStore, OpenError> {
    let unusable = |why: String| {
        OpenError::Option(format!("the ca_file {path} can't be used ({why}): give a PEM file"))
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("it holds no certificate".to_owned())) } else { Ok(roots) }
}

fn from_machine() -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let text = "this machine trusts no certificate authority: give ca_file";
        return Err(OpenError::Option(text.to_owned()));
    }
    Ok(roots)
}
