//! `coalloc watch`: shows state changes as they happen, at a coordinator or at one resource manager.
//!
//! Each event is one line. When a connection breaks, the watch resumes with the last resume token, so that
//! no event is missed or shown twice, no matter which side restarted. On a terminal, a line at the bottom
//! counts down to the end of the first hold. [`follow`] has the loop, [`show`] the lines.

pub(super) mod follow;
mod show;

use clap::Args;

use crate::kit::exit::{Answer, Failure};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::when::Length;

/// Watch state changes as they happen, and resume where you stopped
///
/// Each event is one line. With ID, all earlier events of that reservation are shown first; without ID,
/// only new events are shown, unless --from says where to begin. When the watch ends, by Ctrl-C or
/// otherwise, the last line on standard error is the resume token for --from.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// Only this reservation: its id, or that of its request
    id: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Watch the bookings of the resource manager at this host:port instead
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["id", "grc", "user", "until"])]
    rm: Option<String>,
    /// Begin after this resume token, or at the `start` of the ledger
    #[arg(long, value_name = "TOKEN")]
    from: Option<String>,
    /// Only reservations of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
    /// End after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End when the reservation has reached this state; exit code 3 when it never will
    #[arg(long, requires = "id")]
    until: Option<follow::WatchGoal>,
    /// End when nothing has happened for this long, like 30s; exit code 4 when --count or --until was not
    /// reached
    #[arg(long, value_name = "LENGTH")]
    idle: Option<Length>,
}

/// Runs `coalloc watch`.
///
/// The events are printed as they happen; the answer only says how the watch ended.
///
/// # Errors
/// When the token does not belong to this ledger, there is no such reservation, or nobody can be asked.
pub async fn run(args: &WatchArgs) -> Result<Answer, Failure> {
    let from = match (args.from.as_deref(), &args.id) {
        (Some("start"), _) | (None, Some(_)) => "0",
        (Some(token), _) => token,
        (None, None) => "",
    };
    let source = match &args.rm {
        Some(address) => {
            let client = rpc::resource_manager(&args.grc.identity.dialer()?, address)?;
            follow::Source::rm(client, address).await?
        }
        None => follow::Source::Grc {
            client: args.grc.connect().await?,
            id: args.id.clone().unwrap_or_default(),
            user: args.user.clone().unwrap_or_default(),
        },
    };
    let ends = follow::WatchLimits {
        count: args.count,
        until: args.until,
        idle: args.idle.map(|length| length.0),
    };
    let exit = follow::follow(source, from.to_owned(), ends, args.json).await?;
    Ok(Answer { text: String::new(), exit })
}
