//! `coalloc topology`: shows sites, paths, exchange points, and which resource managers answer; and draws them ([`map`]).

mod map;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use coalloc_common::Time;
use coalloc_net::needs::version_from_wire;
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Failure};
use crate::kit::expiry::Expiry;
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::{svg, text, whole};
use crate::user::offline::Federation;
use crate::user::wording::owed::{denied_by_all, overreaching, owed};

/// Show the federation: sites, paths, exchange points and resource managers
#[derive(Debug, Clone, Args)]
pub struct TopologyArgs {
    /// Read this FederationFile (YAML or JSON) instead of asking a coordinator
    #[arg(long, value_name = "FILE", conflicts_with = "grc")]
    federation: Option<PathBuf>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Draw a map into this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the DescribeFederationResponse (the FederationFile, with --federation) as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc topology`.
///
/// # Errors
/// When the file is wrong, the coordinator cannot be asked, or the map cannot be written.
pub async fn run(args: &TopologyArgs) -> Result<Answer, Failure> {
    if let Some(path) = &args.federation {
        let file = Federation::read(path)?.file;
        if let Some(svg) = &args.svg {
            let (sites, paths) = owned_in_file(&file);
            write_map(svg, &sites, &paths, &file.exchange_points)?;
        }
        let text = if args.json { text::json(&file)? } else { describe_file(&file) };
        return Ok(Answer::done(text));
    }
    let mut client = args.grc.connect().await?;
    let response = client.describe_federation(v1::DescribeFederationRequest {}).await;
    let response = response.map_err(|status| rpc::failure(&status))?.into_inner();
    if let Some(svg) = &args.svg {
        let (sites, paths) = owned_in_response(&response);
        write_map(svg, &sites, &paths, &response.exchange_points)?;
    }
    let text = if args.json {
        text::json(&response)?
    } else {
        describe(&response, coalloc_net::clock::now().wall)
    };
    Ok(Answer::done(text))
}

/// Writes the map.
fn write_map(
    file: &Path,
    sites: &[OwnedResource<'_, v1::Site>],
    paths: &[OwnedResource<'_, v1::Path>],
    exchange_points: &[String],
) -> Result<(), Failure> {
    let drawing = map::drawing(sites, paths, exchange_points);
    whole::write(file, svg::svg(&drawing).as_bytes()).map_err(|error| {
        let needed = "needed: a file in a folder that is there and can be written";
        Failure::bad_input(format!("--svg {}: {error}\n{needed}", file.display()))
    })
}

/// A site or a path, with the names of its domain and of its resource manager.
struct OwnedResource<'a, T> {
    domain: &'a str,
    manager: &'a str,
    thing: &'a T,
}

/// The sites, and the paths.
type Owned<'a> = (Vec<OwnedResource<'a, v1::Site>>, Vec<OwnedResource<'a, v1::Path>>);

fn owned_in_file(file: &v1::FederationFile) -> Owned<'_> {
    let sites = file.computes.iter().flat_map(|inventory| {
        let own =
            |thing| OwnedResource { domain: &inventory.domain, manager: &inventory.name, thing };
        inventory.sites.iter().map(own)
    });
    let paths = file.networks.iter().flat_map(|inventory| {
        let own =
            |thing| OwnedResource { domain: &inventory.domain, manager: &inventory.name, thing };
        inventory.paths.iter().map(own)
    });
    (sites.collect(), paths.collect())
}

fn describe_file(file: &v1::FederationFile) -> String {
    let (sites, paths) = owned_in_file(file);
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "federation {}", file.name);
    if !file.source.is_empty() {
        let _ = writeln!(out, "source: {}", file.source);
    }
    out += &inventory(&sites, &paths);
    let _ = writeln!(out, "\nexchange points: {}", text::enumerate(&file.exchange_points));
    if !file.taken.is_empty() {
        let taken = text::count(file.taken.len(), "segment");
        let _ = writeln!(out, "taken already: {taken}");
    }
    out
}

fn owned_in_response(response: &v1::DescribeFederationResponse) -> Owned<'_> {
    let described = || {
        let managers = response.resource_managers.iter();
        managers.filter_map(|manager| Some((manager, manager.description.as_ref()?)))
    };
    let sites = described().flat_map(|(manager, description)| {
        let own =
            |thing| OwnedResource { domain: &description.domain, manager: &manager.name, thing };
        description.sites.iter().map(own)
    });
    let paths = described().flat_map(|(manager, description)| {
        let own =
            |thing| OwnedResource { domain: &description.domain, manager: &manager.name, thing };
        description.paths.iter().map(own)
    });
    (sites.collect(), paths.collect())
}

fn describe(response: &v1::DescribeFederationResponse, now: Time) -> String {
    let (sites, paths) = owned_in_response(response);
    let mut out = format!("coordinator {}\n", response.coordinator);
    out += &inventory(&sites, &paths);
    let _ = writeln!(out, "\nexchange points: {}\n", text::enumerate(&response.exchange_points));
    out += &managers(&response.resource_managers, now);
    let denied = denied_by_all(response).into_iter();
    let releases = other_releases(response);
    for line in
        releases.into_iter().chain(denied).chain(overreaching(response)).chain(owed(response))
    {
        let _ = writeln!(out, "{}", text::line(&line));
    }
    out
}

/// The resource managers that run another release than the coordinator, a line each.
fn other_releases(response: &v1::DescribeFederationResponse) -> Vec<String> {
    let own = version_from_wire(response.version.as_ref());
    let other = |manager: &v1::ResourceManagerStatus| {
        let version = version_from_wire(manager.description.as_ref()?.version.as_ref());
        let is_other = (version.protocol, &version.program) != (own.protocol, &own.program);
        is_other.then(|| format!("{} is {version}; the coordinator is {own}", manager.name))
    };
    response.resource_managers.iter().filter_map(other).collect()
}

/// What sites have besides CPUs; empty when no site has anything.
fn others(sites: &[OwnedResource<'_, v1::Site>]) -> String {
    if sites.iter().all(|site| site.thing.others.is_empty()) {
        return String::new();
    }
    let mut table = text::table(&["site", "also has", "points/unit", "resource manager"]);
    text::align_right(&mut table, &[1, 2]);
    for OwnedResource { manager, thing, .. } in sites {
        for own in &thing.others {
            let amount = text::amount_of(&own.kind, own.capacity);
            let value = own.unit_value.unwrap_or(1).to_string();
            table.add_row([&thing.name, &amount, &value, *manager]);
        }
    }
    text::finish_in_lines(table) + "\n"
}

fn inventory(
    sites: &[OwnedResource<'_, v1::Site>],
    paths: &[OwnedResource<'_, v1::Path>],
) -> String {
    let cpus: u64 = sites.iter().map(|site| site.thing.cpus).fold(0, u64::saturating_add);
    let mut out = String::from("\n");
    let mut table = text::table(&["site", "CPUs", "points/CPU", "domain", "resource manager"]);
    text::align_right(&mut table, &[1, 2]);
    for OwnedResource { domain, manager, thing } in sites {
        let value = thing.unit_value.unwrap_or(1).to_string();
        table.add_row([&thing.name, &thing.cpus.to_string(), &value, *domain, *manager]);
    }
    out += &text::finish_in_lines(table);
    let total = coalloc_common::Cpus(cpus);
    let _ = writeln!(out, "{}, {total}\n", text::count(sites.len(), "site"));
    out += &others(sites);
    let header = ["path", "from", "to", "rate", "points", "latency", "resource manager"];
    let mut table = text::table(&header);
    text::align_right(&mut table, &[3, 4, 5]);
    for OwnedResource { manager, thing, .. } in paths {
        // Otherwise both directions share the rate.
        let each = if thing.full_duplex { " each way" } else { "" };
        let latency = thing.latency.as_ref().map_or_else(|| "0 s".into(), |l| text::span(Some(l)));
        let rate = text::rate(thing.capacity_bps) + each;
        let value = thing.unit_value.unwrap_or(1).to_string();
        table.add_row([&thing.name, &thing.a, &thing.b, &rate, &value, &latency, *manager]);
    }
    out += &text::finish_in_lines(table);
    let _ = writeln!(out, "{}; points are for 1 Gbit/s", text::count(paths.len(), "path"));
    out
}

/// A line for each resource manager, then what is wrong with those where something is.
fn managers(managers: &[v1::ResourceManagerStatus], now: Time) -> String {
    // Coordinators tell addresses to operators and auditors only.
    let has_addresses = managers.iter().any(|manager| !manager.address.is_empty());
    let is_told = |column: usize| column != 1 || has_addresses;
    let head = ["resource manager", "address", "books ahead", "status"];
    let head: Vec<&str> =
        (0..).zip(head).filter(|(at, _)| is_told(*at)).map(|(_, head)| head).collect();
    let mut table = text::table(&head);
    let mut problems = String::new();
    for manager in managers {
        let horizon = manager.description.as_ref().and_then(|d| d.horizon.as_ref());
        let status = if manager.reachable { "reachable" } else { "UNREACHABLE" };
        let cells = [&manager.name, &manager.address, &text::span(horizon), status];
        table.add_row((0..).zip(cells).filter(|(at, _)| is_told(*at)).map(|(_, cell)| cell));
        if let Some(problem) = problem(manager, now) {
            let lines = text::wrap(&text::line(&problem), usize::from(text::width()) - 2);
            let _ = writeln!(problems, "{}", lines.join("\n  "));
        }
    }
    let reachable = managers.iter().filter(|manager| manager.reachable).count();
    let total = text::count(managers.len(), "resource manager");
    format!("{}{total}, {reachable} reachable\n{problems}", text::finish_in_lines(table))
}

/// What is wrong with a resource manager.
fn problem(manager: &v1::ResourceManagerStatus, now: Time) -> Option<String> {
    let name = &manager.name;
    if !manager.reachable {
        return Some(format!("{name}: UNREACHABLE: {}", manager.problem));
    }
    let denies = if manager.denies { ", but DOES NOT ACCEPT this coordinator" } else { "" };
    let differ = match manager.differences {
        0 => String::new(),
        count => {
            let count = text::count(count as usize, "difference");
            format!("; {count}, see coalloc repair")
        }
    };
    let life = manager.certificate.as_ref();
    let ends = life.and_then(|life| {
        text::time(life.not_before.as_ref()).zip(text::time(life.not_after.as_ref()))
    });
    let expiry = ends.map(|(from, until)| Expiry::at(now, from, until));
    // Of a certificate that is to be renewed soon, `coalloc health` tells.
    let ended = expiry.filter(|expiry| matches!(expiry, Expiry::Ended(_)));
    let ended = ended.and_then(|expiry| expiry.warning("its certificate"));
    let ended = ended.map_or_else(String::new, |ended| format!("; {ended}"));
    let is_wrong = manager.denies || manager.differences > 0 || !ended.is_empty();
    is_wrong.then(|| format!("{name}: reachable{denies}{differ}{ended}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_that_is_not_accepted_is_told_so() {
        let manager = |name: &str, denies| v1::ResourceManagerStatus {
            name: name.to_owned(),
            reachable: true,
            denies,
            ..Default::default()
        };
        let mut response = v1::DescribeFederationResponse {
            coordinator: "grc-2".to_owned(),
            resource_managers: vec![manager("crm", true), manager("nrm", false)],
            ..Default::default()
        };
        let at = |seconds| Some(coalloc_proto::Timestamp { seconds, nanos: 0 });
        response.resource_managers[1].certificate =
            Some(v1::CertificateLife { not_before: at(0), not_after: at(3_600) });
        let ended = "nrm: reachable; its certificate ended 1 hour ago: no new connection";
        let day = describe(&response, Time::from_us(7_200_000_000)).replace("\n  ", " ");
        assert!(day.contains(ended), "{day}");
        let one = describe(&response, Time::from_us(0));
        assert!(!one.contains("its certificate"), "{one}");
        assert_eq!(one.matches("DOES NOT ACCEPT this coordinator").count(), 1, "{one}");
        assert!(!one.contains("no resource manager accepts"), "{one}");
        response.resource_managers[1].denies = true;
        let all = describe(&response, Time::from_us(0));
        assert!(all.contains("no resource manager accepts grc-2: it can plan"), "{all}");
        response.resource_managers.clear();
        assert_eq!(denied_by_all(&response), None);
    }

    #[test]
    fn a_topology_has_one_line_for_each_thing() {
        let path = v1::Path {
            name: "tokyo-osaka".into(),
            a: "tokyo".into(),
            b: "osaka".into(),
            capacity_bps: 10_000_000_000,
            ..Default::default()
        };
        let site = v1::Site { name: "tokyo".into(), cpus: 16, ..Default::default() };
        let description = v1::DescribeResponse {
            domain: "grid".into(),
            sites: vec![site],
            paths: vec![path],
            ..Default::default()
        };
        let manager = v1::ResourceManagerStatus {
            name: "nrm-network".into(),
            address: "127.0.0.1:7003".into(),
            problem: "does not answer ".repeat(20),
            description: Some(description),
            ..Default::default()
        };
        let response = v1::DescribeFederationResponse {
            coordinator: "grc".into(),
            resource_managers: vec![manager],
            ..Default::default()
        };
        let text = describe(&response, Time::from_us(0));
        let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!((lines("tokyo-osaka"), lines("127.0.0.1:7003")), (1, 1), "{text}");
        assert!(text.contains("nrm-network: UNREACHABLE: does not answer"), "{text}");
    }
}
