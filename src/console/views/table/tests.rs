//! Tests of the table component.

use seckill_engine::{JobLine, Snapshot};
use seckill_model::Label;

use super::{Column, Page, REST, Row, Table as _, TableState, Turn, Value, state::Controls};
use crate::views::{Source, Step, View};

#[test]
fn scrolling_follows_the_cursor_and_keeps_the_screen_full() {
    let mut controls = Controls::default();
    controls.follow(Some(30), 100, 10);
    assert_eq!(controls.offset, 21);
    controls.follow(Some(25), 100, 10);
    assert_eq!(controls.offset, 21);
    controls.follow(Some(3), 100, 10);
    assert_eq!(controls.offset, 3);
    controls.follow(Some(3), 5, 10);
    assert_eq!(controls.offset, 0);
    controls.follow(Some(4), 5, 0);
    assert_eq!(controls.offset, 5);
}

fn jobs(names: &[&str]) -> Snapshot {
    let job = |name: &&str| JobLine {
        name: (*name).to_owned(),
        about: String::new(),
        schedule: String::new(),
        paused: false,
        next: None,
        runs: Vec::new(),
    };
    Snapshot { jobs: names.iter().map(job).collect(), ..Snapshot::default() }
}

#[test]
fn the_cursor_follows_the_item_and_not_the_row() {
    let mut state = TableState::<JobLine>::default();
    let name = |state: &TableState<JobLine>, names: &[&str]| {
        state.chosen(&jobs(names)).map(|job| job.name.clone())
    };
    let all = jobs(&["a", "b", "c"]);
    state.settle(&all);
    assert_eq!(state.step(&all, Step::By(1), false), Turn::Moved);
    state.settle(&jobs(&["b", "a"]));
    assert_eq!(name(&state, &["b", "a"]).as_deref(), Some("b"));
    state.settle(&jobs(&["a"]));
    assert_eq!(name(&state, &["a"]).as_deref(), Some("a"));
    state.settle(&jobs(&[]));
    assert_eq!(state.step(&jobs(&[]), Step::Last, false), Turn::edge(Step::Last));
}

#[test]
fn all_terms_must_match_and_negated_ones_must_not() {
    let passes = |filter: &str| {
        let mut state = TableState::<JobLine>::default();
        state.controls.filter = filter.into();
        !state.rows(&jobs(&["hot pot"])).is_empty()
    };
    assert!(passes("") && passes("!") && passes(" POT hot "));
    assert!(!passes("hot tea") && passes("hot !tea"));
    assert!(!passes("hot !po") && passes("!tea !soup"));
}

/// A number and the place of the row.
struct Sample(Option<i64>, u8);

impl Row for Sample {
    type Id = u8;
    type Key = ();

    const VIEW: View = View::Jobs;
    const SOURCES: &'static [Source] = &[Source::Sql];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("tables-id"), (0, 5), |row: &Self| row.0.into()),
        Column::text(Label("tables-left"), (90, REST), |_: &Self| Value::Nothing),
        Column::text(Label("tables-of"), (0, 5), |row: &Self| i64::from(row.1).into()),
    ];

    fn id(&self) -> u8 {
        self.1
    }

    fn name(&self) -> String {
        self.1.to_string()
    }

    fn page(_: &Snapshot) -> Page<'_, Self> {
        const ROWS: &[Sample] =
            &[Sample(Some(2), 0), Sample(None, 1), Sample(Some(10), 2), Sample(Some(2), 3)];
        Page::whole(ROWS)
    }
}

#[test]
fn unknown_values_are_last_and_the_sort_is_stable() {
    let mut state = TableState::<Sample>::default();
    let mut sorted = |is_descending| {
        state.controls_mut().order =
            Some(super::state::Order { title: Label("tables-id"), is_descending });
        state.rows(&Snapshot::default()).into_iter().map(|row| row.1).collect::<Vec<_>>()
    };
    assert_eq!((sorted(false), sorted(true)), (vec![0, 3, 2, 1], vec![2, 0, 3, 1]));
}

#[test]
fn the_sort_cycles_through_the_visible_columns() {
    let mut controls =
        Controls { sortable: vec![Label("tables-id"), Label("tables-of")], ..Controls::default() };
    let mut titles = || {
        controls.next_order();
        controls.order.map(|order| order.title)
    };
    let seen: [Option<Label>; 3] = [titles(), titles(), titles()];
    assert_eq!(seen, [Some(Label("tables-id")), Some(Label("tables-of")), None]);
}
