//! A database on a disk that is smaller than its write-ahead log would become.
//!
//! The disk is a tmpfs in a mount namespace of its own, which needs the rights of an administrator.

use std::process::Command;

use crate::support::{BINARY, Background, LONG, Seckill};

/// Mounts a disk, and sells on it: each of the many small transactions adds to the log.
const SELL: &str = r#"
mount -t tmpfs -o size=16m tmpfs "$1" || exit 9
run="$2 --data-dir $3 --database sqlite:$1/shop.db"
$run sale create --title tea --stock 12000 >&2 || exit 8
$run rush --voucher 1 --users 12000 --rate 3000 --json || exit 7
$run audit >&2
"#;
const BUYERS: i64 = 12_000;

/// Mounts a disk, and checks a database on it and one beside the data directory.
const EXAMINE: &str = r#"
mount -t tmpfs -o size=64m tmpfs "$1" || exit 9
$2 --data-dir $3 --database sqlite:$1/shop.db doctor --json
"#;

/// Whether this process may mount a disk; otherwise why not.
fn may_mount(at: &str) -> Result<(), String> {
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", at]);
    match probe.output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        Err(error) => Err(format!("unshare: {error}")),
    }
}

/// Each disk once: that of the data directory, and that of the database.
#[test]
fn doctor_reports_the_disk_of_the_database() {
    let home = Seckill::new();
    let checks = |report: &serde_json::Value, name: &str| -> Vec<serde_json::Value> {
        let all = report["checks"].as_array().unwrap();
        all.iter().filter(|it| it["name"] == name).cloned().collect()
    };
    let one = home.json(&["doctor"]);
    let data_dir = home.data_dir();
    let [disk] = &checks(&one, "disk")[..] else { panic!("{one}") };
    assert!(disk["found"].as_str().unwrap().contains(data_dir.to_str().unwrap()), "{one}");
    assert!(checks(&one, "database disk").is_empty(), "it is the same disk: {one}");

    let mount = home.file("disk");
    std::fs::create_dir(&mount).unwrap();
    let mount = mount.to_str().unwrap();
    if let Err(why) = may_mount(mount) {
        return eprintln!("skipped: no disk can be mounted here: {why}");
    }
    let data_dir = data_dir.to_str().unwrap();
    let script = ["--mount", "sh", "-c", EXAMINE, "examine", mount, BINARY, data_dir];
    let two = Background::spawn("unshare", &script, &home, &[]).wait(LONG).expect_code(1).json();
    assert_eq!(checks(&two, "disk").len(), 1, "{two}");
    let [small] = &checks(&two, "database disk")[..] else { panic!("{two}") };
    let found = small["found"].as_str().unwrap();
    assert!(small["grade"] == "problem" && found.contains(mount), "{two}");
    let mib: u64 = found.split(' ').next().unwrap().parse().unwrap();
    assert!((32..=64).contains(&mib), "{two}");
    assert!(small["fix"].as_str().unwrap().contains("--database"), "{two}");
}

#[test]
fn a_database_on_a_small_disk_takes_every_order() {
    let home = Seckill::new();
    let disk = home.file("disk");
    std::fs::create_dir(&disk).unwrap();
    let disk = disk.to_str().unwrap();
    if let Err(why) = may_mount(disk) {
        return eprintln!("skipped: no disk can be mounted here: {why}");
    }
    let data_dir = home.data_dir();
    let script = ["--mount", "sh", "-c", SELL, "sell", disk, BINARY, data_dir.to_str().unwrap()];
    let ran = Background::spawn("unshare", &script, &home, &[]).wait(LONG).expect_code(0);
    let rush = ran.json();
    let count = |name: &str| rush[name].as_i64().unwrap();
    // A node that a loaded machine makes slow says so at once.
    assert_eq!(count("admitted") + count("rejected"), BUYERS, "{rush}");
    assert!(count("admitted") > BUYERS / 2, "{rush}");
    assert_eq!((count("persisted"), &rush["settled"]), (count("admitted"), &true.into()), "{rush}");
}
