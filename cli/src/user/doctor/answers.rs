//! What a daemon answers to `coalloc doctor`, by calls that exist for others, too.
//!
//! The calls of one daemon come one after the other and share its patience, so one that is silent costs it once. The first call
//! makes the connection; the second one reads the clock, so that its time is that of one message to and fro.

use std::time::{Duration, SystemTime};

use coalloc_net::client::{Destination, Dialer};
use coalloc_net::disk_space::HOLDS;
use coalloc_net::identity::certificate::CertificateOwner;
use coalloc_net::status::is_standby;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::ledgers_client::LedgersClient;
use coalloc_proto::v1::resolver_client::ResolverClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use prost::Message as _;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Response, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::kit::rpc;

/// What a daemon is in the federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DaemonRole {
    /// A coordinator.
    Coordinator,
    /// An NRM or CRM.
    Manager,
}

/// Where a daemon is, and as whom it is asked.
#[derive(Debug, Clone)]
pub(super) struct Contact {
    pub(super) role: DaemonRole,
    /// host:port.
    pub(super) address: String,
    /// As whom.
    pub(super) dialer: Dialer,
}

/// How far a daemon's clock is ahead of this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockOffset {
    /// In microseconds; negative: behind.
    pub(super) ahead_us: i64,
    /// What it may be wrong by: half of the time that the call took.
    pub(super) within_us: i64,
}

/// What a daemon has answered. What is `None` was not asked, or not answered.
#[derive(Debug, Clone, Default)]
pub(super) struct DaemonAnswers {
    /// `serving`, or the words of one that stands by; or why it does not serve.
    pub(super) serves: Option<Result<String, String>>,
    /// Whether it runs, but one end does not believe the other.
    pub(super) is_disbelief: bool,
    /// Whether it takes anything new to hold; not when its disk is nearly full.
    pub(super) takes_holds: Option<bool>,
    /// Its clock, or why it cannot be read.
    pub(super) clock: Option<Result<ClockOffset, String>>,
    /// The certificate that it has shown.
    pub(super) certificate: Option<CertificateOwner>,
    /// What a resource manager says of itself.
    pub(super) description: Option<Result<v1::DescribeResponse, String>>,
    /// What a coordinator says of its federation.
    pub(super) federation: Option<Result<v1::DescribeFederationResponse, String>>,
    /// What a coordinator plans tasks on. One in mode central keeps no picture.
    pub(super) picture: Option<v1::ReadPictureResponse>,
    /// When a coordinator last compared its bookings with each resource manager, or why it is not told.
    pub(super) comparisons: Option<Result<v1::ListDifferencesResponse, String>>,
}

/// A call until a moment: what the answer says, or why there is none.
async fn until<T>(
    end: Instant,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded("no answer in time");
    timeout_at(end, call).await.map_err(late)?.map(Response::into_inner)
}

/// Asks a daemon everything.
pub(super) async fn ask(contact: &Contact, patience: Duration) -> DaemonAnswers {
    let Contact { role, address, dialer } = contact;
    let end = Instant::now() + patience;
    let mut said = DaemonAnswers::default();
    let to = match Destination::new("ADDR", address, None) {
        Ok(to) => to,
        Err(error) => return DaemonAnswers { serves: Some(Err(error.to_string())), ..said },
    };
    // A refused connection gives a clearer message here than through gRPC.
    match timeout_at(end, tokio::net::TcpStream::connect(address)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            return DaemonAnswers { serves: Some(Err(format!("{address}: {error}"))), ..said };
        }
        Err(_) => return DaemonAnswers { serves: Some(Err(silent(address, patience))), ..said },
    }
    let channel = dialer.connect(&to);
    let mut health = HealthClient::new(channel.clone());
    let serving = until(end, health.check(HealthCheckRequest::default())).await;
    said.certificate = to.shown.get();
    said.serves = Some(match serving {
        Ok(answer) if answer.status() == ServingStatus::Serving => Ok("serving".to_owned()),
        Ok(_) => stands_by(*role, &channel, end).await,
        Err(status) if status.code() == Code::DeadlineExceeded => Err(silent(address, patience)),
        Err(status) => {
            said.is_disbelief = rpc::is_disbelief(dialer, address, &status);
            Err(match rpc::no_connection(dialer, address, &status) {
                Some(failure) => failure.message,
                None => format!("{address}: {}", rpc::cause_of(&status)),
            })
        }
    });
    if !matches!(&said.serves, Some(Ok(words)) if words == "serving") {
        return said;
    }
    said.clock = Some(clock(&mut LedgersClient::new(channel.clone()), end).await);
    let holds = HealthCheckRequest { service: HOLDS.to_owned() };
    let holds = until(end, health.check(holds)).await;
    said.takes_holds = holds.ok().map(|answer| answer.status() == ServingStatus::Serving);
    let why = |status: Status| rpc::cause_of(&status);
    match role {
        DaemonRole::Manager => {
            let mut client = ResourceManagerClient::new(channel)
                .max_decoding_message_size(coalloc_common::limits::ANSWER_MAX_BYTES);
            let described = until(end, client.describe(v1::DescribeRequest {})).await;
            said.description = Some(described.map_err(why));
        }
        DaemonRole::Coordinator => {
            let mut client = CoordinatorClient::new(channel)
                .max_decoding_message_size(coalloc_common::limits::ANSWER_MAX_BYTES);
            let federation = client.describe_federation(v1::DescribeFederationRequest {});
            said.federation = Some(until(end, federation).await.map_err(why));
            let picture = v1::ReadPictureRequest {
                bandwidth_bps: 1,
                cpus: 1,
                from: None,
                slot: Some(coalloc_proto::Duration { seconds: 1, nanos: 0 }),
                slots: 1,
            };
            said.picture = until(end, client.read_picture(picture)).await.ok();
            let differences = client.list_differences(v1::ListDifferencesRequest::default());
            said.comparisons = Some(until(end, differences).await.map_err(why));
        }
    }
    said
}

fn silent(address: &str, patience: Duration) -> String {
    format!("{address}: no answer within {} s", patience.as_secs_f64())
}

/// What a process says that does not serve: that it stands by, or nothing of use.
async fn stands_by(
    role: DaemonRole,
    channel: &tonic::transport::Channel,
    end: Instant,
) -> Result<String, String> {
    let refused = match role {
        DaemonRole::Coordinator => {
            let mut client = CoordinatorClient::new(channel.clone());
            let call = client.describe_federation(v1::DescribeFederationRequest {});
            until(end, call).await.err()
        }
        DaemonRole::Manager => {
            let mut client = ResourceManagerClient::new(channel.clone());
            until(end, client.describe(v1::DescribeRequest {})).await.err()
        }
    };
    match refused.filter(is_standby) {
        Some(status) => Ok(status.message().to_owned()),
        None => Err("it runs, but does not serve".to_owned()),
    }
}

/// Reads a daemon's clock from the tip that it signs.
async fn clock(
    client: &mut LedgersClient<tonic::transport::Channel>,
    end: Instant,
) -> Result<ClockOffset, String> {
    let (before, began) = (wall_us(), std::time::Instant::now());
    let answer = until(end, client.sign_tip(v1::SignTipRequest::default())).await;
    let took_us = i64::try_from(began.elapsed().as_micros()).unwrap_or(i64::MAX);
    let tip = answer.map_err(|status| rpc::cause_of(&status))?.tip.unwrap_or_default();
    let statement = v1::TipStatement::decode(tip.statement.as_slice());
    let signed_us = statement.map_err(|error| format!("its answer: {error}"))?.signed_us;
    Ok(offset(before, took_us, signed_us))
}

/// The offset of a clock that was read at some moment of a call.
pub(super) fn offset(before_us: i64, took_us: i64, read_us: i64) -> ClockOffset {
    let half = took_us / 2;
    let ahead_us = read_us.saturating_sub(before_us.saturating_add(half));
    ClockOffset { ahead_us, within_us: half + 1 }
}

fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A call that a resource manager of this machine makes to one of its coordinators when a hold has waited too long.
#[derive(Debug, Clone)]
pub(super) struct ManagerCall {
    pub(super) manager: String,
    pub(super) coordinator: String,
    /// As the resource manager itself.
    pub(super) dialer: Dialer,
    pub(super) to: Destination,
    /// Whether the coordinator let it in, or why not.
    pub(super) outcome: Result<(), String>,
}

impl ManagerCall {
    /// Makes the call, about a transaction that no ledger ever opened: the coordinator looks it up and says so.
    pub(super) async fn made(self, patience: Duration) -> Self {
        let mut client = ResolverClient::new(self.dialer.connect(&self.to));
        let request = v1::ResolveRequest {
            transaction: format!("{}-00000000-1/1", self.coordinator),
            resource_manager: self.manager.clone(),
        };
        let answer = until(Instant::now() + patience, client.resolve(request)).await;
        let outcome = match answer {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::NotFound => Ok(()),
            Err(status) => Err(rpc::cause_of(&status)),
        };
        Self { outcome, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_call() {
        let read = offset(1_000_000, 2_000, 1_501_000);
        assert_eq!(read, ClockOffset { ahead_us: 500_000, within_us: 1_001 });
        assert_eq!(offset(1_000_000, 2_000, 901_000).ahead_us, -100_000);
    }

    #[tokio::test]
    async fn who_does_not_listen_is_told_with_its_address() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let (role, dialer) = (DaemonRole::Manager, Dialer::plain_text());
        let contact = Contact { role, address: address.clone(), dialer };
        let said = ask(&contact, Duration::from_secs(20)).await;
        let problem = said.serves.unwrap().unwrap_err();
        assert!(problem.contains(&address) && problem.contains("refused"), "{problem}");
        assert!(said.clock.is_none() && said.description.is_none());
    }
}
