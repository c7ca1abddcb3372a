//! `coalloc list`: the reservations of a coordinator, a line each.
//!
//! The coordinator selects by user and state. Its pages go from the oldest reservation to the newest and know nothing of
//! when one was made, so `--since` and `--limit` are applied here, to all that it has of these users and states.
//! [`table`] has the lines, [`live`] keeps them up to date (`--watch`).

mod live;
mod table;

use clap::{Args, ValueEnum};
use coalloc_common::{Time, Window};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Failure};
use crate::kit::output::{OutputArgs, OutputFormat};
use crate::kit::rpc::{self, Coordinator, GrcArgs, all_reservations};
use crate::kit::text;
use crate::kit::when::PastInstant;
use crate::kit::zone::ZoneArgs;
use table::ReservationTable;
use tonic::Status;

/// List the reservations, in the order they were made
///
/// What has ended (failed, terminated or passed) is left out, unless --all or --state asks for it. Windows are to the
/// minute; `-o wide` has the seconds, and everything that was cut.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Only reservations of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only reservations of this series
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// Only reservations in this state; may be given several times
    #[arg(long)]
    state: Vec<StateArg>,
    /// Also those that have ended
    #[arg(long, conflicts_with = "state")]
    all: bool,
    /// Only reservations made since then: -2h, today 9:00, 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<PastInstant>,
    /// Only the newest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Stay, and show every change: on a terminal the list is drawn again, elsewhere the changed lines are printed
    #[arg(long, conflicts_with_all = ["output", "json"])]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    grc: GrcArgs,
}

impl ListArgs {
    /// Does the command stay, and draw the list again and again?
    #[must_use]
    pub const fn stays(&self) -> bool {
        self.watch
    }
}

/// The states of a reservation, as they are written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum StateArg {
    Checking,
    Committing,
    /// Booked everywhere, and not in use
    Confirmed,
    /// In use: its window has begun
    Active,
    Aborting,
    Failed,
    Terminating,
    Terminated,
    /// The reservation's window is over
    Passed,
}

impl From<StateArg> for v1::ReservationState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Checking => Self::Checking,
            StateArg::Committing => Self::Committing,
            StateArg::Confirmed => Self::Confirmed,
            StateArg::Active => Self::Active,
            StateArg::Aborting => Self::Aborting,
            StateArg::Failed => Self::Failed,
            StateArg::Terminating => Self::Terminating,
            StateArg::Terminated => Self::Terminated,
            StateArg::Passed => Self::PassedEndTime,
        }
    }
}

/// Which reservations are wanted.
#[derive(Debug, Clone, Default)]
struct ListQuery {
    /// Empty: all users that the caller may see.
    user: String,
    /// Empty: those of all series and of none.
    series: String,
    /// Empty: all states.
    states: Vec<v1::ReservationState>,
    since: Option<Time>,
    limit: Option<usize>,
    /// Whether those that have ended are left out because nobody has asked for them.
    hides_ended: bool,
}

impl ListQuery {
    fn of(args: &ListArgs) -> Self {
        let hides_ended = !args.all && args.state.is_empty();
        let states: Vec<_> = args.state.iter().map(|state| (*state).into()).collect();
        Self {
            user: args.user.clone().unwrap_or_default(),
            series: args.series.clone().unwrap_or_default(),
            states: if hides_ended { text::NOT_ENDED.to_vec() } else { states },
            since: args.since.map(|since| since.0),
            limit: args.limit.map(|limit| limit as usize),
            hides_ended,
        }
    }

    /// Whether this reservation, of a user who is wanted, is wanted.
    fn selects(&self, one: &v1::Reservation) -> bool {
        let is_of_state = self.states.is_empty() || self.states.contains(&one.state());
        let made = || text::time(one.created.as_ref());
        let series = || one.request.as_ref().map_or("", |request| request.series.as_str());
        let is_of_series = self.series.is_empty() || self.series == series();
        is_of_state
            && is_of_series
            && self.since.is_none_or(|since| made().is_some_and(|made| made >= since))
    }

    /// Every reservation that is selected, in the order in which they were made; the limit is not applied.
    async fn read(&self, client: &mut Coordinator) -> Result<Vec<v1::Reservation>, Status> {
        let request = v1::ListRequest {
            user: self.user.clone(),
            series: self.series.clone(),
            states: self.states.iter().map(|state| (*state).into()).collect(),
            ..Default::default()
        };
        let mut reservations = all_reservations(client, request).await?;
        reservations.retain(|one| self.selects(one));
        Ok(reservations)
    }

    /// The newest of these, as many as are wanted.
    fn newest<'a>(&self, all: &'a [v1::Reservation]) -> &'a [v1::Reservation] {
        &all[all.len().saturating_sub(self.limit.unwrap_or(all.len()))..]
    }

    /// The last line of a list: how many there are, and how to see what is not there.
    fn count(&self, all: &[v1::Reservation]) -> String {
        let listed = self.newest(all).len();
        let mut line = match (listed, all.len()) {
            (_, 0) if !self.series.is_empty() => {
                format!("no reservations of a series {:?}", self.series)
            }
            (_, 0) => "no reservations".to_owned(),
            (listed, all) if listed < all => {
                let listed = text::count(listed, "reservation");
                format!("{listed}, the newest of {all} (--limit {all} lists all)")
            }
            (_, all) => text::count(all, "reservation"),
        };
        if self.hides_ended {
            // With both hints the line would be longer than a page is wide.
            let between = if listed < all.len() { ",\n" } else { ", " };
            line = line + between + "without those that have ended (--all)";
        }
        line
    }
}

/// Runs `coalloc list`.
///
/// # Errors
/// When the coordinator cannot be asked.
pub async fn run(args: &ListArgs) -> Result<Answer, Failure> {
    let table = ReservationTable::new(args.zone.clock(coalloc_net::clock::now().wall));
    let query = ListQuery::of(args);
    let mut client = args.grc.connect().await?;
    if args.watch {
        return live::follow(client, query, table).await;
    }
    let all = query.read(&mut client).await.map_err(|status| rpc::failure(&status))?;
    let listed = query.newest(&all);
    let count = format!("{}\n", query.count(&all));
    let text = match args.output.format() {
        None => table.brief(listed) + &count,
        Some(OutputFormat::Wide) => table.wide(listed) + &count,
        Some(OutputFormat::Csv) => table.csv(listed),
        Some(OutputFormat::Json) => text::json(&v1::ListResponse {
            reservations: listed.to_vec(),
            next_page_token: String::new(),
        })?,
    };
    Ok(Answer::done(text))
}

/// The window of a reservation that has a plan.
fn window_of(one: &v1::Reservation) -> Option<Window> {
    window_from_wire("window", one.plan.as_ref()?.window.as_ref()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(id: &str, seconds: i64, state: v1::ReservationState) -> v1::Reservation {
        v1::Reservation {
            request_id: id.into(),
            state: state.into(),
            created: Some(coalloc_proto::Timestamp { seconds, nanos: 0 }),
            ..Default::default()
        }
    }

    #[test]
    fn what_has_ended_is_left_out_unless_asked_for() {
        use v1::ReservationState as S;
        let hidden = [S::Failed, S::Terminated, S::PassedEndTime];
        for state in [S::Checking, S::Held, S::Confirmed, S::Active].into_iter().chain(hidden) {
            let is_ended = hidden.contains(&state);
            assert_eq!(text::NOT_ENDED.contains(&state), !is_ended, "{state:?}");
        }
        let query =
            ListQuery { states: text::NOT_ENDED.to_vec(), hides_ended: true, ..Default::default() };
        assert!(!query.selects(&made("a", 5, S::Failed)));
        assert_eq!(query.count(&[]), "no reservations, without those that have ended (--all)");
    }

    #[test]
    fn the_newest_are_listed_and_the_count_says_how_to_see_the_others() {
        let state = v1::ReservationState::Confirmed;
        let since = Some(Time::from_us(5_000_000));
        let query = ListQuery { since, limit: Some(2), ..Default::default() };
        let mut all = vec![made("old", 4, state), made("a", 5, state), made("b", 6, state)];
        all.push(made("c", 7, state));
        all.retain(|one| query.selects(one));
        let ids: Vec<_> = query.newest(&all).iter().map(|one| one.request_id.as_str()).collect();
        assert_eq!(ids, ["b", "c"]);
        let count = "2 reservations, the newest of 3 (--limit 3 lists all)";
        assert_eq!(query.count(&all), count);
        assert_eq!(query.count(&all[..1]), "1 reservation");
    }
}
