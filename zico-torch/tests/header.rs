//! The header that is checked in is the one that the code makes.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

/// The files that have something for C.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let is_for_c = |file: &PathBuf| {
        let code = fs::read_to_string(file).unwrap();
        code.contains("extern \"C\" fn zico_") || code.contains("#[repr(C)]")
    };
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<PathBuf> = files.filter(is_for_c).collect();
    sources.sort();
    sources
}

#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = sources(&root.join("src"));
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in &sources {
        builder = builder.with_src(source);
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let file = root.join("include/zico.h");
    if std::env::var_os("ZICO_WRITE_HEADER").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    let differs = made.lines().zip(found.lines()).find(|(made, found)| made != found);
    assert!(
        made == found,
        "include/zico.h is not what the code makes: {differs:?}. \
         ZICO_WRITE_HEADER=1 cargo test -p zico-torch --test header writes it anew"
    );
    // Every function of the library is in it.
    for source in sources {
        let code = fs::read_to_string(source).unwrap();
        for (at, _) in code.match_indices("extern \"C\" fn zico_") {
            let name = &code[at + "extern \"C\" fn ".len()..];
            let name = &name[..name.find('(').unwrap()];
            assert!(made.contains(&format!("{name}(")), "{name} is not in the header");
        }
    }
}
