//! `coalloc kubernetes`: turns a federation file into manifests for Kubernetes, with the keys of its daemons.
//!
//! Every daemon is a StatefulSet of one pod with a volume for its ledger. Daemons reach one another by the names of their
//! Services, and a NetworkPolicy lets nobody else in. In order: [`flags`] reads the words of the command line;
//! [`Plan::of`] gives every daemon its service and port; [`files`] writes the manifests with [`manifest`], and
//! [`network`] the rules between pods. Then certificates are made or renewed, and [`secrets`] puts them into Secrets.
//! `deploy/kubernetes` is the output for `docs/examples/small-federation.yaml`, without keys, and a test checks that it
//! is.
//!
//! Left out: talking to a cluster (`kubectl apply -k` does that), the image (`deploy/compose/build`), coordinators that
//! share a ledger, and trees of coordinators.

mod flags;
mod manifest;
mod network;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use coalloc_common::TrustDomain;
use coalloc_proto::v1;

use crate::kit::certificates::{GRID, trust_domain};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;
use crate::testbed::containers::identities::{self, PlannedIdentity};
use crate::testbed::containers::{self, GRC_PORT, Manager, OPERATOR, ServiceNames, slug};
use crate::testbed::local::layout::GRC;
use crate::user::offline::Federation;
use crate::user::serve::Kind;
use flags::{ImageName, Namespace, VolumeSize};

/// Longest name of a service. A pod of a StatefulSet has a label of up to 63 characters, and Kubernetes appends up to 11
/// to the name of the StatefulSet in it.
const SERVICE_LEN_MAX: usize = 52;
/// Most bytes in a ConfigMap; more are refused by Kubernetes.
const CONFIG_BYTES_MAX: usize = 1 << 20;
/// How long the certificates last. Pods get new ones only when somebody runs the command again, so this is longer than for a
/// testbed that renews them at each start.
const LIFETIME: Duration = Duration::from_secs(90 * 86_400);
/// Names that every federation uses itself: its coordinator, the folder of the operator's identity, and the objects that
/// belong to all daemons.
const TAKEN: [&str; 3] = [GRC, OPERATOR, ALL];
/// The name of objects that belong to all daemons.
const ALL: &str = "coalloc";
/// The line between two objects of a file.
const BETWEEN: &str = "---\n";
/// The files that are not of one daemon.
const NAMESPACE_FILE: &str = "namespace.yaml";
const NETWORK_FILE: &str = "network.yaml";
const EVICTIONS_FILE: &str = "evictions.yaml";
const SECRETS_FILE: &str = "secrets.yaml";
const LIST_FILE: &str = "kustomization.yaml";

/// Write manifests of a federation for Kubernetes, and make or renew the keys of its daemons
///
/// Each daemon becomes a StatefulSet of one pod, with a volume for its ledger. Certification authorities and identities
/// are kept in the folder, for its owner alone; secrets.yaml is made of them. Run the command again to renew
/// certificates: none is made while all of them have a third of their 90 days left.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc kubernetes --federation my.yaml --out cluster     manifests and keys\n  \
    kubectl apply -k cluster                                  start the federation\n  \
    kubectl -n coalloc port-forward service/grc 7000          reach it from here\n  \
    COALLOC_IDENTITY=cluster/identities/operator coalloc topology")]
pub struct KubernetesArgs {
    /// The federation, a FederationFile as YAML or JSON
    #[arg(long, value_name = "FILE")]
    federation: PathBuf,
    /// Folder to write to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Namespace of the daemons
    #[arg(long, value_name = "NAME", default_value = "coalloc")]
    namespace: Namespace,
    /// Image of the daemons, as deploy/compose/build makes it
    #[arg(long, value_name = "IMAGE", default_value = "coalloc:local")]
    image: ImageName,
    /// Size of the volume for each ledger
    #[arg(long, value_name = "SIZE", default_value = "1Gi")]
    storage: VolumeSize,
    /// Overwrite files that exist already and have other content
    #[arg(long)]
    force: bool,
}

/// Runs `coalloc kubernetes`.
///
/// # Errors
/// When the federation is wrong, its names cannot be names of services, a file exists already with other content, or
/// files cannot be written.
pub fn run(args: &KubernetesArgs) -> Result<Answer, Failure> {
    run_at(args, SystemTime::now())
}

fn run_at(args: &KubernetesArgs, now: SystemTime) -> Result<Answer, Failure> {
    let file = Federation::read(&args.federation)?.file;
    let plan = Plan::of(&file, args)?;
    let files = files(&file, &plan)?;
    let folder = &args.out;
    check_unchanged(folder, &files, args.force)?;
    // Keys come first: what cannot be renewed leaves the manifests as they were.
    let planned = plan.identities()?;
    let is_new = identities::renew(folder, &planned, LIFETIME, now)?;
    for (name, text) in &files {
        let path = folder.join(name);
        std::fs::write(&path, text)
            .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
    }
    secrets::write(&plan, folder)?;
    if !file.taken.is_empty() {
        text::note(
            "`taken` in the file is only for planning offline; these daemons start with nothing \
             booked",
        );
    }
    let (out, count) = (text::shell_word(&folder.display().to_string()), files.len() + 1);
    let (managers, certificates) = (plan.managers.len(), planned.len());
    let kept = match is_new {
        true => format!("{certificates} certificates made; they last 90 days"),
        false => format!("the certificates of {certificates} identities last"),
    };
    Ok(Answer::done(format!(
        "{count} manifests in {out}: {managers} resource managers and a coordinator; {kept}\n  \
         start it, or bring in new keys  kubectl apply -k {out}\n  \
         reach the coordinator           kubectl -n {namespace} port-forward service/{GRC} {GRC_PORT}\n  \
         operator's identity             {out}/identities/{OPERATOR}\n",
        namespace = plan.namespace,
    )))
}

/// Refuses to write over a file with other content, unless `force` is set.
fn check_unchanged(
    folder: &Path,
    files: &BTreeMap<String, String>,
    force: bool,
) -> Result<(), Failure> {
    let differs = |(name, text): &(&String, &String)| {
        let path = folder.join(name);
        path.exists() && std::fs::read_to_string(path).ok().as_ref() != Some(*text)
    };
    match files.iter().find(differs) {
        Some((name, _)) if !force => {
            let path = folder.join(name);
            let text = format!(
                "{} is there already with other content; --force writes over it",
                path.display()
            );
            Err(Failure::bad_input(text))
        }
        _ => Ok(()),
    }
}

/// Everything about the manifests that is not text yet.
#[derive(Debug)]
struct Plan {
    /// The federation's name.
    name: String,
    namespace: Namespace,
    image: ImageName,
    storage: VolumeSize,
    /// The resource managers, in the order of the federation file, networks first.
    managers: Vec<Manager>,
    /// The domains that every daemon believes.
    trusted: BTreeSet<TrustDomain>,
}

impl Plan {
    fn of(file: &v1::FederationFile, args: &KubernetesArgs) -> Result<Self, Failure> {
        let managers = containers::managers(file, service)?;
        let names = managers.iter().map(|one| (one.service.clone(), one.name.as_str()));
        let rules =
            ServiceNames { whole: "the federation", taken: &TAKEN, len_max: SERVICE_LEN_MAX };
        rules.check(names)?;
        let domains = managers.iter().map(|one| one.domain.as_str()).chain([GRID]);
        let trusted = domains.map(trust_domain).collect::<Result<_, _>>()?;
        let KubernetesArgs { namespace, image, storage, .. } = args.clone();
        Ok(Self { name: file.name.clone(), namespace, image, storage, managers, trusted })
    }

    /// The pods, the coordinator's first.
    fn pods(&self) -> impl Iterator<Item = Pod<'_>> {
        let coordinator = Pod { service: GRC, kind: Kind::Grc, port: GRC_PORT };
        let managers = self.managers.iter();
        let managers =
            managers.map(|one| Pod { service: &one.service, kind: one.kind, port: one.port });
        std::iter::once(coordinator).chain(managers)
    }

    /// The identities of the daemons and of the operator. A Service has a short name in its namespace, and longer ones
    /// elsewhere.
    fn identities(&self) -> Result<BTreeMap<String, PlannedIdentity>, Failure> {
        let hosts = |service: &str| {
            let namespace = &self.namespace;
            vec![
                service.to_owned(),
                format!("{service}.{namespace}.svc"),
                format!("{service}.{namespace}.svc.cluster.local"),
            ]
        };
        containers::planned_identities(&self.managers, hosts(GRC), |one| hosts(&one.service))
    }
}

/// One daemon as a pod.
#[derive(Debug, Clone, Copy)]
struct Pod<'a> {
    /// The name of its StatefulSet and Service, and so its host name.
    service: &'a str,
    kind: Kind,
    port: u16,
}

/// The name in a form that a Service can have: a label of a host name, in lower case, that begins with a letter.
fn service(name: &str) -> String {
    let text = slug(name).to_lowercase();
    if text.starts_with(|c: char| c.is_ascii_digit()) { format!("rm-{text}") } else { text }
}

/// Every manifest but the Secrets, by its name in the folder.
fn files(file: &v1::FederationFile, plan: &Plan) -> Result<BTreeMap<String, String>, Failure> {
    let coordinator = v1::GrcFile {
        // What a testbed allows its load programs is no default for people.
        quotas: None,
        ..containers::coordinator_config(&plan.managers, |one| one.service.clone())?
    };
    let managers = containers::manager_configs(file, &plan.managers, |_| GRC.to_owned())?;
    let configs = std::iter::once(text::json(&coordinator)?).chain(managers);
    let mut files = BTreeMap::from([
        (NAMESPACE_FILE.to_owned(), manifest::namespace(plan)),
        (NETWORK_FILE.to_owned(), network::shared(plan)),
        (EVICTIONS_FILE.to_owned(), manifest::evictions(plan)),
    ]);
    for (pod, config) in plan.pods().zip(configs) {
        if config.len() > CONFIG_BYTES_MAX {
            let text = format!(
                "the configuration of {} has {} bytes; allowed: up to {CONFIG_BYTES_MAX} bytes in a ConfigMap; \
                 divide its inventory among several resource managers",
                pod.service,
                config.len()
            );
            return Err(Failure::bad_input(text));
        }
        let objects = [
            manifest::config_map(plan, pod, &config),
            manifest::service(plan, pod),
            manifest::stateful_set(plan, pod, &config),
            network::of(plan, pod),
        ];
        let text = manifest::comment(plan, pod) + &objects.join(BETWEEN);
        files.insert(file_name(pod.service), text);
    }
    files.insert(LIST_FILE.to_owned(), manifest::list(plan));
    Ok(files)
}

/// The file of a daemon.
fn file_name(service: &str) -> String {
    format!("daemon-{service}.yaml")
}

#[cfg(test)]
mod tests;
