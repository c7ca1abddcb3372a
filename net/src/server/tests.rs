//! Tests with silent, idle and foreign connections, and with connections that have active calls, over real
//! sockets and over pipes.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use v1::resolver_client::ResolverClient;

use super::gate::Cause;
use super::*;

/// The preface and empty SETTINGS, and nothing more.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// A resolver that answers at once, except for "slow", which waits for a permit.
struct Resolves {
    begun: mpsc::UnboundedSender<()>,
    go: Arc<Semaphore>,
}

#[tonic::async_trait]
impl v1::resolver_server::Resolver for Resolves {
    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        if request.get_ref().transaction == "slow" {
            let _ = self.begun.send(());
            self.go.acquire().await.unwrap().forget();
        }
        Ok(Response::new(v1::ResolveResponse { decision: v1::Decision::Commit.into() }))
    }
}

/// A running server.
struct Daemon {
    gate: Arc<Gate>,
    begun: mpsc::UnboundedReceiver<()>,
    go: Arc<Semaphore>,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<Result<(), ServerError>>,
}

impl Daemon {
    fn start(listener: impl Listener, bounds: Bounds) -> Self {
        let (tell, begun) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let (go, gate) = (Arc::new(Semaphore::new(0)), Gate::new(bounds));
        let routes = Routes::new(resolver(Resolves { begun: tell, go: Arc::clone(&go) }));
        let at = Arc::clone(&gate);
        let ended = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let room = watch::channel(coalloc_common::DiskSpace::Enough).1;
            serve_at(
                &at,
                listener,
                Access::plain_text(),
                routes,
                &["coalloc.v1.Resolver"],
                room,
                stopped,
            )
            .await
        });
        Self { gate, begun, go, stop, ended }
    }

    /// A server on a real socket, with `live` places for live connections.
    async fn on_loopback(live: usize) -> (Self, SocketAddr) {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        (Self::start(listener, bounds(live)), address)
    }

    /// Waits until the numbers of silent, live, leaving and cut connections are as wanted.
    async fn until(&self, wanted: impl Fn([usize; 4]) -> bool) {
        while !wanted(self.gate.counts()) {
            tokio::task::yield_now().await;
        }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

fn bounds(live: usize) -> Bounds {
    Bounds {
        silent: 64,
        silent_per_peer: 48,
        live,
        live_per_peer: live,
        leaving: 4,
        patience: limits::SILENT_PATIENCE.to_std(),
    }
}

fn client(address: SocketAddr) -> ResolverClient<Channel> {
    let endpoint = crate::client::endpoint("test", &address.to_string()).unwrap();
    ResolverClient::new(endpoint.connect_lazy())
}

async fn ask(client: &mut ResolverClient<Channel>, what: &str) -> Result<(), Code> {
    let request = v1::ResolveRequest { transaction: what.to_owned(), ..Default::default() };
    client.resolve(request).await.map(drop).map_err(|status| status.code())
}

/// Opens a connection that sends these bytes and nothing more.
async fn says(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have closed it already.
    let _ = stream.write_all(bytes).await;
    stream
}

fn closed(cause: Cause) -> u64 {
    cause.counter().get()
}

#[tokio::test]
async fn no_answer_waits_for_an_acknowledgement_of_the_one_before() {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, peer) = accept_tcp(&listener).await.unwrap();
    assert!(stream.nodelay().unwrap());
    assert_eq!(peer.ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
}

#[tokio::test]
async fn silent_connections_and_half_prefaces_keep_nobody_out() {
    let (daemon, address) = Daemon::on_loopback(4).await;
    let mut early = client(address);
    ask(&mut early, "before").await.unwrap();
    let before = closed(Cause::Crowded);
    let mut silent = Vec::new();
    for n in 0..300 {
        silent.push(says(address, if n % 2 == 0 { b"" } else { &OPENING[..12 + n % 20] }).await);
    }
    assert_eq!(ask(&mut client(address), "among the silent").await, Ok(()));
    assert_eq!(ask(&mut early, "after").await, Ok(()));
    assert!(closed(Cause::Crowded) > before);
    let [silent_now, live, ..] = daemon.gate.counts();
    assert!(silent_now <= bounds(4).silent_per_peer + 1 && live <= 4, "{silent_now} {live}");
    daemon.stop().await;
}

#[tokio::test]
async fn idle_connections_make_way_and_one_with_a_call_in_flight_never_does() {
    let (mut daemon, address) = Daemon::on_loopback(8).await;
    let mut coordinator = client(address);
    let mut same = coordinator.clone();
    let call = tokio::spawn(async move { ask(&mut same, "slow").await });
    daemon.begun.recv().await.unwrap();
    let before = closed(Cause::Idle);
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(says(address, OPENING).await);
    }
    assert_eq!(ask(&mut client(address), "a restarted coordinator").await, Ok(()));
    assert!(closed(Cause::Idle) > before);
    daemon.go.add_permits(1);
    assert_eq!(call.await.unwrap(), Ok(()));
    // Over the same connection.
    assert_eq!(ask(&mut coordinator, "on the old channel").await, Ok(()));
    let [_, live, leaving, _] = daemon.gate.counts();
    assert!(live <= 8 && leaving <= 4, "{live} {leaving}");
    drop(idle);
    daemon.stop().await;
}

#[tokio::test]
async fn an_idle_channel_that_made_way_connects_again() {
    let (daemon, address) = Daemon::on_loopback(1).await;
    let (mut one, mut other) = (client(address), client(address));
    for _ in 0..20 {
        assert_eq!(ask(&mut one, "mine").await, Ok(()));
        assert_eq!(ask(&mut other, "mine").await, Ok(()));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn with_calls_at_work_on_all_connections_one_more_is_refused_until_one_is_done() {
    let (mut daemon, address) = Daemon::on_loopback(3).await;
    let mut calls = JoinSet::new();
    for _ in 0..3 {
        let mut client = client(address);
        calls.spawn(async move { ask(&mut client, "slow").await });
        daemon.begun.recv().await.unwrap();
    }
    let before = closed(Cause::Refused);
    assert_eq!(ask(&mut client(address), "one more").await, Err(Code::ResourceExhausted));
    assert!(closed(Cause::Refused) > before);
    daemon.go.add_permits(1);
    assert_eq!(calls.join_next().await.unwrap().unwrap(), Ok(()));
    assert_eq!(ask(&mut client(address), "one more").await, Ok(()));
    daemon.go.add_permits(2);
    assert_eq!(calls.join_all().await, [Ok(()), Ok(())]);
    daemon.stop().await;
}

#[tokio::test]
async fn a_call_whose_request_never_comes_protects_nothing() {
    let (daemon, address) = Daemon::on_loopback(1).await;
    // HEADERS of a POST to the resolver, without the end of the stream: `:method` and `:scheme` of the static
    // table, `:path` as a literal, `content-type` as a literal.
    let path = b"/coalloc.v1.Resolver/Resolve";
    let kind = b"application/grpc";
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path);
    block.extend([0x0f, 0x10, u8::try_from(kind.len()).unwrap()]);
    block.extend(kind);
    let mut bytes = OPENING.to_vec();
    bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), 0x1, 0x4, 0, 0, 0, 1]);
    bytes.extend(block);
    let mut half = says(address, &bytes).await;
    daemon.until(|[_, live, ..]| live == 1).await;
    assert_eq!(ask(&mut client(address), "whole").await, Ok(()));
    // The connection is told to leave, and then cut.
    let mut rest = Vec::new();
    let _ = half.read_to_end(&mut rest).await;
    daemon.stop().await;
}

#[tokio::test]
async fn what_is_not_http2_is_closed_at_once() {
    let (daemon, address) = Daemon::on_loopback(1).await;
    let before = closed(Cause::Foreign);
    let mut stream = says(address, b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
    assert!(closed(Cause::Foreign) > before);
    daemon.stop().await;
}

/// Connections that a test makes, from any address that it chooses.
struct Pipes(mpsc::UnboundedReceiver<(DuplexStream, IpAddr)>);

impl Listener for Pipes {
    async fn next(&mut self) -> std::io::Result<(BoxStream, IpAddr)> {
        match self.0.recv().await {
            Some((stream, address)) => Ok((Box::new(stream), address)),
            None => std::future::pending().await,
        }
    }
}

fn pipes() -> (mpsc::UnboundedSender<(DuplexStream, IpAddr)>, Pipes) {
    let (connect, connections) = mpsc::unbounded_channel();
    (connect, Pipes(connections))
}

fn pipe(connect: &mpsc::UnboundedSender<(DuplexStream, IpAddr)>, host: u8) -> DuplexStream {
    let (client, server) = duplex(1 << 16);
    connect.send((server, IpAddr::from([10, 0, 0, host]))).unwrap();
    client
}

/// A channel over pipes from one host; it reconnects whenever it has to.
fn channel(connect: &mpsc::UnboundedSender<(DuplexStream, IpAddr)>, host: u8) -> Channel {
    let connect = connect.clone();
    let connector = tower_service_fn(move |_| {
        let stream = pipe(&connect, host);
        std::future::ready(Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream)))
    });
    Endpoint::from_static("http://pipe").connect_with_connector_lazy(connector)
}

/// A service made from a closure.
fn tower_service_fn<F>(call: F) -> ServiceFn<F> {
    ServiceFn(call)
}

struct ServiceFn<F>(F);

impl<F, Q, R> tower_service::Service<Q> for ServiceFn<F>
where
    F: FnMut(Q) -> R,
    R: Future<Output = Result<hyper_util::rt::TokioIo<DuplexStream>, std::io::Error>>,
{
    type Response = hyper_util::rt::TokioIo<DuplexStream>;
    type Error = std::io::Error;
    type Future = R;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), std::io::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Q) -> R {
        self.0(request)
    }
}

#[tokio::test]
async fn whoever_says_nothing_for_long_is_closed_and_whoever_speaks_is_not() {
    let (connect, listener) = pipes();
    let daemon =
        Daemon::start(listener, Bounds { patience: Duration::from_millis(50), ..bounds(4) });
    let (mut silent, mut half) = (pipe(&connect, 1), pipe(&connect, 1));
    half.write_all(&OPENING[..OPENING.len() - 1]).await.unwrap();
    let mut speaks = pipe(&connect, 1);
    speaks.write_all(OPENING).await.unwrap();
    let before = closed(Cause::Silent);
    // Only time can end these two.
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert_eq!(half.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert!(closed(Cause::Silent) >= before + 2);
    daemon.until(|counts| counts == [0, 1, 0, 0]).await;
    let mut settings = [0; 9];
    speaks.read_exact(&mut settings).await.unwrap();
    assert_eq!(settings[3], 4);
    drop(speaks);
    daemon.stop().await;
}

#[tokio::test]
async fn one_address_cannot_have_all_places() {
    let (connect, listener) = pipes();
    let four_of_six = Bounds { live: 6, live_per_peer: 4, ..bounds(0) };
    let mut daemon = Daemon::start(listener, four_of_six);
    let mut calls = JoinSet::new();
    for _ in 0..4 {
        let mut client = ResolverClient::new(channel(&connect, 1));
        calls.spawn(async move { ask(&mut client, "slow").await });
        daemon.begun.recv().await.unwrap();
    }
    let mut same = ResolverClient::new(channel(&connect, 1));
    let mut other = ResolverClient::new(channel(&connect, 2));
    assert_eq!(ask(&mut same, "one more").await, Err(Code::ResourceExhausted));
    assert_eq!(ask(&mut other, "the first of its address").await, Ok(()));
    daemon.go.add_permits(4);
    assert_eq!(calls.join_all().await, [Ok(()), Ok(()), Ok(()), Ok(())]);
    daemon.stop().await;
}

#[tokio::test]
async fn the_address_with_the_most_connections_gives_first() {
    let (connect, listener) = pipes();
    let daemon = Daemon::start(listener, bounds(4));
    let mut quiet = pipe(&connect, 9);
    quiet.write_all(OPENING).await.unwrap();
    daemon.until(|[_, live, ..]| live == 1).await;
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut one = pipe(&connect, 1);
        one.write_all(OPENING).await.unwrap();
        crowd.push(one);
    }
    assert_eq!(ask(&mut ResolverClient::new(channel(&connect, 2)), "mine").await, Ok(()));
    drop(crowd);
    // `quiet` was idle for longest and is still here, alone once the crowd has gone.
    daemon.until(|counts| counts == [0, 1, 0, 0]).await;
    drop(quiet);
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_that_stops_closes_silent_and_idle_connections() {
    let (connect, listener) = pipes();
    let daemon = Daemon::start(listener, bounds(4));
    let mut silent = pipe(&connect, 1);
    let mut idle = ResolverClient::new(channel(&connect, 1));
    assert_eq!(ask(&mut idle, "once").await, Ok(()));
    daemon.until(|counts| counts == [1, 1, 0, 0]).await;
    let gate = Arc::clone(&daemon.gate);
    daemon.stop().await;
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert_eq!(gate.counts(), [0; 4]);
}
