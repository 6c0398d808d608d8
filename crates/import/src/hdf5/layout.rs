//! Storage layouts of datasets (`HDF5 File Format Specification` IV.A.2.i).
#![forbid(unsafe_code)]

use hdf5_reader::error::Error as Refusal;
use hdf5_reader::io::Cursor;

use super::reader::Parsed;
use super::storage::Sizes;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Layout {
    /// In the message itself.
    Compact(Vec<u8>),
    /// At an address, which may be undefined. The size is stored from version 3 on.
    Contiguous {
        address: u64,
        length: Option<u64>,
    },
    Chunked(Chunked),
    /// In other datasets.
    Virtual,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunked {
    /// Chunk dimensions in elements.
    pub dims: Vec<u32>,
    /// The address of the index or of the single chunk; it may be undefined.
    pub address: u64,
    pub index: Index,
    /// Whether chunks that extend past the array are stored unfiltered.
    pub plain_edges: bool,
}

/// The type of chunk index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    Tree1,
    /// Size and filter mask, if filtered.
    Single(Option<(u64, u32)>),
    Implicit,
    FixedArray,
    ExtensibleArray,
    Tree2,
}

impl Layout {
    pub fn parse(bytes: &[u8], sizes: Sizes) -> Parsed<Self> {
        let cursor = &mut Cursor::new(bytes);
        match cursor.read_u8()? {
            1 | 2 => Self::first(cursor, sizes),
            3 => Self::third(cursor, sizes),
            4 | 5 => Self::fourth(cursor, sizes),
            version => Err(Refusal::UnsupportedLayoutVersion(version)),
        }
    }

    fn first(cursor: &mut Cursor<'_>, sizes: Sizes) -> Parsed<Self> {
        let (rank, class) = (cursor.read_u8()?, cursor.read_u8()?);
        cursor.skip(5)?;
        let address = if class == 0 { 0 } else { cursor.read_offset(sizes.address)? };
        let mut dims = dims(cursor, rank)?;
        match class {
            0 => compact(cursor, 4),
            1 => Ok(Self::Contiguous { address, length: None }),
            2 => {
                dims.pop();
                Ok(tree(dims, address))
            }
            class => Err(Refusal::UnsupportedLayoutClass(class)),
        }
    }

    fn third(cursor: &mut Cursor<'_>, sizes: Sizes) -> Parsed<Self> {
        match cursor.read_u8()? {
            0 => compact(cursor, 2),
            1 => contiguous(cursor, sizes),
            2 => {
                let rank = cursor.read_u8()?;
                let address = cursor.read_offset(sizes.address)?;
                let mut dims = dims(cursor, rank)?;
                // The last dimension is the size of an element.
                dims.pop();
                Ok(tree(dims, address))
            }
            3 => Ok(Self::Virtual),
            class => Err(Refusal::UnsupportedLayoutClass(class)),
        }
    }

    fn fourth(cursor: &mut Cursor<'_>, sizes: Sizes) -> Parsed<Self> {
        match cursor.read_u8()? {
            0 => return compact(cursor, 2),
            1 => return contiguous(cursor, sizes),
            2 => {}
            3 => return Ok(Self::Virtual),
            class => return Err(Refusal::UnsupportedLayoutClass(class)),
        }
        let (flags, rank, width) = (cursor.read_u8()?, cursor.read_u8()?, cursor.read_u8()?);
        let beyond = |_| Refusal::InvalidData("a chunk has a dimension of more than 2^32".to_owned());
        let mut dims = (0..rank)
            .map(|_| u32::try_from(cursor.read_uvar(width.into())?).map_err(beyond))
            .collect::<Parsed<Vec<_>>>()?;
        dims.pop();
        let index = match cursor.read_u8()? {
            1 if flags & 2 == 0 => Index::Single(None),
            1 => Index::Single(Some((cursor.read_length(sizes.length)?, cursor.read_u32_le()?))),
            2 => Index::Implicit,
            3 => {
                cursor.skip(1)?;
                Index::FixedArray
            }
            4 => {
                cursor.skip(5)?;
                Index::ExtensibleArray
            }
            5 => {
                cursor.skip(6)?;
                Index::Tree2
            }
            kind => return Err(Refusal::UnsupportedChunkIndexType(kind)),
        };
        let address = cursor.read_offset(sizes.address)?;
        Ok(Self::Chunked(Chunked { dims, address, index, plain_edges: flags & 1 != 0 }))
    }
}

fn dims(cursor: &mut Cursor<'_>, rank: u8) -> Parsed<Vec<u32>> {
    (0..rank).map(|_| cursor.read_u32_le()).collect()
}

fn tree(dims: Vec<u32>, address: u64) -> Layout {
    Layout::Chunked(Chunked { dims, address, index: Index::Tree1, plain_edges: false })
}

fn compact(cursor: &mut Cursor<'_>, width: usize) -> Parsed<Layout> {
    let length = usize::try_from(cursor.read_uvar(width)?).unwrap_or(usize::MAX);
    Ok(Layout::Compact(cursor.read_bytes(length)?.to_vec()))
}

fn contiguous(cursor: &mut Cursor<'_>, sizes: Sizes) -> Parsed<Layout> {
    let address = cursor.read_offset(sizes.address)?;
    Ok(Layout::Contiguous { address, length: Some(cursor.read_length(sizes.length)?) })
}
