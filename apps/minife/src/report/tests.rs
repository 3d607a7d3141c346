//! The final line and the report, against the values of the baselines.

use super::*;
use crate::partition::Partition;

fn row_map() -> RowMap {
    RowMap::new(Partition::new(Mesh::new([30; 3]), 4, 0.0).unwrap())
}

fn report(row_map: &RowMap) -> Report<'_> {
    let result = FinalLine {
        ranks: 4,
        rows: 29_791,
        nonzeros: 753_571,
        iterations: 99,
        residual: 1.304_9e-16,
        max_error: 0.055_792_751_023_401_116,
        centre: 0.222_459_417_690_067_77,
        digest: Digest::of(1, 2.0),
    };
    Report {
        name: "a \"quoted\" name",
        row_map,
        result,
        matrix_bytes: 2_000_000,
        setup: SetupTimes::default(),
        solve: SolveTimes { total: Duration::from_millis(99), ..SolveTimes::default() },
        resilience: None,
        program: Duration::from_secs(1),
        now: UNIX_EPOCH + Duration::from_secs(1_709_210_096),
    }
}

#[test]
fn the_final_line_has_seventeen_digits() {
    let line = report(&row_map()).result.to_string();
    let digest = Digest::of(1, 2.0);
    assert_eq!(
        line,
        format!(
            "minife: ranks=4 rows=29791 nnz=753571 iterations=99 \
             residual=1.3049000000000000e-16 max_error=5.5792751023401116e-2 \
             centre=2.2245941769006777e-1 digest={digest}"
        )
    );
}

#[test]
fn the_numbers_of_the_line_read_back_as_the_same_bits() {
    for value in [0.222_459_417_690_067_77, 1.0 / 3.0, f64::MIN_POSITIVE, 0.1 + 0.2] {
        let read: f64 = format!("{value:.16e}").parse().unwrap();
        assert_eq!(read.to_bits(), value.to_bits());
    }
}

#[test]
fn the_report_has_the_values_of_the_baselines() {
    let row_map = row_map();
    let yaml = report(&row_map).yaml();
    for line in [
        "Mini-Application Name: \"a \\\"quoted\\\" name\"",
        "  dimensions: {nx: 30, ny: 30, nz: 30}",
        "  number of processors: 4",
        "  Global Nrows: 29791",
        "  Global NNZ: 753571",
        "  Rows per proc: {min: 6975, max: 7936, avg: 7447.75}",
        "  Iterations: 99",
        "  WAXPY Flops: 2.4219e7",
        "  DOT Flops: 1.0692e7",
        "  MATVEC Flops: 1.507142e8",
        "  Total CG Flops: 1.856252e8",
        "  Time per iteration: 0.001",
        "Run Date/Time: \"2024-02-29 12:34:56\"",
    ] {
        assert!(yaml.lines().any(|found| found == line), "'{line}' is not in\n{yaml}");
    }
    assert!(!yaml.contains("Resilience"));
    let resilient = Report { resilience: Some(Account::default()), ..report(&row_map) };
    assert!(resilient.yaml().contains("Resilience:\n  Recoveries: 0\n"));
}

#[test]
fn every_line_of_the_report_is_a_key_with_a_value_or_a_section() {
    for line in report(&row_map()).yaml().lines() {
        let (key, value) = line.split_once(": ").or(line.split_once(':')).expect(line);
        assert!(!key.trim().is_empty());
        assert_eq!(value.is_empty(), line.ends_with(':'), "{line}");
    }
}

#[test]
fn the_file_is_named_after_problem_and_time() {
    let row_map = row_map();
    assert_eq!(report(&row_map).file_name(), "miniFE.30x30x30.P4.2024-02-29T12-34-56.yaml");
}

#[test]
fn dates_are_right_around_leap_days() {
    for (seconds, text) in [
        (0, "1970-01-01 00:00:00"),
        (951_782_399, "2000-02-28 23:59:59"),
        (951_782_400, "2000-02-29 00:00:00"),
        (1_735_689_599, "2024-12-31 23:59:59"),
        (4_107_542_400, "2100-03-01 00:00:00"),
    ] {
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
    }
}
