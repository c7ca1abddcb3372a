//! `coalloc log-level`: shows or changes what running daemons write to their logs, without a restart.
//!
//! Left out: the log itself, which is where the daemon's standard error goes.

use std::fmt::Write as _;

use clap::Args;
use coalloc_common::Span;
use coalloc_net::client::{Dialer, several};
use coalloc_proto::v1;
use serde::Serialize;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::kit::when::Length;

/// Show or change what running daemons log, without a restart
///
/// Without a filter: what each of them logs now. A filter is a level (off, error, warn, info, debug, trace), or levels of single
/// parts of the program, like `info,coalloc_grc=debug`. It is in force until it is changed or the daemon ends; with --for it ends
/// by itself, and then what was in force before is in force again. Only operators may do this. The daemon's log says who did.
///
/// Exit code 0: each daemon has answered; otherwise that of the worst answer.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc log-level                                     the coordinator of COALLOC_GRC\n  \
    coalloc log-level debug --for 10m --rm crm-tokyo\n  \
    coalloc log-level info,coalloc_grc=debug\n  \
    coalloc log-level --as-at-start                       as COALLOC_LOG said\n\n\
    Parts that say most: coalloc_grc, coalloc_rm, coalloc_crm, coalloc_nrm, coalloc_net, coalloc_ledger, coalloc_plan")]
pub struct LogLevelArgs {
    /// A level, or levels of parts, separated by commas
    #[arg(value_name = "FILTER", conflicts_with = "as_at_start")]
    filter: Option<String>,
    /// A resource manager in place of the coordinator: its name, or host:port; may be repeated
    #[arg(long = "rm", value_name = "RM")]
    managers: Vec<String>,
    /// Only for this long, 1s to 24h
    #[arg(long = "for", value_name = "LENGTH", requires = "filter")]
    lasts: Option<Length>,
    /// Back to what the daemon logged when it started
    #[arg(long)]
    as_at_start: bool,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the address and the LogFilter of each daemon as JSON, one a line
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc log-level`.
///
/// # Errors
/// When an address is not valid, or the only daemon that was asked has not done it.
pub async fn run(args: &LogLevelArgs) -> Result<Answer, Failure> {
    let dialer = args.grc.identity.dialer()?;
    let mut addresses = args.grc.manager_addresses(&args.managers).await?;
    if addresses.is_empty() || args.grc.grc.is_some() {
        addresses.insert(0, args.grc.address());
    }
    // Each process that shares a ledger has a log of its own.
    let addresses: Vec<String> =
        addresses.iter().flat_map(|all| all.split(',')).map(str::to_owned).collect();
    for address in &addresses {
        coalloc_net::client::check_address("ADDR", address)?;
        debug_assert!(!several(address), "one address each");
    }
    let (mut shown, mut exit) = (String::new(), Exit::Done);
    let width = addresses.iter().map(String::len).max().unwrap_or_default();
    for address in &addresses {
        match ask(args, &dialer, address).await {
            Ok(filter) if args.json => {
                shown += &(text::json_line(&DaemonFilter { address, filter })? + "\n");
            }
            // Writing to a String cannot fail.
            Ok(filter) => drop(writeln!(shown, "{address:width$}  {}", words(&filter))),
            Err(failure) if addresses.len() == 1 => return Err(failure),
            Err(failure) => {
                let told = failure.message.strip_prefix(&format!("{address}: "));
                text::note(&format!("{address}: {}", told.unwrap_or(&failure.message)));
                exit = Exit::worst([exit, failure.exit]);
            }
        }
    }
    Ok(Answer { text: shown, exit })
}

async fn ask(
    args: &LogLevelArgs,
    dialer: &Dialer,
    address: &str,
) -> Result<v1::LogFilter, Failure> {
    let mut client = rpc::logging(dialer, address)?;
    let answer = if args.filter.is_none() && !args.as_at_start {
        let answer = client.get_log_filter(v1::GetLogFilterRequest {}).await;
        answer.map(|answer| answer.into_inner().filter)
    } else {
        let request = v1::SetLogFilterRequest {
            filter: args.filter.clone().unwrap_or_default(),
            lasts: args.lasts.map(|Length(span)| coalloc_net::convert::span_to_wire(span)),
            as_at_start: args.as_at_start,
        };
        client.set_log_filter(request).await.map(|answer| answer.into_inner().filter)
    };
    let filter = answer.map_err(|status| match status.code() {
        tonic::Code::Unimplemented => Failure::new(
            Exit::CallFailed,
            format!("{address} is of an older release: set COALLOC_LOG and restart it"),
        ),
        _ => rpc::no_connection(dialer, address, &status).unwrap_or_else(|| {
            let failure = rpc::failure(&status);
            let message = match failure.message.strip_prefix("lasts: ") {
                Some(problem) => format!("--for: {problem}"),
                None => failure.message,
            };
            Failure::new(failure.exit, message)
        }),
    })?;
    filter.ok_or_else(|| Failure::internal(format!("{address} sent an answer without content")))
}

/// The filter of one daemon.
#[derive(Debug, Serialize)]
struct DaemonFilter<'a> {
    address: &'a str,
    #[serde(flatten)]
    filter: v1::LogFilter,
}

/// A filter, for people.
fn words(filter: &v1::LogFilter) -> String {
    let v1::LogFilter { filter: now, ends_in, afterwards, at_start } = filter;
    match ends_in {
        Some(left) => {
            // Nobody needs the microseconds of what is left.
            let left = Span::from_secs(left.seconds);
            format!("{now} for {left}, then {afterwards}")
        }
        None if now == at_start => now.clone(),
        None => format!("{now} (when it started: {at_start})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_told_with_what_comes_after_it() {
        let filter = |now: &str, seconds: Option<i64>, afterwards: &str| v1::LogFilter {
            filter: now.to_owned(),
            ends_in: seconds.map(|seconds| coalloc_proto::Duration { seconds, nanos: 0 }),
            afterwards: afterwards.to_owned(),
            at_start: "info".to_owned(),
        };
        assert_eq!(words(&filter("info", None, "")), "info");
        assert_eq!(words(&filter("debug", None, "")), "debug (when it started: info)");
        assert_eq!(words(&filter("debug", Some(600), "info")), "debug for 10 min, then info");
    }
}
