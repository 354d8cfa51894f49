//! Rounds: each side of a comparison is measured once in each, in turns.

use seckill_engine::EngineError;

/// Measures each side once in each round, after a round that does not count. The order of the sides rotates, so that none
/// of them always works with the larger tables.
pub(super) async fn in_turns<S: Copy, T, const N: usize>(
    rounds: u64,
    sides: [S; N],
    mut measure: impl AsyncFnMut(S) -> Result<T, EngineError>,
) -> Result<[Vec<T>; N], EngineError> {
    let mut figures = [const { Vec::new() }; N];
    for round in 0..=rounds {
        let mut places: [usize; N] = std::array::from_fn(|place| place);
        places.rotate_left(round as usize % N);
        for place in places {
            let (Some(side), Some(figures)) = (sides.get(place), figures.get_mut(place)) else {
                continue;
            };
            let figure = measure(*side).await?;
            if round > 0 {
                figures.push(figure);
            }
        }
    }
    Ok(figures)
}
