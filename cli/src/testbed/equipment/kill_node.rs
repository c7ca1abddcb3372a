//! The story of `coalloc demo equipment --kill-node`: a node of a running job dies, and the coordinator moves the
//! reservation onto another one.
//!
//! The coordinator of the demo has `repair: REPAIR_POLICY_AUTOMATIC`. Each cluster has a spare node. The daemon of a node that the
//! job has is killed, and Slurm is told that the node is down, as a monitor of a real cluster does. From then on nobody
//! helps: the CRM sees the node, the coordinator changes the reservation, and Slurm starts the job again in it.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use coalloc_common::Span;
use coalloc_proto::v1;
use serde_json::json;

use super::site::Site;
use super::story::{
    LEAD, OWN, PAUSE, REQUEST_ID, REST_PATIENCE, User, handle_of, say, wait_granted,
};
use super::{files, programs};
use crate::kit::exit::Failure;
use crate::kit::text;
use crate::kit::when::next_full;
use crate::testbed::audit::{Audit, Places, hear, judge};
use crate::testbed::local::layout::Post;

/// The length of the window, in seconds. The story releases the reservation long before its end.
const WINDOW_SECS: u64 = 300;
/// How long each step may take. The CRM looks at its cluster every 30 s, and the coordinator waits 10 s for the node to
/// come back.
const STEP_MAX: Duration = Duration::from_secs(75);

/// What came of it. Times are in seconds after the node has died.
#[derive(Debug)]
pub(super) struct KillReport {
    killed: String,
    nodes_before: Vec<String>,
    nodes_after: Vec<String>,
    /// When the coordinator told its user of it.
    told: Option<f64>,
    /// When the reservation had its new version.
    moved: Option<f64>,
    /// When the job ran again.
    runs_again: Option<f64>,
    /// Was the name of the reservation at the cluster the same afterwards?
    has_same_handle: bool,
    /// Had everything gone after the release?
    is_gone: bool,
    audit: Audit,
    seconds: f64,
}

/// Tells the story.
///
/// # Errors
/// When a step before the death of the node does not happen at all.
pub(super) async fn tell(
    folder: &Path,
    posts: &[Post],
    sites: &mut [Site],
) -> Result<KillReport, Failure> {
    let user = User::new(folder, posts)?;
    let begun = Instant::now();
    let start = next_full(Span::from_secs(1), coalloc_net::clock::now().wall).saturating_add(LEAD);
    let request = files::write_request(folder, start, WINDOW_SECS)?;
    let path = request.display().to_string();
    let answer = user.coalloc(&["reserve", "--request", &path, "--id", REQUEST_ID]).await?;
    say(&format!("coalloc reserve --request {path}"), &answer);
    let granted = wait_granted(posts, start).await?;
    let site = sites.first_mut().ok_or_else(|| Failure::internal("there is no site"))?;
    let handle = handle_of(&granted, site.place.name)?.to_owned();
    let job = site.submit(&handle, files::WAITING_JOB).await?.map_err(Failure::internal)?;
    let nodes_before = runs(site, &job, |_| true).await?;
    let nodes_before = nodes_before
        .ok_or_else(|| Failure::internal(format!("job {job} does not start in its window")))?;
    say(&format!("squeue --job={job}"), &format!("runs on {}", nodes_before.join(", ")));

    // The job's script runs on the first node, which survives: the job is lost because it needs all of its nodes.
    let killed = nodes_before.last().cloned().unwrap_or_default();
    site.cluster.kill_node(&killed);
    let died = Instant::now();
    let after = |instant: Instant| instant.duration_since(died).as_secs_f64();
    let down = [&*format!("NodeName={killed}"), "State=DOWN", "Reason=killed"];
    let mut command = site.cluster.command("scontrol");
    command.arg("update").args(down);
    programs::check(command).await?;
    say(&format!("kill -9 SLURMD_OF_{killed}; scontrol update {}", down.join(" ")), "");

    let is_told = |known: &v1::Reservation| {
        known.equipment_trouble.iter().any(|trouble| trouble.trouble.contains(&killed))
    };
    let told = user.wait_for(is_told).await?.then(|| after(Instant::now()));
    say("coalloc repair", &user.coalloc_anyway(&["repair"]).await?);
    let is_moved = |known: &v1::Reservation| known.version == 2;
    let moved = user.wait_for(is_moved).await?.then(|| after(Instant::now()));
    say(&format!("coalloc show {REQUEST_ID}"), &user.coalloc(&["show", REQUEST_ID]).await?);
    let nodes_after = runs(site, &job, |nodes| !nodes.contains(&killed)).await?;
    let runs_again = nodes_after.as_ref().map(|_| after(Instant::now()));
    let nodes_after = nodes_after.unwrap_or_default();
    say(&format!("squeue --job={job}"), &format!("runs on {}", nodes_after.join(", ")));
    let has_same_handle =
        site.reservations().await?.contains(&format!("ReservationName={handle} "));

    say(&format!("coalloc release {REQUEST_ID}"), &user.coalloc(&["release", REQUEST_ID]).await?);
    let is_gone = gone(sites).await?;
    let places =
        Places { coordinators: vec![user.address], managers: Vec::new(), dialer: user.dialer };
    let audit = judge(&hear(&places, REST_PATIENCE).await?, None);
    let seconds = begun.elapsed().as_secs_f64();
    Ok(KillReport {
        killed,
        nodes_before,
        nodes_after,
        told,
        moved,
        runs_again,
        has_same_handle,
        is_gone,
        audit,
        seconds,
    })
}

/// Waits until a job runs on nodes of which this is true. `None`: it does not within a step's time.
async fn runs(
    site: &Site,
    job: &str,
    is_right: impl Fn(&[String]) -> bool,
) -> Result<Option<Vec<String>>, Failure> {
    let until = Instant::now() + STEP_MAX;
    while Instant::now() < until {
        if let Some(nodes) = site.nodes_of(job).await?
            && is_right(&nodes)
        {
            return Ok(Some(nodes));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}

/// Waits until no cluster has a reservation of ours.
async fn gone(sites: &[Site]) -> Result<bool, Failure> {
    let until = Instant::now() + STEP_MAX;
    while Instant::now() < until {
        let mut is_gone = true;
        for site in sites {
            is_gone &= !site.reservations().await?.contains(OWN);
        }
        if is_gone {
            return Ok(true);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(false)
}

impl User {
    /// Waits until the reservation is as wanted. False: it is not within a step's time.
    async fn wait_for(&self, is_right: impl Fn(&v1::Reservation) -> bool) -> Result<bool, Failure> {
        let until = Instant::now() + STEP_MAX;
        while Instant::now() < until {
            let shown = self.coalloc(&["show", REQUEST_ID, "--json"]).await?;
            let known: v1::Reservation = serde_json::from_str(&shown)
                .map_err(|error| Failure::internal(format!("coalloc show: {error}: {shown}")))?;
            if is_right(&known) {
                return Ok(true);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(false)
    }
}

impl KillReport {
    /// Is all as it must be?
    pub(super) fn is_proven(&self) -> bool {
        self.lines().iter().all(|(is_right, _)| *is_right) && self.audit.holds()
    }

    /// What was to be shown, and whether it was.
    fn lines(&self) -> Vec<(bool, String)> {
        let seconds = |after: Option<f64>| match after {
            Some(seconds) => format!("{seconds:.1} s after the death of {}", self.killed),
            None => "NEVER".to_owned(),
        };
        let has_it = |nodes: &[String]| nodes.contains(&self.killed);
        let is_elsewhere =
            self.nodes_after.len() == self.nodes_before.len() && !has_it(&self.nodes_after);
        vec![
            (self.told.is_some(), format!("the user is told: {}", seconds(self.told))),
            (self.moved.is_some(), format!("the reservation is moved: {}", seconds(self.moved))),
            (
                is_elsewhere,
                format!(
                    "the job runs again, on {} instead of {}: {}",
                    self.nodes_after.join(", "),
                    self.nodes_before.join(", "),
                    seconds(self.runs_again)
                ),
            ),
            (self.has_same_handle, "the reservation has the same name at the cluster".to_owned()),
            (self.is_gone, "after its release nothing of it is left".to_owned()),
        ]
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
        text::json(&json!({
            "proven": self.is_proven(),
            "killed": self.killed,
            "nodesBefore": self.nodes_before,
            "nodesAfter": self.nodes_after,
            "toldSeconds": self.told,
            "movedSeconds": self.moved,
            "runsAgainSeconds": self.runs_again,
            "sameHandle": self.has_same_handle,
            "gone": self.is_gone,
            "violations": self.audit.violations().map(ToString::to_string).collect::<Vec<_>>(),
            "restless": self.audit.restless,
            "seconds": self.seconds,
        }))
    }
}
