//! Builds every mutant into one copy of the core, each behind a switch, so that thousands of mutants take one build and not one
//! each. `ztensor-mutants TREE`: TREE is a copy of the repository; `mutants.json` in it is the list that
//! `cargo mutants --list --json` gives, cut down to what is to be tried. A mutant's number is its place in the list,
//! from 1 on. `skip.json` names numbers that do not compile. Writes the numbers that were built in to `built.json`.

mod edits;
mod switches;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use serde_json::Value;

/// One entry of the list.
pub struct Mutant {
    pub id: u32,
    pub genre: String,
    pub replacement: String,
    /// Line and column, both from 1 on, of the first and behind the last character.
    pub start: (usize, usize),
    pub end: (usize, usize),
}

fn place(value: &Value) -> (usize, usize) {
    let number =
        |key| value[key].as_u64().and_then(|number| usize::try_from(number).ok()).expect("a position");
    (number("line"), number("column"))
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a list")).expect("JSON")
}

fn main() {
    let tree = env::args().nth(1).expect("usage: ztensor-mutants TREE");
    let tree = Path::new(&tree);
    let skip: BTreeSet<u64> = match tree.join("skip.json") {
        path if path.exists() => {
            read(&path).as_array().expect("numbers").iter().filter_map(Value::as_u64).collect()
        }
        _ => BTreeSet::new(),
    };
    let mut files: BTreeMap<String, Vec<Mutant>> = BTreeMap::new();
    for (at, entry) in read(&tree.join("mutants.json")).as_array().expect("a list").iter().enumerate() {
        let id = u32::try_from(at + 1).expect("fewer mutants");
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        if skip.contains(&u64::from(id)) {
            continue;
        }
        files.entry(text("file")).or_default().push(Mutant {
            id,
            genre: text("genre"),
            replacement: text("replacement"),
            start: place(&entry["span"]["start"]),
            end: place(&entry["span"]["end"]),
        });
    }
    let mut built = Vec::new();
    for (file, mutants) in &files {
        let path = tree.join(file);
        let source = fs::read_to_string(&path).expect("a source");
        let (text, ids) = switches::build_in(&source, mutants);
        fs::write(path, text).expect("a place to write to");
        built.extend(ids);
    }
    built.sort_unstable();
    fs::write(tree.join("built.json"), serde_json::to_string(&built).expect("JSON"))
        .expect("a place to write to");
    println!("{} mutants built in", built.len());
}
