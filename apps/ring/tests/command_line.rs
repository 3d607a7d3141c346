//! What the program answers to command lines that cannot be meant. No MPI is called.

use std::process::Command;

#[test]
fn every_wrong_command_line_gets_one_sentence() {
    let refused: [(&[&str], &str); 7] = [
        (&["--nope"], "'--nope'"),
        (&["word"], "'word'"),
        (&["--steps"], "a value is required for '--steps <STEPS>'"),
        (&["--steps", "-1"], "write a whole number, 1 or more"),
        (&["--steps", "x"], "write a whole number, 1 or more"),
        (&["--cells", "0"], "write a whole number, 1 or more"),
        (&["--deaths", ""], "write a whole number, 0 or more"),
    ];
    for (arguments, words) in refused {
        let output = Command::new(env!("CARGO_BIN_EXE_ring")).args(arguments).output();
        let output = output.expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
        assert!(said.starts_with("ring: ") && said.lines().count() == 1, "{said}");
        assert!(said.contains(words), "{words}: {said}");
    }
}
