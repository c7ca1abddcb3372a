//! Slurm's programs, run with an end to each.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use coalloc_common::limits;
use coalloc_common::plain_text::one_line;
use coalloc_protocol::participant::equipment::EquipmentTrouble;
use tokio::process::Command;
use tokio::time::{Instant, timeout_at};

/// Longest part of a program's text in a sentence, in characters.
const TEXT_SHOWN_MAX: usize = 200;

/// Where Slurm's programs and its configuration are.
#[derive(Debug, Clone, Default)]
pub(super) struct Programs {
    /// The configuration; `None`: where Slurm looks itself.
    pub(super) conf: Option<PathBuf>,
    /// The folder of the programs; `None`: those on PATH.
    pub(super) bin: Option<PathBuf>,
}

/// How a program ended.
#[derive(Debug)]
pub(super) struct Output {
    /// Did it say that all went well?
    pub(super) is_success: bool,
    /// What it wrote.
    pub(super) text: String,
    /// What it wrote about errors, in one short line.
    pub(super) complaint: String,
}

/// Why there is nothing to say how a program ended.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was not started.
    NotStarted(String),
    /// It took too long and was killed.
    TooSlow(String),
}

impl Failure {
    /// The trouble when the program was to change something.
    pub(super) fn of_change(self) -> EquipmentTrouble {
        match self {
            Self::NotStarted(text) => EquipmentTrouble::Down(text),
            Self::TooSlow(text) => EquipmentTrouble::Lost(text),
        }
    }

    /// The trouble when the program was to change nothing.
    pub(super) fn of_look(self) -> EquipmentTrouble {
        match self {
            Self::NotStarted(text) | Self::TooSlow(text) => EquipmentTrouble::Down(text),
        }
    }
}

/// The end of a call of the driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// That of a call that begins now.
    pub(super) fn of_call() -> Self {
        Self(Instant::now() + limits::EQUIPMENT_PATIENCE.to_std())
    }

    /// Waits, and tells whether there is time left.
    pub(super) async fn pause(self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        tokio::time::sleep_until(until.min(self.0)).await;
        until < self.0
    }
}

impl Programs {
    /// Runs a program to its end, or to the end of the call.
    pub(super) async fn run(
        &self,
        program: &str,
        arguments: &[String],
        deadline: Deadline,
    ) -> Result<Output, Failure> {
        let path =
            self.bin.as_ref().map_or_else(|| PathBuf::from(program), |bin| bin.join(program));
        let mut command = Command::new(&path);
        // Settings of whoever has started this process would change what the programs write.
        let foreign =
            ["SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SQUEUE_", "SINFO_", "SCONTROL_", "SCANCEL_"];
        for (name, _) in std::env::vars_os() {
            if foreign.iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
                command.env_remove(name);
            }
        }
        command.args(arguments).env("TZ", "UTC").env("LC_ALL", "C");
        if let Some(conf) = &self.conf {
            command.env("SLURM_CONF", conf);
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        let failed = |error: std::io::Error| {
            Failure::NotStarted(format!(
                "{} cannot be started: {error}; install Slurm's programs (slurm-client), or set \
                 driver.slurm.bin to their folder",
                path.display()
            ))
        };
        tracing::debug!(program, ?arguments, "running a program of Slurm");
        let Ok(ended) = timeout_at(deadline.0, command.output()).await else {
            let seconds = limits::EQUIPMENT_PATIENCE.to_std().as_secs();
            return Err(Failure::TooSlow(format!(
                "Slurm has not answered {program} within {seconds} s; check with `scontrol ping` that slurmctld runs, \
                 and start it"
            )));
        };
        let ended = ended.map_err(failed)?;
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&ended.stderr);
        let complaint = complaint.lines().map(str::trim).find(|line| !line.is_empty());
        let complaint = one_line(complaint.unwrap_or_default());
        let complaint = complaint.chars().take(TEXT_SHOWN_MAX).collect();
        Ok(Output { is_success: ended.status.success(), text, complaint })
    }

    /// Runs a program that only looks, and returns what it wrote.
    pub(super) async fn look(
        &self,
        program: &str,
        arguments: &[&str],
        deadline: Deadline,
    ) -> Result<String, EquipmentTrouble> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let output = self.run(program, &arguments, deadline).await.map_err(Failure::of_look)?;
        if output.is_success {
            return Ok(output.text);
        }
        Err(EquipmentTrouble::Down(format!(
            "{program} fails: {}; check with `scontrol ping` that slurmctld runs, and that the path of slurm.conf in \
             driver.slurm.conf is right",
            output.complaint
        )))
    }
}
