//! `coalloc up`: runs the daemons whose configurations are in a folder, on this machine: in the foreground until Ctrl-C,
//! or detached.
//!
//! A file of the folder is a configuration if it has what only a daemon's configuration has
//! ([`check::kind_of`]); all of them are checked before the first one is started.
//!
//! Left out: writing such a folder (`coalloc init`), and starting daemons again that have ended (systemd, Docker).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::net::ToSocketAddrs as _;
use std::os::unix::ffi::OsStrExt as _;
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
use crate::kit::{text, whole};
use crate::user::daemons::{Daemons, Post, first_death, stop, wait_reachable};
use crate::user::serve::{Kind, check};

/// The file with the ids of detached processes, in the folder.
pub(super) const PIDS: &str = "pids";

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

/// A daemon to start, and whom it talks to: a coordinator to resource managers, and they to coordinators.
struct ConfiguredDaemon {
    post: Post,
    peers: Vec<PeerAddress>,
}

/// A daemon as the configuration of another one has it.
struct PeerAddress {
    name: String,
    /// host:port.
    address: String,
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
    let all = configured(&folder, &args.only, &args.identity)?;
    if all.is_empty() {
        return Err(Failure::bad_input(format!(
            "{shown}: has no configuration of a daemon; allowed: a folder with some, as `coalloc init` writes it\n\
             try: coalloc init my-federation --site tokyo=16 --site osaka=8 --link tokyo-osaka=10G"
        )));
    }
    refuse_elsewhere(&all, &args.only)?;
    let chosen = choose(all, &args.only)?;
    check_free(&chosen, &folder)?;
    let mut daemons = Daemons::default();
    // The daemons have process groups of their own: whatever ends this process first would leave them to nobody.
    let pids = args.detach.then(|| PidFile::of(&folder));
    let outcome = tokio::select! {
        biased;
        () = interrupted() => Ok(false),
        outcome = start(&chosen, &mut daemons, pids.as_ref()) => outcome.map(|()| true),
    };
    match (outcome, pids) {
        (Ok(true), Some(pids)) => Ok(detach(daemons, &pids, &chosen)),
        (Ok(true), None) => {
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
        (Ok(false), _) => {
            stop(&mut daemons);
            let text = "all daemons are stopped\n".to_owned();
            Ok(Answer { text, exit: Exit::Interrupted })
        }
        (Err(failure), _) => {
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

/// The daemons whose configurations are in a folder, coordinators last. If `only` some are wanted, other files may be broken.
fn configured(
    folder: &Path,
    only: &[String],
    identity: &IdentityArgs,
) -> Result<Vec<ConfiguredDaemon>, Failure> {
    let paths = configurations(folder)?;
    let operator = folder.join(OPERATOR);
    let dialer = if operator.is_dir() { rpc::dialer_of(&operator)? } else { identity.dialer()? };
    let mut all = Vec::new();
    for path in paths {
        let stem = path.file_stem().unwrap_or_default();
        let is_meant = only.is_empty() || only.iter().any(|name| stem == name.as_str());
        let kind = match check::kind_of(&path) {
            Err(_) if !is_meant => continue,
            Err(error) => {
                let hint = "if it is no configuration of a daemon, move it elsewhere";
                return Err(Failure::bad_input(format!("{error}\n{hint}")));
            }
            Ok(kind) => kind,
        };
        let Some(kind) = kind else { continue };
        match check::configuration(kind, &path) {
            Err(_) if !is_meant => continue,
            checked => checked?,
        };
        all.push(one(kind, &path, &dialer)?);
    }
    all.sort_by_key(|one| one.post.kind == Kind::Grc);
    Ok(all)
}

/// A daemon as its configuration has it.
fn one(kind: Kind, path: &Path, dialer: &Dialer) -> Result<ConfiguredDaemon, Failure> {
    let (name, daemon, peers) = match kind {
        Kind::Grc => {
            let file = file::read::<v1::GrcFile>(path)?.message;
            (file.name, file.daemon, file.resource_managers)
        }
        Kind::Nrm => {
            let file = file::read::<v1::NrmFile>(path)?.message;
            (file.inventory.unwrap_or_default().name, file.daemon, file.coordinators)
        }
        Kind::Crm => {
            let file = file::read::<v1::CrmFile>(path)?.message;
            (file.inventory.unwrap_or_default().name, file.daemon, file.coordinators)
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
    let peers = peers.into_iter();
    let peers = peers.map(|peer| PeerAddress { name: peer.name, address: peer.address });
    Ok(ConfiguredDaemon { post, peers: peers.collect() })
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

/// Refuses to start daemons that belong on another machine: those who need them ask for them there.
fn refuse_elsewhere(all: &[ConfiguredDaemon], only: &[String]) -> Result<(), Failure> {
    let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for peer in all.iter().flat_map(|one| &one.peers) {
        // Processes that share a ledger are one peer with several addresses.
        let own = peer.address.split(',').filter_map(|one| Some(one.rsplit_once(':')?.0));
        hosts.entry(&peer.name).or_default().extend(own);
    }
    for one in all {
        // Nobody has this one as a peer: then it is where it listens.
        if let Some((host, _)) = one.post.address.rsplit_once(':') {
            hosts.entry(&one.post.name).or_insert_with(|| BTreeSet::from([host]));
        }
    }
    let of = |name: &str| hosts.get(name).into_iter().flatten().copied();
    let is_here = |name: &str| of(name).any(is_of_this_machine);
    let (here, elsewhere): (Vec<&str>, Vec<&str>) =
        all.iter().map(|one| one.post.name.as_str()).partition(|name| is_here(name));
    let is_meant = |name: &&&str| only.is_empty() || only.iter().any(|one| one == **name);
    let Some(name) = elsewhere.iter().find(is_meant) else { return Ok(()) };
    let host = of(name).collect::<Vec<_>>().join(" or ");
    let hint = match here.is_empty() {
        true => {
            "none of the folder's daemons is of this machine: copy the folder to theirs".to_owned()
        }
        false => {
            let flags: Vec<String> = here.iter().map(|name| format!("--only {name}")).collect();
            format!("start what is of this machine: coalloc up {}", flags.join(" "))
        }
    };
    Err(Failure::bad_input(format!("{name} runs on {host}, which is not this machine\n{hint}")))
}

/// Can a daemon of this machine listen at the addresses of this host? A name that nobody knows is of no machine.
fn is_of_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = (host, 0).to_socket_addrs();
    addresses.is_ok_and(|mut all| all.any(|one| std::net::TcpListener::bind(one).is_ok()))
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
    let bound = |one: &ConfiguredDaemon| std::net::TcpListener::bind(&one.post.address).err();
    let (free, taken): (Vec<_>, Vec<_>) =
        chosen.iter().map(|one| (one, bound(one))).partition(|(_, error)| error.is_none());
    let Some((ConfiguredDaemon { post, .. }, Some(error))) = taken.first() else { return Ok(()) };
    let names = |all: &[(&ConfiguredDaemon, _)]| {
        let names: Vec<String> = all.iter().map(|(one, _)| one.post.name.clone()).collect();
        text::enumerate(&names)
    };
    let pids = folder.join(PIDS);
    let text = if running(&pids).is_empty() {
        let (name, address) = (&post.name, &post.address);
        format!(
            "{name}: {address} cannot be bound: {error}\n\
             another port is set with daemon.listen in its file, and in the files of its peers"
        )
    } else if free.is_empty() {
        format!("running already: {}\nstop them: {}", names(&taken), down(folder))
    } else {
        let only: Vec<String> =
            free.iter().map(|(one, _)| format!(" --only {}", one.post.name)).collect();
        format!(
            "running already: {}; not running: {}\n\
             start what is missing: coalloc up --detach{}\nor stop all: {}",
            names(&taken),
            names(&free),
            only.concat(),
            down(folder)
        )
    };
    Err(Failure::new(Exit::Failed, text))
}

async fn start(
    chosen: &[ConfiguredDaemon],
    daemons: &mut Daemons,
    pids: Option<&PidFile>,
) -> Result<(), Failure> {
    let started = Instant::now();
    text::note(&format!("starting {}", text::count(chosen.len(), "daemon")));
    // A coordinator that looks for resource managers before they serve would have to look again.
    let (coordinators, managers): (Vec<_>, Vec<_>) =
        chosen.iter().partition(|one| one.post.kind == Kind::Grc);
    for level in [managers, coordinators] {
        for one in level {
            daemons.start(one.post.clone(), pids.is_none())?;
            // Whatever ends this process: the daemons can be found and stopped.
            pids.map_or(Ok(()), |pids| pids.write(daemons))?;
        }
        daemons.wait_serving().await?;
    }
    let runs = |name: &String| chosen.iter().any(|one| one.post.name == *name);
    for one in chosen {
        // What is on other machines may come later.
        if one.post.kind == Kind::Grc
            && !one.post.may_stand_by
            && one.peers.iter().all(|peer| runs(&peer.name))
        {
            let mut client = rpc::coordinator(&one.post.dialer, &one.post.address)?;
            wait_reachable(&mut client, daemons).await?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    text::note(&format!("all serve after {seconds:.1} s"));
    Ok(())
}

/// Leaves the processes running, in the hands of the user.
fn detach(daemons: Daemons, pids: &PidFile, chosen: &[ConfiguredDaemon]) -> Answer {
    daemons.keep();
    let names: Vec<String> = chosen.iter().map(|one| one.post.name.clone()).collect();
    let (names, down) =
        (text::enumerate(&names), down(pids.path.parent().unwrap_or(Path::new("."))));
    Answer::done(format!("running: {names}\nstop them: {down}\n"))
}

/// The file of a folder with the ids of its detached processes.
struct PidFile {
    path: PathBuf,
    /// Those that `up --only` has started before, and that still run.
    before: Vec<String>,
}

impl PidFile {
    fn of(folder: &Path) -> Self {
        let path = folder.join(PIDS);
        Self { before: running(&path), path }
    }

    fn write(&self, daemons: &Daemons) -> Result<(), Failure> {
        let mut pids = self.before.clone();
        pids.extend(daemons.pids().iter().map(ToString::to_string));
        whole::write(&self.path, (pids.join("\n") + "\n").as_bytes())
            .map_err(|error| Failure::internal(format!("{}: {error}", self.path.display())))
    }
}

/// The processes of a file that are still daemons of its folder. Other processes may have the numbers of those that ended.
pub(super) fn running(pids: &Path) -> Vec<String> {
    let folder = pids.parent().unwrap_or(Path::new("."));
    let is_daemon =
        |pid: &&str| configuration_of(pid).is_some_and(|config| config.starts_with(folder));
    let text = std::fs::read_to_string(pids).unwrap_or_default();
    text.split_whitespace().filter(is_daemon).map(str::to_owned).collect()
}

/// The absolute path of the configuration with which a process was started.
pub(super) fn configuration_of(pid: &str) -> Option<PathBuf> {
    if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip_while(|word| *word != b"--config");
    let config = Path::new(OsStr::from_bytes(words.nth(1)?));
    // Somebody may have started it with a path relative to where they were.
    Some(std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(config))
}

/// The command that stops the processes of a folder.
fn down(folder: &Path) -> String {
    format!("coalloc down {}", text::shell_word(&folder.display().to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

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
    fn a_daemon_of_another_machine_is_not_started_here() {
        let daemon = |name: &str, kind, address: &str, peers: &[(&str, &str)]| ConfiguredDaemon {
            post: Post {
                name: name.to_owned(),
                kind,
                address: address.to_owned(),
                metrics: None,
                web: None,
                config: PathBuf::new(),
                log: PathBuf::new(),
                identity: None,
                dialer: Dialer::plain_text(),
                may_stand_by: false,
            },
            peers: (peers.iter())
                .map(|(name, address)| PeerAddress {
                    name: (*name).to_owned(),
                    address: (*address).to_owned(),
                })
                .collect(),
        };
        // 192.0.2.0/24 is for examples: no machine has an address of it.
        let managers = [("crm-a", "127.0.0.1:7001"), ("crm-b", "192.0.2.7:7001")];
        let all = [
            daemon("crm-a", Kind::Crm, "127.0.0.1:7001", &[]),
            daemon("crm-b", Kind::Crm, "127.0.0.1:7002", &[]),
            daemon("grc", Kind::Grc, "127.0.0.1:7000", &managers),
        ];
        let refused = refuse_elsewhere(&all, &[]).unwrap_err().message;
        assert_eq!(
            refused,
            "crm-b runs on 192.0.2.7, which is not this machine\n\
             start what is of this machine: coalloc up --only crm-a --only grc"
        );
        assert!(refuse_elsewhere(&all, &["crm-b".to_owned()]).is_err());
        assert!(refuse_elsewhere(&all, &["crm-a".to_owned(), "grc".to_owned()]).is_ok());
        assert!(refuse_elsewhere(&all[..1], &[]).is_ok());
    }

    #[test]
    fn a_daemon_of_a_folder_is_known_by_its_configuration_also_by_a_relative_path() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().canonicalize().unwrap();
        for name in ["lab", "lab2"] {
            std::fs::create_dir(parent.join(name)).unwrap();
        }
        for config in ["lab/grc.yaml".to_owned(), format!("{}/lab/grc.yaml", parent.display())] {
            let mut process = std::process::Command::new("sh");
            process.args(["-c", "echo; read line; :", "sh", "--config", &config]);
            let (stdin, stdout) = (std::process::Stdio::piped(), std::process::Stdio::piped());
            let mut process =
                process.current_dir(&parent).stdin(stdin).stdout(stdout).spawn().unwrap();
            // Its words are those of the shell from here on.
            process.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let written = |folder: &str| {
                let pids = parent.join(folder).join(PIDS);
                std::fs::write(&pids, format!("1\n{}\nx\n", process.id())).unwrap();
                running(&pids)
            };
            let (own, other) = (written("lab"), written("lab2"));
            assert_eq!((own, other), (vec![process.id().to_string()], Vec::new()), "{config}");
            process.kill().unwrap();
            process.wait().unwrap();
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
