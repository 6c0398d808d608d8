//! Model metadata: producer, operator sets, inputs and outputs. Stored as read, and converted to attributes on request.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::error::Result;
use ztensor_core::limits::Limits;
use ztensor_core::syntax::values::{Event, Visit};

use super::dtypes::ElementType;
use crate::protobuf::{Field, Run, Value, Walker};

/// Maximum nesting of types, such as a sequence of maps.
const DEPTH: u32 = 8;

/// A string, or bytes if it is not UTF-8.
type Text = Box<[u8]>;

/// Entries with unique keys: the last value of a duplicate key wins.
struct Entries<T> {
    all: Vec<(Text, T)>,
    positions: HashMap<Text, usize>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { all: Vec::new(), positions: HashMap::new() }
    }
}

impl<T> Entries<T> {
    fn set(&mut self, key: Text, value: T) {
        let next = self.all.len();
        let at = *self.positions.entry(key.clone()).or_insert(next);
        match self.all.get_mut(at) {
            Some(entry) => entry.1 = value,
            None => self.all.push((key, value)),
        }
    }

    fn visit(
        &self,
        key: &str,
        to: &mut dyn Visit,
        each: impl Fn(&T, &mut dyn Visit) -> Result<()>,
    ) -> Result<()> {
        if self.all.is_empty() {
            return Ok(());
        }
        to.visit(Event::Text(key))?;
        to.visit(Event::Map)?;
        for (key, value) in &self.all {
            text(key, to)?;
            each(value, to)?;
        }
        to.visit(Event::End)
    }
}

/// An input or an output of the graph.
#[derive(Default)]
struct Argument {
    name: Text,
    /// The type in ONNX notation with dtype names: "tensor(float32)".
    kind: String,
    shape: Option<Vec<Dim>>,
}

enum Dim {
    Size(i64),
    Symbol(Text),
    Unknown,
}

pub struct Details {
    pub ir_version: Option<i64>,
    model_version: Option<i64>,
    /// By key, in the order of the model's fields.
    texts: Vec<(&'static str, Text)>,
    opsets: Entries<i64>,
    properties: Entries<Text>,
    graph_texts: Vec<(&'static str, Text)>,
    graph_properties: Entries<Text>,
    inputs: Vec<Argument>,
    outputs: Vec<Argument>,
    /// Values that may still be listed.
    left: u32,
    is_shortened: bool,
}

impl Details {
    pub fn new(limits: &Limits) -> Self {
        Self {
            ir_version: None,
            model_version: None,
            texts: Vec::new(),
            opsets: Entries::default(),
            properties: Entries::default(),
            graph_texts: Vec::new(),
            graph_properties: Entries::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            left: limits.max_attribute_values,
            is_shortened: false,
        }
    }

    /// Returns whether entries were omitted because of the limit.
    pub fn is_shortened(&self) -> bool {
        self.is_shortened
    }

    /// Returns the producer of the file.
    pub fn generator(&self) -> Option<String> {
        let find = |wanted| {
            let found = self.texts.iter().find(|(key, _)| *key == wanted)?;
            std::str::from_utf8(&found.1).ok().filter(|text| !text.is_empty())
        };
        let name = find("producer_name")?;
        Some(find("producer_version").map_or_else(|| name.to_owned(), |version| format!("{name} {version}")))
    }

    /// Removes the inputs that are tensors of the file according to `is_tensor`.
    pub fn forget_inputs(&mut self, is_tensor: impl Fn(&str) -> bool) {
        self.inputs.retain(|input| !std::str::from_utf8(&input.name).is_ok_and(&is_tensor));
    }

    /// Reads a field of `ModelProto`.
    pub fn of_model(&mut self, walker: &mut Walker<'_>, field: &Field) -> Result<()> {
        match (field.number, field.value) {
            (1, Value::Varint(version)) => self.ir_version = Some(version.cast_signed()),
            (5, Value::Varint(version)) => self.model_version = Some(version.cast_signed()),
            (2, Value::Bytes(run)) => self.text(walker, "producer_name", run)?,
            (3, Value::Bytes(run)) => self.text(walker, "producer_version", run)?,
            (4, Value::Bytes(run)) => self.text(walker, "domain", run)?,
            (6, Value::Bytes(run)) => self.text(walker, "doc_string", run)?,
            (8, Value::Bytes(run)) => self.opset(walker, run)?,
            (14, Value::Bytes(run)) => {
                if let Some((key, value)) = self.property(walker, run)? {
                    self.properties.set(key, value);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads a field of the model's `GraphProto`.
    pub fn of_graph(&mut self, walker: &mut Walker<'_>, field: &Field) -> Result<()> {
        let Value::Bytes(run) = field.value else { return Ok(()) };
        match field.number {
            2 | 10 => {
                let key = if field.number == 2 { "name" } else { "doc_string" };
                if self.may_list(2) {
                    set(&mut self.graph_texts, key, walker.bytes(run)?.into());
                }
            }
            11 => {
                if let Some(input) = self.argument(walker, run)? {
                    self.inputs.push(input);
                }
            }
            12 => {
                if let Some(output) = self.argument(walker, run)? {
                    self.outputs.push(output);
                }
            }
            16 => {
                if let Some((key, value)) = self.property(walker, run)? {
                    self.graph_properties.set(key, value);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether this many more values may be listed; if not, they are omitted.
    fn may_list(&mut self, values: u32) -> bool {
        let left = self.left.checked_sub(values);
        self.is_shortened |= left.is_none();
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    fn text(&mut self, walker: &mut Walker<'_>, key: &'static str, run: Run) -> Result<()> {
        if self.may_list(2) {
            set(&mut self.texts, key, walker.bytes(run)?.into());
        }
        Ok(())
    }

    fn opset(&mut self, walker: &mut Walker<'_>, run: Run) -> Result<()> {
        let (mut message, mut domain, mut version) = (run, Text::default(), 0);
        while let Some(field) = walker.next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Bytes(run)) => domain = walker.bytes(run)?.into(),
                (2, Value::Varint(number)) => version = number.cast_signed(),
                _ => {}
            }
        }
        if self.may_list(2) {
            // The operators of ONNX itself have an empty domain, or this one.
            let domain = if domain.is_empty() { Box::from(*b"ai.onnx") } else { domain };
            self.opsets.set(domain, version);
        }
        Ok(())
    }

    /// A `StringStringEntryProto`.
    fn property(&mut self, walker: &mut Walker<'_>, run: Run) -> Result<Option<(Text, Text)>> {
        let (mut message, mut key, mut value) = (run, Text::default(), Text::default());
        while let Some(field) = walker.next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Bytes(run)) => key = walker.bytes(run)?.into(),
                (2, Value::Bytes(run)) => value = walker.bytes(run)?.into(),
                _ => {}
            }
        }
        Ok(self.may_list(2).then_some((key, value)))
    }

    /// A `ValueInfoProto`.
    fn argument(&mut self, walker: &mut Walker<'_>, run: Run) -> Result<Option<Argument>> {
        let (mut message, mut argument) = (run, Argument::default());
        while let Some(field) = walker.next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Bytes(run)) => argument.name = walker.bytes(run)?.into(),
                (2, Value::Bytes(run)) => {
                    (argument.kind, argument.shape) = kind(walker, run, 0)?;
                }
                _ => {}
            }
        }
        let dims = argument.shape.as_ref().map_or(0, Vec::len);
        let values = u32::try_from(dims).unwrap_or(u32::MAX).saturating_add(12);
        Ok(self.may_list(values).then_some(argument))
    }

    /// Visits everything as keys and values.
    pub fn visit(&self, to: &mut dyn Visit) -> Result<()> {
        let number = |value: &i64, to: &mut dyn Visit| to.visit(Event::Integer((*value).into()));
        for (key, value) in [("ir_version", self.ir_version), ("model_version", self.model_version)] {
            if let Some(value) = value {
                to.visit(Event::Text(key))?;
                number(&value, to)?;
            }
        }
        visit_texts(&self.texts, to)?;
        self.opsets.visit("opset_import", to, number)?;
        self.properties.visit("metadata_props", to, |value, to| text(value, to))?;
        to.visit(Event::Text("graph"))?;
        to.visit(Event::Map)?;
        visit_texts(&self.graph_texts, to)?;
        self.graph_properties.visit("metadata_props", to, |value, to| text(value, to))?;
        for (key, arguments) in [("input", &self.inputs), ("output", &self.outputs)] {
            to.visit(Event::Text(key))?;
            to.visit(Event::Array)?;
            arguments.iter().try_for_each(|argument| argument.visit(to))?;
            to.visit(Event::End)?;
        }
        to.visit(Event::End)
    }
}

impl Argument {
    fn visit(&self, to: &mut dyn Visit) -> Result<()> {
        to.visit(Event::Map)?;
        to.visit(Event::Text("name"))?;
        text(&self.name, to)?;
        to.visit(Event::Text("type"))?;
        to.visit(Event::Text(&self.kind))?;
        if let Some(shape) = &self.shape {
            to.visit(Event::Text("shape"))?;
            to.visit(Event::Array)?;
            for dim in shape {
                match dim {
                    Dim::Size(size) => to.visit(Event::Integer((*size).into()))?,
                    Dim::Symbol(name) => text(name, to)?,
                    Dim::Unknown => to.visit(Event::Null)?,
                }
            }
            to.visit(Event::End)?;
        }
        to.visit(Event::End)
    }
}

fn set(texts: &mut Vec<(&'static str, Text)>, key: &'static str, value: Text) {
    texts.retain(|(other, _)| *other != key);
    texts.push((key, value));
}

fn text(text: &[u8], to: &mut dyn Visit) -> Result<()> {
    to.visit(std::str::from_utf8(text).map_or(Event::Bytes(text), Event::Text))
}

fn visit_texts(texts: &[(&'static str, Text)], to: &mut dyn Visit) -> Result<()> {
    texts.iter().filter(|(_, value)| !value.is_empty()).try_for_each(|(key, value)| {
        to.visit(Event::Text(key))?;
        text(value, to)
    })
}

/// Reads a `TypeProto`: its name, and the shape of a tensor.
fn kind(walker: &mut Walker<'_>, run: Run, depth: u32) -> Result<(String, Option<Vec<Dim>>)> {
    let (mut message, mut found) = (run, (String::new(), None));
    if depth > DEPTH {
        return Ok(("…".to_owned(), None));
    }
    while let Some(field) = walker.next(&mut message)? {
        let Value::Bytes(run) = field.value else { continue };
        found = match field.number {
            1 => tensor(walker, run, "tensor")?,
            8 => tensor(walker, run, "sparse_tensor")?,
            4 => (format!("sequence({})", element(walker, run, 1, depth)?.1), None),
            9 => (format!("optional({})", element(walker, run, 1, depth)?.1), None),
            5 => {
                let (key, value) = element(walker, run, 2, depth)?;
                (format!("map({key},{value})"), None)
            }
            7 => ("opaque".to_owned(), None),
            _ => continue,
        };
    }
    Ok(found)
}

/// Returns the key and the element of a sequence, an optional or a map, whose type is in the field with this number.
fn element(walker: &mut Walker<'_>, run: Run, number: u32, depth: u32) -> Result<(String, String)> {
    let (mut message, mut found) = (run, (String::new(), String::new()));
    while let Some(field) = walker.next(&mut message)? {
        match field.value {
            Value::Varint(key) if field.number == 1 => found.0 = called(key),
            Value::Bytes(run) if field.number == number => found.1 = kind(walker, run, depth + 1)?.0,
            _ => {}
        }
    }
    Ok(found)
}

fn tensor(walker: &mut Walker<'_>, run: Run, what: &str) -> Result<(String, Option<Vec<Dim>>)> {
    let (mut message, mut elements, mut dims) = (run, 0, None);
    while let Some(field) = walker.next(&mut message)? {
        match (field.number, field.value) {
            (1, Value::Varint(number)) => elements = number,
            (2, Value::Bytes(run)) => dims = Some(shape(walker, run)?),
            _ => {}
        }
    }
    Ok((format!("{what}({})", called(elements)), dims))
}

/// A `TensorShapeProto`.
fn shape(walker: &mut Walker<'_>, run: Run) -> Result<Vec<Dim>> {
    let (mut message, mut dims) = (run, Vec::new());
    while let Some(field) = walker.next(&mut message)? {
        let (1, Value::Bytes(mut inner)) = (field.number, field.value) else { continue };
        let mut dim = Dim::Unknown;
        while let Some(field) = walker.next(&mut inner)? {
            match (field.number, field.value) {
                (1, Value::Varint(size)) => dim = Dim::Size(size.cast_signed()),
                (2, Value::Bytes(run)) => {
                    let name: Text = walker.bytes(run)?.into();
                    dim = if name.is_empty() { Dim::Unknown } else { Dim::Symbol(name) };
                }
                _ => {}
            }
        }
        dims.push(dim);
        walker.charge(size_of::<Dim>() as u64)?;
    }
    Ok(dims)
}

/// Returns the name of an element type: its dtype, or ONNX's own name.
fn called(number: u64) -> String {
    match ElementType::of(number) {
        Some(kind) => kind.dtype.map_or_else(|| kind.name.to_lowercase(), |dtype| dtype.name().to_owned()),
        None => number.to_string(),
    }
}
