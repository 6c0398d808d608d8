//! Names that stand several times in a file.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::model::Builder;

/// Gives each tensor a name of its own.
#[derive(Default)]
pub struct Names {
    /// The number that the next tensor of a name gets behind it.
    next: HashMap<Box<str>, u64>,
}

impl Names {
    /// The name, or `name~2`, `name~3` … with a warning where another tensor has it.
    pub fn unique(&mut self, builder: &mut Builder, name: &str) -> String {
        if !builder.contains(name) {
            return name.to_owned();
        }
        let next = self.next.entry(name.into()).or_insert(2);
        let free = loop {
            let free = format!("{name}~{next}");
            *next += 1;
            if !builder.contains(&free) {
                break free;
            }
        };
        let message = format!("another tensor is called {name:?}: this one is {free:?}");
        builder.warn("ZT_WARN_RENAMED", message, Some(&free), None);
        free
    }
}
