//! Relative links, the files that pages name, the table of contents, and the example of the README.

use std::path::{Path, PathBuf};

use crate::{cells, files, quoted, read, root};

/// The pages: the book's and the READMEs.
fn pages() -> Vec<PathBuf> {
    let mut pages = files(&root().join("docs"), "md");
    pages.push(root().join("README.md"));
    for member in ["zico-core", "zico-mock", "zico-cuda", "zico-cli"] {
        pages.push(root().join(member).join("README.md"));
    }
    pages
}

/// A page without its code blocks and comments.
fn prose(page: &Path) -> String {
    let text: String = read(page).split("```").step_by(2).collect();
    let parts = text.split("<!--").enumerate();
    let shown = |(number, part)| match number {
        0 => part,
        _ => str::split_once(part, "-->").map_or("", |(_, rest)| rest),
    };
    parts.map(shown).collect()
}

/// The targets of a text's links and pictures.
fn targets(text: &str) -> Vec<&str> {
    let parts = text.split("](").skip(1);
    parts.filter_map(|part| part.split_once(')')).map(|(target, _)| target).collect()
}

/// The names by which a page's headings are linked to: lower case, words joined by hyphens.
fn anchors(page: &Path) -> Vec<String> {
    let text = prose(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = prose(&page);
        for target in targets(&text).into_iter().filter(|target| !target.starts_with("https://")) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let beside = page.with_file_name("").join(path);
            let file = if path.is_empty() { page.clone() } else { beside };
            assert!(file.exists(), "{}: there is no {target}", page.display());
            if !heading.is_empty() {
                let known = anchors(&file).iter().any(|anchor| anchor == heading);
                assert!(known, "{}: no {target}", page.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} links: are these the pages?");
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let mut seen = 0;
    for page in pages() {
        let text = prose(&page);
        let is_path = |name: &&str| {
            let inside = ["zico-", "tests/", "docs/", "fuzz/", ".ci/"];
            inside.iter().any(|folder| name.starts_with(folder))
                && name.contains('/')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c))
        };
        for name in quoted(&text).filter(is_path) {
            assert!(root().join(name).exists(), "{}: there is no {name}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 60, "only {seen} files: are these the pages?");
}

#[test]
fn each_row_of_the_map_names_a_file() {
    let map = read(&root().join("docs/papers.md"));
    let rows: Vec<_> = map.lines().filter_map(cells).skip(2).collect();
    assert!(rows.len() > 15);
    for row in rows {
        assert!(quoted(row[2]).any(|name| name.ends_with(".rs")), "{row:?}");
    }
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let listed = targets(&summary);
    for page in files(&root().join("docs"), "md") {
        let name = page.file_name().unwrap().to_str().unwrap();
        let times = listed.iter().filter(|listed| **listed == name).count();
        assert_eq!(times, usize::from(name != "SUMMARY.md"), "{name}");
    }
}

/// Its lines are those of an example that is compiled and run.
#[test]
fn the_example_of_the_readme_is_one_that_runs() {
    let readme = read(&root().join("README.md"));
    let (_, block) = readme.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let example = read(&root().join("zico-mock/examples/embed_minimal.rs"));
    let lines: Vec<&str> = block.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert!((10..20).contains(&lines.len()), "{} lines", lines.len());
    for line in lines {
        assert!(example.contains(line), "not in the example: {line}");
    }
}
