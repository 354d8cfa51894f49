//! The consumers of the group.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::Line,
    widgets::{Paragraph, Widget},
};
use seckill_engine::telemetry::{
    Snapshot,
    snapshot::{GroupConsumer, NodeState},
};
use seckill_model::message::{Label, text};

use super::{Pane, StreamState, wording};
use crate::{
    keymap::{Action, key_of},
    text::{self},
    views::{
        SIDES, Scene, draw_text,
        table::{self, Column, Page, REST, Row, TableState, Value},
    },
};

impl Row for GroupConsumer {
    /// Names are unique within a partition only.
    type Id = (u16, String);
    type Key = ();

    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("stream-consumer"), &[(0, REST)], |it: &Self| it.name.clone().into()),
        Column::figure(Label("stream-partition"), &[(0, 9)], |it: &Self| {
            u64::from(it.partition).into()
        })
        .when(|snapshot| snapshot.entries.partitions.len() > 1)
        .soft(),
        Column::text(Label("common-node"), &[(0, 8)], |it: &Self| {
            Value::Text(wording::state(it.state, it.pending > 0).to_owned())
        })
        .styled(|scene, it| match (it.state, it.pending) {
            (NodeState::Alive, _) => scene.theme.good,
            (_, 0) => scene.theme.soft,
            (NodeState::Stopped, _) => scene.theme.warn,
            (NodeState::Dead, _) => scene.theme.broken,
        }),
        Column::figure(text::PENDING, &[(0, 9)], |it: &Self| it.pending.into()).styled(
            |scene, it| match it.state {
                NodeState::Stopped | NodeState::Dead if it.pending > 0 => scene.theme.warn,
                _ => Style::new(),
            },
        ),
        Column::span(Label("tables-idle"), &[(0, 8)], |it: &Self| Value::Span(it.idle_ms)).soft(),
    ];

    fn id(&self) -> Self::Id {
        (self.partition, self.name.clone())
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let is_read = snapshot.entries.taken.is_some();
        Page { is_read, ..Page::whole(&snapshot.entries.consumers) }
    }
}

pub(super) fn draw(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, state: &mut StreamState) {
    let theme = scene.theme;
    let mut all = GroupConsumer::page(scene.snapshot).rows;
    if all.is_empty() {
        let head = Line::styled(Label("stream-consumer"), theme.heading);
        let none = Line::styled(Label("stream-no-consumer-reads-the-stream"), theme.soft);
        return Paragraph::new(vec![head, none]).render(area.inner(SIDES), buffer);
    }
    if state.pane == Pane::Consumers {
        let cursor = state.consumers.position(&all);
        return table::draw(area, buffer, scene, &mut state.consumers, &all, cursor);
    }
    // Abbreviated here; shown in full once this list has the focus.
    let room = usize::from(area.height.saturating_sub(1));
    let more = (all.len() > room && room > 1).then(|| all.len() + 1 - room);
    all.truncate(all.len() - more.unwrap_or(0));
    let height = area.height - u16::from(more.is_some());
    let mut at_rest = TableState::default();
    table::draw(Rect { height, ..area }, buffer, scene, &mut at_rest, &all, None);
    if let Some(count) = more {
        let text = text!("stream-and-more-press-for-all", count, key = key_of(Action::Pane));
        draw_text(area, buffer, scene, height, &text);
    }
}
