//! Calls to the services of a server from within its process, on behalf of somebody who came by another listener.
//!
//! They pass the same layers as calls that come over gRPC: they are counted, judged by the same matrix of rights, and
//! answered only by a process that leads. So a page can do nothing that its reader could not do by gRPC.
//!
//! Left out: that listener, which the crate `web` has, and bounds on its connections.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coalloc_common::limits;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::authorization::Caller;
use crate::authorization::layer::{AuthorizationLayer, AuthorizationService};
use crate::identity::server::ProvenClient;
use crate::identity::settings::Access;
use crate::leadership::{LeadershipLayer, LeadershipService};
use crate::metrics::calls::{Calls, CallsLayer};
use crate::needs::{NeedsLayer, NeedsService};

type Layered = Calls<AuthorizationService<NeedsService<LeadershipService<Routes>>>>;

/// The services of a server, for calls from within its process.
#[derive(Clone)]
pub struct LocalServices {
    services: Layered,
    judge: AuthorizationLayer,
}

impl LocalServices {
    /// The services of these routes, for whoever has access.
    #[must_use]
    pub fn new(routes: Routes, access: &Access) -> Self {
        let leads = LeadershipLayer(access.leadership.clone()).layer(routes.prepare());
        let judged = AuthorizationLayer::of(access);
        let services = CallsLayer.layer(judged.layer(NeedsLayer.layer(leads)));
        Self { services, judge: judged }
    }

    /// A channel on behalf of a client with this certificate, or else with this token (`Bearer ...`).
    #[must_use]
    pub fn channel(
        &self,
        client: Option<Arc<ProvenClient>>,
        token: Option<HeaderValue>,
    ) -> LocalChannel {
        let Self { services, judge } = self.clone();
        LocalChannel { services, judge, client, token }
    }
}

/// A channel for calls on behalf of one client, for a client of tonic or for whole HTTP requests.
#[derive(Clone)]
pub struct LocalChannel {
    services: Layered,
    judge: AuthorizationLayer,
    client: Option<Arc<ProvenClient>>,
    token: Option<HeaderValue>,
}

impl LocalChannel {
    /// Whoever calls by this channel, judged and counted as for a call of the method at `path`.
    ///
    /// # Errors
    /// UNAUTHENTICATED, PERMISSION_DENIED or RESOURCE_EXHAUSTED, as the call would be answered; a denial takes a while.
    pub async fn caller(&self, path: &str) -> Result<Caller, Status> {
        let mut request = Request::builder().uri(path).body(());
        if let Ok(request) = &mut request {
            self.identify(request);
        }
        let request = request.map_err(|error| Status::internal(format!("{path}: {error}")))?;
        self.judge.judge_patiently(&request).await
    }

    /// Adds to a request what its client has shown, and takes away what somebody else may have put there.
    fn identify<B>(&self, request: &mut Request<B>) {
        if let Some(client) = &self.client {
            request.extensions_mut().insert(Arc::clone(client));
        }
        request.headers_mut().remove(AUTHORIZATION);
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
    }
}

impl Service<Request<Body>> for LocalChannel {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Each of the layers is ready at any time.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        self.identify(&mut request);
        let answer = self.services.call(request);
        Box::pin(async move {
            let late = || Status::deadline_exceeded("the call took too long").into_http();
            let answer = tokio::time::timeout(limits::CALL_TIME_MAX.to_std(), answer).await;
            answer.unwrap_or_else(|_| Ok(late()))
        })
    }
}
