//! Days on a small federation, with and without child coordinators. Each run checks at its end that exactly
//! what is confirmed is booked at every resource manager, and nothing else.

use std::collections::BTreeMap;

use coalloc_common::topology::{Compute, Duplex, Edge, SiteResource, Vertex};
use coalloc_common::{
    Amount, BitsPerSecond, Cpus, DomainName, EdgeName, ResourceId, ResourceKind, RmName, Span,
    Topology, UnitValue, VertexName, limits,
};

use coalloc_plan::{Named, Solver};

use super::settings::{Lower, RequestTarget, Word, Workload};
use super::{Settings, levels, run};
use crate::experiment::{Measures, ModelError, SilentTrace, TraceEvent};

/// Two domains of two sites each that meet at X. A site has 8 CPUs, a path 1 Gbit/s.
fn two_domains() -> Topology {
    let mut topology = Topology::new();
    for (site, domain) in [("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b")] {
        let compute = Compute {
            rm: RmName::composed(format!("crm-{site}")),
            resource: ResourceId::composed(site),
            capacity: Cpus(8),
            unit_value: UnitValue(1),
            price: None,
            quality: limits::QUALITY_FULL,
            mips: limits::MIPS_DEFAULT,
        };
        let (name, domain) = (VertexName::composed(site), Some(DomainName::composed(domain)));
        topology.add_vertex(Vertex::new(name, domain, Some(compute))).unwrap();
    }
    let name = VertexName::composed("X");
    topology.add_vertex(Vertex::new(name, None, None)).unwrap();
    for (a, b, domain) in
        [("a0", "a1", "a"), ("b0", "b1", "b"), ("a0", "X", "a"), ("a1", "X", "a"), ("b0", "X", "b")]
    {
        topology.add_edge(edge(&topology, a, b, domain)).unwrap();
    }
    topology
}

fn edge(topology: &Topology, a: &str, b: &str, nrm: &str) -> Edge {
    let end = |name: &str| topology.find_vertex(&VertexName::composed(name)).unwrap();
    Edge {
        name: EdgeName::composed(format!("{a}-{b}")),
        a: end(a),
        b: end(b),
        rm: RmName::composed(format!("nrm-{nrm}")),
        capacity: BitsPerSecond(1_000_000_000),
        unit_value: UnitValue(1),
        price: None,
        quality: limits::QUALITY_FULL,
        latency: Span::ZERO,
        duplex: Duplex::Shared(ResourceId::composed(format!("{a}-{b}"))),
    }
}

fn groups(of: &[(&str, &[&str])]) -> Lower {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Lower::Groups(of.iter().map(|(name, own)| ((*name).to_owned(), words(own))).collect())
}

fn settings(lower: Lower) -> Settings {
    let workload = Workload { interarrival_s: 600.0, rate_bps: 400_000_000, ..Workload::default() };
    Settings { lower, delay_us: 5_000, planning_us: 10_000, workload, ..Settings::default() }
}

fn measured(settings: &Settings, seed: u64) -> Measures {
    run(settings, &two_domains(), seed, &mut SilentTrace).unwrap()
}

fn events(settings: &Settings, seed: u64) -> (Measures, Vec<TraceEvent<'static>>) {
    let mut events: Vec<TraceEvent<'static>> = Vec::new();
    let measures = run(settings, &two_domains(), seed, &mut events).unwrap();
    (measures, events)
}

#[test]
fn two_levels_book_within_what_there_is_and_refuse_where_too_much_was_shown() {
    let settings = settings(Lower::Word(Word::Domains));
    let (measures, events) = events(&settings, 1);
    let (mut capacities, mut changes) = (BTreeMap::new(), BTreeMap::<_, Vec<(i64, i64)>>::new());
    let (mut by_lower, mut reserved) = (0, 0);
    for event in &events {
        match event {
            TraceEvent::Resource { resource, capacity, .. } => {
                capacities.insert(resource.clone(), *capacity as i64);
            }
            TraceEvent::Reserved { resource, amount, start, end, .. } => {
                reserved += 1;
                let own = changes.entry(resource.clone()).or_default();
                own.extend([(*start, *amount as i64), (*end, -(*amount as i64))]);
            }
            TraceEvent::Refused { resource, .. } if resource.starts_with("grc-") => by_lower += 1,
            _ => {}
        }
    }
    assert!(reserved > 100, "{reserved}");
    for (resource, mut own) in changes {
        own.sort_unstable();
        let mut level = 0;
        for (_, change) in own {
            level += change;
            assert!(level <= capacities[&resource], "{resource} is overbooked: {level}");
        }
    }
    assert!(by_lower > 0, "the paths that are shown share edges");
    assert!(measures.get("holds_refused_lower").unwrap() > 0.0, "{measures:?}");
    assert_eq!(measures.get("holds_refused"), Some(0.0), "nobody else is faster: {measures:?}");
    assert!(measures.get("attempts_lower").unwrap() > 0.0, "{measures:?}");
}

#[test]
fn the_same_seed_gives_the_same_measures_and_events_on_two_levels() {
    let settings = settings(Lower::Word(Word::Domains));
    assert_eq!(events(&settings, 3), events(&settings, 3));
    assert_ne!(measured(&settings, 3), measured(&settings, 4));
}

#[test]
fn one_lower_coordinator_of_all_is_as_good_as_none_while_links_are_small() {
    let below = |lower| {
        let mut settings = settings(lower);
        settings.workload.rate_bps = 1_000_000;
        measured(&settings, 2)
    };
    let (flat, one) = (below(Lower::default()), below(groups(&[("all", &["a", "b"])])));
    let of = |name: &str| (flat.get(name).unwrap(), one.get(name).unwrap());
    for same in ["success", "success_at@20", "edges", "late_min", "load", "load_a0@100"] {
        assert_eq!(of(same).0.to_bits(), of(same).1.to_bits(), "{same}: {:?}", of(same));
    }
    assert!((0.1..0.9).contains(&of("success").0), "{flat:?}");
    // The same sites at the same times, but with one level more between them.
    assert!(of("messages").1 > of("messages").0 + 2.0 * 3.0, "{:?}", of("messages"));
    let (without, with) = of("answer_ms");
    assert!((without..3.5 * without).contains(&with), "{without} {with}");
    assert_eq!(flat.get("messages_upper"), Some(0.0));
}

#[test]
fn each_level_takes_its_time() {
    // One request: four delays for the queries on two levels, then planning. The hold takes two delays between
    // parent and child, two for the child's queries, the child's planning, and two between the child and its
    // RMs. The Commit takes two delays on each level.
    let mut settings = settings(groups(&[("all", &["a", "b"])]));
    settings.workload.requests = 1;
    let answer_ms = |settings: &Settings| measured(settings, 1).get("answer_ms").unwrap();
    let (asked, held, booked) = (4 * 5 + 10, 2 * 5 + 2 * 5 + 10 + 2 * 5, 4 * 5);
    assert!((answer_ms(&settings) - f64::from(asked + held + booked)).abs() < 1e-9);
    settings.lower = Lower::default();
    assert!((answer_ms(&settings) - f64::from(2 * 5 + 10 + 2 * 5 + 2 * 5)).abs() < 1e-9);
}

#[test]
fn whoever_asks_below_first_is_served_there_or_above() {
    let first =
        Settings { asked: RequestTarget::LowerFirst, ..settings(Lower::Word(Word::Domains)) };
    let (above, first) = (measured(&settings(Lower::Word(Word::Domains)), 5), measured(&first, 5));
    assert_eq!(above.get("by_lower"), Some(0.0));
    let by_lower = first.get("by_lower").unwrap();
    assert!((0.05..0.95).contains(&by_lower), "some have more sites than a domain: {by_lower}");
    let messages = (above.get("messages_upper").unwrap(), first.get("messages_upper").unwrap());
    assert!(messages.1 < messages.0, "{messages:?}");
}

#[test]
fn upper_coordinators_compete_for_lower_ones_with_every_planner_of_ours() {
    for planner in Solver::ALL.iter().filter(|solver| !solver.is_outside()).map(|one| one.name()) {
        let mut settings = settings(Lower::Word(Word::Domains));
        settings.planner = planner.to_owned();
        (settings.coordinators, settings.in_turn) = (3, true);
        (settings.planning_us, settings.workload.interarrival_s) = (1_000_000, 3.0);
        settings.workload.requests = 60;
        let measures = measured(&settings, 1);
        let success = measures.get("success").unwrap();
        assert!(success > 0.2, "{planner}: {success}");
        assert!(measures.get("holds_refused_lower").unwrap() > 0.0, "{planner}: {measures:?}");
    }
}

#[test]
fn groups_that_do_not_divide_the_federation_name_what_is_wrong() {
    let bad: [(&str, &str, Lower); 8] = [
        ("lower.g", "at least one", groups(&[("g", &[]), ("h", &["a", "b"])])),
        ("lower.g[0]", "a domain (a, b) or an RM (crm-a0", groups(&[("g", &["c"])])),
        ("lower.h[1]", "crm-b0 is in g", groups(&[("g", &["b"]), ("h", &["a", "crm-b0"])])),
        ("lower", "no group has crm-b0", groups(&[("g", &["a"])])),
        ("lower.grc-1", "no parent coordinator", groups(&[("grc-1", &["a", "b"])])),
        ("lower.nrm-a", "no resource manager", groups(&[("nrm-a", &["a", "b"])])),
        ("lower.no name", "1 to 128", groups(&[("no name", &["a", "b"])])),
        ("lower.g[1]", "crm-a0 is in g", groups(&[("g", &["a", "a"]), ("h", &["b"])])),
    ];
    for (field, says, lower) in bad {
        let error = match run(&settings(lower.clone()), &two_domains(), 1, &mut SilentTrace) {
            Err(ModelError::Setting(error)) => error,
            other => panic!("{lower:?}: {other:?}"),
        };
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().contains(says), "{says:?} is not in {error}");
    }
    let asked = Settings { asked: RequestTarget::LowerFirst, ..Settings::default() };
    let in_turn = Settings { in_turn: true, lower: Lower::Word(Word::Domains), ..asked.clone() };
    for settings in [asked, in_turn] {
        let error = settings.check().err();
        let error = error.or_else(|| levels::levels(&two_domains(), &settings).err()).unwrap();
        assert_eq!(error.field, "asked", "{error}");
    }
}

#[test]
fn a_coordinator_of_a_domain_has_a_name_that_nobody_else_has() {
    let mut topology = two_domains();
    let mut vertex = topology.vertices()[0].clone();
    vertex.name = VertexName::composed("a2");
    let compute = vertex.compute.as_mut().unwrap();
    (compute.rm, compute.resource) = (RmName::composed("grc-a"), ResourceId::composed("a2"));
    topology.add_vertex(vertex).unwrap();
    topology.add_edge(edge(&topology, "a2", "X", "a")).unwrap();
    let domains = settings(Lower::Word(Word::Domains));
    let error = run(&domains, &topology, 1, &mut SilentTrace).unwrap_err().to_string();
    assert!(error.contains("grc-a") && error.contains("no resource manager"), "{error}");
}

#[test]
fn domains_do_not_say_whose_a_network_between_them_is() {
    let mut topology = two_domains();
    topology.add_edge(edge(&topology, "a1", "b1", "between")).unwrap();
    let refused =
        |lower| run(&settings(lower), &topology, 1, &mut SilentTrace).unwrap_err().to_string();
    let error = refused(Lower::Word(Word::Domains));
    assert!(error.contains("nrm-between is not of one domain"), "{error}");
    let error = refused(groups(&[("g", &["a"]), ("h", &["b"])]));
    assert!(error.contains("no group has nrm-between"), "{error}");
    let by_name = settings(groups(&[("g", &["a", "nrm-between"]), ("h", &["b"])]));
    assert!(run(&by_name, &topology, 1, &mut SilentTrace).is_ok());
}

#[test]
fn what_is_shown_joins_all_sites_or_is_refused() {
    // b0 and X are joined by two edges whose middle is no end point, so routes of one edge cannot join them.
    let mut topology = Topology::new();
    let full = two_domains();
    for vertex in full.vertices() {
        topology.add_vertex(vertex.clone()).unwrap();
    }
    let name = VertexName::composed("inside");
    topology.add_vertex(Vertex::new(name, None, None)).unwrap();
    for known in full.edges().iter().filter(|edge| edge.name.as_str() != "b0-X") {
        topology.add_edge(known.clone()).unwrap();
    }
    topology.add_edge(edge(&topology, "b0", "inside", "b")).unwrap();
    topology.add_edge(edge(&topology, "inside", "X", "b")).unwrap();
    let mut settings = settings(Lower::Word(Word::Domains));
    assert!(run(&settings, &topology, 1, &mut SilentTrace).is_ok());
    settings.route_edges = 1;
    let error = run(&settings, &topology, 1, &mut SilentTrace).unwrap_err().to_string();
    assert!(error.contains("lower: no path that parents see leads to b"), "{error}");
}

#[test]
fn where_groups_meet_there_is_a_border() {
    let found = levels::levels(&two_domains(), &settings(Lower::Word(Word::Domains))).unwrap();
    let found = found.unwrap();
    let names: Vec<&str> = found.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["grc-a", "grc-b"]);
    // The paths of a: between each two of its two sites and X. The same for b.
    let paths: Vec<usize> = found.groups.iter().map(|group| group.shown.paths().len()).collect();
    assert_eq!((paths, found.parent_topology.edges().len()), (vec![3, 3], 6));
    let sites: Vec<&str> = found.parent_topology.sites().map(|(_, v, _)| v.name.as_str()).collect();
    assert_eq!(sites, ["a0", "a1", "b0", "b1"]);
}

/// Storage at every site, and some of it wanted at each: it is booked within what there is, on one level of
/// coordinators and on two, and it is what limits a day.
#[test]
fn storage_is_booked_beside_cpus_and_limits_the_day() {
    let storage = ResourceKind::Storage;
    let mut topology = Topology::new();
    for vertex in two_domains().vertices() {
        let mut vertex = vertex.clone();
        if vertex.compute.is_some() {
            let resource = storage.resource_at("name", vertex.name.as_str()).unwrap();
            let own = SiteResource { resource, capacity: Amount(100), unit_value: UnitValue(1) };
            vertex.others.insert(storage, own);
        }
        topology.add_vertex(vertex).unwrap();
    }
    for edge in two_domains().edges() {
        topology.add_edge(edge.clone()).unwrap();
    }
    for lower in [Lower::Word(Word::None), Lower::Word(Word::Domains)] {
        let success = |wanted: u64| {
            let mut settings = settings(lower.clone());
            if wanted > 0 {
                settings.workload.others.insert(storage, wanted);
            }
            let mut events: Vec<TraceEvent<'static>> = Vec::new();
            let measures = run(&settings, &topology, 1, &mut events).unwrap();
            let of_storage = |event: &&TraceEvent<'_>| {
                matches!(event, TraceEvent::Reserved { resource, .. }
                    if resource.ends_with(":storage") && !resource.starts_with("grc-"))
            };
            (measures.get("success").unwrap(), events.iter().filter(of_storage).count())
        };
        let (free, none) = success(0);
        let (little, some) = success(1);
        let (much, few) = success(100);
        assert_eq!((none, free.to_bits()), (0, little.to_bits()), "1 GB of 100 is never short");
        assert!(some > few && few > 0, "{some}, {few}");
        assert!(much < little, "{much} of {little}: one request at a time fills a site");
        assert!(success(101).0 < 0.001, "more than any site has");
    }
}
