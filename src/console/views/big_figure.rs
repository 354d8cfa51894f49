//! A figure of the presenter layout: digits, label, and a constant width while it counts.

use ratatui::style::Style;

use seckill_model::message::Label;

use crate::{
    text::figures,
    theme::Theme,
    widgets::{Pixel, big_width, right, width},
};

/// A figure in large digits.
pub(super) struct Figure {
    pub(super) signs: String,
    /// The widest expected value, which reserves the space.
    pub(super) widest: String,
    pub(super) style: Style,
    pub(super) label: String,
    /// The short label for a shared row.
    pub(super) brief: Option<Label>,
    /// Its age, if it is outdated.
    pub(super) age: Option<String>,
    /// Cells of the longest possible label.
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

    /// Reserves space for a value of this size.
    pub(super) fn up_to(self, most: u64) -> Self {
        Self { widest: figures::thousands(most), ..self }
    }

    pub(super) fn cells(&self, pixel: Pixel) -> u16 {
        big_width(&self.signs, pixel).max(big_width(&self.widest, pixel))
    }

    /// The label that fits in `cells`, and the width reserved for any of its labels.
    pub(super) fn called(&self, cells: u16) -> (&str, u16) {
        match self.brief {
            Some(brief) if self.room >= cells => (brief.read(), width(&brief) as u16),
            _ => (&self.label, self.room),
        }
    }

    /// The right edge of digits and label within `cells`: both are right-aligned in a constant width, so that they stay
    /// below each other whatever the number of digits.
    pub(super) fn end(&self, signs: u16, cells: u16) -> u16 {
        let place = signs.max(self.called(cells).1).min(cells);
        cells.saturating_sub(place) / 2 + place
    }

    /// The figure as text, in a constant width.
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
