//! The trusted authorities, against which a server's certificate is checked.

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, OptionDoc};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// The option `ca_file`.
pub const CA_FILE: OptionDoc = OptionDoc {
    name: "ca_file",
    meaning: "PEM file of the authorities to trust in place of the machine's own; needs tls.",
    accepts: Accepts::Text("the path of a file"),
    default: None,
};

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
#[must_use]
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

fn unusable(option: &str, path: &str, why: &dyn std::fmt::Display) -> OpenError {
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
