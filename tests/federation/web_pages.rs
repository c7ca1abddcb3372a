//! The coordinator's page in plain text, over raw HTTP: its pages answer, a form needs the secret of its browser, and a form
//! that is sent twice releases once.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use coalloc_proto::v1;

use crate::harness::{Federation, Setup, free_port, pair};

/// A request of one connection to this host, and the whole answer to it.
pub(crate) async fn send_as(
    host: &str,
    port: u16,
    head: &str,
    headers: &str,
    body: &str,
) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

pub(crate) async fn ask(port: u16, head: &str, headers: &str, body: &str) -> String {
    send_as(&format!("127.0.0.1:{port}"), port, head, headers, body).await
}

pub(crate) async fn page(port: u16, path: &str) -> String {
    ask(port, &format!("GET {path}"), "", "").await
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap()
}

/// A federation whose coordinator has a web listener at this port.
pub(crate) async fn with_pages() -> (Federation, u16) {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    let port = free_port();
    let path = federation.dir.path().join("grc.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, config + &format!("web_listen: \"127.0.0.1:{port}\"\n")).unwrap();
    federation.start_all().await;
    (federation, port)
}

#[tokio::test]
async fn pages_answer_and_a_form_releases_once() {
    let (federation, port) = with_pages().await;
    let made = federation.reserve_confirmed("lecture", pair(4, 100, 600, 3_600)).await;

    for (path, words) in
        [("/?for=week", "lecture"), ("/map", "A-B"), ("/health", "3 of 3 resource managers")]
    {
        let answer = page(port, path).await;
        assert_eq!(status(&answer), "200", "{path}: {answer}");
        assert!(answer.contains(words), "{path}: {answer}");
        assert!(answer.contains("content-security-policy: default-src 'none'"), "{path}: {answer}");
    }
    assert_eq!(status(&page(port, "/assets/script.js").await), "200");
    assert_eq!(status(&page(port, "/reservations/nothing-of-this-id").await), "404");
    let list = page(port, "/reservations?user=UserA").await;
    assert!(list.contains(">lecture</a>"), "{list}");
    let others = page(port, "/reservations?user=UserB").await;
    assert!(!others.contains("lecture"), "{others}");
    let calendar = page(port, "/calendar.ics?user=UserA").await;
    assert!(calendar.contains("content-type: text/calendar; charset=utf-8"), "{calendar}");
    assert!(calendar.contains(&format!("\r\nUID:{}@coalloc\r\n", made.id)), "{calendar}");
    assert!(!page(port, "/calendar.ics?user=UserB").await.contains("VEVENT"));

    // A name that leads here is not believed.
    let elsewhere = send_as("evil.example", port, "GET /", "", "").await;
    assert_eq!(status(&elsewhere), "421", "{elsewhere}");

    let question = page(port, &format!("/release/{}", made.id)).await;
    let between = |text: &str, begin: &str, end: char| {
        let (_, rest) = text.split_once(begin).unwrap();
        rest.split(end).next().unwrap().to_owned()
    };
    let cookie = between(&question, "set-cookie: ", ';');
    let secret = between(&question, "name=\"secret\" value=\"", '"');
    let send = async |headers: String, body: String| {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        ask(port, &format!("POST /release/{}", made.id), &(headers + kind), &body).await
    };
    let cookies = || format!("Cookie: {cookie}\r\n");
    let body = format!("secret={secret}");
    let refused = [
        send(cookies(), String::new()).await,
        send(String::new(), body.clone()).await,
        send(cookies() + "Sec-Fetch-Site: cross-site\r\n", body.clone()).await,
    ];
    for answer in refused {
        assert_eq!(status(&answer), "403", "{answer}");
    }
    assert!(federation.get("lecture").await.unwrap().state().is_booked());

    // A double click.
    let (first, second) =
        tokio::join!(send(cookies(), body.clone()), send(cookies(), body.clone()));
    for answer in [&first, &second] {
        assert_eq!(status(answer), "303", "{answer}");
    }
    let released = federation.get("lecture").await.unwrap();
    assert_eq!(released.state(), v1::ReservationState::Terminated);
    let shown = page(port, &format!("/reservations/{}", made.id)).await;
    assert!(shown.contains(">terminated</span>") && !shown.contains("href=\"/release/"), "{shown}");
    federation.audit_at_rest().await;
}
