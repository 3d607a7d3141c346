//! What processes find when they are started: their input, and their processors; and that who has
//! started them may die.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::thread;

use crate::alone::User;
use crate::network::{Job, What, alone, has_name_spaces};
use crate::{application, fampi, in_c, said, text};

/// A program of the system on so many ranks, which reads this.
#[track_caller]
fn run_with(input: &[u8], options: &[&str], program: &[&str]) -> Output {
    // It builds the launcher.
    drop(User::new());
    // Others measure how soon processes answer.
    let _alone = alone();
    let mut tool = fampi(options);
    tool.arg("--").args(program);
    tool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("the tool starts");
    let (mut writer, input) = (tool.stdin.take().expect("piped"), input.to_owned());
    // Who does not read it all breaks the pipe.
    let writer = thread::spawn(move || drop(writer.write_all(&input)));
    let output = tool.wait_with_output().expect("waited for");
    writer.join().expect("no panic");
    assert!(output.status.success(), "{}", said(&output));
    output
}

#[test]
fn the_first_rank_reads_what_the_tool_is_given_and_the_others_nothing() {
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    for input in [&bytes[..], &bytes[..1], &[]] {
        let output = run_with(input, &["-n", "3"], &["cat"]);
        let length = output.stdout.len();
        assert!(output.stdout == input, "{length} bytes instead of {}", input.len());
    }
}

#[test]
fn a_rank_that_does_not_read_its_input_ends_as_ever() {
    let bytes = vec![b'\n'; 5_000_000];
    let output = run_with(&bytes, &["-n", "2"], &["sh", "-c", "echo done"]);
    assert_eq!(text(&output.stdout), "done\ndone\n");
}

/// Rank 0 stops itself, and its node is lost while more waits for it than it will ever read.
#[test]
fn a_job_goes_on_when_its_first_node_is_lost_with_the_input() {
    if !has_name_spaces() {
        return;
    }
    let program = application("minife");
    let words = [&program.to_string_lossy(), "nx=30", "yaml=none", "kill=0@iteration:20:stop"];
    let options = ["--nodes", "3", "-n", "6"];
    let whole = run_with(&[], &options, &words[..3]);
    let alone = alone();
    let mut tool = fampi(&options);
    tool.arg("--").args(words);
    let tool = tool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("the tool starts");
    let mut input = tool.stdin.take().expect("piped");
    let writer = thread::spawn(move || while input.write_all(&[b'x'; 4096]).is_ok() {});
    let job = Job::of(tool, alone);
    job.wait_for_stop(0);
    job.lose(0, What::Everything);
    let output = job.finish();
    writer.join().expect("the pipe is closed");
    let digits = |output: &Output| text(&output.stdout).lines().last().map(str::to_owned);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(digits(&output), digits(&whole), "{}", said(&output));
}

/// The processors in a list as Linux prints it, `0-3,8`.
fn processors(list: &str) -> BTreeSet<u32> {
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        number(first)..=number(last)
    };
    list.trim().split(',').flat_map(range).collect()
}

/// What each of so many ranks may run on.
fn allowed(options: &[&str]) -> Vec<BTreeSet<u32>> {
    let program = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let output = run_with(&[], options, &program);
    let lists = text(&output.stdout);
    lists.lines().map(|line| processors(line.split(':').nth(1).expect("a list"))).collect()
}

#[test]
fn each_rank_has_processors_of_its_own_where_there_are_enough() {
    let [all] = &allowed(&["-n", "1"])[..] else { panic!("one rank") };
    let more = (all.len() + 1).to_string();
    assert!(allowed(&["-n", &more]).iter().all(|its| its == all), "more ranks than processors");
    let unbound = ["-n", "2", "--launcher-flag=--unbound"];
    assert!(allowed(&unbound).iter().all(|its| its == all));
    let both = allowed(&["-n", "2"]);
    let [one, other] = &both[..] else { panic!("two ranks") };
    // The processors of a machine may all be of one core.
    let is_shared = one == all && other == all;
    assert!(is_shared || one.is_disjoint(other) && one | other == *all, "{both:?}");
    assert!(!is_shared || thread::available_parallelism().is_ok_and(|all| all.get() <= 2));
}

/// Rank 0 has started the process that takes the place of rank 1, and dies after it.
#[test]
fn a_replacement_outlives_who_has_started_it() {
    let program = application("minife");
    let words = [&program.to_string_lossy(), "nx=20", "yaml=none"];
    let whole = run_with(&[], &["-n", "4"], &words);
    let kills = ["-n", "4", "--strict", "--kill", "1@iteration:20", "--kill", "0@iteration:40"];
    let mended = run_with(&[], &kills, &words);
    let digits = |output: &Output| text(&output.stdout).lines().last().map(str::to_owned);
    assert_eq!(digits(&mended), digits(&whole), "{}", said(&mended));
}

#[test]
fn several_programs_are_started_at_once_also_on_other_nodes() {
    let program = in_c("several");
    let program = program.to_str().expect("plain letters");
    let nodes: &[&[&str]] = if has_name_spaces() { &[&[], &["--nodes", "3"]] } else { &[&[]] };
    for options in nodes {
        let output = run_with(&[], &[options, &["-n", "2"][..]].concat(), &[program]);
        let said = text(&output.stdout);
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        // What each adds, the number of its program, and the sum; MPI gives a launch none or 0.
        assert_eq!(lines.len(), 5, "{said}");
        assert!(lines[..2].iter().all(|line| line.starts_with("1 ") && line.ends_with(" 122")));
        assert_eq!(lines[2..], ["10 0 122", "10 0 122", "100 1 122"], "{said}");
    }
}

#[test]
fn a_setting_without_sense_is_refused_with_what_it_should_be() {
    for (name, value, most) in
        [("FAMPI_MESH_NODES", "0", 1024), ("FAMPI_HEARTBEAT_MILLISECONDS", "soon", 60_000)]
    {
        let output = fampi(&["-n", "1", "--", "true"]).env(name, value).output();
        let output = output.expect("the tool starts");
        let sentence = format!("{name} should be a number from 1 to {most}, and is {value}");
        assert!(!output.status.success() && text(&output.stderr).contains(&sentence), "{output:?}");
    }
}
