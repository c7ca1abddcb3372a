//! Federations of real processes on this machine, for every command that starts one.
//!
//! [`layout`] writes a configuration for each daemon, with ports from [`ports`]; [`daemons`](crate::user::daemons) starts
//! `coalloc serve` for each and stops them in any case. [`start`] puts these together. [`elgl`] is the federation that
//! is started when none is named.
//!
//! What is sent to a federation, and what is measured of it, is not here.

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
use crate::kit::rpc;
use crate::kit::text;
use crate::user::daemons::{Daemons, wait_reachable};
use crate::user::offline::Federation;
use crate::user::serve::Kind;
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
