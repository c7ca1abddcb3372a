//! The results of a run of seeds: for people, as JSON, and as Markdown for `docs/PROTOCOL.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use coalloc_sim::fault::{Counts, Failure as Broken, Fault, GENERATOR};
use serde_json::json;

use crate::kit::exit::Failure;
use crate::kit::text;

/// The lines that enclose a report in a Markdown file.
const BEGIN: &str = "<!-- fault counters: generated, do not edit -->";
const END: &str = "<!-- fault counters: end -->";

/// Number of failures that are shown in full.
const SHOWN_MAX: usize = 20;

/// The results of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The first seed.
    pub from: u64,
    /// Number of seeds that ran, including those of the corpus.
    pub seeds: u64,
    /// Number of seeds of the corpus that were replayed, and of those that belong to an older generator.
    pub corpus: (usize, usize),
    /// Number of threads.
    pub jobs: usize,
    /// Real time.
    pub elapsed: Duration,
    /// The counters of all worlds.
    pub counts: Counts,
    /// The invariants that did not hold.
    pub failures: Vec<Broken>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
}

impl Report {
    fn simulated_s(&self) -> f64 {
        self.counts.simulated_us as f64 / 1e6
    }

    fn real_s(&self) -> f64 {
        self.elapsed.as_secs_f64().max(1e-6)
    }

    /// Simulated time divided by real time, over all threads together.
    fn ratio(&self) -> f64 {
        self.simulated_s() / self.real_s()
    }

    fn events_per_s(&self) -> f64 {
        self.counts.events as f64 / self.real_s()
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let (replayed, old) = self.corpus;
        let own = self.seeds.saturating_sub(replayed as u64);
        let last = self.from + own.saturating_sub(1);
        let seeds = if own <= 1 {
            format!("seed {}", self.from)
        } else {
            format!("seeds {} to {last}", self.from)
        };
        let seeds = if self.interrupted {
            format!("{own} seeds from {} on; interrupted", self.from)
        } else {
            seeds
        };
        writeln!(
            out,
            "{seeds}, generator {GENERATOR}; corpus: {replayed} replayed, {old} of an older \
             generator"
        )?;
        let (jobs, ratio) = (self.jobs, self.ratio());
        let threads = if jobs == 1 { "1 thread".to_owned() } else { format!("{jobs} threads") };
        writeln!(
            out,
            "simulated {}, real {:.2} s on {threads}: {} times real time, {} on each thread",
            hours(self.simulated_s()),
            self.real_s(),
            thousands(ratio as u64),
            thousands((ratio / jobs as f64) as u64),
        )?;
        let (events, rate) = (thousands(self.counts.events), thousands(self.events_per_s() as u64));
        writeln!(out, "{events} events, {rate} a second; every invariant checked after each\n")?;
        let mut table = text::table(&["FAULT", "TIMES", "COUNTED AS ONE"]);
        text::align_right(&mut table, &[1]);
        for fault in Fault::ALL {
            let times = thousands(self.counts.of(fault));
            table.add_row([format!("{fault:?}"), times, fault.about().to_owned()]);
        }
        out.push_str(&text::finish(&table));
        out.push('\n');
        let mut table = text::table(&["WHAT HAPPENED", "TIMES"]);
        text::align_right(&mut table, &[1]);
        for (name, count) in self.counted() {
            table.add_row([name.to_owned(), thousands(count)]);
        }
        out.push_str(&text::finish(&table));
        out.push('\n');
        if self.failures.is_empty() {
            return writeln!(out, "every invariant held in all {} worlds", thousands(self.seeds));
        }
        writeln!(out, "{} of {} worlds FAILED", self.failures.len(), thousands(self.seeds))?;
        for failure in self.failures.iter().take(SHOWN_MAX) {
            writeln!(out, "  {failure}\n    replay: {}", failure.replay())?;
        }
        let more = self.failures.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            writeln!(out, "  and {more} more")?;
        }
        writeln!(
            out,
            "to keep them, run the same command with --add-to-corpus in a checkout of the sources"
        )
    }

    /// All counters except time and events, which the report shows above them.
    fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.named().into_iter().skip(2)
    }

    /// The report for programs.
    ///
    /// # Errors
    /// Never in practice: the report contains only numbers and text.
    pub fn json(&self) -> Result<String, Failure> {
        let failure = |failure: &Broken| {
            let (seed, what, replay) = (failure.seed, &failure.what, failure.replay());
            json!({"seed": seed, "at_us": failure.at_us, "what": what, "replay": replay})
        };
        let failures: Vec<_> = self.failures.iter().map(failure).collect();
        let faults: serde_json::Map<_, _> =
            Fault::ALL.iter().map(|f| (format!("{f:?}"), self.counts.of(*f).into())).collect();
        let counts: serde_json::Map<_, _> = self
            .counts
            .named()
            .into_iter()
            .map(|(name, n)| (name.replace(' ', "_"), n.into()))
            .collect();
        text::json(&json!({
            "generator": GENERATOR,
            "from": self.from,
            "seeds": self.seeds,
            "corpus_replayed": self.corpus.0,
            "corpus_of_older_generators": self.corpus.1,
            "interrupted": self.interrupted,
            "threads": self.jobs,
            "real_seconds": self.real_s(),
            "simulated_seconds": self.simulated_s(),
            "times_real_time": self.ratio(),
            "events_per_second": self.events_per_s(),
            "faults": faults,
            "counts": counts,
            "failures": failures,
        }))
    }

    /// The section "Fault counters" of a page.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let _ = self.write_markdown(&mut out);
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        let own = self.seeds.saturating_sub(self.corpus.0 as u64);
        let from = if self.from == 0 { String::new() } else { format!(" --from {}", self.from) };
        writeln!(
            out,
            "{BEGIN}\nMade by `coalloc sim fault --seeds {own}{from} --report FILE`, generator {GENERATOR}.\n"
        )?;
        let verdict = match self.failures.len() {
            0 => "every invariant held in every world".to_owned(),
            failed => format!("**{failed} worlds failed**"),
        };
        writeln!(
            out,
            "{} worlds, {} simulated in {:.0} s on {} threads ({} times real time, {} on each thread), {} events: {verdict}.\n",
            thousands(self.seeds),
            hours(self.simulated_s()),
            self.real_s(),
            self.jobs,
            thousands(self.ratio() as u64),
            thousands((self.ratio() / self.jobs as f64) as u64),
            thousands(self.counts.events),
        )?;
        writeln!(out, "| fault | times | counted as one |\n|---|---:|---|")?;
        for fault in Fault::ALL {
            writeln!(
                out,
                "| {fault:?} | {} | {} |",
                thousands(self.counts.of(fault)),
                fault.about()
            )?;
        }
        writeln!(out, "\n| what happened | times |\n|---|---:|")?;
        for (name, count) in self.counted() {
            writeln!(out, "| {name} | {} |", thousands(count))?;
        }
        writeln!(out, "{END}")
    }
}

/// A number with separators: `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A simulated time in a unit that suits its size.
fn hours(seconds: f64) -> String {
    let (hour, day, year) = (3_600.0, 86_400.0, 365.25 * 86_400.0);
    match seconds {
        s if s >= year => format!("{:.1} years", s / year),
        s if s >= 2.0 * day => format!("{:.1} days", s / day),
        s if s >= 2.0 * hour => format!("{:.1} h", s / hour),
        s => format!("{s:.0} s"),
    }
}

/// Checks that a report can be written to this file, before hours are spent.
///
/// # Errors
/// When the file exists and has no place for a report.
pub fn check_target(path: &Path) -> Result<(), Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => placed(path, &text, "").map(|_| ()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            match folder.filter(|folder| !folder.is_dir()) {
                Some(folder) => Err(Failure::bad_input(format!(
                    "--report {}: there is no folder {}",
                    path.display(),
                    folder.display()
                ))),
                None => Ok(()),
            }
        }
        Err(error) => Err(Failure::bad_input(format!("--report {}: {error}", path.display()))),
    }
}

/// The text with the section in its place.
fn placed(path: &Path, text: &str, section: &str) -> Result<String, Failure> {
    let place = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after.strip_prefix('\n').unwrap_or(after)))
    });
    let Some((before, after)) = place else {
        return Err(Failure::bad_input(format!(
            "--report {}: the file has no place for the counters; expected a line `{BEGIN}` and, \
             after it, a line `{END}`",
            path.display()
        )));
    };
    Ok(format!("{before}{section}{after}"))
}

/// Writes the section into a page, between its marks, or creates the page.
///
/// # Errors
/// When the page cannot be written.
pub fn write(path: &Path, section: &str) -> Result<(), Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => placed(path, &text, section)?,
        Err(_) => section.to_owned(),
    };
    std::fs::write(path, text)
        .map_err(|error| Failure::internal(format!("--report {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let counts = Counts { simulated_us: 7_200_000_000, events: 1_234_567, ..Counts::default() };
        let failure = Broken { seed: 7, kind: None, at_us: 12_345_678, what: "I6: no".to_owned() };
        Report {
            from: 0,
            seeds: 1_000,
            corpus: (0, 4),
            jobs: 2,
            elapsed: Duration::from_secs(2),
            counts,
            failures: vec![failure],
            interrupted: false,
        }
    }

    #[test]
    fn people_are_told_what_failed_and_how_to_look_at_it() {
        let text = report().text();
        for part in [
            "seeds 0 to 999, generator",
            "3,600 times real time, 1,800 on each thread",
            "1 of 1,000 worlds FAILED",
            "seed 7: at 12.345 s: I6: no\n    replay: coalloc sim fault --seed 7 --log\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let held = Report { failures: Vec::new(), ..report() };
        assert!(held.text().contains("every invariant held in all 1,000 worlds"));
    }

    #[test]
    fn a_report_stands_between_its_marks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        write(&path, &report().markdown()).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("before\n{page}after\n")).unwrap();
        check_target(&path).unwrap();
        write(&path, &report().markdown()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("before\n{page}after\n"));
        std::fs::write(&path, "nothing\n").unwrap();
        assert!(check_target(&path).is_err(), "a page without a place");
        assert!(check_target(&folder.path().join("none/page.md")).is_err(), "no folder");
        check_target(&folder.path().join("new.md")).unwrap();
    }

    #[test]
    fn numbers_have_commas() {
        let all: Vec<String> = [0, 999, 1_000, 1_234_567].into_iter().map(thousands).collect();
        assert_eq!(all, ["0", "999", "1,000", "1,234,567"]);
    }
}
