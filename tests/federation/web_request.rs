//! Requests by the coordinator's page, over raw HTTP: a form that is wrong comes back filled, a plan that is chosen twice is one
//! reservation, also after the coordinator was killed, and a refusal offers what would fit.

use coalloc_proto::v1;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Federation, Setup, eventually, free_port};
use crate::middle::{self, Point};
use crate::web_pages::{ask, page, start_with_pages, status, with_pages};

/// A browser, as far as a form needs one.
pub(crate) struct Browser {
    pub(crate) port: u16,
    cookie: String,
    secret: String,
}

/// The text between two others.
pub(crate) fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}: {text}"));
    rest.split(end).next().unwrap()
}

pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The hidden fields of the form with this action, as its body, without the secret.
pub(crate) fn hidden_fields(text: &str, action: &str) -> String {
    let form = between(text, &format!("action=\"{action}\""), "</form>");
    let mut body = String::new();
    for input in form.split("<input type=\"hidden\" ").skip(1) {
        let name = between(input, "name=\"", "\"");
        let value = unescaped(between(input, "value=\"", "\""));
        if name != "secret" {
            body += &format!("{name}={}&", encoded(&value));
        }
    }
    body
}

impl Browser {
    pub(crate) async fn open(port: u16) -> Self {
        let first = page(port, "/request").await;
        assert_eq!(status(&first), "200", "{first}");
        let cookie = between(&first, "set-cookie: ", ";").to_owned();
        let secret = between(&first, "name=\"secret\" value=\"", "\"").to_owned();
        Self { port, cookie, secret }
    }

    /// Sends a form of this browser.
    pub(crate) async fn send(&self, path: &str, body: &str) -> String {
        let body = format!("secret={}&{body}", self.secret);
        self.post(path, &format!("Cookie: {}\r\n", self.cookie), &body).await
    }

    async fn post(&self, path: &str, headers: &str, body: &str) -> String {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        ask(self.port, &format!("POST {path}"), &format!("{headers}{kind}"), body).await
    }

    /// Sends a form of this browser, and leaves the answer to whoever holds the connection.
    async fn begin(&self, path: &str, body: &str) -> TcpStream {
        let body = format!("secret={}&{body}", self.secret);
        let (port, cookie, length) = (self.port, &self.cookie, body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nContent-Length: {length}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// What every form refuses: no secret, no cookie, and another site.
    pub(crate) async fn is_refused_elsewhere(&self, path: &str, body: &str) {
        let with = format!("secret={}&{body}", self.secret);
        let cookie = format!("Cookie: {}\r\n", self.cookie);
        let foreign =
            format!("{cookie}Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example\r\n");
        for (headers, body) in [(&*cookie, body), ("", &*with), (&*foreign, &*with)] {
            let answer = self.post(path, headers, body).await;
            assert_eq!(status(&answer), "403", "{headers} {body}: {answer}");
        }
    }
}

/// Where a form that was carried out leads.
pub(crate) fn location(answer: &str) -> &str {
    assert_eq!(status(answer), "303", "{answer}");
    between(answer, "location: ", "\r\n")
}

async fn all(federation: &Federation) -> Vec<v1::Reservation> {
    let list = v1::ListRequest::default();
    federation.grc().list(list).await.unwrap().into_inner().reservations
}

const PAIR: &str = "site=left&cpus=4&others=&place=&site=right&cpus=8&others=&place=\
                    &from=left&to=right&rate=100M&latency=&for=10m&after=%2B1h&before=&zone=UTC";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_chosen_twice_is_one_reservation() {
    let (mut federation, port) = with_pages().await;
    let browser = Browser::open(port).await;

    // What is wrong is said beside its field, and what was typed is still there.
    let wrong = "site=left&cpus=many&others=&place=&from=left&to=&rate=2&latency=&for=90&after=soon&zone=UTC";
    let answer = browser.send("/request", wrong).await;
    assert_eq!(status(&answer), "400", "{answer}");
    for part in [
        "value=\"many\"",
        "id=\"site-0-cpus-mistake\">`many` is no whole number; allowed: 1 to 10000000 CPUs",
        "id=\"for-mistake\">",
        "id=\"after-mistake\">`soon` is no time of day",
        "id=\"link-0-rate-mistake\">",
        "id=\"link-0-to-mistake\">",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    // What only the coordinator knows stands at its field, too.
    let answer = browser.send("/request", "site=x&cpus=1&others=&place=Nowhere&for=1h").await;
    assert_eq!(status(&answer), "400", "{answer}");
    assert!(answer.contains("id=\"site-0-place-mistake\">"), "{answer}");
    let answer = browser.send("/request", &format!("{PAIR}&do=site")).await;
    assert_eq!((status(&answer), answer.matches("<legend>Site ").count()), ("200", 3), "{answer}");
    let answer = browser.send("/request", &("site=a&cpus=1&".repeat(300) + "for=1h")).await;
    assert!(status(&answer) == "400" && answer.contains("300 are not allowed"), "{answer}");
    browser.is_refused_elsewhere("/request", PAIR).await;

    let plans = browser.send("/request", PAIR).await;
    assert_eq!(status(&plans), "200", "{plans}");
    assert!(plans.contains("4 CPUs at") && plans.matches("Reserve this").count() > 1, "{plans}");
    let fields = hidden_fields(&plans, "/reserve");
    let digest = |number: usize| {
        let (_, rest) = plans.split_once("</thead>").unwrap();
        between(rest.split("<tr>").nth(number).unwrap(), "name=\"plan\" value=\"", "\"").to_owned()
    };
    let choice = format!("{fields}plan={}", digest(2));
    browser.is_refused_elsewhere("/reserve", &choice).await;
    assert!(all(&federation).await.is_empty());

    // A double click, a reload, and a reload after the coordinator was killed.
    let (first, second) =
        tokio::join!(browser.send("/reserve", &choice), browser.send("/reserve", &choice));
    let made = location(&first).to_owned();
    assert_eq!(location(&second), made);
    assert_eq!(location(&browser.send("/reserve", &choice).await), made);
    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    assert_eq!(location(&browser.send("/reserve", &choice).await), made);
    let answer = browser.send("/reserve", &format!("{fields}plan={}", digest(1))).await;
    assert_eq!(status(&answer), "409", "{answer}");

    let reservations = all(&federation).await;
    let [one] = &*reservations else { panic!("{reservations:?}") };
    assert_eq!(one.plan.as_ref().unwrap().digest, digest(2));
    assert_eq!(one.state(), v1::ReservationState::Confirmed);
    let shown = page(port, &made).await;
    assert!(shown.contains(">confirmed</span>"), "{shown}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_offers_what_would_fit() {
    let (federation, port) = with_pages().await;
    let browser = Browser::open(port).await;
    // All CPUs of a site are taken for two hours.
    let taken = "site=a&cpus=100&others=&place=A&for=2h&after=%2B1h&before=%2B3h&name=lecture";
    let plans = browser.send("/request", taken).await;
    let fields = hidden_fields(&plans, "/reserve");
    assert!(fields.contains("id=lecture&"), "{fields}");
    let digest = between(&plans, "name=\"plan\" value=\"", "\"").to_owned();
    let choice = format!("{fields}plan={digest}");
    location(&browser.send("/reserve", &choice).await);

    let wanted = "site=a&cpus=60&others=&place=A&for=1h&after=%2B1h&before=%2B2h";
    let refused = browser.send("/request", wanted).await;
    assert_eq!(status(&refused), "200", "{refused}");
    assert!(
        refused.contains("There is no plan: ") && !refused.contains("Reserve this"),
        "{refused}"
    );
    let offers = between(&refused, "<h2>What would fit</h2>", "</ul>");
    let later = unescaped(between(offers, "href=\"", "\""));
    let filled = page(port, &later).await;
    assert!(filled.contains("value=\"60\"") && filled.contains("id=\"after\""), "{filled}");
    let (_, query) = later.split_once('?').unwrap();
    let plans = browser.send("/request", query).await;
    assert_eq!(plans.matches("Reserve this").count(), 1, "{plans}");

    // More than there is: fewer would fit.
    let most = "site=a&cpus=400&others=&place=&for=1h&after=%2B4h&before=%2B5h&name=lecture";
    let refused = browser.send("/request", most).await;
    let offers = between(&refused, "<h2>What would fit</h2>", "</ul>");
    assert!(offers.contains("Ask for less") && offers.contains("cpus=100"), "{offers}");
    let (_, less) = offers
        .split_once("Ask for less")
        .map(|(before, _)| before)
        .unwrap()
        .rsplit_once("href=\"")
        .unwrap();
    let less = unescaped(less.split('"').next().unwrap());
    let (_, query) = less.split_once('?').unwrap();
    let plans = browser.send("/request", query).await;
    // The name is of another request.
    let fields = hidden_fields(&plans, "/reserve");
    let digest = between(&plans, "name=\"plan\" value=\"", "\"");
    let answer = browser.send("/reserve", &format!("{fields}plan={digest}")).await;
    assert_eq!(status(&answer), "400", "{answer}");
    assert!(answer.contains("id=\"name-mistake\">`lecture` is the name of another"), "{answer}");
    assert_eq!(all(&federation).await.len(), 1);

    // Somebody was faster than the plan.
    let plans = browser
        .send("/request", "site=a&cpus=80&others=&place=B&for=1h&after=%2B1h&before=%2B2h")
        .await;
    let chosen = format!(
        "{}plan={}",
        hidden_fields(&plans, "/reserve"),
        between(&plans, "name=\"plan\" value=\"", "\"")
    );
    let other = browser
        .send("/request", "site=a&cpus=80&others=&place=B&for=1h&after=%2B1h&before=%2B2h")
        .await;
    let faster = format!(
        "{}plan={}",
        hidden_fields(&other, "/reserve"),
        between(&other, "name=\"plan\" value=\"", "\"")
    );
    location(&browser.send("/reserve", &faster).await);
    let answer = browser.send("/reserve", &chosen).await;
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.contains("Not reserved: ") && answer.contains("Nothing is held."), "{answer}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_killed_while_it_reserves_has_one_answer_afterwards() {
    let federation = Federation::prepare();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut control = middle::start(&listen, &federation.addresses["nrm"]).await;
    let setup = Setup { relayed: [("nrm".to_owned(), listen)].into(), ..Setup::default() };
    let (mut federation, port) = start_with_pages(federation, &setup).await;
    let browser = Browser::open(port).await;
    let plans = browser.send("/request", PAIR).await;
    let digest = between(&plans, "name=\"plan\" value=\"", "\"");
    let choice = format!("{}plan={digest}", hidden_fields(&plans, "/reserve"));
    control.stop_at(Point::BeforeHold);
    let waiting = browser.begin("/reserve", &choice).await;
    let hold = control.stopped().await;
    federation.kill("grc");
    // The hold is lost with the connection that it was on.
    drop((waiting, hold));
    federation.spawn("grc");
    federation.complete().await;

    // The page is read again, until what was begun is cleaned up.
    eventually("the refusal is final", || async {
        let answer = browser.send("/reserve", &choice).await;
        assert!(["200", "303"].contains(&status(&answer)), "{answer}");
        status(&answer) == "200" && answer.contains("Not reserved: ")
    })
    .await;
    let reservations = all(&federation).await;
    let [one] = &*reservations else { panic!("{reservations:?}") };
    assert_eq!((one.state(), one.definite), (v1::ReservationState::Failed, true));
    // The page that is shown then has a new id.
    let answer = browser.send("/request", PAIR).await;
    let again = between(&answer, "name=\"plan\" value=\"", "\"");
    let again = format!("{}plan={again}", hidden_fields(&answer, "/reserve"));
    location(&browser.send("/reserve", &again).await);
    assert_eq!(all(&federation).await.len(), 2);
    federation.audit_at_rest().await;
}
