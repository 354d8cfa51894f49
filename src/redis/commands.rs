//! Every Redis command that the program sends, in a form that can be tried on scratch keys.
//!
//! This is the only such list; a test compares it with the scripts and the sources.

use redis::cmd;

use super::{
    Connection, Layout, RedisError, Result,
    keys::{LOCK_CHANNEL, Partition},
    scripts,
};

/// The commands, each with arguments that succeed on keys written by the lines above it. `{…}` is a key, one for each
/// type.
const NEEDED: &[&str] = &[
    "TIME",
    "SCAN 0 COUNT 1",
    "ECHO x",
    "INFO server",
    "WAIT 0 1",
    "SCRIPT LOAD return",
    "SET {string} 1",
    "GET {string}",
    "GETEX {string} PX 60000",
    "GETRANGE {string} 0 1",
    "MGET {string}",
    "INCRBY {string} 2",
    "DECRBY {string} 1",
    "DECR {string}",
    "EXISTS {string}",
    "TYPE {string}",
    "EXPIRE {string} 60",
    "PEXPIRE {string} 60000",
    "PTTL {string}",
    "HSET {hash} f 1",
    "HGET {hash} f",
    "HEXISTS {hash} f",
    "HMGET {hash} f",
    "HGETALL {hash}",
    "HINCRBY {hash} f 1",
    "HLEN {hash}",
    "HVALS {hash}",
    "HSCAN {hash} 0",
    "HDEL {hash} f",
    "SADD {set} m",
    "SISMEMBER {set} m",
    "SCARD {set}",
    "SMEMBERS {set}",
    "SREM {set} m",
    "ZADD {zset} 1 m",
    "ZSCORE {zset} m",
    "ZMSCORE {zset} m",
    "ZCARD {zset}",
    "ZCOUNT {zset} 0 1",
    "ZRANGE {zset} 0 -1",
    "ZRANGEBYSCORE {zset} 0 1",
    "ZREM {zset} m",
    "ZREMRANGEBYSCORE {zset} 0 1",
    "XGROUP CREATE {stream} g 0 MKSTREAM",
    "XADD {stream} * f v",
    "XLEN {stream}",
    "XRANGE {stream} - +",
    "XREVRANGE {stream} + -",
    "XREADGROUP GROUP g c COUNT 1 STREAMS {stream} >",
    "XPENDING {stream} g",
    "XCLAIM {stream} g c 0 0-1 FORCE JUSTID",
    "XACK {stream} g 0-1",
    "XINFO STREAM {stream}",
    "XINFO GROUPS {stream}",
    "XINFO CONSUMERS {stream} g",
    "XGROUP SETID {stream} g 0",
    "XGROUP DELCONSUMER {stream} g c",
    "XDEL {stream} 0-1",
    "XTRIM {stream} MAXLEN 0",
    "XSETID {stream} 9999999999999-0",
    "PUBLISH {channel} {string}",
    "SET {lock} 1",
    "DEL {lock}",
    "RENAME {string} {set}",
    "UNLINK {set}",
    "UNLINK {hash} {zset} {stream}",
];

/// A command that failed, or the pattern of keys (`~icr:*`) on which each command fails, and why.
pub type Denied = (String, String);

/// Whether the server does not have the command at all, by its reply: it was renamed, or belongs to a newer version.
pub fn is_unknown(why: &str) -> bool {
    why.starts_with("ERR unknown")
}

/// The rule of an access list that allows what was denied.
pub fn acl_rule(denied: &str) -> String {
    match denied {
        "PUBLISH" => format!("+publish &{LOCK_CHANNEL}"),
        pattern if pattern.starts_with('~') => pattern.to_owned(),
        command => format!("+{}", command.to_lowercase().replace(' ', "|")),
    }
}

/// Tries every command on unused keys of a partition and removes these keys. Returns the commands that this user may
/// not run or this server does not support; or the families of keys that it may not use, which make them fail.
pub async fn try_all(conn: &mut Connection, keys: &Layout, of: &Partition) -> Result<Vec<Denied>> {
    // A connection begins with it: without it, each command would seem to be denied, and each key.
    if let Err(RedisError::Rejected(why)) = conn.multiplexed(&of.orders()).await {
        return Ok(vec![("INFO".to_owned(), why.to_string())]);
    }
    let families = denied_families(conn, keys, of).await?;
    if !families.is_empty() {
        return Ok(families);
    }
    let name = format!("doctor:{}", uuid::Uuid::new_v4().simple());
    let key = |word: &str| match word {
        "{lock}" => keys.lock(&name),
        "{channel}" => keys.lock_channel(),
        word => match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
            Some(kind) => of.scratch(&name, kind),
            None => word.to_owned(),
        },
    };
    let mut denied = Vec::new();
    for line in NEEDED {
        let mut words = line.split(' ');
        let mut command = cmd(words.next().unwrap_or_default());
        for word in words {
            command.arg(key(word));
        }
        note(line, conn.query::<redis::Value>(&command).await, &mut denied)?;
    }
    let mut script = scripts::TAKES_WRITES.prepare_invoke();
    script.key(of.scratch(&name, "string"));
    note("EVALSHA", conn.invoke::<redis::Value>(&script).await, &mut denied)?;
    // A denied or unknown command makes others fail that need its result: report only the cause.
    let first = |why: &str| why.starts_with("NOPERM") || is_unknown(why);
    if denied.iter().any(|(_, why)| first(why)) {
        denied.retain(|(_, why)| first(why));
    }
    Ok(denied)
}

/// Families of keys on which two different reads are rejected, where one alone may be a forbidden command; or a write that
/// changes nothing, because of its key.
async fn denied_families(
    conn: &mut Connection,
    keys: &Layout,
    of: &Partition,
) -> Result<Vec<Denied>> {
    let mut denied = Vec::new();
    for (pattern, key) in keys.families(of) {
        let mut why = None;
        for command in ["EXISTS", "TYPE"] {
            why = match conn.query::<redis::Value>(cmd(command).arg(&key)).await {
                Err(RedisError::Rejected(reason)) => Some(reason.to_string()),
                done => {
                    done?;
                    None
                }
            };
            if why.is_none() {
                break;
            }
        }
        if why.is_none() {
            let write = cmd("HDEL").arg(&key).arg("no field").take();
            why = match conn.query::<redis::Value>(&write).await {
                Err(RedisError::Rejected(reason)) => {
                    let is_key = |why: &String| why.starts_with("NOPERM") && why.contains(" key");
                    Some(reason.to_string()).filter(is_key)
                }
                // The key is no hash.
                Ok(_) | Err(RedisError::Foreign(_)) => None,
                Err(error) => return Err(error),
            };
        }
        denied.extend(why.map(|why| (pattern, why)));
    }
    Ok(denied)
}

fn note(line: &'static str, done: Result<redis::Value>, denied: &mut Vec<Denied>) -> Result<()> {
    match done {
        Err(RedisError::Rejected(why)) => denied.push((name_of(line).to_owned(), why.to_string())),
        // An earlier XGROUP CREATE failed and is reported.
        Ok(_) | Err(RedisError::NoGroup) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The command name of a line, with its subcommand.
fn name_of(line: &'static str) -> &'static str {
    let words =
        if ["XGROUP ", "XINFO ", "SCRIPT "].iter().any(|it| line.starts_with(it)) { 2 } else { 1 };
    line.match_indices(' ').nth(words - 1).and_then(|(end, _)| line.get(..end)).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Commands that may fail: names of connections, reading settings for advice, the managed server, clusters.
    const OPTIONAL: &[&str] =
        &["CLIENT", "CONFIG", "MEMORY", "PING", "SHUTDOWN", "CLUSTER", "EVALSHA"];
    /// Uppercase words in scripts that are not commands.
    const WORDS: &[&str] = &[
        "COUNT",
        "ENTRIESADDED",
        "ENTRIESREAD",
        "JUSTID",
        "KEEPTTL",
        "LIMIT",
        "MINID",
        "RETRYCOUNT",
        "STREAM",
        "USAGE",
        "WITHSCORES",
        "WRONGTYPE",
    ];

    fn needed() -> BTreeSet<&'static str> {
        NEEDED.iter().flat_map(|line| line.split(' ')).chain(OPTIONAL.iter().copied()).collect()
    }

    /// Returns the uppercase words between these delimiters.
    fn capitals(text: &str, open: &str, close: char) -> Vec<String> {
        let found = text.match_indices(open).filter_map(|(at, _)| {
            let rest = &text[at + open.len()..];
            let word = rest.split(close).next()?;
            let is = word.len() > 2 && word.bytes().all(|it| it.is_ascii_uppercase());
            is.then(|| word.to_owned())
        });
        found.collect()
    }

    fn sources(dir: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                let name = path.display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }

    #[test]
    fn every_command_in_scripts_and_code_is_tried() {
        let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (needed, mut files) = (needed(), Vec::new());
        sources(&root.join("lua"), &mut files);
        assert!(files.len() > 20, "{}", files.len());
        let mut seen = 0;
        for (file, text) in &files {
            for word in capitals(text, "'", '\'') {
                let known = needed.contains(word.as_str()) || WORDS.contains(&word.as_str());
                assert!(known, "{file} uses {word}, which doctor does not try");
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
        let mut files = Vec::new();
        for dir in ["src/redis", "src/engine", "src/http", "src/cli"] {
            sources(&root.join(dir), &mut files);
        }
        // Drills and benchmarks use servers of their own and need more than a deployment.
        files.retain(|(file, _)| !file.contains("drill") && !file.contains("bench"));
        for (file, text) in &files {
            for word in capitals(text, "cmd(\"", '"') {
                assert!(
                    needed.contains(word.as_str()),
                    "{file} sends {word}, which doctor does not try"
                );
            }
        }
    }

    #[test]
    fn lines_are_named_by_their_command() {
        assert_eq!(name_of("XGROUP CREATE {stream} g 0 MKSTREAM"), "XGROUP CREATE");
        assert_eq!((name_of("GET {string}"), name_of("TIME")), ("GET", "TIME"));
        assert_eq!(name_of("INFO server"), "INFO");
    }
}
