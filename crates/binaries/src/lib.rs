//! What an addon must be before it is published: read from its file, since most targets cannot be run where packages are put together.
#![forbid(unsafe_code)]

use object::elf::{DF_TEXTREL, DT_FLAGS, DT_TEXTREL};
use object::read::elf::{ElfFile, FileHeader};
use object::{
    Architecture, BinaryFormat, Endianness, File, ImportFlags, NameOrOrdinal, Object, ObjectKind,
    ObjectSection, ReadRef,
};
use std::fmt;

/// How Node finds the addon. Mach-O puts an underscore before it.
const ENTRY: &str = "napi_register_module_v1";

/// Libraries that every glibc system with Node has. Node itself needs `libgcc_s`.
const GLIBC: &[&str] = &[
    "libc.so.",
    "libm.so.",
    "libdl.so.",
    "libpthread.so.",
    "librt.so.",
    "libgcc_s.so.",
    "ld-linux-",
    "ld64.so.",
];
/// zig links libunwind into the addon.
const MUSL: &[&str] = &["libc.so", "libc.musl-"];
const MACOS: &[&str] = &["/usr/lib/", "/System/Library/Frameworks/"];
/// System libraries. VCRUNTIME140.dll and the api-ms-win-crt libraries are not: another program's installer brings them.
const WINDOWS: &[&str] = &[
    "advapi32.dll",
    "api-ms-win-core-",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "crypt32.dll",
    "kernel32.dll",
    "ntdll.dll",
    "secur32.dll",
    "user32.dll",
    "userenv.dll",
    "ws2_32.dll",
];

/// A version of glibc, such as 2.17.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32, u32);

impl Version {
    /// Reads `2.17` and `2.2.5`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
        parts.next().is_none().then_some(Self(major, minor, patch))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)?;
        if self.2 > 0 { write!(f, ".{}", self.2) } else { Ok(()) }
    }
}

/// The machine and the system that an addon is for.
pub struct Target {
    architecture: Architecture,
    endianness: Endianness,
    format: BinaryFormat,
    /// The libraries that it may need, or their prefixes.
    libraries: &'static [&'static str],
}

impl Target {
    /// Reads a target triple. None if its processor or system is unknown here.
    pub fn new(triple: &str) -> Option<Self> {
        let (processor, system) = triple.split_once('-')?;
        let (architecture, endianness) = match processor {
            "x86_64" => (Architecture::X86_64, Endianness::Little),
            "aarch64" => (Architecture::Aarch64, Endianness::Little),
            "armv7" => (Architecture::Arm, Endianness::Little),
            "powerpc64le" => (Architecture::PowerPc64, Endianness::Little),
            "s390x" => (Architecture::S390x, Endianness::Big),
            _ => return None,
        };
        let (format, libraries) = match system {
            "unknown-linux-gnu" | "unknown-linux-gnueabihf" => (BinaryFormat::Elf, GLIBC),
            "unknown-linux-musl" => (BinaryFormat::Elf, MUSL),
            "apple-darwin" => (BinaryFormat::MachO, MACOS),
            "pc-windows-msvc" => (BinaryFormat::Pe, WINDOWS),
            _ => return None,
        };
        Some(Self { architecture, endianness, format, libraries })
    }

    /// Whether every system of this target has a library.
    fn has(&self, library: &str) -> bool {
        let name = if self.format == BinaryFormat::Pe { library.to_lowercase() } else { library.to_owned() };
        self.libraries.iter().any(|known| {
            if known.ends_with(['.', '-', '/']) { name.starts_with(known) } else { name == *known }
        })
    }
}

/// What was found in an addon that may be published.
#[derive(Debug)]
pub struct Facts {
    bytes: usize,
    /// The newest version among its symbols of glibc.
    pub glibc: Option<Version>,
    pub libraries: Vec<String>,
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)?;
        if let Some(version) = self.glibc {
            write!(f, ", glibc {version}")?;
        }
        write!(f, ", needs {}", self.libraries.join(" "))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the code itself must be changed when it is loaded, which hardened systems refuse.
fn has_text_relocations(file: &File) -> object::Result<bool> {
    fn of<'data, Header: FileHeader, R: ReadRef<'data>>(
        file: &ElfFile<'data, Header, R>,
    ) -> object::Result<bool> {
        Ok(file
            .elf_dynamic_table()?
            .iter()
            .any(|entry| entry.tag == DT_TEXTREL || (entry.tag == DT_FLAGS && entry.val & DF_TEXTREL.0 != 0)))
    }
    match file {
        File::Elf32(file) => of(file),
        File::Elf64(file) => of(file),
        _ => Ok(false),
    }
}

/// The newest version of glibc that a symbol of the file has.
fn newest_glibc(file: &File) -> object::Result<Option<Version>> {
    let mut newest = None;
    for import in file.imports()? {
        if let ImportFlags::Elf { version: Some(version), .. } = import?.flags() {
            newest = newest.max(text(version).strip_prefix("GLIBC_").and_then(Version::parse));
        }
    }
    Ok(newest)
}

/// Whether Node finds the module in the file.
fn registers_module(file: &File) -> object::Result<bool> {
    for export in file.exports()? {
        if let NameOrOrdinal::Name(name) = export?.name() {
            let name = text(name);
            if name.strip_prefix(if file.format() == BinaryFormat::MachO { "_" } else { "" }) == Some(ENTRY) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn needed(file: &File) -> object::Result<Vec<String>> {
    file.import_libraries()?.map(|library| library.map(|library| text(library.name()))).collect()
}

/// Reads an addon for `target` that may use glibc up to `glibc` and have `max_bytes`.
///
/// # Errors
/// All reasons why it must not be published.
pub fn check(bytes: &[u8], target: &Target, glibc: Version, max_bytes: usize) -> Result<Facts, Vec<String>> {
    let file =
        File::parse(bytes).map_err(|error| vec![format!("not a library that can be read: {error}")])?;
    let mut reasons = Vec::new();
    let found = (file.format(), file.architecture(), file.endianness());
    if found != (target.format, target.architecture, target.endianness) {
        let wanted = (target.format, target.architecture, target.endianness);
        return Err(vec![format!("for another machine: {found:?}, expected {wanted:?}")]);
    }
    if file.kind() != ObjectKind::Dynamic {
        reasons.push(format!("not a library: {:?}", file.kind()));
    }
    let mut read = |what: &str, error: object::Error| reasons.push(format!("damaged: {what}: {error}"));
    let libraries = needed(&file).unwrap_or_else(|error| {
        read("its libraries", error);
        Vec::new()
    });
    let newest = newest_glibc(&file).unwrap_or_else(|error| {
        read("its imports", error);
        None
    });
    let registers = registers_module(&file).unwrap_or_else(|error| {
        read("its exports", error);
        true
    });
    let relocates = has_text_relocations(&file).unwrap_or_else(|error| {
        read("its dynamic section", error);
        false
    });
    for section in file.sections() {
        if let Err(error) = section.data() {
            read(section.name().unwrap_or("a section"), error);
        }
    }
    if !registers {
        reasons.push(format!("does not export {ENTRY}"));
    }
    if relocates {
        reasons.push("has text relocations".into());
    }
    if bytes.len() > max_bytes {
        reasons.push(format!("has {} bytes, more than {max_bytes}", bytes.len()));
    }
    if let Some(version) = newest.filter(|version| *version > glibc) {
        reasons.push(format!("needs glibc {version}, newer than {glibc}"));
    }
    for library in &libraries {
        if !target.has(library) {
            reasons.push(format!("needs {library}, which a system may not have"));
        }
    }
    if reasons.is_empty() { Ok(Facts { bytes: bytes.len(), glibc: newest, libraries }) } else { Err(reasons) }
}
