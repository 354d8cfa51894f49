//! Enough of Rust's grammar to see which paths a file names, and which strings it holds.

/// What the rules look at; comments and white space are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word(String),
    Text(String),
    Sign(char),
}

/// A piece of source.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: usize,
    /// Inside an item that only tests are built with.
    pub(crate) in_test: bool,
}

impl Token {
    fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }

    fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// A path that starts at the crate's root: `engine::node::Node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// Cuts source into tokens.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut all = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let begin = i;
        let kind = match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
                None
            }
            '/' if at(i + 1) == '*' => {
                i = after_comment(&chars, i);
                None
            }
            '"' => {
                let (text, end) = text(&chars, i);
                i = end;
                Some(Kind::Text(text))
            }
            // 'a' and '\n' are characters; 'a without an end is a lifetime, and its word follows.
            '\'' => {
                if at(i + 1) == '\\' {
                    i += 3;
                    while i < chars.len() && at(i) != '\'' {
                        i += 1;
                    }
                    i += 1;
                } else if at(i + 2) == '\'' {
                    i += 3;
                } else {
                    i += 1;
                }
                None
            }
            'r' | 'b' | 'c' if prefix_of_text(&chars, i) > 0 => {
                i += prefix_of_text(&chars, i);
                let raw = at(i - 1) == 'r' || at(i) == '#';
                let (text, end) = if raw { raw_text(&chars, i) } else { text(&chars, i) };
                i = end;
                Some(Kind::Text(text))
            }
            'r' if at(i + 1) == '#' && is_word(at(i + 2)) => {
                i += 2;
                None
            }
            c if is_word(c) => {
                while is_word(at(i)) {
                    i += 1;
                }
                Some(Kind::Word(chars[begin..i].iter().collect()))
            }
            c => {
                i += 1;
                (!c.is_whitespace()).then_some(Kind::Sign(c))
            }
        };
        all.extend(kind.map(|kind| Token { kind, line, in_test: false }));
        line += chars[begin..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    mark_tests(&mut all);
    all
}

/// How long `r`, `b`, `br`, `c` or `cr` is before the quote or the hashes of a string; else 0.
fn prefix_of_text(chars: &[char], begin: usize) -> usize {
    let letters = chars[begin..].iter().take(2).take_while(|c| "rbc".contains(**c)).count();
    let raw = chars[begin + letters - 1] == 'r';
    let hashes = chars[begin + letters..].iter().take_while(|c| **c == '#').count();
    let quote = chars.get(begin + letters + hashes) == Some(&'"');
    if quote && (hashes == 0 || raw) { letters } else { 0 }
}

fn after_comment(chars: &[char], begin: usize) -> usize {
    let (mut i, mut depth) = (begin, 0);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (i, depth) = (i + 2, depth + 1),
            ('*', Some('/')) => (i, depth) = (i + 2, depth - 1),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn text(chars: &[char], quote: usize) -> (String, usize) {
    let (mut text, mut i) = (String::new(), quote + 1);
    while i < chars.len() && chars[i] != '"' {
        i += usize::from(chars[i] == '\\');
        text.extend(chars.get(i));
        i += 1;
    }
    (text, i + 1)
}

fn raw_text(chars: &[char], begin: usize) -> (String, usize) {
    let hashes = chars[begin..].iter().take_while(|c| **c == '#').count();
    let first = begin + hashes + 1;
    let ends = |i: usize| {
        chars[i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    let last = (first..chars.len()).find(|i| ends(*i)).unwrap_or(chars.len());
    (chars[first.min(last)..last].iter().collect(), last + 1 + hashes)
}

/// Marks what follows `#[cfg(test)]`: an item ends with its braces, or with a semicolon before any.
fn mark_tests(tokens: &mut [Token]) {
    let mut i = 0;
    while i + 3 < tokens.len() {
        let cfg = tokens[i].is('#') && tokens[i + 1].is('[') && tokens[i + 2].word() == Some("cfg");
        if !cfg {
            i += 1;
            continue;
        }
        let close = closing(tokens, i + 1);
        let condition: Vec<_> = tokens[i + 3..close].iter().filter_map(Token::word).collect();
        if !condition.contains(&"test") || condition.contains(&"not") {
            i = close;
            continue;
        }
        let mut end = close + 1;
        while end < tokens.len() && !tokens[end].is(';') {
            let opens = ['{', '(', '['].iter().any(|sign| tokens[end].is(*sign));
            if opens {
                let braces = tokens[end].is('{');
                end = closing(tokens, end);
                if braces {
                    break;
                }
            }
            end += 1;
        }
        let end = end.min(tokens.len() - 1);
        tokens[i..=end].iter_mut().for_each(|token| token.in_test = true);
        i = end;
    }
}

/// Where the bracket at `open` is closed.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Sign('{' | '(' | '[') => depth += 1,
            Kind::Sign('}' | ')' | ']') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len().saturating_sub(1)
}

/// Every path that starts with `crate`, `self`, `super` or the crate's own name, resolved from
/// `module`, the file's place in the crate.
pub(crate) fn references(tokens: &[Token], module: &[String]) -> Vec<Reference> {
    let mut found = Vec::new();
    // Modules within the file, each with the depth of its braces.
    let mut inner: Vec<(String, usize)> = Vec::new();
    let mut depth = 0;
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i].kind {
            Kind::Sign('{') => {
                depth += 1;
                if i >= 2
                    && tokens[i - 2].word() == Some("mod")
                    && let Some(name) = tokens[i - 1].word()
                {
                    inner.push((name.to_owned(), depth));
                }
            }
            Kind::Sign('}') => {
                if inner.last().is_some_and(|(_, of)| *of == depth) {
                    inner.pop();
                }
                depth = depth.saturating_sub(1);
            }
            Kind::Word(word) if begins_path(tokens, i) && follows_path(tokens, i + 1) => {
                let here = || module.iter().chain(inner.iter().map(|(name, _)| name)).cloned();
                let base: Option<Vec<String>> = match word.as_str() {
                    "crate" | "seckill" => Some(Vec::new()),
                    "self" => Some(here().collect()),
                    "super" => {
                        let mut base: Vec<String> = here().collect();
                        base.pop();
                        while tokens.get(i + 3).and_then(Token::word) == Some("super")
                            && follows_path(tokens, i + 4)
                        {
                            base.pop();
                            i += 3;
                        }
                        Some(base)
                    }
                    _ => None,
                };
                if let Some(base) = base {
                    i = tree(tokens, i + 3, &base, &mut found);
                    continue;
                }
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// Lines on which the path starts with another crate's name.
pub(crate) fn uses_of_crate(tokens: &[Token], name: &str) -> Vec<usize> {
    let named = |i: &usize| {
        tokens[*i].word() == Some(name)
            && begins_path(tokens, *i)
            && (follows_path(tokens, i + 1)
                || (*i > 0 && matches!(tokens[i - 1].word(), Some("use" | "crate"))))
    };
    (0..tokens.len()).filter(named).map(|i| tokens[i].line).collect()
}

/// Not in the middle of a path, and not a field or a method.
fn begins_path(tokens: &[Token], i: usize) -> bool {
    let sign = |back: usize, sign: char| i >= back && tokens[i - back].is(sign);
    // `::redis` at the start of a path still names the crate.
    let inside = sign(1, ':')
        && sign(2, ':')
        && i >= 3
        && (tokens[i - 3].word().is_some_and(|word| word != "use") || sign(3, '>'));
    !inside && !sign(1, '.')
}

fn follows_path(tokens: &[Token], i: usize) -> bool {
    tokens.get(i).is_some_and(|it| it.is(':')) && tokens.get(i + 1).is_some_and(|it| it.is(':'))
}

/// Collects the paths of one use tree, `a::{b, c::d}`, and returns where it ends.
fn tree(tokens: &[Token], mut i: usize, base: &[String], found: &mut Vec<Reference>) -> usize {
    let mut path = base.to_vec();
    let line = tokens.get(i).map_or(0, |token| token.line);
    loop {
        match tokens.get(i).map(|token| &token.kind) {
            Some(Kind::Sign('{')) => {
                i += 1;
                while tokens.get(i).is_some_and(|token| !token.is('}')) {
                    i = tree(tokens, i, &path, found);
                    // A comma, `as NAME`, or whatever this grammar does not know.
                    while tokens.get(i).is_some_and(|it| !it.is(',') && !it.is('}')) {
                        i += 1;
                    }
                    i += usize::from(tokens.get(i).is_some_and(|token| token.is(',')));
                }
                return i + 1;
            }
            Some(Kind::Word(word)) => {
                if word != "self" {
                    path.push(word.clone());
                }
                i += 1;
                if follows_path(tokens, i) {
                    i += 2;
                    continue;
                }
            }
            Some(Kind::Sign('*')) => i += 1,
            _ => {}
        }
        found.push(Reference { path: path.join("::"), line });
        return i;
    }
}
