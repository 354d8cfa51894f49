//! Scenarios on a disk of a few megabytes, which is full for a while: a file system of their own, in memory, for a process
//! that holds the temporary directory of a scenario there.

use std::{fs::File, io::Write as _, process::Command, sync::OnceLock, time::Duration};

use super::{
    plan::{Fault, Plan, Scenario},
    stage::ScenarioReport,
    world::World,
};

/// Environment variable that makes a process one of these, with its seed.
pub const CHILD: &str = "MATRIX_SMALL_DISK";
const SIZE: &str = "size=16m,mode=700";
/// What the result of a scenario begins with.
const RAN: &str = "on the small disk: ";

/// Whether a scenario needs a process of its own.
pub fn is_needed(plan: &Plan) -> bool {
    let Scenario::Live(faults) = &plan.scenario else { return false };
    let is_full = faults.iter().any(|(_, it)| matches!(it, Fault::DiskFull(_)));
    is_full && std::env::var_os(CHILD).is_none()
}

/// The options of `unshare` with which this user may mount a file system, if any.
fn may_mount() -> Option<&'static str> {
    static MAY: OnceLock<Option<&str>> = OnceLock::new();
    *MAY.get_or_init(|| {
        let mounts = |options: &&str| {
            let mount = ["sh", "-c", "mount -t tmpfs -o size=1m tmpfs /tmp"];
            let tried = Command::new("unshare").arg(options).args(mount).output();
            tried.is_ok_and(|it| it.status.success())
        };
        ["-m", "-rm"].into_iter().find(mounts)
    })
}

/// Runs a scenario in a process of its own. SQLite is its database: a database server has a disk of its own.
pub fn run(seed: u64) -> Result<ScenarioReport, String> {
    let Some(options) = may_mount() else {
        println!("seed {seed} is skipped: this user may not mount a file system (unshare -m)");
        return Ok(ScenarioReport::default());
    };
    let disk = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o {SIZE} tmpfs \"$0\" && TMPDIR=\"$0\" exec \"$@\"");
    let ran = Command::new("unshare")
        .args([options, "sh", "-c", &script])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .args(crate::support::only("matrix", "a_scenario_on_a_small_disk"))
        .env(CHILD, seed.to_string())
        .env_remove("DATABASE")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout).into_owned();
    // The test harness may have begun the line.
    let Some((_, result)) = output.split_once(RAN) else {
        return Err(format!("{output}\n{}", String::from_utf8_lossy(&ran.stderr)));
    };
    let mut words = result.split_whitespace();
    let mut number = || words.next()?.parse().ok();
    let mut report = || {
        let struck = number()? == 1;
        Some(ScenarioReport { struck, gone: number()?, admitted: number()? })
    };
    report().ok_or_else(|| format!("{output}\n{}", String::from_utf8_lossy(&ran.stderr)))
}

/// The line with the result of a scenario.
pub fn line(result: &Result<ScenarioReport, String>) -> String {
    match result {
        Ok(it) => format!("{RAN}{} {} {}", u8::from(it.struck), it.gone, it.admitted),
        Err(why) => format!("{RAN}{why}"),
    }
}

/// Fills the disk, but for a few bytes; gives the room back after this time.
pub async fn fill(world: &mut World, seed: u64, time: Duration) {
    let path = std::env::temp_dir().join("filler");
    let mut filler = File::create(&path).unwrap();
    let block = [0; 4_096];
    let mut blocks = 0_u64;
    let end = std::time::Instant::now() + time;
    // The servers may free some room.
    while std::time::Instant::now() < end {
        while filler.write_all(&block).is_ok() {
            blocks += 1;
        }
        if blocks > 0 && seed.is_multiple_of(2) {
            // A part of the next write fits.
            filler.set_len((blocks - 1) * 4_096).unwrap();
            blocks = 0;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(filler);
    std::fs::remove_file(path).unwrap();
    // A server that syncs each write ends when it cannot.
    if world.server.try_query::<String>(&["PING"]).is_err() {
        world.server.restart();
    }
}
