//! The rows of a table that are nearest to a vector, by an exact search.
//!
//! Every element is read once, in pieces. A row may begin in one piece and end in another one, also of another thread: its sums are added in
//! the order of the elements, so the result does not depend on the number of threads.
#![forbid(unsafe_code)]

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::analysis::elements::{Elements, chunks};
use crate::checked::index;
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::kernels::distance::{self, Metric, Sums};
use crate::kernels::widen;
use crate::model::{DType, Tensor};
use crate::read::Reading;
use crate::read::staging::stored_bytes;

/// What to search.
#[derive(Clone, Debug)]
pub struct Request {
    /// As many finite numbers as the table has columns.
    pub query: Vec<f32>,
    /// The number of rows to return.
    pub k: usize,
    pub metric: Metric,
}

/// A row that is near the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    pub row: u64,
    /// The inner product, the cosine or the distance.
    pub score: f64,
}

impl Reading<'_> {
    /// Returns the `k` rows of a tensor of two dimensions that are nearest to the query, the nearest first, and of equally near ones the
    /// first. Elements are rounded to float32. Rows whose score is NaN are left out. Fails with `BadDtype` for complex and 6-bit types, and
    /// with `InvalidArg` for tensors of other ranks or a query of another length.
    pub fn nearest(&self, tensor: Tensor<'_>, request: &Request) -> Result<Vec<Neighbor>> {
        inject::panic_at("nearest");
        check(tensor, request).map_err(|error| error.tensor(tensor.name()))?;
        // An estimate, while encoded data is decoded.
        self.watch.expect(stored_bytes(tensor).saturating_add(tensor.byte_length()), 1);
        let elements = Elements::of_tensor(self, tensor)?;
        self.search(&elements, request).map_err(|error| error.tensor(tensor.name()))
    }

    fn search(&self, elements: &Elements<'_>, request: &Request) -> Result<Vec<Neighbor>> {
        self.watch.expect_more(elements.byte_length(), 1);
        let query = Query::new(request);
        let found = chunks(elements, self.watch, |view, first, count| {
            let mut scan = Scan::new(&query, first);
            view.pieces(first, count, self.watch, |bytes, count| scan.add(elements.dtype, bytes, count))?;
            Ok(scan.finish())
        })?;
        let mut top = Top::new(request.k);
        let mut open: Option<(u64, Sums)> = None;
        for chunk in found {
            top.join(chunk.top);
            for (row, sums) in chunk.parts {
                match &mut open {
                    Some((known, all)) if *known == row => all.add(sums),
                    _ => {
                        if let Some((row, sums)) = open.replace((row, sums)) {
                            top.push(query.ranked(row, sums));
                        }
                    }
                }
            }
        }
        if let Some((row, sums)) = open {
            top.push(query.ranked(row, sums));
        }
        self.watch.did_tensor();
        Ok(top.into_neighbors(request.metric))
    }
}

fn check(tensor: Tensor<'_>, request: &Request) -> Result<()> {
    let &[_, columns] = tensor.shape() else {
        let message =
            format!("a table has two dimensions, rows and columns, but the shape is {:?}", tensor.shape());
        return Err(Error::new(Code::InvalidArg, message));
    };
    if columns != request.query.len() as u64 {
        let message = format!(
            "a query has as many numbers as the table has columns, {columns}, got {}",
            request.query.len()
        );
        return Err(Error::new(Code::InvalidArg, message));
    }
    Ok(())
}

/// The query, with its length.
struct Query<'a> {
    request: &'a Request,
    norm: f64,
}

impl<'a> Query<'a> {
    fn new(request: &'a Request) -> Self {
        let square = |&number: &f32| f64::from(number) * f64::from(number);
        Self { request, norm: request.query.iter().map(square).sum::<f64>().sqrt() }
    }

    /// Returns a row with its rank, from the sums of all its elements.
    fn ranked(&self, row: u64, sums: Sums) -> Ranked {
        let key = match self.request.metric {
            Metric::Dot => -sums.products,
            Metric::Cosine => -sums.products / (sums.squares.sqrt() * self.norm),
            Metric::Euclidean => sums.products.sqrt(),
        };
        Ranked { key, row }
    }
}

/// A row in the order of the result: the smallest key first.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    key: f64,
    row: u64,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        // -0 and 0 are equally near.
        (self.key + 0.0).total_cmp(&(other.key + 0.0)).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Ranked {}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

/// The nearest rows so far. The memory grows with the rows that are pushed, up to `k`.
struct Top {
    k: usize,
    rows: BinaryHeap<Ranked>,
}

impl Top {
    fn new(k: usize) -> Self {
        Self { k, rows: BinaryHeap::new() }
    }

    fn push(&mut self, row: Ranked) {
        if row.key.is_nan() {
            return;
        }
        if self.rows.len() < self.k {
            self.rows.push(row);
        } else if let Some(mut farthest) = self.rows.peek_mut()
            && row < *farthest
        {
            *farthest = row;
        }
    }

    fn join(&mut self, other: Self) {
        for row in other.rows {
            self.push(row);
        }
    }

    fn into_neighbors(self, metric: Metric) -> Vec<Neighbor> {
        let score = |key: f64| if metric == Metric::Euclidean { key } else { 0.0 - key };
        let sorted = self.rows.into_sorted_vec().into_iter();
        sorted.map(|Ranked { key, row }| Neighbor { row, score: score(key) }).collect()
    }
}

/// What a chunk of elements has: its nearest whole rows, and sums of the rows that begin before it or end after it, in order.
struct Scanned {
    top: Top,
    parts: Vec<(u64, Sums)>,
}

/// A pass over consecutive elements.
struct Scan<'a> {
    query: &'a Query<'a>,
    row: u64,
    /// The column of the next element.
    column: usize,
    /// The sums of the current row, from the first element on that is here.
    sums: Sums,
    /// True if the current row begins before this chunk.
    cut: bool,
    top: Top,
    parts: Vec<(u64, Sums)>,
    wide: Vec<u8>,
}

impl<'a> Scan<'a> {
    /// Begins at the element `first`.
    fn new(query: &'a Query<'a>, first: u64) -> Self {
        let width = query.request.query.len() as u64;
        let (row, column) = (first.checked_div(width), first.checked_rem(width).unwrap_or_default());
        Self {
            query,
            row: row.unwrap_or_default(),
            column: usize::try_from(column).unwrap_or_default(), // below the length of the query
            sums: Sums::default(),
            cut: column != 0,
            top: Top::new(query.request.k),
            parts: Vec::new(),
            wide: Vec::new(),
        }
    }

    /// Adds the next `count` elements.
    fn add(&mut self, dtype: DType, bytes: &[u8], count: usize) -> Result<()> {
        if distance::reads(dtype) {
            self.add_rows(dtype, bytes);
            return Ok(());
        }
        let mut wide = std::mem::take(&mut self.wide);
        wide.resize(index(count as u64 * 4, "a piece")?, 0);
        widen::to_float32(dtype, bytes, &mut wide)?;
        if cfg!(target_endian = "big") {
            crate::kernels::swap::swap_bytes(&mut wide, 4);
        }
        self.add_rows(DType::Float32, &wide);
        self.wide = wide;
        Ok(())
    }

    fn add_rows(&mut self, dtype: DType, mut bytes: &[u8]) {
        let Request { query, metric, .. } = self.query.request;
        let size = dtype.element_bytes();
        while !bytes.is_empty() {
            let columns = query.get(self.column..).unwrap_or_default();
            let here = columns.len().min(bytes.len() / size);
            if here == 0 {
                return; // a table without columns has no elements, and pieces are whole elements
            }
            let (part, rest) = bytes.split_at(here * size);
            self.sums.add(distance::sums(*metric, dtype, part, columns.get(..here).unwrap_or_default()));
            bytes = rest;
            self.column += here;
            if self.column == query.len() {
                self.end_row();
            }
        }
    }

    fn end_row(&mut self) {
        let sums = std::mem::take(&mut self.sums);
        if std::mem::take(&mut self.cut) {
            self.parts.push((self.row, sums));
        } else {
            self.top.push(self.query.ranked(self.row, sums));
        }
        self.row += 1;
        self.column = 0;
    }

    fn finish(mut self) -> Scanned {
        if self.column > 0 {
            self.parts.push((self.row, self.sums));
        }
        Scanned { top: self.top, parts: self.parts }
    }
}
