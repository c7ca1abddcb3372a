//! Every example in `docs/examples` is planned offline, and gives what its comments promise.

use std::path::Path;

use coalloc_plan::Solver;

use super::*;
use crate::kit::request::{ObjectiveArg, SearchArgs, TermFlags};
use crate::kit::request_flags::RequestFlags;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(name)
}

fn elgl() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/federations/elgl.yaml")
}

fn request(name: &str) -> RequestArgs {
    RequestArgs {
        request: Some(example(name)),
        parts: RequestFlags::default(),
        terms: TermFlags::default(),
        search: SearchArgs::default(),
    }
}

fn planned(federation: PathBuf, request: RequestArgs) -> Result<(v1::PlanResponse, Exit), Failure> {
    let args = PlanArgs {
        request,
        federation: Some(federation),
        grc: GrcArgs::default(),
        planner: None,
        slots: SlotArgs::default(),
        full: false,
        json: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(run(&args))?;
    Ok((serde_json::from_str(&answer.text).unwrap(), answer.exit))
}

/// The sites that a plan uses, in the request's order.
fn sites(plan: &v1::Plan) -> Vec<&str> {
    plan.placements.iter().map(|placement| placement.at.as_str()).collect()
}

#[test]
fn two_sites_on_the_papers_federation() {
    let (response, exit) = planned(elgl(), request("two-sites.yaml")).unwrap();
    assert_eq!((exit, response.plans.len(), response.refused.len()), (Exit::Done, 1, 0));
    let plan = &response.plans[0];
    // 8 CPUs at 1 point, and one path inside a domain at 5 points per Gbit/s.
    assert_eq!((plan.cost_millipoints, plan.proven_optimal), (13_000, true));
    let start = text::time(plan.window.as_ref().unwrap().start.as_ref()).unwrap();
    assert_eq!(start.as_us() % 60_000_000, 0, "the next full minute");
    let text = describe(&response, &ParsedRequest::default());
    assert!(text.contains("(1 h), cost 13 points, proven optimal"), "{text}");
    assert!(text.ends_with("1 plan; nothing is reserved\n"), "{text}");
}

#[test]
fn slack_gives_one_plan_a_frame_earliest_first() {
    let slack = RequestArgs {
        terms: TermFlags {
            earliest_start: Some("now+2h".parse().unwrap()),
            latest_start: Some("now+5h".parse().unwrap()),
            ..TermFlags::default()
        },
        search: SearchArgs { frames: Some(4), ..SearchArgs::default() },
        ..request("two-sites.yaml")
    };
    let (response, _) = planned(elgl(), slack).unwrap();
    let start = |plan: &v1::Plan| text::time(plan.window.as_ref()?.start.as_ref());
    let starts: Vec<_> = response.plans.iter().filter_map(start).collect();
    assert_eq!(starts.len(), 4);
    assert!(starts.windows(2).all(|pair| pair[1].since(pair[0]) == Span::from_secs(3_600)));
}

#[test]
fn a_triangle_of_three_sites() {
    let (response, exit) = planned(elgl(), request("three-sites-triangle.json")).unwrap();
    assert_eq!((exit, response.plans.len()), (Exit::Done, 10));
    for plan in &response.plans {
        assert!(!sites(plan)[1].eq("U2"), "excluded");
        assert_eq!(plan.routes.len(), 3);
        assert!(plan.proven_optimal);
    }
}

#[test]
fn a_pinned_site_with_a_latency_bound_waits_for_maintenance_and_a_busy_path() {
    let federation = || example("small-federation.yaml");
    let (response, exit) = planned(federation(), request("pinned-and-latency.yaml")).unwrap();
    assert_eq!(exit, Exit::Done);
    // `center` is taken until ten, and the path to `hpc` until twelve.
    assert_eq!((response.plans.len(), response.refused.len()), (7, 3));
    let first = &response.plans[0];
    assert_eq!(sites(first), ["plant", "center"]);
    assert_eq!(text::window(first.window.as_ref()), "2027-02-01 10:00 to 12:00 UTC");
    assert_eq!(first.routes[0].latency, first.routes[1].latency);
    let text = describe(&response, &ParsedRequest::default());
    assert!(text.contains("plant -> center (by plant-center, 500 us)"), "{text}");
    assert!(text.contains("3 time frames have no plan:"), "{text}");
}

#[test]
fn a_pair_waits_until_its_only_other_site_is_free() {
    let federation = || example("small-federation.json");
    let (response, _) = planned(federation(), request("pair-after-noon.json")).unwrap();
    assert_eq!(response.plans.len() + response.refused.len(), 10);
    let first = text::window(response.plans[0].window.as_ref());
    assert_eq!(first, "2027-02-01 12:00 to 12:30 UTC");
    assert_eq!(response.plans[0].cost_millipoints, 4_000 + 8_000 + 1_000);
    // Without the slack there is no plan at all, and the exit code says so.
    let exact = RequestArgs {
        terms: TermFlags {
            latest_start: Some("2027-02-01T09:00:00Z".parse().unwrap()),
            ..TermFlags::default()
        },
        ..request("pair-after-noon.json")
    };
    let (response, exit) = planned(federation(), exact).unwrap();
    assert_eq!((exit, response.plans.len(), response.refused.len()), (Exit::Refused, 0, 1));
}

#[test]
fn who_looks_at_the_price_waits_for_the_night() {
    let federation = || example("priced-federation.yaml");
    let asked = |objective: &[ObjectiveArg]| RequestArgs {
        search: SearchArgs {
            frames: Some(13),
            plans: Some(3),
            objective: objective.to_vec(),
            ..SearchArgs::default()
        },
        ..request("some-day.yaml")
    };
    let price = |plan: &v1::Plan| {
        let of_price = |value: &&v1::ObjectiveValue| value.objective() == v1::Objective::Price;
        plan.values.iter().find(of_price).unwrap().value
    };
    let (early, _) = planned(federation(), asked(&[])).unwrap();
    assert_eq!(text::window(early.plans[0].window.as_ref()), "2027-03-01 00:00 to 02:00 UTC");
    // 64 CPUs for two hours of Denver's afternoon, and a path inside a domain for 0.25 an hour.
    assert_eq!(price(&early.plans[0]), 64 * 2 * 1_800 + 2 * 250);
    let (cheap, exit) = planned(federation(), asked(&[ObjectiveArg::Price])).unwrap();
    assert_eq!((exit, cheap.plans.len()), (Exit::Done, 3));
    // This is 19:00 in Denver.
    assert_eq!(text::window(cheap.plans[0].window.as_ref()), "2027-03-01 02:00 to 04:00 UTC");
    assert_eq!(price(&cheap.plans[0]), 64 * 2 * 500 + 2 * 250);
    assert!(cheap.plans.iter().map(price).is_sorted());
}

#[test]
fn an_inner_network_is_planned_by_its_disclosed_paths() {
    for name in ["inner-lab-dc.yaml", "inner-lab-hub.yaml"] {
        let asked = match name {
            "inner-lab-dc.yaml" => request("inner-lab-dc.yaml"),
            _ => request("inner-lab-hub.yaml"),
        };
        let (response, exit) = planned(example("inner-ring.yaml"), asked).unwrap();
        assert_eq!(exit, Exit::Done, "{name}");
        let paths: Vec<&String> =
            response.plans[0].routes.iter().flat_map(|route| &route.paths).collect();
        assert!(paths.iter().all(|path| path.starts_with("lab-")), "{paths:?}");
    }
}

#[test]
fn a_request_beyond_the_federation_is_refused_with_what_there_is() {
    let (response, exit) = planned(elgl(), request("too-large.yaml")).unwrap();
    assert_eq!((exit, response.plans.len()), (Exit::Refused, 0));
    let refusal = response.refused[0].refusal.as_ref().unwrap();
    assert_eq!(refusal.reason(), v1::Reason::BeyondCapacity);
    assert!(refusal.detail.contains("64"), "the largest site is named: {}", refusal.detail);
}

#[test]
fn what_is_pinned_to_two_domains_goes_by_where_they_meet() {
    let (response, _) = planned(elgl(), request("across-domains.yaml")).unwrap();
    let plan = &response.plans[0];
    let at: Vec<&str> = plan.placements.iter().map(|placement| placement.at.as_str()).collect();
    assert_eq!(
        (at, &plan.routes[0].via[..]),
        (vec!["N3", "U2"], &["N3", "X1", "U2"].map(String::from)[..])
    );
}

#[test]
fn both_solvers_agree_on_what_is_cheapest() {
    let cost = |solver| {
        let search = SearchArgs { solver: Some(solver), ..SearchArgs::default() };
        let args = RequestArgs { search, ..request("pinned-and-latency.yaml") };
        let (response, _) = planned(example("small-federation.yaml"), args).unwrap();
        response.plans.iter().map(|plan| plan.cost_millipoints).collect::<Vec<_>>()
    };
    assert_eq!(cost(Solver::Exact), cost(Solver::Mip));
    let (cheapest, first) = (cost(Solver::Exact), cost(Solver::Backtrack));
    assert_eq!(cheapest.len(), first.len(), "what can be planned, backtrack plans");
    assert!(cheapest.iter().zip(&first).all(|(cheapest, first)| cheapest <= first));
}

/// The example of the guide: until noon the path between the first two sites is taken.
#[test]
fn baselines_take_what_they_find_first_and_one_of_them_misses_what_needs_other_computers() {
    let plan = |solver| {
        let mut args = request("baselines/pair.yaml");
        args.search.solver = Some(solver);
        args.search.frames = Some(5);
        let (response, exit) = planned(example("baselines/federation.yaml"), args).unwrap();
        assert_eq!(exit, Exit::Done);
        response
    };
    let at =
        |plan: &v1::Plan| crate::kit::text::instant(plan.window.as_ref().unwrap().start.as_ref());
    let first = |response: &v1::PlanResponse| {
        let plan = &response.plans[0];
        (at(plan), sites(plan).join(" "), plan.cost_millipoints / 1_000, plan.solver.clone())
    };
    let exact = plan(Solver::Exact);
    let nine = "2027-02-01T09:00:00Z".to_owned();
    let row = |at: &str, places: &str, cost, solver: &str| {
        (at.to_owned(), places.to_owned(), cost, solver.to_owned())
    };
    assert_eq!(first(&exact), row(&nine, "cora dora", 18, "exact"));
    assert_eq!((exact.plans.len(), exact.refused.len()), (5, 0));
    let backtrack = plan(Solver::Backtrack);
    assert_eq!(first(&backtrack), row(&nine, "bela cora", 34, "backtrack"));
    assert_eq!((backtrack.plans.len(), backtrack.refused.len()), (5, 0));
    let slid = plan(Solver::SlidingWindow);
    let noon = "2027-02-01T12:00:00Z";
    assert_eq!(first(&slid), row(noon, "anna bela", 20, "sliding-window"));
    // At one o'clock the request fits as well, but that frame is no longer tried.
    assert_eq!((slid.plans.len(), slid.refused.len()), (1, 3));
    let why = &slid.refused[0].refusal.as_ref().unwrap().detail;
    assert!(why.contains("chosen first (a at anna, b at bela)"), "{why}");
}

#[test]
fn a_site_has_cpus_and_storage() {
    let federation = || example("storage-federation.yaml");
    let (response, exit) = planned(federation(), request("store-a-run.yaml")).unwrap();
    assert_eq!((exit, response.plans.len()), (Exit::Done, 1));
    let plan = &response.plans[0];
    assert_eq!(sites(plan), ["farm", "disk"]);
    // 68 CPUs at 1 point, 1500 GB at 2 points, 1 Gbit/s on two paths at 1 point.
    assert_eq!((plan.cost_millipoints, plan.proven_optimal), (3_070_000, true));
    let storage = plan.segments.iter().find(|segment| segment.resource == "disk:storage").unwrap();
    assert_eq!((storage.amount, storage.resource_manager.as_str()), (1_500, "crm-store"));
    let text = describe(&response, &ParsedRequest::default());
    assert!(text.contains("4 CPUs, 1500 GB of storage  at disk"), "{text}");

    let (response, exit) = planned(federation(), request("store-too-much.yaml")).unwrap();
    assert_eq!((exit, response.plans.len()), (Exit::Refused, 0));
    let refusal = response.refused[0].refusal.as_ref().unwrap();
    assert_eq!((refusal.reason(), refusal.transient), (v1::Reason::BeyondCapacity, false));
    assert_eq!(refusal.resource, "disk:storage");
    let text = describe(&response, &ParsedRequest::default());
    let facts = "site disk for keep: 3000 GB of storage needed, 2000 GB of storage there, \
                 1000 GB of storage short";
    assert!(text.contains(facts), "{text}");
    assert!(text.contains("2000 GB of storage for keep instead of 3000"), "{text}");
}

#[test]
fn a_further_kind_that_is_wrong_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(example("store-a-run.yaml")).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("keep, cpus")).unwrap();
    let cases = [
        ("kind: storage", "kind: storag", "others[0].kind: \"storag\" is not allowed"),
        ("amount: 1500", "amount: 0", "others[0].amount: 0 is not allowed; allowed: 1 to 10000"),
        ("1500}", "1500}, {kind: storage, amount: 2}", "others[1].kind: storage is not allowed"),
    ];
    for (good, bad, expected) in cases {
        let path = folder.path().join("request.yaml");
        std::fs::write(&path, text.replacen(good, bad, 1)).unwrap();
        let args = RequestArgs { request: Some(path), ..request("x") };
        let failure = planned(example("storage-federation.yaml"), args).unwrap_err();
        let place = format!("request.yaml:{line}: sites[1].{expected}");
        assert!(failure.message.contains(&place), "{failure}, not {place}");
    }
}

/// The federation of the example, with this taken from it.
fn with_taken(folder: &Path, taken: &str) -> PathBuf {
    let text = std::fs::read_to_string(example("storage-federation.yaml")).unwrap();
    let path = folder.join("federation.yaml");
    std::fs::write(&path, format!("{text}\ntaken:\n{taken}")).unwrap();
    path
}

#[test]
fn parts_have_windows_of_their_own_within_the_request() {
    let request = || request("stage-in-and-run.yaml");
    let (response, exit) = planned(example("storage-federation.yaml"), request()).unwrap();
    assert_eq!((exit, response.plans.len()), (Exit::Done, 1));
    let plan = &response.plans[0];
    assert_eq!(sites(plan), ["farm", "disk"]);
    let hours = |window: Option<&v1::Window>| {
        let hour = |time: &Option<coalloc_proto::Timestamp>| time.unwrap().seconds / 3_600 % 24;
        window.map(|window| (hour(&window.start), hour(&window.end))).unwrap()
    };
    let segments: Vec<(&str, u64, (i64, i64))> = plan
        .segments
        .iter()
        .map(|one| (one.resource.as_str(), one.amount, hours(one.window.as_ref())))
        .collect();
    let expected = [
        ("farm", 1, (9, 10)),
        ("disk", 8, (10, 12)),
        ("disk:storage", 500, (9, 0)),
        ("farm-ix", 2_000_000_000, (9, 10)),
        ("disk-ix", 2_000_000_000, (9, 10)),
    ];
    assert_eq!(segments, expected);
    let text = describe(&response, &ParsedRequest::default());
    for line in [
        "run          8 CPUs             at disk, 2027-03-01 10:00 to 12:00 UTC\n",
        "run          500 GB of storage  at disk\n",
        "(by farm-ix, disk-ix, 3 ms), 2027-03-01 09:00 to 10:00 UTC\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let taken = |resource_manager: &str, resource: &str, amount: u64, start: &str, end: &str| {
        let line = format!(
            "  - {{resource_manager: {resource_manager}, resource: {resource}, amount: {amount}, window: \
             {{start: 2027-03-01T{start}Z, end: 2027-03-01T{end}Z}}}}\n"
        );
        planned(with_taken(folder.path(), &line), request()).unwrap()
    };
    // Beside the windows of its parts, others may have everything but the storage.
    for (rm, resource, amount, start, end) in [
        ("nrm-store", "disk-ix", 10_000_000_000, "10:00:00", "23:00:00"),
        ("crm-store", "disk", 8, "12:00:00", "23:00:00"),
        ("crm-store", "disk", 8, "09:00:00", "10:00:00"),
        ("crm-store", "disk:storage", 1_500, "09:00:00", "23:00:00"),
    ] {
        let (response, exit) = taken(rm, resource, amount, start, end);
        assert_eq!(exit, Exit::Done, "{resource} from {start} to {end}");
        assert_eq!(sites(&response.plans[0]), ["farm", "disk"]);
    }
    // What is taken within the window of a part is refused by the name of the part, and by its window.
    let (response, exit) = taken("nrm-store", "disk-ix", 9_000_000_000, "09:30:00", "09:40:00");
    assert_eq!(exit, Exit::Refused);
    let refusal = response.refused[0].refusal.as_ref().unwrap();
    assert_eq!(hours(refusal.window.as_ref()), (9, 10));
    assert!(refusal.detail.contains("data-run"), "{}", refusal.detail);
    // The path is free from 9:40 on, which is when the first window begins that fits.
    let nearest = response.alternatives.unwrap().nearest_window.unwrap();
    assert_eq!(nearest.start.unwrap().seconds % 86_400, 9 * 3_600 + 40 * 60);
}

/// The path of the other site with storage is too narrow, and the run begins an hour after the start. So the nearest
/// start is an hour before its CPUs become free.
#[test]
fn the_nearest_window_counts_back_from_the_windows_of_parts() {
    let folder = tempfile::tempdir().unwrap();
    let taken = "  - {resource_manager: crm-store, resource: disk, amount: 4, window: \
                 {start: 2027-03-01T09:30:00Z, end: 2027-03-01T13:30:00Z}}\n";
    let federation = with_taken(folder.path(), taken);
    let (response, exit) = planned(federation, request("stage-in-and-run.yaml")).unwrap();
    assert_eq!(exit, Exit::Refused, "{response:?}");
    let found = response.alternatives.unwrap();
    let nearest = found.nearest_window.unwrap();
    assert_eq!(nearest.start.unwrap().seconds % 86_400, 12 * 3_600 + 30 * 60);
    let smaller: Vec<&str> = found.smaller.iter().map(|one| one.change.as_str()).collect();
    assert_eq!(smaller[0], "4 CPUs for run instead of 8");
    let kept = found.smaller[0].request.as_ref().unwrap();
    assert_eq!(kept.sites[1].offset.map(|offset| offset.seconds), Some(3_600));
    assert_eq!(kept.sites[1].others[0].offset.map(|offset| offset.seconds), Some(0));
}

#[test]
fn a_window_of_a_part_that_is_wrong_is_named_with_its_range() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(example("stage-in-and-run.yaml")).unwrap();
    let cases = [
        ("offset: 3600s", "offset: -1s", "sites[1].offset: -1", "0 s to 14 h 59 min 59 s"),
        ("offset: 3600s", "offset: 54000s", "sites[1].offset: 15 h", "0 s to 14 h 59 min 59 s"),
        ("length: 7200s", "length: 0s", "sites[1].length: 0 s", "1 s to 14 h"),
        ("length: 7200s", "length: 50401s", "sites[1].length: 14 h 1 s", "1 s to 14 h"),
        ("offset: 0s", "offset: 20h", "others[0].offset", ""),
        (
            "2000000000, length: 3600s",
            "2000000000, length: 99999999999s",
            "links[0].length",
            "1 s to 15 h",
        ),
    ];
    for (good, bad, field, allowed) in cases {
        let path = folder.path().join("request.yaml");
        assert!(text.contains(good), "{good}");
        std::fs::write(&path, text.replacen(good, bad, 1)).unwrap();
        let args = RequestArgs { request: Some(path), ..request("x") };
        let failure = planned(example("storage-federation.yaml"), args).unwrap_err();
        assert!(failure.message.contains(field) && failure.message.contains(allowed), "{failure}");
    }
}

#[test]
fn every_example_is_used_here() {
    let mut names: Vec<String> = std::fs::read_dir(example(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end != "md" && end != "jsonl"))
        .collect();
    names.sort();
    let source = include_str!("tests.rs");
    for name in names {
        assert!(source.contains(&format!("(\"{name}\")")), "no test plans {name}");
    }
}

#[test]
fn mistakes_of_sense_name_file_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let text = std::fs::read_to_string(example("two-sites.yaml")).unwrap();
    let line =
        |text: &str, part: &str| 1 + text.lines().position(|line| line.contains(part)).unwrap();
    let of_request = [
        ("cpus: 4}", "cpus: 0}", "sites[0].cpus: 0 is not allowed; allowed: 1 to 10000000 CPUs"),
        ("to: b", "to: z", "links[0].to: \"z\" is not allowed"),
        ("name: b", "pinned_to: X1, name: b", "sites[1].pinned_to: \"X1\" is not allowed"),
        ("3600s", "-3600s", "duration: "),
    ];
    for (good, bad, expected) in of_request {
        let path = write("request.yaml", &text.replacen(good, bad, 1));
        let failure =
            planned(elgl(), RequestArgs { request: Some(path), ..request("x") }).unwrap_err();
        let place = format!("request.yaml:{}: {expected}", line(&text, good));
        assert!(failure.message.contains(&place), "{failure}, not {place}");
        assert_eq!(failure.exit, Exit::BadInput);
    }
    let text = std::fs::read_to_string(example("small-federation.yaml")).unwrap();
    let of_federation = [
        ("cpus: 512", "cpus: 0", "computes[1].sites[0].cpus: 0 is not allowed"),
        ("a: archive, b: ix", "a: archive, b: moon", "networks[1].paths[1].b: moon is not allowed"),
        ("amount: 32", "amount: 33", "taken[0].amount: 33 is not allowed; allowed: at most 32"),
    ];
    for (good, bad, expected) in of_federation {
        let path = write("federation.yaml", &text.replacen(good, bad, 1));
        let failure = planned(path, request("two-sites.yaml")).unwrap_err();
        let place = format!("federation.yaml:{}: {expected}", line(&text, good));
        assert!(failure.message.contains(&place), "{failure}, not {place}");
    }
}

#[test]
fn a_gap_is_said_in_percent_and_never_looks_closed() {
    let headline = |lower_bound_millipoints| {
        headline(&v1::Plan {
            cost_millipoints: 80_000,
            lower_bound_millipoints,
            ..Default::default()
        })
    };
    assert!(
        headline(60_000).ends_with("no plan costs less than 60 (gap 25.00 %)"),
        "{}",
        headline(60_000)
    );
    assert!(headline(79_999).ends_with("(gap 0.01 %)"), "{}", headline(79_999));
}
