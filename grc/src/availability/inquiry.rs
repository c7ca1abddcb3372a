//! Availability queries to one RM in batches. While queries are in flight, the frames of all waiting requests gather,
//! and the next query asks for them together.
//!
//! As with the ledger's group commit, nobody waits for a batch to fill: the first query is sent at once, and only a
//! busy coordinator has several requests in one query. A query is for one user and one replaced transaction, so only
//! requests with the same user, `replaces` and `avoided` share a batch. Each user has few queries in flight, so that one with
//! many queries makes only itself wait. When all users together have too many, they take turns.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::limits;
use coalloc_net::traces::Span;
use coalloc_proto::v1;
use tokio::sync::oneshot;
use tonic::Status;

use crate::round_robin::RoundRobin;

/// The result of one query: one entry for each frame, in order.
type QueryOutcome = Result<Vec<v1::FrameAvailability>, NoAnswer>;

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    /// One sentence on what went wrong.
    pub text: String,
    /// Whether the RM was asked. If so, the RM is at fault; otherwise the query was never sent.
    pub asked: bool,
}

impl NoAnswer {
    /// The RM was asked, but gave no usable answer.
    #[must_use]
    pub const fn of(text: String) -> Self {
        Self { text, asked: true }
    }
}
/// Sends one query, as part of a trace.
type QueryCall = dyn Fn(v1::QueryAvailabilityRequest, Span) -> Sending + Send + Sync;
type Sending = Pin<Box<dyn Future<Output = Result<v1::QueryAvailabilityResponse, Status>> + Send>>;

/// The queue of availability queries to one RM. Cheap to clone.
#[derive(Clone)]
pub struct Inquiry {
    call: Arc<QueryCall>,
    line: Arc<Mutex<QueryBatch>>,
}

/// The requests that wait, and the number of queries in flight, both by user. Where a user may send a query and has a
/// request that waits, all places are taken.
#[derive(Default)]
struct QueryBatch {
    waiting: RoundRobin<String, Ask>,
    in_flight: BTreeMap<String, usize>,
}

struct Ask {
    request: v1::QueryAvailabilityRequest,
    /// The span of the request's trace.
    span: Span,
    answer: oneshot::Sender<QueryOutcome>,
}

impl std::fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = self.lock();
        f.debug_struct("Inquiry")
            .field("waiting", &line.waiting.len())
            .field("in_flight", &line.all_in_flight())
            .finish_non_exhaustive()
    }
}

impl Inquiry {
    /// A queue whose queries are sent through `call`. Each call must end by itself, within the time limit of a query.
    pub fn new<F>(
        call: impl Fn(v1::QueryAvailabilityRequest, Span) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<v1::QueryAvailabilityResponse, Status>> + Send + 'static,
    {
        let call = move |request, span| -> Sending { Box::pin(call(request, span)) };
        Self { call: Arc::new(call), line: Arc::default() }
    }

    /// Asks for the request's frames, in a batch where others wait too, and waits for
    /// [`limits::QUERY_QUEUE_PATIENCE`] at most. The answer has one entry for each frame, in the order of the frames. A
    /// batch is one call in the trace of its first request. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(&self, request: v1::QueryAvailabilityRequest, span: Span) -> QueryOutcome {
        let (answer, answered) = oneshot::channel();
        let next = {
            let mut line = self.lock();
            line.waiting.push(request.user.clone(), Ask { request, span, answer });
            line.next_company()
        };
        if let Some((user, company)) = next {
            let permit = QueryPermit { line: Arc::clone(&self.line), user: Some(user) };
            tokio::spawn(self.clone().send_all(permit, company));
        }
        match tokio::time::timeout(limits::QUERY_QUEUE_PATIENCE.to_std(), answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| {
                Err(NoAnswer { text: "the query broke off".to_owned(), asked: false })
            }),
            Err(_) => {
                let text = "gives no availability: the query timed out in the queue".to_owned();
                Err(NoAnswer { text, asked: false })
            }
        }
    }

    /// [`Self::ask`] for any number of frames: more than one query may have are asked one query after the other.
    ///
    /// # Errors
    /// Why there is no answer to one of these queries.
    pub async fn ask_all(
        &self,
        mut request: v1::QueryAvailabilityRequest,
        span: Span,
    ) -> QueryOutcome {
        let most = limits::FRAMES_MAX as usize;
        let mut answers = Vec::with_capacity(request.frames.len());
        while request.frames.len() > most {
            let rest = request.frames.split_off(most);
            let part = std::mem::replace(&mut request.frames, rest);
            let part = v1::QueryAvailabilityRequest { frames: part, ..request.clone() };
            answers.extend(self.ask(part, span.clone()).await?);
        }
        if answers.is_empty() {
            return self.ask(request, span).await;
        }
        answers.extend(self.ask(request, span).await?);
        Ok(answers)
    }

    /// Sends a batch, and further ones until no request waits that may be sent. If a call panics, the permit is given back
    /// all the same.
    async fn send_all(self, mut permit: QueryPermit, mut company: Vec<Ask>) {
        while let Some(span) = company.first().map(|ask| ask.span.clone()) {
            let answer = (self.call)(together(&company), span).await;
            let answer = answer
                .map_err(|status| {
                    NoAnswer::of(format!("gives no availability: {}", status.message()))
                })
                .map(|answer| answer.frames);
            part(company, answer);
            company = permit.next_company();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, QueryBatch> {
        // Nothing panics while it holds the lock. Even if it did, the queue would still be consistent.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueryBatch {
    fn all_in_flight(&self) -> usize {
        self.in_flight.values().sum()
    }

    /// The next batch and its user, who has one more query in flight from now on: the next request in turn of a user who
    /// may send a query, and all others of that user that can go with it. `None` when there is no such request.
    fn next_company(&mut self) -> Option<(String, Vec<Ask>)> {
        // A request that has stopped waiting needs no answer.
        self.waiting.retain(|ask| !ask.answer.is_closed());
        if self.all_in_flight() >= limits::QUERIES_IN_FLIGHT_MAX {
            return None;
        }
        let in_flight = |user: &String| self.in_flight.get(user).copied().unwrap_or_default();
        let may = |user: &String| in_flight(user) < limits::QUERIES_PER_USER_MAX;
        let (user, first) = self.waiting.next_where(may)?;
        *self.in_flight.entry(user.clone()).or_default() += 1;
        let v1::QueryAvailabilityRequest { replaces, avoided, .. } = first.request.clone();
        let mut frames = first.request.frames.len();
        let others = self.waiting.take_where(&user, |ask| {
            let more = ask.request.frames.len();
            let fits = frames + more <= limits::FRAMES_MAX as usize;
            let goes =
                fits && (&ask.request.replaces, &ask.request.avoided) == (&replaces, &avoided);
            frames += if goes { more } else { 0 };
            goes
        });
        let company = std::iter::once(first).chain(others).collect();
        Some((user, company))
    }

    /// A query of this user has ended.
    fn end(&mut self, user: &str) {
        if let Some(count) = self.in_flight.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(user);
            }
        }
    }
}

/// A permit to have a query of a user in flight. It is given back even when the query's task panics.
struct QueryPermit {
    line: Arc<Mutex<QueryBatch>>,
    /// `None`: it has been given back.
    user: Option<String>,
}

impl QueryPermit {
    /// Gives the permit back, and takes one for the next batch under the same lock, so that a request that comes just
    /// after that finds what is free. Empty when no batch may be sent.
    fn next_company(&mut self) -> Vec<Ask> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = self.user.take() {
            line.end(&user);
        }
        let Some((user, company)) = line.next_company() else { return Vec::new() };
        self.user = Some(user);
        company
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        if let Some(user) = self.user.take() {
            self.line.lock().unwrap_or_else(PoisonError::into_inner).end(&user);
        }
    }
}

/// One query for the frames of all requests of a batch.
fn together(company: &[Ask]) -> v1::QueryAvailabilityRequest {
    let frames = company.iter().flat_map(|ask| ask.request.frames.iter().cloned()).collect();
    let first = company.first().map(|ask| ask.request.clone()).unwrap_or_default();
    v1::QueryAvailabilityRequest { frames, ..first }
}

/// Gives each request of a batch the part of the answer that belongs to its own frames.
fn part(company: Vec<Ask>, answer: QueryOutcome) {
    let asked: usize = company.iter().map(|ask| ask.request.frames.len()).sum();
    let answer = answer.and_then(|frames| match frames.len() == asked {
        true => Ok(frames.into_iter()),
        false => {
            let text = format!("answers {} frames, but {asked} were asked for", frames.len());
            Err(NoAnswer::of(text))
        }
    });
    let mut frames = match answer {
        Ok(frames) => frames,
        Err(problem) => {
            for ask in company {
                // The request may have stopped waiting, here and below.
                let _ = ask.answer.send(Err(problem.clone()));
            }
            return;
        }
    };
    for ask in company {
        let own = frames.by_ref().take(ask.request.frames.len()).collect();
        let _ = ask.answer.send(Ok(own));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use coalloc_common::{Span, Time, Window};
    use coalloc_net::convert::window_to_wire;
    use coalloc_net::traces::Span as Traced;
    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    use super::*;

    fn request(user: &str, first: i64, frames: i64) -> v1::QueryAvailabilityRequest {
        let frame = |second| {
            let start = Time::from_us(second * 1_000_000);
            window_to_wire(Window::starting(start, Span::from_secs(1)).unwrap())
        };
        let frames = (first..first + frames).map(frame).collect();
        v1::QueryAvailabilityRequest { frames, user: user.to_owned(), ..Default::default() }
    }

    /// An RM that answers each frame with the frame's start in seconds, once the semaphore lets it.
    fn rm(let_go: &Arc<Semaphore>, calls: &Arc<AtomicUsize>) -> Inquiry {
        let (let_go, calls) = (Arc::clone(let_go), Arc::clone(calls));
        Inquiry::new(move |request: v1::QueryAvailabilityRequest, _| {
            let (let_go, calls) = (Arc::clone(&let_go), Arc::clone(&calls));
            async move {
                calls.fetch_add(1, Ordering::Relaxed);
                let_go.acquire().await.unwrap().forget();
                let frame = |window: &v1::Window| {
                    let free = vec![window.start.as_ref().unwrap().seconds as u64];
                    v1::FrameAvailability { free, next_change: None }
                };
                let frames = request.frames.iter().map(frame).collect();
                Ok(v1::QueryAvailabilityResponse { frames })
            }
        })
    }

    #[tokio::test]
    async fn who_waits_travels_together_and_gets_its_own_frames() {
        let (let_go, calls) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let rm = rm(&let_go, &calls);
        let mut asks = JoinSet::new();
        let mut ask = |number: i64, user: &'static str| {
            let rm = rm.clone();
            asks.spawn(async move {
                (number, rm.ask(request(user, number * 10, 3), Traced::default()).await)
            });
        };
        // The first requests leave at once, each alone; the others find all permits taken.
        for number in 0..limits::QUERIES_PER_USER_MAX {
            ask(number as i64, "u");
            while calls.load(Ordering::Relaxed) <= number {
                tokio::task::yield_now().await;
            }
        }
        for number in 10..30 {
            ask(number, if number == 20 { "other" } else { "u" });
        }
        while rm.lock().waiting.len() < 19 || rm.lock().all_in_flight() < 3 {
            tokio::task::yield_now().await;
        }
        let_go.add_permits(1_000);
        while let Some(done) = asks.join_next().await {
            let (number, answer) = done.unwrap();
            let free: Vec<u64> = answer.unwrap().iter().map(|frame| frame.free[0]).collect();
            let first = number as u64 * 10;
            assert_eq!(free, [first, first + 1, first + 2]);
        }
        let calls = calls.load(Ordering::Relaxed);
        assert_eq!(calls, limits::QUERIES_PER_USER_MAX + 2, "one more for each user");
        assert!(rm.lock().in_flight.is_empty());
    }

    #[tokio::test]
    async fn who_asks_once_waits_for_no_query_of_who_asks_eighty_times() {
        let (let_go, calls) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let rm = rm(&let_go, &calls);
        let ask = |user: &'static str, frames: i64| {
            let rm = rm.clone();
            tokio::spawn(async move { rm.ask(request(user, 0, frames), Traced::default()).await })
        };
        let greedy: Vec<_> = (0..80).map(|_| ask("greedy", limits::FRAMES_MAX.into())).collect();
        while rm.lock().waiting.len() < 80 - limits::QUERIES_PER_USER_MAX {
            tokio::task::yield_now().await;
        }
        let honest = ask("honest", 1);
        while calls.load(Ordering::Relaxed) <= limits::QUERIES_PER_USER_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(rm.lock().waiting.len(), 80 - limits::QUERIES_PER_USER_MAX);
        // Those in flight.
        let_go.add_permits(limits::QUERIES_PER_USER_MAX + 1);
        honest.await.unwrap().unwrap();
        drop(greedy);
    }

    #[tokio::test]
    async fn many_users_together_have_a_bound_and_take_turns() {
        let (let_go, calls) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let rm = rm(&let_go, &calls);
        let most = limits::QUERIES_IN_FLIGHT_MAX;
        let mut asks = JoinSet::new();
        for number in 0..3 * most {
            let (rm, user) = (rm.clone(), format!("u{}", number % (most + 1)));
            asks.spawn(async move { rm.ask(request(&user, 0, 1), Traced::default()).await });
        }
        while rm.lock().waiting.len() < 2 * most {
            tokio::task::yield_now().await;
        }
        assert_eq!(rm.lock().all_in_flight(), most);
        while let Some(done) = {
            let_go.add_permits(1);
            asks.join_next().await
        } {
            assert_eq!(done.unwrap().unwrap().len(), 1);
            assert!(rm.lock().all_in_flight() <= most);
        }
        assert!(rm.lock().in_flight.is_empty());
    }

    #[tokio::test]
    async fn more_frames_than_a_query_may_have_are_asked_in_two() {
        let (let_go, calls) = (Arc::new(Semaphore::new(1_000)), Arc::new(AtomicUsize::new(0)));
        let rm = rm(&let_go, &calls);
        let most = i64::from(limits::FRAMES_MAX);
        let mut asks = JoinSet::new();
        for number in 0..6 {
            let rm = rm.clone();
            asks.spawn(async move {
                rm.ask(request("u", number * 1_000, most), Traced::default()).await
            });
        }
        while let Some(done) = asks.join_next().await {
            assert_eq!(done.unwrap().unwrap().len(), most as usize);
        }
        assert_eq!(calls.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    async fn any_number_of_frames_is_asked_in_as_many_queries_as_it_takes() {
        let (let_go, calls) = (Arc::new(Semaphore::new(1_000)), Arc::new(AtomicUsize::new(0)));
        let rm = rm(&let_go, &calls);
        let most = i64::from(limits::FRAMES_MAX);
        for (frames, queries) in [(most, 1), (most + 1, 2), (3 * most, 3)] {
            calls.store(0, Ordering::Relaxed);
            let answer = rm.ask_all(request("u", 5, frames), Traced::default()).await.unwrap();
            let free: Vec<u64> = answer.iter().map(|frame| frame.free[0]).collect();
            assert_eq!(free, (5..5 + frames as u64).collect::<Vec<_>>());
            assert_eq!(calls.load(Ordering::Relaxed), queries);
        }
    }

    #[tokio::test]
    async fn a_call_that_panics_gives_its_place_back() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let rm = Inquiry::new(move |_, _| {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(number >= limits::QUERIES_IN_FLIGHT_MAX, "a planted panic");
                Ok(v1::QueryAvailabilityResponse { frames: vec![v1::FrameAvailability::default()] })
            }
        });
        for _ in 0..limits::QUERIES_IN_FLIGHT_MAX {
            let problem = rm.ask(request("u", 0, 1), Traced::default()).await.unwrap_err();
            assert!(!problem.asked, "{problem:?}");
        }
        assert_eq!(rm.ask(request("u", 0, 1), Traced::default()).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_wrong_number_of_answers_is_no_answer_to_anybody() {
        let rm = Inquiry::new(|_, _| async { Ok(v1::QueryAvailabilityResponse::default()) });
        let problem = rm.ask(request("u", 0, 2), Traced::default()).await.unwrap_err();
        assert!(problem.text.contains("0 frames, but 2"), "{problem:?}");
        let down = Inquiry::new(|_, _| async { Err(Status::unavailable("gone")) });
        let problem = down.ask(request("u", 0, 2), Traced::default()).await.unwrap_err();
        assert!(problem.text.contains("gone") && problem.asked, "{problem:?}");
    }
}
