//! Addons that must not be published, and one that may.
#![allow(clippy::unwrap_used)]

use object::Endianness;
use object::build::elf::{Builder, Dynamic, SectionData, VersionData, VersionNeed};
use object::elf;
use std::process::Command;
use ztensor_binaries::{Target, Version, check};

const MAX_BYTES: usize = 4096;

/// A library as a compiler would make it, as far as it is read here.
struct Library {
    machine: elf::Machine,
    endianness: Endianness,
    kind: elf::FileType,
    exports: &'static str,
    version: &'static str,
    needs: &'static str,
    text_relocations: bool,
}

const GOOD: Library = Library {
    machine: elf::EM_X86_64,
    endianness: Endianness::Little,
    kind: elf::ET_DYN,
    exports: "napi_register_module_v1",
    version: "GLIBC_2.17",
    needs: "libc.so.6",
    text_relocations: false,
};

impl Library {
    fn bytes(&self) -> Vec<u8> {
        let mut made = Builder::new(self.endianness, true);
        made.header.e_type = self.kind;
        made.header.e_machine = self.machine;
        made.header.e_phoff = 64;
        let file = made.version_files.add(self.needs.as_bytes().into());
        let need = VersionNeed { file, name: self.version.as_bytes().into(), flags: elf::VersionFlags(0) };
        let version = made.versions.add(VersionData::Need(need));
        let import = made.dynamic_symbols.add();
        import.name = b"hypot"[..].into();
        import.version = version;
        import.set_st_info(elf::STB_GLOBAL, elf::STT_FUNC);
        let export = made.dynamic_symbols.add();
        export.name = self.exports.as_bytes().into();
        export.st_shndx = elf::SHN_ABS;
        export.st_value = 4096;
        export.set_st_info(elf::STB_GLOBAL, elf::STT_FUNC);
        let mut dynamic = vec![Dynamic::String { tag: elf::DT_NEEDED, val: self.needs.as_bytes().into() }];
        if self.text_relocations {
            dynamic.push(Dynamic::Integer { tag: elf::DT_TEXTREL, val: 0 });
        }
        dynamic.push(Dynamic::Integer { tag: elf::DT_NULL, val: 0 });
        let parts = [
            (".dynsym", elf::SHT_DYNSYM, SectionData::DynamicSymbol),
            (".dynstr", elf::SHT_STRTAB, SectionData::DynamicString),
            (".gnu.version", elf::SHT_GNU_VERSYM, SectionData::GnuVersym),
            (".gnu.version_r", elf::SHT_GNU_VERNEED, SectionData::GnuVerneed),
            (".dynamic", elf::SHT_DYNAMIC, SectionData::Dynamic(dynamic)),
        ];
        let mut parts_of_memory = Vec::new();
        for (name, kind, data) in parts {
            let section = made.sections.add();
            section.name = name.as_bytes().into();
            section.sh_type = kind;
            section.sh_flags = elf::SHF_ALLOC;
            section.sh_addralign = 8;
            section.data = data;
            parts_of_memory.push(section.id());
        }
        let strings = parts_of_memory[1];
        for part in [0, 3, 4] {
            made.sections.get_mut(parts_of_memory[part]).sh_link_section = Some(strings);
        }
        made.sections.get_mut(parts_of_memory[2]).sh_link_section = Some(parts_of_memory[0]);
        let names = made.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = elf::SHT_STRTAB;
        names.data = SectionData::SectionString;
        made.set_section_sizes();
        let segment = made.segments.add();
        segment.p_type = elf::PT_LOAD;
        segment.p_flags = elf::PF_R;
        // The headers come first.
        (segment.p_filesz, segment.p_memsz, segment.p_align) = (256, 256, 8);
        for part in parts_of_memory {
            segment.append_section(made.sections.get_mut(part));
        }
        let mut bytes = Vec::new();
        made.write(&mut bytes).unwrap();
        bytes
    }
}

fn reasons(target: &str, bytes: &[u8]) -> String {
    let glibc = Version::parse("2.17").unwrap();
    check(bytes, &Target::new(target).unwrap(), glibc, MAX_BYTES)
        .map_or_else(|reasons| reasons.join("; "), |facts| facts.to_string())
}

const X64: &str = "x86_64-unknown-linux-gnu";

#[test]
fn an_addon_for_its_machine_may_be_published() {
    let bytes = GOOD.bytes();
    assert_eq!(reasons(X64, &bytes), format!("{} bytes, glibc 2.17, needs libc.so.6", bytes.len()));
    let big = Library { machine: elf::EM_S390, endianness: Endianness::Big, ..GOOD }.bytes();
    assert!(reasons("s390x-unknown-linux-gnu", &big).contains("glibc 2.17"));
    let musl = Library { needs: "libc.so", version: "", ..GOOD }.bytes();
    assert_eq!(reasons("x86_64-unknown-linux-musl", &musl), format!("{} bytes, needs libc.so", musl.len()));
}

#[test]
fn each_fault_is_named() {
    let cases = [
        (
            Library { machine: elf::EM_AARCH64, ..GOOD },
            "for another machine: (Elf, Aarch64, Little), expected (Elf, X86_64, Little)",
        ),
        (Library { exports: "napi_register_module", ..GOOD }, "does not export napi_register_module_v1"),
        (Library { kind: elf::ET_REL, ..GOOD }, "not a library: Relocatable"),
        (Library { version: "GLIBC_2.35", ..GOOD }, "needs glibc 2.35, newer than 2.17"),
        (
            Library { version: "GLIBC_2.2.5", needs: "libicu.so.72", ..GOOD },
            "needs libicu.so.72, which a system may not have",
        ),
        (Library { text_relocations: true, ..GOOD }, "has text relocations"),
    ];
    for (library, expected) in cases {
        assert_eq!(reasons(X64, &library.bytes()), expected);
    }
    let mut long = GOOD.bytes();
    long.resize(MAX_BYTES + 1, 0);
    assert_eq!(reasons(X64, &long), "has 4097 bytes, more than 4096");
    let bytes = GOOD.bytes();
    for target in ["x86_64-pc-windows-msvc", "x86_64-apple-darwin", "s390x-unknown-linux-gnu"] {
        assert!(reasons(target, &bytes).starts_with("for another machine"), "{target}");
    }
    assert_eq!(reasons("x86_64-unknown-linux-musl", &bytes), "needs libc.so.6, which a system may not have");
}

#[test]
fn incomplete_libraries_are_refused() {
    for bytes in [&b""[..], b"a web page of a proxy", b"\x7fELF", &[0; 4096]] {
        assert!(reasons(X64, bytes).starts_with("not a library that can be read"), "{}", reasons(X64, bytes));
    }
    let bytes = GOOD.bytes();
    for length in 0..bytes.len() {
        assert!(
            !reasons(X64, &bytes[..length]).contains("bytes, glibc"),
            "{length} of {} bytes",
            bytes.len()
        );
    }
}

#[test]
fn versions_are_compared_as_numbers() {
    let version = |text| Version::parse(text).unwrap();
    assert!(
        version("2.4") < version("2.17")
            && version("2.2.5") < version("2.3")
            && version("2.2.5") > version("2.2")
    );
    for text in ["", "2", "2.x", "PRIVATE", "2.17.1.1"] {
        assert_eq!(Version::parse(text), None, "{text}");
    }
}

#[test]
fn the_program_names_the_file_and_fails() {
    let file = std::env::temp_dir().join(format!("ztensor-binaries-{}.node", std::process::id()));
    std::fs::write(&file, "not an addon").unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ztensor-binaries")).args(arguments).arg(&file).output().unwrap()
    };
    let text = run(&[X64, "2.17", "4096"]);
    std::fs::write(&file, GOOD.bytes()).unwrap();
    let good = run(&[X64, "2.17", "4096"]);
    let unknown = run(&["wasm32-unknown-unknown", "2.17", "4096"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(text.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&text.stderr).contains(file.to_str().unwrap()));
    assert_eq!(good.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&good.stdout).contains("glibc 2.17"));
    assert_eq!(unknown.status.code(), Some(1));
}
