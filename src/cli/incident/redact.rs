//! Masks user IDs in a report.

/// Keeps the first and last character; masks texts of up to two characters completely.
pub(super) fn masked(id: &str, unmask: bool) -> String {
    let length = id.chars().count();
    if unmask {
        return id.to_owned();
    }
    let hidden = |place: usize| length <= 2 || (place > 0 && place + 1 < length);
    // An asterisk would be Markdown.
    id.chars().enumerate().map(|(place, c)| if hidden(place) { 'x' } else { c }).collect()
}

/// Masks numbers that may be user IDs; a single digit identifies no user.
pub(super) fn digits(text: &str, unmask: bool) -> String {
    by_number(text, |run| if run.len() < 2 { run.to_owned() } else { masked(run, unmask) })
}

pub(super) fn numberless(text: &str) -> String {
    by_number(text, |_| "N".to_owned())
}

fn by_number(text: &str, number: impl Fn(&str) -> String) -> String {
    let chars: Vec<char> = text.chars().collect();
    let run = |run: &[char]| {
        let text: String = run.iter().collect();
        if run.iter().all(char::is_ascii_digit) { number(&text) } else { text }
    };
    chars.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_users_keep_first_and_last_digit() {
        let ids = ["7", "42", "123", "1234567"].map(|id| masked(id, false));
        assert_eq!(ids, ["x", "xx", "1x3", "1xxxxx7"]);
        assert_eq!(masked("1234567", true), "1234567");
        assert_eq!(digits("buyer 1234 holds 5", false), "buyer 1xx4 holds 5");
        assert_eq!(numberless("buyer 1234 holds 56"), "buyer N holds N");
    }
}
