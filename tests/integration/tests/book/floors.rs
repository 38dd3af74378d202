//! `ARCHITECTURE.md` against the code of the core: each folder is a floor, and uses none above it.
//!
//! A floor uses another where its code has a path that leads there ([`Modules`]). Calls of methods
//! need a value, whose type is a path somewhere below; what remains is a floor that adds methods to
//! the type of another one, so that is forbidden too.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::cycles::Modules;
use crate::{cells, files, quoted, read, root};

/// The floors, the highest first.
fn floors() -> Vec<String> {
    let page = read(&root().join("ARCHITECTURE.md"));
    let (_, after) = page.split_once("## The core").unwrap();
    let (section, _) = after.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(cells);
    let first = |row: Vec<&str>| Some(quoted(row[0]).next()?.to_owned());
    rows.filter_map(first).collect()
}

#[test]
fn every_folder_of_the_core_is_a_floor() {
    let source = root().join("zico-core/src");
    let entries = std::fs::read_dir(source).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().trim_end_matches(".rs").to_owned()
    };
    let mut there: Vec<String> = entries.map(name).filter(|name| name != "lib").collect();
    there.sort();
    let mut listed = floors();
    listed.sort();
    assert_eq!(listed, there, "ARCHITECTURE.md lists others than there are");
}

#[test]
fn no_floor_uses_one_above_it() {
    let floors = floors();
    let height = |name: &str| floors.iter().rev().position(|floor| floor == name);
    let (mut edges, mut upward) = (0, Vec::new());
    for (module, target) in Modules::of_crate("zico-core").uses() {
        let (Some(user), Some(used)) = (module.first(), target.first()) else { continue };
        if let (Some(own), Some(its)) = (height(user), height(used))
            && own != its
        {
            edges += 1;
            if own < its {
                upward.push(format!("{} uses {}", module.join("::"), target.join("::")));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
    assert!(edges > 100, "only {edges} uses: is this the source?");
}

/// For each type the floor that defines it, and the floors that add methods to it.
#[derive(Default)]
struct Methods {
    floor: String,
    defined: BTreeMap<String, Vec<String>>,
    added: Vec<(String, String)>,
}

impl Visit<'_> for Methods {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.defined.entry(item.ident.to_string()).or_default().push(self.floor.clone());
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.defined.entry(item.ident.to_string()).or_default().push(self.floor.clone());
    }

    fn visit_item_impl(&mut self, item: &syn::ItemImpl) {
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = path.path.segments.last()
        {
            self.added.push((last.ident.to_string(), self.floor.clone()));
        }
        visit::visit_item_impl(self, item);
    }
}

#[test]
fn a_floor_adds_methods_to_its_own_types_only() {
    let source = root().join("zico-core/src");
    let mut methods = Methods::default();
    for file in files(&source, "rs") {
        let path = file.strip_prefix(&source).unwrap();
        let first = path.components().next().unwrap().as_os_str().to_string_lossy();
        methods.floor = first.trim_end_matches(".rs").to_owned();
        let code = syn::parse_file(&read(&file)).unwrap();
        methods.visit_file(&code);
    }
    assert!(methods.added.len() > 100, "is this the source?");
    for (name, floor) in methods.added {
        let defined = methods.defined.get(&name);
        let own = defined.is_none_or(|floors| floors.contains(&floor));
        assert!(own, "{floor} adds methods to {name}, which {defined:?} defines");
    }
}
