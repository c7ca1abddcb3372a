//! The protocol's cost in messages and fsyncs. The formulas hold for every number of RMs, and the table in
//! `docs/PROTOCOL.md` shows the counts. `COALLOC_BLESS=1 cargo test -p coalloc-sim --test documents cost` writes it
//! anew.

use super::page;
use coalloc_sim::cost::{Cost, Operation, count};

fn counted(operation: Operation, n: u64) -> Cost {
    count(operation, usize::try_from(n).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// One fsync for each durability point: D1, D3, D6 at the coordinator, D2 and D4 at each RM.
#[test]
fn a_co_allocation_costs_four_messages_a_resource_manager_and_one_fsync_a_point() {
    for n in 1..=20 {
        let cost = Cost { messages: 4 * n, grc: 3, below: 0, rms: 2 * n };
        for operation in [Operation::Reserve, Operation::ReserveOneByOne] {
            assert_eq!(counted(operation, n), cost, "{operation:?} of {n}");
        }
        // After a change the old version is released. Nothing of it is kept here, so one record is enough.
        let change = Cost { messages: 6 * n, grc: 4, below: 0, rms: 2 * n };
        assert_eq!(counted(Operation::Modify, n), change, "{n}");
        let release = Cost { messages: 2 * n, grc: 2, below: 0, rms: n };
        assert_eq!(counted(Operation::Release, n), release, "{n}");
    }
}

/// The RM that refuses gets no further message; the others get an Abort.
#[test]
fn a_refused_plan_costs_what_was_held() {
    for n in 2..=20 {
        let refused = Cost { messages: 4 * n - 2, grc: 3, below: 0, rms: 2 * n - 1 };
        assert_eq!(counted(Operation::Refused, n), refused, "{n}");
        // The end of the first plan and the intent of the second share one fsync.
        let second = Cost { messages: 8 * n - 2, grc: 5, below: 0, rms: 4 * n - 1 };
        assert_eq!(counted(Operation::SecondPlan, n), second, "{n}");
    }
}

/// A child coordinator has the durability points D1, D2 (prepared), D3 and D6.
#[test]
fn a_tree_costs_the_same_on_each_level() {
    for n in 1..=10 {
        let rms = 2 * n;
        let cost = Cost { messages: 4 * n + 4 * rms, grc: 3, below: 4 * n, rms: 2 * rms };
        assert_eq!(counted(Operation::Tree, n), cost, "{n}");
    }
}

/// Records that arrive while the disk is busy are written together: fewer fsyncs than durability points.
#[test]
fn transactions_in_flight_share_their_fsyncs() {
    for n in [1, 3, 5, 20] {
        let cost = counted(Operation::EightAtOnce, n);
        assert_eq!(cost.messages, 8 * 4 * n);
        assert!(cost.grc <= 8 * 3 && cost.rms <= 8 * 2 * n, "more than one a point: {cost:?}");
        assert!(cost.rms < 8 * 2 * n, "nothing is shared: {cost:?}");
    }
}

#[test]
fn the_table_is_what_was_counted() {
    let rows = [
        ("reserve", Operation::Reserve, "4n", "3 (D1, D3, D6)", "2n (D2, D4)"),
        ("reserve, one by one", Operation::ReserveOneByOne, "4n", "3", "2n"),
        ("modify, at every RM", Operation::Modify, "6n", "4 (D1, D3, D6, settled)", "2n"),
        ("release", Operation::Release, "2n", "2 (releasing, D6)", "n (D5)"),
        ("one RM refuses, no other plan", Operation::Refused, "4n - 2", "3 (D1, D3, D6)", "2n - 1"),
        (
            "one RM refuses, the second plan is booked",
            Operation::SecondPlan,
            "8n - 2",
            "5",
            "4n - 1",
        ),
        ("tree: n child coordinators, 2 RMs each", Operation::Tree, "12n", "3 + 4n", "4n"),
        (
            "eight reservations at once, in groups",
            Operation::EightAtOnce,
            "32n",
            "at most 24",
            "at most 16n",
        ),
    ];
    let mut table =
        "| operation | messages | fsyncs of coordinators | of RMs | n = 3 | n = 5 | n = 20 |\n\
                     |---|---|---|---|---|---|---|\n"
            .to_owned();
    for (name, operation, messages, grc, rms) in rows {
        table += &format!("| {name} | {messages} | {grc} | {rms} |");
        for n in [3, 5, 20] {
            let Cost { messages, grc, below, rms } = counted(operation, n);
            table += &format!(" {messages} / {} / {rms} |", grc + below);
        }
        table.push('\n');
    }
    page::check("cost", &table, |old, new| old == new);
}
