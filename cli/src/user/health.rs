//! `coalloc health`: checks whether daemons serve, for people, scripts, and the health checks of containers
//! that hold nothing but this program.
//!
//! For a coordinator it also reports when no resource manager accepts it, when bookings differ, when a resource manager
//! describes what is another's, how old the description of one is that does not answer, and what is owed to one that does not
//! answer or is not configured.
//!
//! For a resource manager it reports what is wrong with its equipment.
//!
//! It warns before certificates end: those of the daemons, the caller's own, and those of the resource managers as far as
//! the coordinator has seen them.
//!
//! A daemon that asks itself, as the probes of containers do, is asked only whether it serves: the rest is for operators, and
//! each denial would be a line in the daemon's log.
//!
//! Checking that a daemon's answers make sense (`coalloc topology` does that) and waiting are deliberately
//! not here.

use std::time::{Duration, SystemTime};

use clap::Args;
use coalloc_common::Time;
use coalloc_net::client::{Destination, Dialer};
use coalloc_net::identity::certificate::CertificateOwner;
use coalloc_net::status::is_standby;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use serde_json::{Value, json};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::kit::authority::time_of;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::expiry::Expiry;
use crate::kit::rpc::{self, GrcArgs, IdentityArgs};
use crate::kit::text;
use crate::kit::when::Length;
use crate::user::wording::owed::{denied_by_all, differing, outdated, overreaching, owed};

/// Default timeout for one address: a daemon answers in milliseconds.
const PATIENCE: &str = "2s";

/// Ask daemons whether they serve
///
/// Exit code 0: all daemons serve; 5: at least one does not. A coordinator still counts as serving when no
/// resource manager accepts it, when it has differences with one, when one describes sites or paths of
/// another, when one does not answer, or when it owes something to one that cannot be told; its line says so. So does the line of a
/// resource manager whose equipment is not as it should be, and of a daemon whose certificate is in the last third of its life.
/// Your own certificate then has a line, too. `coalloc doctor` has an exit code for what is wrong between daemons.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc health                                  the coordinator of COALLOC_GRC\n  \
    coalloc health 127.0.0.1:7101 127.0.0.1:7102    two resource managers\n  \
    coalloc health --listens 127.0.0.1:7000         a relay, which is asked for nothing")]
pub struct HealthArgs {
    /// host:port of a daemon [default: the coordinator]
    #[arg(value_name = "ADDR")]
    addresses: Vec<String>,
    /// Only check whether somebody listens there
    #[arg(long)]
    listens: bool,
    /// Timeout for the answer of each daemon
    #[arg(long, value_name = "LENGTH", default_value = PATIENCE)]
    patience: Length,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Print what each daemon answers as JSON
    #[arg(long)]
    json: bool,
}

/// What a daemon has answered.
struct DaemonHealth {
    address: String,
    /// It does what a daemon does that is well.
    is_well: bool,
    /// What it does, or what is wrong with it, in words.
    word: String,
    /// What is wrong although it serves.
    problems: Vec<String>,
}

impl DaemonHealth {
    fn line(&self, width: usize) -> String {
        let word = match &self.problems[..] {
            [] => self.word.clone(),
            problems => format!("{}, but {}", self.word, problems.join("; ")),
        };
        format!("{:width$}  {}\n", self.address, text::line(&word))
    }

    fn json(&self) -> Value {
        let Self { address, is_well, word, problems } = self;
        json!({"address": address, "well": is_well, "says": word, "problems": problems})
    }
}

/// Runs `coalloc health`.
///
/// # Errors
/// When an address is not valid.
pub async fn run(args: &HealthArgs) -> Result<Answer, Failure> {
    let coordinator = || vec![GrcArgs::default().address()];
    let addresses = if args.addresses.is_empty() { coordinator() } else { args.addresses.clone() };
    // Each process that shares a ledger has its own line.
    let addresses: Vec<String> =
        addresses.iter().flat_map(|all| all.split(',')).map(str::to_owned).collect();
    for address in &addresses {
        coalloc_net::client::check_address("ADDR", address)?;
    }
    // Whether somebody listens can be asked without being anybody.
    let dialer = if args.listens { Dialer::plain_text() } else { args.identity.dialer()? };
    let patience = args.patience.0.to_std();
    let width = addresses.iter().map(String::len).max().unwrap_or_default();
    let now = time_of(SystemTime::now());
    let mut all: Vec<DaemonHealth> = Vec::new();
    for address in &addresses {
        let destination = Destination::new("ADDR", address, None)?;
        let asked = async {
            match args.listens {
                true => listens(address).await.map(|()| "listens".to_owned()),
                false => serves(&dialer, &destination).await,
            }
        };
        let (is_well, word) = match tokio::time::timeout(patience, asked).await {
            Ok(Ok(good)) => (true, good),
            Ok(Err(problem)) => (false, problem),
            Err(_) => (false, format!("no answer within {}", seconds(patience))),
        };
        let mut problems = Vec::new();
        if word == "serving" {
            let shown = destination.shown.get();
            problems.extend(shown.as_ref().and_then(|shown| {
                ends_soon("its certificate", now, shown.not_before, shown.not_after)
            }));
            let own = dialer.identity().map(|store| store.identity());
            if own.is_none() || own != shown.map(|shown| shown.identity) {
                let troubles = tokio::time::timeout(patience, troubles(&dialer, address, now));
                problems.extend(troubles.await.unwrap_or_default());
                let equipment = tokio::time::timeout(patience, equipment(&dialer, address));
                problems.extend(equipment.await.unwrap_or_default());
            }
        }
        all.push(DaemonHealth { address: address.clone(), is_well, word, problems });
    }
    let own = dialer.identity().and_then(|store| {
        let CertificateOwner { identity, not_before, not_after, .. } = &store.current().owner;
        let warning = ends_soon("your certificate", now, *not_before, *not_after)?;
        Some((identity.clone(), warning))
    });
    let is_well = all.iter().all(|one| one.is_well);
    let exit = if is_well { Exit::Done } else { Exit::CallFailed };
    let text = if args.json {
        let daemons: Vec<Value> = all.iter().map(DaemonHealth::json).collect();
        let own = own.map(|(_, warning)| warning);
        text::json(&json!({"daemons": daemons, "ownCertificate": own}))?
    } else {
        let mut text: String = all.iter().map(|one| one.line(width)).collect();
        text.extend(own.map(|(identity, warning)| format!("{identity}  {warning}\n")));
        text
    };
    Ok(Answer { text, exit })
}

fn ends_soon(whose: &str, now: Time, not_before: Time, not_after: Time) -> Option<String> {
    Expiry::at(now, not_before, not_after).warning(whose)
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// Problems between a coordinator and its resource managers: they do not accept it, their bookings differ, one describes
/// what is another's, or they are owed something that they do not get.
///
/// Empty when all is well, or when the daemon is not a coordinator.
async fn troubles(dialer: &Dialer, address: &str, now: Time) -> Vec<String> {
    let Ok(mut client) = rpc::coordinator(dialer, address) else { return Vec::new() };
    let described = client.describe_federation(v1::DescribeFederationRequest {}).await;
    let Ok(response) = described.map(tonic::Response::into_inner) else { return Vec::new() };
    let all = denied_by_all(&response).into_iter().chain(differing(&response));
    let all = all.chain(overreaching(&response)).chain(owed(&response));
    all.chain(outdated(&response, now)).chain(certificates(&response, now)).collect()
}

/// Problems of the equipment behind a resource manager, as of the last look. Empty when there are none, and when the daemon is
/// no resource manager or does not tell the caller.
async fn equipment(dialer: &Dialer, address: &str) -> Vec<String> {
    let Ok(mut client) = rpc::resource_manager(dialer, address) else { return Vec::new() };
    let described = client.describe(v1::DescribeRequest {}).await;
    let report = described.ok().and_then(|response| response.into_inner().equipment);
    report.as_ref().map(of_equipment).unwrap_or_default()
}

fn of_equipment(report: &v1::EquipmentReport) -> Vec<String> {
    let v1::EquipmentReport { trouble, drift, orphans, intruders, unusable } = report;
    let down = (!trouble.is_empty()).then(|| format!("its equipment is out of reach: {trouble}"));
    let all = |what: &str, texts: &[String]| {
        (!texts.is_empty()).then(|| format!("{what}: {}", texts.join(", ")))
    };
    let lists = [
        all("not as it was left, and mended", drift),
        all("left over, and removed soon", orphans),
        all("of others, and left alone", intruders),
        all("out of use", unusable),
    ];
    down.into_iter().chain(lists.into_iter().flatten()).collect()
}

/// One sentence for each resource manager whose certificate is in the last third of its life, as far as the coordinator
/// has seen it.
fn certificates(
    response: &v1::DescribeFederationResponse,
    now: Time,
) -> impl Iterator<Item = String> {
    response.resource_managers.iter().filter_map(move |manager| {
        let life = manager.certificate.as_ref()?;
        let (from, until) =
            (text::time(life.not_before.as_ref())?, text::time(life.not_after.as_ref())?);
        ends_soon(&format!("the certificate of {}", manager.name), now, from, until)
    })
}

async fn listens(address: &str) -> Result<(), String> {
    let reached = tokio::net::TcpStream::connect(address).await;
    reached.map(drop).map_err(|error| format!("cannot be reached: {error}"))
}

/// What a daemon that is well does: it serves, or stands by.
async fn serves(dialer: &Dialer, destination: &Destination) -> Result<String, String> {
    let address = destination.address.as_str();
    // A refused connection gives a clearer message here than through gRPC.
    listens(address).await?;
    let answer =
        HealthClient::new(dialer.connect(destination)).check(HealthCheckRequest::default()).await;
    let answer = answer.map_err(|status| match rpc::no_connection(dialer, address, &status) {
        // The line begins with the address.
        Some(failure) => {
            let said = failure.message.strip_prefix(address).unwrap_or(&failure.message);
            said.trim_start_matches([':', ' ']).to_owned()
        }
        None => format!("does not answer: {}", rpc::cause_of(&status)),
    })?;
    match answer.get_ref().status() {
        ServingStatus::Serving => Ok("serving".to_owned()),
        status => match standby(dialer, destination).await {
            Some(words) => Ok(words),
            None => Err(status.as_str_name().to_lowercase().replace('_', " ")),
        },
    }
}

/// What a process says that stands by; `None` if it is another kind of daemon, or does not answer.
async fn standby(dialer: &Dialer, destination: &Destination) -> Option<String> {
    let mut client = CoordinatorClient::new(dialer.connect(destination));
    let refused = client.describe_federation(v1::DescribeFederationRequest {}).await.err();
    let coordinator = refused.filter(is_standby);
    let refused = match coordinator {
        Some(status) => Some(status),
        None => {
            let mut client = ResourceManagerClient::new(dialer.connect(destination));
            client.describe(v1::DescribeRequest {}).await.err().filter(is_standby)
        }
    };
    Some(refused?.message().to_owned())
}

#[cfg(test)]
mod tests {
    use coalloc_net::identity::settings::Access;

    use super::*;

    fn args(addresses: &[&str], listens: bool) -> HealthArgs {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        let identity = IdentityArgs::default();
        let patience = PATIENCE.parse().unwrap();
        HealthArgs { addresses, listens, patience, identity, json: false }
    }

    #[test]
    fn what_is_wrong_with_equipment_is_said_by_kind() {
        assert!(of_equipment(&v1::EquipmentReport::default()).is_empty());
        let report = v1::EquipmentReport {
            trouble: "no controller".into(),
            unusable: vec!["the node n3 is down".into(), "the node n4 is down".into()],
            ..v1::EquipmentReport::default()
        };
        let said = of_equipment(&report);
        let expected = [
            "its equipment is out of reach: no controller",
            "out of use: the node n3 is down, the node n4 is down",
        ];
        assert_eq!(said, expected);
    }

    async fn free_address() -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    }

    #[tokio::test]
    async fn each_address_has_its_line_and_one_that_is_down_is_the_exit_code() {
        let listener = coalloc_net::server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let routes = tonic::service::Routes::default();
        let server = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            let room = tokio::sync::watch::channel(coalloc_common::DiskSpace::Enough).1;
            coalloc_net::server::serve(listener, Access::plain_text(), routes, &[], room, stop)
                .await
        });
        let answer = run(&args(&[&address], false)).await.unwrap();
        assert_eq!((answer.exit, answer.text), (Exit::Done, format!("{address}  serving\n")));
        let free = free_address().await;
        let answer = run(&args(&[&address, &free], false)).await.unwrap();
        assert_eq!(answer.exit, Exit::CallFailed);
        let lines: Vec<&str> = answer.text.lines().collect();
        assert!(lines[0].ends_with("  serving"), "{}", answer.text);
        assert!(lines[1].contains("cannot be reached: "), "{}", answer.text);
        let answer = run(&HealthArgs { json: true, ..args(&[&address, &free], false) }).await;
        let json: Value = serde_json::from_str(&answer.unwrap().text).unwrap();
        assert_eq!(json["daemons"][0]["says"], "serving");
        assert_eq!(
            (&json["daemons"][0]["well"], &json["daemons"][1]["well"]),
            (&json!(true), &json!(false))
        );
        drop(stop);
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn who_only_listens_does_not_serve() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = run(&args(&[&address], true)).await.unwrap();
        assert_eq!((answer.exit, answer.text), (Exit::Done, format!("{address}  listens\n")));
        let answer = run(&args(&[&address], false)).await.unwrap();
        assert_eq!(answer.exit, Exit::CallFailed, "{}", answer.text);
        let failure = run(&args(&["nowhere"], false)).await.unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        assert!(failure.message.contains("ADDR"), "{failure}");
    }
}
