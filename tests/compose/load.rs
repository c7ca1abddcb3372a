//! `coalloc soak` from this machine: customers that reserve, change, release, send calls twice and vanish,
//! and a journal of what they are told.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coalloc_cli::kit::exit::Failure;
use coalloc_cli::kit::rpc;
use coalloc_cli::testbed::audit::journal::{CallKnowledge, Kind, Writer};
use coalloc_cli::testbed::soak::meter::Outcome;
use coalloc_cli::testbed::soak::{Soak, describe};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::testbed::eventually;

/// New customers per second: 100 per minute for each of two cores, and half as many again.
const RATE: u32 = 5;
/// The minimum of requests per minute at any time; fewer would be no load.
const RATE_LEAST: f64 = 200.0;
/// Minimum number of answers that are received during each fault.
const ANSWERS: usize = 12;
/// Number of confirmations that show that reservations are made again.
const CONFIRMATIONS: usize = 5;
/// Minimum length of each fault: longer than a keepalive takes to notice it.
const FAULT: Duration = Duration::from_secs(3);

pub(crate) struct Load {
    progress: Arc<Progress>,
    stop: oneshot::Sender<()>,
    soak: JoinHandle<Result<Outcome, Failure>>,
}

/// What customers have been told so far.
#[derive(Default)]
struct Progress {
    answers: AtomicUsize,
    /// When each confirmation came.
    confirmations: Mutex<Vec<Instant>>,
}

impl Progress {
    fn confirmations(&self) -> usize {
        self.confirmations.lock().unwrap().len()
    }
}

/// The file of a journal, which counts the answers that are written to it.
struct Counted {
    file: File,
    progress: Arc<Progress>,
}

impl Write for Counted {
    /// Each call writes one line, as [`Writer`] does.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        if !text.contains(r#""said":"asked""#) && !text.contains(r#""said":"lost""#) {
            self.progress.answers.fetch_add(1, Ordering::Relaxed);
        }
        if text.contains(r#""said":"confirmed""#) {
            self.progress.confirmations.lock().unwrap().push(Instant::now());
        }
        self.file.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Load {
    /// Starts a load on the coordinator at this address, or at these with commas between.
    pub(crate) fn start(address: String, identity: &Path, journal: &Path) -> Self {
        let progress = Arc::new(Progress::default());
        let file = File::create(journal).unwrap();
        let journal = Counted { file, progress: Arc::clone(&progress) };
        let dialer = rpc::dialer_of(identity).unwrap();
        let (stop, stopped) = oneshot::channel();
        let soak = tokio::spawn(async move {
            let soak = Soak { seed: 1, rate: RATE, frames: 4, dialer };
            let until = async { drop(stopped.await) };
            soak.run(&[address], Writer::new(Box::new(journal)), until).await
        });
        Self { progress, stop, soak }
    }

    /// Waits until some more answers have come, and some time has passed.
    pub(crate) async fn goes_on(&self, when: &str) {
        let answers = || self.progress.answers.load(Ordering::Relaxed);
        let (before, began) = (answers(), Instant::now());
        let enough = || answers() >= before + ANSWERS && began.elapsed() >= FAULT;
        eventually(&format!("{ANSWERS} answers {when}"), Duration::from_secs(120), enough).await;
        let seconds = began.elapsed().as_secs_f64();
        println!("{seconds:6.1} s  {} answers {when}", answers() - before);
    }

    /// Waits until some more reservations are confirmed.
    pub(crate) async fn confirms(&self, when: &str) {
        let (before, began) = (self.progress.confirmations(), Instant::now());
        let enough = || self.progress.confirmations() >= before + CONFIRMATIONS;
        let what = format!("{CONFIRMATIONS} confirmations {when}");
        eventually(&what, Duration::from_secs(60), enough).await;
        println!("{:6.1} s  {what}", began.elapsed().as_secs_f64());
    }

    /// The longest time since `began` in which nothing was confirmed.
    pub(crate) fn longest_pause(&self, began: Instant) -> Duration {
        let confirmations = self.progress.confirmations.lock().unwrap();
        let later = confirmations.iter().copied().filter(|confirmed| *confirmed > began);
        let mut last = began;
        let pauses =
            later.chain([Instant::now()]).map(|next| next - std::mem::replace(&mut last, next));
        pauses.max().unwrap_or_default()
    }

    /// Lets the calls in flight end, and checks that enough happened: otherwise the run has shown nothing.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        let outcome = self.soak.await.unwrap().unwrap();
        println!("{}", describe(&outcome));
        assert!(outcome.least_per_minute() >= RATE_LEAST, "{}", outcome.least_per_minute());
        for (kind, said, least) in [
            (Kind::Reserve, CallKnowledge::Confirmed, 20),
            (Kind::Modify, CallKnowledge::Changed, 3),
            (Kind::Release, CallKnowledge::Released, 5),
            // The coordinator was killed or cut off, so a client lost an answer or could not connect.
            (Kind::Reserve, CallKnowledge::Lost, 1),
        ] {
            let count = outcome.count(kind, said);
            assert!(count >= least, "{kind:?} {said:?}: {count}, at least {least} wanted");
        }
    }
}
