//! From parts to a trace and back.

use super::*;

/// One process: its first line, then entries `(microsecond, what)`.
fn part(pid: u32, begun: u64, entries: &[(u64, &str)]) -> String {
    let first = format!(
        r#"{{"at":500,"is":"process","node":"n","pid":{pid},"monotonic":{},"wall":{}}}"#,
        begun * 1000 + 500,
        // The wall clock is looked at once for a node, whatever it does later.
        7_000_000 + begun * 1000 + u64::from(pid) * 11
    );
    let lines = entries.iter().map(|(at, what)| format!(r#"{{"at":{},{what}}}"#, at * 1000));
    std::iter::once(first).chain(lines).collect::<Vec<_>>().join("\n")
}

fn placed(process: u32, rank: &str, role: &str) -> String {
    format!(
        "\"is\":\"placed\",\"process\":{process},\"rank\":{rank},\"origin\":{rank},\
         \"generation\":0,\"role\":\"{role}\""
    )
}

fn started(block: u32, level: &str) -> String {
    format!(r#""is":"started","block":{block},"number":0,"level":"{level}","comm":"world""#)
}

fn ended(block: u32, committed: bool) -> String {
    format!(r#""is":"ended","block":{block},"committed":{committed}"#)
}

const LEFT: &str = r#""is":"left""#;

/// Rank 1 dies in its block, rank 0 knows at 80 µs, and a spare takes the place at 100 µs.
fn a_run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    let survivor = part(
        40,
        100,
        &[
            (1, &placed(0, "0", "rank")),
            (10, &started(1, "Global")),
            (15, &started(2, "Local")),
            (20, &ended(2, true)),
            (30, r#""is":"voted","block":1"#),
            (80, r#""is":"died","process":1,"rank":1"#),
            (85, r#""is":"agreed","comm":"world","report":"rank 1: the process failed""#),
            (86, &ended(1, false)),
            (90, r#""is":"begun","work":"rebuild","spawn":0"#),
            (110, r#""is":"done","work":"rebuild""#),
            (120, LEFT),
        ],
    );
    write("n-40.trace", &survivor);
    // It began 5 µs later, and died in the middle of a line.
    let entries = [(1, &*placed(1, "1", "rank")), (10, &*started(1, "Global"))];
    write("n-41.trace", &(part(41, 105, &entries) + "\n{\"at\":66000,\"is\":\"vo"));
    let parked = r#""is":"begun","work":"parked","spawn":0"#;
    let spare = part(
        42,
        100,
        &[
            (1, &placed(2, "null", "spare")),
            (2, parked),
            (100, &placed(2, "1", "replacement")),
            (110, r#""is":"done","work":"parked""#),
            (115, LEFT),
        ],
    );
    write("n-42.trace", &spare);
    folder
}

fn slices(recording: &Recording, category: &str) -> Vec<(String, u32, f64, f64)> {
    let slices = recording.events.iter().filter(|event| event.is_slice(category));
    slices.map(|it| (it.name.clone(), it.pid, it.ts, it.end())).collect()
}

#[test]
fn the_parts_of_all_processes_become_rows() {
    let folder = a_run();
    let recording = Recording::of_folder(folder.path()).expect("readable").expect("parts");
    let rows: Vec<String> = recording.rows().into_iter().map(|(_, name)| name).collect();
    assert_eq!(rows, ["rank 0", "rank 1", "spare 2"]);
    let spare = recording.rows()[2].0;
    let at = |time: f64| time - 0.5;
    let lives = slices(&recording, "life");
    let expected = [
        ("process 0", 1, 0.0, at(120.0)),
        ("spare, process 2", spare, 0.0, at(100.0)),
        ("process 1", 2, 5.0, at(80.0)),
        ("replacement, process 2", 2, at(100.0), at(115.0)),
    ];
    assert_eq!(lives, expected.map(|(name, row, from, to)| (name.to_owned(), row, from, to)));
    let blocks = slices(&recording, "block");
    let expected = [
        ("Global block: faulty", 1, at(10.0), at(86.0)),
        // It was open when the process died.
        ("Global block", 2, at(15.0), at(80.0)),
        ("Local block", 1, at(15.0), at(20.0)),
    ];
    assert_eq!(blocks, expected.map(|(name, row, from, to)| (name.to_owned(), row, from, to)));
    assert_eq!(slices(&recording, "commit"), [("commit".to_owned(), 1, at(30.0), at(86.0))]);
    let works = slices(&recording, "recovery");
    let names: Vec<(&str, u32)> = works.iter().map(|(name, row, ..)| (&**name, *row)).collect();
    assert_eq!(names, [("parked", spare), ("rebuild", 1), ("join", 2)]);
}

#[test]
fn a_death_is_marked_where_the_first_of_the_others_knew() {
    let folder = a_run();
    let recording = Recording::of_folder(folder.path()).expect("readable").expect("parts");
    let died: Vec<&Event> = recording.events.iter().filter(|it| it.is_instant("died")).collect();
    assert_eq!(died.len(), 1);
    assert_eq!((died[0].pid, died[0].ts), (2, 79.5));
    assert_eq!(died[0].arg("known to process").as_deref(), Some("0"));
    let report = recording.events.iter().find(|it| it.is_instant("report agreed")).expect("one");
    assert_eq!(report.arg("report").as_deref(), Some("rank 1: the process failed"));
}

#[test]
fn a_process_that_says_when_it_kills_itself_is_believed() {
    let folder = a_run();
    let line = r#"{"timestamp":"1970-01-01T00:00:00.007163Z","target":"fampi::app","#.to_owned()
        + r#""fields":{"message":"killed by plan","rank":1}}"#;
    fs::write(folder.path().join("41.jsonl"), line).expect("written");
    let recording = Recording::of_folder(folder.path()).expect("readable").expect("parts");
    let died = recording.events.iter().find(|it| it.is_instant("died")).expect("it died");
    assert_eq!(died.arg("known to process").as_deref(), Some("itself"));
    assert!(died.ts < 79.0, "{}", died.ts);
}

#[test]
fn slices_of_a_lane_lie_beside_or_inside_each_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let entries = [
        (1, &*placed(0, "0", "rank")),
        (10, &*started(1, "Global")),
        (20, &*started(2, "Global")),
        (30, &*ended(1, true)),
        (40, &*ended(2, true)),
        (50, LEFT),
    ];
    fs::write(folder.path().join("n-1.trace"), part(1, 0, &entries)).expect("written");
    let recording = Recording::of_folder(folder.path()).expect("readable").expect("a part");
    let all: Vec<&Event> = recording.events.iter().filter(|event| event.ph == "X").collect();
    let lanes = |name: &str| all.iter().filter(|it| it.cat == name).map(|it| it.tid).collect();
    let blocks: Vec<u32> = lanes("block");
    assert_ne!(blocks[0], blocks[1]);
    for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
        let crosses = one.ts < other.ts && other.ts < one.end() && one.end() < other.end();
        assert!(one.tid != other.tid || !crosses, "{one:?} {other:?}");
    }
}

#[test]
fn a_trace_is_written_whole_and_read_again() {
    let (run, folder) = (a_run(), tempfile::tempdir().expect("a temporary folder"));
    let path = folder.path().join("trace.json");
    let target = Target::of("--trace", &path).expect("writable");
    conclude(run.path(), &target).expect("merged");
    let read = Recording::read(&path).expect("a trace");
    assert_eq!(Some(&read), Recording::of_folder(run.path()).expect("readable").as_ref());
    assert_eq!(read, Recording::read(run.path()).expect("a folder will do"));
    let text = fs::read_to_string(&path).expect("text");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    for event in value["traceEvents"].as_array().expect("a list") {
        assert!(["X", "i", "M"].contains(&event["ph"].as_str().expect("a phase")), "{event}");
        assert!(event["ts"].is_number() && event["pid"].is_number() && event["tid"].is_number());
        assert_eq!(event["ph"] == "X", event["dur"].is_number(), "{event}");
    }
    let empty = tempfile::tempdir().expect("a temporary folder");
    let error = conclude(empty.path(), &target).expect_err("nothing").to_string();
    assert!(error.contains("no process entered a job"), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("unchanged"), text);
}

#[test]
fn what_is_no_trace_is_told_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file");
    let nonsense: [&[u8]; 7] = [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        br#"{"traceEvents":[]}"#,
        br#"{"traceEvents":[{"name":"a","ph":"X","ts":1,"dur":2}]}"#,
        br#"{"traceEvents":[{"name":"a","cat":"life","ph":"X","ts":1e999,"pid":1}]}"#,
    ];
    for bytes in nonsense {
        fs::write(&path, bytes).expect("written");
        let error = format!("{:#}", Recording::read(&path).expect_err("no trace"));
        assert!(error.starts_with(ADVICE) && error.lines().count() == 1, "{error}");
    }
    assert!(Recording::read(folder.path()).is_err());
}
