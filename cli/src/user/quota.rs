//! `coalloc quota`: how much a user may have reserved at the coordinator, and has.
//!
//! What a user may hold at resource managers at a time is not here: it is set and told by each of them.

use std::fmt::Write as _;

use clap::Args;
use coalloc_common::show_hours;
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Failure};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;

/// Show how much you may have reserved, and how much is left
///
/// The limits are those of the coordinator, for each user. What a reservation takes counts from now to its end.
#[derive(Debug, Clone, Args)]
pub struct QuotaArgs {
    /// The user; somebody else is for operators and auditors [default: you]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    user: String,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the GetQuotaResponse as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc quota`.
///
/// # Errors
/// When the coordinator cannot be reached, or does not tell.
pub async fn run(args: &QuotaArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    let answer = client.get_quota(v1::GetQuotaRequest { user: args.user.clone() }).await;
    let quota = answer.map_err(|status| {
        let names_nobody = args.user.is_empty()
            && rpc::violations(&status).iter().any(|(field, _)| field == "user");
        match names_nobody {
            true => Failure::bad_input("--user is missing: you are no user; allowed: --user NAME"),
            false => rpc::failure(&status),
        }
    });
    let quota = quota?.into_inner();
    let text = if args.json { text::json(&quota)? } else { tabulate(&quota) };
    Ok(Answer::done(text))
}

fn tabulate(quota: &v1::GetQuotaResponse) -> String {
    let v1::GetQuotaResponse { user, reservations, reservations_max, hours, .. } = quota;
    let mut table = text::table(&["of", "reserved", "at most", "left"]);
    text::align_right(&mut table, &[1, 2, 3]);
    let left = u64::from(*reservations_max).saturating_sub(*reservations);
    let live = [*reservations, u64::from(*reservations_max), left].map(|count| count.to_string());
    let [reserved, most, left] = live;
    table.add_row(["live reservations".to_owned(), reserved, most, left]);
    for one in hours {
        let amount = |thousandths| {
            let text = show_hours(thousandths, "");
            text.trim_end().to_owned()
        };
        let reserved = one.reserved_thousandths;
        let (most, left) = match one.max_thousandths {
            Some(most) => (amount(most), amount(most.saturating_sub(reserved))),
            None => ("no limit".to_owned(), String::new()),
        };
        table.add_row([format!("{} from now on", one.unit), amount(reserved), most, left]);
    }
    let mut text = format!("user {}\n{}", text::line(user), text::finish(&table));
    if quota.calls_per_second_max > 0 {
        let _ = writeln!(text, "at most {} calls a second", quota.calls_per_second_max);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_table_of_what_is_reserved_and_left() {
        let hours = |kind: &str, unit: &str, reserved, most| v1::HoursQuota {
            kind: kind.to_owned(),
            unit: unit.to_owned(),
            reserved_thousandths: reserved,
            max_thousandths: most,
        };
        let quota = v1::GetQuotaResponse {
            user: "alice".to_owned(),
            reservations: 3,
            reservations_max: 10,
            hours: vec![
                hours("cpus", "CPU-hours", 12_500, Some(100_000)),
                hours("bandwidth", "Gbit/s-hours", 750, None),
            ],
            calls_per_second_max: 200,
        };
        let text = "\
user alice
of                        reserved   at most  left
live reservations                3        10     7
CPU-hours from now on         12.5       100  87.5
Gbit/s-hours from now on      0.75  no limit
at most 200 calls a second
";
        assert_eq!(tabulate(&quota), text);
    }
}
