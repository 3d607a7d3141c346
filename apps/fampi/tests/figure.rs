//! `fampi figure2` on small problems: every situation is lived through on real ranks.

use std::fs;
use std::process::Command;

#[test]
fn every_situation_of_the_figure_comes_to_the_right_result_and_is_drawn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sizes = "--runs 1 --iterations 12 --protect-every 4 --minife-size 8 --lulesh-size 2";
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.arg("figure2").args(sizes.split(' ')).arg("--folder").arg(folder.path());
    let output = tool.output().expect("the tool starts");
    let [table, said] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(output.status.code(), Some(0), "{said}");

    let csv = fs::read_to_string(folder.path().join("figure2.csv")).expect("written");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|column| *column == name).expect(name);
    assert_eq!(rows.len(), 1 + 2 * 9, "{csv}");
    for row in &rows[1..] {
        let number = |name: &str| row[column(name)].parse::<f64>().expect(name);
        assert_eq!(row[column("outcome")], "right", "{said}");
        let parts = column("total_ms") + 1..column("lost_iterations");
        let sum: f64 = row[parts].iter().map(|part| part.parse::<f64>().expect("a time")).sum();
        // Rounding, and parts of different clocks that overlap.
        assert!((sum / number("total_ms") - 1.0).abs() < 0.01, "{row:?}");
        let dies = !["No FA-MPI", "Fault-Free"].contains(&row[column("situation")]);
        for name in ["detection_ms", "shrink_ms", "spawn_ms", "lost_iterations"] {
            assert_eq!(number(name) > 0.0, dies, "{name} {row:?}");
        }
        assert!(table.contains(row[column("situation")]), "{table}");
    }
    let svg = fs::read_to_string(folder.path().join("figure2.svg")).expect("written");
    assert!(svg.contains("Mid-Rank-0-R") && svg.contains("data recovery"));
    let png = fs::read(folder.path().join("figure2.png")).expect("written");
    assert!(png.starts_with(b"\x89PNG"));
}
