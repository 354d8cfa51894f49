//! Tests on real servers: the playgrounds show what happened there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says where")]

use std::{collections::BTreeSet, time::Duration};

use seckill_engine::jobs::Schedule;
use tokio_util::sync::CancellationToken;

use super::{
    Recording,
    lock::{LockPlay, LockRecording},
    schedule::{SchedulePlay, Upcoming},
    streams::tour,
};
use crate::LabError;

const PLAY: LockPlay = LockPlay {
    wait: Duration::from_secs(30),
    lease: None,
    watchdog: Duration::from_millis(1_500),
    hold: Duration::from_millis(1_300),
    depth: 2,
};

/// The place of the first event with this text in a lane.
#[track_caller]
fn place(recording: &Recording, lane: usize, text: &str) -> usize {
    let found = recording.events.iter().position(|it| it.lane == lane && it.text.contains(text));
    found.unwrap_or_else(|| panic!("{text:?} is not in lane {lane}: {:#?}", recording.events))
}

#[track_caller]
fn in_order(recording: &Recording, events: &[(usize, &str)]) {
    let places: Vec<usize> =
        events.iter().map(|(lane, text)| place(recording, *lane, text)).collect();
    assert!(places.is_sorted(), "{events:?} are at {places:?}: {:#?}", recording.events);
}

async fn play(play: LockPlay) -> LockRecording {
    play.play(|_| {}, &CancellationToken::new()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watchdog_keeps_a_lock_until_it_is_handed_over() {
    let LockRecording { recording, renewals, waited_ms } = play(PLAY).await;
    assert!(renewals > 0 && waited_ms.is_some(), "{recording:#?}");
    in_order(
        &recording,
        &[
            (2, "HSET lock:lab A 1 …"),
            (0, "acquired, token"),
            (2, "HSET lock:lab A 2"),
            (0, "acquired again, depth 2"),
            (0, "watchdog renews"),
            (0, "released once, depth 1"),
            (2, "DEL lock:lab"),
            (2, "PUBLISH locks:events +lab"),
            (2, "HSET lock:lab B 1 …"),
            (1, "acquired, token"),
            (1, "released"),
        ],
    );
    assert!(recording.events.iter().all(|it| !it.text.contains("expired")), "{recording:#?}");
    assert_eq!((recording.busy(0).len(), recording.busy(1).len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_not_renewed_ends_while_its_holder_works() {
    let lease = Some(Duration::from_millis(500));
    let LockRecording { recording, renewals, waited_ms } =
        play(LockPlay { lease, depth: 1, ..PLAY }).await;
    assert!(renewals == 0 && waited_ms.is_some(), "{recording:#?}");
    // Redis reports it to a subscriber, which may be later than what a monitor sees.
    assert!(recording.events.iter().any(|it| it.text == "lock:lab expired"), "{recording:#?}");
    in_order(
        &recording,
        &[
            (0, "acquired, token"),
            (2, "HSET lock:lab B 1 …"),
            (1, "acquired, token"),
            (0, "not released: "),
        ],
    );
    in_order(&recording, &[(0, "lost: "), (0, "not released: ")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contender_that_waits_too_short_gets_nothing() {
    let wait = Duration::from_millis(100);
    let LockRecording { recording, waited_ms, .. } = play(LockPlay { wait, ..PLAY }).await;
    assert_eq!(waited_ms, None);
    in_order(&recording, &[(1, "tries"), (1, "gives up: A holds the lock"), (2, "DEL lock:lab")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tour_shows_what_redis_replies() {
    let steps = tour(async |_, _| {}, &CancellationToken::new()).await.unwrap();
    let commands: BTreeSet<&str> = steps
        .iter()
        .map(|it| it.command.split_once(" stream.").map_or(&*it.command, |it| it.0))
        .collect();
    for expected in [
        "XADD",
        "XGROUP CREATE",
        "XGROUP CREATECONSUMER",
        "XGROUP DESTROY",
        "XGROUP SETID",
        "XACK",
        "XPENDING",
        "XCLAIM",
        "XAUTOCLAIM",
        "XINFO STREAM",
        "XDEL",
        "XRANGE",
        "XTRIM",
        "GET step",
    ] {
        assert!(commands.contains(expected), "{expected}: {commands:?}");
    }
    let of = |begin: &str| -> Vec<&str> {
        steps.iter().filter(|it| it.command.starts_with(begin)).map(|it| &*it.reply).collect()
    };
    let ids = of("XADD");
    assert_eq!(of("XREAD COUNT 1 BLOCK"), ["(nil)"]);
    assert_eq!(
        of("XREAD COUNT 1 STREAMS stream.orders 0")[0],
        format!(
            "1) 1) \"stream.orders\"\n   2) 1) 1) {}\n         2) 1) \"userId\"\n            2) \"7\"\n            \
             3) \"voucherId\"\n            4) \"10\"\n            5) \"orderId\"\n            6) \"1\"",
            ids[0]
        )
    );
    let [created, exists] = of("XGROUP CREATE stream")[..] else { panic!() };
    assert!(created == "OK" && exists.starts_with("(error) BUSYGROUP "), "{exists}");
    assert_eq!(of("XACK"), ["(integer) 1"]);
    assert_eq!(of("EVALSHA")[0], "(integer) 0");
    assert!(of("EVALSHA")[1].starts_with("(error) NOSCRIPT "));
    assert!(of("EVAL \"redis.call")[0].starts_with("(error) WRONGTYPE "));
    assert!(of("EVAL \"redis.call")[1].starts_with("1) \"pcall\"\n2) \"WRONGTYPE "));
    assert_eq!(of("GET step"), ["\"A\"", "\"B\""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_run_by_their_schedules() {
    let period = Duration::from_millis(400);
    let cron: Schedule = "* * * * * ?".parse().unwrap();
    let play = SchedulePlay { period, cron, time: Duration::from_secs(4) };
    let recording = play.play(|_| {}, &CancellationToken::new()).await.unwrap();
    for lane in 0..4 {
        let runs = recording.busy(lane);
        assert!(runs.len() >= 2, "{lane}: {recording:#?}");
        // A job never overlaps itself, even if it takes longer than its period.
        assert!(
            runs.windows(2).all(|it| it[0].1.is_some_and(|ended| ended <= it[1].0)),
            "{runs:?}"
        );
    }
    // A rate counts from one due time to the next, a delay from the end of a run.
    let gaps = |lane: usize| {
        let due = |text: &str| text.strip_prefix("due ")?.split(',').next()?.parse::<i64>().ok();
        let of_lane = recording.events.iter().filter(|it| it.lane == lane);
        let dues: Vec<i64> = of_lane.filter_map(|it| due(&it.text)).collect();
        dues.windows(2).map(|it| it[1] - it[0]).collect::<Vec<_>>()
    };
    assert!(gaps(0).iter().all(|it| it % 400 == 0), "{:?}", gaps(0));
    assert!(gaps(1).iter().all(|it| *it >= 400 + 120), "{:?}", gaps(1));
    let skips = recording.events.iter().filter(|it| it.lane == 3 && it.text.contains("1 skipped"));
    assert!(skips.count() > 0, "{recording:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_playground_can_be_cancelled() {
    let stop = CancellationToken::new();
    let played = PLAY.play(|_| stop.cancel(), &stop).await;
    assert!(matches!(played, Err(LabError::Cancelled)), "{played:?}");
    let cron: Schedule = "* * * * * ?".parse().unwrap();
    let (period, time) = (Duration::from_secs(1), Duration::from_mins(1));
    let stop = CancellationToken::new();
    let played = SchedulePlay { period, cron, time }.play(|_| stop.cancel(), &stop).await;
    assert!(matches!(played, Err(LabError::Cancelled)), "{played:?}");
}

#[test]
fn examples_are_due_on_the_day_that_they_name() {
    for Upcoming { schedule, meaning, next } in Upcoming::examples(12).unwrap() {
        assert!(next.len() == 12 && next.is_sorted(), "{schedule}");
        for at in next {
            let at = jiff::Timestamp::from_millisecond(at.0).unwrap();
            let at = at.to_zoned(jiff::tz::TimeZone::system());
            let (day, weekday) = (at.day(), at.weekday().to_monday_one_offset());
            let is_right = match &*schedule.to_string() {
                "0 0 9 ? * 6#3" => weekday == 5 && (15..=21).contains(&day),
                "0 15 10 ? * 6L" => weekday == 5 && day > 21,
                "0 0 18 LW * ?" => weekday < 6 && day > 25,
                "0 0 8 15W * ?" => weekday < 6 && (14..=16).contains(&day),
                "0 30 2 L * ?" => at.last_of_month().unwrap().day() == day,
                _ => true,
            };
            let time = at.strftime("%H:%M").to_string();
            let is_named =
                meaning.unwrap().ends_with(&time) || meaning == Some("every two seconds");
            assert!(is_right && is_named, "{schedule}: {at}");
        }
    }
}
