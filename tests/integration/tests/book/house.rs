//! `docs/house.md` against the code: who uses whom among the modules of the core.
//!
//! A module is a file or a folder of `zico-core/src`. It uses another where its text, tests left
//! out, names `crate::other`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{cells, files, picture, quoted, read, root};

/// The page, read.
pub(crate) struct House {
    /// From the top: the name, the modules, what they do.
    pub(crate) floors: Vec<(String, Vec<String>, String)>,
    /// Who uses whom on a higher floor.
    pub(crate) stairs: Vec<(String, String)>,
}

impl House {
    pub(crate) fn read() -> Self {
        let page = read(&root().join("docs/house.md"));
        let mut tables: Vec<Vec<Vec<&str>>> = Vec::new();
        let mut inside = false;
        for line in page.lines() {
            match cells(line) {
                Some(row) if inside => tables.last_mut().unwrap().push(row),
                Some(row) => tables.push(vec![row]),
                None => {}
            }
            inside = cells(line).is_some();
        }
        // Each table begins with its heads and a line.
        let rows = |table: usize| tables[table].iter().skip(2);
        let names = |cell: &str| quoted(cell).map(str::to_owned).collect::<Vec<_>>();
        let floors = rows(0).map(|row| (row[0].to_owned(), names(row[1]), row[2].to_owned()));
        let stairs = rows(1).flat_map(|row| {
            let other = names(row[1]).remove(0);
            names(row[0]).into_iter().map(move |who| (who, other.clone()))
        });
        Self { floors: floors.collect(), stairs: stairs.collect() }
    }

    /// The height of a module's floor.
    fn height(&self, module: &str) -> Option<usize> {
        let has = |modules: &Vec<String>| modules.iter().any(|known| known == module);
        self.floors.iter().rev().position(|(_, modules, _)| has(modules))
    }
}

/// Who uses whom, by the code.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let source = root().join("zico-core/src");
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files(&source, "rs") {
        let path = file.strip_prefix(&source).unwrap();
        let first = path.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if module == "lib" || is_test(path) {
            continue;
        }
        let text = read(&file);
        let (code, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
        let used = uses.entry(module.to_owned()).or_default();
        for line in code.lines().map(|line| line.split("//").next().unwrap_or_default()) {
            assert!(!line.contains("crate::{"), "{}: one use for each module", path.display());
            for rest in line.split("crate::").skip(1) {
                let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
                let name = &rest[..end.unwrap_or(rest.len())];
                if name != module && !name.is_empty() {
                    used.insert(name.to_owned());
                }
            }
        }
    }
    uses
}

/// Files that are compiled for tests only: `arena/model.rs` is what its tests hold the arena
/// against.
fn is_test(path: &Path) -> bool {
    let tests = ["tests.rs", "testing.rs", "model.rs"];
    tests.contains(&path.file_name().unwrap().to_str().unwrap())
}

#[test]
fn every_module_has_one_floor() {
    let house = House::read();
    let mut listed: Vec<&String> = house.floors.iter().flat_map(|floor| &floor.1).collect();
    listed.sort();
    let uses = uses();
    let there: Vec<&String> = uses.keys().collect();
    assert_eq!(listed, there, "docs/house.md lists others than there are");
}

#[test]
fn modules_use_what_the_house_says() {
    let house = House::read();
    let mut stairs: BTreeSet<_> = house.stairs.iter().cloned().collect();
    let mut edges = 0;
    for (module, used) in uses() {
        for other in used {
            let (own, its) = (house.height(&module), house.height(&other));
            let goes_up = its.unwrap_or_else(|| panic!("{module} uses {other}")) > own.unwrap();
            let named = stairs.remove(&(module.clone(), other.clone()));
            assert_eq!(goes_up, named, "{module} uses {other}, which docs/house.md has otherwise");
            edges += 1;
        }
    }
    assert!(stairs.is_empty(), "docs/house.md has what nobody uses: {stairs:?}");
    assert!(edges > 100, "only {edges} uses: is this the source?");
}

/// `ZICO_DRAW=1 cargo test -p zico-tests --test book` draws it anew.
#[test]
fn the_picture_is_of_this_house() {
    let file = root().join("docs/img/house.svg");
    let drawn = picture::draw(&House::read());
    if std::env::var_os("ZICO_DRAW").is_some() {
        std::fs::write(&file, &drawn).unwrap();
    }
    let same = read(&file) == drawn;
    assert!(
        same,
        "the picture is of another house: ZICO_DRAW=1 cargo test -p zico-tests --test book"
    );
}
