//! One record as one line: its time, kind, transaction, cause, proven sender and details.
//!
//! The line is made from the record's JSON, not from this program's types, so that records of another
//! release can be shown too.

use std::fmt::Write as _;

use coalloc_common::{Time, Window};
use serde_json::Value;

/// A record's JSON; text that is not JSON becomes a string.
pub(super) fn parse(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))
}

/// The time at which the record was made.
pub(super) fn time(record: &Value) -> Option<Time> {
    Some(Time::from_us(record.pointer("/at/wall")?.as_i64()?))
}

/// Does the record contain a string that `wanted` accepts?
pub(super) fn mentions(record: &Value, wanted: &dyn Fn(&str) -> bool) -> bool {
    match record {
        Value::String(text) => wanted(text),
        Value::Array(all) => all.iter().any(|one| mentions(one, wanted)),
        Value::Object(all) => all.values().any(|one| mentions(one, wanted)),
        _ => false,
    }
}

/// The line without its sequence number.
pub(super) fn shown(record: &Value) -> String {
    let text = |at: &str| record.pointer(at).and_then(Value::as_str);
    let first = |places: &[&str]| places.iter().find_map(|at| text(at)).map(str::to_owned);
    let when = time(record).map_or_else(|| "-".to_owned(), |time| time.to_string());
    let kind = text("/record").unwrap_or("?");
    let mut out = format!("{when:<27}  {kind:<14}");
    let what = ["/txn", "/order/txn", "/reservation", "/ticket/reservation"];
    let moved = || Some(format!("{} entries", record.pointer("/moves")?.as_array()?.len()));
    let forgotten =
        || Some(format!("{} transactions", record.pointer("/transactions")?.as_array()?.len()));
    let boot = || Some(format!("boot {}", text("/boot").filter(|_| kind == "opened")?));
    let what = first(&what).or_else(moved).or_else(forgotten).or_else(boot).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = write!(out, "  {what}");
    if let Some(by) = cause(record) {
        let _ = write!(out, "  by {by}");
    }
    if let Some(peer) = text("/from/peer") {
        let _ = write!(out, "  sent by {peer}");
    }
    for detail in details(record) {
        let _ = write!(out, "  {detail}");
    }
    out
}

/// Who caused the record (I20).
fn cause(record: &Value) -> Option<String> {
    let name = |at: &str| record.pointer(at).and_then(Value::as_str);
    match record.get("by") {
        Some(Value::String(by)) => return Some(by.clone()),
        Some(Value::Object(by)) => {
            let (how, who) = by.iter().next()?;
            return Some(format!("{} {}", how.replace('_', " "), who.as_str().unwrap_or("?")));
        }
        _ => {}
    }
    if let Some(user) = name("/ticket/user") {
        return Some(format!("user {user}"));
    }
    if let Some(rm) = name("/rm") {
        return Some(format!("resource manager {rm}"));
    }
    if let Some(by) = name("/order/coordinator").or_else(|| name("/coordinator")) {
        return Some(format!("coordinator {by}"));
    }
    // Records that a coordinator makes by itself, or because all resource managers have answered.
    let own = ["intent", "decided", "finished", "concluded", "change_refused", "prepared"];
    name("/record").filter(|kind| own.contains(kind)).map(|_| "itself".to_owned())
}

/// Further details of the record.
fn details(record: &Value) -> Vec<String> {
    let text = |at: &str| record.pointer(at).and_then(Value::as_str);
    let mut all = Vec::new();
    for (at, word) in [
        ("/order/user", "for user"),
        ("/ticket/request", "request"),
        ("/ticket/change", "change"),
        ("/decision", "decision"),
        ("/ending", "ending"),
        ("/state", "state"),
        ("/order/replaces", "replaces"),
        ("/replaces", "replaces"),
    ] {
        all.extend(text(at).map(|value| format!("{word} {value}")));
    }
    all.extend(text("/member").map(|member| format!("{member} leads")));
    all.extend(text("/ledger").map(|ledger| format!("of {ledger}")));
    all.extend(record.pointer("/epoch").map(|epoch| format!("epoch {epoch}")));
    let oldest_open = record.pointer("/oldest_open").and_then(Value::as_object);
    let below = |(ledger, number): (&String, &Value)| format!("of {ledger} below attempt {number}");
    all.extend(oldest_open.into_iter().flatten().map(below));
    let segments = record.pointer("/order/segments").and_then(Value::as_array);
    all.extend(segments.into_iter().flatten().filter_map(segment));
    let parties = record.pointer("/candidate/segments").and_then(Value::as_object);
    all.extend(parties.map(|parties| {
        format!("at {}", parties.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
    }));
    if let Some(refusal) = record.get("refusal").filter(|refusal| refusal.is_object()) {
        let word = |at: &str| refusal.get(at).and_then(Value::as_str).unwrap_or("?");
        all.push(format!("refused: {} ({})", word("reason"), word("detail")));
    }
    all
}

/// A segment: its resource, amount and window.
fn segment(segment: &Value) -> Option<String> {
    let resource = segment.get("resource")?.as_str()?;
    let window: Option<Window> =
        segment.get("window").and_then(|window| serde_json::from_value(window.clone()).ok());
    let window = window.map(|window| format!(" {window}")).unwrap_or_default();
    Some(format!("{resource} {}{window}", segment.get("amount")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_that_says_who_did_what() {
        let booked = r#"{"record":"booked","txn":"grc-1-1/1","by":{"coordinator":"grc"},
            "at":{"wall":1795219200000000,"boot":7}}"#;
        assert_eq!(
            shown(&parse(booked)),
            "2026-11-21T00:00:00Z         booked          grc-1-1/1  by coordinator grc"
        );
        let expired = r#"{"record":"ended","txn":"t","coordinator":"grc","ending":"expired","by":"expiry",
            "at":{"wall":0,"boot":7}}"#;
        assert!(shown(&parse(expired)).ends_with("ended           t  by expiry  ending expired"));
        let forgotten = r#"{"record":"forgotten","oldest_open":{"grc-t":6},
            "transactions":["grc-t-1/1","grc-t-1/2"],"at":{"wall":0,"boot":7}}"#;
        assert!(
            shown(&parse(forgotten))
                .ends_with("forgotten       2 transactions  of grc-t below attempt 6")
        );
        let elected =
            r#"{"record":"leader_elected","epoch":42,"member":"b","at":{"wall":0,"boot":7}}"#;
        assert!(shown(&parse(elected)).ends_with("b leads  epoch 42"));
        assert!(shown(&parse("{}")).contains('?'), "of a release to come, or damaged");
        let (booked, is) = (parse(booked), |id: &'static str| move |s: &str| s == id);
        assert!(mentions(&booked, &is("grc-1-1/1")) && !mentions(&booked, &is("grc-1-1")));
    }
}
