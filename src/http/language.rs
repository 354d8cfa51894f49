//! The language of an answer, by the `Accept-Language` header.

use axum::http::{HeaderMap, header::ACCEPT_LANGUAGE};
use seckill_model::locale::Language;

/// The language of the catalog that a client prefers; English without a match. A malformed header counts as absent.
///
/// Written here because the catalogs find languages by themselves: only the weights remain to be read.
pub(crate) fn preferred(headers: &HeaderMap) -> Language {
    let Some(ranges) = headers.get(ACCEPT_LANGUAGE).and_then(|it| it.to_str().ok()) else {
        return Language::ENGLISH;
    };
    let mut best = (Language::ENGLISH, 0.0);
    for range in ranges.split(',') {
        let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
        let weight = parameters.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        if let (Some(language), Ok(weight)) = (Language::find(tag.trim()), weight)
            && weight > best.1
        {
            best = (language, weight);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_weight_among_known_languages_decides() {
        for (header, tag) in [
            ("zh", "zh"),
            ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
            ("en;q=0.5, zh;q=0.7", "zh"),
            ("fr, de;q=0.9, zh;q=0.1", "zh"),
            ("fr", "en"),
            ("*", "en"),
            ("zh;q=0", "en"),
            ("zh;q=x", "en"),
            (";;;,,,", "en"),
            ("", "en"),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, header.parse().unwrap())]);
            assert_eq!(preferred(&headers).tag(), tag, "{header}");
        }
        assert_eq!(preferred(&HeaderMap::new()).tag(), "en");
    }
}
