//! What the environment says of the characters that the terminal shows. The language is chosen elsewhere.

/// The setting that asks for characters other than UTF-8, as `LC_ALL=C`, if one does: the first of `LC_ALL`, `LC_CTYPE`
/// and `LANG` that says something, as POSIX has it. A name that tells no characters, such as `de_DE`, has those of the
/// time before UTF-8. Nothing said at all is a small container more often than an old terminal.
pub fn not_utf8(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (name, locale) = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| variable(name).filter(|it| !it.is_empty()).map(|it| (name, it)))?;
    let plain = locale.split('@').next().unwrap_or_default();
    let utf8 = match plain.split_once('.') {
        Some((_, charset)) => matches!(charset.to_ascii_lowercase().as_str(), "utf-8" | "utf8"),
        // So macOS says it.
        None => plain == "UTF-8",
    };
    // It is shown: an environment is no place to trust.
    let shown: String = locale.chars().filter(char::is_ascii_graphic).take(30).collect();
    (!utf8).then(|| format!("{name}={shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_says_something_decides() {
        let of = |said: &'static [(&'static str, &'static str)]| {
            not_utf8(|name| {
                said.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("LC_ALL", "C")]).as_deref(), Some("LC_ALL=C"));
        assert_eq!(of(&[("LC_ALL", ""), ("LANG", "POSIX")]).as_deref(), Some("LANG=POSIX"));
        assert_eq!(of(&[("LANG", "zh_CN.GBK")]).as_deref(), Some("LANG=zh_CN.GBK"));
        assert_eq!(of(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]), None);
        assert_eq!(of(&[("LC_ALL", "de_DE.UTF-8@euro")]), None);
        assert_eq!(of(&[("LANG", "xx_YY.UTF-8")]), None);
        assert_eq!(of(&[("LC_CTYPE", "UTF-8")]), None);
        for told in [("LANG", "zh_CN"), ("LANG", "de_DE"), ("LANG", "de_DE@euro")] {
            let line = format!("LANG={}", told.1);
            assert_eq!(not_utf8(|name| (name == told.0).then(|| told.1.to_owned())), Some(line));
        }
    }
}
