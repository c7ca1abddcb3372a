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

use crate::authorization::layer::{AuthorizationLayer, AuthorizationService};
use crate::identity::server::ProvenClient;
use crate::identity::settings::Access;
use crate::leadership::{LeadershipLayer, LeadershipService};
use crate::metrics::calls::{Calls, CallsLayer};
use crate::needs::{NeedsLayer, NeedsService};

type Layered = Calls<AuthorizationService<NeedsService<LeadershipService<Routes>>>>;

/// The services of a server, for calls from within its process.
#[derive(Clone)]
pub struct LocalServices(Layered);

impl LocalServices {
    /// The services of these routes, for whoever has access.
    #[must_use]
    pub fn new(routes: Routes, access: &Access) -> Self {
        let leads = LeadershipLayer(access.leadership.clone()).layer(routes.prepare());
        let judged = AuthorizationLayer {
            authorization: access.authorization.clone(),
            call_rates: access.call_rates.clone(),
            clock: access.clock.clone(),
        };
        Self(CallsLayer.layer(judged.layer(NeedsLayer.layer(leads))))
    }

    /// A channel on behalf of a client with this certificate, or else with this token (`Bearer ...`).
    #[must_use]
    pub fn channel(
        &self,
        client: Option<Arc<ProvenClient>>,
        token: Option<HeaderValue>,
    ) -> LocalChannel {
        LocalChannel { services: self.0.clone(), client, token }
    }
}

/// A channel for calls on behalf of one client, for a client of tonic or for whole HTTP requests.
#[derive(Clone)]
pub struct LocalChannel {
    services: Layered,
    client: Option<Arc<ProvenClient>>,
    token: Option<HeaderValue>,
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
        if let Some(client) = &self.client {
            request.extensions_mut().insert(Arc::clone(client));
        }
        request.headers_mut().remove(AUTHORIZATION);
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        let answer = self.services.call(request);
        Box::pin(async move {
            let late = || Status::deadline_exceeded("the call took too long").into_http();
            let answer = tokio::time::timeout(limits::CALL_TIME_MAX.to_std(), answer).await;
            answer.unwrap_or_else(|_| Ok(late()))
        })
    }
}
