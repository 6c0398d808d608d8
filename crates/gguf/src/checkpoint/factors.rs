//! Weights that have factors in tensors of their own, by `quantization_config` of `config.json`: float8 and int8. Each element is multiplied
//! by the factor of its block, its row or its tensor.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::convert::scaled::ScaledAxis;
use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::model::DType;

use super::json::{Document, Node};
use super::source::Tensor;

/// The factors of a piece of a tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Factors {
    /// The index of the tensor of factors.
    pub source: usize,
    /// The axes of the weights, outermost first.
    pub axes: Vec<ScaledAxis>,
}

/// How the weights of a checkpoint are quantized.
pub enum Weights {
    Plain,
    /// Blocks of four-bit elements, which GGUF has, too.
    Mxfp4,
    Scaled(Scheme),
}

/// The names of factors, and the elements that share one.
pub struct Scheme {
    method: Method,
    /// The extents of a block along the last axes.
    block: Option<Vec<u64>>,
}

/// A row for each program that makes such weights.
struct Method {
    /// What names of factors end with.
    ending: &'static str,
    /// What names of their weights end with instead.
    weights: &'static str,
    /// What names of tensors end with that GGUF does not have: factors of activations and of the cache.
    unused: &'static [&'static str],
}

const INVERSE: Method = Method {
    ending: "_scale_inv",
    weights: "",
    unused: &[".activation_scale", "_activation_scale", ".input_scale"],
};
const DIRECT: Method = Method {
    ending: ".weight_scale",
    weights: ".weight",
    unused: &[".input_scale", ".output_scale", ".q_scale", ".k_scale", ".v_scale"],
};

const UNUSED: &str = "factors of activations, which GGUF does not have";

impl Weights {
    /// Fails with `ZT_UNSUPPORTED_ENCODING` for weights that are quantized in another way.
    pub fn of(config: &Document, architecture: &str) -> Result<Self> {
        let root = config.root();
        let inner = root.get("text_config").and_then(|text| text.set("quantization_config"));
        let Some(settings) = root.set("quantization_config").or(inner) else { return Ok(Self::Plain) };
        let Some(method) = settings.set("quant_method") else { return Ok(Self::Plain) };
        let method = method.text()?;
        let unsupported = |what: &str| {
            let message = format!(
                "the weights are quantized by {:?}{what}: convert the original ones",
                short(method, 40)
            );
            Err(Error::new(Code::UnsupportedEncoding, message))
        };
        match method {
            "mxfp4" if architecture == "gpt-oss" => Ok(Self::Mxfp4),
            "fp8" => {
                let block = settings.set("weight_block_size").map(|node| extents(&node)).transpose()?;
                Ok(Self::Scaled(Scheme { method: INVERSE, block }))
            }
            "compressed-tensors" => {
                let format = settings.set("format").map(|node| node.text()).transpose()?.unwrap_or_default();
                if !["float-quantized", "int-quantized", "naive-quantized"].contains(&format) {
                    return unsupported(&format!(" as {:?}", short(format, 40)));
                }
                let groups = settings
                    .set("config_groups")
                    .ok_or_else(|| settings.wrong("an object with \"config_groups\""))?;
                let mut groups = groups.entries()?;
                let (Some((_, group)), None) = (groups.next(), groups.next()) else {
                    return unsupported(" in several ways");
                };
                let weights =
                    group.set("weights").ok_or_else(|| group.wrong("an object with \"weights\""))?;
                let strategy =
                    weights.set("strategy").map(|node| node.text()).transpose()?.unwrap_or_default();
                if !["tensor", "channel", "block"].contains(&strategy) || weights.set("group_size").is_some()
                {
                    return unsupported(&format!(" by {:?}", short(strategy, 40)));
                }
                let block = weights.set("block_structure").map(|node| extents(&node)).transpose()?;
                Ok(Self::Scaled(Scheme { method: DIRECT, block }))
            }
            "modelopt" => {
                let algorithm = settings.set("quant_algo").map(|node| node.text()).transpose()?;
                match algorithm {
                    Some("FP8") => Ok(Self::Scaled(Scheme { method: DIRECT, block: None })),
                    other => unsupported(&format!(" as {:?}", short(other.unwrap_or_default(), 40))),
                }
            }
            _ => unsupported(""),
        }
    }
}

fn extents(node: &Node<'_>) -> Result<Vec<u64>> {
    let extents = node.items()?.map(|item| match item.uint()? {
        0 => Err(item.wrong("a positive integer")),
        extent => Ok(u64::from(extent)),
    });
    extents.collect()
}

/// The purpose of a tensor.
pub enum Purpose {
    Weights(Option<Factors>),
    /// Part of the weights of another tensor.
    Factors,
    Unused(&'static str),
}

impl Scheme {
    /// Returns the purpose of each tensor. Fails with `ZT_INCOMPLETE` for factors without weights, and with `ZT_BAD_SHAPE` for those that do
    /// not fit.
    pub fn purposes(&self, sources: &[Tensor<'_>]) -> Result<Vec<Purpose>> {
        let Method { ending, weights, unused } = self.method;
        let mut by_name = HashMap::with_capacity(sources.len());
        by_name.extend(sources.iter().enumerate().map(|(index, source)| (source.name, index)));
        let mut purposes: Vec<Purpose> = sources.iter().map(|_| Purpose::Weights(None)).collect();
        for (index, source) in sources.iter().enumerate() {
            let named = |error: Error| error.tensor(source.name);
            let purpose = if let Some(stem) = source.name.strip_suffix(ending) {
                let name = format!("{stem}{weights}");
                let found = by_name.get(name.as_str()).copied();
                let target = found.filter(|&target| target != index).ok_or_else(|| {
                    let message = format!(
                        "the factors of {:?}, which the checkpoint does not have",
                        short(&name, NAME)
                    );
                    named(Error::new(Code::Incomplete, message))
                })?;
                let shape = sources.get(target).map(|target| target.shape).unwrap_or_default();
                let axes = self.axes(shape, source.shape).map_err(named)?;
                if !matches!(source.dtype, DType::Float32 | DType::BFloat16 | DType::Float16) {
                    let message = format!("factors of {}, not of floats", source.dtype.name());
                    return Err(named(Error::new(Code::BadDtype, message)));
                }
                if let Some(held) = purposes.get_mut(target) {
                    *held = Purpose::Weights(Some(Factors { source: index, axes }));
                }
                Purpose::Factors
            } else if unused.iter().any(|ending| source.name.ends_with(ending)) {
                Purpose::Unused(UNUSED)
            } else {
                continue;
            };
            if let Some(held) = purposes.get_mut(index) {
                *held = purpose;
            }
        }
        Ok(purposes)
    }

    /// Returns which factors belong to which elements: factors of fewer axes are those of the first ones.
    fn axes(&self, shape: &[u64], factors: &[u64]) -> Result<Vec<ScaledAxis>> {
        let wrong = || {
            let message = match &self.block {
                Some(block) => format!("factors of the shape {factors:?} for blocks of {block:?}"),
                None => format!("factors of the shape {factors:?}"),
            };
            let message = format!("{message}, which do not fit weights of the shape {shape:?}");
            Error::new(Code::BadShape, message)
        };
        let block = self.block.as_deref().unwrap_or_default();
        let whole = factors.len().checked_sub(block.len()).ok_or_else(wrong)?;
        if factors.len() > shape.len() || !block.is_empty() && factors.len() != shape.len() {
            return Err(wrong());
        }
        let mut stride = 1_u64;
        let mut axes = Vec::with_capacity(shape.len());
        for (at, &extent) in shape.iter().enumerate().rev() {
            let count = factors.get(at).copied().unwrap_or(1);
            let block = at.checked_sub(whole).and_then(|at| block.get(at)).copied();
            // The last block may be larger than what is left of the axis.
            let covered = block.map_or(count, |block| count.saturating_mul(block).min(extent));
            axes.push(match covered {
                _ if covered == extent => ScaledAxis { extent, block: block.unwrap_or(1), stride },
                1 => ScaledAxis { extent, block: 1, stride: 0 },
                _ => return Err(wrong()),
            });
            stride = stride.checked_mul(count).ok_or_else(wrong)?;
        }
        axes.reverse();
        if axes.is_empty() {
            axes.push(ScaledAxis { extent: 1, block: 1, stride: 0 });
        }
        Ok(axes)
    }
}

/// Returns whether elements of a dtype may have factors.
pub fn is_scaled(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Float8E4M3Fn
            | DType::Float8E5M2
            | DType::Int8
            | DType::Float16
            | DType::BFloat16
            | DType::Float32
    )
}

/// Returns the dtype of weights that have factors: that of the first matrix that has none, as the reference chooses it.
pub fn common(sources: &[Tensor<'_>]) -> DType {
    let matrices = sources.iter().filter(|source| source.shape.len() > 1);
    let plain = matrices.filter(|source| matches!(source.dtype, DType::BFloat16 | DType::Float16));
    plain.min_by_key(|source| source.position).map_or(DType::Float16, |source| source.dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(block: Option<&[u64]>, shape: &[u64], factors: &[u64]) -> Result<Vec<(u64, u64, u64)>> {
        let scheme = Scheme { method: INVERSE, block: block.map(<[u64]>::to_vec) };
        let axes = scheme.axes(shape, factors)?;
        Ok(axes.into_iter().map(|axis| (axis.extent, axis.block, axis.stride)).collect())
    }

    #[test]
    fn factors_cover_blocks_rows_or_all() {
        let block: Option<&[u64]> = Some(&[128, 128]);
        assert_eq!(axes(block, &[300, 200], &[3, 2]).unwrap(), [(300, 128, 2), (200, 128, 1)]);
        assert_eq!(axes(block, &[64, 64], &[1, 1]).unwrap(), [(64, 128, 1), (64, 128, 1)]);
        assert_eq!(
            axes(block, &[4, 256, 128], &[4, 2, 1]).unwrap(),
            [(4, 1, 2), (256, 128, 1), (128, 128, 1)]
        );
        assert_eq!(axes(None, &[3, 5], &[3]).unwrap(), [(3, 1, 1), (5, 1, 0)]);
        assert_eq!(axes(None, &[3, 5], &[3, 1]).unwrap(), [(3, 1, 1), (5, 1, 0)]);
        assert_eq!(axes(None, &[3, 5], &[]).unwrap(), [(3, 1, 0), (5, 1, 0)]);
        assert_eq!(axes(None, &[3, 5], &[1]).unwrap(), [(3, 1, 0), (5, 1, 0)]);
        assert_eq!(axes(None, &[], &[]).unwrap(), [(1, 1, 0)]);
    }

    #[test]
    fn factors_that_do_not_fit_are_refused() {
        let block: Option<&[u64]> = Some(&[128, 128]);
        let cases = [
            (block, &[300, 200][..], &[2, 2][..]),
            (block, &[300, 200], &[3]),
            (block, &[300], &[3]),
            (block, &[2, 300, 200], &[3, 2]),
            (None, &[3, 5], &[5]),
            (None, &[3], &[3, 1]),
            (None, &[3, 5], &[3, 4]),
            (None, &[3, 5], &[4]),
        ];
        for (block, shape, factors) in cases {
            let code = axes(block, shape, factors).map_err(|error| error.code());
            assert_eq!(code, Err(Code::BadShape), "{shape:?} {factors:?}");
        }
    }
}
