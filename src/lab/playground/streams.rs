//! A guided tour of streams, consumer groups and scripts: each command with the reply of Redis, as redis-cli prints it.

use std::fmt::Write as _;

use redis::{Value, aio::MultiplexedConnection, cmd};
use seckill_model::Label;
use seckill_redis::{Connection, HOME, Redis, RedisError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{on_servers, or_cancelled};
use crate::{Result, shop::Shop};

/// A command of the tour with its reply.
#[derive(Clone, Debug, Serialize)]
pub struct TourStep {
    /// What it shows, in the current language.
    pub why: &'static str,
    /// The command, as typed in redis-cli.
    pub command: String,
    /// The reply, as redis-cli prints it.
    pub reply: String,
}

/// Why, and the command. `{1}` is the ID of the first entry that the tour has added, `{sha}` the hash of its script.
type Planned = (Label, &'static str);

/// The tour, in the order in which a consumer meets these commands.
const TOUR: [Planned; 40] = [
    (Label("lab-tour-add"), "XADD stream.orders * userId 7 voucherId 10 orderId 1"),
    (Label("lab-tour-add-more"), "XADD stream.orders * userId 8 voucherId 10 orderId 2"),
    (Label("lab-tour-add-third"), "XADD stream.orders * userId 9 voucherId 10 orderId 3"),
    (Label("lab-tour-length"), "XLEN stream.orders"),
    (Label("lab-tour-range"), "XRANGE stream.orders - + COUNT 2"),
    (Label("lab-tour-read"), "XREAD COUNT 1 STREAMS stream.orders 0"),
    (Label("lab-tour-read-after"), "XREAD COUNT 1 STREAMS stream.orders {1}"),
    (Label("lab-tour-read-new"), "XREAD COUNT 1 BLOCK 100 STREAMS stream.orders $"),
    (Label("lab-tour-group"), "XGROUP CREATE stream.orders g1 0 MKSTREAM"),
    (Label("lab-tour-group-exists"), "XGROUP CREATE stream.orders g1 0 MKSTREAM"),
    (Label("lab-tour-consumer"), "XGROUP CREATECONSUMER stream.orders g1 c1"),
    (
        Label("lab-tour-group-read"),
        "XREADGROUP GROUP g1 c1 COUNT 1 BLOCK 2000 STREAMS stream.orders >",
    ),
    (
        Label("lab-tour-group-shares"),
        "XREADGROUP GROUP g1 c2 COUNT 1 BLOCK 2000 STREAMS stream.orders >",
    ),
    (Label("lab-tour-pending"), "XPENDING stream.orders g1"),
    (Label("lab-tour-pending-each"), "XPENDING stream.orders g1 - + 10"),
    (Label("lab-tour-acknowledge"), "XACK stream.orders g1 {1}"),
    (Label("lab-tour-own-pending"), "XREADGROUP GROUP g1 c2 STREAMS stream.orders 0"),
    (Label("lab-tour-claim"), "XCLAIM stream.orders g1 c1 0 {2}"),
    (Label("lab-tour-claimed"), "XPENDING stream.orders g1 - + 10"),
    (Label("lab-tour-auto-claim"), "XAUTOCLAIM stream.orders g1 c2 0 0 COUNT 10"),
    (Label("lab-tour-info-stream"), "XINFO STREAM stream.orders"),
    (Label("lab-tour-info-groups"), "XINFO GROUPS stream.orders"),
    (Label("lab-tour-info-consumers"), "XINFO CONSUMERS stream.orders g1"),
    (Label("lab-tour-set-id"), "XGROUP SETID stream.orders g1 0"),
    (Label("lab-tour-again"), "XREADGROUP GROUP g1 c1 COUNT 10 STREAMS stream.orders >"),
    (Label("lab-tour-delete"), "XDEL stream.orders {2}"),
    (Label("lab-tour-deleted"), "XAUTOCLAIM stream.orders g1 c2 0 0 JUSTID"),
    (Label("lab-tour-trim"), "XTRIM stream.orders MAXLEN 1"),
    (Label("lab-tour-trimmed"), "XRANGE stream.orders - +"),
    (Label("lab-tour-destroy"), "XGROUP DESTROY stream.orders g1"),
    (Label("lab-tour-destroyed"), "XREADGROUP GROUP g1 c1 STREAMS stream.orders >"),
    (Label("lab-tour-stock"), "SET stock 1"),
    (
        Label("lab-tour-eval"),
        "EVAL \"if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end redis.call('DECR', KEYS[1]) return 1\" 1 stock",
    ),
    (
        Label("lab-tour-load"),
        "SCRIPT LOAD \"if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end redis.call('DECR', KEYS[1]) return 1\"",
    ),
    (Label("lab-tour-evalsha"), "EVALSHA {sha} 1 stock"),
    (Label("lab-tour-no-script"), "EVALSHA 0000000000000000000000000000000000000000 1 stock"),
    (
        Label("lab-tour-call"),
        "EVAL \"redis.call('SET', KEYS[1], 'A') redis.call('INCR', KEYS[2]) redis.call('SET', KEYS[1], 'B')\" 2 step stream.orders",
    ),
    (Label("lab-tour-call-left"), "GET step"),
    (
        Label("lab-tour-pcall"),
        "EVAL \"redis.call('SET', KEYS[1], 'A') local it = redis.pcall('INCR', KEYS[2]) redis.call('SET', KEYS[1], 'B') return {'pcall', it.err}\" 2 step stream.orders",
    ),
    (Label("lab-tour-pcall-left"), "GET step"),
];

/// Runs the tour on a Redis of its own, and shows each step when its reply is there.
///
/// # Errors
/// Redis failed, or `stop` was cancelled.
pub async fn tour(
    mut show: impl AsyncFnMut(usize, &TourStep),
    stop: &CancellationToken,
) -> Result<Vec<TourStep>> {
    on_servers(stop, async |shop| or_cancelled(stop, take(shop, &mut show)).await).await
}

async fn take(shop: &Shop, show: &mut impl AsyncFnMut(usize, &TourStep)) -> Result<Vec<TourStep>> {
    let mut conn = Redis::from_url(&shop.redis_url())?.connection();
    let (mut steps, mut added, mut sha) = (Vec::new(), Vec::<String>::new(), String::new());
    for (why, planned) in TOUR {
        let mut command = planned.replace("{sha}", &sha);
        for (id, number) in added.iter().zip(1..) {
            command = command.replace(&format!("{{{number}}}"), id);
        }
        let reply = send(&mut conn, &command).await?;
        if let Ok(Value::BulkString(bytes)) = &reply {
            let text = String::from_utf8_lossy(bytes).into_owned();
            match command.split(' ').next() {
                Some("XADD") => added.push(text),
                Some("SCRIPT") => sha = text,
                _ => {}
            }
        }
        let reply = reply.map_or_else(|error| format!("(error) {error}"), |it| printed(&it));
        let step = TourStep { why: why.read(), command, reply };
        show(steps.len() + 1, &step).await;
        steps.push(step);
    }
    Ok(steps)
}

/// Sends a command; an error that Redis replied is a result.
async fn send(conn: &mut Connection, line: &str) -> Result<Result<Value, String>, RedisError> {
    let mut words = words(line);
    let mut command = cmd(words.next().unwrap_or_default());
    words.for_each(|word| {
        command.arg(word);
    });
    let mut connection: MultiplexedConnection = conn.multiplexed(HOME).await?;
    match command.query_async(&mut connection).await {
        Ok(reply) => Ok(Ok(reply)),
        Err(error) => match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => Ok(Err(format!("{code} {detail}"))),
            _ => Err(conn.broke(HOME, &error)),
        },
    }
}

/// The words of a command; quotes hold one with spaces together.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').zip([false, true].into_iter().cycle()).flat_map(|(part, is_quoted)| {
        let words = part.split_whitespace().filter(move |_| !is_quoted);
        words.chain(is_quoted.then_some(part))
    })
}

/// A reply as redis-cli prints it, without the line break at its end.
fn printed(reply: &Value) -> String {
    let mut text = String::new();
    print(&mut text, reply, 0);
    text
}

fn print(text: &mut String, reply: &Value, indent: usize) {
    match reply {
        Value::Nil => text.push_str("(nil)"),
        Value::Okay => text.push_str("OK"),
        Value::Int(number) => {
            let _ = write!(text, "(integer) {number}");
        }
        Value::SimpleString(status) => text.push_str(status),
        Value::BulkString(bytes) => {
            text.push('"');
            for byte in bytes {
                match byte {
                    b'\'' => text.push('\''),
                    byte => text.extend(byte.escape_ascii().map(char::from)),
                }
            }
            text.push('"');
        }
        Value::Array(list) if list.is_empty() => text.push_str("(empty array)"),
        Value::Array(list) => {
            let width = list.len().to_string().len();
            for (number, item) in (1..).zip(list) {
                if number > 1 {
                    let _ = write!(text, "\n{:indent$}", "");
                }
                let _ = write!(text, "{number:>width$}) ");
                print(text, item, indent + width + 2);
            }
        }
        // The lab uses version 2 of the protocol, which has no other types.
        other => {
            let _ = write!(text, "{other:?}");
        }
    }
}
