//! A soak keeps what was said in each round that has no right result. Its applications are shell
//! scripts here, which play each kind of end; the launcher is the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Each process reports as the library does, then ends in the way of its seed.
const RING: &str = r"#!/bin/sh
echo running > $FAMPI_STATUS_DIR/$$
case $2 in
0) echo the cause of seed 0 >&2; kill -KILL $$;;
2) echo the cause of seed 2 >&2; echo ring: WRONG >&2; exit 3;;
4) echo the cause of seed 4 >&2; echo Error: sorry >&2; exit 1;;
10) kill -SEGV $PPID; kill -KILL $$;;
6) echo the cause of seed 6; echo ring: digest=1 generations=0 communicators=999 growth_kib=1;;
*) echo ring: digest=1;;
esac
echo ok > $FAMPI_STATUS_DIR/$$
";
/// Has another digest each time.
const MINIFE: &str = r"#!/bin/sh
echo ok > $FAMPI_STATUS_DIR/$$
echo the cause of minife
echo minife: digest=$$
";
/// Stands in for cargo: it has built the scripts.
const CARGO: &str = r#"#!/bin/sh
for name; do
    case $name in ring | minife)
        target='"target":{"name":"'$name'","kind":["bin"]},"executable":"'$HERE/$name'"'
        echo '{"reason":"compiler-artifact",'$target'}'
        exit;;
    esac
done
exec "$REAL_CARGO" "$@"
"#;

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

#[test]
fn what_was_said_in_a_round_without_a_right_result_is_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in [("ring", RING), ("minife", MINIFE), ("cargo", CARGO)] {
        script(&folder.path().join(name), text);
    }
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["soak", "-n", "1", "--minutes", "5", "--rounds", "11", "--seed", "0"]);
    tool.env("CARGO", folder.path().join("cargo")).env("HERE", folder.path());
    tool.env("REAL_CARGO", env!("CARGO")).stdin(Stdio::null());
    let output = tool.output().expect("the tool starts");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("soak: 11 rounds"), "{told}");
    for (seed, outcome, cause) in [
        (0, "crash", "the cause of seed 0"),
        (1, "wrong", "the cause of minife"),
        (2, "wrong", "the cause of seed 2"),
        (3, "wrong", "the cause of minife"),
        (4, "refused", "the cause of seed 4"),
        (5, "wrong", "the cause of minife"),
        (6, "leak", "the cause of seed 6"),
        (7, "wrong", "the cause of minife"),
        (9, "wrong", "the cause of minife"),
        (10, "refused", "the launcher: Crashed(11)"),
    ] {
        let round = format!("(seed {seed}): ");
        let line = told.lines().find(|line| line.contains(&round)).expect("a line of each round");
        assert!(line.contains(&format!(": {outcome} after ")), "{line}");
        let (_, file) = line.split_once("all that was said is in ").expect(line);
        let kept = fs::read_to_string(file).expect(file);
        assert!(kept.contains(cause), "{file}: {kept}");
        fs::remove_file(file).expect("removed");
    }
    let right = told.lines().find(|line| line.contains("(seed 8): ")).expect("a line of it");
    assert!(right.contains(": undisturbed after ") && !right.contains("all that"), "{right}");
}
