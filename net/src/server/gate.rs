//! Lets connections in: accepts them, waits until they speak HTTP/2, gives them a place, and tells
//! connections when they have to leave. The rules are in [`super::table`].
//!
//! A connection is read here until its opening bytes are complete. So a silent connection costs an open file
//! and its first bytes, but no place.
//!
//! Left out: the rules ([`super::table`]), and which bytes are HTTP/2 ([`super::preface`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coalloc_common::limits;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::connection::{FirstBytes, Heard, until};
use super::preface::{self, PrefaceStatus};
use super::table::{Bounds, Eviction, Id, NoPlaceLeft, Peer, Phase, Table};
use super::{BoxStream, Listener};
use crate::identity::server::TlsServer;
use crate::metrics::net;

/// What a connection has to do; each value is stricter than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionOrder {
    /// Continue.
    Stay,
    /// Finish your calls, and accept no new ones.
    Leave,
    /// End now.
    Cut,
}

/// Why the server closed a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause {
    /// It sent nothing for [`limits::SILENT_PATIENCE`].
    Silent,
    /// It does not speak HTTP/2.
    Foreign,
    /// It was silent while too many other silent connections came.
    Crowded,
    /// It was idle while another connection needed its place.
    Idle,
    /// It spoke while every place was taken by a connection with active calls.
    Refused,
    /// It does not speak TLS, or its certificate is missing or not believed.
    Handshake,
    /// Its certificate is not believed any more.
    Disbelieved,
}

impl Cause {
    pub(super) fn counter(self) -> Counter {
        let word = match self {
            Self::Silent => "silent",
            Self::Foreign => "foreign",
            Self::Crowded => "crowded",
            Self::Idle => "idle",
            Self::Refused => "refused",
            Self::Handshake => "handshake",
            Self::Disbelieved => "disbelieved",
        };
        net().connections_closed.with([word])
    }
}

/// The connections of one server.
#[derive(Debug)]
pub(super) struct Gate {
    patience: Duration,
    state: Mutex<State>,
    /// Wakes when a connection has ended or spoken.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    table: Table,
    orders: BTreeMap<Id, watch::Sender<ConnectionOrder>>,
    shown: [Gauge; 4],
}

impl State {
    fn order(&self, id: Id, order: ConnectionOrder) {
        if let Some(orders) = self.orders.get(&id) {
            orders.send_replace(order);
        }
    }
}

impl Gate {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        let shown = Phase::ALL.map(|phase| net().connections.with([phase.word()]));
        let state = State { table: Table::new(bounds), orders: BTreeMap::new(), shown };
        Arc::new(Self {
            patience: bounds.patience,
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    /// Changes the table, and updates the gauges to match.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.table.counts();
        let done = work(&mut state);
        for ((gauge, before), now) in state.shown.iter().zip(before).zip(state.table.counts()) {
            if now > before {
                gauge.inc_by(i64::try_from(now - before).unwrap_or(i64::MAX));
            } else if before > now {
                gauge.dec_by(i64::try_from(before - now).unwrap_or(i64::MAX));
            }
        }
        done
    }

    /// Accepts connections for ever. Hands each on with its place, which at first is that of a silent
    /// connection.
    pub(super) async fn accept(
        self: &Arc<Self>,
        listener: &mut impl Listener,
        mut hand_on: impl FnMut(BoxStream, ConnectionPlace),
    ) {
        loop {
            match listener.next().await {
                Ok((stream, address)) => hand_on(stream, self.enter(address.into())),
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    self.relieve();
                    tokio::time::sleep(limits::ACCEPT_PAUSE.to_std()).await;
                }
            }
            self.clear().await;
        }
    }

    fn enter(self: &Arc<Self>, peer: Peer) -> ConnectionPlace {
        let (orders, _) = watch::channel(ConnectionOrder::Stay);
        let id = self.with(|state| {
            let id = state.table.enter(peer, Instant::now());
            state.orders.insert(id, orders);
            id
        });
        ConnectionPlace { gate: Arc::clone(self), id }
    }

    /// Cuts silent connections until there are no longer too many.
    async fn clear(&self) {
        while let Some(surplus) = self.with(|state| state.table.surplus()) {
            let due = async {
                match surplus.due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // There may be no surplus any more.
                () = self.changed.notified() => {}
                () = due => self.with(|state| {
                    // The connection may have spoken just now.
                    if state.table.surplus() == Some(surplus) {
                        state.table.cut(surplus.id);
                        state.order(surplus.id, ConnectionOrder::Cut);
                    }
                }),
            }
        }
    }

    /// Closes one connection, so that the system has an open file for the next one.
    fn relieve(&self) {
        self.with(|state| {
            if let Some(id) = state.table.relieve(Instant::now()) {
                state.table.cut(id);
                state.order(id, ConnectionOrder::Cut);
            }
        });
    }

    fn speak(&self, id: Id) -> Result<(), NoPlaceLeft> {
        let spoken = self.with(|state| {
            let Eviction { leaves, cut } = state.table.speak(id, Instant::now())?;
            // A connection that was to be cut for being silent has spoken after all.
            state.order(id, ConnectionOrder::Stay);
            if let Some(leaves) = leaves {
                state.order(leaves, ConnectionOrder::Leave);
                Cause::Idle.counter().inc();
            }
            if let Some(cut) = cut {
                state.order(cut, ConnectionOrder::Cut);
            }
            Ok(())
        });
        self.changed.notify_one();
        spoken
    }

    /// Cuts a connection that was told to leave and has no active calls.
    pub(super) fn cut_if_idle(&self, id: Id) -> bool {
        self.with(|state| {
            let cut = state.table.cut_if_idle(id, Instant::now());
            if cut {
                state.order(id, ConnectionOrder::Cut);
            }
            cut
        })
    }

    /// Gives a connection an order.
    pub(super) fn order(&self, id: Id, order: ConnectionOrder) {
        self.with(|state| state.order(id, order));
    }

    /// Gives all connections the same order.
    pub(super) fn order_all(&self, order: ConnectionOrder) {
        self.with(|state| {
            for orders in state.orders.values() {
                orders.send_replace(order);
            }
        });
    }

    /// Notes that something of a call was received or sent on this connection.
    pub(super) fn touch(&self, id: Id) {
        self.with(|state| state.table.touch(id, Instant::now()));
    }

    /// Adds to the numbers of active calls and of answers being sent.
    pub(super) fn count_calls(&self, id: Id, at_work: isize, answering: isize) {
        self.with(|state| state.table.count_calls(id, at_work, answering, Instant::now()));
    }

    /// The number of connections in each phase, in the order of [`Phase::ALL`].
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 4] {
        self.with(|state| state.table.counts())
    }
}

/// A connection's place. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    gate: Arc<Gate>,
    id: Id,
}

impl ConnectionPlace {
    /// Its gate, and its number there.
    pub(super) fn number(&self) -> (Arc<Gate>, Id) {
        (Arc::clone(&self.gate), self.id)
    }

    /// The orders of this connection.
    pub(super) fn orders(&self) -> watch::Receiver<ConnectionOrder> {
        let orders = |state: &mut State| state.orders.get(&self.id).map(watch::Sender::subscribe);
        // Only a place that was dropped has no orders.
        self.gate.with(orders).unwrap_or_else(|| watch::channel(ConnectionOrder::Cut).1)
    }

    /// Waits until the connection has proven who it is, if it has to, has spoken, and has the place of a live one.
    /// `None` when it has to be closed.
    pub(super) async fn hear(&self, stream: BoxStream, tls: Option<&TlsServer>) -> Option<Heard> {
        let mut orders = self.orders();
        let crowded = async {
            until(&mut orders, ConnectionOrder::Cut).await;
            // One last look: what the system has received by now is read before this ends.
            tokio::task::yield_now().await;
        };
        let heard = tokio::select! {
            biased;
            heard = self.greet(stream, tls) => heard,
            () = crowded => Err(Some(Cause::Crowded)),
            () = tokio::time::sleep(self.gate.patience) => Err(Some(Cause::Silent)),
        };
        let mut heard = match heard {
            Ok(heard) => heard,
            Err(cause) => {
                if let Some(cause) = cause {
                    cause.counter().inc();
                }
                return None;
            }
        };
        if self.gate.speak(self.id) == Err(NoPlaceLeft) {
            Cause::Refused.counter().inc();
            // As much as the system accepts at once. A client that does not receive it sees the
            // connection end.
            let _ = heard.stream.write(&preface::REFUSAL).await;
            let _ = heard.stream.flush().await;
            return None;
        }
        Some(heard)
    }

    /// Does the TLS handshake, if there has to be one, and reads the opening bytes.
    async fn greet(
        &self,
        stream: BoxStream,
        tls: Option<&TlsServer>,
    ) -> Result<Heard, Option<Cause>> {
        let (mut stream, client) = match tls {
            None => (stream, None),
            Some(tls) => tls.accept(stream).await.map_err(|error| {
                tracing::debug!(%error, "a TLS handshake failed");
                // A client that has gone, or only looks whether anybody listens, does not count.
                (error.kind() == std::io::ErrorKind::InvalidData).then_some(Cause::Handshake)
            })?,
        };
        if client.is_some() {
            self.gate.with(|state| state.table.prove(self.id));
        }
        let first = listen(&mut stream).await?;
        Ok(Heard { stream, first, client })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let Self { gate, id } = self;
        gate.with(|state| {
            state.table.remove(*id);
            state.orders.remove(id);
        });
        gate.changed.notify_one();
    }
}

/// Reads the opening bytes of a connection. An error without a cause means that the client has gone.
async fn listen(stream: &mut BoxStream) -> Result<FirstBytes, Option<Cause>> {
    let mut heard = [0; preface::LENGTH];
    let mut length = 0;
    loop {
        match stream.read(&mut heard[length..]).await {
            Ok(0) | Err(_) => return Err(None),
            Ok(more) => length += more,
        }
        match preface::judge(&heard[..length]) {
            PrefaceStatus::Incomplete => {}
            PrefaceStatus::Http2 => return Ok(heard),
            PrefaceStatus::Foreign => return Err(Some(Cause::Foreign)),
        }
    }
}
