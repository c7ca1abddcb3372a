//! A relay in front of a daemon, one for each directed connection between a coordinator and a resource
//! manager. It understands HTTP/2 and nothing above it: every call is taken in whole and sent on, perhaps
//! later, twice, or never, and so is its answer. That is how single messages are lost, doubled and
//! overtaken on a byte stream that itself loses nothing. Below that it breaks connections after a random
//! number of bytes, in the middle of a frame.

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

/// What a connection is like. Chances are of 1,000 calls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    /// The call never arrives.
    pub(crate) lose: u64,
    /// It arrives, and its answer does not.
    pub(crate) lose_answer: u64,
    /// It arrives twice, the copy up to two seconds later.
    pub(crate) twice: u64,
    /// It is lost for its sender and arrives up to five seconds later all the same.
    pub(crate) late: u64,
    /// It or its answer is kept for a while,
    pub(crate) slow: u64,
    /// at most so long.
    pub(crate) slow_ms: u64,
    /// Of 1,000 new connections, how many break after some bytes.
    pub(crate) snap: u64,
}

/// An ordinary day.
pub(crate) const FAIR: Weather =
    Weather { lose: 4, lose_answer: 4, twice: 10, late: 4, slow: 50, slow_ms: 30, snap: 20 };
/// A bad one.
pub(crate) const STORM: Weather =
    Weather { lose: 80, lose_answer: 80, twice: 100, late: 60, slow: 300, slow_ms: 900, snap: 400 };

/// What became of calls, by what was done to them.
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
    /// `grc>nrm`: who calls whom.
    pub(crate) name: String,
    state: Mutex<State>,
    broken: Notify,
}

struct State {
    random: ChaCha20Rng,
    weather: Weather,
    /// Calls do not arrive.
    cut_to: bool,
    /// Answers do not arrive.
    cut_back: bool,
    counts: Counts,
}

/// What is done to one call.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    lose: bool,
    lose_answer: bool,
    twice: Option<Duration>,
    late: Option<Duration>,
    before: Duration,
    after: Duration,
    /// How long the sender of a lost call is left without a word.
    silence: Duration,
}

impl Link {
    /// Listens at one address and calls another.
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

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.state.lock().unwrap().weather = weather;
    }

    /// Cuts one way, or heals it.
    pub(crate) fn cut(&self, back: bool, cut: bool) {
        let mut state = self.state.lock().unwrap();
        *(if back { &mut state.cut_back } else { &mut state.cut_to }) = cut;
    }

    /// No more faults.
    pub(crate) fn heal(&self) {
        let mut state = self.state.lock().unwrap();
        state.weather = Weather::default();
        (state.cut_to, state.cut_back) = (false, false);
    }

    /// Breaks every connection there is, wherever it is.
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
                    // A broken connection is what this is for.
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
        // One of them at most: a call that is lost cannot also be late.
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

    /// Waits while this way is cut: nobody says anything, and the caller's own patience ends it.
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

/// A call that has been taken in whole.
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

/// A number of `low..=high`.
pub(crate) fn pick(random: &mut impl Rng, low: u64, high: u64) -> u64 {
    Uniform::new_inclusive(low, high).unwrap().sample(random)
}

/// A connection that breaks after so many bytes, both ways together.
struct Fragile {
    stream: TcpStream,
    left: Option<usize>,
}

impl Fragile {
    /// How many of these bytes still pass.
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
        // The part is a view of the same memory; TcpStream has initialised what it has filled.
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
