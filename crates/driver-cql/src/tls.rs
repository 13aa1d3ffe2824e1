//! Encrypted connections. A node's certificate is always checked: for the node's address, as the
//! driver crate does, or for a name that stands for all of them.

use std::sync::Arc;

use kvmark_driver::OpenError;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, crypto,
};

/// How to encrypt, and whom to trust.
#[derive(Clone, Debug)]
pub(crate) struct Tls(pub(crate) Arc<ClientConfig>);

impl Tls {
    pub(crate) fn new(authorities: Option<&str>, name: Option<&str>) -> Result<Self, OpenError> {
        let roots = Arc::new(match authorities {
            Some(path) => from_file(path)?,
            None => from_machine()?,
        });
        let provider = Arc::new(crypto::ring::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .expect("there are roots, and no revocation lists that could be wrong");
        let verifier: Arc<dyn ServerCertVerifier> = match name {
            None => inner,
            Some(name) => Arc::new(Named { name: server_name(name)?, inner }),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider serves the default versions of TLS")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

/// Checks as usual, but for one name whatever the node's address is.
#[derive(Debug)]
struct Named {
    name: ServerName<'static>,
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.inner.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, OpenError> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        OpenError::Option(format!("no certificate can be for '{name}': give another server_name"))
    })
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
