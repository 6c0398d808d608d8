//! The pickle machine: a stack with marks, and a memo. `pickletools` of CPython documents the opcodes.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::checked::{end_within, slice};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::{ATTRIBUTE_VALUES, Limits};

use super::condense::Gap;
use super::{Node, Object, Span, Value, text};

const RULE: &str = "pickletools: opcodes of protocols 0 to 5";
const NEWEST: u8 = 5;
/// Opcodes allowed per attribute value. A tensor takes about 40.
const OPCODES_A_VALUE: u64 = 2;

/// Returns the maximum number of opcodes: 33 million, or more if the caller allows more attribute values. A lower limit on values does not
/// reduce it.
fn max_opcodes(limits: &Limits) -> u64 {
    u64::from(limits.max_attribute_values.max(ATTRIBUTE_VALUES)) * OPCODES_A_VALUE
}

/// Returns the nodes, the resulting value, and the offset after the STOP.
pub fn run(input: &[u8], gaps: &[Gap], base: u64, limits: &Limits) -> Result<(Vec<Node>, Value, usize)> {
    let mut machine = Machine {
        input,
        at: 0,
        gaps,
        left_out: 0,
        total: gaps.last().map_or(0, Gap::left_out).saturating_add(input.len() as u64),
        nodes: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        sparse_memo: HashMap::new(),
    };
    let max = max_opcodes(limits);
    for _ in 0..max {
        let start = machine.position();
        match machine.step() {
            Ok(None) => {}
            Ok(Some(root)) => return Ok((machine.nodes, root, machine.at)),
            Err(error) => return Err(error.at(base.saturating_add(start)).rule(RULE)),
        }
    }
    let message = format!("the pickle has more than {max} opcodes");
    Err(Error::new(Code::Limit, message).option("maxAttributeValues").at(base).rule(RULE))
}

struct Machine<'i> {
    input: &'i [u8],
    at: usize,
    /// Gaps in the remaining input, and the bytes missing before it.
    gaps: &'i [Gap],
    left_out: u64,
    /// Bytes of the whole pickle and what follows it.
    total: u64,
    nodes: Vec<Node>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    /// Memoized values with consecutive numbers, the usual case.
    memo: Vec<Value>,
    /// Memoized values with other numbers.
    sparse_memo: HashMap<u64, Value>,
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadIndex, message)
}

fn ends_early() -> Error {
    Error::new(Code::Truncated, "the pickle ends before its STOP")
}

impl<'i> Machine<'i> {
    /// Executes one opcode. Returns the root at STOP.
    fn step(&mut self) -> Result<Option<Value>> {
        let opcode = self.byte()?;
        match opcode {
            b'(' => self.marks.push(self.stack.len()),
            b'.' => return self.pop().map(Some),
            b'0' => self.drop_top()?,
            b'1' => drop(self.since_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            b'I' => self.int_line()?,
            b'J' => {
                let value = i32::from_le_bytes(self.array()?);
                self.stack.push(Value::Int(value.into()));
            }
            b'K' => {
                let value = self.byte()?;
                self.stack.push(Value::Int(value.into()));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.array()?);
                self.stack.push(Value::Int(value.into()));
            }
            b'L' => self.long_line()?,
            0x8a => {
                let length = self.byte()?.into();
                self.long(length)?;
            }
            0x8b => {
                let length = self.u32()?;
                self.long(length)?;
            }
            b'F' => {
                let line = self.line_text()?;
                let value = line.trim().parse().map_err(|_| bad(format!("{line:?} is not a number")))?;
                self.stack.push(Value::Float(value));
            }
            b'G' => {
                let value = f64::from_be_bytes(self.array()?);
                self.stack.push(Value::Float(value));
            }
            b'S' | b'V' | b'T' | b'U' | b'X' | 0x8c | 0x8d => self.text_opcode(opcode)?,
            b'B' => {
                let length = self.u32()?;
                self.bytes(length)?;
            }
            b'C' => {
                let length = self.byte()?.into();
                self.bytes(length)?;
            }
            0x8e | 0x96 => {
                let length = self.u64()?;
                self.bytes(length)?;
            }
            b']' => self.push(Node::List(Vec::new()))?,
            b'}' => self.push(Node::Dict(Vec::new()))?,
            b')' => self.push(Node::Tuple(Box::default()))?,
            0x8f => self.push(Node::Set(Vec::new()))?,
            b'l' => {
                let items = self.since_mark()?;
                self.push(Node::List(items))?;
            }
            b't' => {
                let items = self.since_mark()?;
                self.push(Node::Tuple(items.into()))?;
            }
            0x91 => {
                let items = self.since_mark()?;
                self.push(Node::Set(items))?;
            }
            b'd' => {
                let entries = self.pairs_since_mark()?;
                self.push(Node::Dict(entries))?;
            }
            0x85..=0x87 => {
                let items = self.pops(usize::from(opcode - 0x84))?;
                self.push(Node::Tuple(items.into()))?;
            }
            b'a' => {
                let items = self.pops(1)?;
                self.append(&items)?;
            }
            b'e' | 0x90 => {
                let items = self.since_mark()?;
                self.append(&items)?;
            }
            b's' => {
                let entries = self.pops(2)?;
                self.set(&entries)?;
            }
            b'u' => {
                let entries = self.pairs_since_mark()?;
                self.set(&entries)?;
            }
            b'g' => {
                let number = self.number_line()?;
                self.get(number)?;
            }
            b'h' => {
                let number = self.byte()?.into();
                self.get(number)?;
            }
            b'j' => {
                let number = self.u32()?;
                self.get(number)?;
            }
            b'p' => {
                let number = self.number_line()?;
                self.put(number)?;
            }
            b'q' => {
                let number = self.byte()?.into();
                self.put(number)?;
            }
            b'r' => {
                let number = self.u32()?;
                self.put(number)?;
            }
            0x94 => {
                let number = (self.memo.len() + self.sparse_memo.len()) as u64;
                self.put(number)?;
            }
            b'P' => {
                let id = self.line()?;
                let id = self.text_node(id)?;
                self.push(Node::Persistent(id))?;
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Node::Persistent(id))?;
            }
            b'c' | b'i' | b'o' | b'R' | 0x81 | 0x92 | 0x93 | b'b' | 0x82..=0x84 => self.objects(opcode)?,
            0x80 => {
                let protocol = self.byte()?;
                if protocol > NEWEST {
                    let message = format!("pickle protocol {protocol} is not supported, only 0 to {NEWEST}");
                    return Err(Error::new(Code::UnsupportedVersion, message));
                }
            }
            0x95 => {
                let length = self.u64()?;
                if end_within(self.position(), length, self.total).is_none() {
                    return Err(ends_early());
                }
            }
            0x97 => self.push(Node::Absent)?,
            0x98 => {}
            other => return Err(bad(format!("{other:#04x} is not a pickle opcode"))),
        }
        Ok(None)
    }

    fn objects(&mut self, opcode: u8) -> Result<()> {
        let none = Value::None;
        match opcode {
            b'c' => {
                let global = self.global_lines()?;
                self.stack.push(global);
                Ok(())
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                self.push(Node::Global(module, name))
            }
            0x82..=0x84 => {
                let code = match opcode {
                    0x82 => self.byte()?.into(),
                    0x83 => u16::from_le_bytes(self.array()?).into(),
                    _ => u32::from_le_bytes(self.array()?),
                };
                self.push(Node::Extension(code))
            }
            b'i' => {
                let callee = self.global_lines()?;
                let args = self.since_mark()?;
                self.object(callee, Node::Tuple(args.into()), none)
            }
            b'o' => {
                let mut args = self.since_mark()?;
                if args.is_empty() {
                    return Err(bad("an object has no class"));
                }
                let callee = args.remove(0);
                self.object(callee, Node::Tuple(args.into()), none)
            }
            0x92 => {
                let (kwargs, args, callee) = (self.pop()?, self.pop()?, self.pop()?);
                self.object_of(callee, args, kwargs)
            }
            b'b' => {
                let state = self.pop()?;
                // Only objects have state: for anything else Python would fail, or change something outside the file.
                if let Node::Object(object) = self.top_node()? {
                    object.states.push(state);
                }
                Ok(())
            }
            _ => {
                let (args, callee) = (self.pop()?, self.pop()?);
                self.object_of(callee, args, none)
            }
        }
    }

    fn object(&mut self, callee: Value, args: Node, kwargs: Value) -> Result<()> {
        let args = self.node(args)?;
        self.object_of(callee, args, kwargs)
    }

    fn object_of(&mut self, callee: Value, args: Value, kwargs: Value) -> Result<()> {
        let object =
            Object { callee, args, kwargs, states: Vec::new(), items: Vec::new(), entries: Vec::new() };
        self.push(Node::Object(Box::new(object)))
    }

    fn text_opcode(&mut self, opcode: u8) -> Result<()> {
        let value = match opcode {
            b'S' => {
                let made = text::python2(self.line()?).ok_or_else(|| bad("a string is not quoted"))?;
                self.node(Node::Made(made.into()))?
            }
            b'V' => {
                let made = text::raw_unicode_escape(self.line()?).ok_or_else(|| bad("a bad \\u escape"))?;
                self.node(Node::Unescaped(made.into()))?
            }
            _ => {
                let length = match opcode {
                    b'U' | 0x8c => self.byte()?.into(),
                    b'T' | b'X' => self.u32()?,
                    _ => self.u64()?,
                };
                let start = self.position();
                let bytes = self.take(length)?;
                if matches!(opcode, b'T' | b'U') && std::str::from_utf8(bytes).is_err() {
                    self.node(Node::Bytes(Span { start, length }))?
                } else {
                    self.text_node(bytes)?
                }
            }
        };
        self.stack.push(value);
        Ok(())
    }

    /// Returns a string for bytes that were just taken from the input.
    fn text_node(&mut self, bytes: &'i [u8]) -> Result<Value> {
        if std::str::from_utf8(bytes).is_err() {
            return self.node(Node::Unescaped(text::surrogates(bytes).into()));
        }
        let end = bytes.as_ptr_range().end as usize - self.input.as_ptr_range().start as usize;
        let length = bytes.len() as u64;
        self.node(Node::Text(Span { start: end as u64 - length + self.left_out, length }))
    }

    fn bytes(&mut self, length: u64) -> Result<()> {
        let start = self.position();
        match self.gaps.split_first() {
            Some((gap, rest)) if gap.start == start && gap.length == length => {
                (self.gaps, self.left_out) = (rest, gap.left_out());
            }
            _ => drop(self.take(length)?),
        }
        self.push(Node::Bytes(Span { start, length }))
    }

    fn long(&mut self, length: u64) -> Result<()> {
        let start = self.position();
        let bytes = self.take(length)?;
        if bytes.len() > 8 {
            return self.push(Node::Long(Span { start, length }));
        }
        let sign = if bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xff } else { 0 };
        let mut wide = [sign; 8];
        wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.stack.push(Value::Int(i64::from_le_bytes(wide)));
        Ok(())
    }

    /// `01` and `00` are the booleans of protocol 1.
    fn int_line(&mut self) -> Result<()> {
        let value = match self.line_text()? {
            "00" => Value::Bool(false),
            "01" => Value::Bool(true),
            line => return self.decimal(line),
        };
        self.stack.push(value);
        Ok(())
    }

    fn long_line(&mut self) -> Result<()> {
        let line = self.line_text()?;
        self.decimal(line.strip_suffix('L').unwrap_or(line))
    }

    /// Beyond 64 bits the digits are stored as a string.
    fn decimal(&mut self, line: &'i str) -> Result<()> {
        let digits = line.trim();
        let value = match digits.parse() {
            Ok(value) => Value::Int(value),
            Err(_) if is_decimal(digits) => self.text_node(digits.as_bytes())?,
            Err(_) => return Err(bad(format!("{line:?} is not an integer"))),
        };
        self.stack.push(value);
        Ok(())
    }

    fn global_lines(&mut self) -> Result<Value> {
        let (module, name) = (self.line()?, self.line()?);
        let (module, name) = (self.text_node(module)?, self.text_node(name)?);
        self.node(Node::Global(module, name))
    }

    fn append(&mut self, items: &[Value]) -> Result<()> {
        match self.top_node()? {
            Node::List(list) | Node::Set(list) => list.extend(items),
            Node::Object(object) => object.items.extend(items),
            _ => return Err(bad("items are added to a value that is not a container")),
        }
        Ok(())
    }

    fn set(&mut self, entries: &[Value]) -> Result<()> {
        match self.top_node()? {
            Node::Dict(dict) => dict.extend(entries),
            Node::Object(object) => object.entries.extend(entries),
            _ => return Err(bad("keys are set in a value that is not a dict")),
        }
        Ok(())
    }

    fn get(&mut self, number: u64) -> Result<()> {
        let near = usize::try_from(number).ok().and_then(|number| self.memo.get(number));
        let value = near.or_else(|| self.sparse_memo.get(&number)).copied();
        self.stack.push(value.ok_or_else(|| bad(format!("the memo has no value {number}")))?);
        Ok(())
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let top = self.top()?;
        let next = self.memo.len() as u64;
        match usize::try_from(number).ok().and_then(|number| self.memo.get_mut(number)) {
            Some(known) => *known = top,
            None if number == next && self.sparse_memo.is_empty() => self.memo.push(top),
            None => drop(self.sparse_memo.insert(number, top)),
        }
        Ok(())
    }

    fn node(&mut self, node: Node) -> Result<Value> {
        let beyond = |_| Error::new(Code::Limit, "the pickle has more than 2^32 values");
        let id = u32::try_from(self.nodes.len()).map_err(beyond)?;
        self.nodes.push(node);
        Ok(Value::Node(id))
    }

    fn push(&mut self, node: Node) -> Result<()> {
        let value = self.node(node)?;
        self.stack.push(value);
        Ok(())
    }

    /// Values below the last mark belong to an outer container.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value> {
        let top = self.stack.last().filter(|_| self.stack.len() > self.floor());
        top.copied().ok_or_else(|| bad("the stack is empty"))
    }

    fn top_node(&mut self) -> Result<&mut Node> {
        let Value::Node(id) = self.top()? else { return Err(bad("a number is not a container")) };
        self.nodes.get_mut(id as usize).ok_or_else(|| bad("the stack is empty"))
    }

    fn pop(&mut self) -> Result<Value> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Drops a value or a mark from the top.
    fn drop_top(&mut self) -> Result<()> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    fn pops(&mut self, count: usize) -> Result<Vec<Value>> {
        let start = self.stack.len().checked_sub(count).filter(|&start| start >= self.floor());
        start.map(|start| self.stack.split_off(start)).ok_or_else(|| bad("the stack is empty"))
    }

    fn since_mark(&mut self) -> Result<Vec<Value>> {
        let mark = self.marks.pop().ok_or_else(|| bad("the stack has no mark"))?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn pairs_since_mark(&mut self) -> Result<Vec<Value>> {
        let entries = self.since_mark()?;
        if entries.len() % 2 != 0 { Err(bad("a key has no value")) } else { Ok(entries) }
    }

    /// Returns the offset in the whole pickle.
    fn position(&self) -> u64 {
        (self.at as u64).saturating_add(self.left_out)
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.input.get(self.at).ok_or_else(ends_early)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, length: u64) -> Result<&'i [u8]> {
        let bytes = slice(self.input, self.at as u64, length).ok_or_else(ends_early)?;
        self.at += bytes.len();
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N as u64)?.try_into().map_err(|_| ends_early())
    }

    fn u32(&mut self) -> Result<u64> {
        self.array().map(u32::from_le_bytes).map(u64::from)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes the bytes up to the next line feed, without it.
    fn line(&mut self) -> Result<&'i [u8]> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n').ok_or_else(ends_early)?;
        self.at += length + 1;
        let line = rest.get(..length).unwrap_or_default();
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn line_text(&mut self) -> Result<&'i str> {
        std::str::from_utf8(self.line()?).map_err(|_| bad("a number is not spelled in digits"))
    }

    fn number_line(&mut self) -> Result<u64> {
        let line = self.line_text()?;
        line.trim().parse().map_err(|_| bad(format!("{line:?} is not a memo index")))
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_attribute_limit_does_not_lower_the_opcode_limit() {
        let max = |max_attribute_values| max_opcodes(&Limits { max_attribute_values, ..Limits::default() });
        assert_eq!(max(ATTRIBUTE_VALUES), 33_554_432);
        assert_eq!(max(10_000), max(ATTRIBUTE_VALUES));
        assert_eq!(max(ATTRIBUTE_VALUES + 1), 33_554_434);
        assert_eq!(max(u32::MAX), 2 * u64::from(u32::MAX));
    }
}
