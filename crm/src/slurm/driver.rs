//! The shell: runs the programs in the order of the plan, and reads back what has become of it.

use std::collections::BTreeMap;
use std::time::Duration;

use coalloc_common::{Reason, Refusal, Time};
use coalloc_net::clock::Clock;
use coalloc_protocol::participant::equipment::{
    EquipmentKey, EquipmentTrouble, Observed, Stage, Want,
};
use coalloc_rm::driver::{Driver, Naming};

use super::SlurmSettings;
use super::pieces::{Nodes, Piece, pieces};
use super::plan::{Claim, Command, Plan, arguments, joined, plan};
use super::programs::{Deadline, Failure, Output};
use super::text::{self, Job, Reservation};
use super::view::{
    View, Wanted, base, compare, displaced, foreign_jobs, foreign_reservations, own_of, unusable,
    unusable_servers,
};

/// Pause before a reservation whose jobs are ending is looked at again.
const JOBS_PAUSE: Duration = Duration::from_millis(100);

/// The driver of one cluster.
#[derive(Debug)]
pub(super) struct Slurm {
    settings: SlurmSettings,
    naming: Naming,
    clock: Clock,
}

#[tonic::async_trait]
impl Driver for Slurm {
    async fn observe(
        &self,
        wanted: &BTreeMap<EquipmentKey, Want>,
    ) -> Result<Observed, EquipmentTrouble> {
        let view = self.view(Deadline::of_call()).await?;
        let now = self.clock.now().wall;
        let wanted = wanted.iter().map(|(key, want)| (key.clone(), self.wanted(key, want, now)));
        let mut observed = compare(&view, &wanted.collect(), &self.naming, now);
        observed.unusable = unusable_servers(&self.settings.servers, &view.nodes);
        Ok(observed)
    }

    async fn make(&self, key: &EquipmentKey, want: &Want) -> Result<String, EquipmentTrouble> {
        let deadline = Deadline::of_call();
        let now = self.clock.now().wall;
        let wanted = self.wanted(key, want, now);
        let user = wanted.user.as_ref().map_err(refused)?;
        // In the second in which its window ends, nothing is left of a booking.
        if wanted.pieces.is_empty() && want.stage == Stage::Claimed {
            return Err(refused(
                "Slurm reserves nodes for whole seconds: this booking names no servers, or is shorter",
            ));
        }
        let call = Call { driver: self, wanted: &wanted, user, now, deadline };
        call.make().await
    }

    async fn remove(&self, reference: &str) -> Result<(), EquipmentTrouble> {
        if !self.naming.is_own(reference) {
            return Err(refused(format!("{reference} is not a reservation of this CRM")));
        }
        let deadline = Deadline::of_call();
        loop {
            let own = own_of(reference, &self.reservations(deadline).await?);
            let jobs = self.jobs(deadline).await?;
            let is_own = |job: &&Job| base(&job.reservation) == reference;
            let jobs: Vec<&Job> = jobs.iter().filter(is_own).collect();
            if own.is_empty() && jobs.is_empty() {
                return Ok(());
            }
            self.cancel(&jobs, deadline).await?;
            for one in &own {
                let command = Command::Delete { name: one.name.clone() };
                self.change(&command, false, deadline).await?;
            }
            if !deadline.pause(JOBS_PAUSE).await {
                return Err(EquipmentTrouble::Lost(format!(
                    "jobs in the reservation {reference} have been cancelled and have not ended yet"
                )));
            }
        }
    }
}

impl Slurm {
    pub(super) const fn new(settings: SlurmSettings, naming: Naming, clock: Clock) -> Self {
        Self { settings, naming, clock }
    }

    fn wanted(&self, key: &EquipmentKey, want: &Want, now: Time) -> Wanted {
        let user = self.settings.users.get(&want.user).cloned().ok_or_else(|| {
            format!(
                "{} is no user of the cluster: add the user to driver.slurm.users of this CRM's configuration",
                want.user
            )
        });
        Wanted { name: self.naming.name(key), pieces: pieces(want, now), user }
    }

    async fn view(&self, deadline: Deadline) -> Result<View, EquipmentTrouble> {
        let (reservations, nodes, jobs) =
            tokio::join!(self.reservations(deadline), self.nodes(deadline), self.jobs(deadline));
        Ok(View { reservations: reservations?, nodes: nodes?, jobs: jobs? })
    }

    async fn reservations(&self, deadline: Deadline) -> Result<Vec<Reservation>, EquipmentTrouble> {
        let arguments = ["show", "reservation", "-o"];
        let written = self.settings.programs.look("scontrol", &arguments, deadline).await?;
        text::reservations(&written).map_err(EquipmentTrouble::Down)
    }

    async fn nodes(
        &self,
        deadline: Deadline,
    ) -> Result<BTreeMap<String, text::Node>, EquipmentTrouble> {
        let arguments = ["-h", "-a", "-N", "-o", text::NODE_FORMAT];
        let written = self.settings.programs.look("sinfo", &arguments, deadline).await?;
        Ok(text::nodes(&written))
    }

    async fn jobs(&self, deadline: Deadline) -> Result<Vec<Job>, EquipmentTrouble> {
        let arguments = ["-h", "-a", "-t", "PD,R,S", "-o", text::JOB_FORMAT];
        let written = self.settings.programs.look("squeue", &arguments, deadline).await?;
        text::jobs(&written).map_err(EquipmentTrouble::Down)
    }

    async fn cancel(&self, jobs: &[&Job], deadline: Deadline) -> Result<(), EquipmentTrouble> {
        if jobs.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        tracing::info!(jobs = ids.join(" "), "cancelling jobs of what their user has no longer");
        // Whether they have ended is read back: a job that has ended by itself is an error of scancel.
        let ran = self.settings.programs.run("scancel", &ids, deadline).await;
        ran.map(drop).map_err(Failure::of_change)
    }

    async fn change(
        &self,
        command: &Command,
        ignores_jobs: bool,
        deadline: Deadline,
    ) -> Result<Output, EquipmentTrouble> {
        let arguments = arguments(command, self.clock.now().wall, ignores_jobs);
        let ran = self.settings.programs.run("scontrol", &arguments, deadline).await;
        let output = ran.map_err(Failure::of_change)?;
        let (is_success, complaint) = (output.is_success, &output.complaint);
        tracing::info!(command = arguments.join(" "), is_success, complaint, "told Slurm");
        Ok(output)
    }
}

/// One call of [`Driver::make`].
struct Call<'a> {
    driver: &'a Slurm,
    wanted: &'a Wanted,
    user: &'a str,
    now: Time,
    deadline: Deadline,
}

impl Call<'_> {
    async fn make(&self) -> Result<String, EquipmentTrouble> {
        let name = self.wanted.name.clone();
        let (plan, _) = self.plan().await?;
        if plan.is_empty() {
            self.end_displaced_jobs().await?;
            return Ok(name);
        }
        // What is booked already is reserved even on a node that is down: it may come back in time.
        let new = plan.claims.iter().filter(|claim| !claim.piece.is_booked);
        let claimed: Nodes = new.flat_map(|claim| &claim.nodes).cloned().collect();
        if !claimed.is_empty() {
            let nodes = self.driver.nodes(self.deadline).await?;
            if let Some(sentence) = unusable(&claimed, &nodes) {
                return Err(refused(sentence));
            }
        }
        for (index, claim) in plan.claims.iter().enumerate() {
            match self.claim(claim).await {
                Ok(()) => {}
                Err(EquipmentTrouble::Refused(refusal)) => {
                    self.undo(plan.claims.get(..index).unwrap_or_default()).await?;
                    return Err(EquipmentTrouble::Refused(refusal));
                }
                // Nothing has been told to Slurm yet.
                Err(EquipmentTrouble::Down(text)) if index == 0 => {
                    return Err(EquipmentTrouble::Down(text));
                }
                Err(other) => return Err(lost(other)),
            }
        }
        let mut complaint = String::new();
        for command in &plan.moves {
            let output = self.carry_out(command).await.map_err(lost)?;
            if !output.is_success {
                complaint = output.complaint;
            }
        }
        self.end_displaced_jobs().await.map_err(lost)?;
        let (rest, own) = self.plan().await.map_err(lost)?;
        match rest.difference(&own) {
            None => Ok(name),
            Some(differs) if plan.claims.is_empty() && rest == plan && !complaint.is_empty() => {
                // Not one command had an effect.
                Err(refused(format!("Slurm does not change a reservation: {complaint}; {differs}")))
            }
            Some(differs) => Err(EquipmentTrouble::Lost(format!("after all commands {differs}"))),
        }
    }

    async fn plan(&self) -> Result<(Plan, Vec<Reservation>), EquipmentTrouble> {
        let Wanted { name, pieces, .. } = self.wanted;
        let own = own_of(name, &self.driver.reservations(self.deadline).await?);
        Ok((plan(name, self.user, pieces, &own, self.now), own))
    }

    /// Takes something new. What is refused is looked into: whoever is in the way is named, and jobs that are in the
    /// way of something that was certain before, or that are our own, are ignored.
    async fn claim(&self, claim: &Claim) -> Result<(), EquipmentTrouble> {
        let output = self.driver.change(&claim.command, false, self.deadline).await?;
        if output.is_success {
            return Ok(());
        }
        let view = self.driver.view(self.deadline).await.map_err(lost)?;
        let naming = &self.driver.naming;
        let is_made =
            |one: &Reservation| one.name == claim.command.name() && one.piece.covers(&claim.piece);
        if view.reservations.iter().any(is_made) {
            return Ok(());
        }
        let piece = Piece { nodes: claim.nodes.clone(), ..claim.piece.clone() };
        let mut sentences = foreign_reservations(&view.reservations, &piece, naming);
        let jobs = foreign_jobs(&view.jobs, &piece, naming);
        if sentences.is_empty() && (claim.piece.is_booked || jobs.is_empty()) {
            let again = self.driver.change(&claim.command, true, self.deadline).await?;
            if again.is_success {
                return self.keep_unless_jobs(claim, &piece).await;
            }
        }
        sentences.extend(jobs);
        let why = match sentences.is_empty() {
            true => format!("for the Unix users root and {}: {}", self.user, output.complaint),
            false => sentences.join("; "),
        };
        let Piece { nodes, start, end, .. } = &piece;
        let nodes = joined(nodes);
        Err(refused(format!("Slurm does not reserve {nodes} from {start} to {end}: {why}")))
    }

    /// Gives a claim up again when a job of others has begun while jobs were ignored.
    async fn keep_unless_jobs(&self, claim: &Claim, piece: &Piece) -> Result<(), EquipmentTrouble> {
        if claim.piece.is_booked {
            return Ok(());
        }
        let jobs = self.driver.jobs(self.deadline).await.map_err(lost)?;
        let jobs = foreign_jobs(&jobs, piece, &self.driver.naming);
        if jobs.is_empty() {
            return Ok(());
        }
        self.undo(std::slice::from_ref(claim)).await?;
        Err(refused(jobs.join("; ")))
    }

    async fn undo(&self, claims: &[Claim]) -> Result<(), EquipmentTrouble> {
        for claim in claims.iter().rev() {
            let output = self.carry_out(&claim.undo).await.map_err(lost)?;
            if !output.is_success {
                let name = claim.undo.name();
                let text = format!("the reservation {name} was not undone: {}", output.complaint);
                return Err(EquipmentTrouble::Lost(text));
            }
        }
        Ok(())
    }

    /// Runs a command that takes nothing new. Before a reservation goes, its jobs are ended.
    async fn carry_out(&self, command: &Command) -> Result<Output, EquipmentTrouble> {
        loop {
            let output = self.driver.change(command, false, self.deadline).await?;
            let Command::Delete { name } = command else { return Ok(output) };
            if output.is_success {
                return Ok(output);
            }
            let jobs = self.driver.jobs(self.deadline).await?;
            let jobs: Vec<&Job> = jobs.iter().filter(|job| job.reservation == *name).collect();
            self.driver.cancel(&jobs, self.deadline).await?;
            let all = self.driver.reservations(self.deadline).await?;
            if !all.iter().any(|one| one.name == *name) || !self.deadline.pause(JOBS_PAUSE).await {
                return Ok(output);
            }
        }
    }

    /// Ends jobs of this booking on nodes that its user may not use.
    async fn end_displaced_jobs(&self) -> Result<(), EquipmentTrouble> {
        let jobs = self.driver.jobs(self.deadline).await?;
        let displaced: Vec<&Job> = displaced(&jobs, self.wanted, self.now).collect();
        self.driver.cancel(&displaced, self.deadline).await
    }
}

fn refused(sentence: impl ToString) -> EquipmentTrouble {
    let refusal = Refusal::new(Reason::Equipment, sentence.to_string());
    EquipmentTrouble::Refused(Box::new(refusal))
}

/// The trouble of a call that had told Slurm something before.
fn lost(trouble: EquipmentTrouble) -> EquipmentTrouble {
    match trouble {
        EquipmentTrouble::Down(text) => EquipmentTrouble::Lost(text),
        other => other,
    }
}
