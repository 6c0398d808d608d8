//! Sums over the elements of a row and a query in one pass: inner products, norms, and distances.
//!
//! Elements are added in 32 float32 sums side by side. With AVX2 the vectors are twice as wide as the baseline; the results are
//! bit-identical.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use multiversion::multiversion;

use crate::model::DType;

/// How near two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The inner product.
    Dot,
    /// The inner product of the vectors with length 1.
    Cosine,
    /// The length of the difference.
    Euclidean,
}

impl Metric {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "dot" => Some(Self::Dot),
            "cosine" => Some(Self::Cosine),
            "euclidean" => Some(Self::Euclidean),
            _ => None,
        }
    }
}

/// Sums over elements of a row. Those of consecutive elements are added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Of the products, or for [`Metric::Euclidean`] of the squared differences.
    pub products: f64,
    /// Of the squared elements of the row; 0 unless for [`Metric::Cosine`].
    pub squares: f64,
}

impl Sums {
    pub fn add(&mut self, other: Self) {
        self.products += other.products;
        self.squares += other.squares;
    }
}

/// Returns whether [`sums`] reads elements of a dtype. Others are widened to float32 before.
pub const fn reads(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::BFloat16 | DType::Int8 | DType::Uint8)
}

/// Returns the sums of little-endian elements and as many numbers of a query. The dtype must be one that it [`reads`].
pub fn sums(metric: Metric, dtype: DType, row: &[u8], query: &[f32]) -> Sums {
    match dtype {
        DType::BFloat16 => by_metric::<2, BFloat16>(metric, row, query),
        DType::Int8 => by_metric::<1, Int8>(metric, row, query),
        DType::Uint8 => by_metric::<1, Uint8>(metric, row, query),
        _ => by_metric::<4, Float32>(metric, row, query),
    }
}

/// An element of `WIDTH` bytes in memory.
trait Element<const WIDTH: usize> {
    fn number(stored: [u8; WIDTH]) -> f32;
}

struct Float32;
impl Element<4> for Float32 {
    #[inline(always)]
    fn number(stored: [u8; 4]) -> f32 {
        f32::from_le_bytes(stored)
    }
}

struct BFloat16;
impl Element<2> for BFloat16 {
    #[inline(always)]
    fn number(stored: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(stored)) << 16)
    }
}

struct Int8;
impl Element<1> for Int8 {
    #[inline(always)]
    fn number([stored]: [u8; 1]) -> f32 {
        f32::from(stored.cast_signed())
    }
}

struct Uint8;
impl Element<1> for Uint8 {
    #[inline(always)]
    fn number([stored]: [u8; 1]) -> f32 {
        f32::from(stored)
    }
}

fn by_metric<const WIDTH: usize, E: Element<WIDTH>>(metric: Metric, row: &[u8], query: &[f32]) -> Sums {
    let row = row.as_chunks().0;
    match metric {
        Metric::Dot => walk::<WIDTH, E, DOT>(row, query),
        Metric::Cosine => walk::<WIDTH, E, COSINE>(row, query),
        Metric::Euclidean => walk::<WIDTH, E, EUCLIDEAN>(row, query),
    }
}

const DOT: u8 = 0;
const COSINE: u8 = 1;
const EUCLIDEAN: u8 = 2;

/// Independent sums, for the vector units.
const LANES: usize = 32;

#[multiversion(targets("x86_64+avx2"))]
fn walk<const WIDTH: usize, E: Element<WIDTH>, const METRIC: u8>(row: &[[u8; WIDTH]], query: &[f32]) -> Sums {
    walks::<WIDTH, E, METRIC>(row, query)
}

#[inline(always)]
fn walks<const WIDTH: usize, E: Element<WIDTH>, const METRIC: u8>(
    row: &[[u8; WIDTH]],
    query: &[f32],
) -> Sums {
    let (mut products, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (chunks, rest) = row.as_chunks::<LANES>();
    let (queries, query_rest) = query.as_chunks::<LANES>();
    for (chunk, numbers) in chunks.iter().zip(queries) {
        add::<WIDTH, E, METRIC>(chunk, numbers, &mut products, &mut squares);
    }
    add::<WIDTH, E, METRIC>(rest, query_rest, &mut products, &mut squares);
    let total = |sums: [f32; LANES]| sums.into_iter().map(f64::from).sum();
    Sums { products: total(products), squares: if METRIC == COSINE { total(squares) } else { 0.0 } }
}

#[inline(always)]
fn add<const WIDTH: usize, E: Element<WIDTH>, const METRIC: u8>(
    row: &[[u8; WIDTH]],
    query: &[f32],
    products: &mut [f32; LANES],
    squares: &mut [f32; LANES],
) {
    for ((product, square), (&stored, &number)) in products.iter_mut().zip(squares).zip(row.iter().zip(query))
    {
        let element = E::number(stored);
        if METRIC == EUCLIDEAN {
            let difference = element - number;
            *product += difference * difference;
        } else {
            *product += element * number;
        }
        if METRIC == COSINE {
            *square += element * element;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wide_vectors_find_the_same_to_the_last_bit(
            pairs in prop::collection::vec((any::<u32>(), -1e3_f32..1e3), 0..200),
        ) {
            let query: Vec<f32> = pairs.iter().map(|&(_, number)| number).collect();
            // Finite elements: the payload of a NaN is not defined.
            let row: Vec<[u8; 4]> = pairs.iter().map(|&(bits, _)| (bits & 0xbfff_ffff).to_le_bytes()).collect();
            prop_assert_eq!(walk::<4, Float32, DOT>(&row, &query), walks::<4, Float32, DOT>(&row, &query));
            prop_assert_eq!(walk::<4, Float32, COSINE>(&row, &query), walks::<4, Float32, COSINE>(&row, &query));
            prop_assert_eq!(walk::<4, Float32, EUCLIDEAN>(&row, &query), walks::<4, Float32, EUCLIDEAN>(&row, &query));
        }

        #[test]
        fn sums_are_near_those_in_float64(pairs in prop::collection::vec((any::<u8>(), -10.0_f32..10.0), 0..200)) {
            let row: Vec<u8> = pairs.iter().map(|&(byte, _)| byte).collect();
            let query: Vec<f32> = pairs.iter().map(|&(_, number)| number).collect();
            let wide = |dtype, byte: u8| if dtype == DType::Int8 { f64::from(byte.cast_signed()) } else { f64::from(byte) };
            for dtype in [DType::Int8, DType::Uint8] {
                let sum = |term: fn(f64, f64) -> f64| -> f64 {
                    pairs.iter().map(|&(byte, number)| term(wide(dtype, byte), f64::from(number))).sum()
                };
                let [dot, cosine, euclidean] = [Metric::Dot, Metric::Cosine, Metric::Euclidean]
                    .map(|metric| sums(metric, dtype, &row, &query));
                prop_assert!((dot.products - sum(|x, q| x * q)).abs() < 1.0);
                prop_assert_eq!(cosine.products.to_bits(), dot.products.to_bits());
                prop_assert!((cosine.squares - sum(|x, _| x * x)).abs() < 8.0);
                prop_assert!((euclidean.products - sum(|x, q| (x - q) * (x - q))).abs() < 8.0);
            }
        }
    }

    #[test]
    fn each_dtype_is_read_as_its_numbers() {
        let query = [1.0, 10.0];
        let found = |dtype, row: &[u8]| sums(Metric::Dot, dtype, row, &query).products;
        assert_eq!(found(DType::Int8, &[0xff, 2]).to_bits(), 19_f64.to_bits());
        assert_eq!(found(DType::Uint8, &[0xff, 2]).to_bits(), 275_f64.to_bits());
        assert_eq!(found(DType::BFloat16, &[0x80, 0xbf, 0x00, 0x40]).to_bits(), 19_f64.to_bits());
        let row: Vec<u8> = [-1.0_f32, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(found(DType::Float32, &row).to_bits(), 19_f64.to_bits());
    }
}
