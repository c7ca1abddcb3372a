//! A method that answers with a stream, as server-sent events.
//!
//! `GET /coalloc.v1.Coordinator/Watch?message={"user":"alice"}`, or POST as any other method. Each message of the stream is
//! an event whose data is its JSON; the id of an event is the token to resume the watch after it. A browser that has lost the
//! connection sends the id of the last event as `Last-Event-ID`, and misses nothing. The last event, `event: error`, has the
//! status if the call failed.
//!
//! Source: WHATWG HTML, section 9.2.

use std::convert::Infallible;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use coalloc_proto::method::Method;
use form_urlencoded::parse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::error;

/// Bytes before each message of gRPC: whether it is compressed, and its length.
const FRAME_HEAD: usize = 5;
/// The header with the id of the last event that a browser has received.
pub(crate) const LAST_EVENT: &str = "last-event-id";

/// The request in the query `message=JSON` of a GET; without one, an empty request.
pub(crate) fn message_of_query(query: Option<&str>) -> Result<Vec<u8>, Status> {
    let mut message = b"{}".to_vec();
    for (name, value) in parse(query.unwrap_or_default().as_bytes()) {
        match &*name {
            "message" => message = value.into_owned().into_bytes(),
            // What the Connect protocol sends along.
            "connect" | "encoding" => {}
            other => {
                let text = format!(
                    "the query has {other:?}; allowed: message={{...}}, the request as JSON"
                );
                return Err(Status::invalid_argument(text));
            }
        }
    }
    Ok(message)
}

/// The request, which goes on after the last event that the client has received, if it says so.
pub(crate) fn resumed(message: &[u8], headers: &HeaderMap) -> Result<Vec<u8>, Status> {
    let Some(last) = headers.get(LAST_EVENT) else { return Ok(message.to_vec()) };
    let wrong =
        || Status::invalid_argument("Last-Event-ID: allowed: the id of an event of this watch");
    let last = last.to_str().map_err(|_| wrong())?;
    let Ok(Value::Object(mut request)) = serde_json::from_slice(message) else {
        // What is wrong with it is said when it is read.
        return Ok(message.to_vec());
    };
    request.remove("resume_token");
    request.insert("resumeToken".to_owned(), last.into());
    Ok(Value::Object(request).to_string().into_bytes())
}

/// The stream of messages as a stream of events.
pub(crate) fn answer(method: &'static Method, body: tonic::body::Body) -> Response<Body> {
    let mut reader = MessageReader { method, body, received: BytesMut::new(), ended: false };
    // One event waits for a slow reader; the watch behind it has bounds of its own.
    let (events, shown) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    tokio::spawn(async move {
        while let Some(event) = next_while_read(&mut reader, &events).await {
            if events.send(Ok(event)).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(shown)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The next event, unless its reader has gone away.
async fn next_while_read(
    reader: &mut MessageReader,
    events: &mpsc::Sender<Result<Bytes, Infallible>>,
) -> Option<Bytes> {
    tokio::select! {
        event = reader.next() => event,
        () = events.closed() => None,
    }
}

/// Takes the messages of a stream of gRPC from its body.
struct MessageReader {
    method: &'static Method,
    body: tonic::body::Body,
    /// What has arrived of messages that are not whole.
    received: BytesMut,
    ended: bool,
}

impl MessageReader {
    /// The next event, in its own form; `None` when the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.whole_message() {
                return Some(self.event(&message));
            }
            if self.ended {
                return None;
            }
            let status = match self.body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.received.extend_from_slice(&data);
                        continue;
                    }
                    Err(frame) => frame.trailers_ref().and_then(Status::from_header_map),
                },
                Some(Err(status)) => Some(status),
                None => None,
            };
            self.ended = true;
            if let Some(status) = status.filter(|status| status.code() != tonic::Code::Ok) {
                return Some(format!("event: error\ndata: {}\n\n", error::json_of(&status)).into());
            }
        }
    }

    fn whole_message(&mut self) -> Option<Bytes> {
        let head = self.received.first_chunk::<FRAME_HEAD>()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if self.received.len() < FRAME_HEAD + length {
            return None;
        }
        let mut message = self.received.split_to(FRAME_HEAD + length);
        Some(message.split_off(FRAME_HEAD).freeze())
    }

    fn event(&self, message: &[u8]) -> Bytes {
        let json = match self.method.answer(message) {
            Ok(json) => json,
            Err(error) => {
                let status = Status::internal(error.to_string());
                return format!("event: error\ndata: {}\n\n", error::json_of(&status)).into();
            }
        };
        // JSON on one line has no line end in it.
        let id = token(&json).map(|token| format!("id: {token}\n")).unwrap_or_default();
        format!("{id}data: {json}\n\n").into()
    }
}

/// The token to resume a watch after this message, if it has one.
fn token(json: &str) -> Option<String> {
    let Ok(Value::Object(message)) = serde_json::from_str(json) else { return None };
    let token = message.values().find_map(|what| what.get("resumeToken")?.as_str());
    token.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use hyper::body::Frame;

    use super::*;

    fn watch() -> &'static Method {
        Method::at("/coalloc.v1.Coordinator/Watch").unwrap()
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap();
        [&[0], length.to_be_bytes().as_slice(), message].concat()
    }

    #[tokio::test]
    async fn messages_become_events_however_they_are_cut() {
        use coalloc_proto::v1::watch_response::What;
        use coalloc_proto::v1::{WatchProgress, WatchResponse};
        use prost::Message as _;
        let message = |token: &str| {
            let what = Some(What::Progress(WatchProgress { resume_token: token.to_owned() }));
            framed(&WatchResponse { what }.encode_to_vec())
        };
        let bytes = [message("1.a"), message("2.b")].concat();
        for cut in 1..bytes.len() {
            let pieces =
                bytes.chunks(cut).map(|piece| Ok::<_, Status>(Bytes::copy_from_slice(piece)));
            let body = http_body_util::StreamBody::new(tokio_stream::iter(
                pieces.map(|piece| piece.map(Frame::data)).collect::<Vec<_>>(),
            ));
            let body = tonic::body::Body::new(body);
            let mut reader =
                MessageReader { method: watch(), body, received: BytesMut::new(), ended: false };
            for token in ["1.a", "2.b"] {
                let event = reader.next().await.unwrap();
                let expected = format!(
                    "id: {token}\ndata: {{\"progress\":{{\"resumeToken\":\"{token}\"}}}}\n\n"
                );
                assert_eq!(event, expected);
            }
            assert!(reader.next().await.is_none());
        }
    }

    #[test]
    fn a_browser_that_comes_back_goes_on_after_its_last_event() {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static(LAST_EVENT),
            HeaderValue::from_static("7.c"),
        )]);
        let request = resumed(b"{\"user\": \"eve\", \"resume_token\": \"1.a\"}", &headers).unwrap();
        let request: Value = serde_json::from_slice(&request).unwrap();
        assert_eq!(request, serde_json::json!({"user": "eve", "resumeToken": "7.c"}));
        assert_eq!(resumed(b"{}", &HeaderMap::new()).unwrap(), b"{}");
    }

    #[test]
    fn the_query_of_a_get_is_its_request() {
        assert_eq!(message_of_query(None).unwrap(), b"{}");
        let message =
            message_of_query(Some("connect=v1&encoding=json&message=%7B%22id%22%3A%22x%22%7D"));
        assert_eq!(message.unwrap(), b"{\"id\":\"x\"}");
        assert!(message_of_query(Some("id=x")).is_err());
    }
}
