//! The story: what is done in front of the user, and what is seen at the equipment meanwhile.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use coalloc_common::{Span, Time};
use coalloc_proto::v1;
use serde_json::Value;

use super::report::{Report, SiteReport};
use super::site::Site;
use super::{EXCHANGE, PLACES, USER, files, programs};
use crate::kit::exit::Failure;
use crate::kit::rpc;
use crate::kit::text;
use crate::kit::when::next_full;
use crate::testbed::audit::{Places, hear, judge};
use crate::testbed::local::layout::{OPERATOR, Post};
use crate::user::serve::Kind;

/// How long from now the window begins.
pub(super) const LEAD: Span = Span::from_secs(7);
/// The length of the window, in seconds.
const WINDOW_SECS: u64 = 16;
/// How long the jobs measure, in seconds.
const MEASURED_SECS: u64 = 6;
/// The id of the request.
pub(super) const REQUEST_ID: &str = "equipment";
/// How all reservations begin that a driver has made.
pub(super) const OWN: &str = "ReservationName=co-";
/// How long the controller of one cluster is stopped at most, so that the claim of the other one can be seen.
const CLAIM_SEEN_MAX: Duration = Duration::from_millis(2_500);
/// How late anything may be: what begins at the start of the window, and what goes at its end.
const LATE_MAX: Duration = Duration::from_secs(10);
/// How long the audit may wait until nothing moves.
pub(super) const REST_PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// A booking that can be used: at which resource manager, and how the equipment names it.
#[derive(Debug)]
pub(super) struct Granted {
    manager: String,
    handle: String,
}

/// Tells the story.
///
/// # Errors
/// When a step does not happen at all. A figure that is wrong is only in the report.
pub(super) async fn tell(folder: &Path, posts: &[Post], sites: &[Site]) -> Result<Report, Failure> {
    let user = User::new(folder, posts)?;
    let begun = Instant::now();
    let unknown = "co-00000000-0000000000000000";
    let before = refusals(sites, unknown).await?;
    say(&format!("sbatch --reservation={unknown} before anything is reserved"), &before.join("\n"));

    let start = next_full(Span::from_secs(1), coalloc_net::clock::now().wall).saturating_add(LEAD);
    let request = files::write_request(folder, start, WINDOW_SECS)?;
    let (answer, held) = reserve(&user, &request, sites).await?;
    say(&format!("coalloc reserve --request {}", request.display()), &answer);
    say("sbatch meanwhile, while the reservation was only held", &held);

    let granted = wait_granted(posts, start).await?;
    let mut reports = Vec::new();
    for (index, site) in sites.iter().enumerate() {
        let handle = handle_of(&granted, site.place.name)?;
        let script = files::script(index, MEASURED_SECS);
        let submitted = site.submit(handle, &script).await?;
        let job = submitted.map_err(|complaint| {
            Failure::internal(format!(
                "sbatch --reservation={handle} at {}: {complaint}",
                site.place.name
            ))
        })?;
        say(
            &format!("sbatch --reservation={handle} job.sh"),
            &format!("job {job} waits at {}", site.place.name),
        );
        reports.push(SiteReport {
            site: site.place.name,
            nodes: site.place.nodes.len(),
            handle: handle.to_owned(),
            job,
            started: None,
            job_ended: None,
            reservation_gone: None,
        });
    }
    let ready = start.since(coalloc_net::clock::now().wall).as_us() as f64 / 1e6;
    text::note(&format!("all is ready {ready:.1} s before the window begins\n"));

    let end = start.saturating_add(Span::from_secs(WINDOW_SECS as i64));
    for (site, report) in sites.iter().zip(&mut reports) {
        report.started = started(site, start, end).await?;
        if let Some(after) = report.started {
            text::note(&format!(
                "the job at {} has started {after:.2} s after the start of the window",
                site.place.name
            ));
        }
    }
    let watched =
        user.coalloc(&["watch", REQUEST_ID, "--until", "started", "--idle", "10s"]).await?;
    say(&format!("coalloc watch {REQUEST_ID} --until started"), &watched);
    let active = user.became_active(start).await?;
    let class = handle_of(&granted, "nrm")?.rsplit(' ').next().unwrap_or_default().to_owned();
    let shaped = classes().await?;
    let own = shaped.lines().filter(|line| line.contains(&format!("htb {class} ")));
    let own: Vec<&str> = own.collect();
    let is_shaped = own.len() == PLACES.len();
    say(&format!("tc class show, class {class}"), &own.join("\n"));
    say(&format!("coalloc show {REQUEST_ID}"), &user.coalloc(&["show", REQUEST_ID]).await?);

    let measured_bps = measured(sites, end).await?;
    if let Some(rate) = measured_bps {
        text::note(&format!("iperf3 has measured {:.1} Mbit/s\n", rate / 1e6));
    }
    sleep_until(end).await;
    let class_gone = gone(sites, &mut reports, end).await?;
    for report in &reports {
        text::note(&report.end_text());
    }
    say("tc class show, after the window", &classes().await?);
    say(&format!("coalloc show {REQUEST_ID}"), &user.coalloc(&["show", REQUEST_ID]).await?);

    let places =
        Places { coordinators: vec![user.address], managers: Vec::new(), dialer: user.dialer };
    let audit = judge(&hear(&places, REST_PATIENCE).await?, None);
    Ok(Report {
        window_seconds: WINDOW_SECS,
        refused_before: before,
        refused_held: held,
        active,
        sites: reports,
        is_shaped,
        measured_bps,
        class_gone,
        audit,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Shows a command and what it has written.
pub(super) fn say(command: &str, output: &str) {
    let output = if output.trim().is_empty() { "(nothing)" } else { output.trim_end() };
    text::note(&format!("$ {command}\n{output}\n"));
}

/// Whoever types the commands.
pub(super) struct User {
    pub(super) address: String,
    pub(super) dialer: coalloc_net::client::Dialer,
    identity: std::path::PathBuf,
}

impl User {
    pub(super) fn new(folder: &Path, posts: &[Post]) -> Result<Self, Failure> {
        let grc = posts.iter().find(|post| post.kind == Kind::Grc);
        let grc = grc.ok_or_else(|| Failure::internal("no coordinator"))?;
        let (address, dialer) = (grc.address.clone(), grc.dialer.clone());
        Ok(Self { address, dialer, identity: folder.join(OPERATOR) })
    }

    /// Runs this program with these arguments: what it answers.
    ///
    /// # Errors
    /// When it fails.
    pub(super) async fn coalloc(&self, args: &[&str]) -> Result<String, Failure> {
        let output = self.output(args).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(Failure::internal(format!("coalloc {}:\n{text}{complaint}", args.join(" "))))
    }

    /// The same, whatever its exit code is.
    ///
    /// # Errors
    /// When it does not come to an end.
    pub(super) async fn coalloc_anyway(&self, args: &[&str]) -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(&self.output(args).await?.stdout).into_owned())
    }

    async fn output(&self, args: &[&str]) -> Result<std::process::Output, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::internal(format!("the path of this program: {error}")))?;
        let mut command = Command::new(program);
        command
            .args(args)
            .env("COALLOC_GRC", &self.address)
            .env("COALLOC_IDENTITY", &self.identity);
        programs::output(command).await
    }
}

impl User {
    /// When the reservation became active, in seconds after the start of its window. `None`: it did not.
    async fn became_active(&self, start: Time) -> Result<Option<f64>, Failure> {
        let args = ["watch", REQUEST_ID, "--until", "started", "--idle", "10s", "--json"];
        for line in self.coalloc(&args).await?.lines() {
            let event: v1::ReservationEvent = serde_json::from_str(line)
                .map_err(|error| Failure::internal(format!("an event: {error}: {line}")))?;
            if event.state() == v1::ReservationState::Active {
                let at = text::time(event.time.as_ref());
                return Ok(at.map(|at| at.since(start).as_us() as f64 / 1e6));
            }
        }
        Ok(None)
    }
}

/// The answers of all sites to a job in a reservation that they do not have.
async fn refusals(sites: &[Site], reservation: &str) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for (index, site) in sites.iter().enumerate() {
        let name = site.place.name;
        match site.submit(reservation, &files::script(index, MEASURED_SECS)).await? {
            Err(complaint) => all.push(format!("{name}: {complaint}")),
            Ok(job) => {
                return Err(Failure::internal(format!(
                    "{name} takes job {job} without a reservation"
                )));
            }
        }
    }
    Ok(all)
}

/// Reserves, and looks in between how the first cluster answers to a job while the reservation is only held: the
/// controller of the other cluster is stopped for that moment, so that there is no commit.
async fn reserve(user: &User, request: &Path, sites: &[Site]) -> Result<(String, String), Failure> {
    let [first, second] = sites else { return Err(Failure::internal("there are two sites")) };
    let path = request.display().to_string();
    second.cluster.pause_controller(true).map_err(Failure::internal)?;
    let args = ["reserve", "--request", &path, "--id", REQUEST_ID];
    let looked = async {
        let held = tokio::time::timeout(CLAIM_SEEN_MAX, refused_while_held(first)).await;
        // Whatever was seen, the other cluster goes on.
        second.cluster.pause_controller(false).map_err(Failure::internal)?;
        held.unwrap_or_else(|_| Ok("the hold was not seen in time".to_owned()))
    };
    tokio::try_join!(user.coalloc(&args), looked)
}

async fn refused_while_held(site: &Site) -> Result<String, Failure> {
    loop {
        let all = site.reservations().await?;
        let own = all.lines().find_map(|line| line.split(' ').next()?.strip_prefix(OWN));
        if let Some(rest) = own {
            let name = format!("co-{rest}");
            let answer = site.submit(&name, &files::script(0, MEASURED_SECS)).await?;
            let refused = match answer {
                Ok(job) => {
                    return Err(Failure::internal(format!(
                        "job {job} is taken by what is only held"
                    )));
                }
                Err(complaint) => complaint,
            };
            return Ok(format!("{}: {refused}", site.place.name));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until the user may use all that is booked.
pub(super) async fn wait_granted(posts: &[Post], start: Time) -> Result<Vec<Granted>, Failure> {
    loop {
        let (mut granted, mut missing) = (Vec::new(), Vec::new());
        for post in posts.iter().filter(|post| post.kind != Kind::Grc) {
            let mut client = rpc::resource_manager(&post.dialer, &post.address)?;
            let bookings = rpc::all_bookings(&mut client, v1::ListBookingsRequest::default()).await;
            let bookings = bookings.map_err(|status| rpc::failure(&status))?;
            let planes = bookings.into_iter().flat_map(|booking| booking.data_plane);
            for plane in planes {
                let is_granted = plane.provision_state() == v1::ProvisionState::Provisioned;
                if is_granted && !plane.handle.is_empty() {
                    granted.push(Granted { manager: post.name.clone(), handle: plane.handle });
                } else {
                    missing.push(format!(
                        "{}: {:?} {}",
                        post.name,
                        plane.provision_state(),
                        plane.trouble
                    ));
                }
            }
        }
        if granted.len() + 1 == posts.len() && missing.is_empty() {
            return Ok(granted);
        }
        if coalloc_net::clock::now().wall > start {
            let text = format!("not granted before the window: {}", missing.join("; "));
            return Err(Failure::internal(text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The handle of the resource manager in whose name this is.
pub(super) fn handle_of<'a>(granted: &'a [Granted], part: &str) -> Result<&'a str, Failure> {
    let one = granted.iter().find(|one| one.manager.contains(part));
    let one = one.ok_or_else(|| Failure::internal(format!("{USER} has nothing at {part}")))?;
    Ok(&one.handle)
}

/// Waits for the start of a site's job: how many seconds after the start of the window it was. `None`: never.
async fn started(site: &Site, start: Time, end: Time) -> Result<Option<f64>, Failure> {
    let name = format!("started-{}", site.place.name);
    while coalloc_net::clock::now().wall < end {
        if let Some(text) = site.written(&name) {
            let at: f64 = text
                .trim()
                .parse()
                .map_err(|_| Failure::internal(format!("{name}: {}", text::line(&text))))?;
            return Ok(Some(at - start.as_us() as f64 / 1e6));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}

/// Waits for what the jobs have measured, in bit/s. `None`: they did not come to an end.
async fn measured(sites: &[Site], end: Time) -> Result<Option<f64>, Failure> {
    while coalloc_net::clock::now().wall < end {
        if let Some(text) = sites.first().and_then(|site| site.written("measured.json")) {
            let all: Value = serde_json::from_str(&text)
                .map_err(|error| Failure::internal(format!("measured.json: {error}")))?;
            let rate = all.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
            return Ok(rate);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}

/// Waits until nothing of the booking is at the equipment: fills the reports of the sites, and returns when the classes had gone,
/// all in seconds after the end of the window. What does not go stays `None`.
async fn gone(
    sites: &[Site],
    reports: &mut [SiteReport],
    end: Time,
) -> Result<Option<f64>, Failure> {
    let mut class_gone = None;
    let until = Instant::now() + LATE_MAX;
    while Instant::now() < until {
        if class_gone.is_none() && classes().await?.trim().is_empty() {
            class_gone = Some(after(end));
        }
        for (site, report) in sites.iter().zip(&mut *reports) {
            let is_over = |state: &str| !matches!(state, "RUNNING" | "COMPLETING" | "PENDING");
            if report.job_ended.is_none() && is_over(&site.job_state(&report.job).await?) {
                report.job_ended = Some(after(end));
            }
            if report.reservation_gone.is_none() && !site.reservations().await?.contains(OWN) {
                report.reservation_gone = Some(after(end));
            }
        }
        let is_gone = |report: &SiteReport| report.job_ended.and(report.reservation_gone).is_some();
        if class_gone.is_some() && reports.iter().all(is_gone) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(class_gone)
}

/// All classes of the exchange.
async fn classes() -> Result<String, Failure> {
    let mut all = String::new();
    for place in &PLACES {
        let show = programs::command(Some(EXCHANGE), &format!("tc class show dev {}", place.port));
        all += &programs::check(show).await?;
    }
    Ok(all)
}

fn after(end: Time) -> f64 {
    coalloc_net::clock::now().wall.since(end).as_us() as f64 / 1e6
}

async fn sleep_until(instant: Time) {
    let left = instant.since(coalloc_net::clock::now().wall).as_us();
    tokio::time::sleep(Duration::from_micros(u64::try_from(left).unwrap_or_default())).await;
}
