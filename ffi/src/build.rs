//! The build script: for which MPI this is, as that of the library has found out.

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rustc-check-cfg=cfg(mpich)");
    if std::env::var_os("DEP_FAMPI_MPICH").is_some() {
        println!("cargo::rustc-cfg=mpich");
    }
}
