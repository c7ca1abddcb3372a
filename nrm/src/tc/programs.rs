//! The thin shell: runs `ip`, `tc` and `nft`, in the namespace that has the interfaces.
//!
//! Another namespace is entered by `nsenter --net=FILE`, which changes nothing else: `ip netns exec` remounts /sys, which
//! needs rights that a plain user has only in some user namespaces.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use coalloc_common::limits;
use coalloc_protocol::participant::equipment::EquipmentTrouble;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::{Instant, timeout_at};

use super::kernel::{KernelState, families, links};
use super::plan::{Commands, Names, Root};

/// What a program does: whether its failure may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// The programs.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    /// The file of the network namespace; `None`: the daemon's own.
    netns: Option<PathBuf>,
    /// Where programs are looked for.
    path: OsString,
}

/// The programs until a call of the driver must have ended.
pub(super) struct Call<'a> {
    programs: &'a Programs,
    end: Instant,
}

impl Programs {
    /// The programs of the namespace with this file.
    pub(super) fn new(netns: Option<PathBuf>) -> Self {
        // The system's programs are not in the path of plain users, on Debian for one.
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(if path.is_empty() {
            "/usr/sbin:/sbin:/usr/bin:/bin"
        } else {
            ":/usr/sbin:/sbin"
        });
        Self { netns, path }
    }

    /// The programs, looked for in this path alone.
    #[cfg(test)]
    fn with_path(self, path: &str) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Begins a call, which ends within [`limits::EQUIPMENT_PATIENCE`].
    pub(super) fn call(&self) -> Call<'_> {
        let patience = Duration::from_micros(limits::EQUIPMENT_PATIENCE.as_us().unsigned_abs());
        // What kills a program, and what turns its end into an answer, takes a moment too.
        Call { programs: self, end: Instant::now() + patience.mul_f64(0.95) }
    }
}

impl Call<'_> {
    /// Looks at all that is there.
    pub(super) async fn look(&self, names: &Names) -> Result<KernelState, EquipmentTrouble> {
        let (links_text, qdiscs, tables) = tokio::try_join!(
            self.read("ip", &["-d", "-j", "link", "show"], ""),
            self.read("tc", &["-j", "qdisc", "show"], ""),
            self.read("nft", &["-j", "list", "tables"], ""),
        )?;
        let misread = |program: &'static str| {
            move |error: serde_json::Error| {
                EquipmentTrouble::Down(format!(
                    "what {program} prints is not what this release can read ({error}): its version must be one that \
                     writes JSON, like those of Debian 12"
                ))
            }
        };
        let links = links(&links_text).map_err(misread("ip"))?;
        let mut kernel = KernelState { links, ..KernelState::default() };
        kernel.read_qdiscs(&qdiscs).map_err(misread("tc"))?;
        for family in families(&tables, &names.table).map_err(misread("nft"))? {
            let args = ["-j", "list", "table", family.word(), &names.table];
            let table = self.read("nft", &args, "").await?;
            kernel.read_table(family, &table).map_err(misread("nft"))?;
        }
        let is_own = |interface: &&String| kernel.root(interface, names) == Root::Own;
        let own: Vec<String> = kernel.roots.keys().filter(is_own).cloned().collect();
        if !own.is_empty() {
            let show = |one: &String| format!("qdisc show dev {one}\nclass show dev {one}\n");
            let batch: String = own.iter().map(show).collect();
            let text = self.read("tc", &["-batch", "-"], &batch).await?;
            kernel.read_classes(&own, &text);
        }
        Ok(kernel)
    }

    /// Carries out commands.
    pub(super) async fn apply(&self, commands: &Commands) -> Result<(), EquipmentTrouble> {
        self.write("nft", &["-f", "-"], &commands.first_nft).await?;
        self.write("tc", &["-batch", "-"], &commands.tc).await?;
        self.write("nft", &["-f", "-"], &commands.last_nft).await
    }

    async fn write(
        &self,
        program: &str,
        args: &[&str],
        lines: &[String],
    ) -> Result<(), EquipmentTrouble> {
        if lines.is_empty() {
            return Ok(());
        }
        let input: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self.run(Access::Write, program, args, &input).await.map(|_| ())
    }

    async fn read(
        &self,
        program: &str,
        args: &[&str],
        input: &str,
    ) -> Result<String, EquipmentTrouble> {
        let output = self.run(Access::Read, program, args, input).await?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn run(
        &self,
        access: Access,
        program: &str,
        args: &[&str],
        input: &str,
    ) -> Result<Output, EquipmentTrouble> {
        let mut command = match &self.programs.netns {
            None => Command::new(program),
            Some(file) => {
                let mut net = OsString::from("--net=");
                net.push(file);
                let mut command = Command::new("nsenter");
                command.arg(net).arg("--").arg(program);
                command
            }
        };
        command.args(args).env("PATH", &self.programs.path).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let what = format!("`{program} {}`", args.join(" "));
        let first = if self.programs.netns.is_some() { "nsenter" } else { program };
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(first),
            _ => EquipmentTrouble::Down(format!("{what} cannot be started: {error}")),
        })?;
        let stdin = child.stdin.take();
        let talk = async {
            let feed = async {
                if let Some(mut stdin) = stdin {
                    // A program that fails early does not read all of it; its status tells.
                    let _ = stdin.write_all(input.as_bytes()).await;
                }
            };
            tokio::join!(feed, child.wait_with_output()).1
        };
        // On timeout, the child is dropped, and killed by that.
        match timeout_at(self.end, talk).await {
            Ok(Ok(output)) if output.status.success() => Ok(output),
            Ok(Ok(output)) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                Err(trouble(access, program, &what, output.status, &stderr))
            }
            Ok(Err(error)) => Err(unsure(access, format!("{what} was lost sight of: {error}"))),
            Err(_) => {
                let patience = limits::EQUIPMENT_PATIENCE.as_us() / 1_000_000;
                let sentence = format!("{what} had not ended within {patience} s, and was killed");
                Err(unsure(access, sentence))
            }
        }
    }
}

/// The trouble of a program whose effect nobody knows, unless it only reads.
fn unsure(access: Access, sentence: String) -> EquipmentTrouble {
    match access {
        Access::Read => EquipmentTrouble::Down(sentence),
        Access::Write => EquipmentTrouble::Lost(sentence),
    }
}

fn missing(program: &str) -> EquipmentTrouble {
    let package = match program {
        "nft" => "nftables",
        "nsenter" => "util-linux",
        _ => "iproute2",
    };
    EquipmentTrouble::Down(format!(
        "the program {program} is not on this machine, neither in PATH nor in /usr/sbin: install the package {package}"
    ))
}

/// What it means that a program has failed.
fn trouble(
    access: Access,
    program: &str,
    what: &str,
    status: ExitStatus,
    stderr: &str,
) -> EquipmentTrouble {
    // nft shows the line as well, and marks the place.
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<&str> = lines.by_ref().take(2).collect();
    let said = if said.is_empty() { status.to_string() } else { said.join("; ") };
    if stderr.contains(&format!("nsenter: failed to execute {program}")) {
        return missing(program);
    }
    if stderr.contains("nsenter: cannot open") {
        return EquipmentTrouble::Down(format!(
            "the network namespace of `driver.tc.netns` is not there ({said}): `ip netns add` makes one"
        ));
    }
    if stderr.contains("Operation not permitted") {
        return EquipmentTrouble::Down(format!(
            "{what} is not permitted ({said}): the NRM needs the capability CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter \
             another network namespace"
        ));
    }
    unsure(access, format!("{what} failed: {said}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;

    use super::*;

    fn program(folder: &Path, name: &str, script: &str) {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn down(result: Result<KernelState, EquipmentTrouble>) -> String {
        let Err(EquipmentTrouble::Down(sentence)) = result else { panic!("{result:?}") };
        sentence
    }

    #[tokio::test]
    async fn a_missing_program_is_named_with_its_package() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "ip", "/bin/echo '[]'");
        program(folder.path(), "tc", "/bin/echo '[]'");
        let names = Names::of_rm("co-12345678");
        let programs = Programs::new(None).with_path(folder.path().to_str().unwrap());
        let sentence = down(programs.call().look(&names).await);
        assert!(sentence.contains("nft") && sentence.contains("package nftables"), "{sentence}");
        let programs = Programs::new(Some("/run/netns/none".into())).with_path("/nowhere");
        let sentence = down(programs.call().look(&names).await);
        assert!(sentence.contains("nsenter") && sentence.contains("util-linux"), "{sentence}");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed_and_its_effect_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "tc", "echo $$ > \"$0.pid\"; exec /bin/sleep 60");
        let programs = Programs::new(None).with_path(folder.path().to_str().unwrap());
        let call = Call { programs: &programs, end: Instant::now() + Duration::from_millis(500) };
        let commands = Commands { tc: vec!["qdisc show".into()], ..Commands::default() };
        let result = call.apply(&commands).await;
        assert!(matches!(&result, Err(EquipmentTrouble::Lost(_))), "{result:?}");
        let pid = std::fs::read_to_string(folder.path().join("tc.pid")).unwrap();
        let is_alive = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            status.is_ok_and(|status| !status.contains(") Z "))
        };
        for _ in 0..100 {
            if !is_alive() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("tc is still alive");
    }

    #[tokio::test]
    async fn what_nobody_can_read_is_no_empty_machine() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["ip", "tc", "nft"] {
            program(folder.path(), name, "/bin/echo 'qdisc noqueue 0: dev lo root'");
        }
        let programs = Programs::new(None).with_path(folder.path().to_str().unwrap());
        let sentence = down(programs.call().look(&Names::of_rm("co-12345678")).await);
        assert!(sentence.contains("what ip prints"), "{sentence}");
    }

    #[test]
    fn failures_say_what_and_where() {
        let of = |access, program, stderr: &str| {
            trouble(access, program, &format!("`{program}`"), ExitStatus::from_raw(256), stderr)
        };
        let no_rights = "RTNETLINK answers: Operation not permitted\n";
        let trouble = of(Access::Write, "tc", no_rights);
        assert!(matches!(&trouble, EquipmentTrouble::Down(it) if it.contains("CAP_NET_ADMIN")));
        let no_file = "nsenter: cannot open /run/netns/x: No such file or directory\n";
        let trouble = of(Access::Read, "tc", no_file);
        assert!(matches!(&trouble, EquipmentTrouble::Down(it) if it.contains("/run/netns/x")));
        let no_program = "nsenter: failed to execute nft: No such file or directory\n";
        let trouble = of(Access::Read, "nft", no_program);
        assert!(matches!(&trouble, EquipmentTrouble::Down(it) if it.contains("nftables")));
        let no_device = "Cannot find device \"zz\"\nCommand failed -:1\n";
        let trouble = of(Access::Write, "tc", no_device);
        assert!(matches!(&trouble, EquipmentTrouble::Lost(it) if it.contains("device \"zz\"")));
        let trouble = of(Access::Read, "tc", "");
        assert!(matches!(&trouble, EquipmentTrouble::Down(it) if it.contains("exit status: 1")));
    }
}
