//! `fampi figure ring-token` on small rings: real ranks, which are killed, and simulated ones.

use std::fs;
use std::process::Command;

/// What the command prints, and its file of rows.
#[track_caller]
fn ring_token(words: &str) -> (String, Vec<Vec<String>>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["figure", "ring-token"]).args(words.split(' ')).arg("--folder").arg(folder.path());
    let output = tool.output().expect("the tool starts");
    let [said, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    let svg = fs::read_to_string(folder.path().join("ring-token.svg")).expect("written");
    assert!(svg.contains("paper, figure 1(a)") && svg.contains("processes, two at a time"));
    let png = fs::read(folder.path().join("ring-token.png")).expect("written");
    assert!(png.starts_with(b"\x89PNG"));
    let csv = fs::read_to_string(folder.path().join("ring-token.csv")).expect("written");
    let row = |line: &str| line.split(',').map(str::to_owned).collect();
    (
        said,
        csv.lines()
            .skip(1)
            .map(row)
            .inspect(|row: &Vec<String>| assert_eq!(row.len(), 9))
            .collect(),
    )
}

/// The claims that have these words, of which there are so many, hold.
#[track_caller]
fn all_hold(said: &str, words: &str, number: usize) {
    let claims: Vec<&str> = said.lines().filter(|line| line.contains(words)).collect();
    assert_eq!(claims.len(), number, "{words}: {said}");
    assert!(claims.iter().all(|claim| claim.ends_with(": yes")), "{said}");
}

/// Rows of this kind about a ring in which processes die so.
fn number_of(rows: &[Vec<String>], pattern: &str, what: &str) -> usize {
    rows.iter().filter(|row| row[2] == pattern && row[3] == what).count()
}

/// A ring of five ranks which die in each way. Nothing is said about times: they are the machine's.
#[track_caller]
fn real_ranks_pass_tokens_on(nodes: &str) {
    let (said, rows) = ring_token(&format!("--only real -n 5 --tokens 60 --pace 8000 {nodes}"));
    all_hold(&said, "real: without a death no token is lost, and each has 5 hops", 1);
    all_hold(&said, "a token has a hop for each process that lives on its way", 4);
    all_hold(&said, "lose no token once all know", 4);
    for (pattern, deaths) in
        [("one at a time", 3), ("two at a time", 3), ("n/2 at once", 2), ("n-2 at once", 3)]
    {
        assert_eq!(number_of(&rows, pattern, "token"), 60, "{pattern}");
        assert_eq!(number_of(&rows, pattern, "death"), deaths, "{pattern}");
        // Each of those who are left knows of each death, and some of the others do.
        assert!(number_of(&rows, pattern, "known") >= deaths * (5 - deaths), "{pattern}: {said}");
    }
    for part in ["fampi undisturbed", "MPI undisturbed"] {
        assert_eq!(rows.iter().filter(|row| row[0] == part).count(), 60, "{part}");
    }
}

#[test]
fn real_ranks_of_one_node_pass_tokens_on_until_two_are_left() {
    real_ranks_pass_tokens_on("--nodes 1");
}

#[test]
fn real_ranks_of_two_nodes_pass_tokens_on_until_two_are_left() {
    // Without root they are on one node, and the tool says so.
    real_ranks_pass_tokens_on("--nodes 2");
}

#[test]
fn simulated_rings_hold_all_claims_and_repeat_themselves() {
    let words = "--only simulated --processes 256 --tokens 500 --seed";
    let (said, rows) = ring_token(&format!("{words} 7"));
    all_hold(&said, "simulated: ", 1);
    all_hold(&said, "simulated, ", 4 * 4);
    assert_eq!(number_of(&rows, "one at a time", "death"), 254);
    let last_hops = |pattern: &str| {
        let tokens = rows.iter().rfind(|row| row[2] == pattern && row[3] == "token");
        tokens.map(|row| row[8].clone())
    };
    assert_eq!(last_hops("nobody dies").as_deref(), Some("256"));
    assert_eq!(last_hops("one at a time").as_deref(), Some("2"));
    assert_eq!(last_hops("n/2 at once").as_deref(), Some("128"));
    assert!(rows == ring_token(&format!("{words} 7")).1, "the same seed, and other rows");
    assert!(rows != ring_token(&format!("{words} 8")).1, "another seed, and the same rows");
}
