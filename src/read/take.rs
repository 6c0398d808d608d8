//! Loads of elements by a list of indices.

use napi::bindgen_prelude::{Float64Array, Object};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::read::take::{self, Form};
use ztensor_core::work::lanes::Lane;

use crate::js::control::Control;
use crate::js::error::{misuse, throw};
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::memory::Memory;
use crate::read::opened::Shared;
use crate::read::stage::{Stage, StageBuilder};
use crate::values::arguments::unsigned;
use crate::values::kernels;

/// Returns the form in which the elements of a component are taken, or without a component those of a quantized tensor.
fn form(shared: &Shared, ordinal: u32, component: Option<u32>, widen: bool) -> CoreResult<Form<'_>> {
    let Some(component) = component else { return Ok(Form::Dequantized) };
    let (_, component) = shared.part(ordinal, component)?;
    if !widen {
        return Ok(Form::Stored(component));
    }
    let unknown = || CoreError::new(Code::BadDtype, "the element type is unknown");
    Ok(Form::Widened(component, component.dtype.ok_or_else(unknown)?))
}

fn whole(indices: &Float64Array) -> Result<Vec<u64>> {
    let indices = indices.iter().map(|&index| unsigned(index)).collect::<Option<Vec<_>>>();
    indices.ok_or_else(|| misuse("an index that is not a whole number"))
}

#[napi]
impl NativeFile {
    /// A stage for what `take` reads of a file in the caller's memory.
    #[napi(catch_unwind)]
    #[allow(clippy::needless_pass_by_value)] // napi
    pub fn stage_taken(
        &self,
        env: Env,
        ordinal: u32,
        component: Option<u32>,
        widen: bool,
        axis: u32,
        indices: Float64Array,
    ) -> Result<StageBuilder> {
        let (shared, indices) = (self.shared(&env)?, whole(&indices)?);
        let tensor = throw(&env, shared.tensor(ordinal))?;
        let form = throw(&env, form(&shared, ordinal, component, widen))?;
        match take::ranges(tensor, form, axis as usize, &indices) {
            Some(ranges) => throw(&env, StageBuilder::new(ranges, shared.length)),
            None => self.stage(env, ordinal, None),
        }
    }

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
        let indices = whole(&indices)?;
        let lane = source.shared.or_remote(Lane::Long);
        let job = move || {
            source.read(|reading| {
                let tensor = source.shared.tensor(ordinal)?;
                let form = form(&source.shared, ordinal, component, widen)?;
                let mut bytes = reading.take(tensor, form, axis as usize, &indices)?;
                if let Form::Stored(component) = form {
                    kernels::to_host_order(component.dtype, &mut bytes);
                }
                Ok(bytes)
            })
        };
        spawn(env, lane, control, job, |_, block| Ok(Memory::from(block)))
    }
}
