//! What an observer tells those who listen when it leaves.

use std::{
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use fampi_detector::daemon::Service;
use fampi_detector::protocol::{envelope::Secret, plan::Plan};

use crate::{
    job::{CALM, Job, launched, until},
    rank::Member,
};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_observer_that_leaves_tells_what_it_has_counted() {
    let mut job = Job::new(&[2], CALM);
    // It takes the port itself.
    job.sockets.clear();
    let (plan, lines) = (job.plan_file(0), Lines::default());
    let writer = lines.clone();
    let observer = thread::spawn(move || {
        let format = tracing_subscriber::fmt().with_ansi(false).without_time();
        let listener = format.with_writer(move || writer.clone()).finish();
        let serve = || Service::start(&plan).and_then(Service::run);
        tracing::subscriber::with_default(listener, serve)
    });
    until("it listens", || {
        assert!(!observer.is_finished(), "it could not start");
        Path::new(&job.plan(0).socket).exists()
    });
    let mut actors = [job.process(0, 0), job.process(0, 1)];
    let stranger = Plan { secret: Secret::new([1; 32]), ..job.plan(0) };
    assert!(Member::register(&stranger, launched(1)).is_err());
    actors[0].order("exit 3");
    actors[1].order("leave");
    observer.join().expect("no panic").expect("it leaves in order");
    let text = String::from_utf8(lines.0.lock().expect("nobody panics with it").clone());
    let text = text.expect("text");
    for part in [
        "INFO fampi::metrics: observer left node=0 registered=2 deaths=1 hung=0 lost_nodes=0",
        " refused_packets=0 refused_connections=1 ",
        " fenced=false failed_tests=0 stalls=0",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
