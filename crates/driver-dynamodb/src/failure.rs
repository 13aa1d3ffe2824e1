//! Error responses as failures of an operation.

pub(crate) use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;
use serde::Deserialize;

/// The name of the error of a missing table.
pub(crate) const MISSING_TABLE: &str = "ResourceNotFoundException";

/// The body of an error response.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(rename = "__type", default)]
    name: String,
    #[serde(alias = "Message", default)]
    message: String,
}

/// Whether the body of a response is an error, which a server may send with any status.
pub(crate) fn is_error(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|Refusal { name, .. }| !name.is_empty())
}

/// Whether an error is that of an update whose record is missing.
pub(crate) fn is_unmet(body: &[u8]) -> bool {
    let Refusal { name, .. } = serde_json::from_slice(body).unwrap_or_default();
    name.ends_with("ConditionalCheckFailedException")
}

/// The failure of a response with an error.
pub(crate) fn refused(status: u16, body: &[u8]) -> Failure {
    let Refusal { name, message } = serde_json::from_slice(body).unwrap_or_default();
    let name = name.rsplit('#').next().unwrap_or_default();
    let outcome = match (name, status) {
        (
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "RequestLimitExceeded",
            _,
        )
        | (_, 429) => Outcome::Overloaded,
        (_, 500..) => Outcome::Unavailable,
        _ => Outcome::Refused,
    };
    if name.is_empty() {
        return Failure::new(outcome, format!("the server answered with status {status}"));
    }
    if ["Signature", "Token", "UnrecognizedClient"].iter().any(|part| name.contains(part)) {
        // Such a message may repeat the signed request.
        let advice = ": check the access key, the region and this machine's clock";
        return Failure::answered(outcome, name.as_bytes(), advice);
    }
    Failure::answered(outcome, format!("{name}: {message}").as_bytes(), "")
}
