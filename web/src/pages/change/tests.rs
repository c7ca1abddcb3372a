//! The form of a change: what it asks, and that no text of others becomes markup.

use super::*;

const EVIL: &str = "\"><script>alert(1)</script>";

fn visitor() -> Visitor {
    Visitor::with_secret("0123456789abcdef0123456789abcdef")
}

/// A confirmed reservation of two sites and a link, for an hour, in which a stranger has chosen the names.
fn reservation() -> v1::Reservation {
    let at = |seconds: i64| {
        Some(coalloc_proto::Timestamp { seconds: 1_795_262_400 + seconds, nanos: 0 })
    };
    let span = |seconds| Some(coalloc_proto::Duration { seconds, nanos: 0 });
    let storage = v1::KindAmount {
        kind: "storage".to_owned(),
        amount: 500,
        offset: span(60),
        length: span(600),
    };
    let site = |name: &str| v1::SiteRequest {
        name: name.to_owned(),
        cpus: 4,
        pinned_to: Some("N0".to_owned()),
        others: vec![storage.clone()],
        ..Default::default()
    };
    let link = v1::LinkRequest {
        from: "a".to_owned(),
        to: EVIL.to_owned(),
        bandwidth_bps: 1_000_000_000,
        ..Default::default()
    };
    let request = v1::CoAllocationRequest {
        sites: vec![site("a"), site(EVIL)],
        links: vec![link],
        earliest_start: at(0),
        latest_start: at(7_200),
        duration: span(3_600),
        manual_provision: Some(true),
        ..Default::default()
    };
    let window = Some(v1::Window { start: at(0), end: at(3_600) });
    v1::Reservation {
        id: EVIL.to_owned(),
        user: "ada".to_owned(),
        state: v1::ReservationState::Confirmed.into(),
        version: 3,
        plan: Some(v1::Plan { window, ..Default::default() }),
        request: Some(request),
        ..Default::default()
    }
}

#[test]
fn the_new_version_is_the_old_one_with_what_was_typed() {
    let one = reservation();
    let mut form = ChangeForm::of_reservation(&one);
    assert_eq!(
        form.read(&one).err().unwrap().of("form").unwrap().split(';').next(),
        Some("nothing would change")
    );
    form.fields.sites[0].cpus = "8".to_owned();
    form.fields.links[0].rate = "2G".to_owned();
    form.fields.length = "2h".to_owned();
    let new = form.read(&one).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let was = one.request.clone().unwrap();
    assert_eq!((new.request.sites[0].cpus, new.request.sites[1].cpus), (8, 4));
    // What the form does not have stays: where it is, and when a kind is taken.
    assert_eq!(new.request.sites[0].others, was.sites[0].others);
    assert_eq!(new.request.sites[0].pinned_to, was.sites[0].pinned_to);
    assert_eq!(new.request.links[0].bandwidth_bps, 2_000_000_000);
    assert_eq!((new.request.earliest_start, new.request.manual_provision), (None, None));
    assert_eq!((new.request.duration.unwrap().seconds, new.request.user.as_str()), (7_200, "ada"));
    let text = question(&visitor(), &one, &form, &new).into_string();
    assert!(text.contains(">4 CPUs, 500 GB of storage</td>"), "{text}");
    assert!(text.contains(">8 CPUs, 500 GB of storage</td>") && text.contains("Window"), "{text}");
    assert_eq!(text.matches("<tr>").count(), 4, "{text}");
    assert!(!text.contains("<script"), "{text}");
}

#[test]
fn a_start_that_was_read_means_the_same_when_it_is_confirmed() {
    let one = reservation();
    let mut form = ChangeForm::of_reservation(&one);
    form.fields.after = "+2h".to_owned();
    let first = form.read(&one).unwrap_or_else(|mistakes| panic!("{mistakes:?}")).request;
    assert!(form.fields.after.ends_with('Z'), "{}", form.fields.after);
    let again = form.read(&one).unwrap_or_else(|mistakes| panic!("{mistakes:?}")).request;
    assert_eq!(first, again);
}

#[test]
fn what_is_wrong_stands_beside_it_and_nothing_is_markup() {
    let one = reservation();
    let mut form = ChangeForm::of_reservation(&one);
    form.fields.sites[1].cpus = EVIL.to_owned();
    form.fields.after = "soon".to_owned();
    let mistakes = form.read(&one).err().unwrap();
    let text = inputs(&visitor(), &one, &form, &mistakes).into_string();
    assert!(
        text.contains("id=\"site-1-cpus-mistake\">") && text.contains("id=\"after-mistake\">"),
        "{text}"
    );
    assert!(text.contains("value=\"500GB\"") || text.contains("value=\"storage=500GB\""), "{text}");
    assert!(!text.contains("<script"), "{text}");
    assert!(text.contains("name=\"version\" value=\"3\""), "{text}");
}

#[test]
fn only_what_is_booked_can_be_changed() {
    assert!(is_changeable(&reservation()));
    let over = v1::Reservation { state: v1::ReservationState::Terminated.into(), ..reservation() };
    assert!(!is_changeable(&over));
    assert!(!is_changeable(&v1::Reservation { request: None, ..reservation() }));
}
