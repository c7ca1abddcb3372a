//! The secret address of a calendar by the coordinator's page in plain text: made by a form, read without one, still there after
//! the coordinator was killed, and gone when it is revoked.

use coalloc_proto::v1;

use crate::harness::{eventually, pair};
use crate::web_pages::{ask, page, send_as, status, with_pages};
use crate::web_request::{Browser, between};

#[tokio::test]
async fn an_address_is_made_survives_a_kill_and_is_revoked() {
    let (mut federation, port) = with_pages().await;
    let made = federation.reserve_confirmed("lecture", pair(4, 100, 600, 3_600)).await;

    let list = page(port, "/reservations?user=UserA").await;
    assert!(list.contains("href=\"/calendar?user=UserA\""), "{list}");
    // In plain text nobody is anybody's user.
    let whose = page(port, "/calendar").await;
    assert!(status(&whose) == "200" && whose.contains("Whose calendar"), "{whose}");
    let none = page(port, "/calendar?user=UserA").await;
    assert!(none.contains("There is no address") && none.contains("name=\"do\""), "{none}");

    let browser = Browser::open(port).await;
    let shown = browser.send("/calendar", "user=UserA&do=make").await;
    assert_eq!(status(&shown), "200", "{shown}");
    let web = format!("value=\"http://127.0.0.1:{port}");
    let path = between(&shown, &web, "\"").to_owned();
    let read = async || page(port, &path).await;
    let event = format!("\r\nUID:{}@coalloc\r\n", made.id);
    let calendar = read().await;
    assert!(calendar.contains("content-type: text/calendar; charset=utf-8"), "{calendar}");
    assert!(calendar.contains(&event), "{calendar}");
    // A form of another site makes none, and a name that leads here is not believed.
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    let foreign = ask(port, "POST /calendar", kind, "user=UserA&do=revoke").await;
    assert_eq!(status(&foreign), "403", "{foreign}");
    let elsewhere = send_as("evil.example", port, &format!("GET {path}"), "", "").await;
    assert_eq!(status(&elsewhere), "421", "{elsewhere}");

    federation.kill("grc");
    federation.spawn("grc");
    eventually("the calendar is read again", || async {
        let mut client = federation.grc();
        client.list(v1::ListRequest::default()).await.is_ok()
    })
    .await;
    let calendar = read().await;
    assert!(calendar.contains(&event), "{calendar}");
    let page_of = page(port, "/calendar?user=UserA").await;
    assert!(page_of.contains("There is an address until"), "{page_of}");

    let browser = Browser::open(port).await;
    let answer = browser.send("/calendar", "user=UserA&do=revoke").await;
    assert_eq!(status(&answer), "303", "{answer}");
    assert!(answer.contains("location: /calendar?user=UserA\r\n"), "{answer}");
    let gone = read().await;
    assert!(status(&gone) == "404" && !gone.contains("VEVENT"), "{gone}");
    let none = page(port, "/calendar?user=UserA").await;
    assert!(none.contains("There is no address"), "{none}");
    federation.audit_at_rest().await;
}
