//! A relay in front of a daemon, one for each directed connection between a coordinator and a resource manager.
//!
//! It understands HTTP/2 and nothing above it. It reads every call completely and sends it on, perhaps
//! later, twice, or never; answers likewise. In this way single messages are lost, duplicated and overtaken
//! on a byte stream that itself loses nothing. Below that, it breaks connections after a random number of
//! bytes, in the middle of a frame.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, Uniform};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Channel;
use tower_service::Service as _;

/// The faults of a connection. Chances are per 1,000 calls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionFaults {
    /// Chance that the call never arrives.
    pub(crate) lose: u64,
    /// Chance that the call arrives, but its answer does not.
    pub(crate) lose_answer: u64,
    /// Chance that the call arrives twice, the copy up to two seconds later.
    pub(crate) twice: u64,
    /// Chance that the call is lost for its sender, but still arrives up to five seconds later.
    pub(crate) late: u64,
    /// Chance that the call or its answer is delayed.
    pub(crate) slow: u64,
    /// Maximum of such a delay, in milliseconds.
    pub(crate) slow_ms: u64,
    /// How many of 1,000 new connections break after some bytes.
    pub(crate) snap: u64,
}

/// Faults in normal times.
pub(crate) const FAIR: ConnectionFaults = ConnectionFaults {
    lose: 4,
    lose_answer: 4,
    twice: 10,
    late: 4,
    slow: 50,
    slow_ms: 30,
    snap: 20,
};
/// Faults during a storm.
pub(crate) const STORM: ConnectionFaults = ConnectionFaults {
    lose: 80,
    lose_answer: 80,
    twice: 100,
    late: 60,
    slow: 300,
    slow_ms: 900,
    snap: 400,
};

/// How many calls had which fault.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) lost: u64,
    pub(crate) answers_lost: u64,
    pub(crate) doubled: u64,
    pub(crate) late: u64,
    pub(crate) slowed: u64,
    pub(crate) snapped: u64,
}

/// One directed connection.
pub(crate) struct Link {
    /// Caller and called daemon: `grc>nrm`.
    pub(crate) name: String,
    state: Mutex<State>,
    broken: Notify,
}

struct State {
    random: ChaCha20Rng,
    weather: ConnectionFaults,
    /// Whether calls do not arrive.
    cut_to: bool,
    /// Whether answers do not arrive.
    cut_back: bool,
    counts: Counts,
}

/// The faults of one call.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    lose: bool,
    lose_answer: bool,
    twice: Option<Duration>,
    late: Option<Duration>,
    before: Duration,
    after: Duration,
    /// How long the sender of a lost call gets no answer at all.
    silence: Duration,
}

impl Link {
    /// Listens at one address and forwards to another.
    pub(crate) async fn start(name: String, seed: u64, listen: &str, to: &str) -> Arc<Self> {
        let state = State {
            random: ChaCha20Rng::seed_from_u64(seed),
            weather: FAIR,
            cut_to: false,
            cut_back: false,
            counts: Counts::default(),
        };
        let link = Arc::new(Self { name, state: Mutex::new(state), broken: Notify::new() });
        let listener = TcpListener::bind(listen).await.unwrap();
        let channel = coalloc_net::client::channel("relay", to).unwrap();
        tokio::spawn(Arc::clone(&link).accept(listener, channel));
        link
    }

    pub(crate) fn set_weather(&self, weather: ConnectionFaults) {
        self.state.lock().unwrap().weather = weather;
    }

    /// Cuts one direction, or heals it.
    pub(crate) fn cut(&self, back: bool, cut: bool) {
        let mut state = self.state.lock().unwrap();
        *(if back { &mut state.cut_back } else { &mut state.cut_to }) = cut;
    }

    /// Ends all faults of the link.
    pub(crate) fn heal(&self) {
        let mut state = self.state.lock().unwrap();
        state.weather = ConnectionFaults::default();
        (state.cut_to, state.cut_back) = (false, false);
    }

    /// Breaks every connection, whatever it is doing.
    pub(crate) fn snap(&self) {
        self.state.lock().unwrap().counts.snapped += 1;
        self.broken.notify_waiters();
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().unwrap().counts
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, channel: Channel) {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let stream = TokioIo::new(Fragile { stream, left: self.draw_bytes() });
            let (link, channel) = (Arc::clone(&self), channel.clone());
            tokio::spawn(async move {
                let pass = service_fn(|request| {
                    let (link, channel) = (Arc::clone(&link), channel.clone());
                    async move { Ok::<_, std::convert::Infallible>(link.pass(request, channel).await) }
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::select! {
                    // Broken connections are expected here.
                    _ = server.serve_connection(stream, pass) => {}
                    () = link.broken.notified() => {}
                }
            });
        }
    }

    fn draw_bytes(&self) -> Option<usize> {
        let mut state = self.state.lock().unwrap();
        let snap = state.weather.snap;
        if pick(&mut state.random, 0, 999) >= snap {
            return None;
        }
        state.counts.snapped += 1;
        Some(pick(&mut state.random, 30, 20_000) as usize)
    }

    fn draw(&self) -> Fate {
        let mut state = self.state.lock().unwrap();
        let State { random, weather, counts, .. } = &mut *state;
        let mut fate = Fate::default();
        let mut chance = |of_1000: u64| pick(random, 0, 999) < of_1000;
        counts.calls += 1;
        // At most one of these applies: a call that is lost cannot also be late.
        if chance(weather.lose) {
            fate.lose = true;
            counts.lost += 1;
        } else if chance(weather.lose_answer) {
            fate.lose_answer = true;
            counts.answers_lost += 1;
        } else if chance(weather.late) {
            fate.late = Some(Duration::from_millis(pick(random, 0, 5_000)));
            counts.late += 1;
        } else if chance(weather.twice) {
            fate.twice = Some(Duration::from_millis(pick(random, 0, 2_000)));
            counts.doubled += 1;
        }
        if pick(random, 0, 999) < weather.slow {
            counts.slowed += 1;
            fate.before = Duration::from_millis(pick(random, 0, weather.slow_ms));
            fate.after = Duration::from_millis(pick(random, 0, weather.slow_ms));
        }
        fate.silence = Duration::from_millis(pick(random, 0, 1_500));
        fate
    }

    /// Waits while this direction is cut: there is no answer, so the caller's own timeout ends the call.
    async fn while_cut(&self, back: bool) -> bool {
        let mut was_cut = false;
        loop {
            {
                let state = self.state.lock().unwrap();
                if !(if back { state.cut_back } else { state.cut_to }) {
                    return was_cut;
                }
            }
            was_cut = true;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn pass(
        self: Arc<Self>,
        request: http::Request<Incoming>,
        channel: Channel,
    ) -> http::Response<Body> {
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return lost() };
        let call = Call { parts, body: body.to_bytes() };
        let fate = self.draw();
        if self.while_cut(false).await {
            return lost();
        }
        if fate.lose {
            tokio::time::sleep(fate.silence).await;
            return lost();
        }
        if let Some(after) = fate.late.or(fate.twice) {
            let (call, channel) = (call.clone(), channel.clone());
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let _ = call.send(channel).await;
            });
        }
        if fate.late.is_some() {
            tokio::time::sleep(fate.silence).await;
            return lost();
        }
        tokio::time::sleep(fate.before).await;
        let answer = call.send(channel).await;
        tokio::time::sleep(fate.after).await;
        let cut = self.while_cut(true).await;
        match answer {
            Ok(answer) if !cut && !fate.lose_answer => answer,
            Ok(_) | Err(_) => lost(),
        }
    }
}

fn lost() -> http::Response<Body> {
    Status::unavailable("lost on the way").into_http()
}

/// A call that has been read completely.
#[derive(Debug, Clone)]
struct Call {
    parts: http::request::Parts,
    body: Bytes,
}

impl Call {
    async fn send(
        self,
        mut channel: Channel,
    ) -> Result<http::Response<Body>, tonic::transport::Error> {
        poll_fn(|context| channel.poll_ready(context)).await?;
        let body = Body::new(Full::new(self.body));
        channel.call(http::Request::from_parts(self.parts, body)).await
    }
}

/// Draws a number from `low..=high`.
pub(crate) fn pick(random: &mut impl Rng, low: u64, high: u64) -> u64 {
    Uniform::new_inclusive(low, high).unwrap().sample(random)
}

/// A connection that breaks after this many bytes, both directions together.
struct Fragile {
    stream: TcpStream,
    left: Option<usize>,
}

impl Fragile {
    /// How many of these bytes may still pass.
    fn pass(&self, bytes: usize) -> io::Result<usize> {
        match self.left {
            None => Ok(bytes),
            Some(0) => Err(io::ErrorKind::ConnectionReset.into()),
            Some(left) => Ok(left.min(bytes)),
        }
    }

    fn passed(&mut self, bytes: usize) {
        self.left = self.left.map(|left| left.saturating_sub(bytes));
    }
}

impl AsyncRead for Fragile {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let most = this.pass(buffer.remaining())?;
        let mut part = buffer.take(most);
        ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
        let bytes = part.filled().len();
        // `part` is a view of the same memory; TcpStream has initialised what it has filled.
        let seen = part.filled().to_vec();
        buffer.put_slice(&seen);
        this.passed(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Fragile {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let most = this.pass(bytes.len())?;
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, &bytes[..most]))?;
        this.passed(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.lost += other.lost;
        self.answers_lost += other.answers_lost;
        self.doubled += other.doubled;
        self.late += other.late;
        self.slowed += other.slowed;
        self.snapped += other.snapped;
    }
}
