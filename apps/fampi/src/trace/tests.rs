//! From parts to a trace and back.

use super::*;

/// One process: its first line, then events `(microsecond, the kind, the name, what else)`.
fn part(pid: u32, begun: u64, events: &[(u64, char, &str, &str)]) -> String {
    let line = |at: f64, kind: char, name: &str, more: &str| {
        let (name, category) =
            name.rsplit_once(' ').map_or((name, "life"), |(name, of)| (name, of));
        let more = if more.is_empty() { String::new() } else { format!(",{more}") };
        format!(
            r#"{{"name":"{name}","cat":"{category}","ph":"{kind}","ts":{at},"pid":{pid}{more}}},"#
        )
    };
    let clocks = format!(
        r#""args":{{"node":"n","monotonic":{},"wall":{}}}"#,
        begun * 1000 + 500,
        // The wall clock is looked at once for a node, whatever it does later.
        7_000_000 + begun * 1000 + u64::from(pid) * 11
    );
    let first = line(begun as f64 + 0.5, 'M', "process_name", &clocks);
    let events = events.iter();
    let events = events.map(|(at, kind, name, more)| line((begun + at) as f64, *kind, name, more));
    ["[".to_owned(), first].into_iter().chain(events).collect::<Vec<_>>().join("\n")
}

fn placed(process: u32, rank: &str, role: &str) -> String {
    format!(
        "\"args\":{{\"process\":{process},\"rank\":{rank},\"origin\":{rank},\
         \"generation\":0,\"role\":\"{role}\"}}"
    )
}

fn started(block: u32, level: &str) -> String {
    format!(r#""id":{block},"args":{{"level":"{level}","communicator":"world","number":0}}"#)
}

fn ended(block: u32, committed: bool) -> String {
    let verdict = if committed { "committed" } else { "faulty" };
    format!(r#""id":{block},"args":{{"verdict":"{verdict}"}}"#)
}

/// Rank 1 dies in its block, rank 0 knows at 80 µs, and a spare takes the place at 100 µs.
fn a_run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    let survivor = part(
        40,
        100,
        &[
            (1, 'i', "placed", &placed(0, "0", "rank")),
            (10, 'b', "block block", &started(1, "Global")),
            (15, 'b', "block block", &started(2, "Local")),
            (20, 'e', "block block", &ended(2, true)),
            (30, 'n', "vote block", r#""id":1"#),
            (80, 'i', "death detected fault", r#""args":{"process":1,"rank":1}"#),
            (
                85,
                'i',
                "report agreed report",
                r#""args":{"communicator":"world","report":"rank 1: the process failed"}"#,
            ),
            (86, 'e', "block block", &ended(1, false)),
            (90, 'B', "rebuild recovery", ""),
            (110, 'E', "rebuild recovery", ""),
            (120, 'i', "leaves", ""),
        ],
    );
    write("n-40.trace", &survivor);
    // It began 5 µs later, and died in the middle of a line.
    let events = [
        (1, 'i', "placed", &*placed(1, "1", "rank")),
        (10, 'b', "block block", &*started(1, "Global")),
    ];
    write("n-41.trace", &(part(41, 105, &events) + "\n{\"name\":\"vote\",\"ph\":\"n"));
    let spare = part(
        42,
        100,
        &[
            (1, 'i', "placed", &placed(2, "null", "spare")),
            (2, 'B', "parked recovery", ""),
            (100, 'i', "placed", &placed(2, "1", "replacement")),
            (110, 'E', "parked recovery", ""),
            (115, 'i', "leaves", ""),
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
    let path = folder.path().join("n-41.trace");
    let word = r#"{"name":"killed by plan","cat":"program","ph":"i","ts":163,"pid":41}"#;
    let text = fs::read_to_string(&path).expect("text") + "\n" + word;
    fs::write(&path, text).expect("written");
    let recording = Recording::of_folder(folder.path()).expect("readable").expect("parts");
    let died = recording.events.iter().find(|it| it.is_instant("died")).expect("it died");
    assert_eq!(died.arg("known to process").as_deref(), Some("itself"));
    assert!(died.ts < 79.0, "{}", died.ts);
}

#[test]
fn phases_of_a_program_are_slices_also_where_it_enters_no_job() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let events = [
        (10, 'B', "run program", r#""args":{"rank":2}"#),
        (15, 'i', "half program", ""),
        (20, 'X', "part program", r#""dur":3"#),
        (30, 'E', "run program", r#""args":{"lost":7}"#),
    ];
    fs::write(folder.path().join("n-1.trace"), part(1, 0, &events)).expect("written");
    let recording = Recording::of_folder(folder.path()).expect("readable").expect("a part");
    assert_eq!(recording.rows(), [(3, "rank 2".to_owned())]);
    let phases = slices(&recording, "program");
    let expected = [("run", 3, 9.5, 29.5), ("part", 3, 19.5, 22.5)];
    assert_eq!(phases, expected.map(|(name, row, from, to)| (name.to_owned(), row, from, to)));
    let run = recording.events.iter().find(|event| event.name == "run").expect("a phase");
    assert_eq!([run.number("rank"), run.number::<u32>("lost")], [Some(2), Some(7)]);
    assert!(recording.events.iter().any(|event| event.is_instant("half") && event.pid == 3));
}

#[test]
fn slices_of_a_lane_lie_beside_or_inside_each_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let entries = [
        (1, 'i', "placed", &*placed(0, "0", "rank")),
        (10, 'b', "block block", &*started(1, "Global")),
        (20, 'b', "block block", &*started(2, "Global")),
        (30, 'e', "block block", &*ended(1, true)),
        (40, 'e', "block block", &*ended(2, true)),
        (50, 'i', "leaves", ""),
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
