//! A grid of dots drawn as braille cells.

/// Dots, counted from the lower left.
pub(super) struct Grid {
    columns: usize,
    dots: Vec<bool>,
}

impl Grid {
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self { columns, dots: vec![false; columns * rows] }
    }

    pub(super) fn set(&mut self, x: usize, y: usize) {
        if x < self.columns
            && let Some(dot) = self.dots.get_mut(y * self.columns + x)
        {
            *dot = true;
        }
    }

    /// Sets a dot and all below it.
    pub(super) fn fill(&mut self, x: usize, height: usize) {
        (0..height).for_each(|y| self.set(x, y));
    }

    /// The braille bits of one cell, or 1 for a single dot.
    pub(super) fn cell(&self, column: u16, row: u16, across: u16, down: u16) -> u8 {
        /// Bits of a braille cell: left column from the bottom, then the right one.
        const BITS: [[u8; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
        let mut bits = 0;
        for dx in 0..across {
            for dy in 0..down {
                let x = usize::from(column * across + dx);
                let y = usize::from(row * down + dy);
                if self.dots.get(y * self.columns + x) == Some(&true) {
                    bits |= BITS[usize::from(dx)][usize::from(dy)];
                }
            }
        }
        bits
    }
}

/// The character of a bit pattern.
pub(super) fn braille(bits: u8) -> char {
    char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ')
}
