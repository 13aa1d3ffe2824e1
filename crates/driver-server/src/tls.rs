//! Encrypted connections. The server's certificate is always checked.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, ContentType, RootCertStore, crypto};

use crate::address::{CHECK, HostPort, Target};
use crate::failure::Failure;
use crate::servers::optional;
use crate::timers::Deadline;

/// The option `tls`.
pub const TLS: OptionDoc = OptionDoc {
    name: "tls",
    meaning: "Whether connections are encrypted and the server's certificate is checked.",
    accepts: Accepts::SWITCH,
    default: Some("false"),
};

/// The option `cert_file`.
pub const CERT_FILE: OptionDoc = optional(
    "cert_file",
    "PEM file of the client's own certificate, where the server asks for one; needs tls and \
     key_file.",
    "the path of a file",
);

/// The option `key_file`.
pub const KEY_FILE: OptionDoc =
    optional("key_file", "PEM file of the key to cert_file.", "the path of a file");

/// The option `server_name`.
pub const SERVER_NAME: OptionDoc = optional(
    "server_name",
    "Name that the certificate must be for, in place of the host; needs tls.",
    "a host's name",
);

/// The settings of encryption.
#[derive(Clone)]
pub struct Tls {
    /// The trusted authorities and the client's certificate.
    pub config: Arc<ClientConfig>,
    /// The expected name, in place of the server's host.
    name: Option<ServerName<'static>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tls({:?})", self.name)
    }
}

/// The files and the name from the options.
#[derive(Clone, Copy, Debug)]
pub struct TlsFiles<'a> {
    /// The option `ca_file`.
    pub ca: Option<&'a str>,
    /// The client's certificate and key: the options `cert_file` and `key_file`.
    pub own: Option<(&'a str, &'a str)>,
    /// The option `server_name`.
    pub server_name: Option<&'a str>,
}

impl Tls {
    /// The settings from the options [`TLS`], [`CA_FILE`], [`CERT_FILE`], [`KEY_FILE`] and
    /// [`SERVER_NAME`]; `None` without encryption.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option has no effect or lacks another one, a file is unusable,
    /// or a server has no valid certificate name.
    pub fn given(given: &Given, targets: &[Target]) -> Result<Option<Self>, OpenError> {
        let names = [CA_FILE, CERT_FILE, KEY_FILE, SERVER_NAME].map(|option| option.name);
        let [ca, certificate, key, server_name] = names.map(|name| given.text(name));
        if !given.switch(TLS.name) {
            let idle = names.iter().find(|name| given.text(name).is_some());
            return idle.map_or(Ok(None), |name| {
                let text = format!(
                    "option '{name}' has no effect while 'tls' is 'false': set tls to true or \
                     leave it out"
                );
                Err(OpenError::Option(text))
            });
        }
        if certificate.is_some() != key.is_some() {
            let text = "cert_file and key_file belong together: give both or neither";
            return Err(OpenError::Option(text.to_owned()));
        }
        let tls = Self::new(TlsFiles { ca, own: certificate.zip(key), server_name })?;
        for target in targets {
            tls.name_of(target.host()).map_err(OpenError::Option)?;
        }
        Ok(Some(tls))
    }

    /// Reads the files.
    ///
    /// # Errors
    /// [`OpenError::Option`] if a file is unusable, or the name is invalid.
    pub fn new(files: TlsFiles<'_>) -> Result<Self, OpenError> {
        let name = files.server_name.map(named).transpose().map_err(OpenError::Option)?;
        let config = trusting(roots(files.ca)?);
        let config = match files.own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates("cert_file", certificate)?;
                let secret = PrivateKeyDer::from_pem_file(key);
                let secret = secret.map_err(|error| unusable("key_file", key, &error))?;
                config.with_client_auth_cert(chain, secret).map_err(|error| {
                    OpenError::Option(format!(
                        "the cert_file {certificate} and the key_file {key} don't belong \
                         together ({error}): give a certificate and its own key"
                    ))
                })?
            }
        };
        Ok(Self { config: Arc::new(config), name })
    }

    /// The certificate name of a server with this host; a Unix socket has no host.
    ///
    /// # Errors
    /// A sentence if the name is missing or invalid.
    pub fn name_of(&self, host: Option<&str>) -> Result<ServerName<'static>, String> {
        match (&self.name, host) {
            (Some(name), _) => Ok(name.clone()),
            (None, Some(host)) => named(host),
            (None, None) => {
                Err("a Unix socket has no name for its certificate: give server_name".to_owned())
            }
        }
    }
}

fn trusting(roots: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider serves the default versions of TLS")
        .with_root_certificates(roots)
}

/// Finds out whether a server that can't be used speaks TLS.
#[derive(Clone, Copy, Debug)]
pub struct TlsProbe {
    /// A request without a login that the protocol answers.
    pub request: &'static [u8],
    /// Advice for a server without TLS.
    pub without: &'static str,
    /// Advice for a server with TLS.
    pub with: &'static str,
}

impl TlsProbe {
    /// The failure, with a clear reason if only one of server and client speaks TLS, as the first
    /// byte of an answer to the other kind of request shows.
    pub fn explain(&self, failure: Failure, target: &Target, encrypts: bool) -> Failure {
        let Target::Tcp(place) = target else { return failure };
        let request = if encrypts { self.request.to_vec() } else { client_hello() };
        if !failure.ends_connection() || first_record(place, &request).ok() != Some(!encrypts) {
            return failure;
        }
        let (fact, advice) =
            if encrypts { ("doesn't speak", self.without) } else { ("speaks", self.with) };
        Failure::new(failure.outcome, format!("it {fact} TLS: {advice}"))
    }
}

/// Whether the answer to these bytes begins with a record of TLS.
fn first_record(place: &HostPort, request: &[u8]) -> io::Result<bool> {
    let mut stream = place.connect(Deadline::after(CHECK))?;
    stream.set_read_timeout(Some(CHECK))?;
    stream.write_all(request)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    Ok(matches!(ContentType::from(first[0]), ContentType::Alert | ContentType::Handshake))
}

/// The first message of a client, which names no server.
fn client_hello() -> Vec<u8> {
    let config = Arc::new(trusting(RootCertStore::empty()).with_no_client_auth());
    let name = ServerName::try_from("localhost").expect("the name is valid");
    let mut tls = ClientConnection::new(config, name).expect("the configuration is complete");
    let mut bytes = Vec::new();
    tls.write_tls(&mut bytes).expect("memory accepts every byte");
    bytes
}

fn named(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| format!("no certificate can be for '{name}': give server_name"))
}

/// The option `ca_file`.
pub const CA_FILE: OptionDoc = optional(
    "ca_file",
    "PEM file of the authorities to trust in place of the machine's own; needs tls.",
    "the path of a file",
);

/// The authorities of [`CA_FILE`], or else those of the machine.
///
/// # Errors
/// [`OpenError::Option`] if the file is unusable, or the machine has no trusted authority.
pub fn roots(ca_file: Option<&str>) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca_file {
        for certificate in certificates(CA_FILE.name, path)? {
            roots.add(certificate).map_err(|error| unusable(CA_FILE.name, path, &error))?;
        }
        return Ok(roots);
    }
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let text = "this machine trusts no certificate authority: give ca_file";
        return Err(OpenError::Option(text.to_owned()));
    }
    Ok(roots)
}

/// Advice for a certificate that the TLS library rejects with this text; empty for other texts.
pub fn advice(refusal: &str) -> &'static str {
    let known = [
        ("UnknownIssuer", ": give ca_file, the authority that signed it"),
        // An authority of the same name, with another key.
        ("BadSignature", ": give ca_file, the authority that signed it"),
        ("certificate not valid for name", ": give server_name, a name that it is for"),
    ];
    known.iter().find(|(error, _)| refusal.contains(error)).map_or("", |(_, advice)| advice)
}

/// The certificates in the PEM file of an option, at least one.
///
/// # Errors
/// [`OpenError::Option`] if the file is unusable.
pub fn certificates(option: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = found.map_err(|error| unusable(option, path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(option, path, &"no certificate in it"));
    }
    Ok(certificates)
}

fn unusable(option: &str, path: &str, why: &dyn fmt::Display) -> OpenError {
    OpenError::Option(format!("the {option} {path} can't be used ({why}): give a PEM file"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_file_of_authorities_replaces_those_of_the_machine() {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = file(&own.cert.pem().repeat(2));
        assert_eq!(roots(file.path().to_str()).unwrap().len(), 2);
    }

    #[test]
    fn a_file_without_certificates_is_rejected() {
        let empty = file("no certificate");
        let empty = empty.path().to_str().unwrap();
        for (path, why) in [(empty, "no certificate in it"), ("nowhere", "")] {
            let error = roots(Some(path)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the ca_file {path} can't be used ({why}")));
            assert!(error.ends_with("): give a PEM file"), "{error}");
        }
    }
}
