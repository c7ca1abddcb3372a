//! `coalloc relay`: TCP connections passed on to elsewhere, later than they came.
//!
//! It stands between the domains of a testbed, where a laboratory would have a long fibre or `tc netem`. That
//! needs a kernel module and root in somebody's network namespace; this needs neither, and runs in a container
//! that holds nothing but this program. What it cannot do is what TCP hides from programs: there are no
//! packets to drop or to reorder, so a lost one is what its sender would make of it, a pause ([`line`]).
//!
//! Left out on purpose: who may connect (a network decides that), and reading what passes.

mod line;

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use coalloc_common::{Span, limits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::exit::{Answer, Exit, Failure};
use crate::text;
use crate::when::span_us;
use line::Weather;

/// Pass TCP connections on to elsewhere, with a delay: what lies between two domains of a testbed
///
/// It runs until SIGTERM or Ctrl-C. Each direction is delayed, so that a question and its answer take twice
/// the delay longer. Nothing is reordered.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc relay 127.0.0.1:8101=127.0.0.1:7101 --delay 20ms\n  \
    coalloc relay 0.0.0.0:7101=crm-N0:7101 0.0.0.0:7000=grc:7000 --delay 20ms --jitter 5ms --loss 0.5")]
pub struct RelayArgs {
    /// Where to listen, and where to pass on what comes: ADDRESS:PORT=HOST:PORT
    #[arg(value_name = "LISTEN=TO", required = true)]
    routes: Vec<Route>,
    /// How much later everything arrives, in each direction; given more than once, they add up
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    delay: Vec<Pause>,
    /// How much more or less than that, at random; never less than nothing
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    jitter: Pause,
    /// Percent of pieces that come 200 ms late, as if they had been lost and sent again
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    loss: Percent,
    /// Seed of what is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// One place to listen, and where its connections go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    listen: SocketAddr,
    to: String,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: ADDRESS:PORT=HOST:PORT, like 127.0.0.1:8101=127.0.0.1:7101";
        let (listen, to) = text.split_once('=').ok_or(allowed)?;
        coalloc_net::client::check_address("TO", to).map_err(|_| allowed)?;
        Ok(Self { listen: listen.parse().map_err(|_| allowed)?, to: to.to_owned() })
    }
}

/// A length of time, none included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause(Span);

impl FromStr for Pause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = span_us(text).map(Span::from_us).filter(|span| *span <= limits::RELAY_DELAY_MAX);
        let most = limits::RELAY_DELAY_MAX;
        span.map(Self).ok_or_else(|| format!("allowed: a time like 20ms or 1s, up to {most}"))
    }
}

/// A share in percent, to a thousandth, as parts of 100 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Percent(u32);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent: Option<f64> = text.trim().trim_end_matches('%').trim().parse().ok();
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        let parts = percent.map(|percent| (percent * 1_000.0).round() as u32);
        parts.map(Self).ok_or_else(|| "allowed: 0 to 100, in percent".to_owned())
    }
}

/// Runs `coalloc relay` until it is told to stop.
///
/// # Errors
/// When an address cannot be listened on, or the delays add up to too much.
pub async fn run(args: &RelayArgs) -> Result<Answer, Failure> {
    let weather = args.weather()?;
    let mut listeners = Vec::new();
    // All of them first: a relay of which a half works is no help.
    for route in &args.routes {
        let listener = TcpListener::bind(route.listen).await.map_err(|error| {
            Failure::new(Exit::CallFailed, format!("{} cannot be bound: {error}", route.listen))
        })?;
        listeners.push((listener, route.to.clone()));
    }
    let relay = Arc::new(Relay {
        weather,
        connections: AtomicU64::new(0),
        places: Arc::new(Semaphore::new(limits::RELAY_CONNECTIONS_MAX)),
    });
    for (listener, to) in listeners {
        // The port may have been 0.
        if let Ok(address) = listener.local_addr() {
            text::note(&format!("{address} is passed on to {to}, {weather}"));
        }
        tokio::spawn(Arc::clone(&relay).accept(listener, to));
    }
    coalloc_net::server::stop_signal().await;
    Ok(Answer::done(String::new()))
}

impl RelayArgs {
    fn weather(&self) -> Result<Weather, Failure> {
        let delay = self.delay.iter().fold(Span::ZERO, |sum, one| sum.saturating_add(one.0));
        if delay > limits::RELAY_DELAY_MAX {
            let most = limits::RELAY_DELAY_MAX;
            return Err(Failure::bad_input(format!(
                "--delay is {delay} together, allowed: up to {most}"
            )));
        }
        let (delay, jitter) = (delay.to_std(), self.jitter.0.to_std());
        Ok(Weather { delay, jitter, loss: self.loss.0, seed: self.seed })
    }
}

/// What all connections share.
struct Relay {
    weather: Weather,
    /// So many there were: each has random numbers of its own.
    connections: AtomicU64,
    places: Arc<Semaphore>,
}

impl Relay {
    /// Takes the connections of one address, for ever.
    async fn accept(self: Arc<Self>, listener: TcpListener, to: String) {
        let to = Arc::new(Target { address: to, lost: AtomicBool::new(false) });
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&self.places).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let number = self.connections.fetch_add(1, Ordering::Relaxed);
                    let (to, weather) = (Arc::clone(&to), self.weather);
                    tokio::spawn(async move {
                        if let Some(onward) = to.connect().await {
                            line::join(stream, onward, weather, number).await;
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    text::note(&format!("no connection could be accepted: {error}"));
                    tokio::time::sleep(limits::ACCEPT_PAUSE.to_std()).await;
                }
            }
        }
    }
}

/// Where connections go.
struct Target {
    address: String,
    /// Could it not be reached the last time? Said once, not twice a second for hours.
    lost: AtomicBool,
}

impl Target {
    /// A name may mean another address than the last time: it is looked up each time.
    async fn connect(&self) -> Option<TcpStream> {
        let patience: Duration = limits::CONNECT_PATIENCE.to_std();
        let reached = tokio::time::timeout(patience, TcpStream::connect(&self.address)).await;
        let problem = match reached {
            Ok(Ok(stream)) => {
                if self.lost.swap(false, Ordering::Relaxed) {
                    text::note(&format!("{} is reached again", self.address));
                }
                return Some(stream);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", patience.as_secs()),
        };
        if !self.lost.swap(true, Ordering::Relaxed) {
            text::note(&format!("{} cannot be reached: {problem}", self.address));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RelayArgs,
    }

    fn weather(line: &str) -> Result<Weather, String> {
        let words = std::iter::once("relay").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.args.weather().map_err(|failure| failure.message)
    }

    #[test]
    fn delays_add_up_and_bad_ones_are_named() {
        let route = "127.0.0.1:1=b:2";
        let plain = weather(route).unwrap();
        assert_eq!((plain.delay, plain.jitter, plain.loss), (Duration::ZERO, Duration::ZERO, 0));
        let line =
            format!("{route} --delay 20ms --delay 0ms --delay 1500us --jitter 5ms --loss 0.5%");
        let some = weather(&line).unwrap();
        assert_eq!(some.delay, Duration::from_micros(21_500));
        assert_eq!((some.jitter, some.loss), (Duration::from_millis(5), 500));
        for (bad, allowed) in [
            ("--delay 11s", "up to 10 s"),
            ("--delay 6s --delay 6s", "12 s together, allowed: up to 10 s"),
            ("--jitter quick", "a time like 20ms"),
            ("--loss 101", "0 to 100"),
            ("--loss NaN", "0 to 100"),
            ("127.0.0.1=b:2", "ADDRESS:PORT=HOST:PORT"),
            ("127.0.0.1:1=b", "ADDRESS:PORT=HOST:PORT"),
        ] {
            let error = weather(&format!("{route} {bad}")).unwrap_err();
            assert!(error.contains(allowed), "{bad}: {error}");
        }
    }
}
