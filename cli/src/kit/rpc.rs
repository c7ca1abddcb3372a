//! Calls to a coordinator and to resource managers, and what a failed call means to the user.

use std::time::Duration;

use coalloc_common::limits;
use coalloc_net::status::{Effect, effect};
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_proto::v1::workflows_client::WorkflowsClient;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::kit::exit::{Exit, Failure};

/// The coordinator's address when neither a flag nor the environment gives one.
const GRC_DEFAULT: &str = "127.0.0.1:7000";
/// Timeout for a connection, after which we say that nobody listens there.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// A client of a coordinator.
pub type Coordinator = CoordinatorClient<Channel>;
/// A client of a resource manager.
pub type ResourceManager = ResourceManagerClient<Channel>;

/// A client of a coordinator for workflows.
pub type Workflows = WorkflowsClient<Channel>;

/// The coordinator to call.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GrcArgs {
    /// The coordinator's host:port [default: $COALLOC_GRC, or 127.0.0.1:7000]
    #[arg(long, value_name = "ADDR")]
    pub grc: Option<String>,
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
    pub async fn connect(&self) -> Result<CoordinatorClient<Channel>, Failure> {
        let address = self.address();
        let client = coordinator(&address)?;
        let reached = tokio::net::TcpStream::connect(address.as_str());
        let problem = match tokio::time::timeout(CONNECT_PATIENCE, reached).await {
            Ok(Ok(_)) => {
                check_is_coordinator(&address).await?;
                return Ok(client);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT_PATIENCE.as_secs()),
        };
        let hint = "start one with `coalloc serve grc` or `coalloc demo --keep`, or say where one \
                    is with --grc ADDR or COALLOC_GRC";
        let message = format!("no coordinator at {address}: {problem}\n{hint}");
        Err(Failure::new(Exit::CallFailed, message))
    }
}

impl GrcArgs {
    /// A client for workflows, once the address is known to be that of a coordinator.
    ///
    /// # Errors
    /// As [`GrcArgs::connect`].
    pub async fn connect_workflows(&self) -> Result<Workflows, Failure> {
        self.connect().await?;
        workflows(&self.address())
    }
}

/// Checks that the server at an address is a coordinator.
///
/// If that cannot be determined, the check passes and the call itself has to fail.
///
/// # Errors
/// When a resource manager answers at the address, with its name.
pub async fn check_is_coordinator(address: &str) -> Result<(), Failure> {
    let asked = async {
        let channel = coalloc_net::client::channel("--grc", address).ok()?;
        let service = "coalloc.v1.Coordinator".to_owned();
        let known = HealthClient::new(channel).check(HealthCheckRequest { service }).await;
        if known.is_ok() {
            return None;
        }
        let described = resource_manager(address).ok()?.describe(v1::DescribeRequest {}).await;
        Some(described.ok()?.into_inner()).filter(|said| said.coordinators_below.is_empty())
    };
    let Ok(Some(said)) = tokio::time::timeout(CONNECT_PATIENCE, asked).await else { return Ok(()) };
    let kind = if said.paths.is_empty() { "a CRM" } else { "an NRM" };
    let message = format!(
        "{address} is {}, {kind}, not a coordinator; say where the coordinator is with --grc ADDR \
         or COALLOC_GRC",
        said.name
    );
    Err(Failure::new(Exit::CallFailed, message))
}

/// A client of a coordinator; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn coordinator(address: &str) -> Result<CoordinatorClient<Channel>, Failure> {
    let client = CoordinatorClient::new(coalloc_net::client::channel("--grc", address)?);
    Ok(client
        .max_decoding_message_size(limits::ANSWER_MAX_BYTES)
        .max_encoding_message_size(limits::MESSAGE_MAX_BYTES))
}

/// A client of a coordinator for workflows; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn workflows(address: &str) -> Result<Workflows, Failure> {
    let client = WorkflowsClient::new(coalloc_net::client::channel("--grc", address)?);
    Ok(client
        .max_decoding_message_size(limits::ANSWER_MAX_BYTES)
        .max_encoding_message_size(limits::WORKFLOW_MESSAGE_MAX_BYTES))
}

/// A client of a resource manager; it connects on the first call.
///
/// # Errors
/// When the address is not host:port.
pub fn resource_manager(address: &str) -> Result<ResourceManagerClient<Channel>, Failure> {
    let client = ResourceManagerClient::new(coalloc_net::client::channel("address", address)?);
    Ok(client.max_decoding_message_size(limits::ANSWER_MAX_BYTES))
}

/// The meaning of a failed call that cannot have changed anything (it only reads, or was rejected).
#[must_use]
pub fn failure(status: &Status) -> Failure {
    let message = status.message();
    match status.code() {
        Code::InvalidArgument => Failure::bad_input(message),
        Code::AlreadyExists => Failure::bad_input(format!(
            "{message}\n(times relative to now, like now+2h, make the content different each time)"
        )),
        Code::NotFound => Failure::new(Exit::NotFound, message),
        Code::PermissionDenied => Failure::new(Exit::Refused, message),
        code => Failure::new(Exit::CallFailed, format!("the call failed: {code:?}: {message}")),
    }
}

/// The meaning of a failed call that changes something: after a lost answer, the outcome is unknown.
#[must_use]
pub fn failure_of_change(status: &Status, what_to_do: &str) -> Failure {
    match effect(status) {
        Effect::Rejected => failure(status),
        Effect::Unknown if status.code() == Code::ResourceExhausted => failure(status),
        Effect::Unknown => {
            let (code, message) = (status.code(), status.message());
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
    violations.into_iter().map(|one| (one.field, one.description)).collect()
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
    client: &mut CoordinatorClient<Channel>,
    mut request: v1::ListRequest,
) -> Result<Vec<v1::Reservation>, Status> {
    let mut reservations = Vec::new();
    loop {
        let page = client.list(request.clone()).await?.into_inner();
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
        let failure = GrcArgs { grc: Some(address.clone()) }.connect().await.unwrap_err();
        assert_eq!(failure.exit, Exit::CallFailed);
        assert!(failure.message.contains(&address) && failure.message.contains("COALLOC_GRC"));
    }
}
