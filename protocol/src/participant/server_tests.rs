//! By-server sites: which servers a hold gets, and that it keeps them; by hand, and against a look at every server.

use coalloc_common::servers::Choice;
use coalloc_common::{Reason, Refusal, Segment, ServiceLevels, UserName, Window};
use proptest::prelude::*;

use super::equipment::Unusable;
use super::servers::SiteServers;
use super::tests::{at, config, grc, synced, txn, window};
use super::*;
use crate::message::{GrantedServers, ServerWish};

/// CPUs of each server of the site.
const EACH: u64 = 4;

fn site() -> ResourceId {
    ResourceId::composed("A")
}

fn server(number: usize) -> ResourceId {
    ResourceId::composed(format!("A/{number}"))
}

fn servers(numbers: &[usize]) -> Vec<ResourceId> {
    numbers.iter().map(|number| server(*number)).collect()
}

/// An RM with one by-server site of so many servers, and a counted site of 10 CPUs.
fn participant(count: usize) -> Participant {
    let names = (1..=count).map(server).collect();
    let site_servers = SiteServers { cpus_each: EACH, names };
    let mut participant = Participant::new(ParticipantConfig {
        servers: [(site(), site_servers)].into(),
        levels: ServiceLevels::of_users(
            [(UserName::composed("guest"), 50), (UserName::composed("UserA"), 100)].into(),
        ),
        ..config(&[("A", EACH * count as u64), ("B", 10)])
    });
    let _ = step(&mut participant, ParticipantInput::Start { boot: "first".into() }, at(0));
    participant
}

fn order(name: &str, cpus: u64, window: Window) -> HoldOrder {
    let segment = Segment { resource: site(), amount: Amount(cpus), window };
    HoldOrder { segments: vec![segment], ..super::tests::order(name, 1, window) }
}

fn picking(order: HoldOrder, picked: &[usize]) -> HoldOrder {
    let wish = ServerWish { picked: servers(picked), ..ServerWish::default() };
    HoldOrder { servers: Some(wish), ..order }
}

/// Runs a step, and checks the invariants and that replay gives the same entries and the same index.
fn step(participant: &mut Participant, input: ParticipantInput, now: Now) -> Option<Answer> {
    let mut twin = participant.clone();
    let step = participant.step(input, now);
    for record in step.records() {
        let text = serde_json::to_string(record).unwrap();
        twin.apply(&serde_json::from_str(&text).unwrap()).unwrap();
    }
    participant.check_invariants().unwrap();
    twin.check_invariants().unwrap();
    assert_eq!(*twin.entries, *participant.entries, "I12, I14");
    assert_eq!(twin.timetables, participant.timetables, "I12, I14");
    synced(step).into_iter().find_map(|effect| match effect {
        ParticipantEffect::Reply { answer, .. } => Some(answer),
        ParticipantEffect::Ask { .. } | ParticipantEffect::Reconcile { .. } => None,
    })
}

fn hold_at(participant: &mut Participant, order: HoldOrder, now: Now) -> Answer {
    step(participant, ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }, now)
        .unwrap()
}

/// The numbers of the servers that a hold gets.
fn held(participant: &mut Participant, order: HoldOrder) -> Vec<usize> {
    let windows: Vec<Window> = order.segments.iter().map(|segment| segment.window).collect();
    match hold_at(participant, order, at(0)) {
        Answer::Held { servers, .. } => {
            let one = |granted: &GrantedServers| {
                assert!(granted.site == site() && windows.contains(&granted.window));
                granted.servers.clone()
            };
            let number = |name: ResourceId| name.as_str()[2..].parse().unwrap();
            servers.iter().flat_map(one).map(number).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn refused(participant: &mut Participant, order: HoldOrder) -> Refusal {
    match hold_at(participant, order, at(0)) {
        Answer::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn commit(participant: &mut Participant, name: &str) {
    let input = ParticipantInput::Commit { txn: txn(name), by: grc(), token: Token::new(1) };
    assert_eq!(step(participant, input, at(1)), Some(Answer::Done));
}

fn release(participant: &mut Participant, name: &str) {
    let input = ParticipantInput::Release { txn: txn(name), by: grc(), token: Token::new(1) };
    assert_eq!(step(participant, input, at(1)), Some(Answer::Done));
}

fn step_abort(participant: &mut Participant, name: &str) {
    let input = ParticipantInput::Abort { txn: txn(name), by: grc(), token: Token::new(1) };
    assert_eq!(step(participant, input, at(1)), Some(Answer::Done));
}

fn book(participant: &mut Participant, order: HoldOrder) -> Vec<usize> {
    let txn = order.txn.clone();
    let servers = held(participant, order);
    let input = ParticipantInput::Commit { txn, by: grc(), token: Token::new(1) };
    assert_eq!(step(participant, input, at(1)), Some(Answer::Done));
    servers
}

/// The CPUs of the site that a query says are free over a window.
fn free(participant: &Participant, user: &str, window: Window, replaces: Option<&str>) -> u64 {
    let replaces = replaces.map(txn);
    let user = UserName::composed(user);
    participant.availability(&[window], &user, replaces.as_ref(), at(1))[0][0].0
}

/// The same with what a booking has counted as free, but for these servers.
fn free_avoiding(p: &Participant, window: Window, replaces: &str, avoided: &[usize]) -> u64 {
    let question = Question::new(vec![window], UserName::composed("UserA"), Some(txn(replaces)));
    let mut question = question.avoiding(servers(avoided));
    while !question.is_answered() {
        p.answer(&mut question, at(1));
    }
    question.into_answer()[0][0].0
}

#[test]
fn a_hold_takes_whole_servers_and_names_them_for_ever() {
    let mut p = participant(3);
    let hour = window(600, 1_200);
    let first = order("a", 5, hour);
    assert_eq!(held(&mut p, first.clone()), [2, 3], "five CPUs are two servers of four");
    assert_eq!(free(&p, "UserA", hour, None), 4);
    assert_eq!(held(&mut p, first.clone()), [2, 3], "the same answer to the same Hold");
    commit(&mut p, "a");
    assert_eq!(held(&mut p, first), [2, 3], "and once it is booked");
    let refusal = refused(&mut p, order("b", 8, hour));
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    assert_eq!((refusal.requested, refusal.available), (Some(Amount(8)), Some(Amount(4))));
    assert_eq!(held(&mut p, order("c", 1, hour)), [1]);
    assert_eq!(free(&p, "UserA", hour, None), 0);
    // Windows that meet share a server, and the counted site is as before.
    assert_eq!(held(&mut p, order("d", 12, window(1_200, 1_800))).len(), 3);
    let counted = Segment { resource: ResourceId::composed("B"), amount: Amount(3), window: hour };
    let counted = HoldOrder { segments: vec![counted], ..order("e", 1, hour) };
    assert_eq!(held(&mut p, counted), [0; 0]);
    release(&mut p, "a");
    assert_eq!(free(&p, "UserA", hour, None), 8);
}

#[test]
fn servers_of_one_site_do_not_stand_for_those_of_another() {
    let all = |site: &str| {
        let names = (1..=2).map(|number| ResourceId::composed(format!("{site}/{number}")));
        SiteServers { cpus_each: EACH, names: names.collect() }
    };
    let sites = ["A", "B"].map(|site| (ResourceId::composed(site), all(site)));
    let config = config(&[("A", 8), ("B", 8)]);
    let mut p = Participant::new(ParticipantConfig { servers: sites.into(), ..config });
    let hour = window(600, 1_200);
    let at = |site: &str| Segment {
        resource: ResourceId::composed(site),
        amount: Amount(8),
        window: hour,
    };
    let both = HoldOrder { segments: vec![at("A"), at("B")], ..order("a", 1, hour) };
    let answer = hold_at(&mut p, both, super::tests::at(0));
    let Answer::Held { servers, .. } = answer else { panic!("{answer:?}") };
    let names = |granted: &GrantedServers| granted.servers.clone();
    let expected = ["A/1", "A/2", "B/1", "B/2"].map(ResourceId::composed);
    assert_eq!(servers.iter().flat_map(names).collect::<Vec<_>>(), expected);
}

#[test]
fn every_instant_may_have_enough_and_no_server_be_idle_throughout() {
    let mut p = participant(2);
    assert_eq!(book(&mut p, picking(order("a", 4, window(600, 1_200)), &[1])), [1]);
    assert_eq!(book(&mut p, picking(order("b", 4, window(1_200, 1_800)), &[2])), [2]);
    let both = window(600, 1_800);
    assert_eq!(p.timetable(&site()).unwrap().free_min(both), Amount(4), "profiles are counts");
    assert_eq!(free(&p, "UserA", both, None), 0, "a query asks for the whole frame");
    let refusal = refused(&mut p, order("c", 4, both));
    assert!(refusal.detail.contains("0 of the 2 servers of A are idle"), "{}", refusal.detail);
    let changes = Question::new(vec![both], UserName::composed("UserA"), None);
    let mut question = changes;
    p.answer(&mut question, at(1));
    let (_, next) = question.into_answer_with_changes().next().unwrap();
    assert_eq!(next, Some(window(1_200, 1_201).start()), "server 1 is idle for long from then on");
}

#[test]
fn a_change_keeps_the_servers_that_it_has() {
    let mut p = participant(4);
    let hour = window(600, 1_200);
    assert_eq!(book(&mut p, picking(order("a", 8, hour), &[2, 4])), [2, 4]);
    let change = |name: &str, cpus, window, old: &str| HoldOrder {
        replaces: Some(txn(old)),
        keeps_old: true,
        ..order(name, cpus, window)
    };
    // Later by half: the same servers, and nobody else gets them meanwhile.
    assert_eq!(free(&p, "UserA", window(900, 1_500), Some("a")), 16);
    assert_eq!(book(&mut p, change("b", 8, window(900, 1_500), "a")), [2, 4]);
    // One more server, and the way back while the old version is kept.
    let three = book(&mut p, change("c", 12, window(900, 1_500), "b"));
    assert!(three.len() == 3 && three.contains(&2) && three.contains(&4), "{three:?}");
    assert_eq!(book(&mut p, change("d", 8, window(900, 1_500), "c")), [2, 4]);
    assert_eq!(book(&mut p, change("e", 4, window(900, 1_500), "d")), [2]);
    release(&mut p, "d");
    assert_eq!(free(&p, "UserA", window(900, 1_500), None), 12);
    release(&mut p, "e");
    assert_eq!(free(&p, "UserA", window(0, 2_000), None), 16);
}

/// Of the idle servers, it takes those that are listed first.
fn first(order: HoldOrder) -> HoldOrder {
    let wish = ServerWish { choice: Choice::First, ..ServerWish::default() };
    HoldOrder { servers: Some(wish), ..order }
}

fn avoiding(order: HoldOrder, avoided: &[usize]) -> HoldOrder {
    let wish = ServerWish { avoided: servers(avoided), ..ServerWish::default() };
    HoldOrder { servers: Some(wish), ..order }
}

fn broken() -> Unusable {
    Unusable { sentence: "the node is down".to_owned(), goes_on: false }
}

fn fail(participant: &mut Participant, numbers: &[usize]) {
    let unusable = servers(numbers).into_iter().map(|name| (name, broken())).collect();
    step(participant, ParticipantInput::Unusable(unusable), at(0));
}

#[test]
fn what_cannot_be_used_is_given_to_nobody_and_kept_by_who_has_it() {
    let day = window(600, 1_200);
    let mut p = participant(3);
    assert_eq!(book(&mut p, first(order("a", 8, day))), [1, 2]);
    fail(&mut p, &[1, 3]);
    let refusal = refused(&mut p, order("b", 4, day));
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    assert!(refusal.detail.ends_with("2 cannot be used now: the node is down"), "{refusal:?}");
    assert_eq!(free(&p, "UserA", day, None), 0);
    let refusal = refused(&mut p, picking(order("c", 4, day), &[3]));
    assert_eq!(refusal.reason, Reason::Equipment);
    // Its own counts as long as it has it, and goes first when there is less.
    assert_eq!(free(&p, "UserA", day, Some("a")), 8);
    assert_eq!(free(&p, "UserA", window(600, 1_300), Some("a")), 4, "it has server 1 until 1,200");
    let of_a =
        |cpus, window, name| HoldOrder { replaces: Some(txn("a")), ..order(name, cpus, window) };
    assert_eq!(held(&mut p, of_a(8, window(600, 1_100), "short")), [1, 2]);
    step_abort(&mut p, "short");
    assert_eq!(held(&mut p, of_a(4, day, "small")), [2]);
    step_abort(&mut p, "small");
    let longer = of_a(8, window(600, 1_300), "long");
    assert_eq!(refused(&mut p, longer.clone()).reason, Reason::InsufficientCapacity);
    fail(&mut p, &[1]);
    let longer = HoldOrder { txn: txn("longer"), ..longer };
    assert_eq!(held(&mut p, longer), [2, 3], "server 3 can be used again");
}

#[test]
fn what_is_avoided_is_left_from_now_on() {
    let day = window(0, 1_200);
    let mut p = participant(3);
    assert_eq!(book(&mut p, first(order("a", 8, day))), [1, 2]);
    fail(&mut p, &[1]);
    assert_eq!(free_avoiding(&p, day, "a", &[1]), 8);
    let from_now_on = HoldOrder {
        replaces: Some(txn("a")),
        ..avoiding(order("moved", 8, window(300, 1_200)), &[1])
    };
    match hold_at(&mut p, from_now_on, at(310)) {
        Answer::Held { servers, .. } => assert_eq!(servers[0].servers, self::servers(&[2, 3])),
        other => panic!("{other:?}"),
    }
    commit(&mut p, "moved");
    assert_eq!(free(&p, "UserA", window(300, 1_200), None), 0, "server 1 cannot be used");
    fail(&mut p, &[]);
    assert_eq!(free(&p, "UserA", window(300, 1_200), None), 4);
}

#[test]
fn a_counted_resource_that_cannot_be_used_is_refused_as_a_whole() {
    let day = window(600, 1_200);
    let mut p = participant(1);
    let of_b = |name, cpus, window| HoldOrder {
        segments: vec![Segment {
            resource: ResourceId::composed("B"),
            amount: Amount(cpus),
            window,
        }],
        ..order(name, 1, window)
    };
    hold_at(&mut p, of_b("a", 4, day), at(0));
    commit(&mut p, "a");
    let unusable = [(ResourceId::composed("B"), broken())].into();
    step(&mut p, ParticipantInput::Unusable(unusable), at(0));
    let refusal = refused(&mut p, of_b("b", 1, day));
    assert_eq!(refusal.reason, Reason::Equipment);
    assert!(refusal.detail.contains("the node is down"), "{refusal:?}");
    let user = UserName::composed("UserA");
    assert_eq!(p.availability(&[day], &user, None, at(0))[0][1], Amount(0));
    assert_eq!(p.availability(&[day], &user, Some(&txn("a")), at(0))[0][1], Amount(4));
    let less = HoldOrder { replaces: Some(txn("a")), ..of_b("less", 3, day) };
    assert!(matches!(hold_at(&mut p, less, at(0)), Answer::Held { .. }));
}

#[test]
fn what_has_begun_cannot_move_to_other_servers() {
    let mut p = participant(2);
    assert_eq!(book(&mut p, picking(order("a", 4, window(600, 1_200)), &[1])), [1]);
    assert_eq!(book(&mut p, picking(order("b", 4, window(1_200, 1_800)), &[1])), [1]);
    let longer =
        |name: &str| HoldOrder { replaces: Some(txn("a")), ..order(name, 4, window(600, 1_500)) };
    let begun = hold_at(&mut p, longer("c"), at(700));
    let Answer::Refused(refusal) = begun else { panic!("{begun:?}") };
    assert_eq!(refusal.resource, Some(server(1)));
    assert!(refusal.detail.contains("server A/1 is taken from"), "{}", refusal.detail);
    // Before its start it may take the other one.
    assert_eq!(held(&mut p, longer("d")), [2]);
}

#[test]
fn a_lost_pick_says_until_when_and_when_all_are_idle() {
    let mut p = participant(3);
    book(&mut p, picking(order("a", 4, window(600, 1_200)), &[2]));
    book(&mut p, picking(order("b", 4, window(1_500, 1_600)), &[3]));
    let refusal = refused(&mut p, picking(order("c", 8, window(900, 1_300)), &[2, 3]));
    assert_eq!(refusal.resource, Some(server(2)));
    assert_eq!(refusal.window, Some(window(900, 1_200)));
    let (from, until) = (window(900, 901).start(), window(1_200, 1_201).start());
    let next = window(1_600, 1_601).start();
    let expected = format!(
        "server A/2 is taken from {from} to {until}; all of them are next idle for 6 min 40 s from \
         {next} on"
    );
    assert_eq!(refusal.detail, expected);
    assert_eq!(held(&mut p, picking(order("d", 8, window(1_600, 2_000)), &[3, 2])), [3, 2]);
    // Also when no server of the site is idle, so that the count would do to refuse it.
    book(&mut p, order("e", 12, window(3_000, 3_600)));
    let refusal = refused(&mut p, picking(order("f", 4, window(3_000, 3_600)), &[1]));
    assert_eq!((refusal.resource, refusal.window), (Some(server(1)), Some(window(3_000, 3_600))));
}

#[test]
fn picks_that_make_no_sense_are_refused_by_name() {
    let mut p = participant(2);
    let hour = window(600, 1_200);
    let unknown = refused(&mut p, picking(order("a", 4, hour), &[7]));
    assert_eq!((unknown.reason, unknown.resource), (Reason::UnknownResource, Some(server(7))));
    assert!(unknown.detail.starts_with("there is no server A/7 here"), "{}", unknown.detail);
    let few = refused(&mut p, picking(order("b", 8, hour), &[1]));
    assert_eq!(few.detail, "servers of A that were picked: 1, needed: 2");
    let twice = refused(&mut p, picking(order("c", 8, hour), &[1, 1]));
    assert_eq!(twice.resource, Some(server(1)));
    let counted = Segment { resource: ResourceId::composed("B"), amount: Amount(3), window: hour };
    let elsewhere = HoldOrder { segments: vec![counted], ..picking(order("d", 4, hour), &[1]) };
    let elsewhere = refused(&mut p, elsewhere);
    assert_eq!(elsewhere.detail, "server A/1 was picked, but nothing at A");
    // A server is no resource that could be held by its name.
    let by_name = Segment { resource: server(1), amount: Amount(1), window: hour };
    let by_name = HoldOrder { segments: vec![by_name], ..order("e", 4, hour) };
    assert_eq!(refused(&mut p, by_name).reason, Reason::UnknownResource);
}

#[test]
fn a_service_level_is_a_share_of_the_idle_servers() {
    let mut p = participant(4);
    let hour = window(600, 1_200);
    let guest = |name: &str, cpus| HoldOrder {
        user: UserName::composed("guest"),
        ..order(name, cpus, hour)
    };
    assert_eq!(free(&p, "guest", hour, None), 8);
    assert_eq!(refused(&mut p, guest("a", 9)).reason, Reason::ServiceLevel);
    assert_eq!(held(&mut p, guest("b", 8)).len(), 2);
    // Half of the two that are left is one.
    assert_eq!(free(&p, "guest", hour, None), 4);
}

#[test]
fn a_site_made_by_server_over_live_bookings_is_noticed() {
    let hour = window(600, 1_200);
    let mut counted = Participant::new(config(&[("A", 8)]));
    let mut log = Vec::new();
    for input in [
        ParticipantInput::Start { boot: "first".into() },
        ParticipantInput::Hold { order: order("a", 4, hour), oldest_open: 0, token: Token::new(1) },
    ] {
        log.extend(counted.step(input, at(0)).records().iter().cloned());
    }
    let mut by_server = participant(2);
    by_server = Participant::new(by_server.config.clone());
    for record in &log {
        by_server.apply(record).unwrap();
    }
    assert_eq!(by_server.without_servers(at(0)), Some((&txn("a"), &site())));
    assert_eq!(by_server.without_servers(at(1_200)), None, "it is over then");
    assert_eq!(participant(2).without_servers(at(0)), None);
}

/// A change of the site's bookings.
#[derive(Debug, Clone)]
enum Act {
    Hold {
        cpus: u64,
        from: i64,
        length: i64,
        replaces: Option<usize>,
        picked: Option<usize>,
        /// Of these servers, those whose bit is set are not wanted.
        avoided: usize,
    },
    Commit(usize),
    Abort(usize),
    Release(usize),
    /// Of these servers, those whose bit is set cannot be used from now on.
    Unusable(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let number = 0..20_usize;
    let act = prop_oneof![
        6 => (1..18_u64, 0..10_i64, 1..6_i64, prop::option::weighted(0.3, number.clone()),
              prop::option::weighted(0.2, 1..5_usize), prop_oneof![3 => Just(0), 1 => 1..16_usize])
            .prop_map(|(cpus, from, length, replaces, picked, avoided)| {
                Act::Hold { cpus, from, length, replaces, picked, avoided }
            }),
        4 => number.clone().prop_map(Act::Commit),
        1 => number.clone().prop_map(Act::Abort),
        2 => number.prop_map(Act::Release),
        1 => prop_oneof![Just(0), 1..16_usize].prop_map(Act::Unusable),
    ];
    prop::collection::vec(act, 1..40)
}

fn of_bits(bits: usize) -> Vec<ResourceId> {
    (1..=4).filter(|number| bits & (1 << (number - 1)) != 0).map(server).collect()
}

/// The servers that can be had through a window: they are idle at every instant if those of `own` count as idle, and they can
/// be used, or `own` has them at every instant. By a look at every server.
fn idle_by_hand(p: &Participant, window: Window, own: Option<&TransactionId>) -> Vec<usize> {
    let own = p.own(own).unwrap_or_default();
    let instants = (0..).map(|s| window.start().saturating_add(Span::from_secs(s * 60)));
    let instants: Vec<Time> = instants.take_while(|at| *at < window.end()).collect();
    let is_idle = |name: &ResourceId| {
        let can_be_used = !p.unusable().contains_key(name);
        instants.iter().all(|instant| {
            let second = Window::starting(*instant, Span::from_secs(1)).unwrap();
            let taken = p.timetables[name].free_min(second) == Amount::ZERO;
            let is_own = own.steps(name).is_some_and(|steps| steps.at(*instant) > Amount::ZERO);
            (!taken && can_be_used) || is_own
        })
    };
    (1..=4).filter(|number| is_idle(&server(*number))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn holds_get_servers_exactly_when_enough_are_idle_and_keep_them(acts in acts()) {
        let mut p = participant(4);
        let mut orders: Vec<TransactionId> = Vec::new();
        let mut granted: BTreeMap<TransactionId, Vec<GrantedServers>> = BTreeMap::new();
        for (number, act) in acts.into_iter().enumerate() {
            let known = |index: usize| orders.get(index % orders.len().max(1)).cloned();
            let by = grc();
            match act {
                Act::Hold { cpus, from, length, replaces, picked, avoided } => {
                    let avoided = of_bits(avoided);
                    let window = window(600 + from * 60, 600 + (from + length) * 60);
                    let replaces = replaces.and_then(known);
                    let replaces = replaces.filter(|old| {
                        p.booked_entry(Some(old)).is_some() && !p.replacing.contains_key(old)
                    });
                    let wanted = usize::try_from(cpus.div_ceil(EACH)).unwrap();
                    let mut idle = idle_by_hand(&p, window, replaces.as_ref());
                    let all_idle = idle.clone();
                    idle.retain(|number| !avoided.contains(&server(*number)));
                    let idle = idle.len();
                    let user = UserName::composed("UserA");
                    let question = Question::new(vec![window], user, replaces.clone());
                    let mut question = question.avoiding(avoided.iter().cloned());
                    while !question.is_answered() {
                        p.answer(&mut question, at(1));
                    }
                    prop_assert_eq!(question.into_answer()[0][0].0, idle as u64 * EACH);
                    let mut order = order(&format!("t{number}"), cpus, window);
                    (order.keeps_old, order.replaces) = (replaces.is_some(), replaces);
                    let picked = picked.filter(|_| wanted == 1).map(|number| vec![number]);
                    let order = match &picked {
                        Some(picked) => picking(order, picked),
                        None => {
                            let avoided = avoided.clone();
                            let wish = ServerWish { avoided, ..ServerWish::default() };
                            HoldOrder { servers: Some(wish), ..order }
                        }
                    };
                    let txn = order.txn.clone();
                    match hold_at(&mut p, order, at(1)) {
                        Answer::Held { servers, .. } => {
                            prop_assert!(wanted <= idle || picked.is_some());
                            prop_assert_eq!(servers[0].servers.len(), wanted);
                            if picked.is_none() {
                                let is_avoided = |name: &ResourceId| avoided.contains(name);
                                prop_assert!(!servers[0].servers.iter().any(is_avoided));
                            }
                            if let Some(picked) = picked {
                                prop_assert!(picked.iter().all(|one| all_idle.contains(one)));
                                prop_assert_eq!(&servers[0].servers, &super::server_tests::servers(&picked));
                            }
                            granted.insert(txn.clone(), servers);
                            orders.push(txn);
                        }
                        _ => prop_assert!(wanted > idle || picked.is_some()),
                    }
                }
                Act::Unusable(bits) => {
                    let unusable = of_bits(bits).into_iter().map(|name| (name, broken())).collect();
                    step(&mut p, ParticipantInput::Unusable(unusable), at(1));
                }
                Act::Commit(index) => if let Some(txn) = known(index) {
                    step(&mut p, ParticipantInput::Commit { txn, by, token: Token::new(1) }, at(2));
                },
                Act::Abort(index) => if let Some(txn) = known(index) {
                    step(&mut p, ParticipantInput::Abort { txn, by, token: Token::new(1) }, at(2));
                },
                Act::Release(index) => if let Some(txn) = known(index) {
                    step(&mut p, ParticipantInput::Release { txn, by, token: Token::new(1) }, at(2));
                },
            }
            for (txn, servers) in &granted {
                prop_assert_eq!(&p.entries[txn].granted_servers(), servers, "chosen once");
            }
        }
    }
}

#[test]
fn overlapping_segments_of_one_hold_get_different_servers() {
    let of = |name: &str, windows: &[(u64, Window)]| {
        let segment = |(cpus, window): &(u64, Window)| Segment {
            resource: site(),
            amount: Amount(*cpus),
            window: *window,
        };
        let segments = windows.iter().map(segment).collect();
        HoldOrder { segments, ..order(name, 1, window(3_600, 7_200)) }
    };
    let (first, second, whole) = (window(3_600, 5_400), window(5_400, 7_200), window(3_600, 7_200));
    let mut p = participant(3);
    // 3 CPUs need a whole server of 4, so three segments of 3 take all three servers, and a fourth has none.
    let four = [(3, whole), (3, first), (3, first), (3, first)];
    let refusal = refused(&mut p, of("t1", &four));
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    let fits = [(3, whole), (3, first), (3, first), (5, second)];
    let numbers = held(&mut p, of("t2", &fits));
    assert_eq!(numbers.len(), 5, "{numbers:?}");
    let through: BTreeSet<usize> = numbers[..3].iter().copied().collect();
    assert_eq!(through.len(), 3, "one server each while all three overlap: {numbers:?}");
    assert!(!numbers[3..].contains(&numbers[0]), "the first keeps its server: {numbers:?}");
    commit(&mut p, "t2");
    release(&mut p, "t2");
    assert_eq!(held(&mut p, of("t3", &[(12, whole)])).len(), 3, "everything is free again");
}
