//! What came of the story, for people and for programs.

use std::fmt::Write as _;

use serde_json::json;

use super::BOOKED_BPS;
use crate::kit::exit::Failure;
use crate::kit::text;
use crate::testbed::audit::Audit;

/// What of the booked rate one flow of TCP must carry: the rest are headers (1448 of 1514 bytes are 95.6 %).
const SHARE: std::ops::RangeInclusive<f64> = 0.90..=0.97;

/// What was seen at a cluster. Times are in seconds after the start or the end of the window.
#[derive(Debug)]
pub(super) struct SiteReport {
    pub(super) site: &'static str,
    pub(super) nodes: usize,
    /// The name of the reservation.
    pub(super) handle: String,
    /// The number of the job.
    pub(super) job: String,
    /// When the job has started; `None`: never.
    pub(super) started: Option<f64>,
    /// When the job was seen to have ended; `None`: it runs.
    pub(super) job_ended: Option<f64>,
    /// When the reservation was seen to have gone; `None`: it is there.
    pub(super) reservation_gone: Option<f64>,
}

impl SiteReport {
    /// A sentence about the end of the window.
    pub(super) fn end_text(&self) -> String {
        let seen = |after: Option<f64>| match after {
            Some(seconds) => format!("gone {seconds:.1} s after the end of the window"),
            None => "STILL THERE".to_owned(),
        };
        format!(
            "{}: job {} {}, reservation {}",
            self.site,
            self.job,
            seen(self.job_ended),
            seen(self.reservation_gone)
        )
    }
}

/// What came of the story.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) window_seconds: u64,
    /// Why jobs were refused before anything was reserved.
    pub(super) refused_before: Vec<String>,
    /// Why a job was refused while the reservation was only held.
    pub(super) refused_held: String,
    /// When the reservation became active, in seconds after the start of its window; `None`: it did not.
    pub(super) active: Option<f64>,
    pub(super) sites: Vec<SiteReport>,
    /// Were there classes with the booked rate on both sides of the exchange?
    pub(super) is_shaped: bool,
    /// What iperf3 has received; `None`: nothing was measured.
    pub(super) measured_bps: Option<f64>,
    /// When the classes were seen to have gone, in seconds after the end of the window.
    pub(super) class_gone: Option<f64>,
    pub(super) audit: Audit,
    /// How long the story took.
    pub(super) seconds: f64,
}

impl Report {
    /// Is all as it must be?
    pub(super) fn is_proven(&self) -> bool {
        self.lines().iter().all(|(is_right, _)| *is_right) && self.audit.holds()
    }

    fn share(&self) -> f64 {
        self.measured_bps.unwrap_or_default() / BOOKED_BPS as f64
    }

    /// What was to be shown, and whether it was.
    fn lines(&self) -> Vec<(bool, String)> {
        let mut lines = vec![(
            self.refused_held.contains("Access denied"),
            format!("without a grant sbatch is refused: {}", self.refused_held),
        )];
        let window = 0.0..self.window_seconds as f64;
        let active =
            self.active.map_or_else(|| "never".to_owned(), |s| format!("{s:.2} s into it"));
        lines.push((
            self.active.is_some_and(|seconds| window.contains(&seconds)),
            format!("the reservation is active in its window: {active}"),
        ));
        for SiteReport { site, nodes, started, job, .. } in &self.sites {
            let after = started.map_or_else(|| "never".to_owned(), |s| format!("{s:.2} s into it"));
            let is_right = started.is_some_and(|seconds| window.contains(&seconds));
            let text = format!("job {job} at {site}, {nodes} nodes, starts in the window: {after}");
            lines.push((is_right, text));
        }
        let measured = self.measured_bps.unwrap_or_default() / 1e6;
        lines.push((
            SHARE.contains(&self.share()) && self.is_shaped,
            format!(
                "the job gets its rate: {measured:.1} of {} Mbit/s booked, {:.1} %",
                BOOKED_BPS / 1_000_000,
                self.share() * 100.0
            ),
        ));
        for report in &self.sites {
            let is_gone = report.job_ended.is_some() && report.reservation_gone.is_some();
            lines.push((is_gone, report.end_text()));
        }
        let class = self.class_gone.map_or_else(
            || "the link is STILL SHAPED".to_owned(),
            |after| format!("the link: its classes gone {after:.1} s after the end of the window"),
        );
        lines.push((self.class_gone.is_some(), class));
        lines
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let verdict =
            if self.is_proven() { "All was as it must be" } else { "NOT all was as it must be" };
        let mut out = format!("{verdict}, in {:.0} s:\n", self.seconds);
        for (is_right, line) in self.lines() {
            let mark = if is_right { "  ok   " } else { "  FAIL " };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{mark} {line}");
        }
        out += "\n";
        out + &self.audit.text()
    }

    /// For programs.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub(super) fn json(&self) -> Result<String, Failure> {
        let site = |report: &SiteReport| {
            json!({
                "site": report.site,
                "handle": report.handle,
                "job": report.job,
                "startedSeconds": report.started,
                "jobEndedSeconds": report.job_ended,
                "reservationGoneSeconds": report.reservation_gone,
            })
        };
        text::json(&json!({
            "proven": self.is_proven(),
            "windowSeconds": self.window_seconds,
            "refusedBefore": self.refused_before,
            "refusedHeld": self.refused_held,
            "activeSeconds": self.active,
            "sites": self.sites.iter().map(site).collect::<Vec<_>>(),
            "bookedBps": BOOKED_BPS,
            "measuredBps": self.measured_bps,
            "share": self.share(),
            "shaped": self.is_shaped,
            "classGoneSeconds": self.class_gone,
            "violations": self.audit.violations().map(ToString::to_string).collect::<Vec<_>>(),
            "restless": self.audit.restless,
            "seconds": self.seconds,
        }))
    }
}
