//! Duplicate names in a file.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::model::Builder;

/// Assigns each tensor a unique name.
#[derive(Default)]
pub struct Names {
    /// The next suffix for a name.
    next: HashMap<Box<str>, u64>,
}

impl Names {
    /// Returns the name, or `name~2`, `name~3` … with a warning if another tensor has it.
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
        let message = format!("the name {name:?} is already used: this tensor is renamed to {free:?}");
        builder.warn("ZT_WARN_RENAMED", message, Some(&free), None);
        free
    }
}
