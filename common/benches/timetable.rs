//! Measures what one operation on one timetable costs, and how many bytes a booking takes, by size
//! of the timetable.
//!
//! Each timetable has a given number of bookings and holds (half of each) of 1 to 64 units over 1
//! minute to 4 hours, at random instants of a year, in microseconds. An operation that changes the
//! table is undone outside of the measured time, so that the size stays the same. Consecutive
//! operations are at random places in the table, as those of requests are: the nodes of a large
//! table are not in the cache.
//!
//! `cargo bench -p coalloc-common --bench timetable`

use std::cell::{Cell, RefCell};

use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::{Amount, Span, Time, Window};
use divan::{Bencher, black_box};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
const YEAR_US: i64 = 365 * 86_400 * 1_000_000;
/// Operations in one sample: fewer than the smallest table has entries in either layer.
const SAMPLE: u32 = 250;
const SAMPLES: u32 = 100;

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    println!("bookings   instants   bytes/booking (in random order, in order of time)");
    for size in SIZES {
        let random = Filled::new(size);
        let mut entries = random.entries.clone();
        entries.sort_by_key(|&(window, _)| window);
        let ordered = filled(&entries);
        let each = |table: &Timetable| table.heap_bytes() / size;
        let instants = random.table.breakpoints();
        println!("{size:>8} {instants:>10} {:>8} {:>8}", each(&random.table), each(&ordered));
        random.print_stretches();
    }
    divan::main();
}

fn random_entry(random: &mut ChaCha8Rng) -> (Window, Amount) {
    let start = Time::from_us(random.random_range(0..YEAR_US));
    let length = Span::from_us(random.random_range(60_000_000..14_400_000_000));
    let Some(window) = Window::starting(start, length) else { unreachable!("a positive length") };
    (window, Amount(random.random_range(1..=64)))
}

const fn layer_of(index: usize) -> Layer {
    if index.is_multiple_of(2) { Layer::Held } else { Layer::Booked }
}

fn filled(entries: &[(Window, Amount)]) -> Timetable {
    let mut table = Timetable::new(Amount(1_000_000_000));
    for (index, &(window, amount)) in entries.iter().enumerate() {
        assert!(table.add(layer_of(index), window, amount).is_ok());
    }
    table
}

struct Filled {
    table: Timetable,
    entries: Vec<(Window, Amount)>,
    random: ChaCha8Rng,
}

impl Filled {
    fn new(size: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(20_261_121);
        let entries: Vec<_> = (0..size).map(|_| random_entry(&mut random)).collect();
        Self { table: filled(&entries), entries, random }
    }

    /// The amount that [`earliest_fit`] asks for: it is free at nine instants out of ten.
    fn scarce_amount(&self) -> Amount {
        let Some(year) = Window::starting(Time::from_us(0), Span::from_us(YEAR_US)) else {
            unreachable!("a year is positive")
        };
        let steps = self.table.profile(year);
        let mut taken: Vec<_> = steps.iter().map(|step| step.held.0 + step.booked.0).collect();
        taken.sort_unstable();
        Amount(self.table.capacity().0 - taken[taken.len() * 9 / 10])
    }

    /// Prints how many too-full stretches an earliest fit of an hour skips.
    fn print_stretches(&self) {
        let (amount, mut random) = (self.scarce_amount(), self.random.clone());
        let enough = self.table.capacity().0 - amount.0;
        let mut skipped = Vec::new();
        for _ in 0..1_000 {
            let within = to_the_end(random_entry(&mut random).0);
            let Some(fit) = self.table.earliest_fit(amount, Span::from_secs(3_600), within) else {
                continue;
            };
            let before = Window::new(within.start(), fit.start());
            let steps = before.map_or_else(Vec::new, |window| self.table.profile(window));
            let full: Vec<_> = steps.iter().map(|s| s.held.0 + s.booked.0 > enough).collect();
            skipped.push(full.chunk_by(|a, b| a == b).filter(|stretch| stretch[0]).count());
        }
        skipped.sort_unstable();
        let (median, worst) = (skipped[skipped.len() / 2], skipped[skipped.len() - 1]);
        let tenths = skipped.iter().sum::<usize>() * 10 / skipped.len();
        println!(
            "         earliest_fit skips {}.{} too-full stretches (median {median}, most {worst})",
            tenths / 10,
            tenths % 10
        );
    }
}

/// The window from the start of another one to a year after the end of the year.
fn to_the_end(window: Window) -> Window {
    Window::new(window.start(), Time::from_us(2 * YEAR_US)).unwrap_or(window)
}

/// Measures `act` on a table of a given size. `pick` chooses what `act` works on, given the index of
/// an entry. `undo` undoes all that was done before the next sample is picked.
fn measure_change(
    bencher: Bencher,
    size: usize,
    pick: impl Fn(&mut Filled, usize) -> (Window, Amount),
    act: impl Fn(&mut Timetable, (Window, Amount)) -> bool,
    undo: impl Fn(&mut Timetable, (Window, Amount)) -> bool,
) {
    let filled = RefCell::new(Filled::new(size));
    let (issued, ran, next) = (RefCell::new(Vec::new()), Cell::new(false), Cell::new(0));
    bencher
        .with_inputs(|| {
            let (filled, issued) = (&mut *filled.borrow_mut(), &mut *issued.borrow_mut());
            if ran.take() {
                for entry in issued.drain(..) {
                    assert!(undo(&mut filled.table, entry));
                }
            }
            // The entries are in random order, so the next one is as good as any.
            next.set((next.get() + 2) % size);
            issued.push(pick(filled, next.get()));
            issued[issued.len() - 1]
        })
        .bench_local_values(|entry| {
            ran.set(true);
            assert!(act(&mut filled.borrow_mut().table, entry));
        });
}

#[divan::bench(args = SIZES, sample_size = SAMPLE, sample_count = SAMPLES)]
fn hold(bencher: Bencher, size: usize) {
    measure_change(
        bencher,
        size,
        |filled, _| random_entry(&mut filled.random),
        |table, (window, amount)| table.add(Layer::Held, window, amount).is_ok(),
        |table, (window, amount)| table.remove(Layer::Held, window, amount).is_ok(),
    );
}

#[divan::bench(args = SIZES, sample_size = SAMPLE, sample_count = SAMPLES)]
fn commit(bencher: Bencher, size: usize) {
    measure_change(
        bencher,
        size,
        |filled, even| filled.entries[even],
        |table, (window, amount)| table.commit(window, amount).is_ok(),
        |table, (window, amount)| {
            table.remove(Layer::Booked, window, amount).is_ok()
                && table.add(Layer::Held, window, amount).is_ok()
        },
    );
}

#[divan::bench(args = SIZES, sample_size = SAMPLE, sample_count = SAMPLES)]
fn remove(bencher: Bencher, size: usize) {
    measure_change(
        bencher,
        size,
        |filled, even| filled.entries[even + 1],
        |table, (window, amount)| table.remove(Layer::Booked, window, amount).is_ok(),
        |table, (window, amount)| table.add(Layer::Booked, window, amount).is_ok(),
    );
}

#[divan::bench(args = SIZES, sample_size = SAMPLE, sample_count = SAMPLES)]
fn query(bencher: Bencher, size: usize) {
    let mut filled = Filled::new(size);
    bencher
        .with_inputs(|| random_entry(&mut filled.random).0)
        .bench_local_values(|window| filled.table.free_min(black_box(window)));
}

/// An hour at an amount that is free nine tenths of the time, from a random instant on.
#[divan::bench(args = SIZES, sample_size = SAMPLE, sample_count = SAMPLES)]
fn earliest_fit(bencher: Bencher, size: usize) {
    let mut filled = Filled::new(size);
    let amount = filled.scarce_amount();
    bencher.with_inputs(|| to_the_end(random_entry(&mut filled.random).0)).bench_local_values(
        |within| filled.table.earliest_fit(amount, Span::from_secs(3_600), black_box(within)),
    );
}
