//! `/live`: the events of the reservations that the visitor may see, at which the script of a page reads the page again.
//!
//! It is the coordinator's own watch as server-sent events, called with the visitor's rights. A browser that has lost the
//! connection goes on after the last event. Methods never take the cookie, so pages have an address of their own.

use axum::body::Body;
use axum::extract::State;
use coalloc_proto::method::Method;
use http::{HeaderMap, Response};
use tonic::Status;
use tower_service::Service as _;

use super::PageState;
use super::visitor::Visitor;
use crate::json::{Mistake, grpc_call, plain};
use crate::site::is_own;
use crate::{error, events};

const WATCH: &str = "/coalloc.v1.Coordinator/Watch";

/// `GET /live`.
pub(super) async fn events(
    State(state): State<PageState>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Response<Body> {
    match watch(&state, &visitor, &headers).await {
        Ok(response) => response,
        Err(Mistake::Status(status)) => error::answer(&status),
        Err(Mistake::Http(status, text)) => plain(status, text),
    }
}

async fn watch(
    state: &PageState,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<Response<Body>, Mistake> {
    if !is_own(headers) {
        // It would learn nothing, but take places of watches.
        return Err(Status::permission_denied("a page of another site may not watch").into());
    }
    let method = Method::at(WATCH).ok_or_else(|| Status::internal("no method to watch with"))?;
    let request = events::resumed(b"{}", headers)?;
    let message = method.request(&request).map_err(|error| {
        Status::invalid_argument(format!("Last-Event-ID: {error}; allowed: the id of an event"))
    })?;
    let call = grpc_call(WATCH, &HeaderMap::new(), &message)?;
    let Ok(answer) = visitor.channel(state).call(call).await;
    match Status::from_header_map(answer.headers()) {
        Some(status) if status.code() != tonic::Code::Ok => Err(status.into()),
        _ => Ok(events::answer(method, answer.into_body())),
    }
}
