//! Links to tensors whose bytes stay in another file.
#![forbid(unsafe_code)]

use super::{Spec, Writer};
use crate::error::{Code, Error, Result};
use crate::formats::{Sharding, TensorHeader};
use crate::model::{Catalog, Layout, NewTensor, Shard, Tensor};

impl Writer {
    /// Adds a tensor whose bytes stay in the file `shard`, described by `catalog`.
    pub fn link(&mut self, name: &str, tensor: Tensor<'_>, catalog: &Catalog, shard: Shard) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::new(Code::InvalidArg, "another tensor is still being written"));
        }
        let Sharding::Data(data) = self.settings.format.shards else { return Err(no_links(name)) };
        if self.settings.canonical {
            return Err(no_links(name));
        }
        if self.edit.is_some() {
            let message = "a file that is edited takes no links: write a new root that links to both files";
            return Err(Error::new(Code::InvalidArg, message).tensor(name));
        }
        let spec = Spec {
            name,
            shape: tensor.shape(),
            layout: tensor.layout_name(),
            dtype: tensor.dtype(),
            attributes: tensor.attributes(),
            components: &[],
        };
        let announced = TensorHeader {
            shape: tensor.shape(),
            name,
            layout: spec.layout,
            attributes: spec.attributes,
            roles: &[],
            canonical: false,
        };
        let linked = (self.settings.format.check_announced)(&announced).and_then(|()| {
            if self.has_added(name) {
                return Err(Error::new(Code::BadIndex, "a tensor of this name was added already"));
            }
            (data.check_linked)(tensor, catalog, &shard)?;
            self.shards.link(tensor, shard)
        });
        let mut components = linked.map_err(|error| error.tensor(name))?;
        for component in &mut components {
            component.role = self.builder.intern(catalog.label(component.role));
        }
        let layout = Layout::from_label(self.builder.intern(spec.layout));
        let Spec { shape, dtype, attributes, .. } = spec;
        let attributes = attributes.cloned();
        self.builder.add_tensor(NewTensor { name, shape, layout, dtype, components, attributes })
    }
}

fn no_links(name: &str) -> Error {
    let message = "only zTensor 2 links to other files";
    let hint = ", with canonical: false: a canonical file is one file";
    Error::new(Code::InvalidArg, message).hint("canonical", hint).tensor(name)
}
