//! Whether this process may answer: of the processes that share a ledger, only the one that leads does.
//!
//! A standby tells its callers who leads. A leader whose lease may have ended does not answer, because another process may
//! lead by now, and know more. It is asked before and after each call. Between the two the call was carried out, so what a
//! caller is told was so at a moment at which this process led.
//!
//! Nothing depends on this but the age of what is read: what is decided is compared in the shared log itself.
//!
//! Left out: leases and elections ([`crate::shared_ledger`]).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;

/// The beginning of the paths of our own calls. Health and reflection are answered always.
pub(crate) const OWN: &str = "/coalloc.v1.";
/// The beginning of the paths of calls about this process itself, whether it leads or not.
const OF_PROCESS: &str = "/coalloc.v1.Logging/";

/// Says whether this process may answer. Cheap to clone.
#[derive(Clone)]
pub struct Leadership {
    check: Arc<dyn Fn() -> Result<(), Status> + Send + Sync>,
    is_standby: bool,
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("is_standby", &self.is_standby).finish_non_exhaustive()
    }
}

impl Leadership {
    /// That of a process that leads while `check` does not object.
    pub fn leading(check: impl Fn() -> Result<(), Status> + Send + Sync + 'static) -> Self {
        Self { check: Arc::new(check), is_standby: false }
    }

    /// That of a process that answers nothing but `status`.
    pub fn standby(status: impl Fn() -> Status + Send + Sync + 'static) -> Self {
        Self { check: Arc::new(move || Err(status())), is_standby: true }
    }

    /// Whether the process only waits to lead.
    #[must_use]
    pub const fn is_standby(&self) -> bool {
        self.is_standby
    }
}

/// Puts [`LeadershipService`] around a server's routes.
#[derive(Debug, Clone)]
pub struct LeadershipLayer(pub Option<Leadership>);

impl<S> Layer<S> for LeadershipLayer {
    type Service = LeadershipService<S>;

    fn layer(&self, inner: S) -> LeadershipService<S> {
        LeadershipService { inner, leadership: self.0.clone() }
    }
}

/// A service around another one, which only a leader carries out.
#[derive(Debug, Clone)]
pub struct LeadershipService<S> {
    inner: S,
    leadership: Option<Leadership>,
}

impl<S> Service<Request<Body>> for LeadershipService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let own = path.starts_with(OWN) && !path.starts_with(OF_PROCESS);
        let Some(leadership) = self.leadership.clone().filter(|_| own) else {
            return Box::pin(self.inner.call(request));
        };
        if let Err(status) = (leadership.check)() {
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok((leadership.check)().map_or_else(Status::into_http, |()| answer))
        })
    }
}
