//! Federations of real processes on this machine, for every command that starts one.
//!
//! [`layout`] writes a configuration for each daemon, with ports from [`ports`]; [`daemons`] starts `coalloc
//! serve` for each and stops them in any case. [`start`] puts these together. [`elgl`] is the federation that
//! is started when none is named.
//!
//! What is sent to a federation, and what is measured of it, is not here.

pub mod certificates;
pub mod daemons;
pub mod etcd;
pub mod layout;
pub mod ports;

use std::path::{Path, PathBuf};
use std::time::Instant;

use coalloc_net::client::Dialer;
use coalloc_proto::file::{Document, parse};
use coalloc_proto::v1;
use tempfile::TempDir;

use crate::kit::exit::Failure;
use crate::kit::rpc::{self, Coordinator};
use crate::kit::text;
use crate::user::offline::Federation;
use crate::user::serve::Kind;
use daemons::{Daemons, PAUSE, START_PATIENCE};
use layout::{Post, Setup, Shape};

/// The environment of the paper, used when --federation is not given.
const ELGL: &str = include_str!("../../../deploy/federations/elgl.yaml");

/// The paper's federation.
///
/// # Errors
/// When the file that was compiled in is wrong; a test makes sure that it is not.
pub fn elgl() -> Result<v1::FederationFile, Failure> {
    let document: Document<v1::FederationFile> = parse(Path::new("elgl.yaml"), ELGL.to_owned())?;
    Ok(Federation::of(document)?.file)
}

/// Starts the daemons of a federation, coordinators last, and waits until these reach all the others.
///
/// With `tied`, the daemons are told to stop when this process dies without stopping them.
///
/// # Errors
/// When a daemon does not come up.
pub(crate) async fn start(
    setup: &Setup<'_>,
    daemons: &mut Daemons,
    tied: bool,
) -> Result<Vec<Post>, Failure> {
    let posts = layout::write(setup)?;
    start_posts(setup, &posts, daemons, tied).await?;
    Ok(posts)
}

/// Does the same with daemons whose configurations are written.
///
/// # Errors
/// When a daemon does not come up.
pub(crate) async fn start_posts(
    setup: &Setup<'_>,
    posts: &[Post],
    daemons: &mut Daemons,
    tied: bool,
) -> Result<(), Failure> {
    let started = Instant::now();
    let (folder, file) = (setup.folder, setup.file);
    let (networks, computes) = (file.networks.len(), file.computes.len());
    let coordinators = match posts.len() - networks - computes {
        1 => "the coordinator".to_owned(),
        count => format!("{count} coordinators"),
    };
    text::note(&format!(
        "starting {networks} NRMs, {computes} CRMs and {coordinators} of {:?} in {}",
        file.name,
        folder.display()
    ));
    if !file.taken.is_empty() {
        text::note(
            "`taken` in the file is only for planning offline; a demo starts with nothing booked",
        );
    }
    if setup.etcd.is_some()
        && let Some(first) = posts.iter().find(|post| post.may_stand_by)
    {
        share_ledger(first).await?;
    }
    // The parent coordinator starts last: if it looked at a child coordinator that has not yet reached all
    // of its resource managers, it would see only a part of them.
    let (first, last) = posts.split_at(match setup.shape {
        Shape::Tree => posts.len() - 1,
        Shape::One | Shape::Rivals(_) => posts.len(),
    });
    for level in [first, last] {
        for post in level {
            daemons.start(post.clone(), tied)?;
        }
        daemons.wait_serving().await?;
        // Processes that share a ledger are one coordinator with several addresses.
        let (members, others): (Vec<_>, Vec<_>) =
            level.iter().filter(|post| post.kind == Kind::Grc).partition(|post| post.may_stand_by);
        let of = |posts: &[&Post]| -> Option<(Dialer, String)> {
            let all: Vec<&str> = posts.iter().map(|post| post.address.as_str()).collect();
            Some((posts.first()?.dialer.clone(), all.join(",")))
        };
        let others = others.iter().filter_map(|post| of(&[*post]));
        for (dialer, address) in others.chain(of(&members)) {
            wait_reachable(&mut rpc::coordinator(&dialer, &address)?, daemons).await?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    text::note(&format!("all {} processes serve after {seconds:.1} s", posts.len()));
    Ok(())
}

/// Makes the ledger in etcd that the processes of the coordinator share.
async fn share_ledger(post: &Post) -> Result<(), Failure> {
    let failed = |problem: &dyn std::fmt::Display| {
        Failure::internal(format!("the ledger could not be shared: {problem}"))
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = std::process::Command::new(program);
    command.args(["ledger", "share", "--config"]).arg(&post.config);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(&String::from_utf8_lossy(&output.stderr))),
    }
}

/// Waits until the coordinator reaches every resource manager.
async fn wait_reachable(client: &mut Coordinator, daemons: &mut Daemons) -> Result<(), Failure> {
    let end = Instant::now() + START_PATIENCE;
    loop {
        daemons.check_alive()?;
        let answer = client.describe_federation(v1::DescribeFederationRequest {}).await;
        let problems = match answer {
            Err(status) => vec![format!("grc: {}", status.message())],
            Ok(answer) => {
                let managers = answer.into_inner().resource_managers.into_iter();
                let lost = managers.filter(|manager| !manager.reachable);
                lost.map(|manager| format!("{}: {}", manager.name, manager.problem)).collect()
            }
        };
        if problems.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            let seconds = START_PATIENCE.as_secs();
            let problems = problems.join("\n");
            let text =
                format!("not all resource managers are reachable after {seconds} s\n{problems}");
            return Err(Failure::internal(text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns when a daemon ends that should not.
pub(crate) async fn first_death(daemons: &mut Daemons) -> Failure {
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Err(failure) = daemons.check_alive() {
            return failure;
        }
    }
}

/// Stops the daemons, and prints which of them had to be killed.
pub(crate) fn stop(daemons: &mut Daemons) {
    let killed = daemons.stop();
    if !killed.is_empty() {
        let names = text::enumerate(&killed);
        text::note(&format!("did not stop when asked and had to be killed: {names}"));
    }
}

/// The folder of a federation's files, removed at the end or kept.
pub(crate) enum Folder {
    /// Removed at the end.
    Temporary(TempDir),
    /// Kept.
    Given(PathBuf),
}

impl Folder {
    /// The folder that was asked for, which must be empty, or a temporary one.
    pub(crate) fn new(given: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = given else {
            let folder = tempfile::Builder::new().prefix("coalloc-demo-").tempdir();
            let failed = |error| Failure::internal(format!("no temporary folder: {error}"));
            return folder.map(Self::Temporary).map_err(failed);
        };
        let failed = |error| Failure::bad_input(format!("--dir {}: {error}", path.display()));
        std::fs::create_dir_all(path).map_err(failed)?;
        if std::fs::read_dir(path).map_err(failed)?.next().is_some() {
            let text = "is not empty; a demo starts with new ledgers and needs an empty folder";
            return Err(Failure::bad_input(format!("--dir {}: {text}", path.display())));
        }
        // Daemons are started with this path and may outlive this process, so the path must not depend on
        // the working directory.
        Ok(Self::Given(path.canonicalize().map_err(failed)?))
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Given(path) => path,
        }
    }

    /// Keeps the files, and returns their folder.
    pub(crate) fn keep(self) -> PathBuf {
        match self {
            Self::Temporary(folder) => folder.keep(),
            Self::Given(path) => path,
        }
    }
}

#[cfg(test)]
mod tests;
