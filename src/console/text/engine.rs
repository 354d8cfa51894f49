//! Names of the engine's own commands.

use seckill_model::message::Label;

/// A recovery command in progress.
pub(crate) fn act_name(act: &str) -> &str {
    match act {
        "pending plan" => Label("engine-pending-plan").read(),
        "pending apply" => Label("engine-pending-apply").read(),
        "dead count" => Label("engine-dead-count").read(),
        "dead replay" => Label("engine-dead-replay").read(),
        "dead discard" => Label("engine-dead-discard").read(),
        other => other,
    }
}
