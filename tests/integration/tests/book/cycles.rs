//! No cycles among the modules of the crates: siblings, with all that is inside
//! them, use each other in one direction only.
//!
//! A module uses another where its code has a path that begins with `crate` or `super` and leads
//! there, by itself or through a `use` of a module on its way. Tests are left out. Siblings are
//! modules of one parent; a child may use its parent, and a parent its child. Calls of methods have
//! no path and are not seen.

use std::collections::{BTreeMap, BTreeSet};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

use crate::{files, read, root};

const CRATES: [&str; 5] = ["zico-core", "zico-plan", "zico-mock", "zico-cuda", "zico-cli"];

/// Names from the root of a crate.
pub(crate) type Names = Vec<String>;
/// Who uses whom.
type Edges = BTreeMap<Names, BTreeSet<Names>>;

/// The modules of a crate.
#[derive(Default)]
pub(crate) struct Modules {
    /// The paths in each module.
    paths: BTreeMap<Names, Vec<Names>>,
    /// For each name that a module imports or passes on: the path that it stands for.
    imports: BTreeMap<Names, Names>,
}

impl Modules {
    /// From the files below `src`, by their paths there.
    fn of(sources: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut modules = Self::default();
        for (path, text) in sources {
            let mut module: Names =
                path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            module.pop_if(|last| last == "lib" || last == "mod");
            if !module.iter().any(|name| name == "tests" || name == "main") {
                let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
                Reader { modules: &mut modules, module }.read(&file.items);
            }
        }
        modules
    }

    pub(crate) fn of_crate(name: &str) -> Self {
        let source = root().join(name).join("src");
        let path = |file: &std::path::Path| {
            file.strip_prefix(&source).unwrap().to_str().unwrap().to_owned()
        };
        Self::of(files(&source, "rs").iter().map(|file| (path(file), read(file))))
    }

    /// The module that a path leads to.
    fn target(&self, path: &[String]) -> Option<&Names> {
        (1..=path.len()).rev().find_map(|length| {
            let begin = &path[..length];
            match (self.paths.get_key_value(begin), self.imports.get(begin)) {
                (Some((module, _)), _) => Some(module),
                (None, Some(from)) if from != begin => self.target(from),
                _ => None,
            }
        })
    }

    /// Which module uses which, as often as it does.
    pub(crate) fn uses(&self) -> Vec<(&Names, &Names)> {
        let paths = self.paths.iter();
        let uses = paths.flat_map(|(module, paths)| paths.iter().map(move |path| (module, path)));
        uses.filter_map(|(module, path)| Some((module, self.target(path)?))).collect()
    }

    /// Who uses whom among siblings: both as the names up to the first in which the modules differ.
    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (module, paths) in &self.paths {
            for target in paths.iter().filter_map(|path| self.target(path)) {
                let same = module.iter().zip(target).take_while(|(one, other)| one == other);
                let end = same.count() + 1;
                if end <= module.len() && end <= target.len() {
                    edges.entry(module[..end].into()).or_default().insert(target[..end].into());
                }
            }
        }
        edges
    }
}

/// Reads the code of a module.
struct Reader<'m> {
    modules: &'m mut Modules,
    module: Names,
}

impl Reader<'_> {
    fn read(&mut self, items: &[syn::Item]) {
        self.modules.paths.insert(self.module.clone(), Vec::new());
        items.iter().for_each(|item| self.visit_item(item));
    }

    /// Adds a path that begins with `crate` or `super`.
    fn note(&mut self, path: &[String]) {
        if matches!(path[0].as_str(), "crate" | "super") && path.len() > 1 {
            let path = self.absolute(path);
            self.modules.paths.get_mut(&self.module).unwrap().push(path);
        }
    }

    fn absolute(&self, path: &[String]) -> Names {
        let mut from_root = self.module.clone();
        for name in path {
            match name.as_str() {
                "crate" => from_root.clear(),
                "super" => drop(from_root.pop()),
                "self" => {}
                _ => from_root.push(name.clone()),
            }
        }
        from_root
    }

    fn uses(&mut self, tree: &syn::UseTree, path: &mut Names) {
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.uses(&step.tree, path);
                path.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.uses(tree, path));
            }
            syn::UseTree::Name(name) => self.import(path, &name.ident, &name.ident),
            syn::UseTree::Rename(name) => self.import(path, &name.ident, &name.rename),
            syn::UseTree::Glob(_) => self.note(path),
        }
    }

    fn import(&mut self, path: &[String], item: &syn::Ident, name: &syn::Ident) {
        let path = [path, &[item.to_string()]].concat();
        self.note(&path);
        let here = [self.module.as_slice(), &[name.to_string()]].concat();
        self.modules.imports.insert(here, self.absolute(&path));
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.parse_args::<syn::Ident>();
        attribute.path().is_ident("cfg") && condition.is_ok_and(|condition| condition == "test")
    })
}

impl<'s> Visit<'s> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'s syn::ItemMod) {
        if let (Some((_, items)), false) = (&item.content, is_for_tests(&item.attrs)) {
            let module = [self.module.as_slice(), &[item.ident.to_string()]].concat();
            Reader { modules: self.modules, module }.read(items);
        }
    }

    fn visit_item_use(&mut self, item: &'s syn::ItemUse) {
        self.uses(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'s syn::Path) {
        let names: Names = path.segments.iter().map(|step| step.ident.to_string()).collect();
        self.note(&names);
        visit::visit_path(self, path);
    }

    /// The arguments of those that take expressions, as `writeln` does.
    fn visit_macro(&mut self, call: &'s syn::Macro) {
        let arguments = Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        for argument in call.parse_body_with(arguments).iter().flatten() {
            Reader { modules: self.modules, module: self.module.clone() }.visit_expr(argument);
        }
    }
}

/// Modules of which each uses the next one and the last one the first, if there are such.
fn cycle(edges: &Edges) -> Option<Vec<String>> {
    let mut left = edges.clone();
    // A module that uses none of the remaining ones is in no cycle.
    loop {
        let users: BTreeSet<Names> = left.keys().cloned().collect();
        left.values_mut().for_each(|used| used.retain(|other| users.contains(other)));
        left.retain(|_, used| !used.is_empty());
        if users.len() == left.len() {
            break;
        }
    }
    let mut walk = vec![left.keys().next()?];
    loop {
        let next = left[*walk.last()?].first()?;
        if let Some(start) = walk.iter().position(|module| *module == next) {
            return Some(walk[start..].iter().map(|module| module.join("::")).collect());
        }
        walk.push(next);
    }
}

#[test]
fn siblings_use_each_other_in_one_direction() {
    for name in CRATES {
        let edges = Modules::of_crate(name).edges();
        assert_eq!(cycle(&edges), None, "{name}");
        let count: usize = edges.values().map(BTreeSet::len).sum();
        assert!(count > 10, "{name}: only {count} uses, is this the source?");
    }
}

/// By a re-export, by `super`, within the arguments of a macro, and not by what tests use.
#[test]
fn a_cycle_is_found() {
    let found = |b: &str| {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::{inner::Thing as Known};"),
            ("a/mod.rs", "mod inner; use crate::b;"),
            ("a/inner.rs", "pub struct Thing;"),
            ("b.rs", b),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        cycle(&Modules::of(files).edges()).is_some()
    };
    for b in [
        "use crate::Known;",
        "use super::{Known};",
        "fn f(known: &crate::a::Thing) {}",
        "fn f() { println!(\"{}\", crate::a::inner::Thing) }",
        "mod c { use super::super::a; }",
    ] {
        assert!(found(b), "{b}");
    }
    for b in ["use std::fmt;", "#[cfg(test)] mod tests { use crate::Known; }", "struct A;"] {
        assert!(!found(b), "{b}");
    }
}
