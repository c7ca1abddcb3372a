//! Calls to a coordinator and to resource managers, and what a failed call means to the user.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coalloc_common::limits;
use coalloc_common::suggest::did_you_mean;
use coalloc_net::client::{Dialer, several};
use coalloc_net::identity::client::HandshakeError;
use coalloc_net::identity::store::IdentityStore;
use coalloc_net::needs;
use coalloc_net::status::{Effect, effect};
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::ledgers_client::LedgersClient;
use coalloc_proto::v1::logging_client::LoggingClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_proto::v1::workflows_client::WorkflowsClient;
use coalloc_protocol::capability::Capability;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::kit::exit::{Exit, Failure};
use crate::kit::leader_channel::LeaderChannel;
use crate::kit::text;

/// The coordinator's address when neither a flag nor the environment gives one.
const GRC_DEFAULT: &str = "127.0.0.1:7000";
/// Timeout for a connection, after which we say that nobody listens there.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// A client of a coordinator.
pub type Coordinator = CoordinatorClient<LeaderChannel>;
/// A client of a resource manager.
pub type ResourceManager = ResourceManagerClient<Channel>;

/// A client of a coordinator for workflows.
pub type Workflows = WorkflowsClient<LeaderChannel>;

/// Who calls.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct IdentityArgs {
    /// Folder with your identity: certificate.pem, key.pem, trust/ [default: $COALLOC_IDENTITY; without one, calls are
    /// in plain text]
    #[arg(long, value_name = "DIR")]
    pub identity: Option<PathBuf>,
}

impl IdentityArgs {
    /// Connects as whoever the flag or the environment names, or else in plain text.
    ///
    /// # Errors
    /// When the folder has no identity in force.
    pub fn dialer(&self) -> Result<Dialer, Failure> {
        let Some(folder) = self.folder() else { return Ok(Dialer::plain_text()) };
        dialer_of(&folder)
    }

    /// The folder that the flag or the environment names.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        let from_env = || std::env::var_os("COALLOC_IDENTITY").filter(|text| !text.is_empty());
        self.identity.clone().or_else(|| from_env().map(PathBuf::from))
    }
}

/// Connects as whoever owns the identity in a folder.
///
/// # Errors
/// When the folder has no identity in force.
pub fn dialer_of(folder: &Path) -> Result<Dialer, Failure> {
    let store = IdentityStore::open(folder);
    let needed = "needed: a folder with certificate.pem, key.pem and trust/, as `coalloc init` or `coalloc certs` writes it";
    let bad =
        |error| Failure::bad_input(format!("--identity {}: {error}\n{needed}", folder.display()));
    Ok(Dialer::with_identity(store.map_err(bad)?))
}

/// The coordinator to call, and who calls it.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GrcArgs {
    /// The coordinator's host:port, or those of all processes that share its ledger, with commas between [default:
    /// $COALLOC_GRC, or 127.0.0.1:7000]
    #[arg(long, value_name = "ADDR")]
    pub grc: Option<String>,
    #[command(flatten)]
    pub(crate) identity: IdentityArgs,
}

impl GrcArgs {
    /// The coordinator's address, from the flag, the environment or the default.
    #[must_use]
    pub fn address(&self) -> String {
        let from_env = || std::env::var("COALLOC_GRC").ok().filter(|text| !text.is_empty());
        self.grc.clone().or_else(from_env).unwrap_or_else(|| GRC_DEFAULT.to_owned())
    }

    /// A client of the coordinator, once the address is known to accept connections.
    ///
    /// # Errors
    /// When the address is not valid, nobody listens there, or a resource manager does.
    pub async fn connect(&self) -> Result<Coordinator, Failure> {
        let client = coordinator_at(&self.identity.dialer()?, &self.address()).await;
        client.map_err(|failure| match failure.message.strip_prefix("--grc: ") {
            Some(problem) if self.grc.is_none() => {
                Failure::new(failure.exit, format!("COALLOC_GRC: {problem}"))
            }
            _ => failure,
        })
    }

    /// The addresses of resource managers that are given by address or by name. The coordinator knows the names.
    ///
    /// # Errors
    /// When the coordinator knows no resource manager of a name, or cannot be asked.
    pub async fn manager_addresses(&self, given: &[String]) -> Result<Vec<String>, Failure> {
        if given.iter().all(|one| one.contains(':')) {
            return Ok(given.to_vec());
        }
        let mut client = self.connect().await?;
        let answer = client.describe_federation(v1::DescribeFederationRequest {}).await;
        let known = answer.map_err(|status| failure(&status))?.into_inner().resource_managers;
        let address = |one: &String| match known.iter().find(|manager| manager.name == *one) {
            _ if one.contains(':') => Ok(one.clone()),
            Some(manager) if manager.address.is_empty() => Err(Failure::bad_input(format!(
                "--rm {one}: the coordinator tells addresses to its operators and auditors only; write host:port"
            ))),
            Some(manager) => Ok(manager.address.clone()),
            None => {
                let names = known.iter().map(|manager| manager.name.as_str());
                let guess = did_you_mean(one, names.clone());
                let names: Vec<String> = names.map(str::to_owned).collect();
                Err(Failure::bad_input(format!(
                    "--rm: there is no resource manager {one:?}; allowed: host:port, or a name: {}{guess}",
                    text::enumerate(&names)
                )))
            }
        };
        given.iter().map(address).collect()
    }
}

/// A client of the coordinator at an address, once the address is known to accept connections.
///
/// # Errors
/// When the address is not valid, nobody listens there, or a resource manager does.
pub async fn coordinator_at(dialer: &Dialer, address: &str) -> Result<Coordinator, Failure> {
    let client = coordinator(dialer, address)?;
    if several(address) {
        // One of them leads, or will in a moment. The calls wait for it.
        return Ok(client);
    }
    let reached = tokio::net::TcpStream::connect(address);
    let problem = match tokio::time::timeout(CONNECT_PATIENCE, reached).await {
        Ok(Ok(_)) => {
            check_is_coordinator(dialer, address).await?;
            return Ok(client);
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", CONNECT_PATIENCE.as_secs()),
    };
    let hint = "start one with `coalloc up` or `coalloc demo --keep`, or say where one is with \
                --grc ADDR or COALLOC_GRC";
    let message = format!("no coordinator at {address}: {problem}\n{hint}");
    Err(Failure::new(Exit::CallFailed, message))
}

impl GrcArgs {
    /// A client for workflows, once the address is known to be that of a coordinator.
    ///
    /// # Errors
    /// As [`GrcArgs::connect`].
    pub async fn connect_workflows(&self) -> Result<Workflows, Failure> {
        self.connect().await?;
        workflows(&self.identity.dialer()?, &self.address())
    }
}

/// Checks that the server at an address is a coordinator.
///
/// If that cannot be determined, the check passes and the call itself has to fail.
///
/// # Errors
/// When a resource manager answers at the address, with its name; or when there is no connection because one end
/// speaks TLS and the other does not, or one end does not believe the other.
pub async fn check_is_coordinator(dialer: &Dialer, address: &str) -> Result<(), Failure> {
    let asked = async {
        let channel = dialer.channel("--grc", address).ok()?;
        let service = "coalloc.v1.Coordinator".to_owned();
        let known = HealthClient::new(channel).check(HealthCheckRequest { service }).await;
        let Err(status) = known else { return None };
        if let Some(failure) = no_connection(dialer, address, &status) {
            return Some(failure);
        }
        let described =
            resource_manager(dialer, address).ok()?.describe(v1::DescribeRequest {}).await;
        let who = match described.map(tonic::Response::into_inner) {
            Ok(said) if !said.coordinators_below.is_empty() => return None,
            Ok(said) if said.paths.is_empty() => format!("{}, a CRM", said.name),
            Ok(said) => format!("{}, an NRM", said.name),
            // Who it is, is not for everybody. But it has said that it serves no coordinator.
            Err(_) if status.code() == Code::NotFound => "a resource manager".to_owned(),
            Err(_) => return None,
        };
        let message = format!(
            "{address} is {who}, not a coordinator; say where the coordinator is with --grc ADDR or \
             COALLOC_GRC"
        );
        Some(Failure::new(Exit::CallFailed, message))
    };
    match tokio::time::timeout(CONNECT_PATIENCE, asked).await {
        Ok(Some(failure)) => Err(failure),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Why there is no connection to a daemon that listens, if a status says that there is none.
#[must_use]
pub fn no_connection(dialer: &Dialer, address: &str, status: &Status) -> Option<Failure> {
    // What a transport makes of bytes that it does not understand is not always the same.
    let is_broken = matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
    ) && status.get_details_error_info().is_none();
    let message = match (dialer.identity(), is_broken) {
        (None, true) => format!(
            "{address} does not answer in plain text; if it speaks TLS, say who you are with \
             --identity DIR or COALLOC_IDENTITY"
        ),
        (Some(_), true) => format!("{address}: {}", cause_of(status)),
        (_, false) => return None,
    };
    Some(Failure::new(Exit::CallFailed, message))
}

/// What a failed call says, with the reason why there was no connection, if that was it.
#[must_use]
pub fn cause_of(status: &Status) -> String {
    let said = || text::line(status.message()).into_owned();
    handshake_error(status).map_or_else(said, ToString::to_string)
}

/// Has a call failed because one end does not believe the other, or the caller has no identity where one is needed?
#[must_use]
pub fn is_disbelief(dialer: &Dialer, address: &str, status: &Status) -> bool {
    match handshake_error(status) {
        Some(HandshakeError::Refused { .. } | HandshakeError::Server(_)) => true,
        Some(_) => false,
        None => dialer.identity().is_none() && no_connection(dialer, address, status).is_some(),
    }
}

fn handshake_error(status: &Status) -> Option<&HandshakeError> {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(handshake) = error.downcast_ref::<HandshakeError>() {
            return Some(handshake);
        }
        source = error.source();
    }
    None
}

/// A client of a coordinator; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn coordinator(dialer: &Dialer, address: &str) -> Result<Coordinator, Failure> {
    let channel = LeaderChannel::new(dialer.channel("--grc", address)?, address);
    let client = CoordinatorClient::new(channel);
    Ok(client
        .max_decoding_message_size(limits::ANSWER_MAX_BYTES)
        .max_encoding_message_size(limits::MESSAGE_MAX_BYTES))
}

/// A client of a coordinator for workflows; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn workflows(dialer: &Dialer, address: &str) -> Result<Workflows, Failure> {
    let channel = LeaderChannel::new(dialer.channel("--grc", address)?, address);
    let client = WorkflowsClient::new(channel);
    Ok(client
        .max_decoding_message_size(limits::ANSWER_MAX_BYTES)
        .max_encoding_message_size(limits::WORKFLOW_MESSAGE_MAX_BYTES))
}

/// A client of a resource manager; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn resource_manager(
    dialer: &Dialer,
    address: &str,
) -> Result<ResourceManagerClient<Channel>, Failure> {
    let client = ResourceManagerClient::new(dialer.channel("address", address)?);
    Ok(client.max_decoding_message_size(limits::ANSWER_MAX_BYTES))
}

/// A client of any daemon for signed tips of its ledger; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn ledgers(dialer: &Dialer, address: &str) -> Result<LedgersClient<Channel>, Failure> {
    let client = LedgersClient::new(dialer.channel("address", address)?);
    Ok(client.max_decoding_message_size(limits::ANSWER_MAX_BYTES))
}

/// A client of any daemon for what it logs; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn logging(dialer: &Dialer, address: &str) -> Result<LoggingClient<Channel>, Failure> {
    Ok(LoggingClient::new(dialer.channel("ADDR", address)?))
}

/// The meaning of a failed call that cannot have changed anything (it only reads, or was rejected).
#[must_use]
pub fn failure(status: &Status) -> Failure {
    let message = text::line(status.message()).into_owned();
    match status.code() {
        Code::InvalidArgument => Failure::bad_input(message),
        Code::AlreadyExists => Failure::bad_input(format!(
            "{message}\n(times relative to now, like now+2h, make the content different each time)"
        )),
        Code::NotFound => Failure::new(Exit::NotFound, message + what_there_is(status)),
        Code::PermissionDenied | Code::Unauthenticated => Failure::new(
            Exit::Refused,
            message + "\nsay who you are with --identity DIR or COALLOC_IDENTITY",
        ),
        code => Failure::new(
            Exit::CallFailed,
            format!("the call failed: {code:?}: {}", cause_of(status)),
        ),
    }
}

/// How to see which things of the kind that was not found there are.
fn what_there_is(status: &Status) -> &'static str {
    let about = status.get_details_resource_info();
    match about.as_ref().map(|about| about.resource_type.as_str()) {
        Some("reservation" | "request") => {
            "\nwhat there is: coalloc list --all; the occurrences of a series: coalloc list --series ID"
        }
        Some("workflow") => "\nwhat there is: coalloc list --all",
        _ => "",
    }
}

/// The meaning of a failed call that changes something: after a lost answer, the outcome is unknown.
#[must_use]
pub fn failure_of_change(status: &Status, what_to_do: &str) -> Failure {
    match effect(status) {
        Effect::Rejected => failure(status),
        Effect::Unknown if status.code() == Code::ResourceExhausted => failure(status),
        Effect::Unknown => {
            let (code, message) = (status.code(), text::line(status.message()));
            let text = format!("the outcome is unknown: {code:?}: {message}\n{what_to_do}");
            Failure::new(Exit::Unfinished, text)
        }
    }
}

/// The fields that a server refused, each with the server's description; empty if it named none.
#[must_use]
pub fn violations(status: &Status) -> Vec<(String, String)> {
    if status.code() != Code::InvalidArgument {
        return Vec::new();
    }
    let details = status.get_details_bad_request();
    let violations = details.map(|details| details.field_violations).unwrap_or_default();
    let plain = |text: String| text::line(&text).into_owned();
    violations.into_iter().map(|one| (plain(one.field), plain(one.description))).collect()
}

/// Every booking of a resource manager that a listing selects, read page by page.
///
/// # Errors
/// The status of the call that failed.
pub async fn all_bookings(
    client: &mut ResourceManagerClient<Channel>,
    mut request: v1::ListBookingsRequest,
) -> Result<Vec<v1::Booking>, Status> {
    let mut bookings = Vec::new();
    loop {
        let page = client.list_bookings(request.clone()).await?.into_inner();
        bookings.extend(page.bookings);
        if page.next_page_token.is_empty() {
            return Ok(bookings);
        }
        request.page_token = page.next_page_token;
    }
}

/// Every reservation that a listing selects, read page by page.
///
/// # Errors
/// The status of the call that failed.
pub async fn all_reservations(
    client: &mut Coordinator,
    mut request: v1::ListRequest,
) -> Result<Vec<v1::Reservation>, Status> {
    let mut reservations = Vec::new();
    loop {
        let is_of_series = !request.series.is_empty();
        let needs = is_of_series.then_some(Capability::Series);
        let page = client.list(with_needs(request.clone(), needs)).await?.into_inner();
        reservations.extend(page.reservations);
        if page.next_page_token.is_empty() {
            return Ok(reservations);
        }
        request.page_token = page.next_page_token;
    }
}

/// A workflow with its whole plan, read page by page; of the plan's head the first page, as it is.
///
/// # Errors
/// The status of the call that failed.
pub async fn whole_workflow(
    client: &mut Workflows,
    id: &str,
) -> Result<v1::GetWorkflowResponse, Status> {
    let mut request = v1::GetWorkflowRequest {
        id: id.to_owned(),
        page_size: Some(limits::PAGE_MAX),
        page_token: String::new(),
    };
    let mut whole = client.get_workflow(request.clone()).await?.into_inner();
    while !whole.next_page_token.is_empty() {
        request.page_token = std::mem::take(&mut whole.next_page_token);
        let page = client.get_workflow(request.clone()).await?.into_inner();
        let more = page.workflow.and_then(|workflow| workflow.plan).unwrap_or_default();
        if let Some(plan) = whole.workflow.as_mut().and_then(|workflow| workflow.plan.as_mut()) {
            plan.activities.extend(more.activities);
            plan.transfers.extend(more.transfers);
            plan.channels.extend(more.channels);
            plan.segments.extend(more.segments);
        }
        whole.next_page_token = page.next_page_token;
    }
    Ok(whole)
}

/// A call whose receiver must know this, because an older one ignores a field of the message.
#[must_use]
pub fn with_needs<T>(
    message: T,
    needed: impl IntoIterator<Item = Capability>,
) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    needs::say(&needed.into_iter().collect(), request.metadata_mut());
    request
}

/// What a coordinator must know to reserve a request as it is meant: an older one would let a user in who is not to be let
/// in yet, and forget the series.
pub fn needs_of(request: &v1::CoAllocationRequest) -> impl Iterator<Item = Capability> + use<> {
    let all = [
        (request.manual_provision(), Capability::ManualProvision),
        (!request.series.is_empty(), Capability::Series),
    ];
    all.into_iter().filter_map(|(is_needed, needed)| is_needed.then_some(needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_used_for_other_content_is_explained_by_relative_times() {
        let status = Status::already_exists("r7 is another request");
        for failure in [failure(&status), failure_of_change(&status, "ask")] {
            assert!(failure.message.starts_with("r7 is another request\n"), "{failure}");
            assert!(failure.message.contains("relative to now"), "{failure}");
        }
    }

    #[test]
    fn a_failed_call_has_the_exit_code_of_its_meaning() {
        let cases = [
            (Code::InvalidArgument, Exit::BadInput, Exit::BadInput),
            (Code::AlreadyExists, Exit::BadInput, Exit::BadInput),
            (Code::NotFound, Exit::NotFound, Exit::NotFound),
            (Code::PermissionDenied, Exit::Refused, Exit::Refused),
            (Code::ResourceExhausted, Exit::CallFailed, Exit::CallFailed),
            (Code::Unavailable, Exit::CallFailed, Exit::Unfinished),
            (Code::Cancelled, Exit::CallFailed, Exit::Unfinished),
            (Code::DeadlineExceeded, Exit::CallFailed, Exit::Unfinished),
        ];
        for (code, reading, changing) in cases {
            let status = Status::new(code, "because");
            assert_eq!(failure(&status).exit, reading, "{code:?}");
            assert_eq!(failure_of_change(&status, "ask").exit, changing, "{code:?}");
        }
    }

    #[tokio::test]
    async fn nobody_listening_is_said_with_what_to_do() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let failure = GrcArgs { grc: Some(address.clone()), ..GrcArgs::default() }
            .connect()
            .await
            .unwrap_err();
        assert_eq!(failure.exit, Exit::CallFailed);
        assert!(failure.message.contains(&address) && failure.message.contains("COALLOC_GRC"));
    }
}
