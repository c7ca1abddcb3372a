//! The two directions of a connection. Each is a line on which data come out later than they went in, in order.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use coalloc_common::limits;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

/// Size of one read: a large frame of HTTP/2.
const PIECE: usize = 16 << 10;

/// The conditions on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NetworkConditions {
    /// Delay of everything.
    pub(super) delay: Duration,
    /// Maximum deviation from the delay, up or down.
    pub(super) jitter: Duration,
    /// How many of 100 000 pieces are lost and sent again.
    pub(super) loss: u32,
    /// Seed of the random numbers.
    pub(super) seed: u64,
}

impl fmt::Display for NetworkConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "{} ms later", milliseconds(self.delay))?;
        if !self.jitter.is_zero() {
            write!(f, ", {} ms more or less", milliseconds(self.jitter))?;
        }
        if self.loss > 0 {
            write!(f, ", {} % lost and sent again", f64::from(self.loss) / 1e3)?;
        }
        Ok(())
    }
}

impl NetworkConditions {
    /// The transit time of the next piece.
    fn transit(self, random: &mut ChaCha8Rng) -> Duration {
        let mut transit = self.delay;
        if !self.jitter.is_zero() {
            let width = 2 * self.jitter.as_micros() as u64;
            let later = transit + Duration::from_micros(random.random_range(0..=width));
            transit = later.saturating_sub(self.jitter);
        }
        if self.loss > 0 && random.random_range(0..100_000) < self.loss {
            transit += limits::RELAY_RESEND.to_std();
        }
        transit
    }
}

/// Forwards the data of both sides until both have ended. If one connection breaks, both are closed.
pub(super) async fn join(
    here: TcpStream,
    there: TcpStream,
    weather: NetworkConditions,
    number: u64,
) {
    // A side that wrote small pieces wanted them sent at once. If this fails, the connection has ended.
    let _ = (here.set_nodelay(true), there.set_nodelay(true));
    let (from_here, to_here) = here.into_split();
    let (from_there, to_there) = there.into_split();
    let random = |stream| {
        let mut random = ChaCha8Rng::seed_from_u64(weather.seed);
        random.set_stream(stream);
        random
    };
    let mut onward = pin!(pass(from_here, to_there, weather, random(2 * number)));
    let mut back = pin!(pass(from_there, to_here, weather, random(2 * number + 1)));
    // An error ends both directions: a reset must be visible on the other side too, and nobody needs more
    // than that. After a regular end the other side may still send something, but only for a limited time:
    // a side that was cut off never ends by itself.
    let last = limits::RELAY_LAST_WORDS.to_std();
    tokio::select! {
        ended = &mut onward => {
            if ended.is_ok() {
                let _ = tokio::time::timeout(last, back).await;
            }
        }
        ended = &mut back => {
            if ended.is_ok() {
                let _ = tokio::time::timeout(last, onward).await;
            }
        }
    }
}

/// Writes what it reads, after the transit time, including the end of the stream.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    weather: NetworkConditions,
    mut random: ChaCha8Rng,
) -> std::io::Result<()> {
    let (under_way, mut arriving) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    // If a side writes faster than the other side reads, its own TCP makes it wait.
    let room = Arc::new(Semaphore::new(limits::RELAY_WINDOW_BYTES));
    let window = Arc::clone(&room);
    let read = async move {
        let mut piece = vec![0; PIECE];
        let mut last = Instant::now();
        loop {
            let length = from.read(&mut piece).await?;
            // Pieces are not reordered: a fast piece waits for a slow piece before it.
            last = last.max(Instant::now() + weather.transit(&mut random));
            // Neither the semaphore nor the channel is closed before this ends.
            if let Ok(taken) = window.acquire_many(length as u32).await {
                taken.forget();
            }
            let _ = under_way.send((last, piece[..length].to_vec()));
            if length == 0 {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = arriving.recv().await {
            // A timer that has already expired would still wait for the next tick, a millisecond.
            if due > Instant::now() {
                tokio::time::sleep_until(due).await;
            }
            if piece.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&piece).await?;
            room.add_permits(piece.len());
        }
        Ok(())
    };
    tokio::try_join!(read, write).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: NetworkConditions =
        NetworkConditions { delay: Duration::ZERO, jitter: Duration::ZERO, loss: 0, seed: 1 };

    fn random() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(1)
    }

    #[test]
    fn a_transit_is_the_delay_give_or_take_the_jitter_and_a_resend_when_lost() {
        let ms = Duration::from_millis;
        assert_eq!(CALM.transit(&mut random()), Duration::ZERO);
        let late = NetworkConditions { delay: ms(20), ..CALM };
        assert_eq!(late.transit(&mut random()), ms(20));
        let jittery = NetworkConditions { delay: ms(5), jitter: ms(10), ..CALM };
        let mut random = random();
        let all: Vec<Duration> = (0..1_000).map(|_| jittery.transit(&mut random)).collect();
        assert!(all.iter().all(|one| *one <= ms(15)));
        assert!(all.iter().any(|one| one.is_zero()) && all.iter().any(|one| *one > ms(14)));
        let lossy = NetworkConditions { delay: ms(5), loss: 10_000, ..CALM };
        let lost = (0..1_000).filter(|_| lossy.transit(&mut random) > ms(5)).count();
        assert!((50..150).contains(&lost), "one in ten: {lost}");
        assert_eq!(lossy.to_string(), "5 ms later, 10 % lost and sent again");
    }

    /// All data arrive as they were sent, in order, followed by the end; never before their time.
    #[tokio::test]
    async fn what_goes_in_comes_out_later_and_whole() {
        let weather = NetworkConditions {
            delay: Duration::from_millis(30),
            jitter: Duration::from_millis(10),
            loss: 0,
            seed: 7,
        };
        // The data are larger than the window, so that waiting for space in the window is tested too.
        let sent: Vec<u8> = (0..limits::RELAY_WINDOW_BYTES * 3).map(|n| n as u8).collect();
        let (mut near, from) = tokio::io::duplex(4_096);
        let (to, mut far) = tokio::io::duplex(4_096);
        let began = Instant::now();
        let line = tokio::spawn(pass(from, to, weather, random()));
        let copy = sent.clone();
        let writer = tokio::spawn(async move {
            near.write_all(&copy).await.unwrap();
            near.shutdown().await.unwrap();
        });
        let mut received = vec![0; 1];
        far.read_exact(&mut received).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));
        far.read_to_end(&mut received).await.unwrap();
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        writer.await.unwrap();
        line.await.unwrap().unwrap();
    }

    /// When one side is gone, the other side is closed too.
    #[tokio::test]
    async fn a_connection_that_breaks_breaks_on_both_sides() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pair = || async {
            let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
            (client.unwrap(), server.unwrap().0)
        };
        let (mut caller, here) = pair().await;
        let (there, callee) = pair().await;
        let joined = tokio::spawn(join(here, there, CALM, 0));
        // Unread bytes turn the end into a reset.
        caller.write_all(b"unread").await.unwrap();
        drop(callee);
        // This may see an end or an error, but it must not wait for ever.
        let _ = caller.read(&mut [0; 8]).await;
        drop(caller);
        joined.await.unwrap();
    }
}
