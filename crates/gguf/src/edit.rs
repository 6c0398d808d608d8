//! Edits the header of a GGUF file of any version and byte order. The keys, values and tensor infos that an edit does not change are
//! preserved byte for byte. The header ends in a padding key if it must be longer than its content.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use ztensor_core::checked::index;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{EditHeader, HeaderChanges, Input, NewHeader, RetainedData, Setting};
use ztensor_core::model::{Builder, Catalog, Container};

use super::default_types::Model;
use super::encode_value::put_setting;
use super::metadata::{PADDING, Pair, STRING};
use super::value::ValueType;
use super::window::Spelling;
use super::{ALIGNMENT, ALIGNMENT_KEY, Header, Info, MAGIC, MAX_KEY, MAX_NAME, NAME, split};

const SET_KEYS: &str = "split.";
const RULE: &str = "GGUF: metadata";

/// Reads the header of a GGUF file. Other files of its set are not looked for.
pub fn open(input: &Input<'_>) -> Result<Box<dyn EditHeader>> {
    let header = Header::read(input)?;
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    header.add(&mut builder, 0)?;
    Ok(Box::new(Editable { header, catalog: builder.finish() }))
}

struct Editable {
    header: Header,
    catalog: Catalog,
}

impl EditHeader for Editable {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn data(&self) -> u64 {
        // A file without tensors may end before its data begins.
        self.header.data.min(self.header.total)
    }

    fn alignment(&self) -> u64 {
        self.header.alignment
    }

    fn changed(&self, changes: &HeaderChanges, retained: &RetainedData) -> Result<Box<dyn NewHeader>> {
        self.check(changes).map_err(|error| error.rule(RULE))?;
        let (pairs, metadata) = self.metadata(changes).map_err(|error| error.rule(RULE))?;
        let (tensors, infos) = self.infos(changes, retained)?;
        Ok(Box::new(Encoded {
            version: self.header.metadata.bytes().get(4..8).unwrap_or_default().to_vec(),
            spelling: self.spelling(),
            alignment: self.header.alignment,
            tensors,
            pairs,
            metadata,
            infos,
        }))
    }
}

impl Editable {
    fn spelling(&self) -> Spelling {
        self.header.metadata.spelling()
    }

    /// Returns the keys and values without the padding of an earlier edit.
    fn pairs(&self) -> impl Iterator<Item = Pair<'_>> + Clone {
        self.header.metadata.pairs().filter(|pair| pair.key != PADDING)
    }

    /// Fails for changes that would make the file another one than its other keys, or other files of its set, say.
    fn check(&self, changes: &HeaderChanges) -> Result<()> {
        let refused = |message: String| Err(Error::new(Code::InvalidArg, message));
        let set = changes.set.iter().map(|one| &*one.key);
        let mut keys = set.clone().chain(changes.remove.iter().map(|key| &**key));
        if let Some(part) = split::part_of(&self.header.metadata)? {
            let this = format!("this is file {} of {} of a set", part.number + 1, part.count);
            if !changes.drop.is_empty() {
                return refused(format!(
                    "{this}, and each of them states the number of tensors: convert it to drop some"
                ));
            }
            if keys.clone().any(|key| key.starts_with(SET_KEYS)) {
                return refused(format!("{this}: the keys {SET_KEYS}* cannot be changed"));
            }
            if part.number > 0 && keys.next().is_some() {
                return refused(format!("{this}: edit its first file, which has the metadata of the model"));
            }
        }
        if let Some(key) = set.clone().find(|key| key.starts_with(SET_KEYS)) {
            return refused(format!("{key:?} belongs to files of a set, and this is a single file"));
        }
        let mut keys = set.chain(changes.remove.iter().map(|key| &**key));
        if keys.any(|key| key == PADDING) {
            return refused(format!("{PADDING:?} is reserved: edits add it and remove it as needed"));
        }
        let fixed = self.header.alignment;
        let is_fixed = |one: &Setting| one.value.as_integer() == Some(fixed.into());
        let has_other_type = |one: &Setting| {
            let kind = one.kind.as_deref();
            one.key == ALIGNMENT_KEY && kind.is_some_and(|kind| kind != ValueType::Uint32.name())
        };
        if changes.set.iter().any(has_other_type) {
            return refused(format!("{ALIGNMENT_KEY} is a uint32: readers accept no other type of it"));
        }
        let set_otherwise = changes.set.iter().any(|one| one.key == ALIGNMENT_KEY && !is_fixed(one));
        let removed = changes.remove.iter().any(|key| key == ALIGNMENT_KEY);
        if set_otherwise || (removed && fixed != ALIGNMENT) {
            let message = "general.alignment cannot be changed, because the data is aligned to it: convert the file instead";
            return refused(message.to_owned());
        }
        if let Some(one) = changes.set.iter().find(|one| one.key.contains('\0')) {
            return refused(format!("the key {:?} has a NUL, where llama.cpp ends it", one.key));
        }
        match changes.set.iter().find(|one| one.key.is_empty() || one.key.len() > MAX_KEY) {
            Some(one) => refused(format!("a key has 1 to {MAX_KEY} bytes, and this one {}", one.key.len())),
            None => Ok(()),
        }
    }

    /// Encodes the metadata, and counts its keys.
    fn metadata(&self, changes: &HeaderChanges) -> Result<(u64, Vec<u8>)> {
        let known: HashSet<&str> = self.pairs().map(|pair| pair.key).collect();
        changes.check_keys(&self.pairs().map(|pair| pair.key))?;
        let set: HashMap<&str, &Setting> = changes.set.iter().map(|one| (&*one.key, one)).collect();
        let gone: HashSet<&str> = changes.remove.iter().map(|key| &**key).collect();
        let (mut count, mut bytes) = (0, Vec::new());
        for pair in self.pairs().filter(|pair| !gone.contains(pair.key)) {
            match set.get(pair.key) {
                None => bytes.extend_from_slice(pair.whole),
                Some(setting) => self.put(setting, Some(&pair), &mut bytes)?,
            }
            count += 1;
        }
        for setting in changes.set.iter().filter(|one| !known.contains(&*one.key)) {
            self.put(setting, None, &mut bytes)?;
            count += 1;
        }
        Ok((count, bytes))
    }

    /// Returns the architecture of the model; empty if the metadata states none.
    fn architecture(&self) -> &str {
        let pair = self.pairs().find(|pair| pair.key == "general.architecture" && pair.kind == STRING);
        let length = usize::try_from(self.spelling().count_bytes()).unwrap_or_default();
        let text = pair.and_then(|pair| std::str::from_utf8(pair.value.get(length..)?).ok());
        text.unwrap_or_default()
    }

    fn put(&self, setting: &Setting, old: Option<&Pair<'_>>, to: &mut Vec<u8>) -> Result<()> {
        self.spelling().put_text(setting.key.as_bytes(), to)?;
        put_setting(setting, old, Model { architecture: self.architecture() }, self.spelling(), to)
    }

    /// Encodes the tensor infos, and counts them.
    fn infos(&self, changes: &HeaderChanges, retained: &RetainedData) -> Result<(u64, Vec<u8>)> {
        let (renamed, dropped) = (changes.renamed(&self.catalog)?, changes.dropped(&self.catalog)?);
        let spelling = self.spelling();
        let (mut count, mut bytes) = (0, Vec::new());
        let ends = self.header.infos.iter().skip(1).map(|info| info.at).chain([self.header.end]);
        for ((ordinal, info), end) in self.header.infos.iter().enumerate().zip(ends) {
            if dropped.contains(&ordinal) {
                continue;
            }
            count += 1;
            let whole = self.header.metadata.bytes().get(info.at..end).unwrap_or_default();
            let behind_name = index(spelling.count_bytes(), "a length")? + info.name.len();
            let (name, rest) = whole.split_at_checked(behind_name).unwrap_or_default();
            let shape = rest.get(..rest.len().saturating_sub(8)).unwrap_or_default();
            match renamed.get(&ordinal) {
                None => bytes.extend_from_slice(name),
                Some(new) => {
                    check_name(info, new)?;
                    spelling.put_text(new.as_bytes(), &mut bytes)?;
                }
            }
            bytes.extend_from_slice(shape);
            spelling.put(retained.moved(info.offset), 8, &mut bytes);
        }
        Ok((count, bytes))
    }
}

fn check_name(info: &Info, new: &str) -> Result<()> {
    let message = if new.contains('\0') {
        format!("its new name {new:?} has a NUL, where llama.cpp ends it")
    } else if new.len() > MAX_NAME {
        format!("its new name has {} bytes, and llama.cpp reads names of at most {MAX_NAME}", new.len())
    } else {
        return Ok(());
    };
    Err(Error::new(Code::InvalidArg, message).tensor(&info.name))
}

struct Encoded {
    /// The encoded version.
    version: Vec<u8>,
    spelling: Spelling,
    alignment: u64,
    tensors: u64,
    /// The number of keys without padding.
    pairs: u64,
    metadata: Vec<u8>,
    infos: Vec<u8>,
}

impl Encoded {
    /// The number of bytes without padding.
    fn content(&self) -> u64 {
        8 + 2 * self.spelling.count_bytes() + self.metadata.len() as u64 + self.infos.len() as u64
    }

    /// The number of bytes of a padding key with an empty string.
    fn padding(&self) -> u64 {
        2 * self.spelling.count_bytes() + 4 + PADDING.len() as u64
    }
}

impl NewHeader for Encoded {
    fn min(&self) -> u64 {
        // Without tensors there is no data to align.
        if self.tensors == 0 { self.content() } else { self.content().next_multiple_of(self.alignment) }
    }

    fn padded(&self, data: u64) -> Result<Option<Vec<u8>>> {
        if data < self.min() {
            return Ok(None);
        }
        let padding = if data == self.min() {
            None
        } else {
            let Some(spaces) = data.checked_sub(self.content() + self.padding()) else { return Ok(None) };
            Some(spaces)
        };
        let total = index(data, "the header")?;
        let mut bytes = Vec::with_capacity(total);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.version);
        self.spelling.put_count(self.tensors, &mut bytes)?;
        self.spelling.put_count(self.pairs + u64::from(padding.is_some()), &mut bytes)?;
        bytes.extend_from_slice(&self.metadata);
        if let Some(spaces) = padding {
            self.spelling.put_text(PADDING.as_bytes(), &mut bytes)?;
            self.spelling.put(STRING.into(), 4, &mut bytes);
            self.spelling.put_text(&vec![b' '; index(spaces, "the padding")?], &mut bytes)?;
        }
        bytes.extend_from_slice(&self.infos);
        bytes.resize(total, 0);
        Ok(Some(bytes))
    }
}
