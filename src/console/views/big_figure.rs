//! A figure of the presenter's layout: its signs, its label, and the place that both keep while it counts.
//!
//! It does not know sales, nor where it stands on the screen.

use ratatui::style::Style;

use seckill_model::message::Label;

use crate::{
    text::figures,
    theme::Theme,
    widgets::{Pixel, big_width, right, width},
};

/// What is told in large signs.
pub(super) struct Figure {
    pub(super) signs: String,
    /// Room is kept for these, so that it does not change its size while it counts.
    pub(super) widest: String,
    pub(super) style: Style,
    pub(super) label: String,
    /// The label where figure and label share a row.
    pub(super) brief: Option<Label>,
    /// How old it is, where that is too old.
    pub(super) age: Option<String>,
    /// Cells of the longest label that it may have.
    pub(super) room: u16,
}

impl Figure {
    pub(super) fn new(signs: String, style: Style, label: impl Into<String>) -> Self {
        let (widest, label) = (signs.clone(), label.into());
        let room = width(&label) as u16;
        Self { widest, signs, style, label, brief: None, age: None, room }
    }

    pub(super) fn in_brief(self, brief: Label) -> Self {
        Self { brief: Some(brief), ..self }
    }

    /// As many as that may come.
    pub(super) fn up_to(self, most: u64) -> Self {
        Self { widest: figures::thousands(most), ..self }
    }

    pub(super) fn cells(&self, pixel: Pixel) -> u16 {
        big_width(&self.signs, pixel).max(big_width(&self.widest, pixel))
    }

    /// What it is called among `cells`, and the cells that any of its names take there.
    pub(super) fn called(&self, cells: u16) -> (&str, u16) {
        match self.brief {
            Some(brief) if self.room >= cells => (brief.read(), width(&brief) as u16),
            _ => (&self.label, self.room),
        }
    }

    /// Where signs and label end among `cells`: both at the right of a place of steady width, so that they stand
    /// below each other however many digits there are.
    pub(super) fn end(&self, signs: u16, cells: u16) -> u16 {
        let place = signs.max(self.called(cells).1).min(cells);
        cells.saturating_sub(place) / 2 + place
    }

    /// The signs in a row, in a place of steady width.
    pub(super) fn in_a_row(&self, theme: Theme) -> String {
        let signs = match self.signs.as_str() {
            "✔" => theme.glyphs.check,
            "✖" => theme.glyphs.cross,
            "≈" => theme.glyphs.moving,
            signs => signs,
        };
        right(signs, width(&self.widest).max(width(signs)), "")
    }
}
