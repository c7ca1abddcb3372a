//! `coalloc compose`: turns a federation file into a testbed of containers, for Docker's compose.
//!
//! Every domain gets its own network; the coordinator is in another network, the exchange. Each domain has
//! one gate (`coalloc relay`) that is in both networks. Traffic between domains passes through the gates,
//! and a domain is cut off there. In order: [`Plan::of`] gives every daemon its service, network and port;
//! [`files`] writes the configurations (with [`containers`]) and the files of [`yaml`].
//! `deploy/compose` is the output for the paper's federation, and a test checks that it is.
//!
//! Building the image and talking to Docker are deliberately not here (`deploy/compose/build`, `up`,
//! `down`, `cut` and `heal` do that), and neither are trees of coordinators.

mod certificates;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Failure};
use crate::kit::text;
use crate::testbed::containers::{self, Manager, OPERATOR, ServiceNames, slug};
use crate::testbed::local::layout::GRC;
use crate::user::offline::Federation;
use certificates::{CertificatesArgs, IDENTITIES};

/// Longest name of a service: the longest label that a host name may have between two dots.
const SERVICE_LEN_MAX: usize = 63;
/// Names of services that every testbed uses itself.
const TAKEN: [&str; 3] = [GRC, OPERATOR, "prometheus"];

/// Write a testbed of containers for a federation: compose.yaml, configurations, options
///
/// Each domain becomes a network. A gate joins it to the exchange network, where the coordinator is; at the
/// gate, the domain can be delayed or cut off. deploy/compose is what this command writes for the
/// environment of Takefusa 2010 (ELGL), together with scripts that build the image, start and remove a
/// testbed.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    deploy/compose/build                                      the image, once\n  \
    coalloc compose --federation my.yaml --out testbed        your own federation\n  \
    deploy/compose/up testbed                                 start it, and wait until it serves\n  \
    COALLOC_DELAY=20ms deploy/compose/up testbed              the same, with domains 20 ms away\n  \
    deploy/compose/down testbed                               remove it, its ledgers too")]
pub struct ComposeArgs {
    #[command(subcommand)]
    what: Option<ComposeKind>,
    /// The federation, a FederationFile as YAML or JSON [default: ELGL, as in `coalloc demo`]
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Folder to write to
    #[arg(long, value_name = "DIR", required = true)]
    out: Option<PathBuf>,
    /// Overwrite files that exist already
    #[arg(long)]
    force: bool,
}

/// What else can be done for a testbed.
#[derive(Debug, Clone, Subcommand)]
enum ComposeKind {
    Certificates(CertificatesArgs),
}

/// Runs `coalloc compose`.
///
/// # Errors
/// When the federation is wrong, its names cannot be names of containers, or a file exists already.
pub fn run(args: &ComposeArgs) -> Result<Answer, Failure> {
    if let Some(ComposeKind::Certificates(args)) = &args.what {
        return certificates::run(args);
    }
    // Without a subcommand, clap requires it.
    let folder = args.out.clone().unwrap_or_default();
    let file = match &args.federation {
        Some(path) => Federation::read(path)?.file,
        None => crate::testbed::local::elgl()?,
    };
    let plan = Plan::of(&file)?;
    let files = files(&file, &plan)?;
    let there = files.keys().map(|name| folder.join(name)).find(|path| path.exists());
    if let Some(path) = there.filter(|_| !args.force) {
        let text = format!("{} is there already; --force writes over it", path.display());
        return Err(Failure::bad_input(text));
    }
    for (name, text) in &files {
        let path = folder.join(name);
        let failed = |error| Failure::internal(format!("{}: {error}", path.display()));
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        std::fs::write(&path, text).map_err(failed)?;
    }
    if !file.taken.is_empty() {
        text::note(
            "`taken` in the file is only for planning offline; a testbed starts with nothing \
             booked",
        );
    }
    let (out, managers, domains) = (folder.display(), plan.managers.len(), plan.domains.len());
    Ok(Answer::done(format!(
        "{} files in {out}: {managers} resource managers in {domains} domains, {domains} gates and a \
         coordinator\n  start it   deploy/compose/up {out}\n  remove it  deploy/compose/down {out}\n  \
         options    {out}/.env\n",
        files.len()
    )))
}

/// The place of every daemon in the testbed.
#[derive(Debug)]
struct Plan {
    /// The federation's name, as the name of a Docker project.
    project: String,
    domains: Vec<Domain>,
    /// The resource managers, in the order of the federation file, networks first.
    managers: Vec<Manager>,
}

/// One administrative domain.
#[derive(Debug)]
struct Domain {
    /// The name in the federation.
    name: String,
    /// The name in a form that containers can have.
    slug: String,
}

impl Domain {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), slug: slug(name) }
    }

    /// The service of the domain's gate, which is the gate's host name on both sides.
    fn gate(&self) -> String {
        format!("gate-{}", self.slug)
    }

    fn network(&self) -> String {
        format!("domain-{}", self.slug)
    }

    /// The option that delays this domain only.
    fn delay(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("COALLOC_DELAY_{}", self.slug.chars().map(plain).collect::<String>())
    }
}

impl Plan {
    fn of(file: &v1::FederationFile) -> Result<Self, Failure> {
        let managers = containers::managers(file, slug)?;
        let names: BTreeSet<&str> = managers.iter().map(|one| one.domain.as_str()).collect();
        let domains = names.into_iter().map(Domain::new).collect();
        let project = format!("coalloc-{}", slug(&file.name).to_lowercase());
        let plan = Self { project, domains, managers };
        plan.check_names()?;
        Ok(plan)
    }

    fn check_names(&self) -> Result<(), Failure> {
        let gates = self.domains.iter().map(|domain| (domain.gate(), domain.name.as_str()));
        let managers = self.managers.iter();
        let managers = managers.map(|manager| (manager.service.clone(), manager.name.as_str()));
        let rules = ServiceNames { whole: "the testbed", taken: &TAKEN, len_max: SERVICE_LEN_MAX };
        rules.check(gates.chain(managers))
    }

    fn of_domain<'a>(&'a self, domain: &'a Domain) -> impl Iterator<Item = &'a Manager> {
        self.managers.iter().filter(move |manager| manager.domain == domain.name)
    }
}

/// Every file of the testbed, by its path in the folder.
fn files(file: &v1::FederationFile, plan: &Plan) -> Result<BTreeMap<String, String>, Failure> {
    let gate_of = |manager: &Manager| Domain::new(&manager.domain).gate();
    let mut files = BTreeMap::new();
    let texts = containers::manager_configs(file, &plan.managers, gate_of)?;
    for (manager, text) in plan.managers.iter().zip(texts) {
        files.insert(config_name(&manager.service), text);
    }
    let config = containers::coordinator_config(&plan.managers, gate_of)?;
    files.insert(config_name(GRC), text::json(&config)?);
    let hosts = |manager: &Manager| vec![manager.service.clone(), gate_of(manager)];
    let identities = containers::planned_identities(&plan.managers, vec![GRC.to_owned()], hosts)?;
    files.insert(IDENTITIES.to_owned(), text::json(&identities)?);
    files.insert("compose.yaml".to_owned(), yaml::compose(&file.name, plan));
    files.insert("prometheus.yml".to_owned(), yaml::prometheus(plan));
    files.insert(".env".to_owned(), yaml::options(plan));
    Ok(files)
}

fn config_name(service: &str) -> String {
    format!("config/{service}.json")
}

#[cfg(test)]
mod tests;
