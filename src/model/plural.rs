//! A count with its noun, as sentences that are kept have it: `1 entry`, `128 entries`. Screens group the digits.

/// `number` with the noun that goes with it.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let told = [0, 1, 1_200].map(|number| counted(number, "entry", "entries"));
        assert_eq!(told, ["0 entries", "1 entry", "1200 entries"]);
    }
}
