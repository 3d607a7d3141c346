//! Hosts that join a job while it runs.

use std::process::Output;
use std::time::{Duration, Instant};

use fampi_kit::processes::wait_until;

use crate::alone::User;
use crate::network::{Job, What, alone, has_name_spaces};
use crate::{application, said, text};

/// `MiniFE` on one rank of each of so many nodes, beside which there is one more.
fn minife(user: &User, variables: &[(&str, &str)], ranks: u32, stops: &[String]) -> Job {
    let (alone, program) = (alone(), application("minife"));
    let mut words = vec![program.to_str().expect("a path"), "nx=30", "yaml=none"];
    words.extend(stops.iter().map(String::as_str));
    let (nodes, ranks) = ((ranks + 1).to_string(), ranks.to_string());
    let options = ["--nodes", &nodes, "-n", &ranks];
    Job::of(user.run_with(variables, &options, &words), alone)
}

fn digits(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    text(&output.stdout).lines().last().expect("a result").to_owned()
}

/// Before each of the nodes that were launched is lost another one joins: that which nobody uses,
/// and then those that were lost, as they come back.
#[track_caller]
fn all_that_were_launched_are_lost(variables: &[(&str, &str)], order: &[u32]) {
    if !has_name_spaces() {
        return;
    }
    let (user, ranks) = (User::new(), order.len() as u32);
    let expected = digits(&minife(&user, variables, ranks, &[]).finish());
    let stop = |(rank, at): (&u32, u32)| format!("kill={rank}@iteration:{}:stop", 15 * at);
    let stops: Vec<String> = order.iter().zip(1..).map(stop).collect();
    let job = minife(&user, variables, ranks, &stops);
    let mut new = ranks;
    for lost in order.iter().copied() {
        job.wait_for_stop(lost);
        let added = user.done(&["add-host", "--hosts", &format!("{}:1", job.node(new))]);
        assert!(added.status.success(), "{}", said(&added));
        assert!(text(&added.stdout).contains(&format!("{} has joined", job.node(new))));
        job.lose(lost, What::Everything);
        new = lost;
    }
    let output = job.finish();
    assert_eq!(digits(&output), expected, "{}", said(&output));
    let told = text(&output.stderr);
    for lost in order {
        assert!(told.contains(&format!("-{lost} is lost, with 1 processes")), "{told}");
    }
    assert!(told.contains(&format!("-{ranks} has joined")), "{told}");
}

#[test]
fn nodes_that_join_take_the_place_of_all_that_were_launched_and_no_digit_changes() {
    all_that_were_launched_are_lost(&[], &[1, 0]);
}

#[test]
fn nodes_join_also_where_not_all_are_linked_and_no_digit_changes() {
    all_that_were_launched_are_lost(&[("FAMPI_MESH_NODES", "1")], &[1, 0]);
}

#[test]
fn a_node_that_has_joined_a_graph_is_lost_with_others_and_lost_ones_join_again() {
    if !has_name_spaces() {
        return;
    }
    // Ranks that wait for each other would leave no processor to who joins, as the page says.
    let (user, folder) = (User::new(), tempfile::tempdir().expect("a folder"));
    let end = folder.path().join("end");
    let script =
        format!("echo begun; until [ -e {} ]; do sleep 0.05; done; echo done", end.display());
    let (alone, mesh) = (alone(), [("FAMPI_MESH_NODES", "2")]);
    let options = ["--nodes", "7", "-n", "6", "--timeout", "60"];
    let mut job = Job::of(user.run_with(&mesh, &options, &["sh", "-c", &script]), alone);
    for _ in 0..6 {
        job.read_until("begun");
    }
    let add = |node: u32| {
        let added = user.done(&["add-host", "--hosts", &format!("{}:1", job.node(node))]);
        assert!(added.status.success(), "{}", said(&added));
    };
    add(6);
    for nodes in [[0, 3], [6, 4]] {
        for node in nodes {
            job.lose(node, What::Everything);
        }
        add(nodes[0]);
    }
    std::fs::write(end, "").expect("our folder");
    let output = job.finish();
    assert_eq!(text(&output.stdout), "done\n".repeat(3), "{}", said(&output));
    let told = text(&output.stderr);
    let number = |what: &str| told.lines().filter(|line| line.contains(what)).count();
    assert_eq!((number("has joined"), number("is lost")), (3, 4), "{told}");
}

#[test]
fn who_adds_a_host_that_cannot_join_gets_a_sentence_and_the_job_goes_on() {
    let _alone = alone();
    let user = User::new();
    let add = |words: &[&str]| {
        let output = user.done(&[&["add-host"], words].concat());
        assert!(!output.status.success(), "{}", said(&output));
        text(&output.stderr)
    };
    let refused = |words: &[&str], why: &str| {
        let told = add(words);
        let lines = told.lines().filter(|line| !line.contains("build fampi-node")).count();
        assert!(told.contains(why) && lines == 1, "{told}");
    };
    refused(&["--hosts", "a:1"], "there is no job here");
    let folder = tempfile::tempdir().expect("a folder");
    let end = folder.path().join("end");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done; echo over", end.display());
    let job = user.run(&["-n", "1"], &["sh", "-c", &script]);
    wait_until("there is a job", || user.job().is_some());
    refused(&["--hosts", "no-such-host.invalid"], "there is no host no-such-host.invalid");
    refused(&["--hosts", "localhost:x"], "write HOST or HOST:PROCESSES");
    refused(&["--hosts", "localhost", "--agent", "false"], "no daemon can be started there");
    refused(&["fampi-0", "--hosts", "localhost"], "there is no job fampi-0 here");
    // Who brings it is killed while its daemon starts, which ends then, and leaves no secret.
    let script =
        "#!/bin/sh\nkill -STOP $PPID\nshift\nsh -c \"$*\" & sleep 1\nkill -9 $PPID\nwait\n";
    let agent = folder.path().join("agent");
    std::fs::write(&agent, script).expect("written");
    let agent = format!("sh {}", agent.display());
    add(&["--hosts", "localhost", "--agent", &agent]);
    assert!(!user.has_key());
    // The job ends while the daemon starts.
    let script = format!("#!/bin/sh\nshift\ntouch {}\nsleep 1\nexec sh -c \"$*\"\n", end.display());
    let agent = folder.path().join("late-agent");
    std::fs::write(&agent, script).expect("written");
    let agent = format!("sh {}", agent.display());
    let begun = Instant::now();
    let told = add(&["--hosts", "localhost", "--agent", &agent]);
    assert!(told.contains("the job has ended, or this host has left it"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(20), "after {:?}", begun.elapsed());
    let output = job.wait_with_output().expect("an end");
    assert_eq!(text(&output.stdout), "over\n", "{}", said(&output));
}
