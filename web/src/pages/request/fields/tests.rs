//! The fields of a request: what is read from them, and what is said of those that cannot be read.

use coalloc_net::convert::request_from_wire;

use super::*;

const NOW: Time = Time::from_us(1_795_244_025_250_000); // 2026-11-21T06:53:45.25Z

fn read(query: &str) -> (RequestFields, Result<ParsedFields, Mistakes>) {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let fields = RequestFields::of(pairs.iter().map(|(name, value)| (&**name, &**value)));
    let parsed = fields.read(NOW);
    (fields, parsed)
}

const PAIR: &str = "site=a&cpus=4&others=storage%3D2TB&place=N0&site=&cpus=&site=b&cpus=8&from=a&to=b&rate=2G&latency=5ms\
                    &for=1h30&after=tomorrow+9:00&zone=Europe/Berlin&first=price&solver=exact&frames=7&manual=yes";

#[test]
fn what_is_typed_is_the_request_of_the_same_flags() {
    let (_, parsed) = read(PAIR);
    let parsed = parsed.unwrap();
    let request = &parsed.request;
    assert_eq!((request.sites.len(), request.links.len()), (2, 1));
    assert_eq!(request.sites[0].pinned_to.as_deref(), Some("N0"));
    assert_eq!(request.sites[0].others[0].amount, 2_000);
    assert_eq!(request.links[0].bandwidth_bps, 2_000_000_000);
    let at = |wire| time_from_wire("", Option::as_ref(&wire).unwrap()).unwrap().to_string();
    assert_eq!(at(request.earliest_start), "2026-11-22T08:00:00Z");
    assert_eq!(at(request.latest_start), "2026-11-23T08:00:00Z");
    assert_eq!(parsed.readings, ["tomorrow 9:00 is Sun 2026-11-22 09:00 CET"]);
    assert_eq!(parsed.options.objectives, [i32::from(v1::Objective::Price)]);
    assert_eq!((parsed.options.frames, request.manual_provision), (Some(7), Some(true)));
    assert!(request_from_wire(request, NOW).is_ok());
    // Without times it is as soon as possible, like on the command line.
    let (_, parsed) = read("site=a&cpus=1&for=1h");
    assert_eq!(at(parsed.unwrap().request.earliest_start), "2026-11-21T06:55:00Z");
}

#[test]
fn with_fixed_times_the_same_request_is_read_at_any_time() {
    let later = NOW.saturating_add(Span::from_secs(77));
    for query in
        [PAIR, "site=a&cpus=1&for=0.5s", "site=a&cpus=1&for=1h&after=%2B2h&before=now%2B9h"]
    {
        let (fields, parsed) = read(query);
        let parsed = parsed.unwrap();
        let fixed = fields.fixed(&parsed);
        let again = fixed.read(later).unwrap();
        assert_eq!((again.request, again.options), (parsed.request, parsed.options), "{query}");
        // Through the pairs, which a page carries.
        assert_eq!(RequestFields::of(fixed.pairs()).fixed(&fixed.read(later).unwrap()), {
            let mut fixed = fixed.clone();
            fixed.sites.retain(|row| !row.is_blank());
            fixed
        });
    }
}

#[test]
fn a_mistake_stands_at_its_input_and_says_what_is_allowed() {
    let cases = [
        ("for=1h", "sites", "needed: 1 to 32 sites"),
        ("site=a&for=1h", "site-0-cpus", "needed: 1 to 10000000 CPUs"),
        ("site=a&cpus=4&site=&cpus=x&for=1h", "site-1-cpus", "`x` is no whole number; allowed: "),
        ("site=&cpus=4&for=1h", "site-0-name", "needed: a name"),
        ("site=a&cpus=99999999999999999999999&for=1h", "site-0-cpus", "allowed: 1 to 10000000"),
        ("site=a&cpus=-1&for=1h", "site-0-cpus", "`-1` is no whole number"),
        (
            "site=a&cpus=1&others=gpu%3D1&for=1h",
            "site-0-others",
            "a further kind of resource: storage",
        ),
        ("site=a&cpus=1&for=", "for", "allowed: a length"),
        ("site=a&cpus=1&for=0s", "for", "it is zero"),
        ("site=a&cpus=1&for=1h&after=soon", "after", "`soon` is no time of day"),
        ("site=a&cpus=1&for=1h&after=6:00&zone=CST", "zone", "several meanings"),
        ("site=a&cpus=1&for=2h&after=%2B1h&before=%2B2h", "before", "cannot end at"),
        ("site=a&cpus=1&for=1h&from=a&rate=2", "link-0-rate", "write `2M` for Mbit/s"),
        ("site=a&cpus=1&for=1h&from=a&rate=2G", "link-0-to", "needed: the name of a site"),
        ("site=a&cpus=1&for=1h&from=a&to=b&rate=7bit/s", "link-0-rate", "hardly meant"),
        ("site=a&cpus=1&for=1h&first=beauty", "first", "`beauty` is no objective"),
        ("site=a&cpus=1&for=1h&name=a+b", "name", "\"a b\" is not allowed; allowed: 1 to 128"),
        ("site=a&cpus=1&for=1h&frames=many", "frames", "allowed: 1 to 256"),
    ];
    for (query, input, part) in cases {
        let mistakes = read(query).1.unwrap_err();
        let said = mistakes.of(input);
        assert!(said.is_some_and(|said| said.contains(part)), "{query}: {mistakes:?}");
    }
    // All of them at once.
    let mistakes = read("site=a&cpus=x&for=1&after=soon&from=a&rate=1").1.unwrap_err();
    assert_eq!(mistakes.0.len(), 5, "{mistakes:?}");
}

#[test]
fn a_field_of_the_request_belongs_to_the_row_that_was_typed() {
    let parsed = read(PAIR).1.unwrap();
    let cases = [
        ("request.sites[1].cpus", "site-2-cpus"),
        ("sites[0].others[0].amount", "site-0-others"),
        ("request.sites[1].pinned_to", "site-2-place"),
        ("links[0].bandwidth_bps", "link-0-rate"),
        ("links[7].bandwidth_bps", "form"),
        ("request.duration", "for"),
        ("options.objectives[1]", "second"),
        ("options.solver", "solver"),
        ("plan_digest", "form"),
    ];
    for (field, input) in cases {
        assert_eq!(parsed.input_of(field), input, "{field}");
    }
}

#[test]
fn rows_beyond_what_a_request_may_have_are_counted_and_left_out() {
    let rows = |count: usize| "site=a&cpus=1&".repeat(count) + "for=1h";
    let bounded = |query: &str| {
        let mut fields = read(query).0;
        let mistakes = fields.bounded();
        (fields.sites.len(), mistakes)
    };
    assert_eq!(bounded(&rows(32)), (32, Mistakes::default()));
    let (kept, mistakes) = bounded(&rows(300));
    assert_eq!(kept, 32);
    assert!(mistakes.of("sites").unwrap().starts_with("300 are not allowed; allowed: 1 to 32"));
    // Rows that are blank do not count.
    assert_eq!(bounded(&("site=&cpus=&".repeat(300) + "site=a&cpus=1")), (1, Mistakes::default()));
}

#[test]
fn a_smaller_request_and_a_later_one_fill_the_form() {
    let (fields, parsed) = read(PAIR);
    let mut request = parsed.unwrap().request;
    request.sites[0].cpus = 3;
    let smaller = fields.with_request(&request);
    assert_eq!(smaller.read(NOW).unwrap().request, request);
    assert_eq!((smaller.solver.as_str(), smaller.manual.as_str()), ("exact", "yes"));
    let start = Time::from_us(1_795_262_400_000_000);
    let later = fields.starting(start).read(NOW).unwrap().request;
    assert_eq!(later.earliest_start, Some(time_to_wire(start)));
    assert_eq!(later.latest_start, later.earliest_start);
    assert!(
        fields.address().starts_with("/request?site=a&cpus=4&others=storage%3D2TB&place=N0&site=b")
    );
}
