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
    assert_eq!(rush["admitted"], BUYERS, "{rush}");
    assert_eq!((&rush["persisted"], &rush["settled"]), (&BUYERS.into(), &true.into()), "{rush}");
}
