//! A secret address of a calendar over TLS: read by whoever knows it and by nobody else, for as long as its owner may list what
//! it has reserved; and the secret stands in no ledger and no log.

use coalloc_common::Role;
use coalloc_net::client::Dialer;
use coalloc_proto::{Duration, v1};
use tonic::Code;

use super::code;
use super::pages::TlsVisitor;
use super::stranger::https;
use super::world::{TlsWorld, request};
use crate::harness::{eventually, free_port};
use crate::web_pages::status;
use crate::web_request::between;

async fn made(
    world: &TlsWorld,
    dialer: &Dialer,
    user: &str,
) -> Result<v1::MakeCalendarAddressResponse, tonic::Status> {
    let wanted = v1::MakeCalendarAddressRequest { user: user.to_owned(), valid_for: None };
    Ok(world.grc(dialer).make_calendar_address(wanted).await?.into_inner())
}

async fn known(
    world: &TlsWorld,
    dialer: &Dialer,
    user: &str,
) -> Result<v1::GetCalendarAddressResponse, tonic::Status> {
    let wanted = v1::GetCalendarAddressRequest { user: user.to_owned() };
    Ok(world.grc(dialer).get_calendar_address(wanted).await?.into_inner())
}

/// The answer to somebody without a certificate.
async fn read(address: &str, path: &str) -> String {
    let get = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    https(address, None, &get).await
}

/// What of an answer may differ from another one: when it was given.
fn without_date(answer: &str) -> String {
    answer.lines().filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\n")
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn has(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calendar_is_read_by_its_secret_alone_until_its_owner_is_out() {
    let port = free_port();
    let mut world = TlsWorld::start_with(&format!("web_listen: \"127.0.0.1:{port}\"\n")).await;
    let alice = world.who("grid", Role::User, "alice");
    let bob = world.who("grid", Role::User, "bob");
    let olga = world.who("grid", Role::Operator, "olga");
    let ada = world.who("grid", Role::Auditor, "ada");
    for (dialer, id, user) in [(&alice, "of-alice", "alice"), (&bob, "of-bob", "bob")] {
        let answer = world.grc(dialer).reserve(request(id, user)).await.unwrap().into_inner();
        let state = answer.reservation.unwrap().state();
        assert_eq!(state, v1::ReservationState::Confirmed, "{id}");
    }

    // By the page, as a person does it.
    let visitor = TlsVisitor::new(&mut world, port, "alice");
    let page = visitor.page("/calendar").await;
    assert!(page.contains("There is no address"), "{page}");
    let page = visitor.post("/calendar", "user=alice&do=make").await;
    assert_eq!(status(&page), "200", "{page}");
    let first = between(&page, "value=\"https://localhost", "\"").to_owned();
    let secret = between(&first, "/calendar/", ".ics").to_owned();
    let page = visitor.page("/calendar").await;
    assert!(page.contains("There is an address until") && !page.contains(&secret), "{page}");

    let web = format!("127.0.0.1:{port}");
    let calendar = read(&web, &first).await;
    assert_eq!(status(&calendar), "200", "{calendar}");
    assert!(calendar.contains("SUMMARY:of-alice\r\n") && !calendar.contains("of-bob"));
    // The same in JSON, without a certificate; other methods stay closed.
    let post = |method: &str, body: &str| {
        let length = body.len();
        format!(
            "POST /coalloc.v1.Coordinator/{method} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let json =
        https(&web, None, &post("ReadCalendar", &format!("{{\"secret\":\"{secret}\"}}"))).await;
    assert!(status(&json) == "200" && json.contains("of-alice"), "{json}");
    assert!(!json.contains("transaction") && !json.contains("segments"), "{json}");
    assert_eq!(status(&https(&web, None, &post("List", "{}")).await), "401");

    // Who may know of it, and who may make or end one.
    for dialer in [&alice, &olga, &ada] {
        let shown = known(&world, dialer, "alice").await.unwrap();
        let (made, expires) = (shown.made.unwrap(), shown.expires.unwrap());
        assert_eq!(expires.seconds - made.seconds, 90 * 86_400);
    }
    assert_eq!(code(known(&world, &bob, "alice").await), Code::PermissionDenied);
    assert!(known(&world, &bob, "").await.unwrap().expires.is_none());
    for (dialer, user) in [(&bob, "alice"), (&olga, ""), (&olga, "alice"), (&ada, "")] {
        assert_eq!(code(made(&world, dialer, user).await), Code::PermissionDenied, "{user}");
    }
    let revoke = |dialer: &Dialer, user: &str| {
        let (mut client, user) = (world.grc(dialer), user.to_owned());
        async move {
            let wanted = v1::RevokeCalendarAddressRequest { user };
            client.revoke_calendar_address(wanted).await.map(|it| it.into_inner().revoked)
        }
    };
    assert_eq!(code(revoke(&bob, "alice").await), Code::PermissionDenied);
    assert_eq!(code(revoke(&ada, "alice").await), Code::PermissionDenied);
    assert!(!revoke(&bob, "").await.unwrap());
    for valid_for in [0, 59, 367 * 86_400] {
        let valid_for = Some(Duration { seconds: valid_for, nanos: 0 });
        let wanted = v1::MakeCalendarAddressRequest { user: String::new(), valid_for };
        let refused = world.grc(&alice).make_calendar_address(wanted).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(refused.message().contains("valid_for"), "{refused:?}");
    }

    // A new one ends the old one. What is wrong, was replaced or was revoked cannot be told apart.
    let second = made(&world, &alice, "").await.unwrap();
    assert_eq!(status(&read(&web, &second.path).await), "200");
    let replaced = read(&web, &first).await;
    assert_eq!(status(&replaced), "404", "{replaced}");
    assert!(revoke(&olga, "alice").await.unwrap());
    let revoked = read(&web, &second.path).await;
    let nobody_s = format!("/calendar/{}.ics", "0".repeat(64));
    for path in [&nobody_s, "/calendar/x.ics", "/calendar/x"] {
        let wrong = read(&web, path).await;
        for other in [&revoked, &replaced] {
            assert_eq!(without_date(&wrong), without_date(other), "{path}");
        }
    }

    // What proves her is taken away: the address ends with it, and that of others does not.
    let third = made(&world, &alice, "alice").await.unwrap();
    let of_bob = made(&world, &bob, "").await.unwrap();
    assert_eq!(status(&read(&web, &third.path).await), "200");
    world.revoke("grid", Role::User, "alice", "grc");
    let (address, path) = (&web, &third.path);
    eventually("the address of alice ends", || async move {
        without_date(&read(address, path).await) == without_date(&revoked_like(address).await)
    })
    .await;
    assert_eq!(status(&read(&web, &of_bob.path).await), "200");

    // It stays over, also for somebody who has a list that has forgotten the certificate by then: its end is recorded.
    let shown = known(&world, &olga, "alice").await.unwrap();
    assert!(shown.expires.is_none(), "{shown:?}");
    // By gRPC whoever has an identity may read, too.
    let wanted = v1::ReadCalendarRequest { secret: of_bob.secret.clone(), ..Default::default() };
    assert!(world.grc(&olga).read_calendar(wanted).await.is_ok());

    // The ledger has digests, of hexadecimal digits as bytes; no secret stands anywhere.
    let ledger = world.ledgers().remove("grc").unwrap();
    let log = world.federation.log("grc");
    for secret in [&secret, &second.secret, &third.secret, &of_bob.secret] {
        let digest = coalloc_net::secret::Secret::shown(secret).unwrap().digest();
        assert!(has(&ledger, &bytes_of(&digest)), "the digest is in the ledger");
        assert!(!has(&ledger, &bytes_of(secret)) && !has(&ledger, secret.as_bytes()));
        assert!(!log.contains(secret.as_str()));
    }
}

/// The answer to a secret that is nobody's.
async fn revoked_like(address: &str) -> String {
    read(address, &format!("/calendar/{}.ics", "f".repeat(64))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn readings_have_a_share_of_their_own_beside_the_calls_of_the_owner() {
    let port = free_port();
    let of_grc =
        format!("web_listen: \"127.0.0.1:{port}\"\nquotas: {{user: {{calls_per_second: 1}}}}\n");
    let mut world = TlsWorld::start_with(&of_grc).await;
    let alice = world.who("grid", Role::User, "alice");
    let address = made(&world, &alice, "").await.unwrap();
    let web = format!("127.0.0.1:{port}");
    let mut said = Vec::new();
    // Some at a time, so that they are faster than their share on a slow machine, too.
    for _ in 0..8 {
        let some = (0..32).map(|_| {
            let (web, path) = (web.clone(), address.path.clone());
            tokio::spawn(async move { status(&read(&web, &path).await).to_owned() })
        });
        for one in some.collect::<Vec<_>>() {
            said.push(one.await.unwrap());
        }
        if said.contains(&"429".to_owned()) {
            break;
        }
    }
    assert!(said.contains(&"200".to_owned()) && said.contains(&"429".to_owned()), "{said:?}");
    // They take nothing of the one call a second that she has.
    let wanted = v1::RevokeCalendarAddressRequest { user: String::new() };
    assert!(world.grc(&alice).revoke_calendar_address(wanted).await.unwrap().into_inner().revoked);
}
