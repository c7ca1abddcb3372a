//! When subscribers get updates: strategies, the resource manager's setting, the added delay.

use coalloc_proto::{Duration, v1};
use coalloc_protocol::update::Update;

use crate::rm::{Rm, Subscriber, book, is_snapshot, now, order, truth, window};

const HOUR: Option<Duration> = Some(Duration { seconds: 3_600, nanos: 0 });

fn policy(
    strategy: v1::UpdateStrategy,
    period: Option<Duration>,
    percent: u32,
) -> v1::UpdatePolicy {
    v1::UpdatePolicy {
        strategy: strategy.into(),
        period,
        threshold_percent: percent,
        ..v1::UpdatePolicy::default()
    }
}

/// Checks that the next signs of life bring no news.
async fn nothing_is_told(subscriber: &mut Subscriber) {
    let at = subscriber.picture.known(&crate::rm::rm_name()).unwrap().at;
    let cursor = subscriber.cursor;
    for _ in 0..2 {
        let update = subscriber.next().await.unwrap();
        assert!(update.parts.is_empty(), "{update:?}");
    }
    assert_eq!(subscriber.cursor, cursor);
    // A change happened that the subscriber was not told of: its picture is no younger than before.
    assert_eq!(subscriber.picture.known(&crate::rm::rm_name()).unwrap().at, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn periodic_and_threshold_keep_changes_back() {
    let rm = Rm::start("{coordinators: [grc]}", 1_024).await;
    let mut client = rm.client();
    let (mut periodic, mut threshold, mut every) =
        (Subscriber::new(), Subscriber::new(), Subscriber::new());
    let of = policy(v1::UpdateStrategy::Periodic, HOUR, 0);
    periodic.watch(&mut client, Some(of)).await.unwrap();
    let of = policy(v1::UpdateStrategy::Threshold, HOUR, 50);
    threshold.watch(&mut client, Some(of)).await.unwrap();
    every.watch(&mut client, None).await.unwrap();
    for one in [&mut periodic, &mut threshold, &mut every] {
        assert!(is_snapshot(&one.next().await.unwrap()));
    }
    book(&mut client, order("a", "A-B", 400, window(0, 50))).await;
    every.until_right(&mut client).await;
    nothing_is_told(&mut periodic).await;
    nothing_is_told(&mut threshold).await;
    // By now half of the capacity has changed, and the subscriber gets both bookings at once.
    book(&mut client, order("b", "A-B", 100, window(100, 50))).await;
    let told = threshold.until_right(&mut client).await;
    let news: Vec<&Update> = told.iter().filter(|update| !update.parts.is_empty()).collect();
    assert_eq!(news.len(), 1, "{told:?}");
    assert_eq!(news[0].parts.len(), 2);
    nothing_is_told(&mut periodic).await;
    // A subscriber that returns gets what it missed, whatever its strategy.
    let of = policy(v1::UpdateStrategy::Periodic, HOUR, 0);
    periodic.watch(&mut client, Some(of)).await.unwrap();
    assert_eq!(periodic.until_right(&mut client).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_faster_than_the_setting() {
    let setting =
        "{coordinators: [grc], updates: {strategy: UPDATE_STRATEGY_PERIODIC, period: 3600s}}";
    let rm = Rm::start(setting, 1_024).await;
    let mut client = rm.client();
    let every = policy(v1::UpdateStrategy::EveryChange, None, 0);
    let threshold = policy(v1::UpdateStrategy::Threshold, HOUR, 1);
    let fast =
        policy(v1::UpdateStrategy::Periodic, Some(Duration { seconds: 0, nanos: 1_000_000 }), 0);
    for (number, asked) in [None, Some(every), Some(threshold), Some(fast)].into_iter().enumerate()
    {
        let mut subscriber = Subscriber::new();
        subscriber.watch(&mut client, asked).await.unwrap();
        assert!(is_snapshot(&subscriber.next().await.unwrap()));
        let from = number as i64 * 100;
        book(&mut client, order(&format!("t{number}"), "A-B", 900, window(from, 50))).await;
        nothing_is_told(&mut subscriber).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_added_delay_makes_every_update_so_old_and_loses_none() {
    const DELAY_US: i64 = 700_000;
    let rm = Rm::start("{coordinators: [grc], updates: {delay: 0.3s}}", 1_024).await;
    let mut client = rm.client();
    let mut subscriber = Subscriber::new();
    let delay = Some(Duration { seconds: 0, nanos: (DELAY_US * 1_000) as i32 });
    let asked = v1::UpdatePolicy { delay, ..v1::UpdatePolicy::default() };
    subscriber.watch(&mut client, Some(asked)).await.unwrap();
    for n in 0..40 {
        book(&mut client, order(&format!("t{n}"), "A-B", 10, window(n, 50))).await;
    }
    let expected = truth(&mut client).await;
    let mut told = 0;
    while !subscriber.believes(&expected) {
        let update = subscriber.next().await.unwrap();
        let old = now().wall.since(update.at).as_us();
        assert!(old >= DELAY_US, "{old} us: {update:?}");
        told += 1;
    }
    assert!(told > 1);
}
