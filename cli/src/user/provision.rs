//! `coalloc provision` and `deprovision`: lets the user of a reservation in to its equipment, or takes the equipment back.

use clap::Args;
use coalloc_proto::v1;
use tonic::{Code, Status};
use uuid::Uuid;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::user::modify;
use crate::user::wording::reservation::describe;

/// Let the user in to the equipment of a reservation in its window
///
/// It is needed for a reservation that was made with `manual_provision`, or that was deprovisioned. All others are
/// provisioned from the beginning.
#[derive(Debug, Clone, Args)]
pub struct ProvisionArgs {
    #[command(flatten)]
    change: ProvisionChange,
}

/// Take the equipment of a reservation from its user, and keep it reserved
///
/// What runs there ends. `coalloc provision` gives the equipment back.
#[derive(Debug, Clone, Args)]
pub struct DeprovisionArgs {
    #[command(flatten)]
    change: ProvisionChange,
}

/// Which reservation, and for whom.
#[derive(Debug, Clone, Args)]
struct ProvisionChange {
    /// The id of the reservation, or of the request
    id: String,
    /// The user; the coordinator refuses anyone but the reservation's user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The id of this change: sent again, it gets the same answer [default: a random UUID]
    #[arg(long, value_name = "CHANGE_ID")]
    change_id: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc provision`.
///
/// # Errors
/// When there is no such reservation, the coordinator cannot be asked, or the outcome is unknown.
pub async fn provision(args: &ProvisionArgs) -> Result<Answer, Failure> {
    let ProvisionChange { id, user, .. } = &args.change;
    let mut client = args.change.grc.connect().await?;
    let (id, user) = (id.clone(), user.clone().unwrap_or_default());
    let change_id = args.change.announced_id();
    let answer = client.provision(v1::ProvisionRequest { id, change_id, user }).await;
    args.change.answer(answer.map(|answer| answer.into_inner().reservation))
}

/// Runs `coalloc deprovision`.
///
/// # Errors
/// When there is no such reservation, the coordinator cannot be asked, or the outcome is unknown.
pub async fn deprovision(args: &DeprovisionArgs) -> Result<Answer, Failure> {
    let ProvisionChange { id, user, .. } = &args.change;
    let mut client = args.change.grc.connect().await?;
    let (id, user) = (id.clone(), user.clone().unwrap_or_default());
    let change_id = args.change.announced_id();
    let answer = client.deprovision(v1::DeprovisionRequest { id, change_id, user }).await;
    args.change.answer(answer.map(|answer| answer.into_inner().reservation))
}

impl ProvisionChange {
    /// The id of the change. It is printed before the call, so that the user can send the change again even if this process
    /// dies.
    fn announced_id(&self) -> String {
        let id = self.change_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        text::note(&format!("change id: {id}"));
        id
    }

    fn answer(&self, answer: Result<Option<v1::Reservation>, Status>) -> Result<Answer, Failure> {
        let reservation = answer.map_err(|status| match status.code() {
            Code::FailedPrecondition => Failure::new(Exit::Refused, status.message()),
            _ => {
                let id = &self.id;
                let what_to_do =
                    format!("ask `coalloc show {id}`: the change may still be going on");
                rpc::failure_of_change(&status, &what_to_do)
            }
        })?;
        let one = reservation.ok_or_else(|| Failure::internal("an answer without content"))?;
        let text = if self.json { text::json(&one)? } else { describe(&one) };
        Ok(Answer { text, exit: modify::exit(&one) })
    }
}
