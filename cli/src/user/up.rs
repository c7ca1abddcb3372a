//! `coalloc up`: runs the daemons whose configurations are in a folder, on this machine: in the foreground until Ctrl-C,
//! or detached.
//!
//! A file of the folder is a configuration if it has what only a daemon's configuration has
//! ([`check::kind_of`]); all of them are checked before the first one is started.
//!
//! Left out: writing such a folder (`coalloc init`), and starting daemons again that have ended (systemd, Docker).

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use coalloc_common::suggest::did_you_mean;
use coalloc_net::client::Dialer;
use coalloc_proto::file;
use coalloc_proto::v1;

use crate::kit::certificates::OPERATOR;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::interruption::interrupted;
use crate::kit::rpc::{self, IdentityArgs};
use crate::kit::text;
use crate::user::daemons::{Daemons, Post, first_death, stop, wait_reachable};
use crate::user::serve::{Kind, check};

/// The file with the ids of detached processes, in the folder.
const PIDS: &str = "pids";

/// Run all daemons of a folder on this machine, as `coalloc init` writes one
///
/// Ctrl-C stops them. Each daemon's log is beside its ledger. The daemons are asked whether they serve as the operator
/// in DIR/identities/operator or, without one, as --identity or COALLOC_IDENTITY says.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc up my-federation\n  \
    coalloc up my-federation --detach\n  \
    coalloc up --only crm-tokyo --only nrm-network")]
pub struct UpArgs {
    /// The folder with the configurations
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Return once all daemons serve, and leave them running
    #[arg(short, long)]
    detach: bool,
    /// Only the daemon of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    identity: IdentityArgs,
}

/// A daemon to start, and the resource managers that it needs.
struct ConfiguredDaemon {
    post: Post,
    needs: Vec<String>,
}

/// Runs `coalloc up`.
///
/// # Errors
/// When a configuration is wrong, or a daemon does not come up or ends. The others are stopped then.
pub async fn run(args: &UpArgs) -> Result<Answer, Failure> {
    let shown = args.folder.display();
    let bad = |error: std::io::Error| {
        Failure::bad_input(format!("{shown}: {error}\nmake a federation: coalloc init {shown}"))
    };
    // Detached daemons may outlive the working directory's name.
    let folder = args.folder.canonicalize().map_err(bad)?;
    let all = configured(&folder, &args.identity)?;
    if all.is_empty() {
        return Err(Failure::bad_input(format!(
            "{shown}: has no configuration of a daemon; allowed: a folder with some, as `coalloc init` writes it\n\
             try: coalloc init my-federation --site tokyo=16 --site osaka=8 --link tokyo-osaka=10G"
        )));
    }
    let chosen = choose(all, &args.only)?;
    check_free(&chosen, &folder)?;
    let mut daemons = Daemons::default();
    // The daemons have process groups of their own: whatever ends this process first would leave them to nobody.
    let outcome = tokio::select! {
        biased;
        () = interrupted() => Ok(false),
        outcome = start(&chosen, &mut daemons, !args.detach) => outcome.map(|()| true),
    };
    match outcome {
        Ok(true) if args.detach => detach(daemons, &folder, &chosen),
        Ok(true) => {
            text::note("Ctrl-C stops them");
            let failure = tokio::select! {
                failure = first_death(&mut daemons) => Some(failure),
                () = interrupted() => None,
            };
            stop(&mut daemons);
            match failure {
                Some(failure) => Err(failure),
                None => Ok(Answer::done("all daemons are stopped\n".to_owned())),
            }
        }
        Ok(false) => {
            stop(&mut daemons);
            let text = "all daemons are stopped\n".to_owned();
            Ok(Answer { text, exit: Exit::Interrupted })
        }
        Err(failure) => {
            stop(&mut daemons);
            Err(failure)
        }
    }
}

/// The files of a folder that are configurations of daemons, or are meant to be one and cannot be read.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn configurations(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed =
        |error: std::io::Error| Failure::bad_input(format!("{}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    let is_text = |path: &PathBuf| {
        path.extension()
            .is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|one| ending == *one))
    };
    paths.retain(|path| is_text(path) && !matches!(check::kind_of(path), Ok(None)));
    paths.sort();
    Ok(paths)
}

/// The daemons whose configurations are in a folder, coordinators last.
fn configured(folder: &Path, identity: &IdentityArgs) -> Result<Vec<ConfiguredDaemon>, Failure> {
    let paths = configurations(folder)?;
    let operator = folder.join(OPERATOR);
    let dialer = if operator.is_dir() { rpc::dialer_of(&operator)? } else { identity.dialer()? };
    let mut all = Vec::new();
    for path in paths {
        let Some(kind) = check::kind_of(&path)? else { continue };
        check::configuration(kind, &path)?;
        all.push(one(kind, &path, &dialer)?);
    }
    all.sort_by_key(|one| one.post.kind == Kind::Grc);
    Ok(all)
}

/// A daemon as its configuration has it.
fn one(kind: Kind, path: &Path, dialer: &Dialer) -> Result<ConfiguredDaemon, Failure> {
    let (name, daemon, needs) = match kind {
        Kind::Grc => {
            let file = file::read::<v1::GrcFile>(path)?.message;
            let needs = file.resource_managers.into_iter().map(|peer| peer.name).collect();
            (file.name, file.daemon, needs)
        }
        Kind::Nrm => {
            let file = file::read::<v1::NrmFile>(path)?.message;
            (file.inventory.unwrap_or_default().name, file.daemon, Vec::new())
        }
        Kind::Crm => {
            let file = file::read::<v1::CrmFile>(path)?.message;
            (file.inventory.unwrap_or_default().name, file.daemon, Vec::new())
        }
    };
    let daemon = daemon.unwrap_or_default();
    let ledger = path.parent().unwrap_or(Path::new(".")).join(&daemon.ledger);
    let post = Post {
        name,
        kind,
        address: reached_at(&daemon.listen),
        metrics: None,
        web: None,
        config: path.to_owned(),
        log: ledger.with_extension("log"),
        identity: None,
        dialer: if daemon.insecure_plaintext { Dialer::plain_text() } else { dialer.clone() },
        may_stand_by: daemon.shared_ledger.is_some(),
    };
    Ok(ConfiguredDaemon { post, needs })
}

/// Where a daemon of this machine is reached that listens at an address.
pub(crate) fn reached_at(listen: &str) -> String {
    match listen.parse::<std::net::SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() && address.is_ipv6() => {
            format!("[::1]:{}", address.port())
        }
        Ok(address) if address.ip().is_unspecified() => format!("127.0.0.1:{}", address.port()),
        _ => listen.to_owned(),
    }
}

/// The daemons with these names, or all.
fn choose(all: Vec<ConfiguredDaemon>, only: &[String]) -> Result<Vec<ConfiguredDaemon>, Failure> {
    let names: Vec<String> = all.iter().map(|one| one.post.name.clone()).collect();
    if let Some(wrong) = only.iter().find(|name| !names.contains(name)) {
        let guess = did_you_mean(wrong, names.iter().map(String::as_str));
        let names = text::enumerate(&names);
        return Err(Failure::bad_input(format!(
            "--only: {wrong:?} is not allowed; allowed: daemons of the folder, {names}{guess}"
        )));
    }
    Ok(all.into_iter().filter(|one| only.is_empty() || only.contains(&one.post.name)).collect())
}

/// Checks that nobody listens where the daemons will: otherwise those who do would be asked whether they serve.
fn check_free(chosen: &[ConfiguredDaemon], folder: &Path) -> Result<(), Failure> {
    for ConfiguredDaemon { post, .. } in chosen {
        if let Err(error) = std::net::TcpListener::bind(&post.address) {
            let (name, address, pids) = (&post.name, &post.address, folder.join(PIDS));
            let hint = match !running(&pids).is_empty() {
                true => format!(
                    "is the federation running? stop it: {}; or start only what is missing: coalloc up --only NAME",
                    kill(&pids)
                ),
                false => "another port is set with daemon.listen in its file, and in the files of its peers".to_owned(),
            };
            let text = format!("{name}: {address} cannot be bound: {error}\n{hint}");
            return Err(Failure::new(Exit::Failed, text));
        }
    }
    Ok(())
}

async fn start(
    chosen: &[ConfiguredDaemon],
    daemons: &mut Daemons,
    tied: bool,
) -> Result<(), Failure> {
    let started = Instant::now();
    text::note(&format!("starting {}", text::count(chosen.len(), "daemon")));
    // A coordinator that looks for resource managers before they serve would have to look again.
    let (coordinators, managers): (Vec<_>, Vec<_>) =
        chosen.iter().partition(|one| one.post.kind == Kind::Grc);
    for level in [managers, coordinators] {
        for one in level {
            daemons.start(one.post.clone(), tied)?;
        }
        daemons.wait_serving().await?;
    }
    let runs = |name: &String| chosen.iter().any(|one| one.post.name == *name);
    for one in chosen {
        // What is on other machines may come later.
        if one.post.kind == Kind::Grc && !one.post.may_stand_by && one.needs.iter().all(runs) {
            let mut client = rpc::coordinator(&one.post.dialer, &one.post.address)?;
            wait_reachable(&mut client, daemons).await?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    text::note(&format!("all serve after {seconds:.1} s"));
    Ok(())
}

/// Leaves the processes running, in the hands of the user.
fn detach(daemons: Daemons, folder: &Path, chosen: &[ConfiguredDaemon]) -> Result<Answer, Failure> {
    let path = folder.join(PIDS);
    // Those that `up --only` has started before.
    let mut pids = running(&path);
    pids.extend(daemons.pids().iter().map(ToString::to_string));
    std::fs::write(&path, pids.join("\n") + "\n")
        .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
    daemons.keep();
    let names: Vec<String> = chosen.iter().map(|one| one.post.name.clone()).collect();
    Ok(Answer::done(format!("running: {}\nstop them: {}\n", text::enumerate(&names), kill(&path))))
}

/// The processes of a file that are still daemons of its folder. Other processes may have the numbers of those that ended.
fn running(pids: &Path) -> Vec<String> {
    let folder = pids.parent().unwrap_or(Path::new(".")).as_os_str().as_encoded_bytes();
    let is_daemon = |pid: &&str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        pid.bytes().all(|byte| byte.is_ascii_digit()) && words.any(|word| word.starts_with(folder))
    };
    let text = std::fs::read_to_string(pids).unwrap_or_default();
    text.split_whitespace().filter(is_daemon).map(str::to_owned).collect()
}

/// The command that stops the processes of a file.
fn kill(pids: &Path) -> String {
    format!("kill $(cat {})", text::shell_word(&pids.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_reached_at_loopback_wherever_it_listens() {
        for (listen, expected) in [
            ("0.0.0.0:7000", "127.0.0.1:7000"),
            ("[::]:7000", "[::1]:7000"),
            ("10.0.0.1:7000", "10.0.0.1:7000"),
        ] {
            assert_eq!(reached_at(listen), expected);
        }
    }

    #[test]
    fn a_folder_without_configurations_is_answered_with_what_to_type() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("request.yaml"), "sites: []\n").unwrap();
        let args = UpArgs {
            folder: folder.path().to_owned(),
            detach: false,
            only: Vec::new(),
            identity: IdentityArgs::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let failure = runtime.block_on(run(&args)).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        assert!(failure.message.contains("try: coalloc init"), "{failure}");
    }
}
