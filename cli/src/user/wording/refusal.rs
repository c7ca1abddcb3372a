//! How a refusal is shown to people: what the bottleneck is and by how much it falls short, frame by frame,
//! and what would be possible instead.

use std::fmt::Write as _;

use coalloc_common::{ResourceKind, Span, Time};
use coalloc_net::convert::window_from_wire;
use coalloc_net::written::show_kind_and_amount;
use coalloc_proto::v1;

use super::plan::{body, headline};
use crate::kit::text;

/// How many names a line lists before it only counts the rest.
const NAMES_SHOWN: usize = 8;

/// Placeholder for the window in a sentence.
const HERE: &str = "\u{0}";

/// Frames without a plan; neighbouring frames that were refused for the same reason share one entry.
#[must_use]
pub fn frames(refused: &[v1::RefusedFrame]) -> String {
    let mut out = String::new();
    let mut rest = refused;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|other| reason(other) == reason(first)).count();
        let window = text::window(first.window.as_ref());
        let more = match same {
            1 => String::new(),
            2 => " and the next frame".to_owned(),
            more => format!(" and the {} next frames", more - 1),
        };
        let why = first.refusal.as_ref().map_or_else(
            || "no reason given".to_owned(),
            |refusal| {
                // The line begins with the window, so the sentence need not repeat it.
                let sentence = text::refusal_with(refusal, |_| HERE.to_owned());
                let shown = sentence.replace(&format!(" in {HERE}"), "");
                let shown = shown.replace(HERE, if same > 1 { "each" } else { "it" });
                shown + &numbers(refusal)
            },
        );
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "  {window}{more}: {why}");
        rest = &rest[same..];
    }
    out
}

/// The reason for which a frame was refused, apart from its time.
fn reason(frame: &v1::RefusedFrame) -> Option<(String, Option<&v1::Bottleneck>)> {
    let refusal = frame.refusal.as_ref()?;
    Some((text::refusal_with(refusal, |_| String::new()), refusal.bottleneck.as_ref()))
}

/// The facts behind a sentence, on separate lines: the bottleneck and the NSI error.
#[must_use]
pub fn numbers(refusal: &v1::Refusal) -> String {
    let mut out = String::new();
    if let Some(bottleneck) = &refusal.bottleneck {
        let _ = write!(out, "\n    binds: {}", self::bottleneck(bottleneck));
    }
    if !refusal.nsi_error.is_empty() {
        let separator = if refusal.bottleneck.is_some() { "; " } else { "\n    " };
        let _ = write!(out, "{separator}NSI error {}", refusal.nsi_error);
    }
    out
}

/// The bottleneck: what asks, for which resource, and by how much it falls short.
#[must_use]
pub fn bottleneck(found: &v1::Bottleneck) -> String {
    use v1::BottleneckKind as K;
    let show = |amount: u64| match found.kind() {
        K::Site => text::amount_of(&found.resource_kind, amount),
        K::Sites => text::count(amount as usize, "site"),
        K::Length => text::count(amount as usize, "path"),
        K::Latency => Span::from_us(i64::try_from(amount).unwrap_or(i64::MAX)).to_string(),
        K::Unspecified | K::Path | K::Paths | K::Cut | K::Packing | K::Combination => {
            text::rate(amount)
        }
    };
    let kind = match found.kind() {
        K::Site => "site",
        K::Sites => "sites too small",
        K::Path => "path",
        K::Paths => "paths",
        K::Cut => "cut",
        K::Packing => "cut (links are not split)",
        K::Length => "length",
        K::Latency => "latency",
        K::Combination => "combination",
        K::Unspecified => "bottleneck",
    };
    let (requested, available) = (show(found.requested), show(found.available));
    let short = show(found.requested.saturating_sub(found.available));
    let kind = match (found.kind(), found.resource_kind.as_str()) {
        (K::Sites, short) if !short.is_empty() => format!("sites with too little {short}"),
        _ => kind.to_owned(),
    };
    let resources = match found.resources.len() {
        0 => String::new(),
        _ => format!(" {}", names(&found.resources)),
    };
    let numbers = match found.kind() {
        K::Length | K::Latency => format!("{requested} needed, {available} allowed"),
        _ => format!("{requested} needed, {available} there, {short} short"),
    };
    format!("{kind}{resources} for {}: {numbers}", names(&found.demands))
}

fn names(all: &[String]) -> String {
    if all.len() <= NAMES_SHOWN {
        return text::enumerate(all);
    }
    let rest = all.len() - NAMES_SHOWN;
    format!("{} and {rest} more", all[..NAMES_SHOWN].join(", "))
}

/// What would be possible instead of a request, `asked` if flags alone have made it.
#[must_use]
pub fn alternatives(found: &v1::Alternatives, asked: Option<&v1::CoAllocationRequest>) -> String {
    instead(found, asked, &|start| format!("--earliest-start {start} --latest-start {start}"))
}

/// What would be possible instead of a change of a reservation, which was last asked for as `booked`.
#[must_use]
pub fn alternatives_to_change(
    found: &v1::Alternatives,
    booked: Option<&v1::CoAllocationRequest>,
) -> String {
    instead(found, booked, &|start| format!("--start {start}"))
}

/// What would be possible instead of `asked`; `flags` ask for a start.
fn instead(
    found: &v1::Alternatives,
    asked: Option<&v1::CoAllocationRequest>,
    flags: &dyn Fn(Time) -> String,
) -> String {
    let mut out = String::from("what would fit instead:\n");
    let tried = text::count(found.starts_tried as usize, "start");
    let until = text::second(found.searched_until.as_ref());
    match (&found.nearest_plan, &found.searched_until) {
        (Some(plan), _) => {
            let _ = writeln!(out, "  later: {} (the first of {tried} tried)", headline(plan));
            for line in body(plan).lines() {
                let _ = writeln!(out, "  {line}");
            }
            out += &how_to_ask(found, flags).unwrap_or_default();
        }
        (None, Some(_)) if found.complete && found.starts_tried == 0 => {
            out += "  later: no later start ends within the horizon\n";
        }
        (None, Some(_)) if found.complete => {
            let _ = writeln!(out, "  later: no start until {until} fits ({tried} tried)");
        }
        (None, Some(_)) => {
            let unknown = "a later start may fit, or one that a resource manager that did not \
                           answer could serve";
            let _ =
                writeln!(out, "  later: no start before {until} fits ({tried} tried); {unknown}");
        }
        (None, None) => out += "  later: never; it does not fit even when nothing is booked\n",
    }
    for smaller in &found.smaller {
        let plan = smaller.plan.as_ref().map(headline).unwrap_or_default();
        let _ = writeln!(out, "  smaller: {}: {plan}", smaller.change);
        let flags = asked.zip(smaller.request.as_ref());
        let flags = flags.and_then(|(asked, smaller)| amount_flags(asked, smaller));
        if let Some(flags) = flags {
            let _ = writeln!(out, "    ask for it with the same flags, but {flags}");
        }
    }
    if found.smaller.is_empty() {
        out += "  smaller: no smaller amounts found that fit in the requested time\n";
    }
    out
}

/// How to ask for the window of the nearest plan.
fn how_to_ask(found: &v1::Alternatives, flags: &dyn Fn(Time) -> String) -> Option<String> {
    let window = window_from_wire("", found.nearest_window.as_ref()).ok()?;
    Some(format!("    ask for it with the same flags and {}\n", flags(window.start())))
}

/// The flags that make the amounts of one request those of another; `None` if no flags can, or none are needed.
fn amount_flags(from: &v1::CoAllocationRequest, to: &v1::CoAllocationRequest) -> Option<String> {
    let mut flags = Vec::new();
    for site in &to.sites {
        let old = from.sites.iter().find(|old| old.name == site.name)?;
        let others = site.others.iter().filter(|one| {
            !old.others.iter().any(|old| (&old.kind, old.amount) == (&one.kind, one.amount))
        });
        let others = others
            .map(|one| {
                let kind = ResourceKind::parse_other("kind", &one.kind).ok()?;
                Some(format!(",{}", show_kind_and_amount(kind, one.amount)))
            })
            .collect::<Option<String>>()?;
        if site.cpus != old.cpus || !others.is_empty() {
            let value = format!("{}={}{others}", site.name, site.cpus);
            flags.push(format!("--site {}", text::shell_word(&value)));
        }
    }
    for link in &to.links {
        let is_of = |old: &&v1::LinkRequest| (&old.from, &old.to) == (&link.from, &link.to);
        let old = from.links.iter().find(is_of)?;
        if link.bandwidth_bps != old.bandwidth_bps {
            // Flags need no blank in front of a unit.
            let rate = text::rate(link.bandwidth_bps).replace(' ', "");
            let value = format!("{}-{}={rate}", link.from, link.to);
            flags.push(format!("--link {}", text::shell_word(&value)));
        }
    }
    (!flags.is_empty()).then(|| flags.join(" "))
}

#[cfg(test)]
mod tests {
    use coalloc_proto::Timestamp;

    use super::*;

    fn frame(start_s: i64, free: u64) -> v1::RefusedFrame {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let window = v1::Window { start: at(start_s), end: at(start_s + 3_600) };
        let text = window_from_wire("", Some(&window)).unwrap();
        v1::RefusedFrame {
            window: Some(window),
            refusal: Some(v1::Refusal {
                detail: format!("link a-b needs 1 Gbit/s of A-B, which has {free} free in {text}"),
                window: Some(window),
                nsi_error: "00710".into(),
                bottleneck: Some(v1::Bottleneck {
                    kind: v1::BottleneckKind::Path.into(),
                    demands: vec!["a-b".into()],
                    resources: vec!["A-B".into()],
                    requested: 1_000_000_000,
                    available: free,
                    resource_kind: String::new(),
                }),
                ..Default::default()
            }),
        }
    }

    #[test]
    fn neighbours_with_one_reason_are_told_once() {
        let noon = 1_795_262_400;
        let all: Vec<v1::RefusedFrame> =
            (0..4).map(|n| frame(noon + 600 * n, if n == 3 { 400_000_000 } else { 0 })).collect();
        let text = frames(&all);
        assert!(text.contains("12:00 to 13:00 UTC and the 2 next frames: link a-b"), "{text}");
        assert!(text.contains("has 0 free\n"), "{text}");
        assert!(text.contains("2026-11-21 12:30 to 13:30 UTC: link a-b"), "{text}");
        let facts = "path A-B for a-b: 1 Gbit/s needed, 400 Mbit/s there, 600 Mbit/s short; NSI error 00710";
        assert!(text.contains(facts), "{text}");
    }

    #[test]
    fn what_is_smaller_says_the_flags_that_ask_for_it() {
        let request = |cpus, storage, bandwidth_bps| {
            let storage =
                v1::KindAmount { kind: "storage".into(), amount: storage, ..Default::default() };
            let site = |name: &str, others| v1::SiteRequest {
                name: name.into(),
                cpus,
                others,
                ..Default::default()
            };
            let (from, to) = ("a".to_owned(), "b".to_owned());
            v1::CoAllocationRequest {
                sites: vec![site("a", vec![storage]), site("b", Vec::new())],
                links: vec![v1::LinkRequest { from, to, bandwidth_bps, ..Default::default() }],
                ..Default::default()
            }
        };
        let asked = request(8, 2_000, 4_000_000_000);
        let cases = [
            (request(3, 2_000, 4_000_000_000), Some("--site a=3 --site b=3")),
            (request(8, 1_500, 4_000_000_000), Some("--site a=8,storage=1500GB")),
            (request(8, 2_000, 2_500_000_000), Some("--link a-b=2.5Gbit/s")),
            (asked.clone(), None),
        ];
        for (smaller, expected) in cases {
            let flags = amount_flags(&asked, &smaller);
            assert_eq!(flags.as_deref(), expected);
            for flag in
                flags.iter().flat_map(|all| all.split(' ')).filter(|one| one.starts_with("a-b"))
            {
                assert!(flag.parse::<crate::kit::request_flags::LinkFlag>().is_ok(), "{flag}");
            }
        }
    }

    #[test]
    fn what_would_do_instead_says_how_far_it_looked() {
        let none = v1::Alternatives { complete: true, ..Default::default() };
        assert!(alternatives(&none, None).contains("never"), "{}", alternatives(&none, None));
        let until = Some(Timestamp { seconds: 1_795_262_400, nanos: 0 });
        let cut = v1::Alternatives { searched_until: until, starts_tried: 7, ..none.clone() };
        assert!(
            alternatives(&cut, None)
                .contains("no start until 2026-11-21 12:00 UTC fits (7 starts tried)")
        );
        let cut = v1::Alternatives { complete: false, ..cut };
        assert!(
            alternatives(&cut, None).contains("a later start may fit"),
            "{}",
            alternatives(&cut, None)
        );
    }
}
