//! Counted nouns for stored English sentences: `1 entry`, `128 entries`. Screens also group the digits.

/// Returns `number` followed by the matching noun.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let phrases = [0, 1, 1_200].map(|number| counted(number, "entry", "entries"));
        assert_eq!(phrases, ["0 entries", "1 entry", "1200 entries"]);
    }
}
