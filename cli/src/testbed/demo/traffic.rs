//! Sends the workload to the coordinators, and shows the progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coalloc_net::status::{Effect, effect};
use coalloc_proto::v1;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

use super::workload::Arrival;
use crate::kit::exit::{Exit, Failure};
use crate::kit::rpc;
use crate::kit::text;

/// How often one request is sent at most; it stays the same request, because its id stays the same.
const SENDINGS_MAX: u32 = 5;
/// Pause before a request is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(500);

/// Sends every request in the order of arrival, and returns the answers in the same order.
///
/// Requests are distributed to the coordinators in turn; each coordinator works on `concurrency` of its
/// requests at a time.
///
/// # Errors
/// When a request is rejected, or gets no answer.
pub async fn send(
    clients: &[rpc::Coordinator],
    arrivals: &[Arrival],
    seed: u64,
    concurrency: usize,
) -> Result<Vec<v1::Reservation>, Failure> {
    let requests = arrivals.iter().enumerate().map(|(index, arrival)| v1::ReserveRequest {
        request_id: format!("demo-{seed}-{}", index + 1),
        request: Some(arrival.request.clone()),
        options: None,
        plan_digest: String::new(),
    });
    let work = Arc::new(SharedWork {
        requests: requests.collect(),
        next: (0..clients.len()).map(AtomicUsize::new).collect(),
        progress: Progress::new(arrivals.len()),
    });
    let mut senders = JoinSet::new();
    for (turn, client) in clients.iter().enumerate() {
        for _ in 0..concurrency {
            senders.spawn(SharedWork::send_all(Arc::clone(&work), turn, client.clone()));
        }
    }
    let mut answers = Vec::with_capacity(arrivals.len());
    while let Some(ended) = senders.join_next().await {
        let ended =
            ended.map_err(|error| Failure::internal(format!("a sending task failed: {error}")))?;
        answers.extend(ended?);
    }
    work.progress.bar.finish_and_clear();
    answers.sort_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, reservation)| reservation).collect())
}

/// The state that the senders share.
struct SharedWork {
    requests: Vec<v1::ReserveRequest>,
    /// The next request of each coordinator.
    next: Vec<AtomicUsize>,
    progress: Progress,
}

impl SharedWork {
    async fn send_all(
        self: Arc<Self>,
        turn: usize,
        mut client: rpc::Coordinator,
    ) -> Result<Vec<(usize, v1::Reservation)>, Failure> {
        let mut answers = Vec::new();
        loop {
            let index = self.next[turn].fetch_add(self.next.len(), Ordering::Relaxed);
            let Some(request) = self.requests.get(index) else { return Ok(answers) };
            let reservation = reserve(&mut client, request).await?;
            self.progress.count(&reservation);
            answers.push((index, reservation));
        }
    }
}

async fn reserve(
    client: &mut rpc::Coordinator,
    request: &v1::ReserveRequest,
) -> Result<v1::Reservation, Failure> {
    let id = &request.request_id;
    let mut sendings = 1;
    loop {
        match client.reserve(request.clone()).await {
            Ok(response) => {
                let reservation = response.into_inner().reservation;
                let empty = || Failure::internal(format!("{id}: an answer without content"));
                return reservation.ok_or_else(empty);
            }
            Err(status) if effect(&status) == Effect::Unknown && sendings < SENDINGS_MAX => {
                sendings += 1;
                tokio::time::sleep(RESEND_AFTER).await;
            }
            Err(status) => {
                let (code, message) = (status.code(), status.message());
                let text = format!("{id} failed after {sendings} sendings: {code:?}: {message}");
                return Err(Failure::new(Exit::CallFailed, text));
            }
        }
    }
}

/// A progress bar on a terminal, an occasional line elsewhere.
struct Progress {
    bar: ProgressBar,
    total: usize,
    confirmed: AtomicUsize,
    others: AtomicUsize,
}

impl Progress {
    fn new(total: usize) -> Self {
        let bar = ProgressBar::new(total as u64);
        let template = "  [{bar:30}] {pos} of {len} requests, {msg}, {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message("0 confirmed, 0 refused");
        Self { bar, total, confirmed: AtomicUsize::new(0), others: AtomicUsize::new(0) }
    }

    fn count(&self, reservation: &v1::Reservation) {
        let is_confirmed = reservation.state().is_booked();
        let counter = if is_confirmed { &self.confirmed } else { &self.others };
        counter.fetch_add(1, Ordering::Relaxed);
        let confirmed = self.confirmed.load(Ordering::Relaxed);
        let refused = self.others.load(Ordering::Relaxed);
        let counts = format!("{confirmed} confirmed, {refused} refused");
        self.bar.inc(1);
        self.bar.set_message(counts.clone());
        let sent = confirmed + refused;
        let tenth = (self.total / 10).max(1);
        if self.bar.is_hidden() && (sent.is_multiple_of(tenth) || sent == self.total) {
            text::note(&format!("{sent} of {} requests: {counts}", self.total));
        }
    }
}
