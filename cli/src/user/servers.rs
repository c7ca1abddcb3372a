//! `coalloc servers`: which servers of by-server sites are idle when.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use coalloc_common::{Span, Time, Window, limits};
use coalloc_net::convert::{declared_servers, time_to_wire, window_to_wire};
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, Coordinator, GrcArgs};
use crate::kit::text;
use crate::kit::when::{InstantArg, Length};

/// Most columns of the chart, also on a wider page. Each is one search.
const COLUMNS_MAX: usize = 96;
/// Length of the chart when none is given.
const DAY: Span = Span::from_secs(86_400);

/// Show which servers are idle when, one row for each server
///
/// A column shows a server as idle if it is idle throughout the column. A coordinator sees the servers of those
/// resource managers only that let it watch (`profiles.coordinators`).
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServersArgs {
    #[command(subcommand)]
    what: Option<ServersKind>,
    /// Start of the chart: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME", default_value = "now")]
    start: InstantArg,
    /// Length of the chart [default: 24h]
    #[arg(long = "for", value_name = "LENGTH")]
    length: Option<Length>,
    #[command(flatten)]
    only: OnlyArgs,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print a SearchServersResponse with every idle period of every server as JSON
    #[arg(long)]
    json: bool,
}

/// What is asked about servers.
#[derive(Debug, Clone, Subcommand)]
enum ServersKind {
    Search(SearchArgs),
}

/// List the servers that are idle through a whole window
///
/// Nothing is held: another user may be faster. `coalloc allocate --pick` takes some of them.
#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// Start of the window: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME")]
    start: InstantArg,
    /// Length of the window: 2h, 30m
    #[arg(long = "for", value_name = "LENGTH")]
    length: Length,
    /// Only sites with at least so many such servers
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(limits::SERVERS_MAX)))]
    at_least: u32,
    #[command(flatten)]
    only: OnlyArgs,
    /// Maximum number of servers listed
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the SearchServersResponse as JSON
    #[arg(long)]
    json: bool,
}

/// Which servers are shown.
#[derive(Debug, Clone, Default, Args)]
struct OnlyArgs {
    /// Only servers of this site
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Only servers with this property; may be given several times, and all must be there
    #[arg(long, value_name = "NAME")]
    property: Vec<String>,
}

impl OnlyArgs {
    fn search(&self, window: Window, at_least: u32, limit: u32) -> v1::SearchServersRequest {
        v1::SearchServersRequest {
            window: Some(window_to_wire(window)),
            at_least,
            properties: self.property.clone(),
            site: self.site.clone().unwrap_or_default(),
            limit: Some(limit),
        }
    }
}

/// Runs `coalloc servers`.
///
/// # Errors
/// When a flag is wrong, or the coordinator cannot be asked.
pub async fn run(args: &ServersArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    if let Some(ServersKind::Search(args)) = &args.what {
        return search(args, now).await;
    }
    let length = args.length.map_or(DAY, |length| length.0);
    let whole = window("--for", args.start.at(now), length)?;
    let mut client = args.grc.connect().await?;
    let chart = Chart::read(&mut client, &args.only, whole).await?;
    if args.json {
        return Ok(Answer::done(text::json(&chart.into_response())?));
    }
    Ok(Answer::done(chart.draw(args.ascii)))
}

fn window(field: &str, start: Time, length: Span) -> Result<Window, Failure> {
    Ok(Window::parse(field, start, start.saturating_add(length))?)
}

async fn search(args: &SearchArgs, now: Time) -> Result<Answer, Failure> {
    let window = window("--for", args.start.at(now), args.length.0)?;
    let mut client = args.grc.connect().await?;
    let request = args.only.search(window, args.at_least, args.limit);
    let response = ask(&mut client, request).await?;
    let exit = if response.servers.is_empty() { Exit::Refused } else { Exit::Done };
    let text = if args.json { text::json(&response)? } else { tabulate(&response) };
    Ok(Answer { text, exit })
}

async fn ask(
    client: &mut Coordinator,
    request: v1::SearchServersRequest,
) -> Result<v1::SearchServersResponse, Failure> {
    let response = client.search_servers(request).await;
    Ok(response.map_err(|status| rpc::failure(&status))?.into_inner())
}

fn tabulate(response: &v1::SearchServersResponse) -> String {
    let mut table =
        text::table(&["server", "CPUs", "properties", "idle since", "idle until", "at"]);
    text::align_right(&mut table, &[1]);
    let instant = |wire: &Option<_>, never: &str| match wire {
        Some(_) => text::moment(wire.as_ref()),
        None => never.to_owned(),
    };
    for server in &response.servers {
        table.add_row(vec![
            server.name.clone(),
            server.cpus.to_string(),
            server.properties.join(" "),
            instant(&server.idle_since, "ever"),
            instant(&server.idle_until, "for ever"),
            server.resource_manager.clone(),
        ]);
    }
    let count = text::count(response.servers.len(), "idle server");
    let more = if response.more { ", and more" } else { "" };
    let table =
        if response.servers.is_empty() { String::new() } else { text::finish(&table) + "\n" };
    format!("{table}{count}{more}\n{}", silent(&response.silent))
}

/// One line for each resource manager that did not say what is idle.
fn silent(all: &[v1::SilentResourceManager]) -> String {
    all.iter()
        .map(|one| format!("not counted: {}: {}\n", one.name, text::line(&one.problem)))
        .collect()
}

/// The idle periods of servers over a window that is cut into columns.
#[derive(Debug, Default)]
struct Chart {
    columns: Vec<Window>,
    /// Every server that there is, in the order in which it is shown, with the columns in which it is idle.
    rows: Vec<(String, BTreeSet<usize>)>,
    /// Every idle period, once.
    periods: Vec<v1::IdleServer>,
    silent: Vec<v1::SilentResourceManager>,
}

impl Chart {
    async fn read(
        client: &mut Coordinator,
        only: &OnlyArgs,
        whole: Window,
    ) -> Result<Self, Failure> {
        let described = client.describe_federation(v1::DescribeFederationRequest {}).await;
        let described = described.map_err(|status| rpc::failure(&status))?.into_inner();
        let names = names(&described, only);
        let label = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let width = usize::from(text::width()).saturating_sub(label + 3);
        let mut chart = Self { columns: columns(whole, width), ..Self::default() };
        let places: BTreeMap<String, usize> = names.iter().cloned().zip(0..).collect();
        chart.rows = names.into_iter().map(|name| (name, BTreeSet::new())).collect();
        let mut known = BTreeSet::new();
        for (column, window) in chart.columns.iter().enumerate() {
            let found = ask(client, only.search(*window, 0, limits::PAGE_MAX)).await?;
            if found.more {
                let most = limits::PAGE_MAX;
                let text = format!("more than {most} servers; say which with --site or --property");
                return Err(Failure::bad_input(text));
            }
            for server in found.servers {
                if let Some(place) = places.get(&server.name) {
                    chart.rows[*place].1.insert(column);
                }
                let from = server.idle_since.map(|at| (at.seconds, at.nanos));
                if known.insert((server.name.clone(), from)) {
                    chart.periods.push(server);
                }
            }
            chart.silent = found.silent;
        }
        Ok(chart)
    }

    /// Every idle period, server by server.
    fn into_response(self) -> v1::SearchServersResponse {
        let place = |name: &str| self.rows.iter().position(|(row, _)| row == name);
        let mut servers = self.periods;
        servers.sort_by_cached_key(|one| {
            (place(&one.name), one.idle_since.map(|at| (at.seconds, at.nanos)))
        });
        v1::SearchServersResponse { servers, more: false, silent: self.silent }
    }

    fn draw(&self, ascii: bool) -> String {
        if self.rows.is_empty() {
            return format!("no servers\n{}", silent(&self.silent));
        }
        let (idle, taken) = if ascii { ('.', '#') } else { ('·', '█') };
        let label = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let (first, last) = (self.columns.first(), self.columns.last());
        let from = text::moment(first.map(|column| time_to_wire(column.start())).as_ref());
        let until = text::moment(last.map(|column| time_to_wire(column.end())).as_ref());
        let mut out = format!("{:label$}  {from} to {until}\n", "");
        for (name, columns) in &self.rows {
            let mark = |column| if columns.contains(&column) { idle } else { taken };
            let bar: String = (0..self.columns.len()).map(mark).collect();
            out += &format!("{name:label$} |{bar}|\n");
        }
        let length = first.map_or(Span::ZERO, |column| column.length());
        let idle_now = self.rows.iter().filter(|(_, columns)| columns.contains(&0)).count();
        out += &format!(
            "{:label$}  a column is {length}; {idle} idle throughout it, {taken} taken or not known\n\
             {idle_now} of {} idle in the first column\n",
            "",
            text::count(self.rows.len(), "server")
        );
        out + &silent(&self.silent)
    }
}

/// A window in columns of equal length in whole seconds, of which the last one may end after the window. At most as
/// many as fit into the width.
fn columns(whole: Window, width: usize) -> Vec<Window> {
    let most = width.clamp(1, COLUMNS_MAX) as u64;
    let us = whole.length().as_us().unsigned_abs();
    let second = 1_000_000;
    let column = us.div_ceil(most).div_ceil(second).max(1) * second;
    let length = Span::from_us(i64::try_from(column).unwrap_or(i64::MAX));
    let count = us.div_ceil(column);
    let start = |at| whole.start().saturating_add(length.saturating_mul(at));
    let count = i64::try_from(count).unwrap_or(0);
    (0..count).filter_map(|at| Window::starting(start(at), length)).collect()
}

/// The names of all servers that are to be shown, in the order of the resource managers and their configurations.
fn names(described: &v1::DescribeFederationResponse, only: &OnlyArgs) -> Vec<String> {
    let managers = described.resource_managers.iter();
    let sites = managers.flat_map(|rm| rm.description.iter()).flat_map(|said| &said.sites);
    let sites = sites.filter(|site| only.site.as_ref().is_none_or(|name| *name == site.name));
    let declared = sites.filter_map(|site| declared_servers("site", site).ok().flatten());
    let servers = declared.flat_map(|declared| declared.servers);
    let servers = servers
        .filter(|server| only.property.iter().all(|property| server.properties.contains(property)));
    servers.map(|server| server.name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_cut_into_at_most_so_many_equal_columns() {
        let cases = [(1, 1), (96, 96), (97, 49), (86_400, 96), (86_401, 96)];
        for (seconds, count) in cases {
            let whole = Window::starting(Time::from_us(0), Span::from_secs(seconds)).unwrap();
            let columns = columns(whole, 300);
            assert_eq!(columns.len(), count, "{seconds} s");
            assert!(columns[columns.len() - 1].end() >= whole.end());
            assert!(columns.windows(2).all(|pair| pair[0].end() == pair[1].start()));
        }
    }

    #[test]
    fn a_chart_has_a_row_for_each_server_and_names_who_was_silent() {
        let whole = Window::starting(Time::from_us(0), Span::from_secs(4)).unwrap();
        let chart = Chart {
            columns: columns(whole, 300),
            rows: vec![("A/1".into(), [0, 1, 3].into()), ("A/big".into(), BTreeSet::new())],
            silent: vec![v1::SilentResourceManager { name: "crm-B".into(), problem: "no".into() }],
            ..Chart::default()
        };
        let text = chart.draw(true);
        assert!(text.contains("A/1   |..#.|\nA/big |####|\n"), "{text}");
        assert!(text.contains("1 of 2 servers idle in the first column"), "{text}");
        assert!(text.ends_with("not counted: crm-B: no\n"), "{text}");
    }
}
