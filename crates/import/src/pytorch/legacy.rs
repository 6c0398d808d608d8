//! Checkpoints written by `torch.save` before 1.6: consecutive pickles, then the storages.
//!
//! A magic number, the protocol, system information, the values, the keys of the storages; then for each key the number of elements in 8
//! bytes and the elements, always little-endian.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;
use ztensor_core::arrange::Arrange;

use ztensor_core::checked::{end_within, u64_le};
use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::formats::{Confidence, Input, Probe};
use ztensor_core::model::{Blob, Builder, ByteOrder, Catalog};

use super::element_type::ElementType;
use super::expand::Torch;
use super::list::{self, Context};
use super::tensor;
use crate::damage::Damage;
use crate::limits::PICKLE_BYTES;
use crate::pickle::{Node, Pickle, Value, attributes, walk};

const RULE: &str = "torch.serialization: legacy format";
/// 0x1950a86a20f9469cfc6c, as encoded by pickle protocols 2 and later, and by earlier ones.
const MAGIC: &[u8] = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19";
const MAGIC_LINE: &[u8] = b"L119547037146038801333356L\n";
/// Bytes in which the magic number must be found: a protocol and a frame may precede it.
const HEAD: u64 = 32;
const PROTOCOL: i64 = 1001;
/// Bytes of the pickles that are read first; their length is not stored.
const FIRST: u64 = 256 << 10;

/// Possible sizes of elements of unknown type.
const WIDTHS: [u64; 5] = [1, 2, 4, 8, 16];

pub fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let first = probe.first(HEAD)?;
    let found = first.starts_with(MAGIC_LINE) || first.windows(MAGIC.len()).any(|window| window == MAGIC);
    Ok(if found && matches!(first.first(), Some(0x80 | 0x8a | b'L')) {
        Confidence::Certain
    } else {
        Confidence::No
    })
}

pub fn parse(input: &Input<'_>, builder: Builder) -> Result<Catalog> {
    let max = input.limits.max_index_bytes.unwrap_or(PICKLE_BYTES).min(input.length());
    let mut length = FIRST.min(max);
    loop {
        match Pickles::read(&input.read_owned(0, length)?, input) {
            Err(error) if error.code() == Code::Truncated && length < max => {
                length = length.saturating_mul(4).min(max);
            }
            Err(error) if error.code() == Code::Truncated && max < input.length() => {
                let message = format!("the pickles exceed {max} bytes");
                return Err(Error::new(Code::Limit, message).option("maxIndexBytes").rule(RULE));
            }
            read => return read?.catalog(input, builder),
        }
    }
}

/// The pickles of a file, and the offset of the storages after them.
struct Pickles {
    main: Pickle,
    /// Its offset.
    offset: u64,
    keys: Pickle,
    end: u64,
}

impl Pickles {
    fn read(bytes: &[u8], input: &Input<'_>) -> Result<Self> {
        let mut at = 0;
        let mut next = || {
            let offset = at;
            let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
            let pickle = Pickle::parse(rest, at, input.limits)?;
            at += pickle.byte_length();
            Ok::<_, Error>((pickle, offset))
        };
        let (magic, _) = next()?;
        let is_magic = match magic.node(magic.root()) {
            Some(Node::Long(span)) => MAGIC.ends_with(magic.span(*span)) && span.length == 10,
            _ => {
                magic.text(magic.root()).is_some_and(|digits| MAGIC_LINE[1..].starts_with(digits.as_bytes()))
            }
        };
        if !is_magic {
            return Err(
                Error::new(Code::BadMagic, "the file does not begin with PyTorch's magic number").rule(RULE)
            );
        }
        let (protocol, at_protocol) = next()?;
        if protocol.root() != Value::Int(PROTOCOL) {
            let message =
                format!("the protocol {} is not supported, only {PROTOCOL}", protocol.repr(protocol.root()));
            return Err(Error::new(Code::UnsupportedVersion, message).at(at_protocol).rule(RULE));
        }
        next()?;
        let (main, offset) = next()?;
        let (keys, _) = next()?;
        Ok(Self { main, offset, keys, end: at })
    }

    fn catalog(self, input: &Input<'_>, mut builder: Builder) -> Result<Catalog> {
        let Self { main, offset, keys, end } = self;
        let main = Arc::new(main);
        builder.set_version(PROTOCOL.to_string());
        let mut damage = Damage::default();
        let (blobs, wrong) = storages(&main, &keys, end, input)?;
        damage.of_item(&mut builder, wrong.map_or(Ok(()), Err))?;
        builder.reserve(blobs.len());
        let found = walk::walk::<Torch>(&main, "", &mut builder, &mut damage)?;
        let context =
            Context { pickle: &main, offset: Some(offset), byte_order: ByteOrder::Little, storages: &blobs };
        list::add(&mut builder, &mut damage, &context, &found.tensors)?;
        walk::warn(&mut builder, found.skipped);
        attributes::add::<Torch>(&mut builder, Arc::clone(&main), found.seen)?;
        damage.finish(builder)
    }
}

/// Locates the storages, in the order of their keys. If the element size of one cannot be determined, those after it cannot be located.
fn storages<'k>(main: &Pickle, keys: &'k Pickle, start: u64, input: &Input<'_>) -> Result<Placed<'k>> {
    let mut kinds: HashMap<&str, ElementType<'_>> = HashMap::new();
    for at in (0_u32..).take(main.nodes().len()) {
        // An invalid storage is reported with its tensor.
        if let Ok(Some(storage)) = tensor::storage_of(main, Value::Node(at)) {
            kinds.insert(storage.key, storage.kind);
        }
    }
    let mut unknown: Vec<_> =
        kinds.values().filter(|kind| kind.unit().is_none()).map(|kind| kind.name).collect();
    unknown.arrange();
    unknown.dedup();
    if let [_] = *unknown {
        // Use the element size with which the storages end exactly at the end of the file.
        for width in WIDTHS {
            let found = placed(keys, start, input, &kinds, Some(width))?;
            let end = found.0.values().map(|blob| blob.offset + blob.stored).max();
            if found.1.is_none() && end == Some(input.length()) {
                return Ok(found);
            }
        }
    }
    placed(keys, start, input, &kinds, None)
}

type Placed<'k> = (HashMap<&'k str, Blob>, Option<Error>);

/// Locates the storages up to the first invalid one, and returns its error. Elements of unknown types have `unknown` bytes.
fn placed<'k>(
    keys: &'k Pickle,
    start: u64,
    input: &Input<'_>,
    kinds: &HashMap<&str, ElementType<'_>>,
    unknown: Option<u64>,
) -> Result<Placed<'k>> {
    let mut blobs = HashMap::new();
    let mut at = start;
    let refuse = |code, message: String, at| Some(Error::new(code, message).at(at).rule(RULE));
    for &key in keys.items(keys.root()).unwrap_or_default() {
        let Some(key) = keys.short(key) else {
            return Ok((blobs, refuse(Code::BadIndex, "a storage key is not a string".to_owned(), start)));
        };
        let kind = kinds.get(key);
        let Some(width) = kind.and_then(|kind| kind.unit().or(unknown)) else {
            let of = kind.map_or_else(String::new, |kind| {
                format!(": {:?} is an unknown type", short(kind.name, NAME))
            });
            let message = format!("the element size of the storage {key:?} is unknown{of}");
            return Ok((blobs, refuse(Code::BadIndex, message, at)));
        };
        if end_within(at, 8, input.length()).is_none() {
            let message = format!("the file ends before the storage {key:?}");
            return Ok((blobs, refuse(Code::Truncated, message, at)));
        }
        let count = u64_le(&input.read_vec(at, 8)?, 0).unwrap_or_default();
        let data = at.saturating_add(8);
        let length = count.checked_mul(width);
        let Some((length, end)) =
            length.and_then(|length| Some((length, end_within(data, length, input.length())?)))
        else {
            let message = format!(
                "the storage {key:?} has {count} elements of {width} bytes, which extend past the end"
            );
            return Ok((blobs, refuse(Code::Truncated, message, at)));
        };
        if blobs.insert(key, Blob::raw(data, length)).is_some() {
            let message = format!("the storage {key:?} occurs twice");
            return Err(Error::new(Code::BadIndex, message).at(at).rule(RULE));
        }
        at = end;
    }
    Ok((blobs, None))
}
