//! Texts of scheduled launches: what is scheduled, what will happen and when, and why it was cancelled.

use seckill_engine::telemetry::snapshot::Health;
use seckill_model::message::{Label, text};

use super::{
    commands::{Question, question},
    figures::span,
};
use crate::{
    keymap::{Action, key_of},
    launch::{Launch, Target},
    widgets::plain,
};

pub(crate) const NONE_ARMED: Label = Label("director-no-launch-is-scheduled");
pub(crate) const NOTHING_TO_STOP: Label = Label("director-no-launch-is-scheduled-and-no-load");
pub(crate) const OPENING: Label = Label("director-sale-is-being-started-load");

pub(crate) fn fire_hint() -> String {
    let arm = key_of(Action::Arm);
    text!("director-arms-one", NONE_ARMED, arm)
}

/// Below the sale field: the sale with the ID that was typed.
pub(crate) fn planned(title: &str, initial: u64) -> String {
    text!("director-pieces", title, count = initial)
}

/// What is sold, in short.
pub(crate) fn subject(launch: &Launch) -> String {
    let title = &launch.title;
    match launch.target {
        Target::Planned(id) => super::sale_name(id, title),
        Target::New => text!("director-new-sale", title),
    }
}

fn buyers(count: u64) -> String {
    text!("director-buyers", count)
}

/// The top line of every view: the scheduled launch.
pub(crate) fn badge(launch: &Launch, ids: bool) -> String {
    let subject = if ids { subject(launch) } else { launch.title.clone() };
    let buyers = buyers(launch.buyers);
    text!("director-with-buyers", subject, buyers)
}

/// What happens at the end of the countdown, one sentence per line.
fn events(launch: &Launch) -> String {
    let (count, title) = (launch.pieces, plain(&launch.title));
    let start = match launch.target {
        Target::Planned(id) => text!("director-starts-with-pieces-before", id, count),
        Target::New => text!("director-sale-is-created-with-pieces", title, count),
    };
    let (buyers, seconds, twice) = (launch.buyers, launch.within, launch.twice());
    text!("director-events", start, buyers, seconds, twice)
}

pub(crate) fn ask_arm(launch: &Launch) -> Question {
    let (seconds, abort) = (launch.countdown, key_of(Action::Abort));
    question!("ask-schedule-launch", seconds, events = events(launch), abort)
}

pub(crate) fn ask_fire(launch: &Launch) -> Question {
    question!("ask-launch-now", events = events(launch))
}

pub(crate) fn ask_disarm(launch: &Launch) -> Question {
    question!("ask-cancel-launch", launch = badge(launch, true))
}

/// The question while buyers arrive: progress, and whether the sale is paused as well.
pub(crate) fn ask_abort(name: &str, sent: u64, planned: u64, pauses: bool) -> Question {
    if pauses {
        question!("ask-stop-load-test-and-pause", name, sent, planned)
    } else {
        question!("ask-stop-load-test", name, sent, planned)
    }
}

pub(crate) fn ask_quit(launch: &Launch) -> Question {
    question!("ask-quit-during-launch", launch = badge(launch, true))
}

/// The unreachable server that a sale command waits for.
pub(crate) fn away(redis: &Health, sql: &Health) -> Option<Label> {
    if !redis.up {
        return Some(Label("director-redis-is-unreachable"));
    }
    if !redis.takes_writes() {
        return Some(Label("director-redis-rejects-writes"));
    }
    match sql {
        sql if !sql.up => Some(Label("director-database-is-unreachable")),
        sql if !sql.takes_writes() => Some(Label("director-database-rejects-writes")),
        _ => None,
    }
}

/// Why a launch was cancelled.
pub(crate) enum Off {
    Gone,
    Changed,
    /// The stock has changed to this.
    Stock(u64),
    Early,
    Late(u64),
    Away(Label),
}

/// Reports a cancelled launch: the reason and the next step.
pub(crate) fn off(launch: &Launch, why: &Off) -> String {
    let subject = subject(launch);
    let arm = key_of(Action::Arm);
    let why = match why {
        Off::Gone => text!("director-it-is-no-longer-listed"),
        Off::Changed => text!("director-sale-is-no-longer"),
        Off::Stock(pieces) => {
            text!("director-stock-changed", now = pieces, asked = launch.pieces)
        }
        Off::Early => {
            text!("director-sale-starts-by-itself-before")
        }
        Off::Late(ms) => {
            text!("director-console-was-suspended", late = span(*ms))
        }
        Off::Away(server) => server.to_string(),
    };
    text!("director-launch-of-cancelled-nothing", subject, why, arm)
}
