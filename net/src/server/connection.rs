//! One connection of a server: its bytes, its place among the others, and the way to close it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tonic::transport::server::Connected;

use super::gate::{ConnectionOrder, ConnectionPlace, Gate};
use super::preface;
use super::table::Id;

/// The first bytes of a connection, which were read to judge them.
pub(super) type FirstBytes = [u8; preface::LENGTH];

/// A connection that has spoken.
pub(super) struct Connection<S> {
    stream: S,
    heard: FirstBytes,
    /// How many of those the HTTP/2 library has read.
    replayed: usize,
    place: ConnectionPlace,
    /// Done when the connection is to be cut, or the server is gone.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, heard: FirstBytes, place: ConnectionPlace) -> Self {
        let mut orders = place.orders();
        let cut = Box::pin(async move { until(&mut orders, ConnectionOrder::Cut).await });
        Self { stream, heard, replayed: 0, place, cut }
    }

    /// Fails once the connection is to be cut. Every poll comes by here, so that whatever the library waits for,
    /// it is woken.
    fn check(&mut self, context: &mut Context<'_>) -> std::io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Ready(()) => Err(std::io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

/// Waits until a connection has an order as strict as this one.
pub(super) async fn until(orders: &mut watch::Receiver<ConnectionOrder>, order: ConnectionOrder) {
    // Without a sender the connection has ended.
    let _ = orders.wait_for(|now| *now >= order).await;
}

/// The connection of a call, as its handlers' layers see it.
#[derive(Debug, Clone)]
pub(super) struct CallConnection {
    pub(super) gate: Arc<Gate>,
    pub(super) id: Id,
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = CallConnection;

    fn connect_info(&self) -> CallConnection {
        self.place.presence()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
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
