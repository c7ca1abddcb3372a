//! A rogue that costs a daemon connections and handshakes, without a certificate: honest callers do not notice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coalloc_common::Role;
use coalloc_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::world::{TlsWorld, request};

pub(super) const SILENT: usize = 10_000;
pub(super) const HALF: usize = 64;
/// How long the rogue goes on at most.
const SIEGE: Duration = Duration::from_secs(15);

/// The beginning of a ClientHello: the head of a record of 512 bytes, and six of these.
const HALF_HELLO: [u8; 11] = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

/// Connects from an address of this machine.
async fn connect(from: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0))?;
    socket.connect(to).await
}

/// Begins handshakes and never goes on, over and over.
pub(super) async fn half(from: &'static str, to: SocketAddr) {
    loop {
        let Ok(mut stream) = connect(from, to).await else { continue };
        if stream.write_all(&HALF_HELLO).await.is_ok() {
            // Until the daemon has had enough of it.
            let _ = stream.read(&mut [0]).await;
        }
    }
}

/// Opens connections and says nothing, until there are enough of them or nobody wants more.
pub(super) async fn silence(from: &'static str, to: SocketAddr, opened: Arc<AtomicUsize>) {
    let mut open = Vec::new();
    while open.len() < SILENT {
        open.push(connect(from, to).await.unwrap());
        opened.store(open.len(), Ordering::Relaxed);
    }
    // The daemon closes them, not the rogue.
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_and_handshakes_that_never_finish_keep_nobody_out() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let to: SocketAddr = world.address("grc").parse().unwrap();
    let mut before = world.grc(&alice);
    before.list(v1::ListRequest::default()).await.unwrap();
    // A daemon tells strangers apart by their addresses. One behind the address of an honest client takes its turns.
    let from = "127.0.0.2";
    let opened = Arc::new(AtomicUsize::new(0));
    let mut rogue = JoinSet::new();
    rogue.spawn(silence(from, to, Arc::clone(&opened)));
    for _ in 0..HALF {
        rogue.spawn(half(from, to));
    }
    let (begun, mut calls) = (Instant::now(), 0);
    // On a busy machine ten thousand take long; a tenth of them is far more than may be silent.
    let is_enough = |opened: usize| opened == SILENT || begun.elapsed() > SIEGE;
    while !is_enough(opened.load(Ordering::Relaxed)) || calls < 20 {
        // Over a new connection, and over the one from before.
        let listed = world.grc(&alice).list(v1::ListRequest::default()).await;
        assert!(listed.is_ok(), "{listed:?} after {calls} calls");
        before.list(v1::ListRequest::default()).await.unwrap();
        calls += 1;
    }
    assert!(opened.load(Ordering::Relaxed) > SILENT / 10, "{opened:?}");
    let made = world.grc(&alice).reserve(request("r1", "alice")).await.unwrap().into_inner();
    let made = made.reservation.unwrap();
    assert_eq!(made.state(), v1::ReservationState::Confirmed, "{made:?}");
    assert!(rogue.try_join_next().is_none(), "the rogue is still at it");
}
