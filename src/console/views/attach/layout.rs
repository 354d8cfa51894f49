//! How the panels share the rows of a window.

/// Number of panels.
pub(super) const PANELS: usize = 4;

/// Rows of each panel below its title, at most those that it wants. The panel with the focus has at least half of the
/// rows, in a small window all of them, if it needs them.
pub(super) fn rows(
    wanted: [u16; PANELS],
    focus: usize,
    room: u16,
    is_small: bool,
) -> [u16; PANELS] {
    let mut rows = [0; PANELS];
    let others: u16 = wanted.iter().sum::<u16>().saturating_sub(wanted[focus]);
    let kept = if is_small { room } else { room / 2 };
    rows[focus] = wanted[focus].min(kept.max(room.saturating_sub(others)));
    let mut left = room - rows[focus];
    // First an equal share for each, then what is left of it, from the top.
    for round in 0..2 {
        let mut waiting = PANELS as u16 - 1;
        for panel in (0..PANELS).filter(|it| *it != focus) {
            let share = if round == 0 { left / waiting } else { left };
            waiting -= 1;
            let more = (wanted[panel] - rows[panel]).min(share);
            // A heading without a row says nothing.
            if rows[panel] + more >= wanted[panel].min(2) {
                rows[panel] += more;
                left -= more;
            }
        }
    }
    rows[focus] = (rows[focus] + left).min(wanted[focus]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_share_the_rows() {
        assert_eq!(rows([1, 2, 2, 2], 1, 30, false), [1, 2, 2, 2], "all fit");
        assert_eq!(rows([26, 101, 201, 1_001], 1, 6, true), [0, 6, 0, 0], "a small window");
        assert_eq!(rows([0, 2, 2, 1_001], 1, 6, true), [0, 2, 2, 2]);
        assert_eq!(rows([26, 101, 201, 1_001], 0, 40, false), [20, 6, 7, 7]);
        assert_eq!(rows([26, 2, 201, 0], 3, 12, false), [4, 2, 6, 0]);
        for room in 0..60 {
            for focus in 0..PANELS {
                for is_small in [false, true] {
                    let wanted = [3, 7, 0, 90];
                    let rows = rows(wanted, focus, room, is_small);
                    assert!(rows.iter().sum::<u16>() <= room);
                    assert!(rows.iter().zip(wanted).all(|(rows, wanted)| *rows <= wanted));
                }
            }
        }
    }
}
