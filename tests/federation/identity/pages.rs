//! Pages over TLS: a user sees nothing of what somebody else has reserved, on no page, and no form touches it.

use coalloc_common::Role;
use coalloc_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::stranger::https;
use super::world::{TlsWorld, request};
use crate::harness::free_port;
use crate::web_experiments::put_experiment;
use crate::web_pages::status;
use crate::web_request::between;

/// A site of the request of alice, which stands on every page that has the reservation.
const MARK: &str = "zebra";

/// Who visits the pages, by a certificate.
pub(super) struct TlsVisitor {
    pub(super) address: String,
    certificate: String,
    key: String,
}

impl TlsVisitor {
    pub(super) fn new(world: &mut TlsWorld, port: u16, name: &str) -> Self {
        world.who("grid", Role::User, name);
        let folder = world.folder(&format!("grid-{}-{name}", Role::User));
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let (certificate, key) = (read("certificate.pem"), read("key.pem"));
        Self { address: format!("127.0.0.1:{port}"), certificate, key }
    }

    async fn send(&self, head: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        https(&self.address, Some((&self.certificate, &self.key)), &request).await
    }

    pub(super) async fn page(&self, path: &str) -> String {
        self.send(&format!("GET {path}"), "", "").await
    }

    /// Sends a form with the secret that this browser was given.
    pub(super) async fn post(&self, path: &str, body: &str) -> String {
        let form = self.page("/request").await;
        let cookie = between(&form, "set-cookie: ", ";");
        let secret = between(&form, "name=\"secret\" value=\"", "\"");
        let headers = format!(
            "Cookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n"
        );
        self.send(&format!("POST {path}"), &headers, &format!("secret={secret}&{body}")).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_sees_nothing_of_somebody_else_on_any_page() {
    let port = free_port();
    let of_grc = format!(
        "web_listen: \"127.0.0.1:{port}\"\nquotas: {{user: {{calls_per_second: 1000000}}}}\n"
    );
    let mut world = TlsWorld::start_with(&of_grc).await;
    let dialer = world.who("grid", Role::User, "alice");
    let mut wanted = request("lecture-of-alice", "alice");
    let own = wanted.request.as_mut().unwrap();
    own.sites[0].name = MARK.to_owned();
    own.links[0].from = MARK.to_owned();
    let made = world.grc(&dialer).reserve(wanted).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(made.state(), v1::ReservationState::Confirmed, "{made:?}");
    let id = made.id.replace('-', "%2D");
    let alice = TlsVisitor::new(&mut world, port, "alice");
    let bob = TlsVisitor::new(&mut world, port, "bob");

    // On these pages alice finds it, and bob does not.
    for path in ["/?for=week", "/reservations", "/reservations?ended=yes"] {
        let (own, foreign) = (alice.page(path).await, bob.page(path).await);
        assert_eq!((status(&own), status(&foreign)), ("200", "200"), "{path}: {foreign}");
        assert!(own.contains("lecture-of-alice"), "{path}: {own}");
        for mark in ["lecture-of-alice", MARK, &made.id, &id] {
            assert!(!foreign.contains(mark), "{path}: {mark}: {foreign}");
        }
    }
    // The map at a time within the window, by the name of the reservation in its list.
    let start = made.plan.as_ref().unwrap().window.as_ref().unwrap().start.unwrap();
    let at = coalloc_common::Time::from_us((start.seconds + 60) * 1_000_000).to_string();
    let map = format!("/map?at={at}");
    let (own, foreign) = (alice.page(&map).await, bob.page(&map).await);
    assert!(own.contains("lecture-of-alice"), "{own}");
    assert!(status(&foreign) == "200" && !foreign.contains("lecture-of-alice"), "{foreign}");
    for path in
        ["/", "/?for=hour", "/map", "/request", "/request?user=alice&name=lecture-of-a", "/health"]
    {
        let foreign = bob.page(path).await;
        for mark in ["lecture-of-alice", MARK, &made.id, &id] {
            assert!(!foreign.contains(mark), "{path}: {mark}: {foreign}");
        }
    }
    let others = bob.page("/reservations?user=alice").await;
    assert!(status(&others) == "403" && !others.contains("lecture-of-alice"), "{others}");

    // By its id, and by the id of the request: to bob it is not there.
    for name in [id.as_str(), "lecture-of-alice"] {
        for page in ["reservations", "release", "change", "provision", "deprovision"] {
            let path = format!("/{page}/{name}");
            let (own, foreign) = (alice.page(&path).await, bob.page(&path).await);
            assert_eq!((status(&own), status(&foreign)), ("200", "404"), "{path}: {foreign}");
            assert!(!foreign.contains(MARK), "{path}: {foreign}");
        }
        for page in ["release", "change", "provision", "deprovision"] {
            let body = format!("do=change&change=c-{page}&version=1&site={MARK}&cpus=2&for=1h");
            let answer = bob.post(&format!("/{page}/{name}"), &body).await;
            assert_eq!(status(&answer), "404", "{page}: {answer}");
            assert!(!answer.contains(MARK), "{page}: {answer}");
        }
    }
    // Nor does bob ask in the name of alice, or learn what a name of hers is for.
    let fields = "site=a&cpus=1&others=&place=&for=10m&after=%2B1h";
    let answer = bob.post("/request", &format!("{fields}&user=alice")).await;
    assert!(status(&answer) == "403" && !answer.contains("Reserve this"), "{answer}");
    let plans = bob.post("/request", fields).await;
    assert!(plans.contains("Reserve this"), "{plans}");
    let digest = between(&plans, "name=\"plan\" value=\"", "\"");
    let answer = bob.post("/reserve", &format!("{fields}&user=alice&id=x&plan={digest}")).await;
    assert_eq!(status(&answer), "403", "{answer}");

    let get = v1::GetRequest { id: made.id.clone() };
    let kept = world.grc(&dialer).get(get).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!((kept.state(), kept.version), (v1::ReservationState::Confirmed, 1), "{kept:?}");
    assert_eq!(kept.change, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn experiments_are_for_whoever_may_see_the_topology() {
    let shown = tempfile::tempdir().unwrap();
    put_experiment(shown.path());
    let port = free_port();
    let folder = shown.path().display();
    let of_grc = format!("web_listen: \"127.0.0.1:{port}\"\nweb_experiments: \"{folder}\"\n");
    let mut world = TlsWorld::start_with(&of_grc).await;
    let alice = TlsVisitor::new(&mut world, port, "alice");
    let report = "/experiments/coalloc-competing";
    let plot = format!("{report}/competing-refused.svg");
    for (path, mark) in [("/experiments", report), (report, "<h2>Means"), (&plot, "<svg ")] {
        let mark = mark.replace('-', "%2D");
        let own = alice.page(path).await;
        assert!(status(&own) == "200" && own.contains(&mark), "{path}: {own}");
        let get = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let foreign = https(&alice.address, None, &get).await;
        assert!(status(&foreign) == "401" && !foreign.contains(&mark), "{path}: {foreign}");
    }
    // Whoever speaks no TLS is told to.
    let mut plain = tokio::net::TcpStream::connect(&alice.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut told = String::new();
    plain.read_to_string(&mut told).await.unwrap();
    assert!(status(&told) == "400" && told.contains("https://"), "{told}");
    // What there is not looks to a stranger as what there is.
    let get = "GET /experiments/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&https(&alice.address, None, get).await), "401");
}
