//! The pages that users read: their lengths, their numbers, the paths and the tests that they name,
//! and that the documentation of the crate is made whole where there is no MPI, as on docs.rs.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const MOST_README_LINES: usize = 120;
const MOST_FRONT_PAGE_LINES: usize = 250;
const MOST_CHANGES_LINES: usize = 40;

/// What the feature `mpi` adds for users, and some of what is there without it.
const SHOWN: [&str; 15] = [
    "fn.init.html",
    "fn.init_from.html",
    "fn.facts.html",
    "struct.Facts.html",
    "struct.Holdings.html",
    "trait.MpiElement.html",
    "struct.World.html",
    "struct.TryBlock.html",
    "enum.Outcome.html",
    "enum.Error.html",
    "sim/struct.Simulation.html",
    "policy/trait.Policy.html",
    "manual/guide/index.html",
    "manual/internals/index.html",
    "manual/paper/index.html",
];

/// Modules that are no part of the interface.
const HIDDEN: [&str; 7] = ["api", "engine", "mpi", "native", "protocol", "recovery", "seam"];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All pages that are written by hand.
fn pages() -> Vec<String> {
    let known = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benches/BENCHMARKS.md"];
    let mut pages: Vec<String> = known.map(str::to_owned).to_vec();
    for folder in ["src/docs", "ffi"] {
        let entries = fs::read_dir(top().join(folder)).expect("a folder").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let pages_of =
            names.filter(|name| Path::new(name).extension().is_some_and(|it| it == "md"));
        pages.extend(pages_of.map(|name| format!("{folder}/{name}")));
    }
    pages
}

/// What a page names that looks like a path of the project: links that are relative, and code with
/// a slash whose first part is a folder of the project or of `src`.
fn paths_in(text: &str) -> Vec<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
    let links = links.filter(|link| link.contains('/') || link.contains('.'));
    let code = text.split('`').skip(1).step_by(2);
    let code = code.filter(|word| {
        let first = word.split('/').next().unwrap_or_default();
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let known = top().join(first).is_dir() || top().join("src").join(first).is_dir();
        plain && word.contains('/') && known && !["target", ""].contains(&first)
    });
    links.chain(code).map(str::to_owned).collect()
}

/// The paths of a page that lead nowhere, from the page, from the top or from `src`.
fn dead_paths(page: &str, text: &str) -> Vec<String> {
    let folder = top().join(page).parent().map(PathBuf::from).expect("a page has a folder");
    let leads = |path: &str| {
        let path = path.trim_end_matches('/');
        [folder.join(path), top().join(path), top().join("src").join(path)].iter().any(|it| {
            // Whether an item exists, as in `World::run`, is for rustdoc to check.
            it.exists() || path.contains("::")
        })
    };
    paths_in(text).into_iter().filter(|path| !leads(path)).collect()
}

/// The tests that a text names, as `FILE.rs::TEST`.
fn tests_in(text: &str) -> Vec<(&str, &str)> {
    let code = text.split('`').skip(1).step_by(2);
    let named = code.filter_map(|word| word.split_once("::"));
    named.filter(|(file, _)| Path::new(file).extension().is_some_and(|it| it == "rs")).collect()
}

/// Whether a source has a test of this name.
fn has_test(source: &str, name: &str) -> bool {
    let tests = source.split("#[test]").skip(1).filter_map(|rest| rest.split_once("fn "));
    let mut names = tests.filter_map(|(_, rest)| rest.split('(').next());
    names.any(|found| found == name)
}

/// The rows of the tables of a page, without their headings.
fn rows(page: &str) -> Vec<&str> {
    let tables = page.split("\n|---").skip(1).filter_map(|rest| rest.split("\n\n").next());
    tables.flat_map(|table| table.lines().skip(1)).collect()
}

/// What a header defines for the names of the papers, up to what is not theirs.
fn names_of_the_papers(header: &str) -> Vec<&str> {
    let parts = header.split("\n\n").filter(|part| !part.starts_with("/* Beyond the papers"));
    let own = parts.take_while(|part| !part.contains("FAMPI_NAMES_KEEP_MPI\n#define"));
    let lines = own.flat_map(str::lines).filter_map(|line| line.strip_prefix("#define MPI_"));
    lines.filter_map(|line| line.split([' ', '(']).next()).collect()
}

/// The numbers in a text, as they are written.
fn numbers(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let words = words.map(|word| word.trim_matches('.'));
    words.filter(|word| word.chars().any(|c| c.is_ascii_digit())).collect()
}

/// The cells of a README's table of numbers, without the first of each row, which names it.
fn cells(readme: &str) -> Vec<&str> {
    let table = readme.split_once("<!-- numbers").and_then(|(_, rest)| rest.split_once("<!-- end"));
    let (table, _) = table.expect("a table of numbers between its marks");
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.flat_map(|row| row.split('|').skip(2)).filter(|cell| !cell.trim().is_empty()).collect()
}

#[test]
fn the_pages_are_short() {
    let lines = |path| read(path).lines().count();
    assert!(lines("README.md") <= MOST_README_LINES, "README.md is longer");
    assert!(lines("src/docs/overview.md") <= MOST_FRONT_PAGE_LINES, "the front page is longer");
    let changes = read("CHANGELOG.md");
    let first = changes.split("\n## ").nth(1).expect("a version");
    assert!(first.lines().count() <= MOST_CHANGES_LINES, "the newest version has more lines");
}

#[test]
fn every_number_of_the_readme_stands_in_the_measurements() {
    let (readme, measured) = (read("README.md"), read("benches/BENCHMARKS.md"));
    let known = numbers(&measured);
    let cells = cells(&readme);
    assert!(cells.len() >= 8, "the table is gone");
    for number in cells.iter().flat_map(|cell| numbers(cell)) {
        assert!(known.contains(&number), "{number} stands in README.md alone: measure anew");
    }
}

#[test]
fn every_path_that_a_page_names_exists() {
    let mut dead = Vec::new();
    for page in pages() {
        dead.extend(dead_paths(&page, &read(&page)).iter().map(|path| format!("{page}: {path}")));
    }
    assert!(dead.is_empty(), "paths that lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn a_path_that_leads_nowhere_and_a_number_that_is_not_measured_are_found() {
    let text = "`src/lib.rs`, `protocol/commit.rs`, [x](LICENSE-MIT), `src/gone.rs`, [y](gone.md), \
                `and/or`, [z](https://example.org/a.b), [w](World::run)";
    assert_eq!(dead_paths("README.md", text), ["gone.md", "src/gone.rs"]);
    assert_eq!(numbers("0.25 (0.2–0.31), 4 ranks. 8."), ["0.25", "0.2", "0.31", "4", "8"]);
    let readme = "<!-- numbers -->\n| | 2 |\n|---|---|\n| of 400 bytes | 1.5 |\n<!-- end -->";
    assert_eq!(cells(readme), [" 1.5 "]);
}

#[test]
fn every_test_that_a_page_names_exists() {
    let mut gone = Vec::new();
    for page in pages() {
        let text = read(&page);
        for (file, test) in tests_in(&text) {
            let source = fs::read_to_string(top().join(file)).unwrap_or_default();
            if !has_test(&source, test) {
                gone.push(format!("{page}: {file}::{test}"));
            }
        }
    }
    assert!(gone.is_empty(), "tests that are not there:\n{}", gone.join("\n"));
}

#[test]
fn each_name_and_each_promise_of_the_paper_has_a_row_with_a_test() {
    let page = read("src/docs/paper.md");
    let rows = rows(&page);
    let untested: Vec<_> = rows.iter().filter(|row| tests_in(row).is_empty()).collect();
    assert!(untested.is_empty(), "rows without a test: {untested:#?}");
    let header = read("ffi/include/fampi_names.h");
    let names = names_of_the_papers(&header);
    for some in ["TryBlock_start", "Comm_irebuild_join", "ERR_RCODES_ANY", "Tryblock_finish"] {
        assert!(names.contains(&some), "{some} is one of {names:?}");
    }
    let has_row = |name: &&&str| rows.iter().any(|row| row.contains(&format!("`MPI_{name}`")));
    let missing: Vec<_> = names.iter().filter(|name| !has_row(name)).collect();
    assert!(missing.is_empty(), "names of the papers without a row: {missing:?}");
}

#[test]
fn a_test_that_is_gone_and_a_row_without_one_are_found() {
    let page = "`tests/a.rs::one`, `World::run`\n\n| a | b |\n|---|---|\n| 1 | `b.rs::two` |\n\nx";
    assert_eq!(tests_in(page), [("tests/a.rs", "one"), ("b.rs", "two")]);
    assert_eq!(rows(page), ["| 1 | `b.rs::two` |"]);
    let source = "fn gone() {}\n#[test]\n#[serial]\nfn one() {}\n";
    assert!(has_test(source, "one") && !has_test(source, "on") && !has_test(source, "gone"));
    let header = "#define MPI_A FAMPI_A\n\n/* Beyond the papers. */\n#define MPI_B FAMPI_B\n\n\
                  #ifndef FAMPI_NAMES_KEEP_MPI\n#define MPI_Wait FAMPI_Wait\n";
    assert_eq!(names_of_the_papers(header), ["A"]);
}

#[test]
fn the_documentation_is_whole_where_there_is_no_mpi() {
    let manifest = read("Cargo.toml");
    let of_docs = manifest.split_once("[package.metadata.docs.rs]").expect("what docs.rs does").1;
    let of_docs = of_docs.split("\n[").next().expect("a table");
    assert!(of_docs.contains("no-default-features = true"), "{of_docs}");
    assert!(of_docs.contains(r#"rustdoc-args = ["--cfg", "docsrs"]"#), "{of_docs}");

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["doc", "--package", "fampi", "--no-deps", "--no-default-features", "--offline"]);
    command.current_dir(top()).arg("--target-dir").arg(&target);
    command.env("RUSTDOCFLAGS", "-D warnings --cfg docsrs");
    // No MPI, wherever one may be.
    command.env("MPICC", "/nowhere/mpicc").env("LIBCLANG_PATH", "/nowhere");
    command.env_remove("CARGO_ENCODED_RUSTDOCFLAGS");
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let pages = target.join("doc/fampi");
    for page in SHOWN {
        assert!(pages.join(page).is_file(), "{page} is not made");
    }
    for module in HIDDEN {
        assert!(!pages.join(module).join("index.html").exists(), "{module} is shown");
    }
    let front = fs::read_to_string(pages.join("index.html")).expect("a front page");
    for module in HIDDEN {
        assert!(!front.contains(&format!("href=\"{module}/index.html\"")), "{module} is listed");
    }
    let mut dead = Vec::new();
    for page in ["guide", "semantics", "proof", "internals", "paper"] {
        let path = pages.join("manual").join(page).join("index.html");
        let text = fs::read_to_string(path).expect("a page of the manual");
        let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        dead.extend(links.filter(|link| link.contains("::")).map(|link| format!("{page}: {link}")));
    }
    assert!(dead.is_empty(), "links to what is not shown:\n{}", dead.join("\n"));
}
