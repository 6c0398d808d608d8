//! What threads share of an open file, and how it is opened.

use std::path::Path;
use std::sync::Arc;

use napi_derive::napi;
use ztensor_core::catalog::{Catalog, Component, Container, Tensor};
use ztensor_core::detect;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::limits::Limits;
use ztensor_core::read::Reading;
use ztensor_core::source::file::FileSource;
use ztensor_core::source::files::Files;
use ztensor_core::source::staged::Staged;
use ztensor_core::source::{ReadAt, Sources};
use ztensor_core::work::Watch;

use crate::index::unsigned;

/// What the wrapper asks of an opening.
#[napi(object)]
pub struct OpenRequest {
    pub format: Option<String>,
    pub max_index_bytes: Option<f64>,
    pub max_decoded_bytes: Option<f64>,
    pub max_rank: Option<f64>,
    pub max_attribute_values: Option<f64>,
}

impl OpenRequest {
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        let small = |value: Option<f64>| {
            value.and_then(unsigned).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
        };
        Limits {
            max_index_bytes: self.max_index_bytes.and_then(unsigned),
            max_decoded_bytes: self.max_decoded_bytes.and_then(unsigned).unwrap_or(default.max_decoded_bytes),
            max_rank: small(self.max_rank).unwrap_or(default.max_rank),
            max_attribute_values: small(self.max_attribute_values).unwrap_or(default.max_attribute_values),
        }
    }

    fn container(&self) -> Option<Container> {
        self.format.as_deref().and_then(Container::from_name)
    }
}

/// What threads share of an open file.
pub struct Shared {
    pub catalog: Catalog,
    /// `None` for memory of the caller's, of which pieces are staged for each call.
    pub files: Option<Files>,
    /// Bytes of all files.
    pub length: u64,
    limits: Limits,
}

impl Shared {
    pub fn open(path: &str, request: &OpenRequest) -> CoreResult<Self> {
        let limits = request.limits();
        let path = Path::new(path);
        let source = FileSource::open(path)?;
        let catalog = detect::parse(&source, request.container(), &limits)?;
        Ok(Self { catalog, length: source.length(), files: Some(Files::lone(path, source)), limits })
    }

    pub fn from_memory(bytes: &[u8], request: &OpenRequest) -> CoreResult<Self> {
        let limits = request.limits();
        let catalog = detect::parse(&bytes, request.container(), &limits)?;
        Ok(Self { catalog, length: bytes.len() as u64, files: None, limits })
    }

    pub fn part(&self, ordinal: u32, component: u32) -> CoreResult<(Tensor<'_>, &Component)> {
        let tensor = self.tensor(ordinal)?;
        let component = tensor.components().get(component as usize);
        Ok((tensor, component.ok_or_else(|| CoreError::new(Code::Internal, "no such component"))?))
    }

    pub fn tensor(&self, ordinal: u32) -> CoreResult<Tensor<'_>> {
        self.catalog.tensor(ordinal as usize).ok_or_else(|| CoreError::new(Code::Internal, "no such tensor"))
    }

    /// Calls `read` with the file, or with what the caller staged of its memory.
    pub fn reading<T>(
        &self,
        staged: Option<&Staged>,
        watch: &Watch,
        read: impl FnOnce(Reading<'_>) -> CoreResult<T>,
    ) -> CoreResult<T> {
        let nothing: &[u8] = &[]; // enough for what stands in the index
        let sources: &dyn Sources = match (&self.files, staged) {
            (Some(files), _) => files,
            (None, Some(staged)) => staged,
            (None, None) => &nothing,
        };
        read(Reading { sources, catalog: &self.catalog, limits: &self.limits, watch })
    }
}

/// An open file on its way to another thread.
pub struct Reader {
    pub shared: Arc<Shared>,
    pub staged: Option<Arc<Staged>>,
    pub watch: Watch,
}

impl Reader {
    pub fn read<T>(&self, read: impl FnOnce(Reading<'_>) -> CoreResult<T>) -> CoreResult<T> {
        self.shared.reading(self.staged.as_deref(), &self.watch, read)
    }
}
