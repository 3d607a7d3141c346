//! A build that lacks something says in one sentence what it is, and what to do.
//!
//! The build script runs here by itself, in worlds that lack one thing each.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

const ADVICE: &str = "run `cargo fampi setup` in a checkout of fampi; in a project of your own, \
                      put what `cargo fampi env` prints into `.cargo/config.toml`";

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder with a built script and with programs and files that it could find.
struct World(PathBuf);

impl World {
    fn new(name: &str) -> Self {
        let world = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let _ = fs::remove_dir_all(&world.0);
        fs::create_dir_all(&world.0).expect("made");
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut compile = Command::new(rustc);
        compile.args(["--edition", "2024", "-o"]).arg(world.path("script"));
        let status = compile.arg(top().join("src/build.rs")).status().expect("rustc starts");
        assert!(status.success());
        for (file, text) in [
            ("include/mpi.h", ""),
            ("include/mpi-ext.h", "#define OMPI_HAVE_MPI_EXT_FTMPI 1"),
            ("no-ft/mpi.h", ""),
            ("no-ft/mpi-ext.h", ""),
            ("lib/libclang.so", ""),
            ("empty/none", ""),
        ] {
            world.write(file, text);
        }
        world.program("mpicc", &open_mpi("5.0.9", &world.path("include")));
        world.program("clang", "exit 0");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().expect("below the world")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn program(&self, name: &str, script: &str) {
        self.write(name, &format!("#!/bin/sh\n{script}\n"));
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(name), executable).expect("changed");
    }

    /// What the script complains of when one of its variables names this file.
    fn complaints(&self, variable: &str, file: &str) -> Vec<String> {
        let said = self.said(variable, file);
        let said = said.lines().filter_map(|line| line.strip_prefix("cargo::error="));
        said.map(str::to_owned).collect()
    }

    fn said(&self, variable: &str, file: &str) -> String {
        let mut script = Command::new(self.path("script"));
        script.env("CARGO_FEATURE_MPI", "1").env_remove("BINDGEN_EXTRA_CLANG_ARGS");
        for (name, file) in [("MPICC", "mpicc"), ("LIBCLANG_PATH", "lib"), ("CLANG_PATH", "clang")]
        {
            script.env(name, self.path(file));
        }
        let output = script.env(variable, self.path(file)).output().expect("the script starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// A compiler wrapper that says what Open MPI's would.
fn open_mpi(version: &str, headers: &Path) -> String {
    format!(
        "case $1 in *version) echo 'mpicc: Open MPI {version} (Language: C)';; \
         *) echo '{}';; esac",
        headers.display()
    )
}

#[test]
fn what_a_build_lacks_is_said_in_one_sentence() {
    let world = World::new("lacking");
    world.program("mpicc-4", &open_mpi("4.1.6", &world.path("include")));
    world.program("mpicc-bare", &open_mpi("5.0.9", &world.path("empty")));
    world.program("mpicc-no-ft", &open_mpi("5.0.9", &world.path("no-ft")));
    world.program("mpicc-other", "echo gcc: no input files; exit 1");
    world.program("mpicc-mpich-4", &mpich("4.3.0"));
    world.program("clang-bare", "exit 1");
    assert_eq!(world.complaints("UNUSED", "none"), [""; 0]);
    for (variable, file, words) in [
        ("MPICC", "no-such-file", "there is no MPI: "),
        ("MPICC", "mpicc-other", "is of no MPI that is known: fampi needs Open MPI 5 or MPICH 5: "),
        ("MPICC", "mpicc-mpich-4", "is of MPICH 4.3.0, and fampi needs MPICH 5: "),
        ("MPICC", "mpicc-4", "is of Open MPI 4.1.6, and fampi needs Open MPI 5: "),
        ("MPICC", "mpicc-bare", "the headers of MPI are not installed: "),
        ("MPICC", "mpicc-no-ft", "is built without fault tolerance (ULFM): "),
        ("LIBCLANG_PATH", "empty", "which LIBCLANG_PATH names: "),
        ("CLANG_PATH", "clang-bare", "libclang finds no headers of C, such as stddef.h: "),
        ("CLANG_PATH", "no-such-file", "libclang finds no headers of C, such as stddef.h: "),
    ] {
        let complaints = world.complaints(variable, file);
        let [complaint] = &complaints[..] else { panic!("{file}: {complaints:?}") };
        assert!(complaint.contains(words) && complaint.ends_with(ADVICE), "{file}: {complaint}");
    }
}

/// One that preprocesses, as MPICH's does.
fn mpich(version: &str) -> String {
    let define = format!("#define MPICH_VERSION \"{version}\"");
    format!("case $1 in -E) echo '{define}';; *) exit 1;; esac")
}

#[test]
fn an_mpich_lacks_nothing_and_is_what_the_crate_is_built_for() {
    let world = World::new("mpich");
    world.program("mpicc-mpich", &mpich("5.0.2"));
    assert_eq!(world.complaints("MPICC", "mpicc-mpich"), [""; 0]);
    let is_chosen = |file| world.said("MPICC", file).contains("cargo::rustc-cfg=mpich\n");
    assert!(is_chosen("mpicc-mpich") && !is_chosen("mpicc"));
}

#[test]
fn a_library_with_headers_of_its_own_needs_no_compiler() {
    let world = World::new("own-headers");
    world.write("lib/clang/18/include/stddef.h", "");
    assert_eq!(world.complaints("CLANG_PATH", "no-such-file"), [""; 0]);
}
