//! Rotary position embeddings: parameters, and the factors that some models add to the frequencies.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result, short};

use super::config::{Assumed, Config};
use super::json::Node;
use super::parameters::Metadata;
use crate::value::{Array, Value};

/// What `config.json` says about them, in its several spellings.
pub struct Rope<'d> {
    /// The object of full attention, or the only one.
    full: Option<Node<'d>>,
    sliding: Option<Node<'d>>,
    /// Keys next to the objects.
    theta: Option<f64>,
    local_theta: Option<f64>,
    original: Option<Node<'d>>,
    partial: Option<Node<'d>>,
    /// Pairs of elements for each axis of positions: time, height and width.
    sections: Option<Node<'d>>,
}

impl<'d> Rope<'d> {
    pub fn new(config: &Config<'d>) -> Result<Self> {
        let given = config.value(&["rope_parameters"]).or_else(|| config.value(&["rope_scaling"]));
        let given = given.filter(Node::is_object);
        let of = |key: &str| given.as_ref().and_then(|node| node.get(key)).filter(Node::is_object);
        let (full, sliding) = (of("full_attention"), of("sliding_attention"));
        let keys =
            &["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"];
        let local = &[
            "local_rope_theta",
            "rope_local_theta",
            "rope_theta_local",
            "swa_rope_theta",
            "rope_local_base_freq",
        ];
        Ok(Self {
            sections: given.as_ref().and_then(|node| node.set("mrope_section")),
            full: full.or_else(|| given.filter(|_| sliding.is_none())),
            sliding,
            theta: config.float(keys)?,
            local_theta: config.float(local)?,
            original: config.value(&["original_max_position_embeddings"]),
            partial: config.value(&["partial_rotary_factor", "rope_pct", "rope_percent"]),
        })
    }

    /// Returns a value of full attention.
    pub fn get(&self, key: &str) -> Option<Node<'d>> {
        self.full.as_ref()?.set(key)
    }

    pub fn kind(&self) -> Result<Option<&'d str>> {
        self.get("rope_type").or_else(|| self.get("type")).map(|node| node.text()).transpose()
    }

    fn float(&self, key: &str) -> Result<Option<f64>> {
        self.get(key).map(|node| node.float()).transpose()
    }

    pub fn theta(&self) -> Result<Option<f64>> {
        Ok(self.float("rope_theta")?.or(self.theta))
    }

    /// Returns the context length before an extension.
    pub fn original(&self) -> Result<Option<u32>> {
        let key = "original_max_position_embeddings";
        self.get(key).or_else(|| self.original.clone()).map(|node| node.uint()).transpose()
    }

    /// Returns the part of each head that is rotated.
    pub fn partial(&self) -> Result<Option<f64>> {
        let node = self.get("partial_rotary_factor").or_else(|| self.partial.clone());
        node.map(|node| node.float()).transpose()
    }

    pub fn sliding_theta(&self) -> Result<Option<f64>> {
        let held = self.sliding.as_ref().and_then(|node| node.set("rope_theta"));
        Ok(held.map(|node| node.float()).transpose()?.or(self.local_theta))
    }

    /// Returns what is lost: kinds of scaling that llama.cpp does not have.
    pub fn lost(&self) -> Result<Option<String>> {
        let factor = self.float("factor")?;
        let kind = match self.kind()? {
            None | Some("default" | "mrope" | "su" | "longrope") => return Ok(None),
            Some("linear" | "yarn") if factor.is_some() => return Ok(None),
            Some(kind) if kind.eq_ignore_ascii_case("llama3") => return Ok(None),
            Some(kind) => kind,
        };
        let what = if factor.is_none() { " without factor" } else { "" };
        Ok(Some(format!(
            "the scaling of rotary embeddings {:?}{what} of 'config.json' is left out: llama.cpp does not have it",
            short(kind, 40)
        )))
    }

    /// Sets the scaling and the base frequencies.
    pub fn describe(&self, config: &Config<'_>, metadata: &mut Metadata) -> Result<()> {
        let factor = self.float("factor")?;
        match (self.kind()?, factor) {
            (Some("linear"), Some(factor)) => {
                metadata.own("rope.scaling.type", "linear");
                metadata.own_float("rope.scaling.factor", factor);
            }
            (Some("yarn"), Some(factor)) => {
                metadata.own("rope.scaling.type", "yarn");
                metadata.own_float("rope.scaling.factor", factor);
                // transformers takes the context length of the configuration where the original one is missing.
                let original = self.original()?.or(config.uint(&["max_position_embeddings"])?);
                metadata.own("rope.scaling.original_context_length", original.unwrap_or_default());
                for (key, names) in YARN {
                    let node = names.iter().find_map(|name| self.get(name));
                    if let Some(value) = node.map(|node| node.float()).transpose()? {
                        metadata.own_float(key, value);
                    }
                }
            }
            (Some("su" | "longrope"), _) => metadata.own("rope.scaling.type", "longrope"),
            _ => {}
        }
        if let Some(sections) = &self.sections {
            // Four axes, of which the last ones may have none.
            let mut counts: Vec<i32> =
                sections.items()?.take(4).map(|item| item.int()).collect::<Result<_>>()?;
            counts.resize(4, 0);
            metadata.own("rope.dimension_sections", Value::Array(Array::Int32(counts)));
        }
        if let Some(theta) = self.theta()? {
            metadata.own_float("rope.freq_base", theta);
        }
        if let Some(theta) = self.sliding_theta()? {
            metadata.own_float("rope.freq_base_swa", theta);
        }
        Ok(())
    }

    /// Returns a divisor for each pair of elements of a head, if they are scaled as in Llama 3 (`llama3` in `modeling_rope_utils.py` of
    /// transformers): long waves by the factor, short ones not at all, those between by a mixture.
    pub fn llama3(&self, size: u32) -> Result<Option<Vec<f32>>> {
        if !self.kind()?.is_some_and(|kind| kind.eq_ignore_ascii_case("llama3")) {
            return Ok(None);
        }
        if size > MAX {
            return Err(too_large(size));
        }
        let base = self.theta()?.unwrap_or(10_000.0);
        let factor = self.float("factor")?.unwrap_or(8.0);
        let low = self.float("low_freq_factor")?.unwrap_or(1.0);
        let high = self.float("high_freq_factor")?.unwrap_or(4.0);
        let context = f64::from(self.original()?.unwrap_or(8192));
        let (longest, shortest) = (context / low, context / high);
        let divisor = |pair: u32| {
            // In single precision, as torch computes them.
            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
            let frequency = 1.0 / (base as f32).powf((2 * pair) as f32 / size as f32);
            #[allow(clippy::cast_possible_truncation)]
            let wave = std::f64::consts::TAU as f32 / frequency;
            if f64::from(wave) < shortest {
                return 1.0;
            }
            #[allow(clippy::cast_possible_truncation)]
            if f64::from(wave) > longest {
                return factor as f32;
            }
            #[allow(clippy::cast_possible_truncation)]
            {
                let smooth = (context as f32 / wave - low as f32) / (high - low) as f32;
                1.0 / ((1.0 - smooth) / factor as f32 + smooth)
            }
        };
        Ok(Some((0..size.div_ceil(2)).map(divisor).collect()))
    }

    /// Returns the numbers of a list, at most one for each pair of elements of a head.
    pub fn factors(&self, key: &str, size: u32) -> Result<Option<Vec<f32>>> {
        let Some(node) = self.get(key).filter(Node::is_truthy) else { return Ok(None) };
        let items = node.items()?;
        if items.len() != size as usize / 2 {
            return Err(node.wrong(&format!("a list of {} numbers, half of a head", size / 2)));
        }
        #[allow(clippy::cast_possible_truncation)]
        items.map(|item| item.float().map(|number| number as f32)).collect::<Result<_>>().map(Some)
    }
}

const YARN: &[(&str, &[&str])] = &[
    ("rope.scaling.yarn_ext_factor", &["extrapolation_factor"]),
    ("rope.scaling.yarn_attn_factor", &["attention_factor", "attn_factor"]),
    ("rope.scaling.yarn_beta_fast", &["beta_fast"]),
    ("rope.scaling.yarn_beta_slow", &["beta_slow"]),
];

/// The base of the frequencies that transformers assumes.
pub const THETA: (&str, Assumed) = ("rope_theta", Assumed::Number(10_000.0));

/// Maximum size of a head. Real ones have up to 576.
pub const MAX: u32 = 1 << 16;

pub fn too_large(size: u32) -> Error {
    Error::new(Code::Limit, format!("heads of {size} elements, more than {MAX}"))
}
