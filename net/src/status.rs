//! Errors to gRPC status, in one place; and what a failed call says about its effect.
//!
//! Left out: refusals, which are answers and not errors (`convert`).

use std::collections::HashMap;
use std::time::Duration;

use coalloc_common::{CoordinatorName, InvalidField, Span, plain_text};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The domain in which the reasons of `google.rpc.ErrorInfo` are unique: this program.
pub const DOMAIN: &str = "coalloc";
/// How long a client should wait before it retries, when the daemon is busy.
const BUSY_RETRY: Duration = Duration::from_millis(200);
/// How long a client should wait before it retries, when the disk is full.
const DISK_RETRY: Duration = Duration::from_secs(60);
/// How long a client should wait before it retries, when the daemon is stopping and will be started again.
const STOPPING_RETRY: Duration = Duration::from_secs(2);
/// How long a client should wait before it retries, when the daemon waits for another one.
const WAITING_RETRY: Duration = Duration::from_secs(1);

/// A status with `google.rpc.ErrorInfo`, which has the reason for programs, added to `details`.
/// The text may repeat what the caller sent; it is on one line. The details keep everything as it was sent.
fn with_reason(
    code: Code,
    reason: &str,
    about: &[(&str, &str)],
    text: impl Into<String>,
    mut details: ErrorDetails,
) -> Status {
    let pairs = about.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    details.set_error_info(reason, DOMAIN, pairs.collect::<HashMap<_, _>>());
    let text = text.into();
    Status::with_error_details(code, plain_text::one_line(&text), details)
}

/// INVALID_ARGUMENT with `google.rpc.BadRequest`: a value is not allowed. The details have field, value and allowed range. Nothing
/// was done.
#[must_use]
pub fn invalid(error: &InvalidField) -> Status {
    let text = error.problem();
    let details = ErrorDetails::with_bad_request_violation(error.field.clone(), text);
    let about = [("field", error.field.as_str())];
    with_reason(Code::InvalidArgument, "INVALID_FIELD", &about, error.to_string(), details)
}

/// INVALID_ARGUMENT with `google.rpc.BadRequest`: a request that came as text is not a message of its method. `field` is empty
/// when no field is to blame. Nothing was done.
#[must_use]
pub fn invalid_message(line: u64, field: &str, problem: &str) -> Status {
    let details = ErrorDetails::with_bad_request_violation(field, problem);
    let place = if field.is_empty() { String::new() } else { format!("{field}: ") };
    let text = format!("line {line} of the request: {place}{problem}");
    with_reason(Code::InvalidArgument, "INVALID_FIELD", &[("field", field)], text, details)
}

/// UNIMPLEMENTED: the caller needs something that this release does not know. Nothing was done.
#[must_use]
pub fn unsupported(unknown: &[String], program: &str, protocol: u32) -> Status {
    let words = unknown.join(", ");
    let text = format!(
        "the call needs {words}, which this release ({program}, protocol {protocol}) does not know; nothing was done"
    );
    let protocol = protocol.to_string();
    let about = [("unknown", words.as_str()), ("program", program), ("protocol", &protocol)];
    with_reason(Code::Unimplemented, "UNSUPPORTED", &about, text, ErrorDetails::new())
}

/// NOT_FOUND with `google.rpc.ResourceInfo`: there is nothing of this name or id here.
#[must_use]
pub fn not_found(kind: &str, name: &str) -> Status {
    let text = format!("there is no {kind} {name:?} here");
    let details = ErrorDetails::with_resource_info(kind, name, "", text.clone());
    with_reason(Code::NotFound, "NOT_FOUND", &[(kind, name)], text, details)
}

/// NOT_FOUND with `google.rpc.ResourceInfo`: no calendar is at the address with this secret, any more or at all.
#[must_use]
pub fn no_calendar() -> Status {
    let text = "there is no calendar at this address; its owner can make a new one";
    let details = ErrorDetails::with_resource_info("calendar", "", "", text);
    with_reason(Code::NotFound, "NO_CALENDAR", &[], text, details)
}

/// ALREADY_EXISTS with `google.rpc.ResourceInfo`: an id was sent again with other content.
#[must_use]
pub fn other_content(kind: &str, id: &str) -> Status {
    let text = format!(
        "the id {id:?} was used before for another {kind}, by you or by somebody else; use a new id"
    );
    let details = ErrorDetails::with_resource_info(kind, id, "", text.clone());
    with_reason(Code::AlreadyExists, "OTHER_CONTENT", &[(kind, id)], text, details)
}

/// PERMISSION_DENIED: the caller may not make this call, or not about this. Nothing was done.
#[must_use]
pub fn denied(text: impl Into<String>) -> Status {
    let (code, details) = (Code::PermissionDenied, ErrorDetails::new());
    with_reason(code, "NOT_ALLOWED", &[], text, details)
}

/// UNAUTHENTICATED: the caller has not proven who it is.
#[must_use]
pub fn unauthenticated(text: impl Into<String>) -> Status {
    let (code, details) = (Code::Unauthenticated, ErrorDetails::new());
    with_reason(code, "NO_IDENTITY", &[], text, details)
}

/// RESOURCE_EXHAUSTED with `google.rpc.RetryInfo`: nothing was done, and the same call may be retried.
#[must_use]
pub fn busy() -> Status {
    let details = ErrorDetails::with_retry_info(Some(BUSY_RETRY));
    let text = "too many calls are waiting; nothing was done, send the call again";
    with_reason(Code::ResourceExhausted, "BUSY", &[], text, details)
}

/// RESOURCE_EXHAUSTED with `google.rpc.RetryInfo` and `google.rpc.QuotaFailure`: the user has made more calls than its
/// quota of `most` a second allows. Nothing was done.
#[must_use]
pub fn too_many_calls(user: &str, most: u32, retry_after: Span) -> Status {
    let mut details = ErrorDetails::with_retry_info(Some(retry_after.to_std()));
    let text = format!(
        "user {user} makes more than its {most} calls a second: nothing was done, send the call again in {retry_after}"
    );
    details.add_quota_failure_violation(format!("user:{user}"), text.clone());
    let most = most.to_string();
    let about = [("user", user), ("calls_per_second_max", most.as_str())];
    with_reason(Code::ResourceExhausted, "TOO_MANY_CALLS", &about, text, details)
}

/// RESOURCE_EXHAUSTED with `google.rpc.RetryInfo`: the disk is nearly full. Nothing was done or recorded.
#[must_use]
pub fn disk_full(what: &str) -> Status {
    let details = ErrorDetails::with_retry_info(Some(DISK_RETRY));
    let text = format!(
        "the coordinator's disk is nearly full: {what}; existing reservations are not affected. An \
         operator has to free disk space; the same id may be sent again then"
    );
    with_reason(Code::ResourceExhausted, "DISK_FULL", &[], text, details)
}

/// UNAVAILABLE with `google.rpc.RetryInfo`: the daemon is stopping. Nothing was done.
#[must_use]
pub fn stopping() -> Status {
    let details = ErrorDetails::with_retry_info(Some(STOPPING_RETRY));
    let text = "this daemon is stopping; nothing was done, send the call again later";
    with_reason(Code::Unavailable, "STOPPING", &[], text, details)
}

/// The reason, for programs, of a status which says that the process stands by.
const STANDBY: &str = "STANDBY";

/// UNAVAILABLE with `google.rpc.RetryInfo`: the process stands by. `leader` is the name of the member that leads, and its address.
#[must_use]
pub fn standby(leader: Option<(&str, &str)>) -> Status {
    let details = ErrorDetails::with_retry_info(Some(WAITING_RETRY));
    let (text, about) = match &leader {
        Some((member, address)) => (
            format!("this process stands by; {member} leads, at {address}: send the call there"),
            vec![("leader", *member), ("address", *address)],
        ),
        None => {
            let text = "this process stands by, and no other one leads now; send the call again";
            (text.to_owned(), Vec::new())
        }
    };
    with_reason(Code::Unavailable, STANDBY, &about, text, details)
}

/// Whether a process has answered that it stands by.
#[must_use]
pub fn is_standby(status: &Status) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.domain == DOMAIN && info.reason == STANDBY)
}

/// UNAVAILABLE with `google.rpc.RetryInfo`: this process has led, and does not know whether it still does.
#[must_use]
pub fn lease_uncertain() -> Status {
    let details = ErrorDetails::with_retry_info(Some(WAITING_RETRY));
    let text = "etcd has not renewed the lease of this process in time, so another one may lead now. It is not known whether \
                the call was carried out; the same may be sent again under the same id: nothing is done twice";
    with_reason(Code::Unavailable, OUTCOME_UNKNOWN, &[], text, details)
}

/// The reason, for programs, of a status which says that the outcome is not known.
const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";

/// UNAVAILABLE with `google.rpc.RetryInfo`: the call broke off after holds may have been sent, so the request
/// may be done or still in progress. The client can ask for it by the id, or safely send the same request
/// again (I8).
#[must_use]
pub fn outcome_unknown(kind: &str, id: &str) -> Status {
    let details = ErrorDetails::with_retry_info(Some(WAITING_RETRY));
    let text = format!(
        "this call broke off; the outcome of {kind} {id:?} is not known, and it may still be in \
         progress. Ask for it by that id, or send the same again under the same id: nothing is \
         done twice"
    );
    with_reason(Code::Unavailable, OUTCOME_UNKNOWN, &[(kind, id)], text, details)
}

/// UNAVAILABLE with `google.rpc.RetryInfo`: the daemon is stopping, and has accepted the call but not answered it. As
/// [`outcome_unknown`], where it is not known which request the call was about.
#[must_use]
pub fn answer_lost() -> Status {
    let details = ErrorDetails::with_retry_info(Some(STOPPING_RETRY));
    let text = "this daemon is stopping; it is not known whether the call was carried out. The \
                same may be sent again under the same id: nothing is done twice";
    with_reason(Code::Unavailable, OUTCOME_UNKNOWN, &[], text, details)
}

/// Whether a status says that the outcome is not known. A status that was made by a transport says so by its
/// code instead; see [`effect`].
#[must_use]
pub fn is_unknown(status: &Status) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.domain == DOMAIN && info.reason == OUTCOME_UNKNOWN)
}

/// UNAVAILABLE with `google.rpc.RetryInfo`: the work broke off before anything was done.
#[must_use]
pub fn broken_off(what: &str) -> Status {
    let details = ErrorDetails::with_retry_info(Some(WAITING_RETRY));
    let text = format!("{what} broke off; nothing was done, send the call again");
    with_reason(Code::Unavailable, "BROKEN_OFF", &[], text, details)
}

/// UNAVAILABLE with `google.rpc.RetryInfo`: a name is not known, but a resource manager that has not answered
/// yet may know it.
#[must_use]
pub fn not_known_yet(error: &InvalidField, silent: &[&str]) -> Status {
    let mut details = ErrorDetails::with_retry_info(Some(WAITING_RETRY));
    let silent = silent.join(", ");
    let text = format!(
        "{}: {} is not known; it may belong to a resource manager that has not answered yet: {silent}",
        error.field, error.value
    );
    details.add_bad_request_violation(error.field.clone(), text.clone());
    let about = [("field", error.field.as_str()), ("resource_managers", silent.as_str())];
    with_reason(Code::Unavailable, "NOT_KNOWN_YET", &about, text, details)
}

/// UNAVAILABLE with `google.rpc.RetryInfo`: no resource manager has answered since the start.
#[must_use]
pub fn nobody_heard(silent: &[&str]) -> Status {
    let details = ErrorDetails::with_retry_info(Some(WAITING_RETRY));
    let silent = silent.join(", ");
    let text = format!("no resource manager has answered since this daemon started: {silent}");
    let about = [("resource_managers", silent.as_str())];
    with_reason(Code::Unavailable, "NOT_KNOWN_YET", &about, text, details)
}

/// FAILED_PRECONDITION with `google.rpc.PreconditionFailure`: the message is meant for another daemon.
#[must_use]
pub fn not_for_us(name: &str, meant: &str) -> Status {
    let text = format!("this is {name}, not {meant}; nothing was done");
    let details = ErrorDetails::with_precondition_failure_violation("IDENTITY", meant, &text);
    let about = [("name", name), ("meant", meant)];
    with_reason(Code::FailedPrecondition, "OTHER_DAEMON", &about, text, details)
}

/// FAILED_PRECONDITION with `google.rpc.PreconditionFailure`: the thing that the call is about is not in a
/// state that allows it.
#[must_use]
pub fn not_now(kind: &str, name: &str, text: impl Into<String>) -> Status {
    let text = text.into();
    let details = ErrorDetails::with_precondition_failure_violation("STATE", name, &text);
    with_reason(Code::FailedPrecondition, "NOT_NOW", &[(kind, name)], text, details)
}

/// FAILED_PRECONDITION with `google.rpc.PreconditionFailure`: the message came from a process that was replaced.
#[must_use]
pub fn older_leader(coordinator: &CoordinatorName, epoch: u64) -> Status {
    let text =
        format!("{coordinator} is led by another process now, in epoch {epoch}; nothing was done");
    let name = coordinator.as_str();
    let details = ErrorDetails::with_precondition_failure_violation("LEADER", name, &text);
    let epoch = epoch.to_string();
    let about = [("coordinator", name), ("epoch", &epoch)];
    with_reason(Code::FailedPrecondition, "OLDER_LEADER", &about, text, details)
}

/// INTERNAL: this program is at fault.
#[must_use]
pub fn internal(text: impl Into<String>) -> Status {
    with_reason(Code::Internal, "INTERNAL", &[], text, ErrorDetails::new())
}

/// FAILED_PRECONDITION with `google.rpc.PreconditionFailure`: `subject` is not as the caller assumes.
#[must_use]
pub fn precondition(kind: &str, subject: &str, text: impl Into<String>) -> Status {
    let text = text.into();
    let details = ErrorDetails::with_precondition_failure_violation(kind, subject, text.clone());
    Status::with_error_details(Code::FailedPrecondition, plain_text::one_line(&text), details)
}

/// What a failed call says about its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The server, a proxy, or whatever else answers at that address turned the call away. An earlier copy of
    /// the same message may still have taken effect.
    Rejected,
    /// It is not known whether the call took effect: it timed out, broke, or met a busy server. The same
    /// message may be sent again, and must be, before anything is concluded.
    Unknown,
}

/// Classifies a failed call. Every status that a transport can produce is [`Effect::Unknown`], whatever the
/// server did: a call that timed out arrives as Cancelled, others as Unavailable or Unknown.
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
        // Another daemon answered at this address; the intended one has not received the call.
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
    fn every_error_has_a_reason_for_programs_and_what_fits_its_code() {
        let field = InvalidField::new("sites[0].pinned_to", "\"N9\"", "N0, N1");
        let cases = [
            (invalid(&field), Code::InvalidArgument, "INVALID_FIELD"),
            (not_found("reservation", "r7"), Code::NotFound, "NOT_FOUND"),
            (other_content("request", "r7"), Code::AlreadyExists, "OTHER_CONTENT"),
            (denied("no"), Code::PermissionDenied, "NOT_ALLOWED"),
            (busy(), Code::ResourceExhausted, "BUSY"),
            (disk_full("nothing was reserved"), Code::ResourceExhausted, "DISK_FULL"),
            (
                too_many_calls("alice", 200, Span::from_millis(5)),
                Code::ResourceExhausted,
                "TOO_MANY_CALLS",
            ),
            (stopping(), Code::Unavailable, "STOPPING"),
            (standby(Some(("b", "127.0.0.1:7"))), Code::Unavailable, "STANDBY"),
            (standby(None), Code::Unavailable, "STANDBY"),
            (lease_uncertain(), Code::Unavailable, "OUTCOME_UNKNOWN"),
            (broken_off("it"), Code::Unavailable, "BROKEN_OFF"),
            (outcome_unknown("request", "r7"), Code::Unavailable, "OUTCOME_UNKNOWN"),
            (answer_lost(), Code::Unavailable, "OUTCOME_UNKNOWN"),
            (not_known_yet(&field, &["crm-N"]), Code::Unavailable, "NOT_KNOWN_YET"),
            (nobody_heard(&["crm-N"]), Code::Unavailable, "NOT_KNOWN_YET"),
            (not_for_us("nrm", "crm"), Code::FailedPrecondition, "OTHER_DAEMON"),
            (not_now("reservation", "r7", "later"), Code::FailedPrecondition, "NOT_NOW"),
            (
                older_leader(&CoordinatorName::composed("grc"), 7),
                Code::FailedPrecondition,
                "OLDER_LEADER",
            ),
            (internal("oh"), Code::Internal, "INTERNAL"),
        ];
        for (status, code, reason) in cases {
            assert_eq!(status.code(), code, "{reason}");
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, DOMAIN));
            let again = matches!(code, Code::Unavailable | Code::ResourceExhausted);
            assert_eq!(details.retry_info().is_some(), again, "{reason}");
            let about = matches!(code, Code::NotFound | Code::AlreadyExists);
            assert_eq!(details.resource_info().is_some(), about, "{reason}");
            let before = code == Code::FailedPrecondition;
            assert_eq!(details.precondition_failure().is_some(), before, "{reason}");
        }
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
