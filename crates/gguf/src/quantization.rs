//! The types that tensors of a conversion are quantized to: those of a mixture of llama.cpp, or those of rules.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ciborium::Value;
use ztensor_core::convert::quantize::{SPLIT_MXFP4, Target, check_weights, length};
use ztensor_core::convert::{Casts, Selection};
use ztensor_core::edit::{AttributeChanges, apply};
use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::kernels::cast::can_cast;
use ztensor_core::kernels::quantize::BlockEncoder;
use ztensor_core::limits::Limits;
use ztensor_core::model::glob::Glob;
use ztensor_core::model::{Catalog, DType, Layout, Tensor};
use ztensor_core::sources::file::FileSource;

use super::importance::Importance;
use super::mixture;
use super::model::{FILE_TYPE, QUANTIZATION};

/// The types that were chosen.
pub struct Quantized {
    /// The attributes that state a mixture: texts, and numbers of 32 bits without a sign.
    pub stated: Vec<(&'static str, Value)>,
    /// Names of types and the number of tensors that get them.
    pub types: Vec<(&'static str, u32)>,
    /// Tensors whose rows are not whole blocks of the wanted type, that type, and theirs.
    pub fallbacks: Vec<(String, &'static str, &'static str)>,
    /// Quantized tensors for which the importance matrix has no weights.
    pub unweighted: Vec<String>,
    /// The ordinals of all tensors that get a type, or have it already.
    pub ordinals: Vec<u32>,
}

/// Which types tensors are quantized to.
pub struct Quantization {
    mixture: Option<String>,
    rules: Vec<Rule>,
    requantize: bool,
    importance: Option<Matrix>,
}

/// The type of the tensors whose new names match a pattern.
struct Rule {
    pattern: String,
    glob: Glob,
    kind: &'static str,
}

impl Rule {
    /// Returns whether a tensor whose name the pattern matches gets the type. `fixed`: ordinals of tensors that stay as they are.
    fn takes(&self, name: &str, tensor: Tensor<'_>, fixed: &HashSet<usize>) -> bool {
        !fixed.contains(&tensor.ordinal()) && mixture::is_quantized_by(&self.pattern, name, tensor.shape())
    }

    /// Returns whether the rule has an effect on a tensor whose name its pattern matches, or whether that has its dtype already.
    fn counts_for(&self, name: &str, tensor: Tensor<'_>, fixed: &HashSet<usize>) -> bool {
        let has_dtype = plain(self.kind).is_some_and(|dtype| tensor.dtype() == Some(dtype));
        has_dtype || self.takes(name, tensor, fixed)
    }

    /// The error for a rule without effect.
    fn idle(&self, tensors: &[(String, Tensor<'_>)], fixed: &HashSet<usize>) -> Error {
        let mut matching = tensors.iter().filter(|(name, _)| self.glob.matches(name)).peekable();
        let Self { pattern, kind, .. } = self;
        let pattern = short(pattern, NAME);
        let message = if matching.peek().is_none() {
            format!("{pattern:?} matches no tensor")
        } else if matching.any(|(name, tensor)| self.counts_for(name, *tensor, fixed)) {
            format!("{pattern:?} has no effect: earlier patterns match every tensor that can become {kind}")
        } else {
            format!(
                "{pattern:?} names no tensor that can become {kind}: those with one dimension, and norms, biases and routers of \
                 a model, stay as they are"
            )
        };
        Error::new(Code::InvalidArg, message).option("quantize")
    }
}

/// The error if no tensor gets a type.
fn nothing(wanted: &Quantization, count: usize) -> Error {
    let how = wanted.mixture.as_deref().unwrap_or("the rules");
    let message = format!(
        "nothing to quantize among {count} tensors: {how} takes matrices whose names end in \"weight\", and no norms and routers; \
         name others by patterns, such as '*'"
    );
    Error::new(Code::InvalidArg, message).option("quantize")
}

/// The types of rules that are dtypes.
const PLAIN: [(&str, &str); 3] = [("f32", "float32"), ("f16", "float16"), ("bf16", "bfloat16")];

impl Quantization {
    /// `rules` alternates patterns and types.
    pub fn new(
        mixture: Option<String>,
        rules: &[String],
        requantize: bool,
        importance: Option<Matrix>,
    ) -> Result<Self> {
        let rules = rules.as_chunks::<2>().0.iter().map(|[pattern, name]| {
            let plain = PLAIN.iter().find(|(short, long)| name == short || name == long);
            let kind =
                plain.map(|&(_, long)| long).or_else(|| BlockEncoder::names().find(|known| known == name));
            let kind = kind.ok_or_else(|| {
                let known: Vec<_> =
                    PLAIN.iter().map(|&(short, _)| short).chain(BlockEncoder::names()).collect();
                Error::new(
                    Code::InvalidArg,
                    format!("there is no type {name:?}; known are {}", known.join(", ")),
                )
            })?;
            Ok(Rule { pattern: pattern.clone(), glob: Glob::new(pattern), kind })
        });
        Ok(Self { mixture, rules: rules.collect::<Result<_>>()?, requantize, importance })
    }

    /// Returns the rule for a name.
    fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.glob.matches(name))
    }

    /// Fails for a rule that has no effect.
    fn check_rules(&self, tensors: &[(String, Tensor<'_>)], fixed: &HashSet<usize>) -> Result<()> {
        let mut idle: Vec<&Rule> = self.rules.iter().collect();
        for (name, tensor) in tensors {
            if idle.is_empty() {
                return Ok(());
            }
            if let Some(used) = self.rule(name).filter(|rule| rule.counts_for(name, *tensor, fixed)) {
                idle.retain(|rule| !std::ptr::eq(*rule, used));
            }
        }
        idle.first().map_or(Ok(()), |rule| Err(rule.idle(tensors, fixed)))
    }
}

/// An importance matrix of llama.cpp, of which only the entries of tensors that are quantized are read.
pub struct Matrix {
    path: PathBuf,
    /// Its path as the file records it.
    name: String,
    importance: Importance,
}

impl Matrix {
    /// Opens the file at `path`. `name` is the path to record.
    pub fn open(path: PathBuf, name: String) -> Result<Self> {
        let open = || Importance::open(Box::new(FileSource::open(&path)?), &Limits::default());
        let opened = open().map_err(|error| unreadable(error, &path));
        opened.map(|importance| Self { path, name, importance })
    }

    fn weights(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.importance.weights(name).map_err(|error| unreadable(error, &self.path))
    }
}

fn unreadable(error: Error, path: &Path) -> Error {
    error.file(path).context(format!("the importance matrix '{}' cannot be read", path.display()))
}

/// Chooses the type of each tensor. Tensors that llama.cpp does not quantize stay as they are, and so do those that stay float32, by their
/// ordinals. Fails with `ZT_INVALID_ARG` for a pattern that matches no name, and if no tensor gets a type.
pub fn choose(
    catalog: &Catalog,
    wanted: &Quantization,
    changes: &AttributeChanges,
    selection: &mut Selection,
    (casts, float32): (&mut Casts, &[u32]),
) -> Result<Quantized> {
    let fixed: HashSet<usize> = float32.iter().map(|&ordinal| ordinal as usize).collect();
    let mut types = Types {
        casts,
        wanted,
        targets: BTreeMap::new(),
        counts: BTreeMap::new(),
        unweighted: Vec::new(),
        ordinals: Vec::new(),
    };
    let (mut fallbacks, mut order) = (Vec::new(), Vec::new());
    let tensors: Vec<(String, Tensor<'_>)> = selection
        .tensors(catalog)
        .map(|(at, tensor)| (selection.name(at, tensor).into_owned(), tensor))
        .collect();
    let file_type = if let Some(name) = &wanted.mixture {
        let mut attributes = catalog.attributes.values()?.into_owned();
        apply(&mut attributes, changes.clone());
        let named: Vec<(&str, &[u64])> =
            tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.shape())).collect();
        let choice = mixture::choose(name, &attributes, &named, wanted.importance.is_some())?;
        for ((name, tensor), kind) in tensors.iter().zip(&choice.types) {
            types.set(name, *tensor, *kind)?;
        }
        for (at, wanted) in choice.fallbacks {
            let kind = choice.types.get(at).copied().flatten().unwrap_or_default();
            fallbacks.extend(tensors.get(at).map(|(name, _)| (name.clone(), wanted, kind)));
        }
        order = choice.order;
        Some(choice.file_type)
    } else {
        for (name, tensor) in &tensors {
            let rule = wanted.rule(name);
            let kind = rule.filter(|rule| rule.takes(name, *tensor, &fixed)).map(|rule| rule.kind);
            let row = tensor.shape().last().copied().unwrap_or(1);
            let fitting = kind.map(|kind| mixture::fallback(kind, row));
            if let (Some(wanted), Some(kind)) = (kind, fitting.filter(|_| fitting != kind)) {
                fallbacks.push((name.clone(), wanted, kind));
            }
            types.set(name, *tensor, fitting)?;
        }
        wanted.check_rules(&tensors, &fixed)?;
        None
    };
    if types.counts.is_empty() {
        return Err(nothing(wanted, tensors.len()));
    }
    drop(tensors);
    if !order.is_empty() {
        selection.arrange(&order);
    }
    Ok(Quantized {
        stated: file_type.map_or_else(Vec::new, |number| stated(number, wanted.importance.as_ref())),
        types: types.counts.into_iter().collect(),
        fallbacks,
        unweighted: types.unweighted,
        ordinals: types.ordinals,
    })
}

/// Returns the attributes by which `llama-quantize` records a mixture and its importance matrix.
fn stated(file_type: u32, matrix: Option<&Matrix>) -> Vec<(&'static str, Value)> {
    let (version, number) = QUANTIZATION;
    let mut stated = vec![(version, number.into()), (FILE_TYPE, file_type.into())];
    let Some(Matrix { name, importance, .. }) = matrix else { return stated };
    stated.push(("quantize.imatrix.file", recorded(name)));
    if let Some(dataset) = importance.datasets.first() {
        stated.push(("quantize.imatrix.dataset", recorded(dataset)));
    }
    let entries = u32::try_from(importance.entries()).unwrap_or(u32::MAX);
    stated.push(("quantize.imatrix.entries_count", entries.into()));
    if importance.chunks > 0 {
        stated.push(("quantize.imatrix.chunks_count", importance.chunks.into()));
    }
    stated
}

/// Returns the beginning of a text: `llama-quantize` records at most 127 characters.
fn recorded(text: &str) -> Value {
    Value::Text(text.chars().take(127).collect())
}

/// Returns whether weights are to be used. Those of token embeddings are ignored if their number is wrong, as in llama.cpp.
fn uses(name: &str, tensor: Tensor<'_>, weights: &[f32]) -> Result<bool> {
    let is_embedding = matches!(name, "token_embd.weight" | "per_layer_token_embd.weight");
    match check_weights(tensor, weights) {
        Err(_) if is_embedding => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// The error for a tensor that needs weights and has none.
fn unweighted(kind: &str, has_matrix: bool) -> Error {
    let message = if has_matrix {
        format!(
            "the importance matrix has no weights for this tensor, and {kind} needs them: compute the matrix from this model, \
             or choose a type that needs none"
        )
    } else {
        format!("the type {kind} of this tensor needs an importance matrix")
    };
    Error::new(Code::InvalidArg, message).option("imatrix")
}

fn plain(kind: &str) -> Option<DType> {
    [DType::Float32, DType::Float16, DType::BFloat16].into_iter().find(|dtype| dtype.name() == kind)
}

struct Types<'c> {
    casts: &'c mut Casts,
    wanted: &'c Quantization,
    targets: BTreeMap<&'static str, Arc<Target>>,
    counts: BTreeMap<&'static str, u32>,
    unweighted: Vec<String>,
    ordinals: Vec<u32>,
}

impl Types<'_> {
    fn set(&mut self, name: &str, tensor: Tensor<'_>, kind: Option<&'static str>) -> Result<()> {
        let Some(kind) = kind else { return Ok(()) };
        self.assign(name, tensor, kind).map_err(|error| error.tensor(tensor.name()))?;
        *self.counts.entry(kind).or_default() += 1;
        self.ordinals.push(u32::try_from(tensor.ordinal()).unwrap_or(u32::MAX));
        Ok(())
    }

    fn assign(&mut self, name: &str, tensor: Tensor<'_>, kind: &'static str) -> Result<()> {
        let must_weigh = mixture::needs_importance(self.wanted.mixture.as_deref(), name, kind);
        // As llama.cpp does: without a matrix also for a tensor that has the type already, which needs no weights in one.
        if must_weigh && self.wanted.importance.is_none() {
            return Err(unweighted(kind, false));
        }
        let own = tensor.layout_name().strip_prefix("gguf.").and_then(|rest| rest.strip_suffix("/1"));
        let is_same = own == Some(kind) || kind == "mxfp4" && tensor.layout_name() == SPLIT_MXFP4;
        if is_same {
            // `dequantize` is for the others.
            self.casts.keep(tensor.ordinal());
            return Ok(());
        }
        let is_blocks = matches!(tensor.layout(), Layout::Other(_)) && self.casts.scaling(tensor).is_none();
        if is_blocks && !self.wanted.requantize {
            let message = format!(
                "the tensor is quantized already, and quantizing it to {kind} loses more than quantizing the original does"
            );
            let error = Error::new(Code::InvalidArg, message);
            return Err(error.hint("requantize", " (option requantize permits it)"));
        }
        if let Some(dtype) = plain(kind) {
            if is_blocks {
                let message = format!("the tensor is quantized, so quantizing does not store it as {kind}");
                return Err(
                    Error::new(Code::InvalidArg, message).hint("dequantize", ": option dequantize does")
                );
            }
            // Also a tensor that has the dtype, so that no cast takes it.
            let own = tensor.dtype().filter(|&own| can_cast(own, dtype));
            let ordinal = u32::try_from(tensor.ordinal()).unwrap_or(u32::MAX);
            return own.map_or(Ok(()), |own| self.casts.cast_single(ordinal, own, dtype));
        }
        let known = BlockEncoder::of(kind).ok_or_else(|| {
            let message = format!("ztensor does not quantize to {kind}");
            Error::new(Code::InvalidArg, message)
        })?;
        length(tensor, known)?;
        let target = self.targets.entry(kind).or_insert_with(|| Arc::new(Target::new(known)));
        let matrix = self.wanted.importance.as_ref();
        let weights = match matrix.map(|matrix| matrix.weights(name)).transpose()? {
            Some(Some(weights)) if uses(name, tensor, &weights)? => Some(weights.into()),
            found => {
                if must_weigh || known.needs_importance() {
                    return Err(unweighted(kind, found.is_some()));
                }
                self.unweighted.extend(found.map(|_| name.to_owned()));
                None
            }
        };
        self.casts.quantize(tensor.ordinal(), target, weights);
        Ok(())
    }
}
