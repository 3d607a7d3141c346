//! Sources as the checks read them: words, and paths with groups, not syntax trees.

use std::path::Path;

/// A file of the project, its path relative to the top, with `/` between the parts.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text without comments and literals, line by line the same.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into(), code: blank(text) }
    }

    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }
}

/// The first words of a path or of the paths in a group: `a::B` gives a, `{a::B, c::D}` a and c.
pub(crate) fn heads(path: &str) -> Vec<&str> {
    let first = |branch| words(branch).next().map(|(_, word)| word);
    branches(path).into_iter().filter_map(first).collect()
}

/// The members of a group `{…, …}`, or the path itself.
pub(crate) fn branches(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else { return vec![path] };
    let (mut found, mut start, mut nesting) = (Vec::new(), 0, 1);
    for (at, c) in group.char_indices() {
        nesting += i32::from(c == '{') - i32::from(c == '}');
        if nesting == 0 || (nesting == 1 && c == ',') {
            found.push(group[start..at].trim());
            start = at + 1;
        }
        if nesting == 0 {
            break;
        }
    }
    found
}

/// The end of the body of the function that begins here; `None` without a body.
pub(crate) fn body_end(function: &str) -> Option<usize> {
    if function["fn".len()..].trim_start().starts_with('(') {
        return None;
    }
    let (mut nesting, mut inside) = (0, false);
    for (at, c) in function.char_indices() {
        match c {
            '(' | '[' | '{' => nesting += 1,
            ')' | ']' | '}' => nesting -= 1,
            ';' if nesting == 0 => return None,
            _ => {}
        }
        inside |= c == '{' && nesting == 1;
        if nesting < 0 {
            return None;
        }
        if inside && nesting == 0 {
            return Some(at);
        }
    }
    None
}

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a text and where they begin.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].find(is_word)?;
        let begin = at;
        at += text[at..].find(|c| !is_word(c)).unwrap_or(text.len() - at);
        Some((begin, &text[begin..at]))
    })
}

/// The text with spaces in place of comments, strings and characters.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let in_word = at > 0 && is_word(chars[at - 1]);
        let skipped = skipped(&chars[at..], in_word).min(chars.len() - at);
        if skipped == 0 {
            code.push(chars[at]);
        }
        let blanks = chars[at..at + skipped].iter().map(|c| if *c == '\n' { '\n' } else { ' ' });
        code.extend(blanks);
        at += skipped.max(1);
    }
    code
}

/// Length of the comment or literal at the beginning; 0 for anything else.
fn skipped(rest: &[char], in_word: bool) -> usize {
    let until = |from: usize, end: &[char]| {
        let begins = (from..rest.len()).find(|at| rest[*at..].starts_with(end));
        begins.map_or(rest.len(), |at| at + end.len())
    };
    match rest {
        ['/', '/', ..] => until(2, &['\n']) - 1,
        ['/', '*', ..] => until(2, &['*', '/']),
        ['"', ..] => {
            let mut at = 1;
            while rest.get(at).is_some_and(|c| *c != '"') {
                at += if rest[at] == '\\' { 2 } else { 1 };
            }
            at + 1
        }
        ['r', '"' | '#', ..] if !in_word => {
            let fence = rest[1..].iter().take_while(|c| **c == '#').count();
            if rest.get(1 + fence) != Some(&'"') {
                return 0;
            }
            let mut end = vec!['"'];
            end.resize(1 + fence, '#');
            until(2 + fence, &end)
        }
        ['\'', '\\', ..] => until(3, &['\'']),
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}
