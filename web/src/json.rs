//! `POST /SERVICE/METHOD` with a request in canonical proto3 JSON, answered in the same.
//!
//! A call is turned into the call of gRPC that it stands for, and made by [`LocalServices`]: the messages, the rights and the
//! statuses are the same. What gRPC has in its metadata is here in headers: `Authorization`, `coalloc-needs`, `traceparent`;
//! `Connect-Timeout-Ms` is the deadline.
//!
//! A browser sends `application/json` to another site only if that site agrees, and we never do. A page of another site
//! can therefore call nothing, not even for a reader with a certificate. A stream can be asked for with GET, which a browser
//! sends for any page; there it has to say that it is not for one of another site.
//!
//! Left out: compression, the binary form of messages, and streams of requests.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use bytes::Bytes;
use coalloc_common::limits;
use coalloc_common::suggest::did_you_mean;
use coalloc_net::server::local::LocalServices;
use coalloc_net::status;
use coalloc_proto::file::SpellingMistake;
use coalloc_proto::method::{METHODS, Method};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use tonic::Status;
use tower_service::Service as _;

use crate::listener::WebClient;
use crate::{SERVICES, error, events, host, site};

/// Headers of a request that are metadata of its call.
const METADATA: [&str; 3] = ["coalloc-needs", "traceparent", "tracestate"];
/// The deadline of a call, in milliseconds.
const TIMEOUT: &str = "connect-timeout-ms";
/// Bytes before each message of gRPC: whether it is compressed, and its length.
const FRAME_HEAD: usize = 5;

/// Answers a request for a method.
pub(crate) async fn answer(
    State(services): State<LocalServices>,
    request: Request,
) -> Response<Body> {
    match answered(services, request).await {
        Ok(response) => response,
        Err(Mistake::Status(status)) => error::answer(&status),
        Err(Mistake::Http(status, text)) => error::of_http(status, text.trim_end()),
    }
}

/// Answers a request for anything else: a program in JSON, a person in plain text.
pub(crate) async fn nothing_here(request: Request) -> Response<Body> {
    let path = request.uri().path();
    let guess = nearest_method(path);
    let text = format!(
        "there is nothing at {path:?}; the first page is /, and methods are called with POST \
         /coalloc.v1.Coordinator/METHOD{guess}"
    );
    match request.method() == http::Method::POST || is_json(request.headers(), ACCEPT) {
        true => error::of_http(StatusCode::NOT_FOUND, &text),
        false => plain(StatusCode::NOT_FOUND, text + "\n"),
    }
}

/// `; did you mean Get?`, if the last part of a path is nearly the name of a method that can be called here.
fn nearest_method(path: &str) -> String {
    let callable = METHODS.iter().filter_map(|method| {
        let (service, name) = method.path.trim_start_matches('/').split_once('/')?;
        SERVICES.contains(&service).then_some(name)
    });
    did_you_mean(path.rsplit('/').next().unwrap_or_default(), callable)
}

/// Why a request is not carried out.
#[derive(Debug)]
pub(crate) enum Mistake {
    /// The call ended like this.
    Status(Status),
    /// It is no call.
    Http(StatusCode, String),
}

impl From<Status> for Mistake {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

async fn answered(services: LocalServices, request: Request) -> Result<Response<Body>, Mistake> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let unknown = || {
        let guess = nearest_method(path);
        Status::unimplemented(format!("{path} is no method of this coordinator{guess}"))
    };
    let method = Method::at(path).ok_or_else(unknown)?;
    let client = head.extensions.get::<WebClient>().cloned().unwrap_or_default();
    check_host(&head.headers, client.has_tls)?;
    let is_get = head.method == http::Method::GET && method.streams;
    let message = if is_get {
        if site::is_foreign(&head.headers) {
            // It would learn nothing, but take a place of its reader's watches.
            return Err(Status::permission_denied("a page of another site may not watch").into());
        }
        events::message_of_query(head.uri.query())?
    } else {
        check_is_json_post(&head.method, &head.headers)?;
        read_body(body, method).await?
    };
    let message = if method.streams { events::resumed(&message, &head.headers)? } else { message };
    let message = std::str::from_utf8(&message).map_err(|error| {
        let at = error.valid_up_to();
        status::invalid_message(1, "", &format!("byte {at} is not UTF-8; allowed: JSON in UTF-8"))
    })?;
    let message = method.request(message).map_err(|SpellingMistake { line, field, problem }| {
        status::invalid_message(line, &field, &problem)
    })?;
    let token = head.headers.get(AUTHORIZATION).cloned();
    let mut channel = services.channel(client.proven, token);
    let call = grpc_call(path, &head.headers, &message)?;
    let Ok(answer) = channel.call(call).await;
    if let Some(status) = Status::from_header_map(answer.headers()) {
        // A failed call has no messages; its status stands in the head.
        if status.code() != tonic::Code::Ok {
            return Err(status.into());
        }
    }
    match method.streams {
        true => Ok(events::answer(method, answer.into_body())),
        false => unary(method, answer.into_body()).await,
    }
}

/// The one message of an answer, as JSON.
async fn unary(method: &Method, body: tonic::body::Body) -> Result<Response<Body>, Mistake> {
    let whole = body.collect().await?;
    let status = whole.trailers().and_then(Status::from_header_map);
    if let Some(status) = status.filter(|status| status.code() != tonic::Code::Ok) {
        return Err(status.into());
    }
    let bytes = whole.to_bytes();
    let message = bytes.get(FRAME_HEAD..).unwrap_or_default();
    let json = method.answer(message).map_err(|error| Status::internal(error.to_string()))?;
    let mut response = Response::new(Body::from(json));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The call of gRPC.
pub(crate) fn grpc_call(
    path: &str,
    headers: &HeaderMap,
    message: &[u8],
) -> Result<http::Request<tonic::body::Body>, Mistake> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(FRAME_HEAD + message.len());
    framed.push(0);
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    let body = http_body_util::Full::new(Bytes::from(framed));
    let mut call = http::Request::new(tonic::body::Body::new(body));
    *call.method_mut() = http::Method::POST;
    *call.version_mut() = http::Version::HTTP_2;
    // The path is that of a method, which the schema has.
    *call.uri_mut() = path.parse().map_err(|_| Status::internal("a method without a path"))?;
    let own = call.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    for name in METADATA {
        let name = HeaderName::from_static(name);
        for value in headers.get_all(&name) {
            own.append(name.clone(), value.clone());
        }
    }
    if let Some(timeout) = headers.get(TIMEOUT) {
        let milliseconds = timeout.to_str().ok().and_then(|text| text.parse::<u32>().ok());
        let wrong = || {
            Status::invalid_argument(
                "Connect-Timeout-Ms: allowed: a number of milliseconds up to 4294967295",
            )
        };
        let timeout = Duration::from_millis(milliseconds.ok_or_else(wrong)?.into());
        let mut request = tonic::Request::new(());
        request.set_timeout(timeout);
        own.extend(request.metadata().clone().into_headers());
    }
    Ok(call)
}

fn check_is_json_post(method: &http::Method, headers: &HeaderMap) -> Result<(), Mistake> {
    if method != http::Method::POST {
        let text = "a method is called with POST; one that streams also with GET\n";
        return Err(Mistake::Http(StatusCode::METHOD_NOT_ALLOWED, text.to_owned()));
    }
    if !is_json(headers, CONTENT_TYPE) {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default();
        let text = format!("Content-Type {kind:?} is not allowed; allowed: application/json\n");
        return Err(Mistake::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    Ok(())
}

/// Does a header name JSON as its only kind of content?
fn is_json(headers: &HeaderMap, name: HeaderName) -> bool {
    let kind = headers.get(name).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Checks that a browser has not been led here under a name of somebody else, which over TLS it has checked itself. What the
/// request has in its headers proves nothing: such a page could send it, too.
fn check_host(headers: &HeaderMap, has_tls: bool) -> Result<(), Mistake> {
    if has_tls || host::is_address(headers) {
        return Ok(());
    }
    Err(Mistake::Http(StatusCode::MISDIRECTED_REQUEST, host::WRONG_NAME.to_owned()))
}

/// The bytes of the request, within the bounds of its method and in bounded time.
async fn read_body(body: Body, method: &Method) -> Result<Vec<u8>, Mistake> {
    let most = match method.path.starts_with("/coalloc.v1.Workflows/") {
        true => limits::WORKFLOW_MESSAGE_MAX_BYTES,
        false => limits::MESSAGE_MAX_BYTES,
    };
    // The names of fields and the digits of numbers take more bytes in JSON.
    let most = most.saturating_mul(limits::WEB_JSON_FACTOR);
    let read = axum::body::to_bytes(body, most);
    let late = |_| {
        Mistake::Http(
            StatusCode::REQUEST_TIMEOUT,
            "the request did not arrive in time\n".to_owned(),
        )
    };
    let bytes =
        tokio::time::timeout(limits::WEB_BODY_PATIENCE.to_std(), read).await.map_err(late)?;
    let large = |_| {
        Status::resource_exhausted(format!(
            "the request did not arrive whole, or has more than {most} bytes"
        ))
    };
    Ok(bytes.map_err(large)?.to_vec())
}

pub(crate) fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use http::header::HOST;

    use super::*;

    fn host(name: &str) -> HeaderMap {
        HeaderMap::from_iter([(HOST, HeaderValue::from_str(name).unwrap())])
    }

    #[test]
    fn a_stranger_is_answered_under_an_address_only() {
        assert!(check_host(&host("127.0.0.1:7002"), false).is_ok());
        assert!(check_host(&host("evil.example"), false).is_err());
        let mut with_token = host("evil.example");
        with_token.insert(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert!(check_host(&with_token, false).is_err());
        assert!(check_host(&host("grc.example:7002"), true).is_ok());
    }

    #[test]
    fn only_json_is_read() {
        let kind = |kind: &str| {
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap())])
        };
        let post = http::Method::POST;
        assert!(check_is_json_post(&post, &kind("application/json; charset=utf-8")).is_ok());
        for other in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
            assert!(check_is_json_post(&post, &kind(other)).is_err(), "{other}");
        }
        assert!(check_is_json_post(&http::Method::GET, &kind("application/json")).is_err());
    }
}
