//! Dialogs over a view: questions, forms, the palette, the help screen.
//!
//! A dialog holds its subject as data. It has no effects and no access to a Remote.

mod confirm;
mod effect;
mod export_menu;
mod form;
mod forms;
mod help;
mod palette;

pub(crate) use confirm::{Confirm, Intent};
pub(crate) use effect::Effect;
pub(crate) use export_menu::ExportMenu;
pub(crate) use form::{Form, MOST, Subject, draw_input, is_cut, typed};
pub(crate) use help::Help;
pub(crate) use palette::{Offer, Palette};

use ratatui::{
    buffer::Buffer,
    layout::Constraint::Length,
    layout::{Constraint, Position, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{List, ListState, StatefulWidget},
};
use seckill_model::VoucherId;
use strum::VariantArray as _;
use tui_input::Input;

use super::{
    export::Format,
    keymap::Context,
    theme::{Theme, glyphs},
    views::scene::Scene,
};

/// The open dialog.
#[derive(Debug)]
pub(crate) enum Dialog {
    Confirm(Confirm),
    Form(Form),
    Palette(Palette),
    Help(Help),
    Export(ExportMenu),
}

impl Dialog {
    pub(crate) fn context(&self) -> Context {
        match self {
            // Input there is text, as in a form.
            Self::Confirm(confirm) if confirm.in_reason() => Context::Form,
            Self::Confirm(_) => Context::Confirm,
            Self::Form(form) if form.is_on_button() => Context::Button,
            Self::Form(_) => Context::Form,
            // Both are lists with a cursor.
            Self::Palette(_) | Self::Export(_) => Context::Palette,
            Self::Help(_) => Context::Help,
        }
    }

    /// The existing sale that it is about, if any.
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        match self {
            Self::Confirm(confirm) => confirm.sale(),
            Self::Form(Form {
                subject: Subject::LoadTest(voucher) | Subject::Restock(voucher),
                ..
            }) => Some(*voucher),
            _ => None,
        }
    }

    /// The focused text input.
    pub(crate) fn input(&mut self) -> Option<&mut Input> {
        match self {
            Self::Confirm(confirm) => confirm.input(),
            Self::Form(form) => form.input(),
            Self::Palette(palette) => Some(&mut palette.input),
            Self::Help(_) | Self::Export(_) => None,
        }
    }

    /// Moves the focus or the cursor, from the last place to the first; the help scrolls.
    pub(crate) fn step(&mut self, forward: bool) {
        let (at, count) = match self {
            Self::Confirm(confirm) => return confirm.step(forward),
            Self::Help(help) => return help.step(forward),
            Self::Form(form) => (&mut form.focus, form.fields.len() + 2),
            Self::Palette(palette) => {
                let count = palette.matches().len();
                (&mut palette.cursor, count)
            }
            Self::Export(menu) => (&mut menu.cursor, Format::VARIANTS.len()),
        };
        *at = (*at + if forward { 1 } else { count.saturating_sub(1) }) % count.max(1);
    }

    /// Draws over the view; returns the cursor position, if any.
    pub(crate) fn draw(
        &mut self,
        area: Rect,
        buffer: &mut Buffer,
        scene: &Scene,
    ) -> Option<Position> {
        let theme = scene.theme;
        match self {
            Self::Confirm(confirm) => return confirm.draw(area, buffer, theme),
            Self::Form(form) => return form.draw(area, buffer, scene),
            Self::Palette(palette) => return palette.draw(area, buffer, theme),
            Self::Help(help) => help.draw(area, buffer, theme),
            Self::Export(menu) => menu.draw(area, buffer, theme),
        }
        None
    }
}

/// Cells of the labels of text fields.
const LABEL: Constraint = Length(10);

/// Two right-aligned buttons; the focused one is reversed.
fn buttons(theme: Theme, labels: [&str; 2], focus: Option<usize>) -> Line<'static> {
    let [cancel, yes] = [0, 1].map(|place| {
        let style = if focus == Some(place) { theme.selected } else { theme.soft };
        Span::styled(format!("[ {} ]", labels[place]), style)
    });
    Line::from(vec![cancel, Span::raw("  "), yes]).right_aligned()
}

/// Marks the lower edge of a dialog that has more rows below.
fn more(theme: Theme) -> Line<'static> {
    Line::styled(format!(" {} ", glyphs::FALLING), theme.key).right_aligned()
}

/// A list with a cursor.
fn draw_list(
    area: Rect,
    buffer: &mut Buffer,
    theme: Theme,
    lines: Vec<Line<'_>>,
    cursor: Option<usize>,
) {
    let mut state = ListState::default().with_selected(cursor);
    let style = Style::reset().patch(theme.selected);
    List::new(lines).highlight_style(style).render(area, buffer, &mut state);
}
