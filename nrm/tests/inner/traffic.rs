//! Random traffic against a model that knows only the records.

use super::*;

/// What all live entries take of each link at an instant, computed from the records alone.
fn taken(participant: &Participant, instant: Time) -> BTreeMap<ResourceId, u64> {
    let at_instant = |n: &TransactionId| -> BTreeMap<ResourceId, u64> {
        let entry = &participant.entries()[n];
        let (order, inner) = (entry.order.as_ref().unwrap(), entry.inner.as_ref().unwrap());
        let mut taken = BTreeMap::new();
        for (segment, route) in order.segments.iter().zip(inner) {
            if segment.window.start() <= instant && instant < segment.window.end() {
                for link in route {
                    *taken.entry(link.clone()).or_default() += segment.amount.0;
                }
            }
        }
        taken
    };
    let mut all: BTreeMap<ResourceId, u64> = BTreeMap::new();
    let live = |phase: &Phase| matches!(phase, Phase::Held(_) | Phase::Booked);
    for (txn, entry) in participant.entries().iter().filter(|(_, e)| live(&e.phase)) {
        let old = entry.order.as_ref().and_then(|order| order.replaces.as_ref());
        let old = old.filter(|old| participant.entries()[*old].phase == Phase::Booked);
        // The hold of a new version takes only what it has beyond the old version.
        let less = match (&entry.phase, old) {
            (Phase::Held(_), Some(old)) => at_instant(old),
            _ => BTreeMap::new(),
        };
        for (link, amount) in at_instant(txn) {
            let less = less.get(&link).copied().unwrap_or_default();
            *all.entry(link).or_default() += amount.saturating_sub(less);
        }
    }
    all
}

fn check_inside(participant: &Participant, paths: &[v1::Path], inner: &v1::InnerNetwork) {
    let links: BTreeMap<String, &v1::InnerLink> =
        inner.links.iter().map(|link| (format!("inner/{}", link.name), link)).collect();
    let mut instants = Vec::new();
    for entry in participant.entries().values() {
        let Some(routes) = &entry.inner else { continue };
        let order = entry.order.as_ref().unwrap();
        for (segment, route) in order.segments.iter().zip(routes) {
            instants.push(segment.window.start());
            let path = paths.iter().find(|path| path.name == segment.resource.as_str()).unwrap();
            let mut here = path.a.as_str();
            for link in route {
                let link = links[link.as_str()];
                here = if link.a == here {
                    &link.b
                } else {
                    assert_eq!(link.b, here);
                    &link.a
                };
            }
            assert_eq!(here, path.b, "the route ends where its path does");
        }
    }
    for instant in instants {
        for (link, amount) in taken(participant, instant) {
            let capacity = links[link.as_str()].capacity_bps;
            assert!(amount <= capacity, "I1: {link} has {amount} of {capacity} taken at {instant}");
        }
    }
}

/// One random input.
fn random_input(random: &mut ChaCha8Rng, n: usize, now: i64) -> ParticipantInput {
    let by = CoordinatorName::composed("grc");
    let (other, token) = (txn(random.random_range(0..n.max(1))), Token::new(0));
    match random.random_range(0..10) {
        0..=5 => {
            let names = ["p0-p1", "p0-p2", "p1-p2", "p1-p3"];
            let mut segments = Vec::new();
            for _ in 0..random.random_range(1..=3) {
                let start = now + random.random_range(1..400);
                let w = window(start, start + random.random_range(10..200));
                segments.push((names[random.random_range(0..4)], random.random_range(1..=6), w));
            }
            let replaces = random.random_bool(0.2).then_some(other);
            ParticipantInput::Hold {
                order: HoldOrder { replaces, ..order(n, &segments) },
                oldest_open: 0,
                token,
            }
        }
        6 | 7 => ParticipantInput::Commit { txn: other, by, token },
        8 => ParticipantInput::Abort { txn: other, by, token },
        _ => ParticipantInput::Release { txn: other, by, token },
    }
}

#[test]
fn random_traffic_never_overbooks_a_link_and_never_moves_what_has_begun() {
    let (mut moved, mut more) = (0, 0);
    for seed in 0..40 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (paths, inner) = ring(true);
        let (_, still) = ring(false);
        let mut participant = started(true);
        let mut log = Vec::new();
        let mut now = 0;
        for n in 0..120 {
            now += random.random_range(0..8);
            let input = random_input(&mut random, n, now);
            // The same state admits no more when bookings may not be rerouted.
            if let ParticipantInput::Hold { .. } = &input {
                let mut twin = self::participant(&paths, Some(&still));
                log.iter().for_each(|record| twin.apply(record).unwrap());
                let _ = twin.step(ParticipantInput::Start { boot: "twin".into() }, at(now));
                let (without, _) = step(&mut twin, input.clone(), at(now));
                let (with, _) = step(&mut participant.clone(), input.clone(), at(now));
                let (without, with) = (is_held(&without.unwrap()), is_held(&with.unwrap()));
                assert!(with || !without, "seed {seed}, {n}: refused only when it may move");
                more += u32::from(with && !without);
            }
            let before = participant.entries().clone();
            let (_, records) = step(&mut participant, input, at(now));
            moved +=
                records.iter().filter(|r| matches!(r, ParticipantRecord::Moved { .. })).count();
            for (txn, entry) in &before {
                let segments =
                    &entry.order.as_ref().map(|o| o.segments.clone()).unwrap_or_default();
                let begun = segments.iter().any(|s| s.window.start() <= at(now).wall);
                if begun {
                    assert_eq!(participant.entries()[txn].inner, entry.inner, "{txn} has begun");
                }
            }
            log.extend(records);
            check_inside(&participant, &paths, &inner);
        }
        // Replaying the whole log on an empty participant without a router gives the same routes.
        let mut replayed = self::participant(&paths, None);
        log.iter().for_each(|record| replayed.apply(record).unwrap());
        replayed.check_invariants().unwrap();
        for (txn, entry) in participant.entries() {
            assert_eq!(replayed.entries()[txn].inner, entry.inner);
        }
    }
    assert!(moved > 50 && more > 50, "{moved} moved, {more} admitted only because others moved");
}
