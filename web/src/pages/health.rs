//! `/health`: the coordinator and its resource managers: who answers, what is wrong, what is undecided, versions, certificates
//! with the days that they have left, and where bookings differ, as far as the visitor may know.
//!
//! Left out: the daemon's own probes, which `coalloc health` asks, and repairs, which `coalloc repair` makes.

use axum::body::Body;
use axum::extract::State;
use coalloc_common::Time;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};
use tonic::{Code, Status};

use super::calls::PageCalls;
use super::frame::{Frame, respond};
use super::visitor::{self, Visitor};
use super::{PageState, words};

/// Differences of one resource manager that are shown.
const DIFFERENCES_SHOWN: usize = 20;

/// `GET /health`.
pub(super) async fn show(State(state): State<PageState>, visitor: Visitor) -> Response<Body> {
    let frame = Frame { title: "Health", here: "/health", is_live: true };
    let mut calls = PageCalls::new(&state, &visitor);
    match calls.federation().await {
        Ok(answer) => {
            let compared = calls.differences().await;
            let content = html! { (markup(&answer, words::now())) (reconciliation(&compared)) };
            respond(&visitor, StatusCode::OK, frame, &content)
        }
        Err(status) => visitor::failed(&visitor, frame.here, &status),
    }
}

fn markup(answer: &v1::DescribeFederationResponse, now: Time) -> Markup {
    let managers = &answer.resource_managers;
    let well = managers.iter().filter(|one| troubles(one, now).is_empty()).count();
    html! {
        p {
            (well) " of " (words::count(managers.len(), "resource manager")) " "
            @if well == 1 { "is" } @else { "are" } " well, as this coordinator sees them at " (words::instant(now)) "."
        }
        dl class="facts" {
            dt { "Coordinator" } dd { (words::text(&answer.coordinator)) }
            dt { "Release" } dd { (version(answer.version.as_ref())) }
            dt { "Ledger" } dd { (words::text(&answer.ledger_id)) }
        }
        div class="scroll" role="region" aria-label="Resource managers" tabindex="0" {
            table class="cards" {
                thead { tr {
                    th scope="col" { "Resource manager" } th scope="col" { "State" } th scope="col" { "Address" }
                    th scope="col" { "Describes" } th scope="col" { "Release" }
                    th scope="col" { "Waits for it" } th scope="col" { "Certificate" }
                } }
                tbody { @for one in managers { (row(one, now)) } }
            }
        }
        @for owed in &answer.not_configured {
            p class="trouble" {
                (words::text(&owed.name)) " is not configured any more, and has yet to acknowledge "
                (words::count(owed.owed as usize, "decision")) " and " (words::count(owed.releases_owed as usize, "release")) "."
            }
        }
        p class="note" { "Of a resource manager that does not answer, what it described last is shown." }
    }
}

fn row(one: &v1::ResourceManagerStatus, now: Time) -> Markup {
    let description = one.description.as_ref();
    let troubles = troubles(one, now);
    html! {
        tr {
            td data-label="Name" { (words::text(&one.name)) }
            td data-label="State" {
                @if troubles.is_empty() {
                    span class="badge confirmed" { "well" }
                } @else {
                    span class={ "badge " (if one.reachable { "held" } else { "failed" }) } {
                        @if one.reachable { "answers" } @else { "unreachable" }
                    }
                    ul class="plain" { @for trouble in &troubles { li { (trouble) } } }
                }
            }
            td data-label="Address" class="address" { (words::text(&one.address)) }
            td data-label="Describes" {
                @match description {
                    Some(what) => {
                        (words::count(what.sites.len(), "site")) ", " (words::count(what.paths.len(), "path"))
                        @if let Some(said) = words::wire_time(one.described.as_ref()) {
                            ", as it said " (now.since(said).as_age()) " ago"
                            @if !one.reachable { " (at " (words::instant(said)) ")" }
                        }
                    }
                    None => { "nothing yet" }
                }
            }
            td data-label="Release" {
                (version(description.and_then(|what| what.version.as_ref())))
                @if let Some(started) = description.and_then(|what| what.started.as_ref()) {
                    ", started " (words::wire_instant(Some(started)))
                }
            }
            td data-label="Waits for it" { (owed(one)) }
            td data-label="Certificate" {
                @match &one.certificate {
                    Some(life) => {
                        "until " (words::wire_instant(life.not_after.as_ref()))
                        @if let Some(until) = words::wire_time(life.not_after.as_ref()) { ", " (left(until, now)) }
                    }
                    None => { "none seen" }
                }
            }
        }
    }
}

/// What the coordinator has yet to hear from it.
fn owed(one: &v1::ResourceManagerStatus) -> String {
    match (one.owed as usize, one.releases_owed as usize) {
        (0, 0) => "nothing".to_owned(),
        (decisions, 0) => words::count(decisions, "decision"),
        (0, releases) => words::count(releases, "release"),
        (decisions, releases) => {
            format!(
                "{}, {}",
                words::count(decisions, "decision"),
                words::count(releases, "release")
            )
        }
    }
}

/// How long something lasts, in full days, or in hours on its last day.
fn left(until: Time, now: Time) -> String {
    let hours = until.since(now).as_us().div_euclid(3_600_000_000);
    match usize::try_from(hours) {
        Ok(hours @ ..24) => format!("{} left", words::count(hours, "hour")),
        Ok(hours) => format!("{} left", words::count(hours / 24, "day")),
        Err(_) => "it has ended".to_owned(),
    }
}

/// Where bookings differ from those that the coordinator counts on, as the last comparisons have found.
fn reconciliation(compared: &Result<v1::ListDifferencesResponse, Status>) -> Markup {
    html! {
        h2 { "Bookings compared" }
        @match compared {
            Err(status) if status.code() == Code::PermissionDenied => {
                p class="note" { "Where bookings differ is shown to operators and auditors." }
            }
            Err(status) => p class="trouble" { (words::text(status.message())) },
            Ok(answer) => div class="scroll" role="region" aria-label="Bookings compared" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Resource manager" } th scope="col" { "Compared" } th scope="col" { "Result" }
                    } }
                    tbody { @for one in &answer.resource_managers { tr {
                        td data-label="Name" { (words::text(&one.resource_manager)) }
                        td data-label="Compared" {
                            @match &one.time {
                                Some(time) => { (words::wire_instant(Some(time))) }
                                None => { "never" }
                            }
                        }
                        td data-label="Result" { (compared_bookings(one)) }
                    } } }
                }
            },
        }
    }
}

fn compared_bookings(one: &v1::ComparedBookings) -> Markup {
    html! {
        @if !one.problem.is_empty() {
            p class="trouble" { "the last comparison failed: " (words::text(&one.problem)) }
        }
        @if one.differences.is_empty() && one.problem.is_empty() {
            @if one.time.is_some() { "no differences" } @else { "-" }
        }
        @if !one.differences.is_empty() {
            ul class="plain" {
                @for difference in one.differences.iter().take(DIFFERENCES_SHOWN) { li {
                    @match difference.reservation.as_str() {
                        "" => { (words::text(&difference.transaction)) }
                        id => a href=(words::path("reservations", id)) { (words::text(id)) },
                    }
                    @if !difference.user.is_empty() { " of " (words::text(&difference.user)) }
                    ": " (words::text(&difference.why))
                } }
            }
            @let more = one.differences.len().saturating_sub(DIFFERENCES_SHOWN) + one.more as usize;
            @if more > 0 { p class="note" { "and " (more) " more, which " code { "coalloc repair" } " lists" } }
        }
    }
}

fn version(version: Option<&v1::Version>) -> Markup {
    html! {
        @match version {
            Some(version) => { (words::text(&version.program)) ", protocol " (version.protocol) }
            None => { "-" }
        }
    }
}

/// What is wrong with a resource manager, a sentence each.
fn troubles(one: &v1::ResourceManagerStatus, now: Time) -> Vec<String> {
    let mut all = Vec::new();
    if !one.reachable {
        all.push(words::text(&one.problem).into_owned());
    }
    if one.denies {
        all.push(
            "it does not accept this coordinator: its configuration has to name it".to_owned(),
        );
    }
    if !one.not_used.is_empty() {
        all.push(format!("nothing is planned on it: {}", words::text(&one.not_used)));
    }
    if one.differences > 0 {
        let differing = words::count(one.differences as usize, "booking");
        all.push(format!("{differing} differ (coalloc repair)"));
    }
    if one.foreign_names_total > 0 {
        let names = words::count(one.foreign_names_total as usize, "name");
        all.push(format!("it describes {names} that belong to others, which are ignored"));
    }
    if !one.reachable && one.owed + one.releases_owed > 0 {
        let owed = words::count((one.owed + one.releases_owed) as usize, "message");
        all.push(format!("{owed} wait for it"));
    }
    let equipment = one.description.as_ref().and_then(|what| what.equipment.as_ref());
    if let Some(trouble) = equipment.map(|report| &report.trouble).filter(|text| !text.is_empty()) {
        all.push(format!("its equipment is out of reach: {}", words::text(trouble)));
    }
    if let Some(unusable) = equipment.map(|report| &report.unusable).filter(|all| !all.is_empty()) {
        all.push(format!("out of use: {}", words::text(&unusable.join(", "))));
    }
    if let Some(life) = &one.certificate {
        let ends =
            (words::wire_time(life.not_before.as_ref()), words::wire_time(life.not_after.as_ref()));
        // In the last third of its life it should have been renewed.
        if let (Some(from), Some(until)) = ends
            && now.since(from).as_us() / 2 >= until.since(now).as_us()
        {
            all.push(format!(
                "its certificate ends at {}",
                words::utc(until, "%Y-%m-%d %H:%M UTC")
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use coalloc_common::Span;
    use coalloc_net::convert::time_to_wire;

    use super::*;
    use crate::pages::inventory::example;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    #[test]
    fn what_is_wrong_is_said_and_stays_text() {
        let mut answer = example("<script>");
        assert!(markup(&answer, NOON).into_string().contains("2 of 2 resource managers are well"));
        let one = &mut answer.resource_managers[0];
        one.reachable = false;
        one.problem = "<script> refuses".into();
        one.owed = 2;
        let days =
            |days: i64| Some(time_to_wire(NOON.saturating_add(Span::from_secs(days * 86_400))));
        one.certificate = Some(v1::CertificateLife { not_before: days(-20), not_after: days(10) });
        let text = markup(&answer, NOON).into_string();
        assert!(text.contains("1 of 2 resource managers is well"), "{text}");
        assert!(text.contains("&lt;script&gt; refuses") && !text.contains("<script"), "{text}");
        assert!(text.contains("2 messages wait for it"), "{text}");
        assert!(text.contains("its certificate ends at 2026-12-01 12:00 UTC"), "{text}");
    }

    #[test]
    fn what_is_described_has_its_age() {
        let mut answer = example("a");
        let said =
            |seconds: i64| Some(time_to_wire(NOON.saturating_add(Span::from_secs(-seconds))));
        answer.resource_managers[0].described = said(1);
        answer.resource_managers[1].described = said(3_725);
        answer.resource_managers[1].reachable = false;
        let text = markup(&answer, NOON).into_string();
        assert!(text.contains(", as it said 1 s ago</td>"), "{text}");
        let old = ", as it said 1 h 2 min ago (at <time datetime=\"2026-11-21T10:57:55Z\">";
        assert!(text.contains(old), "{text}");
        // It never answered, or the coordinator is of a release before this field.
        answer.resource_managers[0].described = None;
        assert_eq!(markup(&answer, NOON).into_string().matches("as it said").count(), 1);
    }

    #[test]
    fn days_that_are_left_are_counted() {
        let at = |hours: i64| left(NOON.saturating_add(Span::from_secs(hours * 3_600)), NOON);
        assert_eq!([at(49), at(24), at(1)], ["2 days left", "1 day left", "1 hour left"]);
        assert_eq!(at(-1), "it has ended");
        let one = v1::ResourceManagerStatus { owed: 1, releases_owed: 2, ..Default::default() };
        assert_eq!(owed(&one), "1 decision, 2 releases");
    }

    #[test]
    fn differences_stay_text_and_whoever_may_not_know_them_reads_so() {
        let difference = v1::BookingDifference {
            transaction: "<script>".into(),
            why: "<script> booked".into(),
            ..Default::default()
        };
        let one = v1::ComparedBookings {
            resource_manager: "crm".into(),
            differences: vec![difference; DIFFERENCES_SHOWN + 2],
            more: 3,
            ..Default::default()
        };
        let answer = v1::ListDifferencesResponse { resource_managers: vec![one] };
        let text = reconciliation(&Ok(answer)).into_string();
        assert!(!text.contains("<script") && text.contains("&lt;script&gt; booked"), "{text}");
        assert!(text.contains("and 5 more"), "{text}");
        let text = reconciliation(&Err(Status::permission_denied("no"))).into_string();
        assert!(text.contains("operators and auditors"), "{text}");
    }

    #[test]
    fn a_young_certificate_is_no_trouble() {
        let days =
            |days: i64| Some(time_to_wire(NOON.saturating_add(Span::from_secs(days * 86_400))));
        let life = v1::CertificateLife { not_before: days(-10), not_after: days(30) };
        let one = v1::ResourceManagerStatus {
            reachable: true,
            certificate: Some(life),
            ..Default::default()
        };
        assert!(troubles(&one, NOON).is_empty());
    }
}
