//! An array or a NumPy scalar: an extension that holds a list of the shape, the name of the type and the elements, row-major.
#![forbid(unsafe_code)]

use ztensor_core::checked::{bytes_of, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{ByteOrder, DType};

use crate::msgpack::{Reader, Run, Token};

pub const RULE: &str = "flax.serialization: msgpack_serialize";
/// `_MsgpackExtType`.
const NDARRAY: i8 = 1;
pub const COMPLEX: i8 = 2;
const SCALAR: i8 = 3;
/// A limit above any allowed rank.
const DIMS: u64 = 1024;
/// Bytes of the longest name of a type.
const NAME: u64 = 256;

/// The description of an array in an extension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    pub shape: Vec<u64>,
    /// As `numpy.dtype.name` spells it.
    pub spelling: String,
    /// `None` if zTensor has no such type or packs it differently.
    pub dtype: Option<DType>,
    pub byte_order: ByteOrder,
    /// The elements.
    pub data: Run,
}

impl Array {
    /// Returns whether an extension of this type is an array or a scalar.
    pub fn is_kind(kind: i8) -> bool {
        matches!(kind, NDARRAY | SCALAR)
    }

    /// Returns the array of an extension, or `None` if its body is not an array. For known types the shape must match the number of bytes.
    /// No elements are read. Fails if the bytes cannot be read, and with `ZT_LIMIT`.
    pub fn read(reader: &mut Reader<'_>, body: Run) -> Result<Option<Self>> {
        match Self::of(reader, body) {
            Ok(array) => Ok(Some(array)),
            Err(error) if !error.is_of_item() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Parses an extension that must hold an array. Fails with `ZT_BAD_INDEX` if it does not, and with `ZT_BAD_SHAPE` if shape, type and
    /// bytes do not match.
    pub fn of(reader: &mut Reader<'_>, body: Run) -> Result<Self> {
        Self::parts(reader, body).map_err(|error| match error.code() {
            // The file extends to the end of the extension, so nothing is truncated.
            Code::Truncated => malformed(body.at),
            _ => error,
        })
    }

    fn parts(reader: &mut Reader<'_>, mut body: Run) -> Result<Self> {
        let start = body.at;
        if reader.next(&mut body)? != Token::Array(3) {
            return Err(malformed(start));
        }
        let Token::Array(rank @ ..=DIMS) = reader.next(&mut body)? else { return Err(malformed(start)) };
        let mut shape = Vec::new();
        for _ in 0..rank {
            match reader.next(&mut body)? {
                Token::Int(dim) => shape.push(u64::try_from(dim).map_err(|_| malformed(start))?),
                _ => return Err(malformed(start)),
            }
        }
        let (Token::Text(name) | Token::Bytes(name)) = reader.next(&mut body)? else {
            return Err(malformed(start));
        };
        let spelling = reader.text(name, NAME, "the name of a type")?.to_owned();
        let (Token::Bytes(data) | Token::Text(data)) = reader.next(&mut body)? else {
            return Err(malformed(start));
        };
        if body.length() > 0 {
            return Err(malformed(start));
        }
        let (dtype, byte_order) = dtype_of(&spelling);
        let array = Self { shape, spelling, dtype, byte_order, data };
        array.check()?;
        Ok(array)
    }

    fn check(&self) -> Result<()> {
        let Some(dtype) = self.dtype else { return Ok(()) };
        let needed = product(&self.shape).and_then(|elements| bytes_of(elements, dtype.bits()));
        if needed == Some(self.data.length()) {
            return Ok(());
        }
        let message = format!(
            "the shape {:?} of {} does not match the {} bytes of the array",
            self.shape,
            self.spelling,
            self.data.length()
        );
        Err(Error::new(Code::BadShape, message).at(self.data.at))
    }
}

fn malformed(at: u64) -> Error {
    Error::new(Code::BadIndex, "an array does not consist of a shape, a type and bytes").at(at)
}

/// Returns whether a range that ends with the file begins with an array that extends past that end.
pub fn is_truncated(reader: &mut Reader<'_>, rest: Run) -> Result<bool> {
    // Marker, length (8, 16 or 32 bits) and type of the extension. Its content is a list of three items, the first a list.
    let head = reader.bytes(Run { end: rest.end.min(rest.at.saturating_add(8)), ..rest })?;
    let kind = match head {
        [0xc7, _, kind, 0x93, 0x90..=0x9f, ..]
        | [0xc8, _, _, kind, 0x93, 0x90..=0x9f, ..]
        | [0xc9, _, _, _, _, kind, 0x93, 0x90..=0x9f] => *kind,
        _ => return Ok(false),
    };
    Ok(Array::is_kind(kind.cast_signed()))
}

/// Returns the type with this name or NumPy array-protocol string, which other writers may use.
fn dtype_of(spelling: &str) -> (Option<DType>, ByteOrder) {
    let by_name = |name: &str| DType::ALL.into_iter().find(|dtype| dtype.name() == name);
    // ml_dtypes stores types of 4 and 6 bits in one byte each.
    if let Some(dtype) = by_name(spelling) {
        return ((dtype.bits() >= 8).then_some(dtype), ByteOrder::Little);
    }
    let (order, kind) = match spelling.strip_prefix(['<', '>', '|', '=']) {
        Some(kind) if spelling.starts_with('>') => (ByteOrder::Big, kind),
        Some(kind) => (ByteOrder::Little, kind),
        None => (ByteOrder::Little, spelling),
    };
    let named = kind.split_at_checked(1).and_then(|(kind, bytes)| {
        let kind = match kind {
            "b" if bytes == "1" => return by_name("bool"),
            "f" => "float",
            "i" => "int",
            "u" => "uint",
            "c" => "complex",
            _ => return None,
        };
        let bits = bytes.parse::<u8>().ok().filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8 | 16))?;
        by_name(&format!("{kind}{}", u32::from(bits) * 8))
    });
    (named, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_all_their_names() {
        let (little, big) = (ByteOrder::Little, ByteOrder::Big);
        let cases = [
            ("float32", Some(DType::Float32), little),
            ("bfloat16", Some(DType::BFloat16), little),
            ("float8_e4m3fn", Some(DType::Float8E4M3Fn), little),
            ("bool", Some(DType::Bool), little),
            ("complex128", Some(DType::Complex128), little),
            ("<f4", Some(DType::Float32), little),
            (">f4", Some(DType::Float32), big),
            ("|u1", Some(DType::Uint8), little),
            ("|b1", Some(DType::Bool), little),
            ("c16", Some(DType::Complex128), little),
            ("int4", None, little),
            ("float4_e2m1fn", None, little),
            ("void16", None, little),
            ("V2", None, little),
            ("f1", None, little),
            ("", None, little),
            ("ä", None, little),
            ("str64", None, little),
        ];
        for (name, dtype, order) in cases {
            assert_eq!(dtype_of(name), (dtype, order), "{name}");
        }
    }
}
