//! The pending list in a load test: entries come and go with each snapshot, and nothing else moves.

use super::{fixture, layout::assert_steady, prelude::*};

/// This many are pending when the list is read; the stats saw `counted`.
fn holding(count: u64, counted: u64) -> Snapshot {
    let census = fixture::census(count, [0, 0, count, 0, 0], [count, 0, 0]);
    with(Snapshot { pending: page(0, count), census: Some(census), ..normal() }, |it| {
        it.stream.iter_mut().for_each(|stream| stream.pending = counted);
    })
}

#[test]
fn the_layout_stays_while_entries_come_and_go() {
    for (lang, head, none, oldest) in [
        ("en", "HOLDER", "No pending entries", "age > 10 min"),
        ("zh", "持有者", "没有待确认", "已等待 > 10 分"),
    ] {
        set_thread_language(lang);
        for size in [(200, 50), (120, 36), (80, 24), (60, 15)] {
            let mut tui = Tui::open(holding(0, 7), "4");
            tui.at(size);
            let screens = [0, 3, 0, 1].map(|count| tui.show(holding(count, 9)).screen());
            assert_steady(&screens, &[head, oldest][..if size.1 > 15 { 2 } else { 1 }]);
            let shown = screens.each_ref().map(|screen| screen.contains(none));
            assert_eq!(shown, [true, false, true, false], "{}", screens[0]);
        }
    }
}

#[test]
fn the_tab_counts_what_the_list_shows() {
    let mut tui = Tui::open(holding(3, 7), "4");
    tui.assert_shows("Pending 3 |1–3 of 3");
    tui.show(holding(0, 7)).assert_hides("Pending 7");
    // Without an open list the stats count.
    tui.show(Snapshot { pending: PendingPage::default(), census: None, ..holding(0, 7) });
    tui.press("1").assert_shows("Pending 7 ");
}

#[test]
fn an_older_count_shows_its_time() {
    let age = |it: &mut Snapshot| it.census.as_mut().unwrap().taken = NOW.plus(-7_000);
    Tui::open(with(normal(), age), "4").at((80, 24)).assert_shows("7 s old");
    let mut long = holding(700, 700);
    long.census.as_mut().unwrap().taken = NOW.plus(-1_400);
    let mut tui = Tui::open(long, "4");
    tui.assert_shows("1 s old").show(holding(499, 499)).assert_hides(" s old");
}
