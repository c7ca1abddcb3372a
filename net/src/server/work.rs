//! Counts the active calls on each connection. A connection with active calls is not closed to make place
//! for another one.
//!
//! A call of `coalloc.v1` is active from the moment when its whole request has arrived until its handler has
//! answered. Its answer is then being sent until the client has read it all or given up. A call whose request
//! has not arrived does not protect its connection, and neither does health or reflection, because their
//! streams may stay open for ever.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::connection::CallConnection;

/// Puts [`WorkService`] around a server's routes.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkLayer;

impl<S> Layer<S> for WorkLayer {
    type Service = WorkService<S>;

    fn layer(&self, inner: S) -> WorkService<S> {
        WorkService { inner }
    }
}

/// A service wrapped around another one, which counts the calls.
#[derive(Debug, Clone)]
pub(super) struct WorkService<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for WorkService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(presence) = request.extensions().get::<CallConnection>().cloned() else {
            return Box::pin(self.inner.call(request));
        };
        presence.gate.touch(presence.id);
        if !request.uri().path().starts_with("/coalloc.v1.") {
            return Box::pin(self.inner.call(request));
        }
        let call = Arc::new(ActiveCall { presence, stage: Mutex::new(Stage::Arriving) });
        let arriving = Arc::clone(&call);
        let request = request.map(|body| Body::new(RequestBody { body, call: arriving }));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            call.reach(Stage::Answering);
            Ok(answer.map(|body| Body::new(ResponseBody { body, call })))
        })
    }
}

/// How far a call has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its request has not arrived whole.
    Arriving,
    /// Its handler is working.
    AtWork,
    /// Its answer is being sent.
    Answering,
}

impl Stage {
    /// What the call adds to the numbers of active calls and of answers being sent.
    const fn counts(self) -> [isize; 2] {
        match self {
            Self::Arriving => [0, 0],
            Self::AtWork => [1, 0],
            Self::Answering => [0, 1],
        }
    }
}

/// One call of a connection. It is counted for as long as its request, its handler or its answer lives.
struct ActiveCall {
    presence: CallConnection,
    stage: Mutex<Stage>,
}

impl ActiveCall {
    /// Moves the call on to a stage, unless it has reached that stage already.
    fn reach(&self, stage: Stage) {
        let mut now = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if stage > *now {
            let ([work_before, answers_before], [work, answers]) = (now.counts(), stage.counts());
            *now = stage;
            self.count([work - work_before, answers - answers_before]);
        }
    }

    fn count(&self, [at_work, answering]: [isize; 2]) {
        self.presence.gate.count_calls(self.presence.id, at_work, answering);
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        let stage = *self.stage.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.count(stage.counts().map(|count| -count));
    }
}

/// The body of a request that is being received.
struct RequestBody {
    body: Body,
    call: Arc<ActiveCall>,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let ended = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if ended {
            self.call.reach(Stage::AtWork);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer that the client is reading.
struct ResponseBody {
    body: Body,
    call: Arc<ActiveCall>,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            let CallConnection { gate, id, .. } = &self.call.presence;
            gate.touch(*id);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
