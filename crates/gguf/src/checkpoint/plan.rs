//! From the tensors of a checkpoint to those of GGUF, by the rows of an architecture.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use ztensor_core::arrange::Arrange;

use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::model::DType;

use super::config::{Config, Defaults, EXPERTS, HEADS, KEY_HEADS, LAYERS};
use super::factors::{Factors, Purpose, Weights, is_scaled};
use super::json::Document;
use super::parameters::Metadata;
use super::planned::{Blocks, Content, Element, Piece, Planned};
use super::rope::Rope;
use super::row::{Change, Heads, Ignored, Parameter, Row, To};
use super::source::{Files, MetadataOverrides, Tensor, named_by_options};
use super::view::View;
use crate::limits;
use crate::model::is_float32_weight;

/// One architecture.
pub struct Architecture {
    /// Names in `architectures` of `config.json`.
    pub classes: &'static [&'static str],
    /// `general.architecture`.
    pub name: &'static str,
    pub defaults: Defaults,
    /// Metadata read from the configuration, in order.
    pub parameters: &'static [&'static [Parameter]],
    pub tensors: &'static [&'static [Row]],
    pub left_out: &'static [&'static [Ignored]],
    /// Metadata and tensors that follow from several values.
    pub derived: fn(&mut Model<'_>) -> Result<()>,
    pub tokenizer: fn(&mut Model<'_>) -> Result<()>,
}

/// A checkpoint on its way to GGUF.
pub struct Model<'m> {
    pub architecture: &'static Architecture,
    pub files: &'m dyn Files,
    pub given: &'m MetadataOverrides,
    pub config: Config<'m>,
    pub rope: Rope<'m>,
    pub metadata: Metadata,
    pub tensors: Vec<Planned>,
    pub left_out: Vec<(String, &'static str)>,
    pub layers: u32,
    documents: RefCell<HashMap<&'static str, Option<Rc<Document>>>>,
}

impl<'m> Model<'m> {
    pub fn new(
        architecture: &'static Architecture,
        (files, given): (&'m dyn Files, &'m MetadataOverrides),
        config: &'m Document,
    ) -> Result<Self> {
        let config = Config::new(&config.root(), architecture.defaults);
        let rope = Rope::new(&config)?;
        let layers = config.needed(LAYERS)?;
        if layers > limits::CHECKPOINT_LAYERS {
            let message =
                format!("'config.json' has {layers} layers, more than {}", limits::CHECKPOINT_LAYERS);
            return Err(Error::new(Code::Limit, message));
        }
        let metadata = Metadata::new(architecture.name);
        Ok(Self {
            architecture,
            files,
            given,
            config,
            rope,
            metadata,
            tensors: Vec::new(),
            left_out: Vec::new(),
            layers,
            documents: RefCell::default(),
        })
    }

    /// Adds a tensor of numbers that follow from the configuration.
    pub fn compute(&mut self, name: &str, values: Vec<f32>) {
        self.tensors.push(Planned {
            name: name.to_owned(),
            shape: vec![values.len() as u64],
            element: Element::Float32,
            content: Content::Values(values),
        });
    }

    /// Returns a JSON file of the checkpoint, which is read once; `None` if there is none.
    pub fn json(&self, file: &'static str) -> Result<Option<Rc<Document>>> {
        if let Some(held) = self.documents.borrow().get(file) {
            return Ok(held.clone());
        }
        let read = Document::read(self.files, file)?.map(Rc::new);
        self.documents.borrow_mut().insert(file, read.clone());
        Ok(read)
    }

    /// Returns the warnings about the files that were read.
    pub fn warnings(&self) -> Vec<String> {
        let documents = self.documents.borrow();
        let mut warnings: Vec<String> =
            documents.values().flatten().filter_map(|document| document.warning()).collect();
        warnings.arrange();
        warnings
    }

    /// Plans the tensors.
    pub fn map(&mut self, sources: &[Tensor<'_>], weights: &Weights) -> Result<()> {
        let mut purposes = match weights {
            Weights::Scaled(scheme) => scheme.purposes(sources)?.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let rows = Rows::new(self.architecture);
        let mut experts = Experts::default();
        let mut blocks = Halves::default();
        for (index, source) in sources.iter().enumerate() {
            let factors = match purposes.next() {
                Some(Purpose::Factors) => continue,
                Some(Purpose::Unused(reason)) => {
                    self.left_out.push((source.name.to_owned(), reason));
                    continue;
                }
                Some(Purpose::Weights(factors)) => factors,
                None => None,
            };
            let name = plain(source.name);
            if let Some(reason) = self.ignored(&name)? {
                self.left_out.push((source.name.to_owned(), reason));
                continue;
            }
            let Some(found) = rows.find(&name) else { return Err(self.unknown(source.name)) };
            if found.numbers.first().is_some_and(|&layer| layer >= u64::from(self.layers)) {
                let message =
                    format!("'config.json' has {} layers, and this tensor is in another", self.layers);
                return Err(Error::new(Code::BadIndex, message).tensor(source.name));
            }
            for to in found.row.to {
                let name = found.name(to);
                let factors = factors.clone();
                self.one((index, source, factors), to, name, &found, &mut experts, &mut blocks)
                    .map_err(|error| error.tensor(source.name))?;
            }
        }
        let count = self.config.uint(EXPERTS)?;
        let mut placed = experts.finish(count, sources)?;
        let others = std::mem::take(&mut self.tensors).into_iter();
        placed.extend(others.map(|planned| (first(&planned, sources), planned)));
        placed.arrange_by_key(|&(position, _)| position);
        let mut blocks = blocks.finish()?;
        blocks.arrange_by_key(|planned| first(planned, sources));
        // In the order of the reference: that of the sources, except for blocks, which come first.
        self.tensors = blocks;
        self.tensors.extend(placed.into_iter().map(|(_, planned)| planned));
        let mut names = HashSet::new();
        for planned in &self.tensors {
            if !names.insert(planned.name.as_str()) {
                let message = format!("two tensors become {:?}", short(&planned.name, NAME));
                return Err(Error::new(Code::BadIndex, message));
            }
        }
        Ok(())
    }

    fn one(
        &mut self,
        (index, source, factors): (usize, &Tensor<'_>, Option<Factors>),
        to: &To,
        name: String,
        found: &RowMatch,
        experts: &mut Experts,
        halves: &mut Halves,
    ) -> Result<()> {
        if let Change::Blocks(second) = to.change {
            return halves.blocks(name, index, source, second);
        }
        if to.change == Change::Scales {
            return halves.scales(name, index, source);
        }
        let (view, shape, add) = self.view(to.change, source.shape)?;
        let is_fit = if factors.is_some() { is_scaled(source.dtype) } else { is_number(source.dtype) };
        if !is_fit || factors.is_some() && add != 0.0 {
            let message = format!("elements of {}, which GGUF has no type for here", source.dtype.name());
            return Err(Error::new(Code::UnsupportedEncoding, message));
        }
        let piece = Piece { source: index, view, add, factors };
        if let (Some(&expert), true) = (found.numbers.get(1), found.is_stacked(to)) {
            let layer = found.numbers.first().copied().unwrap_or_default();
            return experts.add((layer, found.row.from, name), expert, (shape, piece));
        }
        let element = element(&name, &shape);
        self.tensors.push(Planned { name, shape, element, content: Content::Pieces(vec![piece]) });
        Ok(())
    }

    /// Returns why a tensor is left out.
    fn ignored(&self, name: &str) -> Result<Option<&'static str>> {
        for ignored in self.architecture.left_out.iter().copied().flatten() {
            if ignored.name.fits(name, &self.config, self.layers)? {
                return Ok(Some(ignored.reason));
            }
        }
        Ok(None)
    }

    fn unknown(&self, name: &str) -> Error {
        let message =
            format!("no tensor of the architecture {:?} in GGUF has this name", self.architecture.name);
        named_by_options(Error::new(Code::UnsupportedEncoding, message), "; ").tensor(name)
    }

    /// Returns the elements that make up the new tensor, its shape, and what is added to each.
    fn view(&self, change: Change, shape: &[u64]) -> Result<(View, Vec<u64>, f32)> {
        let mut view = View::of(shape)?;
        let last = shape.len().saturating_sub(1);
        match change {
            Change::None | Change::Blocks(_) | Change::Scales => {}
            Change::AddOne => return Ok((view, shape.to_vec(), 1.0)),
            Change::Interleave(which) => {
                view.split(0, u64::from(self.heads(which)?))?;
                view.split(1, 2)?;
                view.swap(1, 2)?;
                return Ok((view, shape.to_vec(), 0.0));
            }
            Change::Half(which) => {
                let at = last.saturating_sub(1);
                view.split(at, 2)?;
                view.slice(at, which, 1, 1)?;
                let mut halved = view.shape();
                halved.remove(at);
                return Ok((view, halved, 0.0));
            }
            Change::EverySecond(start) => every_second(&mut view, last, start)?,
            Change::Transpose => view.swap(last.saturating_sub(1), last)?,
            Change::TransposeEverySecond(start) => {
                view.swap(last.saturating_sub(1), last)?;
                every_second(&mut view, last.saturating_sub(1), start)?;
            }
            Change::LatentKeys | Change::LatentValues => {
                let keys = u64::from(self.config.needed(&["qk_nope_head_dim"])?);
                let values = u64::from(self.config.needed(&["v_head_dim"])?);
                // GGUF has one shared head, the source as many as there are queries.
                view.split(0, u64::from(self.config.needed(HEADS)?))?;
                let held = view.shape().get(1).copied().unwrap_or_default();
                if held != keys + values {
                    let message =
                        format!("{held} rows a head, not the {keys} of keys and {values} of values");
                    return Err(Error::new(Code::BadShape, message));
                }
                if change == Change::LatentKeys {
                    view.slice(1, 0, keys, 1)?;
                    view.swap(1, 2)?;
                } else {
                    view.slice(1, keys, values, 1)?;
                }
            }
            Change::Positions => {
                let first = u64::from(self.first_position()?);
                let rows = shape.first().copied().unwrap_or_default();
                view.slice(0, first.min(rows), rows.saturating_sub(first), 1)?;
            }
            Change::Vocabulary => {
                let tokens = u64::from(self.config.needed(&["vocab_size"])?);
                let rows = shape.first().copied().unwrap_or_default();
                view.slice(0, 0, rows.min(tokens), 1)?;
            }
        }
        let shape = view.shape();
        Ok((view, shape, 0.0))
    }

    /// Returns the position of the first token of a text: the one after the number of the padding token.
    pub fn first_position(&self) -> Result<u32> {
        Ok(self.config.uint(&["pad_token_id"])?.map_or(0, |number| number.saturating_add(1)))
    }

    fn heads(&self, which: Heads) -> Result<u32> {
        let query = self.config.needed(HEADS)?;
        Ok(match which {
            Heads::Query => query,
            Heads::Key => self.config.uint(KEY_HEADS)?.unwrap_or(query),
        })
    }
}

fn position(source: usize, sources: &[Tensor<'_>]) -> usize {
    sources.get(source).map_or(0, |source| source.position)
}

/// Returns the position of the first source.
fn first(planned: &Planned, sources: &[Tensor<'_>]) -> usize {
    match &planned.content {
        Content::Values(_) => 0,
        Content::Pieces(pieces) => {
            pieces.iter().map(|piece| position(piece.source, sources)).min().unwrap_or_default()
        }
        Content::Blocks(blocks) => position(blocks.blocks, sources).min(position(blocks.scales, sources)),
    }
}

fn every_second(view: &mut View, axis: usize, start: u64) -> Result<()> {
    view.split(axis, view.axes.get(axis).map_or(1, |axis| axis.extent / 2).max(1))?;
    view.slice(axis + 1, start, 1, 1)?;
    view.axes.remove(axis + 1);
    Ok(())
}

/// Removes what wraps the language model of a model for several media, or the encoder of one with a head, and spells norms of old
/// checkpoints as new ones do.
fn plain(name: &str) -> String {
    let name = name.replace("language_model.", "");
    let name = name.strip_prefix("roberta.").unwrap_or(&name);
    let name = name.strip_prefix("bert.").unwrap_or(name);
    let renamed = [(".gamma", ".weight"), (".beta", ".bias")]
        .into_iter()
        .find_map(|(old, new)| Some((name.strip_suffix(old)?, new)));
    renamed.map_or_else(|| name.to_owned(), |(stem, new)| format!("{stem}{new}"))
}

fn is_number(dtype: DType) -> bool {
    matches!(dtype, DType::Float64 | DType::Float32 | DType::Float16 | DType::BFloat16)
}

fn element(name: &str, shape: &[u64]) -> Element {
    if is_float32_weight(name, shape) { Element::Float32 } else { Element::AsSource }
}

/// The rows of an architecture, by name.
struct Rows(HashMap<&'static str, &'static Row>);

/// A row and what its placeholders stand for.
struct RowMatch<'n> {
    row: &'static Row,
    numbers: Vec<u64>,
    /// `.weight` or `.bias`, unless the row names it.
    ending: &'n str,
}

impl Rows {
    fn new(architecture: &'static Architecture) -> Self {
        Self(architecture.tensors.iter().flat_map(|rows| rows.iter()).map(|row| (row.from, row)).collect())
    }

    fn find<'n>(&self, name: &'n str) -> Option<RowMatch<'n>> {
        let (pattern, numbers) = pattern(name)?;
        let find = |pattern: &str| {
            // The part below the head of a language model is published without prefix as well.
            let row = self.0.get(pattern).or_else(|| self.0.get(format!("model.{pattern}").as_str()));
            row.copied()
        };
        if let Some(row) = find(&pattern) {
            return Some(RowMatch { row, numbers, ending: "" });
        }
        [".weight", ".bias"].into_iter().find_map(|ending| {
            let row = find(pattern.strip_suffix(ending)?)?;
            let ending = name.get(name.len() - ending.len()..)?;
            Some(RowMatch { row, numbers: numbers.clone(), ending })
        })
    }
}

/// Returns a name with `{}` for each number between dots, and the numbers.
fn pattern(name: &str) -> Option<(String, Vec<u64>)> {
    let mut numbers = Vec::new();
    let mut pattern = String::with_capacity(name.len());
    for (at, part) in name.split('.').enumerate() {
        if at > 0 {
            pattern.push('.');
        }
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            numbers.push(part.parse().ok()?);
            pattern.push_str("{}");
        } else {
            pattern.push_str(part);
        }
    }
    Some((pattern, numbers))
}

impl RowMatch<'_> {
    fn name(&self, to: &To) -> String {
        let layer = self.numbers.first().map(u64::to_string).unwrap_or_default();
        format!("{}{}", to.name.replacen("{}", &layer, 1), self.ending)
    }

    fn is_stacked(&self, to: &To) -> bool {
        to.name.matches("{}").count() < self.row.from.matches("{}").count()
    }
}

/// Tensors of single experts, by the tensor in which they are stacked.
#[derive(Default)]
struct Experts(BTreeMap<Stack, BTreeMap<u64, (Vec<u64>, Piece)>>);

/// The layer of a stack, the pattern of the names of its experts, and its own name.
type Stack = (u64, &'static str, String);

impl Experts {
    fn add(&mut self, stack: Stack, expert: u64, (shape, piece): (Vec<u64>, Piece)) -> Result<()> {
        let held = self.0.entry(stack).or_default();
        if let Some((first, _)) = held.values().next()
            && *first != shape
        {
            let message = format!("the shape {shape:?}, and another expert has {first:?}");
            return Err(Error::new(Code::BadShape, message));
        }
        match held.insert(expert, (shape, piece)) {
            None => Ok(()),
            Some(_) => Err(Error::new(Code::BadIndex, format!("a second tensor of expert {expert}"))),
        }
    }

    /// Returns the stacks, each with its position among the sources: that of the last expert of the layer, as the reference writes them.
    fn finish(self, count: Option<u32>, sources: &[Tensor<'_>]) -> Result<Vec<(usize, Planned)>> {
        let mut last: HashMap<u64, usize> = HashMap::new();
        for ((layer, ..), held) in &self.0 {
            let latest = held.values().map(|(_, piece)| position(piece.source, sources)).max();
            let known = last.entry(*layer).or_default();
            *known = latest.unwrap_or_default().max(*known);
        }
        let stacked = self.0.into_iter().map(|((layer, _, name), held)| {
            let wanted = count.map_or(held.len() as u64, u64::from);
            let found = held.len() as u64;
            // The keys are distinct, so as many below the count are all of them.
            if found != wanted || held.keys().next_back().is_some_and(|&last| last >= wanted) {
                let message = format!(
                    "{found} of {wanted} experts, as 'config.json' counts them, are in the checkpoint"
                );
                return Err(Error::new(Code::Incomplete, message).tensor(&name));
            }
            let shape = held.values().next().map(|(shape, _)| shape.clone()).unwrap_or_default();
            let shape: Vec<u64> = [found].into_iter().chain(shape).collect();
            let element = element(&name, &shape);
            let pieces = held.into_values().map(|(_, piece)| piece).collect();
            let latest = last.get(&layer).copied().unwrap_or_default();
            Ok((latest, Planned { name, shape, element, content: Content::Pieces(pieces) }))
        });
        stacked.collect()
    }
}

/// Blocks of MXFP4 whose scales are a tensor of their own.
#[derive(Default)]
struct Halves(BTreeMap<String, Pair>);

#[derive(Default)]
struct Pair {
    /// The index of the tensor, its shape, and the first of each two rows, if not all.
    blocks: Option<(usize, Vec<u64>, Option<u64>)>,
    scales: Option<(usize, Vec<u64>)>,
}

impl Halves {
    fn blocks(&mut self, name: String, index: usize, source: &Tensor<'_>, second: Option<u64>) -> Result<()> {
        match (source.dtype, source.shape) {
            (DType::Uint8, &[.., 16]) if source.shape.len() == 4 => {}
            _ => {
                return Err(Error::new(
                    Code::BadShape,
                    "blocks of MXFP4 are uint8 [experts, rows, blocks, 16]",
                ));
            }
        }
        self.0.entry(name).or_default().blocks = Some((index, source.shape.to_vec(), second));
        Ok(())
    }

    fn scales(&mut self, name: String, index: usize, source: &Tensor<'_>) -> Result<()> {
        if source.dtype != DType::Uint8 || source.shape.len() != 3 {
            return Err(Error::new(Code::BadShape, "scales of MXFP4 are uint8 [experts, rows, blocks]"));
        }
        self.0.entry(name).or_default().scales = Some((index, source.shape.to_vec()));
        Ok(())
    }

    fn finish(self) -> Result<Vec<Planned>> {
        let joined = self.0.into_iter().map(|(name, pair)| {
            let (Some((blocks, shape, second)), Some((scales, of_scales))) = (pair.blocks, pair.scales)
            else {
                let message = "blocks of MXFP4 without scales, or scales without blocks";
                return Err(Error::new(Code::Incomplete, message).tensor(&name));
            };
            if shape.get(..3) != Some(&of_scales) {
                let message = format!("blocks of the shape {shape:?}, and scales of {of_scales:?}");
                return Err(Error::new(Code::BadShape, message).tensor(&name));
            }
            let mut view = View::of(&of_scales).map_err(|error| error.tensor(&name))?;
            if let Some(start) = second {
                every_second(&mut view, 1, start).map_err(|error| error.tensor(&name))?;
            }
            let mut shape = view.shape();
            if let Some(columns) = shape.last_mut() {
                *columns = columns.saturating_mul(32);
            }
            product(&shape).ok_or_else(|| Error::new(Code::BadShape, "too many elements").tensor(&name))?;
            Ok(Planned {
                name,
                shape,
                element: Element::Mxfp4,
                content: Content::Blocks(Blocks { blocks, scales, view }),
            })
        });
        joined.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_names_are_placeholders() {
        let parts = |name| pattern(name).unwrap();
        assert_eq!(parts("a.12.b.3.weight"), ("a.{}.b.{}.weight".to_owned(), vec![12, 3]));
        assert_eq!(parts("a12.b"), ("a12.b".to_owned(), vec![]));
        assert!(pattern("a.99999999999999999999.b").is_none());
    }
}
