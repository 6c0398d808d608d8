//! PyTorch checkpoints written by `torch.save` and `torch.jit.save`. Tensors are named by their paths in the pickled values; the pickle is
//! never executed. `torch.serialization` and `torch._utils` are the only specification.
#![forbid(unsafe_code)]

mod archive;
mod element_type;
mod expand;
mod legacy;
mod list;
mod tensor;

use ztensor_core::error::Result;
use ztensor_core::formats::{Confidence, Format, Input, Probe};
use ztensor_core::model::{Builder, Catalog, Container};

const NAME: &str = "pytorch";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "PyTorch",
    endings: &["pt", "pth", "bin", "ckpt"],
    missing: "no PyTorch archive",
    detect,
    parse,
    writes: &[],
    header: None,
};

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    match archive::detect(probe)? {
        Confidence::No => legacy::detect(probe),
        confidence => Ok(confidence),
    }
}

/// Reads the pickle of a checkpoint.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let builder = Builder::new(Container::named(NAME), input.limits);
    if legacy::detect(&Probe::new(input.source, input.stop))? == Confidence::Certain {
        legacy::parse(input, builder)
    } else {
        archive::parse(input, builder)
    }
}
