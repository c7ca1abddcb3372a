//! A site of the story: its cluster, and the job that runs there.

use std::path::{Path, PathBuf};

use coalloc_crm::slurm::testbed::{Cluster, NodePlace};

use super::enter::JobUser;
use super::{CPUS_EACH, PLACES, Place, files, network, programs};
use crate::kit::exit::Failure;

/// A site, and its cluster that runs.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) place: &'static Place,
    pub(super) cluster: Cluster,
    user: JobUser,
    /// Where jobs run and write.
    folder: PathBuf,
}

impl Site {
    /// Starts the clusters of all sites.
    ///
    /// # Errors
    /// When one does not come up.
    pub(super) fn start_all(folder: &Path, user: &JobUser) -> Result<Vec<Self>, Failure> {
        std::thread::scope(|scope| {
            let start = |place| scope.spawn(move || Self::start(folder, place, user));
            let started: Vec<_> = PLACES.iter().map(start).collect();
            let joined = started.into_iter().map(|one| {
                one.join().unwrap_or_else(|_| Err(Failure::internal("a cluster was not started")))
            });
            // All are waited for: those that run are stopped when another one does not.
            joined.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn start(folder: &Path, place: &'static Place, user: &JobUser) -> Result<Self, Failure> {
        let own = folder.join(format!("slurm-{}", place.name));
        let jobs = folder.join("jobs");
        std::fs::create_dir_all(&own)
            .map_err(|error| Failure::internal(format!("{}: {error}", own.display())))?;
        user.give(&jobs)?;
        let node = |name: &&str| NodePlace {
            name: (*name).to_owned(),
            address: place.management.to_owned(),
            netns: Some(network::file(place.netns).into()),
        };
        let nodes = place.nodes.iter().chain([&place.spare]).map(node).collect();
        let name = format!("cluster-{}", place.name);
        let cluster = Cluster::start_at(&own, &name, place.controller, nodes, CPUS_EACH);
        let cluster = cluster.map_err(|problem| {
            Failure::internal(format!("the cluster {}: {problem}", place.name))
        })?;
        Ok(Self { place, cluster, user: user.clone(), folder: jobs })
    }

    /// Submits the job of this site in a reservation: its number, or why it is refused.
    ///
    /// # Errors
    /// When sbatch cannot be run.
    pub(super) async fn submit(
        &self,
        reservation: &str,
        script: &str,
    ) -> Result<Result<String, String>, Failure> {
        let path = self.folder.join(format!("{}.sh", self.place.name));
        files::write_file(&path, script)?;
        let mut command = match self.user.setpriv() {
            Some(arguments) => {
                let mut command = self.cluster.command("setpriv");
                command.args(arguments).arg("sbatch");
                command
            }
            None => self.cluster.command("sbatch"),
        };
        command
            .args(["--parsable", "--nodes=2", "--exclusive"])
            .arg(format!("--reservation={reservation}"))
            .arg(format!("--output={}", self.folder.join("%x-%j.log").display()))
            .arg(format!("--chdir={}", self.folder.display()))
            .arg(path)
            .current_dir("/");
        let outcome = programs::run(command).await?;
        Ok(outcome.map(|text| text.trim().to_owned()))
    }

    /// What the jobs have written into a file; `None`: nothing yet.
    pub(super) fn written(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    /// The lines that Slurm writes of all reservations.
    ///
    /// # Errors
    /// When scontrol does not say.
    pub(super) async fn reservations(&self) -> Result<String, Failure> {
        let mut command = self.cluster.command("scontrol");
        command.args(["show", "reservation", "-o"]);
        programs::check(command).await
    }

    /// The nodes on which a job runs; `None`: it does not run.
    ///
    /// # Errors
    /// When squeue or scontrol cannot be run.
    pub(super) async fn nodes_of(&self, job: &str) -> Result<Option<Vec<String>>, Failure> {
        let mut command = self.cluster.command("squeue");
        command.args(["--noheader", "--states=running", "--format=%N", "--jobs", job]);
        let list = programs::run(command).await?.unwrap_or_default();
        if list.trim().is_empty() {
            return Ok(None);
        }
        let mut command = self.cluster.command("scontrol");
        command.args(["show", "hostnames", list.trim()]);
        let names = programs::check(command).await?;
        Ok(Some(names.lines().map(str::to_owned).collect()))
    }

    /// The state of a job in Slurm's word; `GONE` when Slurm has forgotten it.
    ///
    /// # Errors
    /// When squeue cannot be run.
    pub(super) async fn job_state(&self, job: &str) -> Result<String, Failure> {
        let mut command = self.cluster.command("squeue");
        command.args(["--noheader", "--states=all", "--format=%T", "--jobs", job]);
        let state = programs::run(command).await?.unwrap_or_default();
        Ok(if state.trim().is_empty() { "GONE".to_owned() } else { state.trim().to_owned() })
    }
}
