//! A list that stays up to date: `coalloc list --watch`.
//!
//! The list is read once, as soon as the watch is in place. Each event then costs one question about its reservation. A
//! window that begins or ends is no event, so the reservations of the next such instant are asked about when it has come.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use coalloc_common::{Span, Time};
use coalloc_net::clock;
use coalloc_net::server::stop_signal;
use coalloc_proto::v1;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::{Code, Status};

use super::table::ReservationTable;
use super::{ListQuery, window_of};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, Coordinator};
use crate::kit::{colour, text};
use crate::user::watch::follow::{Item, PAUSE_FIRST, PAUSE_MAX, Source, is_final};

/// How long events are gathered before their reservations are asked about: a reservation makes several at once.
const GATHER: Duration = Duration::from_millis(100);
/// How long after the begin or end of a window its reservation is asked about, for clocks that differ a little.
const AFTER_WINDOW: Span = Span::from_secs(1);
/// Longest wait for the next begin or end of a window; a timer cannot wait for ever.
const WINDOW_WAIT_MAX: Span = Span::from_secs(86_400);
/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Why the loop over one connection has ended.
enum ConnectionEnd {
    Exit(Exit),
    Broken(Status),
}

struct LiveList {
    source: Source,
    client: Coordinator,
    query: ListQuery,
    table: ReservationTable,
    /// The reservations that are selected, in the order in which they were made.
    all: Vec<v1::Reservation>,
    /// Whether the list has been read at all.
    is_read: bool,
    /// Whether the list is drawn again on a cleared screen.
    redraws: bool,
}

/// Shows the list and its changes until Ctrl-C.
///
/// # Errors
/// When the coordinator cannot be asked or does not let the caller watch.
pub(super) async fn follow(
    client: Coordinator,
    query: ListQuery,
    table: ReservationTable,
) -> Result<Answer, Failure> {
    let user = query.user.clone();
    let source = Source::Grc { client: client.clone(), id: String::new(), user };
    let redraws = std::io::stdout().is_terminal();
    let mut list =
        LiveList { source, client, query, table, all: Vec::new(), is_read: false, redraws };
    let (mut pause, mut told) = (PAUSE_FIRST, false);
    loop {
        let was_read = std::mem::take(&mut list.is_read);
        let status = match list.connection().await? {
            ConnectionEnd::Exit(exit) => return Ok(Answer { text: String::new(), exit }),
            ConnectionEnd::Broken(status) => status,
        };
        // A coordinator that has never answered is not waited for.
        if is_final(&status) || !(list.is_read || was_read || told) {
            return Err(rpc::failure(&status));
        }
        if list.is_read {
            (pause, told) = (PAUSE_FIRST, false);
        }
        if !std::mem::replace(&mut told, true) {
            let (code, message) = (status.code(), status.message());
            text::note(&format!("the connection broke ({code:?}: {message}); resuming"));
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = stop_signal() => return Ok(Answer { text: String::new(), exit: Exit::Interrupted }),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl LiveList {
    /// One connection, from open to broken.
    async fn connection(&mut self) -> Result<ConnectionEnd, Failure> {
        let interrupted = stop_signal();
        tokio::pin!(interrupted);
        let opened = tokio::select! {
            opened = self.source.open("") => opened,
            () = &mut interrupted => return Ok(ConnectionEnd::Exit(Exit::Interrupted)),
        };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(status) => return Ok(ConnectionEnd::Broken(status)),
        };
        let mut changed = BTreeSet::new();
        let mut gathered = Instant::now();
        loop {
            let (window, at) = self.next_window();
            tokio::select! {
                item = stream.next() => match item {
                    // The first sign of life: from here on, no change is missed.
                    Ok(Item::Progress(_)) if !self.is_read => {
                        match self.query.read(&mut self.client).await {
                            Ok(all) => self.all = all,
                            Err(status) => return Ok(ConnectionEnd::Broken(status)),
                        }
                        if !self.show_all()? { return Ok(ConnectionEnd::Exit(Exit::Done)); }
                    }
                    Ok(Item::Reservation(event)) if self.is_read => {
                        if changed.is_empty() { gathered = Instant::now() + GATHER; }
                        let id = [event.reservation, event.request_id].into_iter();
                        changed.extend(id.filter(|id| !id.is_empty()).take(1));
                    }
                    Ok(_) => {}
                    Err(status) => return Ok(ConnectionEnd::Broken(status)),
                },
                () = sleep_until(gathered), if !changed.is_empty() => {
                    match self.ask(std::mem::take(&mut changed)).await {
                        Ok(true) => {}
                        Ok(false) => return Ok(ConnectionEnd::Exit(Exit::Done)),
                        Err(status) => return Ok(ConnectionEnd::Broken(status)),
                    }
                }
                () = sleep_until(at) => {
                    if changed.is_empty() { gathered = Instant::now(); }
                    changed.extend(window);
                }
                () = &mut interrupted => return Ok(ConnectionEnd::Exit(Exit::Interrupted)),
            }
        }
    }

    /// Shows the whole list; returns false when nobody reads the output any more.
    fn show_all(&mut self) -> Result<bool, Failure> {
        self.is_read = true;
        let all = self.all.clone();
        self.show(&all, true)
    }

    /// Asks about reservations, and shows what has changed; returns false when nobody reads the output any more.
    async fn ask(&mut self, ids: BTreeSet<String>) -> Result<bool, Status> {
        let mut changes = Vec::new();
        for id in ids {
            match self.client.get(v1::GetRequest { id }).await {
                Ok(answer) => changes.extend(answer.into_inner().reservation),
                // It is forgotten, or still too young to be found.
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => return Err(status),
            }
        }
        changes.retain(|one| self.put(one));
        if changes.is_empty() {
            return Ok(true);
        }
        self.show(&changes, false).map_err(|failure| Status::internal(failure.message))
    }

    /// Takes over the present state of a reservation; returns whether the list is another one than before.
    fn put(&mut self, one: &v1::Reservation) -> bool {
        let known = self.all.iter().position(|known| is_same(known, one));
        match (known, self.query.selects(one)) {
            (Some(at), true) => std::mem::replace(&mut self.all[at], one.clone()) != *one,
            (Some(at), false) => {
                self.all.remove(at);
                true
            }
            (None, true) => {
                self.all.push(one.clone());
                true
            }
            (None, false) => false,
        }
    }

    /// The whole list on a terminal; elsewhere the lines of these reservations, in the columns of the whole list, or the whole
    /// list with a count if they are all.
    fn show(&self, these: &[v1::Reservation], are_all: bool) -> Result<bool, Failure> {
        let mut listed = self.query.newest(&self.all).to_vec();
        if !self.redraws {
            // The last line of what is no longer listed says how it ended.
            listed.extend(these.iter().filter(|one| !self.query.selects(one)).cloned());
        }
        let lines = self.table.brief(&listed);
        let text = if self.redraws {
            let (count, now) = (self.query.count(&self.all), self.table.now());
            let text = format!("{lines}{count}\n{now}; Ctrl-C ends\n");
            format!("{CLEAR}{}", colour::lines(&text))
        } else if are_all {
            colour::lines(&format!("{lines}{}\n", self.query.count(&self.all)))
        } else {
            let is_changed = |one| these.iter().any(|changed| is_same(changed, one));
            let rows = lines.lines().skip(1).zip(&listed).filter(|(_, one)| is_changed(one));
            colour::lines(&rows.map(|(row, _)| format!("{row}\n")).collect::<String>())
        };
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::internal(format!("standard output: {error}"))),
        }
    }

    /// The reservations whose window begins or ends next, and when to ask about them.
    fn next_window(&self) -> (Vec<String>, Instant) {
        let now = clock::now().wall;
        let (ids, at) = next_window(&self.all, now.saturating_sub(AFTER_WINDOW));
        let wait = at.map_or(WINDOW_WAIT_MAX, |at| at.saturating_add(AFTER_WINDOW).since(now));
        let wait = wait.clamp(Span::ZERO, WINDOW_WAIT_MAX);
        (ids, Instant::now() + wait.to_std())
    }
}

/// The first instant after `after` at which a window begins or ends, and the reservations whose window does.
fn next_window(all: &[v1::Reservation], after: Time) -> (Vec<String>, Option<Time>) {
    let instants = || {
        let windows = all.iter().filter_map(|one| Some((&one.id, window_of(one)?)));
        let ends = windows.flat_map(|(id, window)| [(id, window.start()), (id, window.end())]);
        ends.filter(|(_, at)| *at > after)
    };
    let Some(next) = instants().map(|(_, at)| at).min() else { return (Vec::new(), None) };
    let ids = instants().filter(|(_, at)| *at == next).map(|(id, _)| id.clone());
    (ids.collect(), Some(next))
}

/// Are these two states of one reservation? It gets its id when a plan for its request is tried.
fn is_same(one: &v1::Reservation, other: &v1::Reservation) -> bool {
    match one.id.is_empty() || other.id.is_empty() {
        true => (&one.request_id, &one.user) == (&other.request_id, &other.user),
        false => one.id == other.id,
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Window;
    use coalloc_net::convert::window_to_wire;

    use super::*;

    fn booked(id: &str, from: i64, to: i64) -> v1::Reservation {
        let at = |seconds: i64| Time::from_us(seconds * 1_000_000);
        let window = Window::new(at(from), at(to)).map(window_to_wire);
        let plan = Some(v1::Plan { window, ..Default::default() });
        v1::Reservation { id: id.into(), request_id: format!("r{id}"), plan, ..Default::default() }
    }

    #[test]
    fn the_next_begin_or_end_of_a_window_is_waited_for() {
        let all = [booked("a", 10, 20), booked("b", 5, 20)];
        let next = |after: i64| next_window(&all, Time::from_us(after * 1_000_000));
        assert_eq!(next(0), (vec!["b".to_owned()], Some(Time::from_us(5_000_000))));
        assert_eq!(next(10).0, ["a", "b"]);
        assert_eq!(next(20), (Vec::new(), None));
    }

    #[test]
    fn a_request_and_the_reservation_that_comes_of_it_are_the_same() {
        let reservation = booked("a", 1, 2);
        let request = v1::Reservation { id: String::new(), ..reservation.clone() };
        assert!(is_same(&request, &reservation));
        assert!(!is_same(&request, &booked("b", 1, 2)));
        let later = v1::Reservation { id: "a2".into(), ..reservation.clone() };
        assert!(!is_same(&later, &reservation));
    }
}
