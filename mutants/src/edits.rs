//! Changes of a text that lie inside each other.

/// A piece of new text, or a part of the old one, changed as the edits inside it say or as it was.
pub enum Piece {
    New(String),
    Changed(usize, usize),
    Old(usize, usize),
}

/// What stands in place of `start..end`.
pub struct Edit {
    pub start: usize,
    pub end: usize,
    pub pieces: Vec<Piece>,
}

/// `source[start..end]` with the edits that lie in it. Edits are sorted: by their starts, the wider one first.
pub fn render(source: &str, start: usize, end: usize, edits: &[Edit]) -> String {
    let mut text = String::new();
    let mut at = start;
    for (index, edit) in edits.iter().enumerate() {
        if edit.start < at || edit.end > end {
            continue;
        }
        text.push_str(&source[at..edit.start]);
        for piece in &edit.pieces {
            match piece {
                Piece::New(new) => text.push_str(new),
                Piece::Old(from, to) => text.push_str(&source[*from..*to]),
                Piece::Changed(from, to) => text.push_str(&render(source, *from, *to, &edits[index + 1..])),
            }
        }
        at = edit.end;
    }
    text.push_str(&source[at..end]);
    text
}
