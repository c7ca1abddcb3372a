//! GetDataPlane: what the equipment behind the resource managers has of one reservation. All of them are asked at once.
//!
//! Left out: what the equipment of a child coordinator's members has, which the child does not disclose.

use std::collections::BTreeMap;

use coalloc_common::{RmName, TransactionId, limits};
use coalloc_net::status;
use coalloc_net::traces::{Span, SpanKind};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Coordinator;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::availability::federation::RmClient;
use crate::calls::service::GrcService;

/// The full name of the RPC of a question at one resource manager.
const GET: &str = "coalloc.v1.ResourceManager/GetBooking";

impl GrcService {
    /// Asks the resource managers of a reservation. Whether the caller may see the reservation was checked before.
    pub(crate) async fn data_plane(&self, id: &str) -> Result<v1::GetDataPlaneResponse, Status> {
        let wanted = id.to_owned();
        let look = move |core: &Coordinator| {
            let found = core.find(&wanted)?;
            let rms = found.candidate.iter().flat_map(|candidate| candidate.segments.keys());
            Some((found.transaction.clone(), rms.cloned().collect::<Vec<RmName>>()))
        };
        let Some((transaction, rms)) = self.handle.read(look).await? else {
            // It may be a request that is still being planned, and has nothing anywhere.
            return match self.find(id).await? {
                Some(_) => Ok(v1::GetDataPlaneResponse::default()),
                None => Err(status::not_found("reservation", id)),
            };
        };
        let Some(transaction) = transaction else {
            return Ok(v1::GetDataPlaneResponse::default());
        };
        let mut answers = self.ask_all(&transaction, &rms).await;
        let mut found = v1::GetDataPlaneResponse::default();
        for rm in rms {
            match answers.remove(&rm) {
                Some(Ok(booking)) => {
                    found.data_plane.extend(
                        booking
                            .data_plane
                            .into_iter()
                            .map(|one| v1::DataPlane { resource_manager: rm.to_string(), ..one }),
                    );
                }
                // It has nothing of the reservation.
                Some(Err(problem)) if problem.code() == Code::NotFound => {}
                Some(Err(problem)) => found.silent.push(silent(&rm, problem.message())),
                None => found.silent.push(silent(&rm, "it is not configured any more")),
            }
        }
        Ok(found)
    }

    async fn ask_all(
        &self,
        transaction: &TransactionId,
        rms: &[RmName],
    ) -> BTreeMap<RmName, Result<v1::Booking, Status>> {
        let mut asked = JoinSet::new();
        for rm in rms {
            let Some(client) = self.federation.client(rm) else { continue };
            let question = v1::GetBookingRequest {
                transaction: transaction.to_string(),
                coordinator: self.name.clone(),
                resource_manager: rm.to_string(),
            };
            let (rm, span) = (rm.clone(), Span::current());
            asked.spawn(async move {
                let answer = ask(&rm, client, question, &span).await;
                (rm, answer)
            });
        }
        let mut answers = BTreeMap::new();
        while let Some(done) = asked.join_next().await {
            match done {
                Ok((rm, answer)) => drop(answers.insert(rm, answer)),
                // Only a panic leads here.
                Err(error) => tracing::error!(%error, "a question about equipment failed"),
            }
        }
        answers
    }
}

async fn ask(
    rm: &RmName,
    mut client: RmClient,
    question: v1::GetBookingRequest,
    trace: &Span,
) -> Result<v1::Booking, Status> {
    let span = trace.child(GET, SpanKind::Client);
    span.set("coalloc.rm", rm);
    let mut request = tonic::Request::new(question);
    request.set_timeout(limits::QUERY_PATIENCE.to_std());
    span.inject(request.metadata_mut());
    let answer = span.carry(client.get_booking(request)).await?.into_inner();
    Ok(answer.booking.unwrap_or_default())
}

fn silent(rm: &RmName, problem: &str) -> v1::SilentResourceManager {
    v1::SilentResourceManager { name: rm.to_string(), problem: problem.to_owned() }
}
