//! `/live`: says that something has changed which the visitor may see. At that the script of a page reads the page again.
//!
//! All visitors share one watch of the coordinator ([`crate::changes`], which says why none of them learns of others'). An event
//! says nothing of the change: its id is the token, its data the milliseconds within which the page is to be read again, and a browser that has lost the connection sends it back. If that token
//! is not the present one, the first event comes at once. The call is judged and counted as a call of Watch by the visitor.
//! Methods never take the cookie, so pages have an address of their own.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use coalloc_common::{Span, limits};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::PageState;
use super::visitor::Visitor;
use crate::changes::{LastChange, OpenPage, Sight};
use crate::error;
use crate::events::LAST_EVENT;
use crate::site::is_own;

const WATCH: &str = "/coalloc.v1.Coordinator/Watch";
/// What a browser does not show to anybody, so that the connection is known to be alive.
const SIGN_OF_LIFE: &str = ":\n\n";

/// `GET /live`.
pub(super) async fn events(
    State(state): State<PageState>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Response<Body> {
    match watch(&state, &visitor, &headers).await {
        Ok(last) => stream(last, headers.get(LAST_EVENT), state.changes.open_page()),
        Err(status) => error::answer(&status),
    }
}

async fn watch(
    state: &PageState,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<LastChange, Status> {
    if !is_own(headers) {
        // It would learn nothing, but take a connection.
        return Err(Status::permission_denied("a page of another site may not watch"));
    }
    let caller = visitor.channel(state).caller(WATCH).await?;
    state.changes.join(Sight::of(&caller)?).await
}

/// The events of a visitor who had `known` as the id of its last event.
fn stream(last: LastChange, known: Option<&HeaderValue>, page: OpenPage) -> Response<Body> {
    let known = known.cloned();
    // One event waits for a slow reader, and however many come then are one.
    let (events, shown) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    tokio::spawn(follow(last, known, page, events));
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(shown)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

async fn follow(
    mut last: LastChange,
    known: Option<HeaderValue>,
    page: OpenPage,
    events: mpsc::Sender<Result<Bytes, Infallible>>,
) {
    let mut event = first(&last.borrow_and_update(), known.as_ref(), page.pause());
    loop {
        let sent = events.send(Ok(event.into()));
        let sent = tokio::time::timeout(limits::WATCH_STALL_MAX.to_std(), sent).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
        event = tokio::select! {
            () = events.closed() => return,
            changed = last.changed() => match changed {
                Ok(()) => changed_at(&last.borrow_and_update(), page.pause()),
                Err(_) => {
                    let status = Status::unavailable("the coordinator is stopping");
                    // The reader may be gone.
                    let _ = events.send(Ok(last_word(&status).into())).await;
                    return;
                }
            },
            () = tokio::time::sleep(limits::WATCH_PROGRESS.to_std()) => SIGN_OF_LIFE.to_owned(),
        };
    }
}

/// The first event: where the visitor stands now, and whether something may have changed since the last event that it has.
fn first(token: &str, known: Option<&HeaderValue>, pause: Span) -> String {
    match known {
        Some(known) if known.as_bytes() != token.as_bytes() => changed_at(token, pause),
        // Without data it is no event for a script, but its id is kept.
        _ => format!("id: {token}\n\n"),
    }
}

fn changed_at(token: &str, pause: Span) -> String {
    format!("id: {token}\ndata: {}\n\n", pause.as_us() / 1_000)
}

fn last_word(status: &Status) -> String {
    format!("event: error\ndata: {}\n\n", error::json_of(status))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;
    use tokio::sync::watch;

    use super::*;
    use crate::changes::{ChangeSource, SharedChanges};

    async fn next(response: &mut Response<Body>) -> String {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn events_are_tokens_and_the_end_has_a_reason() {
        let sender = watch::Sender::new(Arc::<str>::from("1:a"));
        let source: ChangeSource =
            Arc::new(|| Box::pin(async { Err(Status::unavailable("not asked")) }));
        let page = SharedChanges::new(source).open_page();
        let mut response = stream(sender.subscribe(), None, page);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(next(&mut response).await, "id: 1:a\n\n");
        sender.send_replace("2:b".into());
        assert_eq!(next(&mut response).await, "id: 2:b\ndata: 1000\n\n");
        drop(sender);
        let end = next(&mut response).await;
        assert!(end.starts_with("event: error\ndata: {\"code\":\"unavailable\""), "{end}");
        assert!(response.body_mut().frame().await.is_none());
    }

    #[test]
    fn a_token_that_is_not_the_present_one_has_missed_something() {
        let known = |text: &str| HeaderValue::from_str(text).unwrap();
        assert_eq!(first("2:b", Some(&known("2:b")), Span::from_secs(5)), "id: 2:b\n\n");
        for stale in ["1:a", "", "2:b ", "0", "nonsense"] {
            let text = first("2:b", Some(&known(stale)), Span::from_secs(5));
            assert_eq!(text, "id: 2:b\ndata: 5000\n\n", "{stale:?}");
        }
    }
}
