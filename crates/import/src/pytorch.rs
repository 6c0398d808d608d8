//! PyTorch's checkpoints: what `torch.save` and `torch.jit.save` write. Tensors are found by their paths in the pickled values;
//! nothing of the pickle is run. `torch.serialization` and `torch._utils` are all the specification that there is.
#![forbid(unsafe_code)]

mod archive;
mod expand;
mod kind;
mod legacy;
mod list;
mod tensor;

use ztensor_core::error::Result;
use ztensor_core::formats::{Format, Input, Sample, Told};
use ztensor_core::model::{Catalog, Container};

const NAME: &str = "pytorch";
const CONTAINER: Container = Container::named(NAME);

pub const FORMAT: Format = Format {
    name: NAME,
    title: "PyTorch",
    endings: &["pt", "pth", "bin", "ckpt"],
    lacks: "no PyTorch archive",
    tell,
    parse,
    writes: &[],
};

fn tell(sample: &Sample<'_>) -> Result<Told> {
    match archive::tell(sample)? {
        Told::No => legacy::tell(sample),
        told => Ok(told),
    }
}

/// Reads the pickle of a checkpoint.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    if legacy::tell(&Sample::new(input.source, input.stop))? == Told::Yes {
        legacy::parse(input)
    } else {
        archive::parse(input)
    }
}
