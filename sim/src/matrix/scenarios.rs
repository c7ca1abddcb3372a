//! The scenarios of the crash matrix: every path of the protocol that has durability points of its own.

use super::Scenario;
use crate::story::{self, time};
use crate::world::clients::Visit;
use crate::world::{Event, World};

/// The nodes of a federation with one coordinator and four RMs.
const FLAT: &str = "
grc grc 1
rm nrm-N N0-N1=1000
rm crm-A A=8 a=8 soft=1s
rm crm-B B=8 soft=10s hard=10s
rm crm-C C=8
demand r1 alice grc
";

/// The nodes of a federation with one parent coordinator and two child coordinators.
const TREE: &str = "
grc top t
rm crm-A A=8 soft=1s hard=12s
rm nrm-1 A-X=1000
rm crm-B B=8
lower low-1 u top crm-A,nrm-1
lower low-2 v top crm-B
demand r1 alice top
";

/// The plan that most scenarios reserve.
const PLAN: &str = "
plan nrm-N N0-N1 600 [3600,7200) ; crm-A A 4 [3600,7200) ; crm-A a 2 [3600,7200) ; crm-B B 4 [3600,7200)
";

const TREE_PLAN: &str = "
plan low-1 A 4 [3600,7200) ; low-1 A-X 600 [3600,7200) ; low-2 B 4 [3600,7200)
";

const fn scenario(
    name: &'static str,
    what: &'static str,
    nodes: &'static [&'static str],
    acts: &'static str,
    from_ms: i64,
) -> Scenario {
    Scenario { name, what, nodes, acts, from_ms }
}

/// All scenarios.
pub const ALL: &[Scenario] = &[
    scenario("reserve", "three RMs, one with two segments", &[FLAT, PLAN], "1s reserve r1", 1_000),
    scenario(
        "reserve, in turns",
        "two RMs one after the other, then the other two together",
        &[
            FLAT,
            "turns crm-B B 4 [3600,7200) ; crm-A A 4 [3600,7200)",
            " | nrm-N N0-N1 6 [3600,7200) ; crm-C C 4 [3600,7200)",
        ],
        "1s reserve r1",
        1_000,
    ),
    scenario(
        "reserve, one-way",
        "two RMs one after the other, booked with one message each",
        &[FLAT, "one-way crm-B B 4 [3600,7200) ; crm-A A 4 [3600,7200)"],
        "1s reserve r1",
        1_000,
    ),
    scenario(
        "reserve, one-way, refused",
        "booked at the first RM, refused at the second: the booking is ended",
        &[FLAT, "one-way crm-A A 4 [3600,7200) ; crm-B B 9 [3600,7200)"],
        "1s reserve r1",
        1_000,
    ),
    scenario(
        "reserve, second plan",
        "one RM refuses the first plan; the second is booked",
        &[
            FLAT,
            "plan crm-A A 4 [3600,7200) ; crm-B B 9 [3600,7200) ; nrm-N N0-N1 6 [3600,7200)\n",
            "plan crm-A A 4 [3600,7200) ; crm-C C 8 [3600,7200)",
        ],
        "1s reserve r1",
        1_000,
    ),
    scenario(
        "reserve, refused",
        "one RM refuses the only plan",
        &[FLAT, "plan crm-A A 4 [3600,7200) ; crm-B B 9 [3600,7200) ; nrm-N N0-N1 6 [3600,7200)"],
        "1s reserve r1",
        1_000,
    ),
    scenario(
        "modify",
        "longer, more at one RM, one RM new, one not needed any more",
        &[FLAT, PLAN, "change c1 r1\n", CHANGED],
        "1s reserve r1\n40s modify r1 c1",
        40_000,
    ),
    scenario(
        "modify, refused",
        "one RM refuses: the old version stays whole",
        &[FLAT, PLAN, "change c1 r1\n", "plan crm-A A 6 [3600,9000) ; crm-B B 9 [3600,9000)"],
        "1s reserve r1\n40s modify r1 c1",
        40_000,
    ),
    scenario(
        "report",
        "something is reported about a reservation, and its shell changes it",
        &[FLAT, PLAN, "follow r1\n", CHANGED],
        "1s reserve r1\n40s report r1 p1",
        40_000,
    ),
    scenario("release", "of three RMs", &[FLAT, PLAN], "1s reserve r1\n40s release r1", 40_000),
    scenario(
        "release while changing",
        "a decided change that one RM has not received: both versions end",
        &[FLAT, PLAN, "change c1 r1\n", CHANGED],
        "1s reserve r1\n40s modify r1 c1\n40015ms cut grc -> crm-A\n41s release r1\n47s mend grc -> crm-A",
        40_000,
    ),
    scenario(
        "expiry",
        "one RM is cut off when it has held: its hold ends by itself",
        &[FLAT, PLAN],
        "1s reserve r1\n1005ms cut grc -> crm-B\n1005ms cut crm-B -> grc\n\
         35s mend grc -> crm-B\n35s mend crm-B -> grc",
        1_000,
    ),
    scenario(
        "late Commit",
        "Commit does not reach one RM before its hold has ended: a mixed outcome",
        &[FLAT, PLAN],
        "1s reserve r1\n1015ms cut grc -> crm-B\n35s mend grc -> crm-B",
        1_000,
    ),
    scenario(
        "modify, late Commit",
        "Commit of a change does not reach one RM before its hold has ended: it is held again",
        &[FLAT, PLAN, "change c1 r1\n", CHANGED],
        "1s reserve r1\n40s modify r1 c1\n40015ms cut grc -> crm-B\n75s mend grc -> crm-B",
        40_000,
    ),
    scenario(
        "Resolve, undecided",
        "one RM asks while another one has not answered",
        &[FLAT, PLAN],
        "1s reserve r1\n1s cut grc -> crm-B\n2500ms mend grc -> crm-B",
        1_000,
    ),
    scenario(
        "Resolve, decided",
        "one RM asks because Commit has not reached it",
        &[FLAT, PLAN],
        "1s reserve r1\n1015ms cut grc -> crm-A\n1500ms mend grc -> crm-A",
        1_000,
    ),
    scenario(
        "tree: reserve",
        "two child coordinators, three RMs",
        &[TREE, TREE_PLAN],
        "1s reserve r1",
        1_000,
    ),
    scenario(
        "tree: refused",
        "an RM of one child coordinator refuses",
        &[TREE, "plan low-1 A 4 [3600,7200) ; low-1 A-X 6 [3600,7200) ; low-2 B 9 [3600,7200)"],
        "1s reserve r1",
        1_000,
    ),
    scenario(
        "tree: modify",
        "longer, and the other domain not needed any more",
        &[TREE, TREE_PLAN, "change c1 r1\nplan low-1 A 4 [3600,9000) ; low-1 A-X 800 [3600,9000)"],
        "1s reserve r1\n60s modify r1 c1",
        60_000,
    ),
    scenario(
        "tree: release",
        "on both levels",
        &[TREE, TREE_PLAN],
        "1s reserve r1\n60s release r1",
        60_000,
    ),
    scenario(
        "tree: Resolve, decided",
        "an RM asks its child coordinator, which asks the parent",
        &[TREE, TREE_PLAN],
        "1s reserve r1\n1035ms cut top -> low-1\n1500ms mend top -> low-1",
        1_000,
    ),
    scenario(
        "tree: late Commit",
        "a child's promise ends before the parent's decision arrives: a mixed outcome",
        &[TREE, TREE_PLAN],
        "1s reserve r1\n1035ms cut top -> low-1\n40s mend top -> low-1",
        1_000,
    ),
];

const CHANGED: &str = "plan crm-A A 6 [3600,9000) ; crm-B B 4 [3600,7200) ; crm-C C 8 [3600,7200)";

/// The world of a scenario, with all acts of its script in the queue.
pub(super) fn set_up(scenario: &Scenario, world: World) -> Result<World, String> {
    let (mut world, demands) = story::set_up(&scenario.nodes.concat(), world)?;
    for act in scenario.acts.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = act.split_whitespace().collect();
        let wrong = || format!("{act:?} is no act");
        let (at, words) = words.split_first().ok_or_else(wrong)?;
        let at_us = time(at)?.as_us();
        let demand = |name: &str| demands.get(name).copied().ok_or_else(wrong);
        match words {
            ["reserve", name] => {
                let demand = demand(name)?;
                world.clients.demands[demand].patience_us = PATIENCE_US;
                world.at(at_us, Event::Visit(Visit::Open(demand)));
                world.at(at_us + PATIENCE_US, Event::Visit(Visit::Again(demand)));
            }
            ["release", name] => {
                let demand = demand(name)?;
                world.at(at_us, Event::Visit(Visit::Release(demand)));
            }
            ["report", name, report] => {
                let demand = demand(name)?;
                let report = world.add_report(demand, report);
                for again_us in AGAIN_US {
                    world.at(at_us + again_us, Event::Visit(Visit::Report { demand, report }));
                }
            }
            ["modify", name, change] => {
                let demand = demand(name)?;
                let wishes = &world.clients.demands[demand].changes;
                let wish = wishes.iter().position(|wish| wish.id.as_str() == *change);
                let wish = wish.ok_or_else(wrong)?;
                for again_us in AGAIN_US {
                    let visit = Visit::Change { demand, wish };
                    world.at(at_us + again_us, Event::Visit(visit));
                }
            }
            [what @ ("cut" | "mend"), from, "->", to] => {
                let (from, to) =
                    (world.find(from).ok_or_else(wrong)?, world.find(to).ok_or_else(wrong)?);
                let event =
                    if *what == "cut" { Event::Cut(from, to) } else { Event::Mend(from, to) };
                world.at(at_us, event);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(world)
}

/// A user who has had no answer asks again after this time.
const PATIENCE_US: i64 = 9_000_000;

/// When a change or a report is sent, relative to its act: at once, and again at these times whatever the answer was.
const AGAIN_US: [i64; 5] = [0, 6_000_000, 30_000_000, 100_000_000, 300_000_000];
