//! The starts at which an allocation is tried, in order. Pure: somebody else asks what is free.
//!
//! With a step the starts are the first one plus its multiples. They are asked for in growing batches: most requests
//! fit soon, and those that do not shall not cost many round trips. Without a step a start follows from the answer
//! about the one before: it is the next instant at which a server becomes idle. No start between the two fits if the
//! earlier one does not, so the first start that fits is found.
//!
//! A start that fits at several sites is one fit for each, and only the fits of one start are handed out. When all of
//! them are refused, others have reserved meanwhile, and what was heard of later starts is as old. So the search asks
//! anew, from that start on; what fits next is probably near, so the batches grow from the beginning again.
//!
//! Source: Castillo 2009, section 4: the attempts at s, s + dt, s + 2 dt.

use coalloc_common::{Span, Time, Window, limits};

/// Starts that are asked for in the first and in the second call. All later calls ask for as many as a query may.
const FIRST_BATCHES: [u32; 2] = [16, 64];

/// Which starts are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartRange {
    pub(super) earliest: Time,
    pub(super) latest: Time,
    /// The distance between two starts; `None`: from one change to the next.
    pub(super) step: Option<Span>,
    /// How long servers are wanted.
    pub(super) length: Span,
    /// The most starts that are tried.
    pub(super) attempts: u64,
}

/// What the sites answer about one start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StartAnswer {
    /// The start, as a window of the wanted length.
    pub(super) frame: Window,
    /// The sites at which it fits, in the order in which they are tried.
    pub(super) sites: Vec<usize>,
    /// The first instant after it from which on more may be idle.
    pub(super) next_change: Option<Time>,
}

/// A start that fits, and a site at which it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) frame: Window,
    pub(super) site: usize,
}

/// The search through the starts.
#[derive(Debug, Clone)]
pub(super) struct Ladder {
    range: StartRange,
    /// The next start to ask for; `None` when there is none.
    next: Option<Time>,
    calls: usize,
    /// The last start that was looked at, and how many were.
    looked_at: Option<Time>,
    count: u64,
    /// The last fit that was handed out.
    last: Option<(Time, usize)>,
}

impl Ladder {
    pub(super) fn new(range: StartRange) -> Self {
        let mut range = range;
        if let Some(step) = range.step {
            let rungs = i64::try_from(range.attempts.saturating_sub(1)).unwrap_or(i64::MAX);
            let last = range.earliest.saturating_add(step.saturating_mul(rungs));
            range.latest = range.latest.min(last);
        }
        let next = Some(range.earliest);
        Self { range, next, calls: 0, looked_at: None, count: 0, last: None }
    }

    /// How many starts were looked at, and the last of them.
    pub(super) const fn looked_at(&self) -> (u64, Option<Time>) {
        (self.count, self.looked_at)
    }

    /// The starts to ask for now, as windows; empty when none is left.
    pub(super) fn frames(&mut self) -> Vec<Window> {
        let batch = FIRST_BATCHES.get(self.calls).copied().unwrap_or(limits::FRAMES_MAX);
        let batch = if self.range.step.is_some() { batch } else { 1 };
        let mut frames = Vec::new();
        while frames.len() < batch as usize
            && let Some(start) = self.next.filter(|start| *start <= self.range.latest)
            && let Some(frame) = Window::starting(start, self.range.length)
        {
            if self.looked_at.is_none_or(|last| start > last) {
                if self.count == self.range.attempts {
                    break;
                }
                self.count += 1;
                self.looked_at = Some(start);
            }
            frames.push(frame);
            self.next = self.range.step.map(|step| start.saturating_add(step));
        }
        self.calls += usize::from(!frames.is_empty());
        frames
    }

    /// Reads the answers about the starts that were asked for last: the fits of the first start that has any which were
    /// not handed out yet.
    pub(super) fn fits(&mut self, answers: &[StartAnswer]) -> Vec<Fit> {
        if self.range.step.is_none() {
            self.next = answers.last().and_then(|answer| answer.next_change);
        }
        let key = |fit: &Fit| (fit.frame.start(), fit.site);
        let of = |answer: &StartAnswer| {
            let all = answer.sites.iter().map(|site| Fit { frame: answer.frame, site: *site });
            all.filter(|fit| self.last.is_none_or(|last| key(fit) > last)).collect::<Vec<Fit>>()
        };
        let fits = answers.iter().map(of).find(|fits| !fits.is_empty()).unwrap_or_default();
        self.last = fits.last().map(key).or(self.last);
        fits
    }

    /// All fits that were handed out were refused: goes on after the last of them.
    pub(super) const fn go_on(&mut self) {
        if let Some((start, _)) = self.last {
            self.next = Some(start);
            self.calls = 0;
        }
    }

    /// Nothing fits before this instant: goes on at the first start from there on, and after the last fit.
    pub(super) fn skip_to(&mut self, instant: Time) {
        let Some((last, _)) = self.last else { return };
        self.calls = 0;
        self.next = Some(match self.range.step {
            None => instant.max(last.saturating_add(Span::from_us(1))),
            Some(step) => {
                let us = instant.since(last).as_us().max(1);
                let steps = us.unsigned_abs().div_ceil(step.as_us().unsigned_abs().max(1));
                let steps = i64::try_from(steps).unwrap_or(i64::MAX);
                last.saturating_add(step.saturating_mul(steps))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LENGTH: i64 = 3;

    fn at(second: i64) -> Time {
        Time::from_us(second * 1_000_000)
    }

    fn range(earliest: i64, latest: i64, step: Option<i64>, attempts: u64) -> StartRange {
        StartRange {
            earliest: at(earliest),
            latest: at(latest),
            step: step.map(Span::from_secs),
            length: Span::from_secs(LENGTH),
            attempts,
        }
    }

    /// For each site its servers, and of each server the seconds in which it is taken.
    type TakenSeconds = Vec<Vec<BTreeSet<i64>>>;

    /// A small pseudo-random sequence: the tests need no quality, only variety.
    struct Draws(u64);

    impl Draws {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }
    }

    fn taken(draws: &mut Draws) -> TakenSeconds {
        let server = |draws: &mut Draws| (0..40).filter(|_| draws.below(3) == 0).collect();
        (0..1 + draws.below(3))
            .map(|_| (0..1 + draws.below(4)).map(|_| server(draws)).collect())
            .collect()
    }

    fn is_idle(server: &BTreeSet<i64>, start: i64) -> bool {
        (start..start + LENGTH).all(|second| !server.contains(&second))
    }

    fn fits_at(site: &[BTreeSet<i64>], start: i64, wanted: usize) -> bool {
        site.iter().filter(|server| is_idle(server, start)).count() >= wanted
    }

    fn answer(taken: &TakenSeconds, frame: Window, wanted: usize) -> StartAnswer {
        let start = frame.start().as_us() / 1_000_000;
        let sites = (0..taken.len()).filter(|site| fits_at(&taken[*site], start, wanted));
        // A server becomes idle for as long as the frame: it was not at the instant before.
        let becomes = |server: &BTreeSet<i64>, second: i64| {
            is_idle(server, second) && server.contains(&(second - 1))
        };
        let mut later = start + 1..41;
        let next = later.find(|second| taken.iter().flatten().any(|one| becomes(one, *second)));
        StartAnswer { frame, sites: sites.collect(), next_change: next.map(at) }
    }

    /// All fits of a ladder that are refused one after the other, as long as there are any.
    fn all_fits(ladder: &mut Ladder, taken: &TakenSeconds, wanted: usize) -> Vec<Fit> {
        let mut all = Vec::new();
        loop {
            let frames = ladder.frames();
            if frames.is_empty() {
                return all;
            }
            let answers: Vec<_> =
                frames.into_iter().map(|frame| answer(taken, frame, wanted)).collect();
            let fits = ladder.fits(&answers);
            if !fits.is_empty() {
                ladder.go_on();
            }
            all.extend(fits);
        }
    }

    fn naive(
        taken: &TakenSeconds,
        wanted: usize,
        starts: impl Iterator<Item = i64>,
    ) -> Vec<(Time, usize)> {
        let of = |start| {
            let sites = 0..taken.len();
            sites
                .filter(move |site| fits_at(&taken[*site], start, wanted))
                .map(move |site| (at(start), site))
        };
        starts.flat_map(of).collect()
    }

    #[test]
    fn with_a_step_it_hands_out_every_fit_that_a_naive_search_finds() {
        let mut found = 0;
        for seed in 0..400 {
            let mut draws = Draws(seed);
            let (taken, wanted) = (taken(&mut draws), 1 + draws.below(3) as usize);
            let (step, attempts) = (1 + draws.below(4) as i64, 1 + draws.below(45));
            let mut ladder = Ladder::new(range(2, 36, Some(step), attempts));
            let fits = all_fits(&mut ladder, &taken, wanted);
            let fits: Vec<_> = fits.iter().map(|fit| (fit.frame.start(), fit.site)).collect();
            let starts: Vec<i64> =
                (2..=36).step_by(step as usize).take(attempts as usize).collect();
            assert_eq!(fits, naive(&taken, wanted, starts.iter().copied()), "seed {seed}");
            let last = starts.last().map(|start| at(*start));
            assert_eq!(ladder.looked_at(), (starts.len() as u64, last), "seed {seed}");
            found += fits.len();
        }
        assert!(found > 1_000, "{found} fits in all");
    }

    #[test]
    fn without_a_step_the_first_start_is_the_first_of_all_instants() {
        let mut later = 0;
        for seed in 0..400 {
            let mut draws = Draws(seed);
            let (taken, wanted) = (taken(&mut draws), 1 + draws.below(3) as usize);
            let mut ladder = Ladder::new(range(2, 36, None, 1_000));
            let fits = all_fits(&mut ladder, &taken, wanted);
            let first = fits.first().map(|fit| (fit.frame.start(), fit.site));
            assert_eq!(first, naive(&taken, wanted, 2..=36).first().copied(), "seed {seed}");
            later += usize::from(first.is_some_and(|(start, _)| start > at(2)));
            // What it does not hand out is refused as well, when all that it hands out is.
            let starts: BTreeSet<Time> = fits.iter().map(|fit| fit.frame.start()).collect();
            assert!(starts.len() <= ladder.looked_at().0 as usize, "seed {seed}");
        }
        assert!(later > 100, "{later} starts were not the earliest");
    }

    #[test]
    fn batches_grow_to_what_a_query_may_ask_and_end_with_the_attempts() {
        let mut ladder = Ladder::new(range(0, 1_000_000, Some(900), 600));
        let mut next = || {
            let frames = ladder.frames();
            let nothing: Vec<_> = frames
                .iter()
                .map(|frame| StartAnswer { frame: *frame, sites: vec![], next_change: None })
                .collect();
            assert_eq!(ladder.fits(&nothing), []);
            frames.len()
        };
        assert_eq!([next(), next(), next(), next(), next()], [16, 64, 256, 256, 8]);
        assert_eq!(next(), 0);
        assert_eq!(ladder.looked_at(), (600, Some(at(599 * 900))));
    }

    #[test]
    fn what_is_taken_is_skipped_by_whole_steps_and_never_backwards() {
        let fit = |start: i64| StartAnswer {
            frame: Window::starting(at(start), Span::from_secs(LENGTH)).unwrap(),
            sites: vec![0],
            next_change: None,
        };
        let next = |step, instant| {
            let mut ladder = Ladder::new(range(100, 1_000, step, 1_000));
            assert!(!ladder.frames().is_empty());
            assert_eq!(ladder.fits(&[fit(100)]).len(), 1);
            ladder.skip_to(at(instant));
            ladder.frames().first().map(|frame| frame.start())
        };
        assert_eq!(next(Some(10), 131), Some(at(140)));
        assert_eq!(next(Some(10), 130), Some(at(130)));
        assert_eq!(next(Some(10), 90), Some(at(110)));
        assert_eq!(next(None, 131), Some(at(131)));
        assert_eq!(next(None, 90), Some(Time::from_us(100_000_001)));
        assert_eq!(next(Some(10), 1_001), None);
    }
}
