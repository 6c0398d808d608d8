//! The Python literals used in headers: a dict of strings, numbers, booleans, tuples and lists. Nothing else is read, and nothing is
//! evaluated.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use crate::limits::LITERAL_DEPTH;

/// A literal. Tuples and lists are distinct: a shape is a tuple, a structured type a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Literal {
    None,
    Bool(bool),
    /// Nonnegative; `None` if it exceeds u64.
    Int(Option<u64>),
    Negative,
    Text(String),
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
}

/// Parses one literal, which must be all of `text` except white space.
pub fn parse(text: &str) -> Result<Literal> {
    let mut reader = Reader { text, at: 0 };
    let literal = reader.value(0)?;
    if reader.peek().is_some() {
        return Err(reader.error("unexpected data after the dict"));
    }
    Ok(literal)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn error(&self, what: &str) -> Error {
        Error::new(Code::BadIndex, format!("the header is not a Python dict: {what} (character {})", self.at))
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
        self.at += blank;
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn value(&mut self, depth: u32) -> Result<Literal> {
        if depth > LITERAL_DEPTH {
            let message = format!("the header nests deeper than {LITERAL_DEPTH}");
            return Err(Error::new(Code::Limit, message).of_item());
        }
        match self.peek() {
            Some('{') => self.dict(depth),
            Some('[') => Ok(Literal::List(self.items('[', ']', depth)?.0)),
            Some('(') => match self.items('(', ')', depth)? {
                // Without a comma parentheses only group.
                (mut one, false) if one.len() == 1 => Ok(one.remove(0)),
                (items, _) => Ok(Literal::Tuple(items)),
            },
            Some('\'' | '"') => self.string().map(Literal::Text),
            Some('-') => {
                self.at += 1;
                self.int().map(|_| Literal::Negative)
            }
            Some('0'..='9') => self.int(),
            Some(first) if first.is_ascii_alphabetic() => self.word(),
            _ => Err(self.error("expected a value")),
        }
    }

    /// Returns the items between two brackets, and whether a comma follows the last.
    fn items(&mut self, open: char, close: char, depth: u32) -> Result<(Vec<Literal>, bool)> {
        self.take(open);
        let (mut items, mut comma) = (Vec::new(), false);
        while !self.take(close) {
            if !items.is_empty() && !comma {
                return Err(self.error("expected a comma"));
            }
            items.push(self.value(depth + 1)?);
            comma = self.take(',');
        }
        Ok((items, comma))
    }

    fn dict(&mut self, depth: u32) -> Result<Literal> {
        self.take('{');
        let (mut items, mut comma) = (Vec::new(), true);
        while !self.take('}') {
            if !comma {
                return Err(self.error("expected a comma"));
            }
            let key = self.value(depth + 1)?;
            if !self.take(':') {
                return Err(self.error("expected a colon"));
            }
            items.push((key, self.value(depth + 1)?));
            comma = self.take(',');
        }
        Ok(Literal::Dict(items))
    }

    fn int(&mut self) -> Result<Literal> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let text = self.rest().get(..digits).unwrap_or_default();
        // Python rejects leading zeros, as may other readers.
        if text.is_empty() || (text.len() > 1 && text.starts_with('0')) {
            return Err(self.error("expected a number"));
        }
        let number = text.parse().ok();
        self.at += digits;
        // Python 2 wrote long integers with this suffix; NumPy reads them.
        if self.rest().starts_with('L') {
            self.at += 1;
        }
        Ok(Literal::Int(number))
    }

    fn word(&mut self) -> Result<Literal> {
        for (word, literal) in
            [("True", Literal::Bool(true)), ("False", Literal::Bool(false)), ("None", Literal::None)]
        {
            let follows = self.rest().strip_prefix(word).map(|rest| rest.chars().next());
            if follows.is_some_and(|next| next.is_none_or(|next| !next.is_alphanumeric() && next != '_')) {
                self.at += word.len();
                return Ok(literal);
            }
        }
        // Python 2 strings.
        let prefixed = self.rest().get(1..2).is_some_and(|next| next == "'" || next == "\"");
        if prefixed && self.rest().starts_with(['u', 'b']) {
            self.at += 1;
            return self.string().map(Literal::Text);
        }
        Err(self.error("expected a value"))
    }

    /// Parses a string as written by `repr`.
    fn string(&mut self) -> Result<String> {
        let mut text = String::new();
        let mut characters = self.rest().char_indices();
        let quote = characters.next().map(|(_, quote)| quote);
        while let Some((at, next)) = characters.next() {
            match next {
                _ if Some(next) == quote => {
                    self.at += at + 1;
                    return Ok(text);
                }
                '\n' => break,
                '\\' => {
                    let escaped = characters.next().map(|(_, escaped)| escaped);
                    let digits = match escaped {
                        Some('x') => 2,
                        Some('u') => 4,
                        Some('U') => 8,
                        _ => 0,
                    };
                    let code: String = characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                    let plain = match escaped {
                        Some('n') => Some('\n'),
                        Some('r') => Some('\r'),
                        Some('t') => Some('\t'),
                        Some(same @ ('\\' | '\'' | '"')) => Some(same),
                        _ if digits > 0
                            && code.len() == digits
                            && code.bytes().all(|b| b.is_ascii_hexdigit()) =>
                        {
                            u32::from_str_radix(&code, 16).ok().and_then(char::from_u32)
                        }
                        _ => None,
                    };
                    text.push(plain.ok_or_else(|| self.error("an escape that repr does not write"))?);
                }
                _ => text.push(next),
            }
        }
        Err(self.error("a string is not terminated"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_npy_headers_are_parsed() {
        use Literal::{Bool, Dict, Int, List, Text, Tuple};
        let text = |text: &str| Text(text.to_owned());
        for (source, literal) in [
            ("()", Tuple(vec![])),
            ("(3,)", Tuple(vec![Int(Some(3))])),
            ("(3)", Int(Some(3))),
            (" ( 3L , 4 ,)\n", Tuple(vec![Int(Some(3)), Int(Some(4))])),
            ("[]", List(vec![])),
            ("{}", Dict(vec![])),
            ("{'a': True, \"b\": None,}", Dict(vec![(text("a"), Bool(true)), (text("b"), Literal::None)])),
            (
                "[('x', '<f4', (2,))]",
                List(vec![Tuple(vec![text("x"), text("<f4"), Tuple(vec![Int(Some(2))])])]),
            ),
            (r"'it\'s \\ \x41é\u00e9'", text("it's \\ Aéé")),
            ("u'x'", text("x")),
            ("-1", Literal::Negative),
            ("18446744073709551616", Int(None)),
        ] {
            assert_eq!(parse(source).unwrap(), literal, "{source}");
        }
        for bad in [
            "",
            "(",
            "(3",
            "(3 4)",
            "(,)",
            "[1,,2]",
            "{'a'}",
            "{'a':}",
            "{'a': 1 'b': 2}",
            "{,}",
            "'a",
            "'a\n'",
            "True1",
            "true",
            "os.system",
            "1 2",
            "01",
            "-",
            "--1",
            "1.5",
            "+1",
            r"'\x4'",
            r"'\ud800'",
            r"'\N{DASH}'",
            "3 L",
            "b",
            "(1)(2)",
            "{1}",
        ] {
            assert_eq!(parse(bad).unwrap_err().code(), Code::BadIndex, "{bad}");
        }
        for open in ["(", "[", "{1:"] {
            assert_eq!(parse(&open.repeat(100_000)).unwrap_err().code(), Code::Limit);
        }
    }
}
