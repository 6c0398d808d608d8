//! A reply to the host, in the encoding of messages.
#![forbid(unsafe_code)]

use ztensor_core::error::Error;
use ztensor_core::sources::owned::Owned;
use ztensor_handover::number;

#[derive(Default)]
pub struct Reply(Vec<u8>);

impl Reply {
    pub fn number(&mut self, number: f64) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn whole(&mut self, value: u64) {
        self.number(number(value));
    }

    pub fn count(&mut self, count: usize) {
        self.whole(count as u64);
    }

    pub fn flag(&mut self, flag: bool) {
        self.number(f64::from(u8::from(flag)));
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = f64>) {
        self.count(numbers.len());
        numbers.for_each(|number| self.number(number));
    }

    /// 32-bit numbers, filled up to 8 bytes.
    pub fn smalls(&mut self, numbers: &[u32]) {
        self.count(numbers.len());
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    pub fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        let items = items.into_iter();
        self.count(items.len());
        items.for_each(|item| each(self, item));
    }

    /// A flag, and the value if there is one.
    pub fn maybe<T>(&mut self, value: Option<T>, each: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            each(self, value);
        }
    }

    pub fn maybe_text(&mut self, text: Option<&str>) {
        self.maybe(text, Self::text);
    }

    pub fn maybe_number(&mut self, number: Option<f64>) {
        self.maybe(number, Self::number);
    }

    pub fn error(&mut self, error: &Error) {
        self.text(error.code().name());
        self.text(&error.to_string());
        self.maybe_text(error.first_option());
        self.list(error.hints(), |reply, hint| {
            reply.text(hint.option);
            reply.text(&hint.text);
        });
        self.maybe_text(error.tensor_name());
        self.maybe_text(error.component_role());
        self.maybe_number(error.offset().map(number));
        self.maybe_text(error.broken_rule());
        self.maybe_text(error.path().map(|path| path.to_string_lossy()).as_deref());
        self.maybe_text(error.wanted_for());
        self.list(error.causes(), Self::error);
    }
}

impl From<Reply> for Owned {
    fn from(reply: Reply) -> Self {
        Self::from(reply.0)
    }
}
