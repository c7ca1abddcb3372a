//! Changes by the coordinator's page, over raw HTTP: a question comes first, a question that is answered twice is one change, and
//! a form of another version changes nothing.

use crate::harness::pair;
use crate::web_pages::{page, status, with_pages};
use crate::web_request::{Browser, between, hidden_fields, location};

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_changed_after_a_question_and_once() {
    let (federation, port) = with_pages().await;
    let browser = Browser::open(port).await;
    let made = federation.reserve_confirmed("lecture", pair(4, 100, 3_600, 3_600)).await;
    let path = format!("/change/{}", made.id);
    let form = page(port, &path).await;
    assert!(form.contains("value=\"1h\"") && form.contains("value=\"100M\""), "{form}");
    let shown = page(port, "/reservations/lecture").await;
    assert!(
        shown.contains(&format!("href=\"/change/{}\"", made.id.replace('-', "%2D"))),
        "{shown}"
    );

    let form = form.replace("value=\"4\"", "value=\"9\"");
    let change = between(&form, "name=\"change\" value=\"", "\"").to_owned();
    let amounts = |cpus: &str, rate: &str| {
        format!(
            "change={change}&version=1&after=&for=2h&zone=UTC&site=left&cpus={cpus}&others=\
             &site=right&cpus=4&others=&from=left&to=right&rate={rate}&latency="
        )
    };
    let answer = browser.send(&path, &(amounts("none", "1") + "&do=change")).await;
    assert_eq!(status(&answer), "400", "{answer}");
    assert!(
        answer.contains("site-0-cpus-mistake") && answer.contains("link-0-rate-mistake"),
        "{answer}"
    );
    // More than there is: refused, and it is as it was.
    let refused = amounts("9", "2G").replace(&change, "too-much");
    let answer = browser.send(&path, &format!("{refused}&do=change")).await;
    assert!(status(&answer) == "200" && answer.contains("Refused: "), "{answer}");
    assert!(answer.contains("The reservation is as it was."), "{answer}");

    let question = browser.send(&path, &(amounts("9", "200M") + "&do=ask")).await;
    assert_eq!(status(&question), "200", "{question}");
    for part in
        [">4 CPUs</td>", ">9 CPUs</td>", ">100 Mbit/s</td>", ">200 Mbit/s</td>", ">Window</td>"]
    {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert_eq!(federation.get("lecture").await.unwrap().version, 1);
    let action = format!("/change/{}", made.id.replace('-', "%2D"));
    let yes = hidden_fields(&question, &action) + "do=change";
    browser.is_refused_elsewhere(&path, &yes).await;
    let (first, second) = tokio::join!(browser.send(&path, &yes), browser.send(&path, &yes));
    assert_eq!(location(&first), location(&second));
    location(&browser.send(&path, &yes).await);
    let changed = federation.get("lecture").await.unwrap();
    assert_eq!((changed.version, changed.request.unwrap().sites[0].cpus), (2, 9));
    // A form of before.
    let answer = browser.send(&path, &yes.replace(&change, "later")).await;
    assert_eq!(status(&answer), "409", "{answer}");
    assert!(answer.contains("has been changed since"), "{answer}");
    assert_eq!(federation.get("lecture").await.unwrap().version, 2);

    // Its user is let out, and in again; a question that is answered twice is one change.
    let path = format!("/deprovision/{}", made.id);
    let question = page(port, &path).await;
    let change = format!("change={}", between(&question, "name=\"change\" value=\"", "\""));
    browser.is_refused_elsewhere(&path, &change).await;
    let (first, second) = tokio::join!(browser.send(&path, &change), browser.send(&path, &change));
    assert_eq!(location(&first), location(&second));
    let out = federation.get("lecture").await.unwrap();
    assert_eq!((out.version, out.manual_provision), (3, true));
    let shown = page(port, "/reservations/lecture").await;
    assert!(shown.contains(">Provision…</a>"), "{shown}");
    let path = format!("/provision/{}", made.id);
    let question = page(port, &path).await;
    let change = format!("change={}", between(&question, "name=\"change\" value=\"", "\""));
    location(&browser.send(&path, &change).await);
    assert!(!federation.get("lecture").await.unwrap().manual_provision);
    federation.audit_at_rest().await;
}
