//! `/health`: the coordinator and its resource managers: who answers, what is wrong, versions, and certificates.
//!
//! Left out: the daemon's own probes, which `coalloc health` asks.

use axum::body::Body;
use axum::extract::State;
use coalloc_common::Time;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::calls::PageCalls;
use super::frame::{Frame, respond};
use super::visitor::{self, Visitor};
use super::{PageState, words};

/// `GET /health`.
pub(super) async fn show(State(state): State<PageState>, visitor: Visitor) -> Response<Body> {
    let frame = Frame { title: "Health", here: "/health", is_live: true };
    match PageCalls::new(&state, &visitor).federation().await {
        Ok(answer) => respond(&visitor, StatusCode::OK, frame, &markup(&answer, words::now())),
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
                    th scope="col" { "Describes" } th scope="col" { "Release" } th scope="col" { "Started" }
                    th scope="col" { "Certificate" }
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
            td data-label="Resource manager" { (words::text(&one.name)) }
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
            td data-label="Address" { (words::text(&one.address)) }
            td data-label="Describes" {
                @match description {
                    Some(what) => {
                        (words::count(what.sites.len(), "site")) ", " (words::count(what.paths.len(), "path"))
                        @if !one.reachable { " (as it said last)" }
                    }
                    None => { "nothing yet" }
                }
            }
            td data-label="Release" { (version(description.and_then(|what| what.version.as_ref()))) }
            td data-label="Started" { (words::wire_instant(description.and_then(|what| what.started.as_ref()))) }
            td data-label="Certificate" {
                @match &one.certificate {
                    Some(life) => { "until " (words::wire_instant(life.not_after.as_ref())) }
                    None => { "none seen" }
                }
            }
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
