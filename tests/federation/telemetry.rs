//! Metrics and traces of real daemons: counters equal what the ledgers say, one request is one trace across
//! all daemons, and a dead collector changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use coalloc_proto::v1::{self, BookingState, ReservationState as State};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::server::TcpIncoming;

use crate::dashboard;
use crate::harness::{Federation, RMS, Setup, eventually, free_port, pair};

/// One span, as the collector received it.
#[derive(Debug, Clone)]
struct CollectedSpan {
    daemon: String,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
    kind: i32,
    facts: BTreeMap<String, String>,
    from: u64,
    until: u64,
}

/// A collector in this process.
#[derive(Debug, Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<CollectedSpan>>>,
}

fn text(facts: &[KeyValue], key: &str) -> Option<String> {
    match facts.iter().find(|fact| fact.key == key)?.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        for resource in request.into_inner().resource_spans {
            let facts = resource.resource.unwrap_or_default().attributes;
            let daemon = text(&facts, "service.instance.id").unwrap();
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let keys = span.attributes.iter().map(|fact| fact.key.clone());
                let facts =
                    keys.filter_map(|key| Some((key.clone(), text(&span.attributes, &key)?)));
                let seen = CollectedSpan {
                    daemon: daemon.clone(),
                    facts: facts.collect(),
                    trace: span.trace_id,
                    id: span.span_id,
                    parent: span.parent_span_id,
                    name: span.name,
                    kind: span.kind,
                    from: span.start_time_unix_nano,
                    until: span.end_time_unix_nano,
                };
                self.spans.lock().unwrap().push(seen);
            }
        }
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts a collector; also returns its address.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(collector.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        (collector, format!("http://{address}"))
    }

    /// The spans of the trace that contains a request.
    fn trace_of(&self, request: &str) -> Vec<CollectedSpan> {
        let spans = self.spans.lock().unwrap();
        let wanted =
            |span: &&CollectedSpan| span.facts.get("coalloc.request").is_some_and(|r| r == request);
        let Some(root) = spans.iter().find(wanted) else { return Vec::new() };
        spans.iter().filter(|span| span.trace == root.trace).cloned().collect()
    }
}

/// A federation whose daemons serve metrics, and send traces to a collector.
struct Watched {
    federation: Federation,
    metrics: BTreeMap<String, String>,
}

impl Watched {
    async fn start(collector: &str) -> Self {
        Self::start_with(collector, "").await
    }

    /// Starts the federation; `more` is added to the configuration of every resource manager.
    async fn start_with(collector: &str, more: &str) -> Self {
        let mut federation = Federation::prepare();
        federation.configure(&Setup::default());
        for rm in RMS {
            let file = format!("{rm}.yaml");
            let text = std::fs::read_to_string(federation.dir.path().join(&file)).unwrap();
            federation.write(&file, &(text + more));
        }
        let mut metrics = BTreeMap::new();
        for name in RMS.iter().chain(&["grc"]) {
            let address = format!("127.0.0.1:{}", free_port());
            let told = format!("metrics_listen: \"{address}\", traces_endpoint: \"{collector}\"");
            tell(&federation, name, &told);
            metrics.insert((*name).to_owned(), address);
        }
        federation.start_all().await;
        Self { federation, metrics }
    }

    /// The samples that a daemon shows, each with its labels in the order of their names.
    async fn scrape(&self, daemon: &str) -> Scrape {
        scrape(&self.metrics[daemon]).await
    }
}

/// The samples at an address.
pub(crate) async fn scrape(address: &str) -> Scrape {
    let (head, body) = get(address, "/metrics").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    Scrape(body)
}

/// Adds lines to the `daemon` part of a configuration.
pub(crate) fn tell(federation: &Federation, name: &str, told: &str) {
    let file = federation.dir.path().join(format!("{name}.yaml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let ledger = format!("ledger: {name}.ledger");
    assert!(text.contains(&ledger), "{text}");
    std::fs::write(file, text.replacen(&ledger, &format!("{ledger}, {told}"), 1)).unwrap();
}

async fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(crate) struct Scrape(pub(crate) String);

impl Scrape {
    /// The sum of all samples of a name whose labels include these.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{v}\"")).collect();
        let mut sum = 0.0;
        for line in self.0.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (family, of) = series.split_once('{').unwrap_or((series, ""));
            if family == name && wanted.iter().all(|label| of.contains(label)) {
                sum += value.parse::<f64>().unwrap();
            }
        }
        sum
    }

    /// All names of metrics, as queries write them: counters end with `_total`.
    fn names(&self) -> BTreeSet<String> {
        let types = self.0.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let name = |line: &str| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total"),
            (name, _) => name.to_owned(),
        };
        types.map(name).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_is_one_trace_across_the_coordinator_and_every_resource_manager() {
    let (collector, endpoint) = Collector::start().await;
    let mut watched = Watched::start(&endpoint).await;
    let reservation = watched.federation.reserve("traced", pair(10, 100, 3_600, 600)).await;
    assert_eq!(reservation.state(), State::Confirmed);
    // A caller that has its own trace is joined to it, and a caller that wants no trace gets none.
    for (id, flags) in [("joined", "01"), ("untraced", "00")] {
        let mut request = tonic::Request::new(v1::ReserveRequest {
            request_id: id.to_owned(),
            request: Some(pair(10, 100, 3_600, 600)),
            ..Default::default()
        });
        let parent = format!("00-{}-00000000000000b7-{flags}", "0af7651916cd43dd8448eb211c80319c");
        request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        watched.federation.grc().reserve(request).await.unwrap();
    }
    // A daemon that stops sends its last spans before the process ends, so nothing needs to be waited for
    // afterwards.
    for name in ["grc", "crm-A", "crm-B", "nrm"] {
        assert!(watched.federation.stop(name).success(), "{name}");
    }
    let joined = collector.trace_of("joined");
    let root = joined.iter().find(|span| span.name == "coalloc.v1.Coordinator/Reserve").unwrap();
    assert_eq!((root.trace[0], root.parent[7]), (0x0a, 0xb7));
    assert!(joined.iter().any(|span| span.daemon == "nrm"));
    assert!(collector.trace_of("untraced").is_empty());
    let spans = collector.trace_of("traced");
    let by_id: BTreeMap<&[u8], &CollectedSpan> =
        spans.iter().map(|span| (&span.id[..], span)).collect();
    assert_eq!(by_id.len(), spans.len(), "no span is sent twice");
    let roots: Vec<&CollectedSpan> = spans.iter().filter(|span| span.parent.is_empty()).collect();
    assert_eq!(roots.len(), 1, "{roots:#?}");
    let root = roots[0];
    assert_eq!(
        (root.daemon.as_str(), root.name.as_str()),
        ("grc", "coalloc.v1.Coordinator/Reserve")
    );
    assert_eq!(root.facts["coalloc.reservation"], reservation.id);
    for span in &spans {
        assert!(span.from <= span.until, "{span:#?}");
        assert!(span.id == root.id || by_id.contains_key(&span.parent[..]), "orphan: {span:#?}");
    }
    let children = |of: &CollectedSpan, name: &str| -> Vec<&CollectedSpan> {
        spans.iter().filter(|span| span.parent == of.id && span.name == name).collect()
    };
    assert_eq!(children(root, "admission").len(), 1);
    let planning = children(root, "planning");
    assert_eq!(planning.len(), 1);
    assert_eq!(children(planning[0], "frame").len(), 1, "one start, one frame");
    let records: Vec<&str> =
        children(root, "ledger sync").iter().map(|s| s.facts["coalloc.record"].as_str()).collect();
    assert_eq!(
        records.iter().copied().collect::<BTreeSet<_>>(),
        ["opened", "intent", "decided", "finished"].into()
    );
    for call in ["QueryAvailability", "Hold", "Commit"] {
        let name = format!("coalloc.v1.ResourceManager/{call}");
        let mut asked = BTreeSet::new();
        for client in children(root, &name) {
            assert_eq!((client.daemon.as_str(), client.kind), ("grc", SpanKind::Client as i32));
            let rm = &client.facts["coalloc.rm"];
            let served = children(client, &name);
            assert_eq!(served.len(), 1, "{call} at {rm}");
            assert_eq!((&served[0].daemon, served[0].kind), (rm, SpanKind::Server as i32));
            if call != "QueryAvailability" {
                assert_eq!(served[0].facts["coalloc.transaction"], reservation.transaction);
                for part in ["inbox", "step", "sync"] {
                    assert_eq!(children(served[0], part).len(), 1, "{part} of {call} at {rm}");
                }
            }
            asked.insert(rm.as_str());
        }
        assert_eq!(asked, RMS.into(), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_one_trace_from_its_picture_to_its_bookings() {
    let (collector, endpoint) = Collector::start().await;
    let open = "profiles: {coordinators: [grc]}\n";
    let mut watched = Watched::start_with(&endpoint, open).await;
    let task = v1::TaskRequest {
        source: "A".to_owned(),
        cluster: Some("B".to_owned()),
        data_bytes: 25_000_000,
        work_mi: 1_000,
        bandwidth_bps: 600_000_000,
        user: "UserA".to_owned(),
        ..Default::default()
    };
    let planned = v1::PlanTaskRequest { task: Some(task.clone()), ..Default::default() };
    watched.federation.grc().plan_task(planned).await.unwrap();
    let wire = v1::SubmitTaskRequest {
        request_id: "task".to_owned(),
        task: Some(task),
        ..Default::default()
    };
    let answer = watched.federation.grc().submit_task(wire).await.unwrap().into_inner();
    let receipt = answer.task.unwrap();
    assert!(receipt.confirmed, "{receipt:?}");
    for name in ["grc", "crm-A", "crm-B", "nrm"] {
        assert!(watched.federation.stop(name).success(), "{name}");
    }
    let spans = collector.trace_of("task");
    let root = spans.iter().find(|span| span.parent.is_empty()).unwrap();
    assert_eq!(root.name, "coalloc.v1.Coordinator/SubmitTask");
    assert_eq!(root.facts["coalloc.reservation"], receipt.reservation);
    let parts: Vec<&CollectedSpan> = spans.iter().filter(|span| span.parent == root.id).collect();
    for name in ["admission", "picture", "planning"] {
        assert_eq!(parts.iter().filter(|part| part.name == name).count(), 1, "{name}");
    }
    for call in ["Hold", "Commit"] {
        let name = format!("coalloc.v1.ResourceManager/{call}");
        let asked = parts.iter().filter(|part| part.name == name);
        let asked: BTreeSet<&str> = asked.map(|part| part.facts["coalloc.rm"].as_str()).collect();
        assert_eq!(asked, ["crm-B", "nrm"].into(), "{call}");
    }
    let all = collector.spans.lock().unwrap();
    let begun = all.iter().filter(|span| span.name == "coalloc.v1.Coordinator/PlanTask");
    assert_eq!(begun.count(), 1, "what is only planned has a trace as well");
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_equal_the_timetables_and_the_reservations_and_survive_a_kill() {
    let (_collector, endpoint) = Collector::start().await;
    let mut watched = Watched::start(&endpoint).await;
    mixed_load(&watched.federation).await;
    watched.federation.audit_at_rest().await;

    let grc = watched.scrape("grc").await;
    let list =
        watched.federation.grc().list(v1::ListRequest::default()).await.unwrap().into_inner();
    let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
    let mut failed = 0;
    for reservation in &list.reservations {
        if reservation.state() == State::Failed {
            failed += 1;
            let reason = reservation.refusal.as_ref().unwrap().reason();
            let word = reason.as_str_name().strip_prefix("REASON_").unwrap().to_lowercase();
            *reasons.entry(word).or_default() += 1;
        }
    }
    assert!(failed >= 3, "{:?}", list.reservations);
    assert_eq!(grc.sum("coalloc_grc_requests_total", &[]), list.reservations.len() as f64);
    let reservations = "coalloc_grc_reservations_total";
    assert_eq!(grc.sum(reservations, &[("outcome", "failed")]), f64::from(failed));
    let confirmed = list.reservations.len() as f64 - f64::from(failed);
    assert_eq!(grc.sum(reservations, &[("outcome", "confirmed")]), confirmed);
    assert_eq!(grc.sum("coalloc_grc_releases_total", &[]), 1.0);
    assert_eq!(grc.sum("coalloc_grc_transactions_unfinished", &[]), 0.0);
    let refusals = "coalloc_grc_refusals_total";
    for (reason, count) in &reasons {
        assert_eq!(grc.sum(refusals, &[("reason", reason)]), f64::from(*count), "{reason}");
    }
    assert_eq!(grc.sum(refusals, &[]), f64::from(failed), "{reasons:?}");
    for rm in RMS {
        assert_eq!(grc.sum("coalloc_grc_rm_reachable", &[("rm", rm)]), 1.0);
        assert!(grc.sum("coalloc_grc_queries_total", &[("rm", rm), ("outcome", "answered")]) > 0.0);
    }
    let reserves = [("method", "coalloc.v1.Coordinator/Reserve")];
    let calls = grc.sum("coalloc_net_calls_total", &reserves);
    assert_eq!(grc.sum("coalloc_net_call_seconds_count", &reserves), calls);

    for rm in RMS {
        let before = check_rm(&watched, rm).await;
        // The counters are a fold of the ledger, so a crash does not change them.
        watched.federation.kill(rm);
        watched.federation.spawn(rm);
        watched.federation.complete().await;
        eventually("the manager answers again", || async {
            watched.federation.rm(rm).describe(v1::DescribeRequest {}).await.is_ok()
        })
        .await;
        assert_eq!(check_rm(&watched, rm).await, before, "{rm} after a kill");
    }
    every_name_is_documented(&watched).await;
}

/// Requests that are confirmed, refused by the planner, refused by an RM, aborted, and released.
async fn mixed_load(federation: &Federation) {
    // This reservation runs now, so that it shows as utilisation.
    let now = federation.reserve_confirmed("now", pair(30, 100, 0, 3_600)).await;
    for n in 0..4 {
        federation.reserve_confirmed(&format!("later-{n}"), pair(20, 200, 7_200, 600)).await;
    }
    for (id, request) in [
        ("too many CPUs", pair(1_000, 100, 7_200, 600)),
        ("full", pair(30, 100, 7_200, 600)),
        ("far too late", pair(1, 1, 86_400 * 300, 600)),
    ] {
        let refused = federation.reserve(&id.replace(' ', "-"), request).await;
        assert_eq!(refused.state(), State::Failed, "{id}: {refused:?}");
    }
    let released = federation.get("later-0").await.unwrap().id;
    let request = v1::ReleaseReservationRequest { id: released, ..Default::default() };
    federation.grc().release(request).await.unwrap();
    // This acts in the name of the federation's only coordinator: one hold is refused, one is aborted.
    for (number, cpus) in [(1, 101), (2, 5)] {
        let transaction = format!("grc-hand-{number}/1");
        let segment = v1::Segment {
            resource_manager: "crm-A".into(),
            resource: "A".into(),
            amount: cpus,
            window: now.plan.as_ref().unwrap().window,
        };
        let hold = v1::HoldRequest {
            transaction: transaction.clone(),
            coordinator: "grc".into(),
            user: "UserA".into(),
            segments: vec![segment],
            ..Default::default()
        };
        federation.rm("crm-A").hold(hold).await.unwrap();
        let abort =
            v1::AbortRequest { transaction, coordinator: "grc".into(), ..Default::default() };
        federation.rm("crm-A").abort(abort).await.unwrap();
    }
}

/// Compares what one RM shows with what its timetable lists; returns the counters.
async fn check_rm(watched: &Watched, rm: &str) -> Vec<f64> {
    let request = v1::ListBookingsRequest {
        include_ended: true,
        page_size: Some(10_000),
        ..Default::default()
    };
    let bookings = watched.federation.rm(rm).list_bookings(request).await.unwrap().into_inner();
    let count = |state: BookingState| {
        let of = |booking: &&v1::Booking| booking.state() == state && !booking.segments.is_empty();
        bookings.bookings.iter().filter(of).count() as f64
    };
    let [booked, released, aborted, refused, expired] = [
        BookingState::Booked,
        BookingState::Released,
        BookingState::Aborted,
        BookingState::Refused,
        BookingState::Expired,
    ]
    .map(count);
    let shown = watched.scrape(rm).await;
    assert_eq!(
        shown.sum("coalloc_rm_holds_total", &[]),
        booked + released + aborted + expired,
        "{rm}"
    );
    assert_eq!(shown.sum("coalloc_rm_bookings_total", &[]), booked + released, "{rm}");
    assert_eq!(shown.sum("coalloc_rm_refusals_total", &[]), refused, "{rm}");
    let ended = |ending| shown.sum("coalloc_rm_ended_total", &[("ending", ending)]);
    assert_eq!((ended("released"), ended("expired")), (released, expired), "{rm}");
    assert_eq!(shown.sum("coalloc_rm_live_holds", &[]), count(BookingState::Held), "{rm}");
    assert!(released >= 1.0 && booked >= 4.0, "{rm}: {bookings:?}");
    if rm == "crm-A" {
        assert_eq!((refused, ended("aborted")), (1.0, 1.0));
        let reason = [("reason", "beyond_capacity")];
        assert_eq!(shown.sum("coalloc_rm_refusals_total", &reason), 1.0);
        let resource = [("resource", "A")];
        assert_eq!(shown.sum("coalloc_rm_resource_booked", &resource), 30.0, "now");
        assert_eq!(shown.sum("coalloc_rm_resource_capacity", &resource), 100.0);
    }
    let records = shown.sum("coalloc_ledger_records_total", &[]);
    assert!(records >= booked * 2.0);
    let names =
        ["coalloc_rm_holds_total", "coalloc_rm_bookings_total", "coalloc_rm_refusals_total"];
    names.map(|name| shown.sum(name, &[])).into()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The names of metrics in a text, as they are written there.
fn names_in(text: &str) -> BTreeSet<String> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !inside(c)).filter(|word| word.starts_with("coalloc_"));
    words.map(str::to_owned).collect()
}

/// Checks that the guide's table has every metric and no other, and that the dashboard's queries get an answer.
async fn every_name_is_documented(watched: &Watched) {
    let (mut shown, mut series) = (BTreeSet::new(), dashboard::Series::new());
    for name in watched.metrics.keys() {
        let scrape = watched.scrape(name).await;
        shown.extend(scrape.names());
        dashboard::read(&scrape.0, &mut series);
    }
    assert!(shown.len() > 30, "{shown:?}");
    let guide = std::fs::read_to_string(root().join("docs/guide/metrics.md")).unwrap();
    let rows: String = guide.lines().filter(|line| line.starts_with("| `coalloc_")).collect();
    assert_eq!(names_in(&rows), shown, "the guide's table, and what is shown");
    let text = std::fs::read_to_string(root().join("deploy/grafana/coalloc.json")).unwrap();
    let queries = dashboard::queries(&serde_json::from_str(&text).unwrap());
    assert_eq!(queries.len(), text.matches("\"expr\"").count(), "a query outside of the panels");
    for (panel, query, legend) in queries {
        let problems = dashboard::problems(&query, &legend, &series);
        assert!(problems.is_empty(), "{panel}: {query}, {legend:?}: {problems:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_costs_spans_and_nothing_else() {
    // This collector accepts connections and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut watched = Watched::start(&endpoint).await;
    for n in 0..5 {
        let reservation =
            watched.federation.reserve(&format!("r{n}"), pair(10, 100, 3_600, 600)).await;
        assert_eq!(reservation.state(), State::Confirmed);
    }
    let spans = "coalloc_net_spans_total";
    eventually("spans are given up", || async {
        watched.scrape("grc").await.sum(spans, &[("outcome", "failed")]) > 0.0
    })
    .await;
    assert_eq!(watched.scrape("grc").await.sum(spans, &[("outcome", "exported")]), 0.0);
    watched.federation.audit_at_rest().await;
    for name in ["grc", "crm-A", "crm-B", "nrm"] {
        assert!(watched.federation.stop(name).success(), "{name} ends all the same");
    }
    let said = watched.federation.log("grc").matches("spans are lost").count();
    assert_eq!(said, 1, "{}", watched.federation.log("grc"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_telemetry_settings_name_their_field() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = format!("metrics_listen: \"{}\"", taken.local_addr().unwrap());
    let federation = Federation::prepare();
    let own = format!("metrics_listen: \"{}\"", federation.addresses["nrm"]);
    for (told, field, code) in [
        ("metrics_listen: \"9001\"", "daemon.metrics_listen", 2),
        (own.as_str(), "daemon.metrics_listen", 2),
        ("traces_endpoint: \"127.0.0.1:4317\"", "daemon.traces_endpoint", 2),
        ("traces_endpoint: \"https://127.0.0.1:4317\"", "daemon.traces_endpoint", 2),
        (taken.as_str(), "metrics_listen", 1),
    ] {
        federation.configure(&Setup::default());
        tell(&federation, "nrm", told);
        let mut command = federation.command("nrm");
        let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{told}: {said}");
        assert!(said.contains(field), "{told}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_get_of_metrics_is_answered() {
    let (_collector, endpoint) = Collector::start().await;
    let watched = Watched::start(&endpoint).await;
    let (head, _) = get(&watched.metrics["nrm"], "/").await;
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
}
