//! The types that tensors of a conversion are quantized to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use napi_derive::napi;
use ztensor_core::convert::quantize::{SPLIT_MXFP4, Target, check_weights, length};
use ztensor_core::convert::{Casts, Chosen};
use ztensor_core::edit::{AttributeChanges, apply};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::kernels::cast::can_cast;
use ztensor_core::kernels::quantize::Kind;
use ztensor_core::limits::Limits;
use ztensor_core::model::glob::Glob;
use ztensor_core::model::{Catalog, DType, Layout, Tensor};
use ztensor_core::sources::file::FileSource;
use ztensor_import::gguf::importance::{self, Importance};
use ztensor_import::gguf::mixture;

/// The chosen types.
#[napi(object, object_from_js = false)]
pub struct Quantized {
    /// `general.file_type` of the mixture.
    pub file_type: Option<u32>,
    /// The importance matrix: its first dataset, the number of its entries and of its chunks.
    pub importance: Option<ImportanceInfo>,
    /// Names of types and the number of tensors that get them.
    pub types: Vec<TypeCount>,
    /// Tensors whose rows are not whole blocks of the wanted type.
    pub fallbacks: Vec<TypeFallback>,
    /// Quantized tensors for which the importance matrix has no weights.
    pub unweighted: Vec<String>,
}

#[napi(object, object_from_js = false)]
pub struct ImportanceInfo {
    pub dataset: Option<String>,
    pub entries: u32,
    pub chunks: u32,
}

#[napi(object, object_from_js = false)]
pub struct TypeCount {
    pub r#type: String,
    pub tensors: u32,
}

#[napi(object, object_from_js = false)]
pub struct TypeFallback {
    pub tensor: String,
    pub wanted: String,
    pub r#type: String,
}

/// A block type that tensors can be quantized to.
#[napi(object, object_from_js = false)]
pub struct BlockType {
    /// Elements of a block.
    pub elements: u32,
    /// Bytes of a block.
    pub bytes: u32,
    /// The layout of tensors, and its parameters.
    pub layout: String,
    pub parameters: Vec<Parameter>,
}

/// A parameter of a layout.
#[napi(object, object_from_js = false)]
pub struct Parameter {
    pub name: String,
    pub value: u32,
}

/// The block type with a name; null if tensors cannot be quantized to it.
#[napi(catch_unwind)]
#[allow(clippy::needless_pass_by_value, clippy::cast_possible_truncation)] // napi; at most 292 bytes
pub fn block_type(name: String) -> Option<BlockType> {
    let kind = Kind::of(&name)?;
    let target = Target::new(kind);
    let values = target.parameters().values().unwrap_or_default();
    let parameters = values.iter().filter_map(|(name, value)| {
        let value = u32::try_from(value.as_integer()?).ok()?;
        Some(Parameter { name: name.as_text()?.to_owned(), value })
    });
    Some(BlockType {
        elements: kind.elements() as u32,
        bytes: kind.bytes() as u32,
        layout: (*target.layout).to_owned(),
        parameters: parameters.collect(),
    })
}

/// The names of the block types that tensors can be quantized to.
#[napi(catch_unwind)]
pub fn block_types() -> Vec<String> {
    Kind::names().map(str::to_owned).collect()
}

/// What was asked for.
pub struct Wanted {
    mixture: Option<String>,
    rules: Vec<(Glob, &'static str)>,
    requantize: bool,
    importance: Option<Importance>,
}

/// The types of rules that are dtypes.
const PLAIN: [(&str, &str); 3] = [("f32", "float32"), ("f16", "float16"), ("bf16", "bfloat16")];

impl Wanted {
    /// `rules` alternates patterns and types.
    pub fn new(
        mixture: Option<String>,
        rules: &[String],
        requantize: bool,
        importance: Option<Importance>,
    ) -> Result<Self> {
        let rules = rules.as_chunks::<2>().0.iter().map(|[pattern, name]| {
            let plain = PLAIN.iter().find(|(short, long)| name == short || name == long);
            let kind = plain.map(|&(_, long)| long).or_else(|| Kind::names().find(|known| known == name));
            let kind = kind.ok_or_else(|| {
                let known: Vec<_> = PLAIN.iter().map(|&(short, _)| short).chain(Kind::names()).collect();
                Error::new(
                    Code::InvalidArg,
                    format!("there is no type {name:?}; known are {}", known.join(", ")),
                )
            })?;
            Ok((Glob::new(pattern), kind))
        });
        Ok(Self { mixture, rules: rules.collect::<Result<_>>()?, requantize, importance })
    }
}

/// Reads an importance matrix of llama.cpp.
pub fn read_importance(path: &Path) -> Result<Importance> {
    let read = || importance::read(&FileSource::open(path)?, &Limits::default());
    read().map_err(|error| {
        error.file(path).context(format!("the importance matrix '{}' cannot be read", path.display()))
    })
}

/// Chooses the type of each tensor. Tensors that llama.cpp does not quantize stay as they are.
pub fn choose(
    catalog: &Catalog,
    wanted: &Wanted,
    changes: &AttributeChanges,
    chosen: &mut Chosen,
    casts: &mut Casts,
) -> Result<Quantized> {
    let mut types =
        Types { casts, wanted, targets: BTreeMap::new(), counts: BTreeMap::new(), unweighted: Vec::new() };
    let mut fallbacks = Vec::new();
    let tensors: Vec<(String, Tensor<'_>)> =
        chosen.tensors(catalog).map(|(at, tensor)| (chosen.name(at, tensor).into_owned(), tensor)).collect();
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
        chosen.arrange(&choice.order);
        Some(choice.file_type)
    } else {
        for (name, tensor) in &tensors {
            let rule = wanted.rules.iter().find(|(pattern, _)| pattern.matches(name));
            let kind = rule.map(|&(_, kind)| kind).filter(|_| mixture::is_quantized(name, tensor.shape()));
            let row = tensor.shape().last().copied().unwrap_or(1);
            let fitting = kind.map(|kind| mixture::fallback(kind, row));
            if let (Some(wanted), Some(kind)) = (kind, fitting.filter(|_| fitting != kind)) {
                fallbacks.push((name.clone(), wanted, kind));
            }
            types.set(name, *tensor, fitting)?;
        }
        None
    };
    let count = |(kind, tensors): (&str, u32)| TypeCount { r#type: kind.to_owned(), tensors };
    let named = |(tensor, wanted, kind): (String, &str, &str)| TypeFallback {
        tensor,
        wanted: wanted.to_owned(),
        r#type: kind.to_owned(),
    };
    let importance = wanted.importance.as_ref().map(|importance| ImportanceInfo {
        dataset: importance.datasets.first().cloned(),
        entries: u32::try_from(importance.weights.len()).unwrap_or(u32::MAX),
        chunks: importance.chunks,
    });
    Ok(Quantized {
        file_type,
        importance,
        types: types.counts.into_iter().map(count).collect(),
        fallbacks: fallbacks.into_iter().map(named).collect(),
        unweighted: types.unweighted,
    })
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
        format!("the type {kind} of this tensor needs an importance matrix (option imatrix)")
    };
    Error::new(Code::InvalidArg, message)
}

fn plain(kind: &str) -> Option<DType> {
    [DType::Float32, DType::Float16, DType::BFloat16].into_iter().find(|dtype| dtype.name() == kind)
}

struct Types<'c> {
    casts: &'c mut Casts,
    wanted: &'c Wanted,
    targets: BTreeMap<&'static str, Arc<Target>>,
    counts: BTreeMap<&'static str, u32>,
    unweighted: Vec<String>,
}

impl Types<'_> {
    fn set(&mut self, name: &str, tensor: Tensor<'_>, kind: Option<&'static str>) -> Result<()> {
        let Some(kind) = kind else { return Ok(()) };
        self.assign(name, tensor, kind).map_err(|error| error.tensor(tensor.name()))?;
        *self.counts.entry(kind).or_default() += 1;
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
            return Ok(());
        }
        let is_blocks = matches!(tensor.layout(), Layout::Other(_)) && self.casts.scaling(tensor).is_none();
        if is_blocks && !self.wanted.requantize {
            let message = format!(
                "the tensor is quantized already, and quantizing it to {kind} loses more than quantizing the original does \
                 (option requantize permits it)"
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        if let Some(dtype) = plain(kind) {
            if is_blocks {
                let message = format!("option dequantize stores the tensor as {kind}");
                return Err(Error::new(Code::InvalidArg, message));
            }
            let own = tensor.dtype().filter(|&own| own != dtype && can_cast(own, dtype));
            let ordinal = u32::try_from(tensor.ordinal()).unwrap_or(u32::MAX);
            return own.map_or(Ok(()), |own| self.casts.cast_single(ordinal, own, dtype));
        }
        let known = Kind::of(kind).ok_or_else(|| {
            let message = format!("this package does not quantize to {kind}");
            Error::new(Code::InvalidArg, message)
        })?;
        length(tensor, known)?;
        let target = self.targets.entry(kind).or_insert_with(|| Arc::new(Target::new(known)));
        let weights = match self.wanted.importance.as_ref().map(|importance| importance.weights.get(name)) {
            Some(Some(weights)) if uses(name, tensor, weights)? => Some(weights.as_slice().into()),
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
