//! Messages that hold tensors: graphs, nodes, their attributes, functions. Everything else goes to the details.
//!
//! Names: an initializer uses its own name, the value of a `Constant` node the name of the node's output. An attribute of another node is
//! named `<node>.<attribute>`, with a numeric suffix in lists. Tensors of a subgraph are prefixed with that name, those of a function with
//! its domain and name. An unnamed node uses the name of its first output.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Input, overlap};
use ztensor_core::model::{Attributes, Builder, Catalog};

use super::details::Details;
use super::dtypes::{ElementType, FLOAT, INT64, Listed, STRING};
use super::list::List;
use super::sparse_tensor::Sparse;
use super::tensor::Proto;
use super::tensors::Tensors;
use crate::damage::{self, Damage};
use crate::limits::{ONNX_DEPTH, ONNX_NAME_BYTES, ONNX_PATH_BYTES, ONNX_TENSOR_BYTES};
use crate::protobuf::{Run, Value, Walker};

/// Reads a model. `None` if the message has neither a version nor a graph.
pub fn read(input: &Input<'_>, walker: Walker<'_>, builder: Builder) -> Result<Option<Catalog>> {
    let details = Details::new(input.limits);
    let mut reader =
        Reader { input, walker, tensors: Tensors::new(builder, input), details, damage: Damage::default() };
    if !reader.model()? {
        return Ok(None);
    }
    let Reader { tensors: Tensors { mut builder, .. }, mut details, damage, .. } = reader;
    if let Some(version) = details.ir_version {
        builder.set_version(version.to_string());
    }
    if let Some(generator) = details.generator() {
        builder.set_generator(generator);
    }
    // Before version 4 every initializer was also an input.
    details.forget_inputs(|name| builder.contains(name));
    if details.is_shortened() {
        let message = "the metadata has more values than can be listed (option maxAttributeValues)";
        builder.warn("ZT_WARN_SKIPPED", message, None, None);
    }
    builder.set_attributes(Attributes::lazy(move |to| details.visit(to)));
    overlap::warn(&mut builder);
    damage.finish(builder).map(Some)
}

struct Reader<'i> {
    input: &'i Input<'i>,
    walker: Walker<'i>,
    tensors: Tensors<'i>,
    details: Details,
    damage: Damage,
}

/// The fields of a node, none of which is read before it is needed.
#[derive(Clone, Copy, Default)]
struct Node {
    name: Run,
    output: Run,
    kind: Run,
    domain: Run,
    has_attributes: bool,
}

/// The owner of an attribute.
#[derive(Clone, Copy)]
enum Owner {
    Node(Node),
    Function,
}

impl Reader<'_> {
    fn model(&mut self) -> Result<bool> {
        let (mut message, mut is_model, mut trainings) = (self.walker.whole(), false, 0_u64);
        while let Some(field) = self.walker.next(&mut message)? {
            match (field.number, field.value) {
                (7, Value::Bytes(graph)) => {
                    is_model = true;
                    self.graph(graph, "", 0)?;
                }
                (20, Value::Bytes(training)) => {
                    self.training(training, trainings)?;
                    trainings += 1;
                }
                (25, Value::Bytes(function)) => self.function(function)?,
                _ => {
                    is_model |= field.number == 1;
                    self.details.of_model(&mut self.walker, &field)?;
                }
            }
        }
        Ok(is_model)
    }

    /// Reads the model's graph, or a subgraph whose tensor names have the prefix `path`.
    fn graph(&mut self, run: Run, path: &str, depth: u32) -> Result<()> {
        if depth > ONNX_DEPTH {
            let message = format!("subgraphs are nested more than {ONNX_DEPTH} deep");
            return Err(Error::new(Code::Limit, message).at(run.at));
        }
        if path.len() > ONNX_PATH_BYTES {
            let message = format!("the path of a subgraph has more than {ONNX_PATH_BYTES} bytes");
            return Err(Error::new(Code::Limit, message).at(run.at));
        }
        let (mut message, mut unnamed) = (run, 0_u64);
        while let Some(field) = self.walker.next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Bytes(node)) => self.node(node, path, depth)?,
                (5, Value::Bytes(tensor)) => {
                    let proto = Proto::read(&mut self.walker, tensor, self.input.limits)?;
                    let name = join(path, &initializer(&proto.name, &mut unnamed));
                    self.add(&name, proto)?;
                }
                (15, Value::Bytes(tensor)) => {
                    let sparse = Sparse::read(&mut self.walker, tensor, self.input.limits)?;
                    let name = join(path, &initializer(&sparse.values.name, &mut unnamed));
                    self.add_sparse(&name, sparse)?;
                }
                _ if depth == 0 => self.details.of_graph(&mut self.walker, &field)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn training(&mut self, run: Run, number: u64) -> Result<()> {
        let mut message = run;
        while let Some(field) = self.walker.next(&mut message)? {
            let name = match field.number {
                1 => "initialization",
                2 => "algorithm",
                _ => continue,
            };
            if let Value::Bytes(graph) = field.value {
                self.graph(graph, &format!("training_info.{number}.{name}"), 1)?;
            }
        }
        Ok(())
    }

    fn function(&mut self, run: Run) -> Result<()> {
        let (mut message, mut names) = (run, [Run::default(); 3]);
        while let Some(field) = self.walker.next(&mut message)? {
            match (field.number, field.value) {
                (10, Value::Bytes(domain)) => names[0] = domain,
                (1, Value::Bytes(name)) => names[1] = name,
                (13, Value::Bytes(overload)) => names[2] = overload,
                _ => {}
            }
        }
        let mut path = String::new();
        for name in names {
            path = join(&path, &self.name(name)?);
        }
        let mut message = run;
        while let Some(field) = self.walker.next(&mut message)? {
            match (field.number, field.value) {
                (7, Value::Bytes(node)) => self.node(node, &path, 1)?,
                (11, Value::Bytes(attribute)) => self.attribute(attribute, Owner::Function, &path, 1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, run: Run, path: &str, depth: u32) -> Result<()> {
        let (mut message, mut node) = (run, Node::default());
        while let Some(field) = self.walker.next(&mut message)? {
            match (field.number, field.value) {
                (2, Value::Bytes(output)) if node.output == Run::default() => node.output = output,
                (3, Value::Bytes(name)) => node.name = name,
                (4, Value::Bytes(kind)) => node.kind = kind,
                (5, Value::Bytes(_)) => node.has_attributes = true,
                (7, Value::Bytes(domain)) => node.domain = domain,
                _ => {}
            }
        }
        if !node.has_attributes {
            return Ok(());
        }
        let mut message = run;
        while let Some(field) = self.walker.next(&mut message)? {
            if let (5, Value::Bytes(attribute)) = (field.number, field.value) {
                self.attribute(attribute, Owner::Node(node), path, depth)?;
            }
        }
        Ok(())
    }

    fn attribute(&mut self, run: Run, owner: Owner, path: &str, depth: u32) -> Result<()> {
        let (mut message, mut name, mut holds) = (run, Run::default(), false);
        while let Some(field) = self.walker.next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Bytes(text)) => name = text,
                // Numbers and strings are tensors if the node is a constant.
                (2 | 3, Value::Varint(_) | Value::Fixed(_)) | (4 | 7..=9, _) => {
                    holds |=
                        matches!(owner, Owner::Node(node) if node.kind.length() == CONSTANT.len() as u64);
                }
                (5 | 6 | 10 | 11 | 22 | 23, Value::Bytes(_)) => holds = true,
                _ => {}
            }
        }
        if !holds {
            return Ok(());
        }
        let name = self.name(name)?;
        let own = match owner {
            Owner::Node(node) if self.is_constant(node)? => {
                let own = join(path, &self.label(node, true)?);
                if let Some(&(_, kind, is_list, field)) = VALUES.iter().find(|(value, ..)| *value == name) {
                    return self.constant(run, &own, kind, is_list, field);
                }
                own
            }
            Owner::Node(node) => join(&join(path, &self.label(node, false)?), &name),
            Owner::Function => join(path, &name),
        };
        let (mut message, mut tensors, mut graphs) = (run, 0_u64, 0_u64);
        while let Some(field) = self.walker.next(&mut message)? {
            let Value::Bytes(run) = field.value else { continue };
            let numbered = |count: &mut u64| {
                *count += 1;
                format!("{own}.{}", *count - 1)
            };
            match field.number {
                5 => self.tensor(run, &own)?,
                10 => self.tensor(run, &numbered(&mut tensors))?,
                6 => self.graph(run, &own, depth + 1)?,
                11 => self.graph(run, &numbered(&mut graphs), depth + 1)?,
                22 => self.sparse(run, &own)?,
                23 => self.sparse(run, &numbered(&mut tensors))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the value of a `Constant` node that is a number, a string, or a list of them.
    fn constant(&mut self, run: Run, own: &str, kind: u64, is_list: bool, field: u32) -> Result<()> {
        let Some(listed) = ElementType::of(kind).map(|kind| Listed { field, ..kind.list }) else {
            return Ok(());
        };
        let (mut list, mut wrong) = (List::new(listed), None);
        damage::noted(self.list(run, kind, &mut list), &mut wrong)?;
        let shape = if is_list { vec![list.min] } else { Vec::new() };
        let mut proto = Proto::of(kind, shape, list);
        proto.wrong = wrong;
        self.add(own, proto)
    }

    /// Adds the entries of an attribute to a list.
    fn list(&mut self, run: Run, kind: u64, list: &mut List) -> Result<()> {
        let mut message = run;
        while let Some(found) = self.walker.next(&mut message)? {
            if found.number != list.listed.field {
                continue;
            }
            list.add(&found)?;
            if let (Value::Bytes(packed), INT64) = (found.value, kind) {
                let (mut rest, mut count) = (packed, 0_u64);
                while rest.at < rest.end {
                    self.walker.varint(&mut rest)?;
                    count += 1;
                }
                list.counted(packed.length(), count);
            }
        }
        Ok(())
    }

    fn is_constant(&mut self, node: Node) -> Result<bool> {
        if node.kind.length() != CONSTANT.len() as u64 || self.walker.bytes(node.kind)? != CONSTANT {
            return Ok(false);
        }
        Ok(matches!(&*self.name(node.domain)?, "" | "ai.onnx"))
    }

    /// Returns the label of a node: its name, its first output, or its operator.
    fn label(&mut self, node: Node, by_output: bool) -> Result<String> {
        let names = if by_output { [node.output, node.name] } else { [node.name, node.output] };
        for name in names {
            if name.length() > 0 {
                return self.name(name);
            }
        }
        self.name(node.kind)
    }

    fn name(&mut self, run: Run) -> Result<String> {
        self.walker.text(run, ONNX_NAME_BYTES, "a name").map(str::to_owned)
    }

    fn tensor(&mut self, run: Run, name: &str) -> Result<()> {
        let proto = Proto::read(&mut self.walker, run, self.input.limits)?;
        self.add(name, proto)
    }

    fn sparse(&mut self, run: Run, name: &str) -> Result<()> {
        let sparse = Sparse::read(&mut self.walker, run, self.input.limits)?;
        self.add_sparse(name, sparse)
    }

    /// Adds a tensor, or records an invalid one as damage.
    fn add(&mut self, name: &str, mut proto: Proto) -> Result<()> {
        self.walker.charge(ONNX_TENSOR_BYTES + name.len() as u64)?;
        let added = proto.wrong.take().map_or_else(|| self.tensors.add(name, &proto), Err);
        self.item(name, added)
    }

    fn add_sparse(&mut self, name: &str, mut sparse: Sparse) -> Result<()> {
        self.walker.charge(2 * ONNX_TENSOR_BYTES + name.len() as u64)?;
        let added = sparse.take_wrong().map_or_else(|| sparse.add(&mut self.tensors, name), Err);
        self.item(name, added)
    }

    fn item(&mut self, name: &str, added: Result<()>) -> Result<()> {
        self.damage.of_item(&mut self.tensors.builder, added.map_err(|error| error.tensor(name)))
    }
}

const CONSTANT: &[u8] = b"Constant";
/// Attributes of a `Constant` node that are not a `TensorProto`: name, type, whether it is a list, field of `AttributeProto`.
const VALUES: [(&str, u64, bool, u32); 6] = [
    ("value_float", FLOAT, false, 2),
    ("value_int", INT64, false, 3),
    ("value_string", STRING, false, 4),
    ("value_floats", FLOAT, true, 7),
    ("value_ints", INT64, true, 8),
    ("value_strings", STRING, true, 9),
];

fn join(path: &str, name: &str) -> String {
    match (path, name) {
        ("", alone) | (alone, "") => alone.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

/// Returns the name of an initializer; unnamed ones are numbered.
fn initializer(name: &str, unnamed: &mut u64) -> String {
    if !name.is_empty() {
        return name.to_owned();
    }
    *unnamed += 1;
    format!("initializer.{}", *unnamed - 1)
}
