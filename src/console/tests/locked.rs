//! A database locked by another program: the header says so, and data that is only read is unaffected.

use super::prelude::*;

pub(super) fn locked_database() -> Snapshot {
    locked(normal())
}

fn locked(mut snapshot: Snapshot) -> Snapshot {
    snapshot.sql.unwritable = Some(Message::of(&EngineError::Store(StoreError::Locked)));
    let kind = AlarmKind::SqlLocked { waiting: Some(86) };
    snapshot.alarms.insert(0, Alarm { urgency: Urgency::Critical, kind });
    snapshot
}

#[test]
fn reading_does_not_age_figures() {
    for view in ["2", "3", "4", "5", "7", "8", "0"] {
        for size in [(120, 36), (80, 24)] {
            let [free, held] = [with_orders(), locked(with_orders())].map(|snapshot| {
                let mut tui = Tui::open(snapshot, view);
                let text = tui.screen_at(size.0, size.1);
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
        let mut tui = Tui::new(normal());
        assert_eq!(tui.app.away(), None);
        tui.show(locked(normal()));
        assert!(tui.app.away().is_some_and(|it| it.contains(expected)));
        let mut gone = normal();
        gone.sql.up = false;
        gone.sql.last_ok = Some(NOW.plus(-42_000));
        tui.show(gone);
        assert!(tui.app.away().is_some_and(|it| !it.contains(expected)));
    }
}
