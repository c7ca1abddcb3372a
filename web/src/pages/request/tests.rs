//! The form of a request: what it shows, and that no text of others becomes markup.

use super::*;

const EVIL: &str = "\"><script>alert(1)</script>";

fn visitor() -> Visitor {
    Visitor::with_secret("0123456789abcdef0123456789abcdef")
}

fn evil_fields() -> RequestFields {
    let mut fields = RequestFields::of([
        ("site", EVIL),
        ("cpus", EVIL),
        ("others", EVIL),
        ("place", EVIL),
        ("from", EVIL),
        ("to", EVIL),
        ("rate", EVIL),
        ("latency", EVIL),
    ]);
    for name in ["for", "after", "before", "zone", "name", "user", "solver", "first", "frames"] {
        fields = RequestFields::of(fields.pairs().into_iter().chain([(name, EVIL)]));
    }
    fields
}

#[test]
fn a_form_comes_back_filled_and_nothing_typed_is_markup() {
    let fields = evil_fields();
    let mistakes = fields.read(words::now()).unwrap_err();
    let text = form(&visitor(), &fields, &mistakes, &[EVIL.to_owned()]).into_string();
    assert!(!text.contains("<script"), "{text}");
    // Each of them stands in its input, but those that are chosen from a list.
    assert!(text.matches("value=\"&quot;&gt;&lt;script&gt;").count() >= 14, "{text}");
    assert!(text.contains("id=\"site-0-cpus-mistake\">`&quot;&gt;&lt;script"), "{text}");
    assert!(text.contains("aria-describedby=\"site-0-cpus-mistake\""), "{text}");
    assert!(text.contains("href=\"#site-0-cpus\">Site 1, CPUs</a>"), "{text}");
}

#[test]
fn an_empty_form_offers_rows_and_no_alarm() {
    let text =
        form(&visitor(), &RequestFields::default(), &Mistakes::default(), &["N0".to_owned()])
            .into_string();
    assert!(!text.contains("role=\"alert\"") && !text.contains("aria-invalid"), "{text}");
    assert_eq!(text.matches("<fieldset").count(), SITE_ROWS + LINK_ROWS, "{text}");
    assert!(text.contains("<option value=\"N0\">"), "{text}");
    assert!(text.contains("name=\"secret\" value=\"0123456789abcdef"), "{text}");
    // Enter shows the plans, and does not add a row.
    let first = text.find("<button").unwrap();
    assert!(
        text[first..].starts_with("<button type=\"submit\" name=\"do\" value=\"plan\""),
        "{text}"
    );
}

#[tokio::test]
async fn the_page_of_plans_carries_the_request_and_an_id_of_its_own() {
    let fields = RequestFields::of([("site", "a"), ("cpus", "4"), ("for", "1h"), ("after", "+2h")]);
    let parsed = fields.read(words::now()).unwrap();
    let plan = v1::Plan { digest: "d".repeat(64), ..Default::default() };
    let response = v1::PlanResponse { plans: vec![plan], ..Default::default() };
    let page = async || {
        let response = plans_page(&visitor(), &fields, &parsed, &response, None);
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let text = page().await;
    let id = |text: &str| {
        let (_, rest) = text.split_once("name=\"id\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    assert!(Uuid::parse_str(&id(&text)).is_ok(), "{text}");
    assert_ne!(id(&text), id(&page().await));
    // The time that was read, not the words, which mean another time later.
    let after = words::wire_time(parsed.request.earliest_start.as_ref()).unwrap();
    assert!(text.contains(&format!("name=\"after\" value=\"{after}\"")), "{text}");
    assert!(text.contains(&format!("name=\"plan\" value=\"{}\"", "d".repeat(64))), "{text}");
    assert!(text.contains("href=\"/request?site=a&amp;cpus=4"), "{text}");
}

#[test]
fn what_the_coordinator_finds_wrong_stands_at_its_input() {
    let fields = RequestFields::of([("site", ""), ("site", "a"), ("cpus", "0"), ("for", "1h")]);
    let parsed = fields.read(words::now()).unwrap();
    let wrong = coalloc_common::InvalidField::new("request.sites[0].cpus", 0, "1 to 10000000 CPUs");
    let mistakes = mistakes_of(&coalloc_net::status::invalid(&wrong), &parsed);
    assert_eq!(mistakes.of("site-1-cpus"), Some("0 is not allowed; allowed: 1 to 10000000 CPUs"));
    assert!(mistakes_of(&Status::unavailable("gone"), &parsed).0.is_empty());
}

#[test]
fn a_request_is_refused_with_what_it_could_be() {
    let fields = RequestFields::of([("site", "a"), ("cpus", "4"), ("for", "1h")]);
    let parsed = fields.read(words::now()).unwrap();
    let window = v1::Window {
        start: Some(coalloc_proto::Timestamp { seconds: 1_795_262_400, nanos: 0 }),
        end: Some(coalloc_proto::Timestamp { seconds: 1_795_266_000, nanos: 0 }),
    };
    let mut smaller = parsed.request.clone();
    smaller.sites[0].cpus = 3;
    let found = v1::Alternatives {
        nearest_window: Some(window),
        smaller: vec![v1::SmallerRequest {
            change: format!("3 CPUs instead of 4 {EVIL}"),
            request: Some(smaller),
            plan: None,
        }],
        ..Default::default()
    };
    let text = plans::alternatives(&fields.fixed(&parsed), &found).into_string();
    assert!(
        text.contains("after=2026-11-21T12%3A00%3A00Z&amp;before=2026-11-21T13%3A00%3A00Z"),
        "{text}"
    );
    assert!(text.contains("cpus=3") && !text.contains("<script"), "{text}");
}

#[tokio::test]
async fn a_refusal_of_the_resource_managers_is_told_and_the_name_is_used_up() {
    let fields = RequestFields::of([("site", "a"), ("cpus", "4"), ("for", "1h"), ("name", "lab")]);
    let parsed = fields.read(words::now()).unwrap();
    let refusal = v1::Refusal { detail: format!("too late {EVIL}"), ..Default::default() };
    let one = v1::Reservation {
        id: "grc-7".to_owned(),
        state: v1::ReservationState::Failed.into(),
        definite: true,
        refusal: Some(refusal),
        ..Default::default()
    };
    let fresh_plans = vec![v1::Plan { digest: "e".repeat(64), ..Default::default() }];
    let answer = v1::ReserveResponse { reservation: Some(one.clone()), fresh_plans };
    let response = reserved(&visitor(), &fields, &parsed, answer);
    assert_eq!(response.status(), StatusCode::OK);
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains("Not reserved: too late") && !text.contains("<script>"), "{text}");
    assert!(
        text.contains("These plans can be made now:") && !text.contains("value=\"lab\""),
        "{text}"
    );
    // Whatever is not refused for good has a page that follows it.
    let going = v1::Reservation { definite: false, ..one };
    let answer = v1::ReserveResponse { reservation: Some(going), fresh_plans: Vec::new() };
    let response = reserved(&visitor(), &fields, &parsed, answer);
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()[http::header::LOCATION], "/reservations/grc%2D7");
}
