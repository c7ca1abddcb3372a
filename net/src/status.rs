//! Errors to gRPC status, in one place; and what a failed call tells its caller.

use coalloc_common::InvalidField;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// INVALID_ARGUMENT with `google.rpc.BadRequest`: field, value, allowed range. Nothing was done.
#[must_use]
pub fn invalid(error: &InvalidField) -> Status {
    let text = format!("{} is not allowed; allowed: {}", error.value, error.allowed);
    let details = ErrorDetails::with_bad_request_violation(error.field.clone(), text);
    Status::with_error_details(Code::InvalidArgument, error.to_string(), details)
}

/// NOT_FOUND with `google.rpc.ResourceInfo`.
#[must_use]
pub fn not_found(kind: &str, name: &str) -> Status {
    let text = format!("there is no {kind} {name:?} here");
    let details = ErrorDetails::with_resource_info(kind, name, "", text.clone());
    Status::with_error_details(Code::NotFound, text, details)
}

/// ALREADY_EXISTS: an id was sent again with other content.
#[must_use]
pub fn other_content(kind: &str, id: &str) -> Status {
    let text = format!("{kind} {id:?} was sent before with other content; use a new id");
    let details = ErrorDetails::with_resource_info(kind, id, "", text.clone());
    Status::with_error_details(Code::AlreadyExists, text, details)
}

/// PERMISSION_DENIED with a reason.
#[must_use]
pub fn denied(text: impl Into<String>) -> Status {
    Status::permission_denied(text)
}

/// RESOURCE_EXHAUSTED with `google.rpc.RetryInfo`: nothing was done, the same call may be sent again.
#[must_use]
pub fn busy() -> Status {
    let retry = Some(std::time::Duration::from_millis(200));
    let details = ErrorDetails::with_retry_info(retry);
    let text = "too many calls are waiting; nothing was done, send it again";
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

/// UNAVAILABLE: the daemon is stopping.
#[must_use]
pub fn stopping() -> Status {
    Status::unavailable("this daemon is stopping; nothing was done, send it again later")
}

/// FAILED_PRECONDITION with `google.rpc.PreconditionFailure`: `subject` is not as the caller thinks.
#[must_use]
pub fn precondition(kind: &str, subject: &str, text: impl Into<String>) -> Status {
    let text = text.into();
    let details = ErrorDetails::with_precondition_failure_violation(kind, subject, text.clone());
    Status::with_error_details(Code::FailedPrecondition, text, details)
}

/// What a failed call says of its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The server answered that it did nothing, and would answer so again.
    Rejected,
    /// Whether it happened is unknown: the call timed out, broke, or met a busy server. The same
    /// message may be sent again, and must be before anything is concluded.
    Unknown,
}

/// Classifies a failed call. Everything that a transport can produce is [`Effect::Unknown`]: a call
/// that timed out arrives as Cancelled, others as Unavailable or Unknown, whatever the server did.
#[must_use]
pub fn effect(status: &Status) -> Effect {
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::Unimplemented => Effect::Rejected,
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        // Another daemon answered at this address: the one that is meant has not been heard.
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Effect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_carries_field_value_and_range_as_details() {
        let status = invalid(&InvalidField::new("sites[0].cpus", 0, "1 to 10000000 CPUs"));
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_details_bad_request().unwrap();
        assert_eq!(details.field_violations[0].field, "sites[0].cpus");
        assert!(details.field_violations[0].description.contains("1 to 10000000"));
    }

    #[test]
    fn transport_failures_are_never_taken_for_an_answer() {
        let lost = [Code::Cancelled, Code::Unknown, Code::Unavailable, Code::DeadlineExceeded];
        for code in lost {
            assert_eq!(effect(&Status::new(code, "")), Effect::Unknown, "{code:?}");
        }
        assert_eq!(effect(&Status::already_exists("")), Effect::Rejected);
    }
}
