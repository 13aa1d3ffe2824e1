//! Encrypted connections. A node's certificate is always checked, for the node's address or for one
//! configured name of all nodes.

use std::sync::Arc;

use kvmark_driver::OpenError;
use kvmark_driver_server::roots;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, crypto};

/// The settings of encryption.
pub(crate) fn config(
    authorities: Option<&str>,
    name: Option<&str>,
) -> Result<Arc<ClientConfig>, OpenError> {
    let roots = Arc::new(roots(authorities)?);
    let provider = Arc::new(crypto::ring::default_provider());
    let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .expect("there are roots, and no invalid revocation lists");
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
    Ok(Arc::new(config))
}

/// Checks certificates for one name instead of the node's address.
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
