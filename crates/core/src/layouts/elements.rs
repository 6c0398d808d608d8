//! Rules on the elements of a component that apply to any layout (zTensor 2, Appendix A), checked piece by piece.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::model::DataRule;

const RULE: &str = "zTensor 2 Appendix A: Registered logical types";

/// An incremental check of decoded bytes.
pub struct RuleCheck {
    rule: Option<DataRule>,
    seen: u64,
    last: u8,
    /// The error found by [`RuleCheck::note`].
    broken: Option<Error>,
}

impl RuleCheck {
    pub fn new(rule: Option<DataRule>) -> Self {
        let rule = rule.filter(|rule| matches!(rule, DataRule::Bool | DataRule::LastNibble));
        Self { rule, seen: 0, last: 0, broken: None }
    }

    /// Returns whether there is anything to check.
    pub fn is_any(&self) -> bool {
        self.rule.is_some()
    }

    pub fn update(&mut self, bytes: &[u8]) -> Result<()> {
        match self.rule {
            Some(DataRule::Bool) => self.check_bool(bytes)?,
            Some(_) => self.last = bytes.last().copied().unwrap_or(self.last),
            None => {}
        }
        self.seen += bytes.len() as u64;
        Ok(())
    }

    /// Checks like [`RuleCheck::update`], but defers the error to [`RuleCheck::finish`]. If the data is damaged, a
    /// digest mismatch is the better error, and the digest is known only at the end.
    pub fn note(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.broken = self.update(bytes).err();
        }
    }

    fn check_bool(&self, bytes: &[u8]) -> Result<()> {
        // The OR of a block is computed in vector registers; only an invalid block is inspected again.
        for (block, bytes) in bytes.chunks(1 << 12).enumerate() {
            if bytes.iter().fold(0, |all, &byte| all | byte) > 1 {
                let wrong = bytes.iter().position(|&byte| byte > 1).unwrap_or_default();
                let at = self.seen + (block << 12) as u64 + wrong as u64;
                let message = format!("element {at} is {}, and a bool is 0 or 1", bytes[wrong]);
                return Err(Error::new(Code::BadDtype, message).rule(RULE));
            }
        }
        Ok(())
    }

    pub fn finish(&self) -> Result<()> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if self.rule == Some(DataRule::LastNibble) && self.last & 0xf0 != 0 {
            let message = format!(
                "the last byte is 0x{:02x}: its high half belongs to no element and must be 0",
                self.last
            );
            return Err(Error::new(Code::BadDtype, message).rule(RULE));
        }
        Ok(())
    }
}

/// Checks complete decoded bytes.
pub fn check(rule: Option<DataRule>, bytes: &[u8]) -> Result<()> {
    let mut elements = RuleCheck::new(rule);
    elements.update(bytes)?;
    elements.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bools_and_last_nibbles() {
        let mut bytes = vec![1; 10_000];
        assert!(check(Some(DataRule::Bool), &bytes).is_ok());
        bytes[9_999] = 2;
        let error = check(Some(DataRule::Bool), &bytes).unwrap_err();
        assert!(error.message().contains("element 9999 is 2"), "{error}");
        assert!(check(None, &bytes).is_ok());
        let mut pieces = RuleCheck::new(Some(DataRule::Bool));
        pieces.update(&[0, 1, 0]).unwrap();
        assert!(pieces.update(&[1, 255]).unwrap_err().message().contains("element 4 is 255"));

        let mut noted = RuleCheck::new(Some(DataRule::Bool));
        for piece in [&[0, 3][..], &[1, 2]] {
            noted.note(piece);
        }
        assert!(noted.finish().unwrap_err().message().contains("element 1 is 3"));

        assert!(check(Some(DataRule::LastNibble), &[0xff, 0x0f]).is_ok());
        assert!(check(Some(DataRule::LastNibble), &[0x0f, 0x10]).is_err());
        assert!(check(Some(DataRule::LastNibble), &[]).is_ok());
    }
}
