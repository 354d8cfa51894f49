//! Hash slots of commands, which decide the server of a cluster; `cluster_slots` knows the server of a slot.

use futures::FutureExt as _;
use redis::{
    Arg, Cmd, Pipeline, RedisError as DriverError, RedisFuture, RedisResult, ScriptInvocation,
    Value,
    aio::{ConnectionLike, MultiplexedConnection},
};

use seckill_model::reason::reason;

use super::{RedisError, Result};

/// Number of slots in a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// Hash tag of the first partition, whose server receives the commands without a key.
pub const HOME: &str = "{p0}";

/// Slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key.
pub(super) fn slot_of(key: impl AsRef<[u8]>) -> u16 {
    crc16(tag(key.as_ref())) % SLOTS
}

/// The part between the first `{` and the next `}`, unless it is empty.
fn tag(key: &[u8]) -> &[u8] {
    let inner = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = key.get(open + 1..)?;
        rest.get(..rest.iter().position(|byte| *byte == b'}')?)
    });
    inner.filter(|inner| !inner.is_empty()).unwrap_or(key)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// What is sent to one server.
#[derive(Clone, Copy)]
pub(super) enum Ask<'a> {
    Command(&'a Cmd),
    Pipe(&'a Pipeline),
    Script(&'a ScriptInvocation<'a>),
}

impl Ask<'_> {
    /// The first key of each command, or all keys of a script.
    pub(super) fn keys(self) -> Vec<Vec<u8>> {
        match self {
            Self::Command(cmd) => first_key(cmd).into_iter().map(<[u8]>::to_vec).collect(),
            Self::Pipe(pipe) => pipe.cmd_iter().filter_map(first_key).map(<[u8]>::to_vec).collect(),
            Self::Script(script) => {
                let mut seen = KeyCapture(Vec::new());
                // Nothing is sent: the call ends when its first command is rejected.
                let _ = script.invoke_async::<Value>(&mut seen).now_or_never();
                seen.0
            }
        }
    }

    /// Number of commands.
    pub(super) fn commands(self) -> u64 {
        match self {
            Self::Command(_) | Self::Script(_) => 1,
            Self::Pipe(pipe) => pipe.len() as u64,
        }
    }

    /// Slot of its keys; that of [`HOME`] without keys.
    ///
    /// # Errors
    /// The keys belong to different slots: a bug. No server may see such a pipeline, because it would execute a part of
    /// it.
    pub(super) fn slot(self) -> Result<u16> {
        let keys = self.keys();
        let mut slots = keys.iter().map(slot_of);
        let first = slots.next().unwrap_or_else(|| slot_of(HOME));
        if slots.any(|slot| slot != first) {
            return Err(RedisError::Rejected(reason!("redis-cross-slot")));
        }
        Ok(first)
    }

    /// Whether it may be sent again after this error: its connection broke, and it only reads, so that it does not matter
    /// whether the server has executed it. Not after a timeout: the caller has waited long enough.
    pub(super) fn may_be_repeated_after(self, error: &DriverError) -> bool {
        error.is_connection_dropped()
            && match self {
                Self::Command(cmd) => is_read(cmd),
                Self::Pipe(pipe) => pipe.cmd_iter().all(is_read),
                // What a script does is known to its caller only.
                Self::Script(_) => false,
            }
    }

    pub(super) async fn send(self, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
        match self {
            Self::Command(cmd) => cmd.query_async(connection).await,
            Self::Pipe(pipe) => pipe.query_async(connection).await,
            Self::Script(script) => script.invoke_async(connection).await,
        }
    }
}

/// Whether a command changes nothing, or what it changes is the same if it is executed again (GETEX).
fn is_read(cmd: &Cmd) -> bool {
    let Some(Arg::Simple(name)) = cmd.args_iter().next() else { return false };
    matches!(
        &*name.to_ascii_uppercase(),
        b"ECHO"
            | b"EXISTS"
            | b"GET"
            | b"GETEX"
            | b"GETRANGE"
            | b"HEXISTS"
            | b"HGET"
            | b"HGETALL"
            | b"HLEN"
            | b"HMGET"
            | b"HSCAN"
            | b"HVALS"
            | b"INFO"
            | b"MGET"
            | b"PING"
            | b"PTTL"
            | b"SCAN"
            | b"SCARD"
            | b"SISMEMBER"
            | b"SMEMBERS"
            | b"TIME"
            | b"TYPE"
            | b"XINFO"
            | b"XLEN"
            | b"XPENDING"
            | b"XRANGE"
            | b"XREVRANGE"
            | b"ZCARD"
            | b"ZCOUNT"
            | b"ZMSCORE"
            | b"ZRANGE"
            | b"ZRANGEBYSCORE"
            | b"ZSCORE"
    )
}

/// Captures the keys of a script, which redis-rs passes only to a connection.
struct KeyCapture(Vec<Vec<u8>>);

impl ConnectionLike for KeyCapture {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        // EVALSHA, script, number of keys, keys.
        let mut words = cmd.args_iter().skip(2).filter_map(|arg| match arg {
            Arg::Simple(word) => Some(word),
            _ => None,
        });
        let count = words.next().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        self.0 = words.take(count.unwrap_or(0)).map(<[u8]>::to_vec).collect();
        Box::pin(async { Err((redis::ErrorKind::Client, "not sent").into()) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async { Err((redis::ErrorKind::Client, "not sent").into()) })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// Position of a command's first key, for the commands that the program sends.
enum Place {
    Nowhere,
    At(usize),
    /// After a key count at this position, which may be 0.
    Counted(usize),
    AfterStreams,
}

fn place(name: &[u8]) -> Place {
    match name {
        b"CLIENT" | b"CLUSTER" | b"CONFIG" | b"ECHO" | b"INFO" | b"KEYS" | b"PING" | b"PUBLISH"
        | b"SCAN" | b"SCRIPT" | b"TIME" | b"WAIT" => Place::Nowhere,
        b"XGROUP" | b"XINFO" => Place::At(2),
        b"EVAL" | b"EVALSHA" => Place::Counted(2),
        b"XREADGROUP" => Place::AfterStreams,
        _ => Place::At(1),
    }
}

fn first_key(cmd: &Cmd) -> Option<&[u8]> {
    let nth = |at: usize| match cmd.args_iter().nth(at) {
        Some(Arg::Simple(arg)) => Some(arg),
        _ => None,
    };
    match place(&nth(0)?.to_ascii_uppercase()) {
        Place::Nowhere => None,
        Place::At(at) => nth(at),
        Place::Counted(count) if nth(count) == Some(b"0") => None,
        Place::Counted(count) => nth(count + 1),
        Place::AfterStreams => {
            let is_streams =
                |arg| matches!(arg, Arg::Simple(arg) if b"STREAMS".eq_ignore_ascii_case(arg));
            nth(cmd.args_iter().position(is_streams)? + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::{Script, cmd, pipe};

    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        // An empty tag is ignored, and only the first one counts.
        assert_eq!(slot_of("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{bar"));
        assert_eq!(slot_of("foo{bar}{zap}"), slot_of("bar"));
        assert_eq!(slot_of("open{bar"), crc16(b"open{bar") % SLOTS);
        assert_eq!(slot_of(""), 0);
    }

    #[test]
    fn first_key_of_each_command_is_found() {
        for (line, key) in [
            ("GET k", Some("k")),
            ("get k", Some("k")),
            ("XADD k * f v", Some("k")),
            ("XAUTOCLAIM k g c 0 0", Some("k")),
            ("XGROUP CREATE k g 0 MKSTREAM", Some("k")),
            ("XINFO GROUPS k", Some("k")),
            ("XREADGROUP GROUP g c COUNT 5 BLOCK 100 STREAMS k >", Some("k")),
            ("EVALSHA sha 2 k l arg", Some("k")),
            ("EVAL text 0 arg", None),
            ("EVALSHA sha", None),
            ("TIME", None),
            ("CONFIG GET appendonly", None),
            ("SCRIPT LOAD text", None),
            ("WAIT 1 100", None),
            ("GET", None),
        ] {
            let mut words = line.split(' ');
            let mut command = cmd(words.next().unwrap());
            command.arg(words.collect::<Vec<_>>());
            assert_eq!(first_key(&command), key.map(str::as_bytes), "{line}");
        }
    }

    #[test]
    fn only_reads_whose_connection_broke_are_repeated() {
        let broken = || DriverError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let slow = || DriverError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let (get, set) = (cmd("get").arg("k").to_owned(), cmd("SET").arg("k").arg(1).to_owned());
        assert!(Ask::Command(&get).may_be_repeated_after(&broken()));
        assert!(!Ask::Command(&get).may_be_repeated_after(&slow()));
        assert!(!Ask::Command(&set).may_be_repeated_after(&broken()));
        let mut all = pipe();
        all.cmd("GET").arg("k").cmd("PTTL").arg("k");
        assert!(Ask::Pipe(&all).may_be_repeated_after(&broken()));
        all.cmd("DEL").arg("k");
        assert!(!Ask::Pipe(&all).may_be_repeated_after(&broken()));
        let script = Script::new("return 1");
        assert!(!Ask::Script(&script.prepare_invoke()).may_be_repeated_after(&broken()));
        for write in ["XREADGROUP", "XCLAIM", "XADD", "DEL", "HSET", "EVALSHA", "WAIT", "PUBLISH"] {
            assert!(!is_read(&cmd(write)), "{write}");
        }
    }

    #[test]
    fn scripts_go_to_their_keys() {
        let script = Script::new("return 1");
        let mut call = script.prepare_invoke();
        call.arg("k");
        assert_eq!(Ask::Script(&call).slot(), Ok(slot_of(HOME)));
        call.key("foo").key("bar{foo}");
        assert_eq!(Ask::Script(&call).slot(), Ok(12_182));
    }

    #[test]
    fn a_pipeline_has_one_slot() {
        let mut one = pipe();
        one.cmd("TIME");
        assert_eq!(Ask::Pipe(&one).slot(), Ok(slot_of(HOME)));
        one.cmd("GET").arg("{foo}a").cmd("GET").arg("{foo}b");
        assert_eq!(Ask::Pipe(&one).slot(), Ok(12_182));
        one.cmd("GET").arg("bar");
        let refused = Err(RedisError::Rejected(reason!("redis-cross-slot")));
        assert_eq!(Ask::Pipe(&one).slot(), refused);
    }
}
