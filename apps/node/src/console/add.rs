//! Brings nodes to a job that runs: starts a daemon on each, and lets the others know it.
//!
//! It is a guest of the job: neither its console nor needed by it once a node has joined. When it
//! is gone before that, so is the node.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use fampi_detector::protocol::{Host, envelope::Secret};

use super::START;
use super::attach::{find, go_where_nodes_are};
use super::hosts::{By, HostSlots, JOINS, KeyFile, Starter, agent, own_address};
use crate::daemon::{host, parse_secret};
use crate::protocol::Refusal;
use crate::protocol::channel::{CONSOLE, GUEST, NEWCOMER};
use crate::protocol::orders::{Invitation, MAX_BYTES, Order, Place, Word};
use crate::record::{self, Record};
use crate::wire::Link;

/// What has come is looked for so often.
const TURN: Duration = Duration::from_millis(2);
/// How long a new node needs at most to notice that it has lost another one.
const LEAVES: Duration = Duration::from_secs(5);
/// How often a node is brought that gives up, as another one is lost.
const TRIALS: u32 = 5;
/// Who is asked, and says that another one adds nodes, may not know yet that that one is lost.
const PAUSE: Duration = Duration::from_millis(200);

/// Which nodes are added to which job.
#[derive(Args, Debug)]
pub struct Options {
    /// The job, as `jobs` names it; the only one without it
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// The hosts, and how many processes each takes; one may be a host that was lost
    #[arg(long, value_name = "HOST:N,…", value_delimiter = ',', required = true)]
    hosts: Vec<HostSlots>,
    /// Starts a daemon: called as `COMMAND HOST WORDS…`; what has started the others without it
    #[arg(long, value_name = "COMMAND")]
    agent: Option<String>,
}

/// Adds them, one after the other.
pub fn main(options: &Options) -> Result<u8> {
    record::tidy();
    let records = find(options.job.as_deref())?;
    let job = records[0].job.clone();
    let running = records.iter().find(|it| it.runs() && it.secret.is_some());
    let Some(record) = running else {
        bail!("{job} does not run on this host: add nodes from a host of the job");
    };
    let hosts: Vec<String> =
        options.hosts.iter().map(|it| format!("{}:{}", it.name, it.slots)).collect();
    let mut words =
        vec!["add-host".to_owned(), job.clone(), format!("--hosts={}", hosts.join(","))];
    words.extend(options.agent.iter().map(|agent| format!("--agent={agent}")));
    go_where_nodes_are(record, &words)?;
    let secret = record.secret.as_deref().and_then(parse_secret);
    let secret = secret.context("the record of the job holds no secret")?;
    for at in &options.hosts {
        let mut tried = 0;
        while !add(record, at, options.agent.as_deref(), &secret)
            .with_context(|| format!("{} has not joined {job}", at.name))?
        {
            tried += 1;
            let losses = "a node was lost each time that it was about to join: try again";
            ensure!(tried < TRIALS, "{} has not joined {job}: {losses}", at.name);
        }
        println!("{} has joined {job}", at.name);
    }
    Ok(0)
}

/// A daemon that is being started on a host.
struct New {
    listener: TcpListener,
    starter: Child,
    address: IpAddr,
}

/// Adds a node to a job; false if another one was lost just then, for which this one gave up.
fn add(record: &Record, at: &HostSlots, command: Option<&str>, secret: &Secret) -> Result<bool> {
    let words = match command {
        None if !record.agent.is_empty() => record.agent.clone(),
        command => agent(command),
    };
    let starter = Starter { by: By::Agent(words), words: record.daemon.clone() };
    let deadline = Instant::now() + START;
    let key = KeyFile::write(secret)?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("cannot listen")?;
    listener.set_nonblocking(true).context("cannot listen")?;
    let address = own_address(&at.name)?;
    let console = SocketAddr::new(address, listener.local_addr().context("no port")?.port());
    let starter = starter.start((JOINS, &at.name, 1), console, &key.0, secret)?;
    let mut new = New { listener, starter, address };
    let (mut daemon, place) = new.wait(at, secret, deadline)?;
    let (mut first, mut invitation) = ask(record, &place, secret, deadline)?;
    for place in &mut invitation.plan.nodes {
        // A daemon on this host, which no other host has called: the new one finds it here.
        if place.address.ip().is_loopback() {
            place.address.set_ip(address);
        }
    }
    daemon.send(&Order::Join(invitation));
    let mut last_heard = Instant::now();
    loop {
        if hear(&mut first) == Some(Word::Came) {
            return Ok(true);
        }
        // Its daemon says nothing once it serves.
        if let Some(Word::Failed(why)) = hear(&mut daemon) {
            bail!(why);
        }
        if daemon.is_closed() {
            return Ok(hear(&mut first) == Some(Word::Came));
        }
        // A node that does not count yet leaves when it loses another one: that it stays tells it.
        if first.is_closed() && last_heard.elapsed() > LEAVES {
            return Ok(true);
        }
        if !first.is_closed() {
            last_heard = Instant::now();
        }
        ensure!(Instant::now() < deadline, "it is not linked with all nodes in time");
        thread::sleep(TURN);
    }
}

impl New {
    /// The link to the daemon once it has called, and where others find it.
    fn wait(
        &mut self,
        at: &HostSlots,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<(Link, Place)> {
        let mut links: Vec<Link> = Vec::new();
        while Instant::now() < deadline {
            while let Ok((stream, _)) = self.listener.accept() {
                links.push(Link::accept(stream, CONSOLE, secret, MAX_BYTES)?);
            }
            for (which, link) in links.iter_mut().enumerate() {
                if let Some(Word::Here(_, port)) = hear(link)
                    && link.peer() == Some(NEWCOMER)
                {
                    let seen = link.address().context("no address")?.ip();
                    let ip = if seen.is_loopback() { self.address } else { seen };
                    let address = SocketAddr::new(ip, port);
                    let place = Place { name: at.name.clone(), slots: at.slots, address };
                    return Ok((links.swap_remove(which), place));
                }
            }
            links.retain(|link| !link.is_closed());
            if let Ok(Some(status)) = self.starter.try_wait()
                && !status.success()
            {
                bail!("no daemon can be started there: {status}");
            }
            thread::sleep(TURN);
        }
        bail!("its daemon has not called in time");
    }
}

/// The next word that has come.
fn hear(link: &mut Link) -> Option<Word> {
    link.read();
    link.take()
}

/// Asks the first living node to add this one.
fn ask(
    record: &Record,
    place: &Place,
    secret: &Secret,
    deadline: Instant,
) -> Result<(Link, Box<Invitation>)> {
    while Instant::now() < deadline {
        let mut is_answered = false;
        let living = (0..).zip(&record.nodes).filter(|(node, _)| !record.lost.contains(node));
        for (node, first) in living {
            let Some(mut link) = call(first, host(node), secret, deadline) else { continue };
            is_answered = true;
            link.send(&Order::Add(place.clone()));
            let answer = loop {
                match hear(&mut link) {
                    Some(word) => break Some(word),
                    None if link.is_closed() || Instant::now() >= deadline => break None,
                    None => thread::sleep(TURN),
                }
            };
            match answer {
                Some(Word::Admitted(invitation)) => return Ok((link, invitation)),
                Some(Word::NotAdmitted(Refusal::Over)) => bail!("the job ends"),
                // Another one, which may be the next, or one that is about to be lost.
                _ => {}
            }
        }
        let runs = || record::of_job(&record.job).map(|all| all.iter().any(Record::runs));
        ensure!(is_answered || runs()?, "the job has ended, or this host has left it");
        thread::sleep(PAUSE);
    }
    bail!("no node of the job answers");
}

/// The link to a node, once it has proved that it is one.
fn call(place: &Place, peer: Host, secret: &Secret, deadline: Instant) -> Option<Link> {
    let mut link = Link::call(place.address, GUEST, peer, secret, MAX_BYTES).ok()?;
    while link.peer().is_none() {
        if link.is_closed() || Instant::now() >= deadline {
            return None;
        }
        thread::sleep(TURN);
        link.read();
    }
    Some(link)
}
