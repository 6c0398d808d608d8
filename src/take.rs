//! Loads of elements by a list of indices.

use napi::bindgen_prelude::{Float64Array, Object};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError};
use ztensor_core::read::take::Form;
use ztensor_core::work::lanes::Lane;

use crate::control::Control;
use crate::error::misuse;
use crate::file::NativeFile;
use crate::index::unsigned;
use crate::kernels;
use crate::memory::Memory;
use crate::stage::Stage;
use crate::task::spawn;

#[napi]
impl NativeFile {
    /// Loads the elements at `indices` of dimension `axis`: of a component as stored or with `widen` as float32, or without a component
    /// those of a quantized tensor as float32.
    #[napi(ts_return_type = "Promise<Memory>", catch_unwind)]
    #[allow(clippy::too_many_arguments)]
    pub fn take<'env>(
        &self,
        env: &'env Env,
        ordinal: u32,
        component: Option<u32>,
        widen: bool,
        axis: u32,
        indices: Float64Array,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let indices = indices.iter().map(|&index| unsigned(index)).collect::<Option<Vec<_>>>();
        let indices = indices.ok_or_else(|| misuse("an index that is not a whole number"))?;
        let lane = source.shared.or_remote(Lane::Long);
        let job = move || {
            source.read(|reading| {
                let tensor = source.shared.tensor(ordinal)?;
                let take = |form| reading.take(tensor, form, axis as usize, &indices);
                let Some(component) = component else { return take(Form::Dequantized) };
                let (_, component) = source.shared.part(ordinal, component)?;
                if widen {
                    let unknown = || CoreError::new(Code::BadDtype, "the element type is unknown");
                    return take(Form::Widened(component, component.dtype.ok_or_else(unknown)?));
                }
                let mut bytes = take(Form::Stored(component))?;
                kernels::to_host_order(component.dtype, &mut bytes);
                Ok(bytes)
            })
        };
        spawn(env, lane, control, job, |_, block| Ok(Memory::from(block)))
    }
}
