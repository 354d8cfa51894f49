//! A database locked by another program: the header says so, and data that is only read is unaffected.

use seckill_engine::{
    error::StoreError,
    telemetry::{
        Snapshot,
        read_error::ReadError,
        snapshot::{Alarm, AlarmKind, Urgency},
    },
};
use seckill_model::{Message, locale::set_thread_language};

use super::{
    fixture::{Bench, NOW, normal},
    orders::sold,
    screens::assert_screen,
};

fn locked(mut snapshot: Snapshot) -> Snapshot {
    snapshot.sql.unwritable = Some(Message::of(&ReadError::Sql(StoreError::Locked)));
    let kind = AlarmKind::SqlLocked { waiting: Some(86) };
    snapshot.alarms.insert(0, Alarm { urgency: Urgency::Critical, kind });
    snapshot
}

#[test]
fn the_header_and_the_overview_show_it() {
    for (lang, name) in [("en", "locked"), ("zh", "locked_zh")] {
        set_thread_language(lang);
        for (w, h) in [(120, 36), (80, 24)] {
            let text = Bench::new(locked(normal())).text(w, h);
            assert_screen(&format!("{name}_{w}x{h}"), &text);
        }
    }
}

#[test]
fn reading_does_not_age_figures() {
    for view in ["2", "3", "4", "5", "7", "8", "0"] {
        for size in [(120, 36), (80, 24)] {
            let [free, held] = [sold(), locked(sold())].map(|snapshot| {
                let mut bench = Bench::new(snapshot);
                bench.keys(view);
                let text = bench.text(size.0, size.1);
                // The header has the state of the server.
                text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
            });
            assert_eq!(free, held, "view {view}");
        }
    }
}

#[test]
fn no_confirmation_opens_for_a_command_that_would_wait() {
    for (lang, expected) in [("en", "rejects writes"), ("zh", "拒绝写入")] {
        set_thread_language(lang);
        let mut bench = Bench::new(normal());
        assert_eq!(bench.app.away(), None);
        bench.show(locked(normal()));
        assert!(bench.app.away().is_some_and(|it| it.contains(expected)));
        let mut gone = normal();
        gone.sql.up = false;
        gone.sql.last_ok = Some(NOW.plus(-42_000));
        bench.show(gone);
        assert!(bench.app.away().is_some_and(|it| !it.contains(expected)));
    }
}
