//! Encrypted connections. The server's certificate is always checked.

use std::sync::Arc;

use kvmark_driver::OpenError;
use kvmark_driver_server::{certificates, roots};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, crypto};

use crate::address::Target;

/// How to encrypt, and for whom a server's certificate must be.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    /// In place of the server's host.
    name: Option<ServerName<'static>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tls({:?})", self.name)
    }
}

/// The files and the name that the options give.
#[derive(Clone, Copy)]
pub(crate) struct TlsFiles<'a> {
    pub(crate) ca: Option<&'a str>,
    /// The client's own certificate and its key.
    pub(crate) own: Option<(&'a str, &'a str)>,
    pub(crate) server_name: Option<&'a str>,
}

impl Tls {
    /// Reads the files. Every target must have a name that a certificate can be for.
    pub(crate) fn new(targets: &[Target], files: TlsFiles<'_>) -> Result<Self, OpenError> {
        let name = files.server_name.map(named).transpose().map_err(OpenError::Option)?;
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider serves the default versions of TLS")
            .with_root_certificates(roots(files.ca)?);
        let config = match files.own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let (chain, secret) = (certificates("cert_file", certificate)?, own_key(key)?);
                config.with_client_auth_cert(chain, secret).map_err(|error| {
                    OpenError::Option(format!(
                        "the cert_file {certificate} and the key_file {key} don't belong \
                         together ({error}): give a certificate and its own key"
                    ))
                })?
            }
        };
        let tls = Self { connector: TlsConnector::from(Arc::new(config)), name };
        for target in targets {
            tls.name_of(target).map_err(OpenError::Option)?;
        }
        Ok(tls)
    }

    /// For whom a server's certificate must be.
    pub(crate) fn name_of(&self, target: &Target) -> Result<ServerName<'static>, String> {
        match (&self.name, target) {
            (Some(name), _) => Ok(name.clone()),
            (None, Target::Tcp(place)) => named(&place.host),
            (None, Target::Unix(_)) => {
                Err("a Unix socket has no name for its certificate: give server_name".to_owned())
            }
        }
    }
}

fn named(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| format!("no certificate can be for '{name}': give server_name"))
}

/// What the file holds is never shown.
fn own_key(path: &str) -> Result<PrivateKeyDer<'static>, OpenError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        OpenError::Option(format!("the key_file {path} can't be used ({error}): give a PEM file"))
    })
}
