//! Name patterns: `*` matches any run of characters, `?` any single one, everything else itself.
#![forbid(unsafe_code)]

/// A pattern, split at its stars, so that most names are decided by their beginning or end.
#[derive(Clone, Debug)]
pub struct Glob {
    first: Segment,
    /// The segments after each star.
    rest: Vec<Segment>,
}

impl Glob {
    pub fn new(pattern: &str) -> Self {
        let mut segments = pattern.split('*').map(Segment::new);
        Self { first: segments.next().unwrap_or_else(|| Segment::new("")), rest: segments.collect() }
    }

    /// Returns whether the whole name matches. Takes at most |name| × |pattern| steps.
    pub fn matches(&self, name: &str) -> bool {
        let Some(mut left) = self.first.behind(name) else { return false };
        let Some((last, middle)) = self.rest.split_last() else { return left.is_empty() };
        for segment in middle {
            // The first match leaves most for the following segments.
            let Some(behind) = segment.behind_first(left) else { return false };
            left = behind;
        }
        last.ends(left)
    }
}

/// A segment between two stars.
#[derive(Clone, Debug)]
enum Segment {
    Plain(String),
    /// With a `?`, which is `None` here.
    Open(Vec<Option<char>>),
}

impl Segment {
    fn new(text: &str) -> Self {
        if text.contains('?') {
            return Self::Open(text.chars().map(|one| (one != '?').then_some(one)).collect());
        }
        Self::Plain(text.to_owned())
    }

    /// Returns what follows the segment in a text that begins with it.
    fn behind<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Plain(plain) => text.strip_prefix(plain.as_str()),
            Self::Open(wanted) => {
                let mut given = text.chars();
                let begins = wanted.iter().all(|wanted| {
                    given.next().is_some_and(|given| wanted.is_none_or(|wanted| wanted == given))
                });
                begins.then_some(given.as_str())
            }
        }
    }

    /// Returns what follows the first match of the segment in a text.
    fn behind_first<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Plain(plain) => text.find(plain.as_str()).and_then(|at| text.get(at + plain.len()..)),
            Self::Open(_) => text.char_indices().find_map(|(at, _)| self.behind(text.get(at..)?)),
        }
    }

    /// Returns whether a text ends with the segment.
    fn ends(&self, text: &str) -> bool {
        match self {
            Self::Plain(plain) => text.ends_with(plain.as_str()),
            Self::Open(wanted) => {
                let start = text.char_indices().nth_back(wanted.len() - 1).map(|(at, _)| at);
                start.and_then(|start| self.behind(text.get(start..)?)).is_some()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "a", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*.q.*", "layers.0.q.weight", true),
            ("*.q.*", "layers.0.qq.weight", false),
            ("*ab*abc", "ababc", true),
            ("*ab*abc", "abc", false),
            ("?", "", false),
            ("?", "\u{1F600}", true),
            ("??", "\u{1F600}", false),
            ("*?", "", false),
            ("*?", "\u{e9}", true),
            ("*??", "\u{e9}", false),
            ("*?b?*c", "xabxc", true),
            ("*?b?*c", "bxc", false),
            ("layers.?.w", "layers.7.w", true),
            ("layers.?.w", "layers.77.w", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), expected, "{pattern:?} and {name:?}");
        }
    }
}
