//! What layouts ask of the entries of tensors, before any data is read.

use ztensor_core::error::Code;
use ztensor_core::layouts::{self, exact};
use ztensor_core::model::{Component, DType, DataRule, Label, Layout, NewTensor};

/// A tensor of 2 rows and 3 columns with arrays of so many bytes.
fn tensor(layout: Layout, values: DType, arrays: &[(Label, u64)]) -> NewTensor<'static> {
    let component = |&(role, bytes): &(Label, u64)| {
        let dtype = if role == Label::VALUES { values } else { DType::Uint64 };
        Component::raw(role, Some(dtype), 4096, bytes)
    };
    let components = arrays.iter().map(component).collect();
    NewTensor { name: "t", shape: &[2, 3], layout, dtype: Some(values), components, attributes: None }
}

#[test]
fn sparse_arrays_must_have_matching_lengths() {
    let csr = |values, indices, indptr| {
        let arrays = [(Label::VALUES, values), (Label::INDICES, indices), (Label::INDPTR, indptr)];
        let checked = layouts::check(&mut tensor(Layout::SparseCsr, DType::Float32, &arrays));
        checked.map_err(|error| (error.code(), error.component_role().unwrap_or_default().to_owned()))
    };
    let wrong = |role: &str| Err((Code::BadSparse, role.to_owned()));
    assert_eq!(csr(8, 16, 24), Ok(()));
    assert_eq!(csr(8, 8, 24), wrong("indices"));
    assert_eq!(csr(8, 16, 16), wrong("indptr"));
    let coo = |values, coords| {
        let arrays = [(Label::VALUES, values), (Label::COORDS, coords)];
        layouts::check(&mut tensor(Layout::SparseCoo, DType::Float32, &arrays)).map_err(|error| error.code())
    };
    assert_eq!(coo(8, 32), Ok(()));
    assert_eq!(coo(8, 16), Err(Code::BadSparse));
}

#[test]
fn sparse_arrays_have_the_rules_of_their_profile() {
    let rules = |tensor: &NewTensor<'_>| tensor.components.iter().map(|part| part.rule).collect::<Vec<_>>();
    let arrays = [(Label::VALUES, 2), (Label::INDICES, 16), (Label::INDPTR, 24)];
    let mut csr = tensor(Layout::SparseCsr, DType::Bool, &arrays);
    exact::csr(&mut csr).unwrap();
    assert_eq!(rules(&csr), [Some(DataRule::Bool), Some(DataRule::RisingColumns), None]);
    let mut coo = tensor(Layout::SparseCoo, DType::Float32, &[(Label::VALUES, 8), (Label::COORDS, 32)]);
    exact::coo(&mut coo).unwrap();
    assert_eq!(rules(&coo), [None, Some(DataRule::UniqueCells)]);
}
