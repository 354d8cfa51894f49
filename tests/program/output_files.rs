//! Files that commands write: complete or untouched, through links, and never in place of what is no file.

use std::{
    fs,
    io::Read as _,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    thread,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::Seckill;

const BEFORE: &str = "what was there before\n";

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_failed_command_leaves_the_file_that_it_was_to_replace() {
    let home = Seckill::new();
    let file = home.file("kept");
    fs::write(&file, BEFORE).unwrap();
    let name = file.to_str().unwrap();
    home.run(&["rush", "--voucher", "4711", "--users", "1", "--csv", name]).expect_code(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), BEFORE);

    let away = "redis+unix:///nowhere/redis.sock";
    let create = ["users", "create", "--count", "3", "--tokens", name];
    home.run(&[&["--redis", away][..], &create].concat()).expect_code(3);
    assert_eq!(fs::read_to_string(&file).unwrap(), BEFORE);
    let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().flatten().collect();
    assert!(!left.iter().any(|it| it.file_name().to_string_lossy().starts_with(".seckill-")));

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    home.run(&create).expect_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 3);
    assert_eq!(mode(&file), 0o600, "who has a token is logged in");

    // No file can be there.
    for command in [&["incident", "--yes", "--out"][..], &["users", "create", "--tokens"]] {
        home.run(&[command, &["/nowhere/file"]].concat()).expect_code(2);
    }
}

#[test]
fn a_file_is_written_through_links_and_keeps_its_permissions() {
    let home = Seckill::new();
    let (target, link, chain) = (home.file("target"), home.file("link"), home.file("chain"));
    fs::write(&target, BEFORE).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o664)).unwrap();
    symlink("target", &link).unwrap();
    symlink(&link, &chain).unwrap();
    let chain_name = chain.to_str().unwrap();
    home.run(&["incident", "--out", chain_name]).expect_code(2);
    home.run(&["incident", "--yes", "--out", chain_name]).expect_code(0);
    assert!(fs::read_to_string(&target).unwrap().starts_with("# Incident, "));
    assert!(link.is_symlink() && chain.is_symlink());
    assert_eq!(mode(&target), 0o664);

    // A link may also name a file that is made.
    let (made, link) = (home.file("made"), home.file("to-made"));
    symlink(&made, &link).unwrap();
    let link_name = link.to_str().unwrap();
    home.run(&["users", "create", "--count", "1", "--tokens", link_name]).expect_code(0);
    assert!(link.is_symlink());
    assert_eq!((fs::read_to_string(&made).unwrap().lines().count(), mode(&made)), (1, 0o600));
    symlink("round", home.file("round")).unwrap();
    let round = home.file("round");
    home.run(&["incident", "--out", round.to_str().unwrap()]).expect_code(1);
}

#[test]
fn what_is_no_file_is_written_to_or_refused_and_stays() {
    let home = Seckill::new();
    let pipe = home.file("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut text = String::new();
            fs::File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
            text
        }
    });
    home.run(&["incident", "--yes", "--out", pipe.to_str().unwrap()]).expect_code(0);
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(reader.join().unwrap().starts_with("# Incident, "));

    let (socket, dir) = (home.file("socket"), home.file("dir"));
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::create_dir(&dir).unwrap();
    for refused in [&socket, &dir] {
        let name = refused.to_str().unwrap();
        let ran = home.run(&["incident", "--yes", "--out", name]).expect_code(2);
        assert!(ran.stderr.contains("it is not a file"), "{}", ran.stderr);
        home.run(&["users", "create", "--count", "1", "--tokens", name]).expect_code(2);
        home.run(&["pending", "plan", "--out", name]).expect_code(1);
    }
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket() && dir.is_dir());
}
