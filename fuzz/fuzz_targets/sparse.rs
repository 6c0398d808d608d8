//! Sparse arrays and the conversions between them, without prior validation.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ztensor_core::checked;
use ztensor_core::layouts::coo::Coo;
use ztensor_core::layouts::csr::Csr;
use ztensor_core::layouts::indices::Indices;
use ztensor_core::model::DType;

/// Maximum bytes of a dense tensor.
const MAX: u64 = 1 << 16;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    shape: Vec<u8>,
    huge: Option<u64>,
    dtype: u8,
    index_dtype: u8,
    pointer_dtype: u8,
    values: &'a [u8],
    indices: &'a [u8],
    indptr: &'a [u8],
}

fn bytes(dtype: DType, elements: u64) -> Option<usize> {
    let bits = elements.checked_mul(u64::try_from(dtype.bits()).ok()?)?;
    usize::try_from(bits.div_ceil(8)).ok().filter(|&bytes| bytes as u64 <= MAX)
}

fuzz_target!(|input: Input<'_>| {
    let Some(dtype) = DType::from_code(input.dtype % 24) else { return };
    let index = DType::from_code(input.index_dtype % 24).unwrap_or(DType::Uint64);
    let pointer = DType::from_code(input.pointer_dtype % 24).unwrap_or(DType::Uint64);
    let mut shape: Vec<u64> = input.shape.iter().take(5).map(|&dim| u64::from(dim)).collect();
    if let (Some(huge), Some(dim)) = (input.huge, shape.first_mut()) {
        *dim = huge;
    }
    let (Ok(indices), Ok(indptr)) = (Indices::new(index, input.indices), Indices::new(pointer, input.indptr))
    else {
        return;
    };
    let elements = checked::product(&shape).and_then(|elements| bytes(dtype, elements));
    if let &[rows, columns] = &*shape {
        let csr = Csr { shape: [rows, columns], dtype, values: input.values, indices, indptr };
        let sound = csr.check().is_ok();
        let mut coords = vec![0; csr.nnz() * 2 * csr.coords_dtype().element_bytes()];
        assert_eq!(csr.to_coo_coords(&mut coords).is_ok(), sound);
        if let Some(bytes) = elements {
            let made = csr.to_dense(&mut vec![0; bytes]);
            assert!(sound || made.is_err());
        }
    }
    let coo = Coo { shape: &shape, dtype, values: input.values, coords: indices };
    let sound = coo.check().is_ok();
    if let Some(bytes) = elements {
        let made = coo.to_dense(&mut vec![0; bytes]);
        assert!(sound || made.is_err());
    }
    if let &[rows, _] = &*shape
        && rows <= 1 << 12
    {
        let indptr_bytes = (rows as usize + 1) * coo.indptr_dtype().element_bytes();
        let columns = coo.nnz() * index.element_bytes();
        let made =
            coo.to_csr(&mut vec![0; input.values.len()], &mut vec![0; columns], &mut vec![0; indptr_bytes]);
        assert!(sound || made.is_err());
    }
});
