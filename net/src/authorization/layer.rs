//! The layer in front of all handlers: says who the caller is, and denies what the matrix does not allow.
//!
//! A call is judged by its method before its message is decoded. Handlers find the [`Caller`] among the extensions of
//! their request. Whoever is denied is answered after a pause, by this layer or by a handler, because a client that comes
//! back at once would keep the daemon busy with turning it away. A coordinator that a resource manager refuses in the
//! body of an answer waits for nothing.
//!
//! Left out: what a handler knows better, namely whose thing a message is about.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use coalloc_common::{UserName, limits};
use http::header::AUTHORIZATION;
use http::{Request, Response};
use tonic::Code;
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::Caller;
use super::call_rates::CallRates;
use super::roster::Roster;
use crate::clock::{self, Clock};
use crate::identity::server::ProvenClient;
use crate::identity::settings::Access;
use crate::server::connection::CallConnection;
use crate::{metrics, status};

/// Whom a daemon serves.
#[derive(Debug, Clone)]
pub enum Authorization {
    /// Everybody: calls come in plain text, over loopback.
    PlainText,
    /// Those whom the matrix allows to call, by who they are here.
    Roster(Arc<Roster>),
}

impl Authorization {
    /// Who makes a request. A certificate counts before a token.
    fn caller<B>(&self, request: &Request<B>) -> Result<Caller, tonic::Status> {
        match self {
            Self::PlainText => Ok(Caller::plain_text()),
            Self::Roster(roster) => {
                let extensions = request.extensions();
                let connection = extensions.get::<CallConnection>();
                let client = connection.and_then(|connection| connection.client.as_ref());
                // A call from within this process brings its client along itself.
                match client.or_else(|| extensions.get::<Arc<ProvenClient>>()) {
                    Some(client) => Ok(roster.caller(client)),
                    None => match request.headers().get(AUTHORIZATION) {
                        Some(header) => roster.token_caller(header),
                        None => Ok(Roster::nobody()),
                    },
                }
            }
        }
    }
}

/// Puts [`AuthorizationService`] around a server's routes.
#[derive(Debug, Clone)]
pub struct AuthorizationLayer {
    /// Whom the daemon serves.
    pub authorization: Authorization,
    /// Counts the calls of users; `None`: they are not limited.
    pub call_rates: Option<Arc<CallRates>>,
    /// The clock by which calls are counted.
    pub clock: Clock,
}

impl<S> Layer<S> for AuthorizationLayer {
    type Service = AuthorizationService<S>;

    fn layer(&self, inner: S) -> AuthorizationService<S> {
        AuthorizationService { inner, judge: self.clone() }
    }
}

/// A service around another one, to which only allowed calls get.
#[derive(Debug, Clone)]
pub struct AuthorizationService<S> {
    inner: S,
    judge: AuthorizationLayer,
}

impl<S> Service<Request<Body>> for AuthorizationService<S>
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.judge.judge(&request) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                let answer = self.inner.call(request);
                Box::pin(async move {
                    let answer = answer.await?;
                    if is_denial(&answer) {
                        tokio::time::sleep(limits::DENIAL_PAUSE.to_std()).await;
                    }
                    Ok(answer)
                })
            }
            Err(denial) => Box::pin(async move {
                tokio::time::sleep(limits::DENIAL_PAUSE.to_std()).await;
                Ok(denial.into_http())
            }),
        }
    }
}

/// Has a handler denied a call? It then answers with headers only, and they have the status.
fn is_denial(answer: &Response<Body>) -> bool {
    let status = answer.headers().get(tonic::Status::GRPC_STATUS);
    status.is_some_and(|code| tonic::Code::from_bytes(code.as_bytes()) == Code::PermissionDenied)
}

impl AuthorizationLayer {
    /// The layer of a server.
    #[must_use]
    pub fn of(access: &Access) -> Self {
        Self {
            authorization: access.authorization.clone(),
            call_rates: access.call_rates.clone(),
            clock: access.clock.clone(),
        }
    }

    /// Who makes a request, if the caller may make it.
    fn judge<B>(&self, request: &Request<B>) -> Result<Caller, tonic::Status> {
        let caller = self.authorization.caller(request)?;
        let path = request.uri().path();
        caller.check_calls(path)?;
        // A call that was not made in this process has a connection. The message of a stranger would be read whole, and its
        // connection keep its place meanwhile. The web listener, by which strangers call, bounds both.
        if request.extensions().get::<CallConnection>().is_some() {
            caller.check_has_shown(path)?;
        }
        self.count(&caller)?;
        Ok(caller)
    }

    /// The same; a denial takes as long as that of a call.
    pub(crate) async fn judge_patiently<B>(
        &self,
        request: &Request<B>,
    ) -> Result<Caller, tonic::Status> {
        let judged = self.judge(request);
        if judged.is_err() {
            tokio::time::sleep(limits::DENIAL_PAUSE.to_std()).await;
        }
        judged
    }

    /// Counts an allowed call of a user, which may be one too many.
    fn count(&self, caller: &Caller) -> Result<(), tonic::Status> {
        match (&self.call_rates, caller.user()) {
            (Some(rates), Some(user)) => self.count_in(rates, user),
            _ => Ok(()),
        }
    }

    /// Counts a call of this user among these.
    pub(super) fn count_in(&self, rates: &CallRates, user: &UserName) -> Result<(), tonic::Status> {
        rates.count(user, self.clock.now().boot).map_err(|over| {
            metrics::net().calls_over_quota.inc();
            status::too_many_calls(user.as_str(), over.most, over.retry_after)
        })
    }
}

/// Counts a denial, and logs it unless another one was logged a moment ago: strangers must not fill the log.
pub(crate) fn note_denial(reason: &'static str, text: &str) {
    static LOGGED_AT: AtomicI64 = AtomicI64::new(i64::MIN);
    metrics::net().denied.with([reason]).inc();
    let now = clock::now().boot.as_us();
    let before = LOGGED_AT.load(Ordering::Relaxed);
    let is_due = now.saturating_sub(before) >= limits::DENIAL_LOG_PAUSE.as_us();
    let claimed = || LOGGED_AT.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
    if is_due && claimed().is_ok() {
        tracing::warn!(reason, "denied: {text}");
    }
}
