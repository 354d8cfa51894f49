//! Words of alarms: what is true, and the key that helps.

use super::figures::{counted, span};
use crate::{
    console::keymap::{Action, key_of},
    telemetry::snapshot::AlarmKind,
};

/// An alarm in words, with the key that helps.
pub(crate) fn alarm(kind: &AlarmKind) -> String {
    let (pending, plan) = (key_of(Action::Pending), key_of(Action::Replay));
    match kind {
        AlarmKind::RedisAway { error } => format!(
            "Redis does not answer: {}. What you see is old; it goes on by itself when Redis is back.",
            unstopped(error)
        ),
        AlarmKind::SqlAway { error } => format!(
            "The database does not answer: {}. Orders wait in the stream; none is lost.",
            unstopped(error)
        ),
        AlarmKind::BooksOff { finding } => format!("The books are off: {finding}."),
        AlarmKind::DeadConsumer { consumer, pending: held, idle_ms } => format!(
            "{consumer} is dead and holds {}, silent for {}.  {pending} opens them, {plan} replays them.",
            counted(*held, "entry", "entries"),
            span(*idle_ms),
        ),
        AlarmKind::DeadLetters { count } => format!(
            "{} for a person to judge.  {} opens them.",
            counted(*count, "dead letter waits", "dead letters wait"),
            key_of(Action::Letters),
        ),
        AlarmKind::NoGroup => format!(
            "The stream has no consumer group; a running engine makes it again.  {pending} then {plan} settles \
             what stays pending.",
        ),
        AlarmKind::RedisForgot { buyers, refused: 0, .. } => format!(
            "Redis had forgotten {}; all are put back.  {pending} then {plan} settles what stays pending.",
            counted(*buyers, "buyer", "buyers"),
        ),
        AlarmKind::RedisForgot { buyers, refused, .. } => format!(
            "Redis had forgotten {}; {} can't be kept: 'seckill audit' tells more.  {pending} then {plan} \
             settles the rest.",
            counted(*buyers, "buyer", "buyers"),
            counted(*refused, "promise", "promises"),
        ),
        AlarmKind::ServerBack { server, away_ms } => {
            format!("{server} answers again; it was away for {}.", span(*away_ms))
        }
    }
}

/// A sentence without the sign at its end, for the middle of another one.
fn unstopped(sentence: &str) -> &str {
    sentence.trim_end_matches(['.', '?', '!'])
}
