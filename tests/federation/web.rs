//! The coordinator over HTTP: each method gives the JSON of its answer over gRPC, by a client that is not ours (curl), and a
//! browser that was led there from elsewhere gets nothing.

use std::process::{Command, Stdio};

use coalloc_net::client;
use coalloc_proto::method::{METHODS, Method};
use prost::bytes::{Buf as _, BufMut as _};
use serde_json::{Value, json};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};
use uuid::Uuid;

use crate::harness::{Federation, Setup, eventually, free_port, pair};

/// A federation whose coordinator answers at this address over HTTP.
async fn start() -> (Federation, String) {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    let web = format!("127.0.0.1:{}", free_port());
    let file = federation.dir.path().join("grc.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, text + &format!("web_listen: \"{web}\"\n")).unwrap();
    federation.start_all().await;
    (federation, web)
}

/// Whether there is curl; where a test of it must not be left out, its absence is a failure.
fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "curl is missing");
    found
}

/// What curl got: the status of HTTP, and the body.
fn curl(words: &[&str]) -> (u16, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}"])
        .args(words)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

/// Calls a method over HTTP.
fn post(web: &str, path: &str, request: &Value) -> (u16, Value) {
    let url = format!("http://{web}{path}");
    let kind = "Content-Type: application/json";
    let (status, body) = curl(&["--header", kind, "--data", &request.to_string(), &url]);
    (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}")))
}

/// Messages as they are on the wire.
#[derive(Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

/// Calls the same method over gRPC.
async fn call(federation: &Federation, method: &Method, request: &Value) -> Result<Value, Status> {
    let channel = client::channel("grc", &federation.addresses["grc"]).unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let message = method.request(&request.to_string()).unwrap();
    let path = http::uri::PathAndQuery::from_static(method.path);
    let answer = grpc.unary(tonic::Request::new(message), path, Bytes).await?;
    Ok(serde_json::from_str(&method.answer(answer.get_ref()).unwrap()).unwrap())
}

/// The word of a code in JSON.
fn word(code: Code) -> String {
    let debug = format!("{code:?}");
    let mut word = String::new();
    for (at, letter) in debug.char_indices() {
        if at > 0 && letter.is_uppercase() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

/// Takes out when resource managers have described themselves, which they do every two seconds, also between two calls. Returns of
/// how many that was told.
fn take_described(answer: &mut Value) -> usize {
    let managers = answer.get_mut("resourceManagers").and_then(Value::as_array_mut);
    let managers = managers.into_iter().flatten().filter_map(Value::as_object_mut);
    managers.filter_map(|manager| manager.remove("described")).count()
}

fn compare(path: &str, over_grpc: Result<Value, Status>, over_http: (u16, Value)) {
    match (over_grpc, over_http) {
        // Each call makes another secret.
        (Ok(answer), (200, same)) if path.ends_with("/MakeCalendarAddress") => {
            let names = |answer: &Value| {
                let fields = answer.as_object().into_iter().flat_map(|fields| fields.keys());
                fields.cloned().collect::<Vec<_>>()
            };
            assert_eq!(names(&same), ["expires", "path", "secret"], "{path}");
            assert_eq!(names(&same), names(&answer), "{path}");
        }
        // The second call finds nothing left.
        (Ok(answer), (200, same)) if path.ends_with("/RevokeCalendarAddress") => {
            assert_eq!((answer, same), (json!({ "revoked": true }), json!({})), "{path}");
        }
        (Ok(mut answer), (200, mut same)) => {
            assert_eq!(take_described(&mut same), take_described(&mut answer), "{path}");
            assert_eq!(same, answer, "{path}");
        }
        (Err(status), (code, error)) => {
            assert!(code >= 400, "{path}: {status} but {code} {error}");
            assert_eq!(error["code"], word(status.code()), "{path}: {error}");
            assert_eq!(error["message"], status.message(), "{path}");
        }
        (Ok(answer), other) => panic!("{path}: {answer} but {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_gives_the_same_json_as_over_grpc() {
    if !has_curl() {
        return;
    }
    let (federation, web) = start().await;
    let request = serde_json::to_value(pair(1, 1, 3_600, 600)).unwrap();
    let reserve = json!({ "requestId": "lab-1", "request": request });
    // In the order in which they make sense; what changes something is asked for twice under one id.
    let calls = [
        ("Plan", json!({ "request": request })),
        ("Reserve", reserve.clone()),
        ("Get", json!({ "id": "lab-1" })),
        ("List", json!({ "pageSize": 10 })),
        ("GetDataPlane", json!({ "id": "lab-1" })),
        ("GetQuota", json!({ "user": "eve" })),
        ("Modify", json!({ "id": "lab-1", "changeId": "more", "request": request })),
        ("ReleaseReservation", json!({ "id": "lab-1" })),
        ("Get", json!({ "id": "lab-1" })),
    ];
    let calls = calls.into_iter().filter_map(|(name, request)| {
        Method::at(&format!("/coalloc.v1.Coordinator/{name}")).map(|method| (method, request))
    });
    let calls: Vec<_> = calls.collect();
    assert!(calls.len() > 6, "{}", calls.len());
    for (method, request) in &calls {
        let over_grpc = call(&federation, method, request).await;
        compare(method.path, over_grpc, post(&web, method.path, request));
    }
    // Each method of the schema, without anything in its request.
    let own = ["/coalloc.v1.Coordinator/", "/coalloc.v1.Workflows/"];
    let is_own = |method: &&Method| own.iter().any(|own| method.path.starts_with(own));
    let mut count = 0;
    for method in METHODS.iter().filter(is_own).filter(|method| !method.streams) {
        let over_grpc = call(&federation, method, &json!({})).await;
        compare(method.path, over_grpc, post(&web, method.path, &json!({})));
        count += 1;
    }
    assert!(count > 20, "{count}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_made_once_however_often_and_by_whatever_way_it_is_sent() {
    if !has_curl() {
        return;
    }
    let (federation, web) = start().await;
    let id = Uuid::new_v4().to_string();
    let request = json!({ "requestId": id, "request": pair(1, 1, 3_600, 600) });
    let path = "/coalloc.v1.Coordinator/Reserve";
    let sent: Vec<_> = (0..6)
        .map(|_| {
            let (web, request) = (web.clone(), request.clone());
            tokio::task::spawn_blocking(move || post(&web, path, &request))
        })
        .collect();
    let mut ids = std::collections::BTreeSet::new();
    for one in sent {
        let (status, answer) = one.await.unwrap();
        // A copy that comes while the first is at work may be sent away.
        if status == 200 {
            ids.insert(answer["reservation"]["id"].as_str().unwrap().to_owned());
        }
    }
    let again = post(&web, path, &request);
    ids.insert(again.1["reservation"]["id"].as_str().unwrap().to_owned());
    assert_eq!(ids.len(), 1, "{ids:?}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_is_told_and_a_page_of_another_site_calls_nothing() {
    if !has_curl() {
        return;
    }
    let (federation, web) = start().await;
    let url = format!("http://{web}/coalloc.v1.Coordinator/List");
    let json = "Content-Type: application/json";
    let cases: [(&[&str], u16, &str); 8] = [
        (&["--data", "{}", &url], 415, "allowed: application/json"),
        (&["--header", "Content-Type: text/plain", "--data", "{}", &url], 415, "allowed"),
        (
            &["--header", json, "--header", "Host: evil.example", "--data", "{}", &url],
            421,
            "address",
        ),
        (&["--request", "OPTIONS", "--header", "Origin: http://evil.example", &url], 405, "POST"),
        (&[&url], 405, "POST"),
        (&["--header", json, "--data", "{\"usr\": 1}", &url], 400, "\"field\":\"usr\""),
        (&["--header", json, "--data", "{", &url], 400, "the text ends while a bracket"),
        (
            &["--header", json, "--header", "Connect-Timeout-Ms: x", "--data", "{}", &url],
            400,
            "milliseconds",
        ),
    ];
    for (words, expected, text) in cases {
        let (status, body) = curl(words);
        assert_eq!(status, expected, "{words:?}: {body}");
        assert!(body.contains(text), "{words:?}: {body}");
        let error: serde_json::Value = serde_json::from_str(&body).expect(&body);
        assert!(error["code"].is_string() && error["message"].is_string(), "{words:?}: {body}");
    }
    // A page of another site takes no place of its reader's watches; a person and a program may watch.
    let watch = format!("http://{web}/coalloc.v1.Coordinator/Watch");
    for site in ["cross-site", "same-site"] {
        let header = format!("Sec-Fetch-Site: {site}");
        let (status, body) = curl(&["--header", &header, &watch]);
        assert_eq!(status, 403, "{site}: {body}");
        assert!(body.contains("a page of another site may not watch"), "{body}");
    }
    for site in ["same-origin", "none"] {
        let header = format!("Sec-Fetch-Site: {site}");
        // They reach the method, which does not know this token.
        let unknown = format!("{watch}?message=%7B%22resumeToken%22%3A%22x%22%7D");
        let (status, body) = curl(&["--header", &header, &unknown]);
        assert_eq!(status, 400, "{site}: {body}");
    }
    // A header proves nothing in plain text: a page that was led here by its own name could send it, too.
    let led =
        ["--header", json, "--header", "Host: evil.example", "--header", "Authorization: Bearer x"];
    assert_eq!(curl(&[led.as_slice(), &["--data", "{}", &url]].concat()).0, 421);
    let large =
        federation.write("large.json", &format!("{{\"user\": \"{}\"}}", "x".repeat(40 << 20)));
    let data = format!("@{}", large.display());
    let (status, body) = curl(&["--header", json, "--header", "Expect:", "--data", &data, &url]);
    assert_eq!(status, 429, "{body}");
    let (status, body) = curl(&[&format!("http://{web}/nothing")]);
    assert!(status == 404 && body.contains("POST /coalloc.v1.Coordinator/METHOD"), "{body}");
    for path in ["coalloc.v1.Coordinator/Gett", "gett"] {
        let (_, body) = curl(&["--header", json, "--data", "{}", &format!("http://{web}/{path}")]);
        assert!(body.contains("did you mean Get?"), "{body}");
    }
    // A value that is wrong is quoted, and not the line.
    let (status, body) =
        curl(&["--header", json, "--data", "{\"id\": 5, \"x\": 1}", &url.replace("/List", "/Get")]);
    assert!(status == 400 && body.contains("`5` appears where text"), "{body}");
    let elsewhere = format!("http://{web}/coalloc.v1.ResourceManager/Describe");
    assert_eq!(curl(&["--header", json, "--data", "{}", &elsewhere]).0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_a_stream_of_events_that_goes_on_after_the_last() {
    if !has_curl() {
        return;
    }
    let (federation, web) = start().await;
    federation.reserve_confirmed("first", pair(1, 1, 3_600, 600)).await;
    federation.reserve_confirmed("second", pair(1, 1, 3_600, 600)).await;
    let watch = format!(
        "http://{web}/coalloc.v1.Coordinator/Watch?message=%7B%22resumeToken%22%3A%220%22%7D"
    );
    let log = federation.dir.path().join("events");
    let listen = |url: &str, header: &str| {
        let out = std::fs::File::create(&log).unwrap();
        let mut command = Command::new("curl");
        command.args(["--silent", "--no-buffer", "--header", header, url]).stdout(out);
        command.spawn().unwrap()
    };
    let heard = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut child = listen(&watch, "Accept: text/event-stream");
    eventually("both are told", || async {
        let text = heard();
        ["\"first\"", "\"second\""].iter().all(|id| text.contains(id)) && text.ends_with("\n\n")
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    let text = heard();
    let events: Vec<&str> = text.split("\n\n").filter(|event| !event.is_empty()).collect();
    let first = events.iter().rposition(|event| event.contains("\"first\"")).unwrap();
    let (id, _) = events[first].split_once('\n').unwrap();
    let last = id.strip_prefix("id: ").unwrap();
    let mut child = listen(&watch, &format!("Last-Event-ID: {last}"));
    eventually("the second is told again", || async { heard().contains("\"second\"") }).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!heard().contains("\"first\""), "{}", heard());
}
