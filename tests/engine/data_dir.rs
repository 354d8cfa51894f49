//! The data directory: its locks and numbers, and the errors for impossible paths.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, SystemTime},
};

use seckill_redis::{DataDir, DataDirError};

#[tokio::test]
async fn a_data_directory_is_private_and_names_its_files() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::open(place.path().join("a b/火")).unwrap();
    assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(dir.path().is_absolute() && dir.redis_dir().starts_with(dir.path()));
    assert_eq!(dir.socket_path(), dir.path().join("redis.sock"));
    assert_eq!(dir.log_path(), dir.path().join("seckill.log"));
    let store = seckill_store::open(&dir.database_url(), &seckill_store::Settings::default())
        .await
        .unwrap();
    assert!(dir.path().join("seckill.db").is_file());
    store.close().await;
}

#[test]
fn an_accessible_directory_is_made_private_unless_it_has_another_use() {
    let place = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for shared in [false, true] {
        let path = place.path().join(format!("shared-{shared}"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let database = path.join("seckill.db");
        fs::write(&database, "").unwrap();
        fs::set_permissions(&database, fs::Permissions::from_mode(0o666)).unwrap();
        let other = path.join("index.html");
        if shared {
            fs::write(&other, "").unwrap();
            fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
        }
        DataDir::open(&path).unwrap();
        assert_eq!(mode(&database), 0o600);
        assert_eq!(mode(&path), if shared { 0o755 } else { 0o700 });
        assert!(!shared || mode(&other) == 0o644, "it is no file of ours");
    }
}

#[test]
fn a_long_path_has_a_stable_socket_in_a_runtime_directory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x".repeat(100));
    let one = DataDir::open(&path).unwrap();
    let two = DataDir::open(path.join("../").join("x".repeat(100))).unwrap();
    assert_eq!(one.socket_path(), two.socket_path());
    assert!(one.socket_path().as_os_str().len() <= 107);
    let short = one.socket_path().parent().unwrap();
    assert_eq!(fs::metadata(short).unwrap().permissions().mode() & 0o777, 0o700);

    // Accessible to others, who may have put a socket there.
    fs::set_permissions(short, fs::Permissions::from_mode(0o755)).unwrap();
    let DataDirError(why) = DataDir::open(&path).unwrap_err();
    assert_eq!(why.id(), Some("redis-data-dir-shared"), "{why}");
    fs::remove_dir(short).unwrap();
}

#[test]
fn live_processes_have_distinct_numbers() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (DataDir::open(place.path()).unwrap(), DataDir::open(place.path()).unwrap());
    let first = one.node_slot().unwrap();
    let second = two.node_slot().unwrap();
    let third = one.node_slot().unwrap();
    assert_eq!([first.number(), second.number(), third.number()], [1, 2, 3]);
    for (slot, instance) in [(&first, "a"), (&second, "b"), (&third, "c")] {
        slot.write_instance(instance).unwrap();
    }
    let ended = || ["a", "b", "c", "d", "other"].map(|instance| one.has_ended(instance));
    assert_eq!(ended(), [false; 5]);
    drop(second);
    assert_eq!(ended(), [false, true, false, false, false]);
    let fourth = one.node_slot().unwrap();
    assert_eq!(fourth.number(), 2);
    assert_eq!(ended(), [false; 5], "the process that holds the slot may be the same");
    fourth.write_instance("d").unwrap();
    assert_eq!(ended(), [false, true, false, false, false]);
    drop(fourth);
    assert_eq!(ended(), [false, true, false, true, false]);
}

/// Tests may run as root, to whom permissions do not apply: these are paths where no user can
/// keep a directory.
#[test]
fn impossible_paths_are_refused_with_an_error() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = DataDir::open(&path).unwrap_err();
        assert_eq!(error.0.id(), Some("redis-data-dir-not-a-directory"), "{error}");
        assert!(error.to_string().contains("--data-dir"), "{error}");
    }
    if cfg!(target_os = "linux") {
        let error = DataDir::open("/proc").unwrap_err().to_string();
        assert!(error.contains("/proc") && error.contains("--data-dir"), "{error}");
    }
}

#[test]
fn a_temporary_directory_is_removed_with_its_last_user() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::throw_away_in(place.path()).unwrap();
    let (path, clone) = (dir.path().to_owned(), dir.clone());
    drop(dir);
    assert!(path.is_dir());
    drop(clone);
    assert!(!path.exists());
}

#[test]
fn only_abandoned_directories_are_swept() {
    let place = tempfile::tempdir().unwrap();
    let make = |name: &str, age: Duration| {
        let path = place.path().join(name);
        fs::create_dir(&path).unwrap();
        let lock = fs::File::create(path.join("lock")).unwrap();
        lock.set_modified(SystemTime::now() - age).unwrap();
        path
    };
    let old = Duration::from_hours(1);
    let abandoned = make("seckill-demo-abandoned", old);
    let young = make("seckill-demo-young", Duration::ZERO);
    let other = make("other", old);
    let live = make("seckill-demo-live", old);
    let user = DataDir::open(&live).unwrap();
    let conn = place.path().join("seckill-demo-conn");
    std::os::unix::fs::symlink(&other, &conn).unwrap();

    let dir = DataDir::throw_away_in(place.path()).unwrap();
    assert!(!abandoned.exists());
    for path in [&young, &other, &live, &conn, &dir.path().to_owned()] {
        assert!(path.exists(), "{}", path.display());
    }
    drop(user);
}
