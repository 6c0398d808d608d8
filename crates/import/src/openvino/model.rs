//! The element `<net>`: layers, including those of nested bodies, and model metadata.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::model::{Builder, Catalog};

use super::details::{self, Argument, Budget};
use super::dtypes;
use super::tensors::{Constant, Tensors};
use super::xml::{Document, Element};
use crate::limits::OPENVINO_PATH_BYTES;

pub const ROOT: &str = "net";
const RULE: &str = "OpenVINO IR: net";
/// The supported versions of the format.
const VERSIONS: std::ops::RangeInclusive<u64> = 10..=11;

/// Values charged for the attributes of the model itself.
const OUTER_VALUES: u32 = 20;

/// `bytes`: all of the `.xml`. `max`: limit on its size and what is retained of it. `None` if there is no `<net>` with a version.
pub fn read(input: &Input<'_>, bytes: &[u8], max: u64, mut builder: Builder) -> Result<Option<Catalog>> {
    let mut document = Document::new(bytes, input.stop)?;
    let Some(root) = document.child()?.filter(|root| root.name() == ROOT) else { return Ok(None) };
    let [name, version] = root.attributes(["name", "version"])?;
    let Some(version) = version.as_deref().and_then(dtypes::number) else { return Ok(None) };
    if !VERSIONS.contains(&version) {
        let message = format!(
            "the model has OpenVINO IR version {version}; versions 10 and 11 are supported. Convert the model again with \
             OpenVINO 2020.1 or later"
        );
        return Err(Error::new(Code::UnsupportedVersion, message).at(root.at).rule(RULE));
    }
    builder.set_version(version.to_string());
    let mut net = Net {
        budget: Budget::new(input.limits.made_values().saturating_sub(OUTER_VALUES)),
        inputs: Vec::new(),
        outputs: Vec::new(),
        tensors: Tensors::new(builder, input, max.saturating_sub(bytes.len() as u64)),
    };
    let mut attributes = Vec::new();
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        attributes.push((Value::from("name"), Value::Text(name)));
    }
    let mut seen: Vec<&str> = Vec::new();
    while let Some(element) = document.child()? {
        match element.name() {
            "layers" => net.layers(&mut document, "")?,
            tag => match ["rt_info", "meta_data"].into_iter().find(|known| *known == tag) {
                Some(tag) if !seen.contains(&tag) => {
                    seen.push(tag);
                    let values = details::tree(&mut document, &mut net.budget)?;
                    attributes.push((Value::from(tag), Value::Map(values)));
                }
                _ => document.skip()?,
            },
        }
    }
    if let Some(second) = document.child()? {
        return Err(second.bad("the document has a second root"));
    }
    let Net { budget, inputs, outputs, mut tensors } = net;
    for (key, arguments) in [("inputs", inputs), ("outputs", outputs)] {
        attributes.push((Value::from(key), Value::Array(arguments)));
    }
    if budget.is_spent {
        let message = "more values than maxAttributeValues: some of rt_info, inputs and outputs are omitted";
        tensors.builder.warn("ZT_WARN_SKIPPED", message, None, None);
    }
    tensors.builder.set_attributes(attributes.into());
    Ok(Some(tensors.finish()))
}

struct Net<'i> {
    tensors: Tensors<'i>,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    budget: Budget,
}

impl Net<'_> {
    /// Reads the layers in the innermost open element. `path` prefixes their names; it is empty for the model itself.
    fn layers(&mut self, document: &mut Document<'_>, path: &str) -> Result<()> {
        while let Some(element) = document.child()? {
            if element.name() == "layer" {
                self.layer(document, &element, path)?;
            } else {
                document.skip()?;
            }
        }
        Ok(())
    }

    fn layer(&mut self, document: &mut Document<'_>, layer: &Element<'_>, path: &str) -> Result<()> {
        let [id, name, kind] = layer.attributes(["id", "name", "type"])?;
        let name = name.filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("layer{}", id.unwrap_or_default()));
        let kind = kind.unwrap_or_default();
        let (mut constant, mut port) = (Constant::default(), Port::default());
        while let Some(element) = document.child()? {
            match element.name() {
                "data" => {
                    let names = ["element_type", "shape", "offset", "size"];
                    let [kind, shape, offset, size] = element.attributes(names)?;
                    constant = Constant { kind, shape, offset, size };
                    document.skip()?;
                }
                "input" | "output" => port = Port::read(document)?,
                "blobs" => {
                    let message = format!(
                        "the layer {name:?} stores its weights in <blobs>, a form of IR version 7 that is not supported"
                    );
                    self.tensors.builder.warn("ZT_WARN_SKIPPED", message, None, None);
                    document.skip()?;
                }
                body if body == "body" || body.ends_with("_body") => {
                    let inner = format!("{path}{name}.{body}.");
                    if inner.len() > OPENVINO_PATH_BYTES {
                        let message = format!("the path of layers has more than {OPENVINO_PATH_BYTES} bytes");
                        return Err(Error::new(Code::Limit, message).at(layer.at).rule(RULE));
                    }
                    self.body(document, &inner)?;
                }
                _ => document.skip()?,
            }
        }
        match &*kind {
            "Const" => self.tensors.add(path, &name, &constant, layer.at)?,
            "Parameter" if path.is_empty() => {
                let kind = constant.kind.unwrap_or_else(|| dtypes::of_precision(&port.precision));
                let argument = Argument { name, kind, shape: constant.shape };
                self.inputs.extend(argument.into_value(&mut self.budget));
            }
            "Result" if path.is_empty() => {
                let kind = dtypes::of_precision(&port.precision);
                // A port states no dimensions for a scalar or an unknown rank.
                let shape = Some(port.shape).filter(|shape| !shape.is_empty());
                let argument = Argument { name, kind, shape };
                self.outputs.extend(argument.into_value(&mut self.budget));
            }
            _ => {}
        }
        Ok(())
    }

    fn body(&mut self, document: &mut Document<'_>, path: &str) -> Result<()> {
        while let Some(element) = document.child()? {
            if element.name() == "layers" {
                self.layers(document, path)?;
            } else {
                document.skip()?;
            }
        }
        Ok(())
    }
}

/// The first port of an input or output.
#[derive(Default)]
struct Port {
    precision: String,
    /// The shape as spelled by `data`.
    shape: String,
}

impl Port {
    fn read(document: &mut Document<'_>) -> Result<Self> {
        let mut first = None;
        while let Some(element) = document.child()? {
            if element.name() != "port" || first.is_some() {
                document.skip()?;
                continue;
            }
            let [precision] = element.attributes(["precision"])?;
            let mut dims = Vec::new();
            while let Some(element) = document.child()? {
                if element.name() == "dim" {
                    dims.push(document.text()?.trim().to_owned());
                } else {
                    document.skip()?;
                }
            }
            first = Some(Self { precision: precision.unwrap_or_default(), shape: dims.join(",") });
        }
        Ok(first.unwrap_or_default())
    }
}
