//! One connection of a server: its bytes, its place among the other connections, and how it is closed.
//!
//! Left out: which connections are closed ([`super::table`]).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tonic::transport::server::Connected;

use super::BoxStream;
use super::gate::{ConnectionOrder, ConnectionPlace, Gate};
use super::preface;
use super::table::Id;
use crate::identity::server::ProvenClient;

/// The first bytes of a connection, which are read to judge whether it speaks HTTP/2.
pub(super) type FirstBytes = [u8; preface::LENGTH];

/// A connection that has spoken HTTP/2.
pub(super) struct Connection {
    stream: BoxStream,
    heard: FirstBytes,
    /// How many of these first bytes the HTTP/2 library has read.
    replayed: usize,
    client: Option<Arc<ProvenClient>>,
    place: ConnectionPlace,
    /// Done when the connection has to be cut, or when the server is gone.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What is known of a connection that has spoken HTTP/2.
pub(super) struct Heard {
    /// The connection, after its first bytes.
    pub(super) stream: BoxStream,
    /// Its first bytes.
    pub(super) first: FirstBytes,
    /// The client, if it has shown a certificate.
    pub(super) client: Option<Arc<ProvenClient>>,
}

impl Connection {
    pub(super) fn new(heard: Heard, place: ConnectionPlace) -> Self {
        let Heard { stream, first: heard, client } = heard;
        let mut orders = place.orders();
        let cut = Box::pin(async move { until(&mut orders, ConnectionOrder::Cut).await });
        Self { stream, heard, replayed: 0, client, place, cut }
    }

    /// Fails once the connection has to be cut. Every poll calls this, so that the library is woken whatever
    /// it waits for.
    fn check(&mut self, context: &mut Context<'_>) -> std::io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Ready(()) => Err(std::io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

/// Waits until a connection has this order, or a stricter one.
pub(super) async fn until(orders: &mut watch::Receiver<ConnectionOrder>, order: ConnectionOrder) {
    // Without a sender the connection has ended.
    let _ = orders.wait_for(|now| *now >= order).await;
}

/// The connection of a call, as the layers around its handler see it.
#[derive(Debug, Clone)]
pub(crate) struct CallConnection {
    pub(super) gate: Arc<Gate>,
    pub(super) id: Id,
    /// The client, if it has shown a certificate.
    pub(crate) client: Option<Arc<ProvenClient>>,
}

impl Connected for Connection {
    type ConnectInfo = CallConnection;

    fn connect_info(&self) -> CallConnection {
        let (gate, id) = self.place.number();
        CallConnection { gate, id, client: self.client.clone() }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.check(context)?;
        let heard = self.heard;
        let left = &heard[self.replayed..];
        if !left.is_empty() {
            let now = left.len().min(buffer.remaining());
            buffer.put_slice(&left[..now]);
            self.replayed += now;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
