//! Detects the character set of the terminal from the environment. The language is chosen elsewhere.

/// The variable that selects a character set other than UTF-8, such as `LC_ALL=C`: the first non-empty one of `LC_ALL`,
/// `LC_CTYPE` and `LANG`, as in POSIX. A locale without a character set, such as `de_DE`, predates UTF-8. An empty
/// environment is more often a small container than an old terminal.
pub fn not_utf8(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (name, locale) = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| variable(name).filter(|it| !it.is_empty()).map(|it| (name, it)))?;
    // macOS has the character set alone.
    let utf8 = locale.to_ascii_lowercase().replace('-', "").contains("utf8");
    // It is shown, and the environment is untrusted.
    let shown: String = locale.chars().filter(char::is_ascii_graphic).take(30).collect();
    (!utf8).then(|| format!("{name}={shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_non_empty_variable_decides() {
        let of = |variables: &'static [(&'static str, &'static str)]| {
            not_utf8(|name| {
                variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
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
        for variable in [("LANG", "zh_CN"), ("LANG", "de_DE"), ("LANG", "de_DE@euro")] {
            let line = format!("LANG={}", variable.1);
            assert_eq!(
                not_utf8(|name| (name == variable.0).then(|| variable.1.to_owned())),
                Some(line)
            );
        }
    }
}
