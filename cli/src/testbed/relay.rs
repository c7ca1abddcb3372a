//! `coalloc relay`: forwards TCP connections to another address, with a delay.
//!
//! The relay stands between the domains of a testbed, where a laboratory would have a long fibre or `tc
//! netem`. `tc netem` needs a kernel module and root in a network namespace; the relay needs neither, and
//! runs in a container that holds nothing but this program. It cannot do what TCP hides from programs: it
//! sees no packets to drop or to reorder. A lost packet is therefore simulated by its effect on the sender,
//! a pause ([`mod@line`]).
//!
//! Access control (the network decides who may connect) and reading the traffic are deliberately not here.

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

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;
use crate::kit::when::span;
use line::NetworkConditions;

/// Forward TCP connections, with a delay: stands for the distance between two domains of a testbed
///
/// It runs until SIGTERM or Ctrl-C. Each direction is delayed, so a request and its answer together take
/// twice the delay longer. Nothing is reordered.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc relay 127.0.0.1:8101=127.0.0.1:7101 --delay 20ms\n  \
    coalloc relay 0.0.0.0:7101=crm-N0:7101 0.0.0.0:7000=grc:7000 --delay 20ms --jitter 5ms --loss 0.5")]
pub struct RelayArgs {
    /// Where to listen, and where to forward connections: ADDRESS:PORT=HOST:PORT
    #[arg(value_name = "LISTEN=TO", required = true)]
    routes: Vec<Route>,
    /// Delay of everything, in each direction; given more than once, the delays add up
    #[arg(long, value_name = "LENGTH", default_value = "0ms")]
    delay: Vec<Pause>,
    /// Random deviation from the delay, up or down; the result is never below zero
    #[arg(long, value_name = "LENGTH", default_value = "0ms")]
    jitter: Pause,
    /// Percent of pieces that are 200 ms late, as if they had been lost and sent again
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    loss: Percent,
    /// Seed of the random numbers
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// An address to listen on, and the address to which its connections go.
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

/// A length of time, zero included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause(Span);

impl FromStr for Pause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = span(text)?;
        let most = limits::RELAY_DELAY_MAX;
        if span > most {
            return Err(format!("it is too long; allowed: a length like 20ms or 1s, up to {most}"));
        }
        Ok(Self(span))
    }
}

/// A percentage with three decimal places, stored as parts of 100 000.
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

/// Runs `coalloc relay` until it is stopped by a signal.
///
/// # Errors
/// When it cannot listen on an address, or the sum of the delays is too large.
pub async fn run(args: &RelayArgs) -> Result<Answer, Failure> {
    let weather = args.weather()?;
    let mut listeners = Vec::new();
    // All addresses are bound before any is served: a relay that half works is no help.
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
        // If port 0 was asked for, this is the actual port.
        if let Ok(address) = listener.local_addr() {
            text::note(&format!("{address} is forwarded to {to}, {weather}"));
        }
        tokio::spawn(Arc::clone(&relay).accept(listener, to));
    }
    coalloc_net::server::stop_signal().await;
    Ok(Answer::done(String::new()))
}

impl RelayArgs {
    fn weather(&self) -> Result<NetworkConditions, Failure> {
        let delay = self.delay.iter().fold(Span::ZERO, |sum, one| sum.saturating_add(one.0));
        if delay > limits::RELAY_DELAY_MAX {
            let most = limits::RELAY_DELAY_MAX;
            return Err(Failure::bad_input(format!(
                "--delay is {delay} in total, allowed: up to {most}"
            )));
        }
        let (delay, jitter) = (delay.to_std(), self.jitter.0.to_std());
        Ok(NetworkConditions { delay, jitter, loss: self.loss.0, seed: self.seed })
    }
}

/// The state that all connections share.
struct Relay {
    weather: NetworkConditions,
    /// Number of connections so far; each connection has its own random numbers.
    connections: AtomicU64,
    places: Arc<Semaphore>,
}

impl Relay {
    /// Accepts connections at one address, without end.
    async fn accept(self: Arc<Self>, listener: TcpListener, to: String) {
        let to = Arc::new(Target { address: to, lost: AtomicBool::new(false) });
        // The loop does not end, because the semaphore is never closed.
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

/// The address that connections are forwarded to.
struct Target {
    address: String,
    /// Whether the last attempt to connect failed, so that the failure is printed once and not twice a
    /// second for hours.
    lost: AtomicBool,
}

impl Target {
    /// Connects to the target. The name is looked up each time, because its address may have changed.
    async fn connect(&self) -> Option<TcpStream> {
        let patience: Duration = limits::CONNECT_PATIENCE.to_std();
        let reached = tokio::time::timeout(patience, TcpStream::connect(&self.address)).await;
        let problem = match reached {
            Ok(Ok(stream)) => {
                if self.lost.swap(false, Ordering::Relaxed) {
                    text::note(&format!("{} can be reached again", self.address));
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

    fn weather(line: &str) -> Result<NetworkConditions, String> {
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
            ("--delay 6s --delay 6s", "12 s in total, allowed: up to 10 s"),
            ("--jitter quick", "allowed: a length"),
            ("--jitter 5", "write `5min` or `5s`"),
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
