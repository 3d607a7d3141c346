//! Who is no process or observer of the job is refused and counted, and nothing else happens.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, UdpSocket},
    os::unix::{fs::PermissionsExt as _, net::UnixStream, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use fampi_detector::protocol::{
    Timing,
    envelope::{Envelopes, MAX_PACKET, Refusal, Secret},
    message::Message,
    plan::Plan,
    registration::{self, CHALLENGE_BYTES, Nonces, REGISTRATION_BYTES, Rejection},
};

use crate::{
    job::{CALM, Job, Observer, host, launched, until},
    rank::Member,
};

/// Nobody is lost only because there is no observer on a node.
const PATIENT: Timing = Timing { start: Duration::from_secs(600), ..CALM };

/// One observer of a job of two nodes, and this process as its rank 0. The other node is ours.
fn alone() -> (Job, Observer, Member) {
    let job = Job::new(&[3, 1], PATIENT);
    let observer = job.observer(0);
    let witness = job.member(0, 0);
    (job, observer, witness)
}

/// After all that, a process of the job registers, dies, and that is all there is on the board.
fn works(job: &Job, witness: &Member) {
    let mut actor = job.process(0, 1);
    assert!(witness.entries().is_empty());
    actor.order("exit 0");
    until("the death", || witness.head().entries == 1);
    assert_eq!(witness.entries()[0].process, launched(1));
}

fn until_rejected(witness: &Member, why: Rejection, count: u64) {
    until("it is counted", || witness.head().clients.count(why) >= count);
    assert_eq!(witness.head().clients.count(why), count);
}

/// A connection that was challenged.
fn challenged(plan: &Plan) -> (UnixStream, registration::Nonce) {
    let mut connection = UnixStream::connect(&plan.socket).expect("it listens");
    connection.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let mut challenge = [0; CHALLENGE_BYTES];
    connection.read_exact(&mut challenge).expect("a challenge");
    (connection, registration::read_challenge(&challenge).expect("a challenge"))
}

/// True when the other end has hung up without a word.
fn is_closed(connection: &mut UnixStream) -> bool {
    match connection.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_wrong_secret_and_a_replayed_registration_are_refused() {
    let (job, _observer, witness) = alone();
    let stranger = Plan { secret: Secret::new([1; 32]), ..job.plan(0) };
    assert!(Member::register(&stranger, launched(2)).is_err());
    until_rejected(&witness, Rejection::WrongSecret, 1);
    let plan = job.plan(0);
    let (mut heard, observer) = challenged(&plan);
    let nonces = Nonces { observer, process: [5; 16] };
    let registration = registration::register(&plan.secret, &nonces, launched(2));
    for _ in 0..3 {
        let (mut again, _) = challenged(&plan);
        again.write_all(&registration).expect("it listens");
        assert!(is_closed(&mut again));
    }
    until_rejected(&witness, Rejection::WrongSecret, 4);
    heard.write_all(&registration).expect("it listens");
    let mut first = [0];
    heard.read_exact(&mut first).expect("a welcome: it was good for its own connection");
    assert_eq!(witness.head().clients.total(), 4);
    works(&job, &witness);
}

#[test]
fn what_is_no_registration_is_refused() {
    let (job, _observer, witness) = alone();
    let plan = job.plan(0);
    let words: [&[u8]; 4] =
        [&[0; REGISTRATION_BYTES], &[1; REGISTRATION_BYTES + 1], &[0xff; 5000], b"GET / HTTP/1.1"];
    for words in words {
        let (mut connection, _) = challenged(&plan);
        // It may have hung up in the middle of it.
        let _ = connection.write_all(words);
        let _ = connection.shutdown(std::net::Shutdown::Write);
        assert!(is_closed(&mut connection));
    }
    until_rejected(&witness, Rejection::Malformed, 4);
    works(&job, &witness);
}

#[test]
fn who_says_nothing_makes_room_and_is_sent_away() {
    let (job, _observer, witness) = alone();
    let plan = job.plan(0);
    let mut silent: Vec<UnixStream> = (0..200).map(|_| challenged(&plan).0).collect();
    let gone = |why| witness.head().clients.count(why);
    until("they make room", || gone(Rejection::Crowded) + gone(Rejection::TooLate) >= 200 - 64);
    works(&job, &witness);
    let ended = || gone(Rejection::Crowded) + gone(Rejection::TooLate);
    until("all are gone", || ended() == 200);
    assert!(silent.iter_mut().all(is_closed));
    assert!(gone(Rejection::TooLate) > 0);
}

#[test]
fn a_full_door_opens_again() {
    let (job, observer, witness) = alone();
    observer.signal(rustix::process::Signal::STOP);
    // More than wait in the queue of a listening socket.
    let mut knocking = Vec::new();
    let address = rustix::net::SocketAddrUnix::new(&job.plan(0).socket).expect("a short path");
    for _ in 0..6000 {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        let Ok(socket) = socket else { break };
        if rustix::net::connect(&socket, &address).is_err() {
            break;
        }
        knocking.push(socket);
    }
    assert!(knocking.len() > 64, "{}", knocking.len());
    observer.signal(rustix::process::Signal::CONT);
    let gone = |why| witness.head().clients.count(why);
    let all = knocking.len() as u64;
    until("all are gone", || gone(Rejection::Crowded) + gone(Rejection::TooLate) == all);
    works(&job, &witness);
}

#[test]
fn packets_of_strangers_are_dropped_and_counted() {
    let (job, _observer, witness) = alone();
    let plan = job.plan(0);
    let to = plan.nodes[0].address;
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let refused = |why, packet: &[u8], count| {
        stranger.send_to(packet, to).expect("sent");
        until("it is counted", || witness.head().packets.count(why) >= count);
        assert_eq!(witness.head().packets.count(why), count, "{why:?}");
    };
    refused(Refusal::Length, &[], 1);
    refused(Refusal::Length, &[1; MAX_PACKET + 1], 2);
    refused(Refusal::Version, &[9; 100], 1);
    refused(Refusal::NotForUs, &[1; 100], 1);
    let mut unsecret = Envelopes::new(host(1), &Secret::new([1; 32]));
    refused(Refusal::Stranger, &unsecret.seal(host(0), &Message::Fence(None)), 1);
    // Our own node 1 has the secret: what it sends counts, once.
    let mut ours = Envelopes::new(host(1), &plan.secret);
    let request = ours.seal(host(0), &Message::Request);
    job.sockets[1].set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let before = count_heartbeats(&job.sockets[1], &plan);
    stranger.send_to(&request, to).expect("sent");
    refused(Refusal::Replay, &request, 1);
    refused(Refusal::Replay, &request, 2);
    let elsewhere = ours.seal(host(1), &Message::Fence(None));
    refused(Refusal::NotForUs, &elsewhere, 2);
    assert!(before > 0);
    assert_eq!(witness.head().packets.total(), 8);
    assert!(!witness.head().fenced);
    works(&job, &witness);
}

/// Takes some packets of node 0, which are for node 1.
fn count_heartbeats(socket: &UdpSocket, plan: &Plan) -> usize {
    let mut envelopes = Envelopes::new(host(1), &plan.secret);
    let mut packet = [0; MAX_PACKET];
    let packets = (0..3).map(|_| {
        let length = socket.recv(&mut packet).expect("a packet");
        envelopes.open(&packet[..length]).expect("from node 0")
    });
    packets
        .filter(|(from, message)| *from == host(0) && matches!(message, Message::Heartbeat(_)))
        .count()
}

#[test]
fn a_flood_of_packets_changes_nothing() {
    let job = Job::new(&[3, 1], CALM);
    let _observers = [job.observer(0), job.observer(1)];
    let (witness, _other) = (job.member(0, 0), job.member(1, 3));
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut unsecret = Envelopes::new(host(1), &Secret::new([1; 32]));
    let forged = unsecret.seal(host(0), &Message::Fence(None));
    let to: SocketAddr = job.plan(0).nodes[0].address;
    for packet in 0..30_000_u32 {
        let garbage = [1; 60];
        let bytes = if packet % 2 == 0 { &forged[..] } else { &garbage };
        // A full socket drops what comes, as a network does.
        let _ = stranger.send_to(bytes, to);
    }
    until("it is counted", || witness.head().packets.count(Refusal::Stranger) > 1000);
    assert!(!witness.head().fenced);
    works(&job, &witness);
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let (job, _observer, witness) = alone();
    let connect = || {
        let mut python = Command::new("python3");
        let code = "import socket,sys;s=socket.socket(socket.AF_UNIX);s.settimeout(30)\n\
                    s.connect(sys.argv[1]);sys.exit(7 if s.recv(1)==b'' else 8)";
        python.args(["-c", code, &job.plan(0).socket]).uid(65_534).gid(65_534);
        python.current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
        python.status().ok().and_then(|status| status.code())
    };
    let Some(status) = connect() else {
        println!("skipped: no python3 to be another user with");
        return;
    };
    assert_eq!(status, 1, "the folder is closed");
    // Even if it were open, the system says who is there.
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    open(Path::new(&job.plan(0).socket), 0o777);
    open(job.folder.path(), 0o755);
    let above = job.folder.path().ancestors().skip(1);
    let closed = above
        .filter_map(|folder| fs::metadata(folder).ok())
        .any(|metadata| metadata.permissions().mode() & 0o001 == 0);
    if closed {
        println!("skipped: another user cannot reach the folder for temporary files");
        return;
    }
    assert_eq!(connect(), Some(7), "it hangs up without a word");
    until_rejected(&witness, Rejection::WrongUser, 1);
    works(&job, &witness);
}

#[test]
fn what_others_may_read_or_change_is_not_used() {
    let job = Job::new(&[1], CALM);
    let why = |mode_of_plan, mode_of_folder| {
        let mut command = job.command(0);
        let plan = job.folder.path().join("0.plan");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        };
        set(&plan, mode_of_plan);
        set(job.folder.path(), mode_of_folder);
        let output = command.stderr(Stdio::piped()).output().expect("it starts");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(why(0o644, 0o700).contains("make it yours, with mode 0600"));
    assert!(why(0o600, 0o750).contains("make it yours, with mode 0700"));
}

#[test]
fn the_secret_is_nowhere_to_be_seen() {
    let (job, observer, _witness) = alone();
    let text = job.plan(0).to_text();
    let secret = text.lines().nth(1).and_then(|line| line.strip_prefix("secret "));
    let secret = secret.expect("a secret").as_bytes();
    for file in ["cmdline", "environ"] {
        let shown = fs::read(format!("/proc/{}/{file}", observer.pid())).expect("ours");
        assert!(!shown.windows(secret.len()).any(|window| window == secret), "{file}");
    }
    assert!(!fs::exists(job.folder.path().join("0.plan")).expect("our folder"));
}
