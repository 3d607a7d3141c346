//! The header is the one that the functions in `src` make, and the module of Fortran is the one
//! that the header makes. `FAMPI_WRITE_HEADER=1` writes both.

mod fortran;

use std::{fs, path::Path};

#[test]
fn the_header_and_the_module_of_fortran_are_fresh() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("a configuration");
    let made = cbindgen::Builder::new().with_crate(here).with_config(config).generate();
    let mut text = Vec::new();
    made.expect("the sources can be read").write(&mut text);
    let text = String::from_utf8(text).expect("text");
    let text = text.replace("# Safety\n", "Pointers:\n").replace(" \n", "\n");
    let module = fortran::module(&text);
    for (name, text) in [("include/fampi.h", text), ("fortran/fampi.f90", module)] {
        let path = here.join(name);
        if std::env::var_os("FAMPI_WRITE_HEADER").is_some() {
            fs::write(&path, &text).expect("written");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "ffi/{name} is stale: FAMPI_WRITE_HEADER=1 cargo test -p fampi-ffi --test header"
        );
    }
}
