//! A status of gRPC as an answer of HTTP: `{"code": "not_found", "message": "...", "details": [...]}`.
//!
//! Details are those of `google.rpc`: each with its type, its bytes (base64), and in `debug` what people and programs
//! without the schema can read.
//!
//! Source: the Connect protocol reference, "Error Codes" and "Error End-Stream".

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use prost::Message as _;
use serde_json::{Map, Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetail, StatusExt as _};

/// The name of a code, and the status of HTTP for it.
const fn words(code: Code) -> (&'static str, StatusCode) {
    match code {
        // No failure has this code.
        Code::Ok | Code::Unknown => ("unknown", StatusCode::INTERNAL_SERVER_ERROR),
        // 499 has no name in the crate `http`; no answer of ours has this code.
        Code::Cancelled => ("canceled", StatusCode::REQUEST_TIMEOUT),
        Code::InvalidArgument => ("invalid_argument", StatusCode::BAD_REQUEST),
        Code::DeadlineExceeded => ("deadline_exceeded", StatusCode::GATEWAY_TIMEOUT),
        Code::NotFound => ("not_found", StatusCode::NOT_FOUND),
        Code::AlreadyExists => ("already_exists", StatusCode::CONFLICT),
        Code::PermissionDenied => ("permission_denied", StatusCode::FORBIDDEN),
        Code::ResourceExhausted => ("resource_exhausted", StatusCode::TOO_MANY_REQUESTS),
        Code::FailedPrecondition => ("failed_precondition", StatusCode::BAD_REQUEST),
        Code::Aborted => ("aborted", StatusCode::CONFLICT),
        Code::OutOfRange => ("out_of_range", StatusCode::BAD_REQUEST),
        Code::Unimplemented => ("unimplemented", StatusCode::NOT_IMPLEMENTED),
        Code::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR),
        Code::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
        Code::DataLoss => ("data_loss", StatusCode::INTERNAL_SERVER_ERROR),
        Code::Unauthenticated => ("unauthenticated", StatusCode::UNAUTHORIZED),
    }
}

/// The status as JSON.
#[must_use]
pub fn json_of(status: &Status) -> Value {
    let mut error = Map::new();
    error.insert("code".to_owned(), words(status.code()).0.into());
    error.insert("message".to_owned(), status.message().into());
    let bytes = tonic_types::pb::Status::decode(status.details()).map(|status| status.details);
    let known = status.get_error_details_vec();
    let details: Vec<Value> = bytes.unwrap_or_default().iter().zip(known).map(|(any, known)| {
        let kind = any.type_url.rsplit('/').next().unwrap_or_default();
        json!({ "type": kind, "value": STANDARD_NO_PAD.encode(&any.value), "debug": debug(&known) })
    }).collect();
    if !details.is_empty() {
        error.insert("details".to_owned(), details.into());
    }
    Value::Object(error)
}

/// The status of HTTP for a code.
pub(crate) const fn http_status(code: Code) -> StatusCode {
    words(code).1
}

/// The status as a whole answer.
#[must_use]
pub fn answer(status: &Status) -> Response<Body> {
    of_json(words(status.code()).1, &json_of(status))
}

/// The answer to a request that is no call, in the same form as the status of one.
#[must_use]
pub fn of_http(status: StatusCode, message: &str) -> Response<Body> {
    // Code of the Connect protocol, where a status of HTTP has none of ours.
    let code = match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "unimplemented",
        StatusCode::REQUEST_TIMEOUT => "deadline_exceeded",
        StatusCode::MISDIRECTED_REQUEST => "permission_denied",
        _ => "invalid_argument",
    };
    let mut response = of_json(status, &json!({ "code": code, "message": message }));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

fn of_json(status: StatusCode, json: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(json.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What a detail says, as the JSON of its message.
fn debug(detail: &ErrorDetail) -> Value {
    match detail {
        ErrorDetail::BadRequest(bad) => {
            let one = |field: &tonic_types::FieldViolation| json!({ "field": field.field, "description": field.description });
            json!({ "fieldViolations": bad.field_violations.iter().map(one).collect::<Vec<_>>() })
        }
        ErrorDetail::ErrorInfo(info) => {
            let metadata: std::collections::BTreeMap<_, _> = info.metadata.iter().collect();
            json!({ "reason": info.reason, "domain": info.domain, "metadata": metadata })
        }
        ErrorDetail::ResourceInfo(info) => json!({
            "resourceType": info.resource_type,
            "resourceName": info.resource_name,
            "owner": info.owner,
            "description": info.description,
        }),
        ErrorDetail::PreconditionFailure(failure) => {
            let one = |one: &tonic_types::PreconditionViolation| json!({ "type": one.r#type, "subject": one.subject, "description": one.description });
            json!({ "violations": failure.violations.iter().map(one).collect::<Vec<_>>() })
        }
        ErrorDetail::QuotaFailure(failure) => {
            let one = |one: &tonic_types::QuotaViolation| json!({ "subject": one.subject, "description": one.description });
            json!({ "violations": failure.violations.iter().map(one).collect::<Vec<_>>() })
        }
        ErrorDetail::RetryInfo(info) => {
            let delay = info.retry_delay.map(|delay| format!("{}s", delay.as_secs_f64()));
            json!({ "retryDelay": delay })
        }
        // Nothing of ours has other details.
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_status_is_told_with_its_details() {
        let details = ErrorDetails::with_bad_request_violation("sites[0].cpus", "0 is not allowed");
        let status = Status::with_error_details(Code::InvalidArgument, "a mistake", details);
        let json = json_of(&status);
        assert_eq!(json["code"], "invalid_argument");
        assert_eq!(json["details"][0]["type"], "google.rpc.BadRequest");
        let field = &json["details"][0]["debug"]["fieldViolations"][0];
        assert_eq!(field["field"], "sites[0].cpus");
        let bytes = json["details"][0]["value"].as_str().unwrap();
        assert!(STANDARD_NO_PAD.decode(bytes).is_ok_and(|bytes| !bytes.is_empty()));
        assert_eq!(answer(&status).status(), StatusCode::BAD_REQUEST);
        assert_eq!(json_of(&Status::not_found("x")), json!({"code": "not_found", "message": "x"}));
    }
}
