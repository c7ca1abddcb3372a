//! Traces as text: what is read of them, and how mistakes are reported.

use super::super::swf::{SwfError, SwfJob, parse};
use coalloc_common::limits::{TRACE_JOBS_MAX, TRACE_SECONDS_MAX};

const TEXT: &str = "; Version: 2.2
; Computer: a cluster of ours
;   MaxNodes: 4 (8 with the old ones)
; MaxProcs:   8
; UnixStartTime: 1000000000
; Note: written by hand
; Note: and a second one
;
1  20  5 100  3 99.1239  -1  4  50 -1 1 1 1 -1 -1 -1 -1 -1
2  10 -1  60 -1 -1       -1  2 600 -1 1 1 1 -1 -1 -1 -1 -1
3  10  0  -1  0 0        -1 -1  -1 -1 5 1 1 -1 -1 -1 -1 -1

";

#[test]
fn a_trace_is_read_by_submission() {
    let trace = parse(TEXT.as_bytes()).unwrap();
    let header = &trace.header;
    assert_eq!((header.max_procs, header.max_nodes, header.servers()), (Some(8), Some(4), Some(8)));
    assert_eq!(header.unix_start_time, Some(1_000_000_000));
    assert_eq!(header.computer.as_deref(), Some("a cluster of ours"));
    assert_eq!(header.notes, ["written by hand", "and a second one"]);
    let job = |submitted, wait, run, servers, cpu_ms, estimate| SwfJob {
        submitted,
        wait,
        run,
        servers,
        cpu_ms,
        estimate,
    };
    let second = job(10, -1, 60, 2, -1_000, 600);
    let third = job(10, 0, -1, -1, 0, -1);
    // The user's estimate was 50 s, and the job was allowed to run for 100 s.
    let first = job(20, 5, 100, 3, 99_123, 100);
    assert_eq!(trace.jobs, [second, third, first]);
    let windows = TEXT.replace('\n', "\r\n").replace(' ', "\t");
    assert_eq!(parse(windows.as_bytes()).unwrap().jobs, trace.jobs);
}

fn refused(text: &[u8]) -> SwfError {
    parse(text).expect_err("an error")
}

#[test]
fn a_mistake_names_line_field_value_and_what_is_allowed() {
    let huge = (TRACE_SECONDS_MAX + 1).to_string();
    for (good, bad, said) in [
        (" 100 ", " ten ", "line 9: field 4 (run time): \"ten\" is not allowed; allowed: a whole"),
        (" 100 ", " 1.5 ", "line 9: field 4 (run time): \"1.5\" is not"),
        (" 100 ", " - ", "line 9: field 4 (run time): \"-\" is not"),
        (
            "99.1239",
            "9.9.1",
            "field 6 (average CPU time used): \"9.9.1\" is not allowed; allowed: a number",
        ),
        ("99.1239", ".", "field 6 (average CPU time used): \".\" is not"),
        (
            " 100 ",
            " 99999999999999999999 ",
            "line 9: field 4 (run time): \"99999999999999999999\" is",
        ),
        (
            " 100 ",
            &format!(" {huge} "),
            "field 4 (run time): 1000000001 is not allowed; allowed: -1 to 1000000000 seconds",
        ),
        ("1  20 ", "1 -20 ", "line 9: field 2 (submit time): -20 is not allowed; allowed: 0 to"),
        (
            "1 1 -1 -1 -1 -1 -1\n2",
            "1 1 -1 -1 -1 -1\n2",
            "line 9: line: 17 fields is not allowed; allowed: 18 fields; field 18",
        ),
        ("-1\n\n", "-1 7\n\n", "line 11: line: more than 18 fields is not allowed"),
    ] {
        assert!(TEXT.contains(good), "{good}");
        let error = refused(TEXT.replacen(good, bad, 1).as_bytes()).to_string();
        assert!(error.contains(said), "{bad}: {error}");
    }
    let bytes = [TEXT.as_bytes(), b"4 \xff"].concat();
    let error = refused(&bytes).to_string();
    assert!(error.contains("line 13: field 2 (submit time): \"\u{fffd}\" is not"), "{error}");
    for empty in ["", "; MaxProcs: 5\n"] {
        assert!(refused(empty.as_bytes()).to_string().contains("jobs: it is missing"));
    }
}

/// Wherever a trace is cut off, it is refused, or says of every job what the whole trace says.
#[test]
fn a_trace_that_is_cut_off_is_refused_or_has_whole_jobs() {
    let whole = parse(TEXT.as_bytes()).unwrap().jobs;
    let mut refusals = 0;
    for length in 0..TEXT.len() {
        match parse(&TEXT.as_bytes()[..length]) {
            Ok(cut) => assert!(cut.jobs.iter().all(|job| whole.contains(job)), "{length}"),
            Err(_) => refusals += 1,
        }
    }
    assert!(refusals > TEXT.len() / 2, "{refusals}");
}

#[test]
fn a_trace_has_a_million_jobs_at_most() {
    let line = "1 0 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
    let text = line.repeat(TRACE_JOBS_MAX);
    assert_eq!(parse(text.as_bytes()).unwrap().jobs.len(), TRACE_JOBS_MAX);
    let error = refused([text, line.to_owned()].concat().as_bytes());
    assert_eq!(error.line, TRACE_JOBS_MAX + 1);
    assert!(error.to_string().contains("at most 1000000 jobs"), "{error}");
}
