//! Finds all tensors in the values of a checkpoint and names them by their paths.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::limits::{NAMES_BYTES, WARNINGS};
use ztensor_core::model::Builder;

use super::form::Key;
use super::item::{Item, Meanings, Plain};
use super::ndarray::Raw;
use super::{Node, Pickle, Value};
use crate::damage::Damage;
use crate::limits::{PICKLE_DEPTH, PICKLE_TIMES};

/// Flags of a value that was visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen(u8);

impl Seen {
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    const HOLDS: u8 = 4;
    const SHOWN: u8 = 8;

    /// Returns whether it contains a tensor.
    pub fn holds(self) -> bool {
        self.0 & Self::HOLDS != 0
    }

    /// Returns whether it yields an attribute.
    pub fn is_shown(self) -> bool {
        self.0 & Self::SHOWN != 0
    }
}

/// The result of a walk.
pub struct WalkResult<'p, M: Meanings> {
    /// By path, in file order.
    pub tensors: Vec<(String, M::Tensor<'p>)>,
    /// Flags of each node of the pickle.
    pub seen: Vec<Seen>,
    /// Path and message of what was skipped.
    pub skipped: Vec<(String, String)>,
}

/// Visits everything in the pickle's root, and records invalid tensors as damage.
pub fn walk<'p, M: Meanings>(
    pickle: &'p Pickle,
    prefix: &str,
    builder: &mut Builder,
    damage: &mut Damage,
) -> Result<WalkResult<'p, M>> {
    let nodes = pickle.nodes().len() as u64;
    let mut walk = Walk {
        pickle,
        found: WalkResult {
            tensors: Vec::new(),
            seen: vec![Seen::default(); pickle.nodes().len()],
            skipped: Vec::new(),
        },
        builder,
        damage,
        path: prefix.to_owned(),
        named: HashSet::new(),
        left: (nodes + pickle.byte_length() / 16).saturating_mul(PICKLE_TIMES).saturating_add(4096),
        name_bytes: 0,
    };
    walk.visit(pickle.root(), 0)?;
    walk.unreached();
    Ok(walk.found)
}

/// Returns the flags of a value that a walk has visited.
pub fn seen(seen: &[Seen], value: Value) -> Seen {
    match value {
        Value::Node(id) => seen.get(id as usize).copied().unwrap_or_default(),
        _ => Seen(Seen::SHOWN | Seen::DONE),
    }
}

struct Walk<'p, 'b, M: Meanings> {
    pickle: &'p Pickle,
    found: WalkResult<'p, M>,
    builder: &'b mut Builder,
    damage: &'b mut Damage,
    path: String,
    /// Names that were already reported.
    named: HashSet<String>,
    /// Remaining steps. Only containers of tensors are visited more than once.
    left: u64,
    name_bytes: usize,
}

impl<'p, M: Meanings> Walk<'p, '_, M> {
    fn visit(&mut self, value: Value, depth: u32) -> Result<Seen> {
        let Value::Node(id) = value else { return Ok(Seen(Seen::SHOWN)) };
        let known = seen(&self.found.seen, value);
        if known.0 & Seen::OPEN != 0 {
            // It contains itself: end the cycle.
            return Ok(Seen::default());
        }
        if known.0 & Seen::DONE != 0 && !known.holds() {
            return Ok(known);
        }
        if depth > PICKLE_DEPTH {
            self.skip(format!("values nested more than {PICKLE_DEPTH} deep"));
            return Ok(Seen::default());
        }
        if !self.spend(1) {
            return Ok(known);
        }
        self.mark(id, Seen(known.0 | Seen::OPEN));
        let flags = self.item(value, depth)?;
        self.mark(id, Seen(flags | Seen::DONE));
        Ok(Seen(flags | Seen::DONE))
    }

    fn item(&mut self, value: Value, depth: u32) -> Result<u8> {
        let item = match M::expand(self.pickle, value) {
            Ok(item) => item,
            Err(error) if error.is_of_item() => {
                // A key may have any length, and any number of tensors.
                let name = short(self.name(depth), NAME);
                let error = error.tensor(&name);
                self.damage.note(self.builder, error);
                return Ok(0);
            }
            Err(error) => return Err(error.tensor(self.name(depth))),
        };
        match item {
            Item::Plain(plain) => {
                if let Plain::Bytes(Raw::Made(bytes)) = &plain {
                    self.spend(bytes.len() as u64 / 16);
                }
                Ok(Seen::SHOWN)
            }
            Item::Tensor(tensor, rest) => {
                self.spend(M::made(&tensor) / 16);
                self.add(*tensor, depth)?;
                Ok(Seen::HOLDS | self.children(rest, depth)?)
            }
            Item::List(children) | Item::Map(children) => {
                let empty = children.is_empty();
                let flags = self.children(children, depth)?;
                Ok(if empty { Seen::SHOWN } else { flags })
            }
            Item::Unknown(name, parts) => {
                self.skip(format!("{name} is unknown and was not called: only its parts are read"));
                self.children(parts, depth)
            }
            Item::Nothing(name) => {
                self.skip(format!("{name} has no value"));
                Ok(0)
            }
        }
    }

    fn children(&mut self, children: Vec<(Key<'p>, Value)>, depth: u32) -> Result<u8> {
        let mut flags = 0;
        // Many dicts may use the same long key, each at the cost of its full length.
        let looked_at = children
            .iter()
            .map(|(key, _)| if let Key::Text(text) = key { text.len() as u64 / 64 } else { 0 });
        if !self.spend(children.len() as u64 + looked_at.sum::<u64>()) {
            return Ok(flags);
        }
        for (key, value) in children {
            let length = self.path.len();
            if matches!(value, Value::Node(_)) {
                let (part, made) = key.show(self.pickle);
                self.spend(made / 64);
                if depth > 0 || !self.path.is_empty() {
                    self.path.push('.');
                }
                self.path.push_str(&part);
            }
            let seen = self.visit(value, depth + 1)?;
            self.path.truncate(length);
            flags |= seen.0 & (Seen::HOLDS | Seen::SHOWN);
        }
        Ok(flags)
    }

    fn add(&mut self, tensor: M::Tensor<'p>, depth: u32) -> Result<()> {
        self.name_bytes += self.path.len();
        if self.name_bytes > NAMES_BYTES {
            let message = format!("the names of all tensors exceed {NAMES_BYTES} bytes in total");
            return Err(Error::new(Code::Limit, message));
        }
        self.found.tensors.push((self.name(depth).to_owned(), tensor));
        Ok(())
    }

    /// Returns the name of the current tensor; a tensor that is the whole file has a fixed name. An empty key yields an empty name.
    fn name(&self, depth: u32) -> &str {
        if depth == 0 && self.path.is_empty() { "tensor" } else { &self.path }
    }

    /// Spends steps and returns whether any are left.
    fn spend(&mut self, steps: u64) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = self.left.saturating_sub(steps);
        if self.left == 0 {
            self.skip("values are shared too often: not all are listed".to_owned());
        }
        true
    }

    /// Records something skipped, once for each message.
    fn skip(&mut self, message: String) {
        if self.found.skipped.len() <= WARNINGS && self.named.insert(message.clone()) {
            self.found.skipped.push((self.path.chars().take(256).collect(), message));
        }
    }

    /// Reports calls whose results are not reachable from the root: code meant only to be executed.
    fn unreached(&mut self) {
        self.path.clear();
        for (at, node) in self.pickle.nodes().iter().enumerate() {
            let Node::Object(object) = node else { continue };
            let reached = self.found.seen.get(at).is_some_and(|seen| seen.0 & Seen::DONE != 0);
            if reached || self.found.skipped.len() > WARNINGS {
                continue;
            }
            if let Some((module, name)) = self.pickle.global(object.callee)
                && !is_usual(module, name)
            {
                self.skip(format!("{module}.{name} is unknown and was not called: only its parts are read"));
            }
        }
    }

    fn mark(&mut self, id: u32, flags: Seen) {
        if let Some(seen) = self.found.seen.get_mut(id as usize) {
            *seen = flags;
        }
    }
}

/// Emits warnings for values that are neither tensors nor attributes, with their paths.
pub fn warn(builder: &mut Builder, skipped: Vec<(String, String)>) {
    for (path, message) in skipped {
        let message = if path.is_empty() { message } else { format!("{path}: {message}") };
        builder.warn("ZT_WARN_SKIPPED", message, None, None);
    }
}

/// Calls that normally occur as parts of others: arguments of tensors, dtypes of arrays, containers.
fn is_usual(module: &str, name: &str) -> bool {
    let root = module.split('.').next().unwrap_or_default();
    match root {
        "torch" | "numpy" | "collections" | "_codecs" | "copyreg" | "copy_reg" => true,
        "builtins" | "__builtin__" => matches!(
            name,
            "set" | "frozenset" | "list" | "tuple" | "dict" | "bytes" | "bytearray" | "complex" | "object"
        ),
        _ => false,
    }
}
