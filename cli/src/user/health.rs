//! `coalloc health`: checks whether daemons serve, for people, scripts, and the health checks of containers
//! that hold nothing but this program.
//!
//! For a coordinator it also reports when no resource manager accepts it, when bookings differ, when a resource manager
//! describes what is another's, and what is owed to a resource manager that does not answer or is not configured.
//!
//! Checking that a daemon's answers make sense (`coalloc topology` does that) and waiting are deliberately
//! not here.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use coalloc_net::client::Dialer;
use coalloc_proto::v1;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs, IdentityArgs};
use crate::kit::when::Length;
use crate::user::wording::owed::{denied_by_all, differing, overreaching, owed};

/// Default timeout for one address: a daemon answers in milliseconds.
const PATIENCE: &str = "2s";

/// Ask daemons whether they serve
///
/// Exit code 0: all daemons serve; 5: at least one does not. A coordinator still counts as serving when no
/// resource manager accepts it, when it has differences with one, when one describes sites or paths of
/// another, or when it owes something to one that cannot be told; its line says so.
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
    #[arg(long, value_name = "TIME", default_value = PATIENCE)]
    patience: Length,
    #[command(flatten)]
    identity: IdentityArgs,
}

/// Runs `coalloc health`.
///
/// # Errors
/// When an address is not valid.
pub async fn run(args: &HealthArgs) -> Result<Answer, Failure> {
    let coordinator = || vec![GrcArgs::default().address()];
    let addresses = if args.addresses.is_empty() { coordinator() } else { args.addresses.clone() };
    for address in &addresses {
        coalloc_net::client::check_address("ADDR", address)?;
    }
    // Whether somebody listens can be asked without being anybody.
    let dialer = if args.listens { Dialer::plain_text() } else { args.identity.dialer()? };
    let patience = args.patience.0.to_std();
    let width = addresses.iter().map(String::len).max().unwrap_or_default();
    let (mut text, mut exit) = (String::new(), Exit::Done);
    for address in &addresses {
        let asked = async {
            match args.listens {
                true => listens(address).await.map(|()| "listens".to_owned()),
                false => serves(&dialer, address).await.map(|()| "serving".to_owned()),
            }
        };
        let mut word = match tokio::time::timeout(patience, asked).await {
            Ok(Ok(good)) => good,
            Ok(Err(problem)) => {
                exit = Exit::CallFailed;
                problem
            }
            Err(_) => {
                exit = Exit::CallFailed;
                format!("no answer within {}", seconds(patience))
            }
        };
        if word == "serving"
            && let Ok(Some(troubles)) =
                tokio::time::timeout(patience, troubles(&dialer, address)).await
        {
            word = format!("serving, but {troubles}");
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{address:width$}  {word}");
    }
    Ok(Answer { text, exit })
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// Problems between a coordinator and its resource managers: they do not accept it, their bookings differ, one describes
/// what is another's, or they are owed something that they do not get.
///
/// Returns `None` when all is well, or when the daemon is not a coordinator.
async fn troubles(dialer: &Dialer, address: &str) -> Option<String> {
    let mut client = rpc::coordinator(dialer, address).ok()?;
    let described = client.describe_federation(v1::DescribeFederationRequest {}).await.ok()?;
    let response = described.get_ref();
    let all = denied_by_all(response).into_iter().chain(differing(response));
    let all: Vec<String> = all.chain(overreaching(response)).chain(owed(response)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

async fn listens(address: &str) -> Result<(), String> {
    let reached = tokio::net::TcpStream::connect(address).await;
    reached.map(drop).map_err(|error| format!("cannot be reached: {error}"))
}

async fn serves(dialer: &Dialer, address: &str) -> Result<(), String> {
    // A refused connection gives a clearer message here than through gRPC.
    listens(address).await?;
    let channel = dialer.channel("ADDR", address).map_err(|error| error.to_string())?;
    let answer = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    let answer = answer.map_err(|status| match rpc::no_connection(dialer, address, &status) {
        Some(failure) => failure.message,
        None => format!("does not answer: {}", rpc::cause_of(&status)),
    })?;
    match answer.get_ref().status() {
        ServingStatus::Serving => Ok(()),
        status => Err(status.as_str_name().to_lowercase().replace('_', " ")),
    }
}

#[cfg(test)]
mod tests {
    use coalloc_net::identity::settings::Access;

    use super::*;

    fn args(addresses: &[&str], listens: bool) -> HealthArgs {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        let identity = IdentityArgs::default();
        HealthArgs { addresses, listens, patience: PATIENCE.parse().unwrap(), identity }
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
