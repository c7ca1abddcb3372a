//! A relay in front of an RM.
//!
//! It forwards every call, and stops at the messages that a test names, so that the test can kill, pause or
//! cut exactly there.

use std::sync::{Arc, Mutex};

use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_proto::v1::resource_manager_server::ResourceManager;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// The points at which a call can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeQuery,
    BeforeHold,
    AfterHold,
    BeforeCommit,
    AfterCommit,
}

/// What happens to a call that was stopped.
#[derive(Debug)]
pub(crate) enum Then {
    GoOn,
    Lose,
}

/// Texts of its own choice that the RM behind the relay seems to say.
#[derive(Debug, Clone, Default)]
pub(crate) enum Slander {
    #[default]
    Nothing,
    /// It refuses every hold in these words, and calls its ledger so.
    InAnswers(String),
    /// Every call fails with these words.
    InErrors(String),
    /// Its release is one that knows nothing of what not every release knows.
    OfItsRelease,
}

type Stop = (Point, oneshot::Sender<Then>);

/// The relay.
#[derive(Clone)]
pub(crate) struct Middle {
    inner: ResourceManagerClient<Channel>,
    stop_at: Arc<Mutex<Option<Point>>>,
    stops: mpsc::UnboundedSender<Stop>,
    slander: Arc<Mutex<Slander>>,
}

/// The test's control over the relay.
pub(crate) struct Control {
    stop_at: Arc<Mutex<Option<Point>>>,
    stops: mpsc::UnboundedReceiver<Stop>,
    slander: Arc<Mutex<Slander>>,
}

impl Control {
    /// Stops the next call that reaches this point; later calls are not stopped.
    pub(crate) fn stop_at(&self, point: Point) {
        *self.stop_at.lock().unwrap() = Some(point);
    }

    /// From now on the RM says this.
    pub(crate) fn slander(&self, says: Slander) {
        *self.slander.lock().unwrap() = says;
    }

    /// Waits until a call has stopped.
    pub(crate) async fn stopped(&mut self) -> oneshot::Sender<Then> {
        let stopped = tokio::time::timeout(crate::harness::PATIENCE, self.stops.recv()).await;
        stopped.expect("a call comes to the point").unwrap().1
    }
}

/// Starts a relay at `listen` to the RM at `inner`.
pub(crate) async fn start(listen: &str, inner: &str) -> Control {
    let stop_at = Arc::new(Mutex::new(None));
    let slander = Arc::new(Mutex::new(Slander::Nothing));
    let (sender, stops) = mpsc::unbounded_channel();
    let channel = coalloc_net::client::channel("middle", inner).unwrap();
    let middle = Middle {
        inner: ResourceManagerClient::new(channel),
        stop_at: Arc::clone(&stop_at),
        stops: sender,
        slander: Arc::clone(&slander),
    };
    let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let service = coalloc_net::server::resource_manager(middle);
    tokio::spawn(
        tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming),
    );
    Control { stop_at, stops, slander }
}

impl Middle {
    /// What the RM is to say, unless every call is to fail.
    fn said(&self) -> Result<Option<String>, Status> {
        match self.slander.lock().unwrap().clone() {
            Slander::Nothing | Slander::OfItsRelease => Ok(None),
            Slander::InAnswers(text) => Ok(Some(text)),
            Slander::InErrors(text) => Err(Status::unavailable(text)),
        }
    }

    async fn pass(&self, point: Point) -> Result<(), Status> {
        let wanted = {
            let mut stop_at = self.stop_at.lock().unwrap();
            stop_at.take_if(|wanted| *wanted == point).is_some()
        };
        if !wanted {
            return Ok(());
        }
        let (then, chosen) = oneshot::channel();
        self.stops.send((point, then)).unwrap();
        match chosen.await {
            Ok(Then::GoOn) => Ok(()),
            Ok(Then::Lose) | Err(_) => Err(Status::unavailable("lost on the way")),
        }
    }
}

#[tonic::async_trait]
impl ResourceManager for Middle {
    type WatchEquipmentStream = tonic::Streaming<v1::WatchEquipmentResponse>;

    async fn watch_equipment(
        &self,
        request: Request<v1::WatchEquipmentRequest>,
    ) -> Result<Response<Self::WatchEquipmentStream>, Status> {
        self.inner.clone().watch_equipment(request.into_inner()).await
    }

    type WatchBookingsStream = tonic::Streaming<v1::WatchBookingsResponse>;
    type WatchProfilesStream = tonic::Streaming<v1::WatchProfilesResponse>;

    async fn watch_profiles(
        &self,
        request: Request<v1::WatchProfilesRequest>,
    ) -> Result<Response<Self::WatchProfilesStream>, Status> {
        self.inner.clone().watch_profiles(request.into_inner()).await
    }

    async fn watch_bookings(
        &self,
        request: Request<v1::WatchBookingsRequest>,
    ) -> Result<Response<Self::WatchBookingsStream>, Status> {
        self.inner.clone().watch_bookings(request.into_inner()).await
    }

    async fn describe(
        &self,
        request: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        let said = self.said()?;
        let mut answer = self.inner.clone().describe(request.into_inner()).await?;
        if let Some(text) = said {
            answer.get_mut().ledger_id = text;
        }
        if matches!(*self.slander.lock().unwrap(), Slander::OfItsRelease) {
            let program = "coalloc 0.0.1".to_owned();
            answer.get_mut().version =
                Some(v1::Version { protocol: 2, program, ..v1::Version::default() });
        }
        Ok(answer)
    }

    async fn query_availability(
        &self,
        request: Request<v1::QueryAvailabilityRequest>,
    ) -> Result<Response<v1::QueryAvailabilityResponse>, Status> {
        self.said()?;
        self.pass(Point::BeforeQuery).await?;
        self.inner.clone().query_availability(request.into_inner()).await
    }

    async fn hold(
        &self,
        request: Request<v1::HoldRequest>,
    ) -> Result<Response<v1::HoldResponse>, Status> {
        self.pass(Point::BeforeHold).await?;
        if let Some(detail) = self.said()? {
            let reason = v1::Reason::ServiceLevel.into();
            let refusal = v1::Refusal { reason, detail, ..v1::Refusal::default() };
            let answer = Some(v1::hold_response::Answer::Refused(refusal));
            return Ok(Response::new(v1::HoldResponse { answer, fresh: None }));
        }
        let answer = self.inner.clone().hold(request.into_inner()).await?;
        self.pass(Point::AfterHold).await?;
        Ok(answer)
    }

    async fn commit(
        &self,
        request: Request<v1::CommitRequest>,
    ) -> Result<Response<v1::CommitResponse>, Status> {
        self.pass(Point::BeforeCommit).await?;
        let answer = self.inner.clone().commit(request.into_inner()).await?;
        self.pass(Point::AfterCommit).await?;
        Ok(answer)
    }

    async fn abort(
        &self,
        request: Request<v1::AbortRequest>,
    ) -> Result<Response<v1::AbortResponse>, Status> {
        self.inner.clone().abort(request.into_inner()).await
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        self.said()?;
        self.inner.clone().release(request.into_inner()).await
    }

    async fn compare_bookings(
        &self,
        request: Request<v1::CompareBookingsRequest>,
    ) -> Result<Response<v1::CompareBookingsResponse>, Status> {
        self.said()?;
        self.inner.clone().compare_bookings(request.into_inner()).await
    }

    async fn get_booking(
        &self,
        request: Request<v1::GetBookingRequest>,
    ) -> Result<Response<v1::GetBookingResponse>, Status> {
        self.said()?;
        self.inner.clone().get_booking(request.into_inner()).await
    }

    async fn list_bookings(
        &self,
        request: Request<v1::ListBookingsRequest>,
    ) -> Result<Response<v1::ListBookingsResponse>, Status> {
        self.inner.clone().list_bookings(request.into_inner()).await
    }

    async fn find_servers(
        &self,
        request: Request<v1::FindServersRequest>,
    ) -> Result<Response<v1::FindServersResponse>, Status> {
        self.inner.clone().find_servers(request.into_inner()).await
    }
}
