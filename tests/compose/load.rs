//! `coalloc soak` from this machine: customers that reserve, change, release, send calls twice and vanish,
//! and a journal of what they are told.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coalloc_cli::kit::exit::Failure;
use coalloc_cli::kit::rpc;
use coalloc_cli::testbed::audit::journal::{CallKnowledge, Kind, Writer};
use coalloc_cli::testbed::soak::meter::Outcome;
use coalloc_cli::testbed::soak::{Soak, describe};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::testbed::{Testbed, eventually};

/// New customers per second: 100 per minute for each of two cores, and half as many again.
const RATE: u32 = 5;
/// The minimum of requests per minute at any time; fewer would be no load.
const RATE_LEAST: f64 = 200.0;
/// Minimum number of answers that are received during each fault.
const ANSWERS: usize = 12;
/// Minimum length of each fault: longer than a keepalive takes to notice it.
const FAULT: Duration = Duration::from_secs(3);

pub(crate) struct Load {
    answers: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    soak: JoinHandle<Result<Outcome, Failure>>,
}

/// The file of a journal, which counts the answers that are written to it.
struct Counted {
    file: File,
    answers: Arc<AtomicUsize>,
}

impl Write for Counted {
    /// Each call writes one line, as [`Writer`] does.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        if !text.contains(r#""said":"asked""#) && !text.contains(r#""said":"lost""#) {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        self.file.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Load {
    pub(crate) fn start(testbed: &Testbed) -> Self {
        let answers = Arc::new(AtomicUsize::new(0));
        let file = File::create(testbed.folder().join("told.jsonl")).unwrap();
        let journal = Counted { file, answers: Arc::clone(&answers) };
        let address = testbed.address(7_000);
        let dialer = rpc::dialer_of(&testbed.identity()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let soak = tokio::spawn(async move {
            let soak = Soak { seed: 1, rate: RATE, frames: 4, dialer };
            let until = async { drop(stopped.await) };
            soak.run(&[address], Writer::new(Box::new(journal)), until).await
        });
        Self { answers, stop, soak }
    }

    /// Waits until some more answers have come, and some time has passed.
    pub(crate) async fn goes_on(&self, when: &str) {
        let answers = || self.answers.load(Ordering::Relaxed);
        let (before, began) = (answers(), Instant::now());
        let enough = || answers() >= before + ANSWERS && began.elapsed() >= FAULT;
        eventually(&format!("{ANSWERS} answers {when}"), Duration::from_secs(120), enough).await;
        let seconds = began.elapsed().as_secs_f64();
        println!("{seconds:6.1} s  {} answers {when}", answers() - before);
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
            // The coordinator was killed, so a client lost an answer or could not connect.
            (Kind::Reserve, CallKnowledge::Lost, 1),
        ] {
            let count = outcome.count(kind, said);
            assert!(count >= least, "{kind:?} {said:?}: {count}, at least {least} wanted");
        }
    }
}
