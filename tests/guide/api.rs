//! The chapter "The API from Python and curl": its program is the one in docs/examples/api, and a shell runs its commands.
//!
//! Skipped where Python has no grpcio, or there is no curl, unless `COALLOC_PYTHON=1` says that they are there.

use std::process::{Command, Stdio};

use crate::root;
use crate::shell::{Detached, PORTS, ShellPage, free_ports};

/// What the chapter needs, each as a command that works where it is there.
const NEEDED: [(&str, &[&str]); 2] = [
    ("python3", &["-c", "import grpc, grpc_status, grpc_tools"]),
    ("curl", &["--http2", "--version"]),
];

#[test]
fn the_chapter_has_the_program_of_the_examples() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let (chapter, program) = (read("docs/guide/api.md"), read("docs/examples/api/reserve.py"));
    assert!(chapter.contains(&format!("```python\n{program}```")), "docs/guide/api.md");
}

#[test]
fn python_and_curl_call_a_federation_as_the_chapter_says() {
    let is_missing = |(program, arguments): &&(&str, &[&str])| {
        let mut command = Command::new(program);
        command.args(*arguments).stdout(Stdio::null()).stderr(Stdio::null());
        !command.status().is_ok_and(|status| status.success())
    };
    if let Some((program, arguments)) = NEEDED.iter().find(is_missing) {
        let needed = format!("`{program} {}` does not work here", arguments.join(" "));
        let must = std::env::var("COALLOC_PYTHON").is_ok_and(|value| value == "1");
        assert!(!must, "{needed}, but COALLOC_PYTHON=1 says that it does");
        println!("skipped: {needed}; see docs/guide/api.md");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let federation = folder.path().join("api");
    let _detached = Detached(&federation);
    let root = root();
    let shown = ShellPage::new("api.md", &root)
        .with_replaced("/tmp/api", federation.to_str().unwrap())
        .with_ports(7_000, free_ports(PORTS, 8_500))
        .run();
    for expected in [
        "reserved: confirmed\n",
        "event: confirmed - booked everywhere\n",
        "released: terminated\n",
        "refused: REASON_BEYOND_CAPACITY - ",
        "failed: INVALID_ARGUMENT INVALID_FIELD [('request.sites[0].cpus', '0 is not allowed",
        "\"requestId\":\"from-curl\",\"user\":\"alice\",\"state\":\"RESERVATION_STATE_CONFIRMED\"",
        "\"code\":\"not_found\"",
        "data: {\"event\":{",
        "grpc-status: 0",
        "request_id: \"from-python\"",
        "00 00 00 00 02 08 01",
        "coalloc_grc_reservations_total{outcome=\"confirmed\"} 2",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}
