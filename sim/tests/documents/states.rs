//! The state tables of `docs/PROTOCOL.md`, made by driving every pair of a state and an input.
//! `COALLOC_BLESS=1 cargo test -p coalloc-sim --test documents states` writes them.

mod below;
mod coordinator;
mod participant;

use std::collections::BTreeMap;

use super::page;
use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, ResourceId, RmName, Segment, Span, Time, UserName,
    Window,
};
use coalloc_protocol::coordinator::Candidate;
use coalloc_protocol::message::{Answer, HoldOrder};
use coalloc_sim::world::node::WALL_START;

/// The transaction that the tables of a participant are about, and a newer version of it.
const TXN: &str = "grc-1-7/1";
const NEWER: &str = "grc-1-7/2";

/// What the clocks show so many milliseconds after the beginning.
fn at(ms: i64) -> Now {
    let wall = WALL_START.saturating_add(Span::from_millis(ms));
    Now { wall, boot: BootTime::from_us(ms * 1_000) }
}

fn segment(amount: u64) -> Segment {
    let start: Time = WALL_START.saturating_add(Span::from_secs(3_600));
    let window = Window::starting(start, Span::from_secs(3_600)).unwrap();
    Segment { resource: ResourceId::composed("r"), amount: Amount(amount), window }
}

fn order(txn: &str, amount: u64, replaces: Option<&str>) -> HoldOrder {
    HoldOrder {
        txn: coalloc_common::TransactionId::composed(txn),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("alice"),
        segments: vec![segment(amount)],
        hold_for: None,
        replaces: replaces.map(coalloc_common::TransactionId::composed),
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

fn candidate() -> Candidate {
    let segments: BTreeMap<RmName, Vec<Segment>> =
        ["a", "b"].map(|rm| (RmName::composed(rm), vec![segment(4)])).into();
    Candidate { segments, ..Candidate::default() }
}

fn told(answer: &Answer) -> String {
    match answer {
        Answer::Refused(refusal) => format!("refused: {}", refusal.reason.word().replace('_', " ")),
        Answer::Held { .. } => "held".to_owned(),
        Answer::Done => "done".to_owned(),
        Answer::OtherContent => "other content".to_owned(),
        Answer::Denied => "denied".to_owned(),
        Answer::OlderLeader { .. } => "older leader".to_owned(),
    }
}

/// The text of a cell: the records, then the effects, or a dot where there are neither.
fn cell(records: &[String], effects: &[String]) -> String {
    let written = records.iter().map(|record| format!("**{record}**"));
    let all: Vec<String> = written.chain(effects.iter().cloned()).collect();
    if all.is_empty() { "·".to_owned() } else { all.join(", ") }
}

/// A table with named rows and columns.
fn table(corner: &str, columns: &[&str], rows: &[(&str, Vec<String>)]) -> String {
    let mut text = format!("| {corner} | {} |\n", columns.join(" | "));
    text += &format!("|---{}|\n", "|---".repeat(columns.len()));
    for (name, cells) in rows {
        text += &format!("| **{name}** | {} |\n", cells.join(" | "));
    }
    text
}

/// One test for all three tables, because they are on one page.
#[test]
fn every_state_answers_every_input_as_the_tables_say() {
    let tables = [
        ("states of a participant", participant::table()),
        ("states of a coordinator", coordinator::table()),
        ("states of a coordinator below", below::table()),
    ];
    for (section, table) in tables {
        page::check(section, &table, |old, new| old == new);
    }
}
