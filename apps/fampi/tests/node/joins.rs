//! Hosts that join a job while it runs.

use std::process::Output;
use std::time::{Duration, Instant};

use fampi_kit::processes::wait_until;

use crate::alone::User;
use crate::network::{Job, What, alone, has_name_spaces};
use crate::{application, said, text};

/// `MiniFE` on one rank of each of two nodes, beside which there is a third one.
fn minife(user: &User, stops: &[&str]) -> Job {
    let (alone, program) = (alone(), application("minife"));
    let mut words = vec![program.to_str().expect("a path"), "nx=30", "yaml=none"];
    words.extend(stops);
    Job::of(user.run(&["--nodes", "3", "-n", "2"], &words), alone)
}

fn digits(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    text(&output.stdout).lines().last().expect("a result").to_owned()
}

#[test]
fn nodes_that_join_take_the_place_of_all_that_were_launched_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    let user = User::new();
    let expected = digits(&minife(&user, &[]).finish());
    let job = minife(&user, &["kill=1@iteration:20:stop", "kill=0@iteration:60:stop"]);
    // The third node is new, the second one comes back.
    for (lost, new) in [(1, 2), (0, 1)] {
        job.wait_for_stop(lost);
        let added = user.done(&["add-host", "--hosts", &format!("{}:1", job.node(new))]);
        assert!(added.status.success(), "{}", said(&added));
        assert!(text(&added.stdout).contains(&format!("{} has joined", job.node(new))));
        job.lose(lost, What::Everything);
    }
    let output = job.finish();
    assert_eq!(digits(&output), expected, "{}", said(&output));
    let told = text(&output.stderr);
    assert!(told.contains("-2 has joined") && told.contains("-1 has joined"), "{told}");
    assert!(told.contains("-0 is lost, with 1 processes"), "{told}");
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
