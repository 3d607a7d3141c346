//! The console of a daemon: a process that prints, and waits for the job. It may be lost, and
//! another one may come.
//!
//! As long as the daemon does not serve the job it ends with its console. From then on it keeps a
//! record of the job, by which it is found, and goes on without a console. One that leaves in order
//! leaves nothing of that behind; one that ends without a console leaves what was printed, and how
//! the job has ended.

use anyhow::Result;
use fampi_detector::protocol::envelope::Secret;

use super::collected::Collected;
use super::output::Output;
use super::write_secret;
use crate::poll::Poll;
use crate::protocol::Report;
use crate::protocol::orders::{Order, Place, Plan, Printed, Word};
use crate::record::{self, Record};
use crate::wire::Link;

/// While so much waits for the console, what processes print is not read.
const MOST_UNSENT: usize = 4 << 20;
/// While so much waits for the console, no more is read from files.
const MOST_READ: usize = 1 << 20;

/// The console of a daemon, if it has one.
#[derive(Debug)]
pub(super) struct Console {
    link: Link,
    number: u64,
    is_there: bool,
    output: Output,
    /// What processes write for a console on another host.
    pub(super) collected: Collected,
    /// Kept while the job is served.
    record: Option<Record>,
    /// Nodes that were lost or have joined so far, for a console that comes later.
    changes: Vec<Report>,
    /// Whether all is over, and whether the console was told that.
    said: Option<Report>,
    is_told: bool,
}

impl Console {
    /// The one that has started the daemon; it is waited for under this number.
    pub(super) fn new(poll: &Poll, link: Link, number: u64) -> Result<Self> {
        link.watch_machine()?;
        poll.add(&link, number)?;
        Ok(Self {
            link,
            number,
            is_there: true,
            output: Output::new(None),
            collected: Collected::default(),
            record: None,
            changes: Vec::new(),
            said: None,
            is_told: false,
        })
    }

    /// The job is served from now on: it is to be found without a console, too.
    pub(super) fn begin(&mut self, me: u32, plan: &Plan, lost: &[u32], secret: &Secret) {
        record::tidy();
        let record = Record::new(me, plan, lost, write_secret(secret));
        match record.and_then(|record| record.write().map(|()| record)) {
            Ok(record) => {
                self.output = Output::new(record.folder().ok());
                self.record = Some(record);
            }
            Err(error) => {
                self.send(&Word::Remark(format!("{error:#}: the job ends with its console")));
            }
        }
    }

    /// True when there is one.
    pub(super) const fn is_there(&self) -> bool {
        self.is_there
    }

    /// True when the daemon can go on without it.
    pub(super) const fn is_dispensable(&self) -> bool {
        self.record.is_some()
    }

    pub(super) fn send(&mut self, word: &Word) {
        if self.is_there {
            self.link.send(word);
        }
    }

    /// What it says.
    pub(super) fn orders(&mut self) -> Vec<Order> {
        self.link.read();
        let mut orders = Vec::new();
        while let Some(order) = self.link.take() {
            match order {
                Order::Printed(stream, bytes) => self.output.note_printed(&stream, bytes),
                order => orders.push(order),
            }
        }
        orders
    }

    /// True once, when it is gone.
    pub(super) fn take_loss(&mut self, poll: &Poll) -> bool {
        if !self.is_there || !self.link.is_closed() {
            return false;
        }
        poll.remove(&self.link);
        self.is_there = false;
        self.output.note_lost();
        self.keep(|record| record.has_console = false);
        true
    }

    /// Another one has called. It is sent away if there is one.
    pub(super) fn admit(&mut self, poll: &Poll, mut link: Link) -> Result<()> {
        if self.is_there || !self.is_dispensable() {
            link.send(&Word::Refused);
            return Ok(());
        }
        link.watch_machine()?;
        poll.add(&link, self.number)?;
        (self.link, self.is_there, self.is_told) = (link, true, false);
        self.output.note_console();
        self.collected.begin_again();
        self.keep(|record| record.has_console = true);
        let remark = self.record.as_ref().and_then(|record| record.remark.clone());
        let remark = remark.map(Word::Remark);
        let changes: Vec<Word> = self.changes.iter().cloned().map(Word::Report).collect();
        for word in remark.into_iter().chain(changes) {
            self.send(&word);
        }
        self.feed();
        Ok(())
    }

    /// The one that has started the daemon is none, but has brought this node to a job, which may
    /// have one. It is not heard any more, and the link ends with the next console, or the daemon.
    pub(super) fn release(&mut self, poll: &Poll) {
        poll.remove(&self.link);
        self.is_there = false;
        self.output.note_lost();
        self.keep(|record| record.has_console = false);
    }

    /// More nodes belong to the job.
    pub(super) fn note_nodes(&mut self, nodes: &[Place]) {
        self.keep(|record| record.nodes = nodes.to_vec());
    }

    /// Hands on what a process has printed.
    pub(super) fn print(&mut self, printed: Printed) {
        if let Some(printed) = self.output.print(printed) {
            self.send(&Word::Output(printed));
        }
    }

    /// Hands on what happened.
    pub(super) fn report(&mut self, report: Report) {
        if let Report::Lost(node, _) = report {
            self.keep(|record| record.lost.push(node));
        }
        if matches!(report, Report::Lost(..) | Report::Came(..)) {
            self.changes.push(report.clone());
            return self.send(&Word::Report(report));
        }
        (self.said, self.is_told) = (Some(report), false);
        self.feed();
    }

    /// Sends what there is room for: what files hold, what processes write for the console, and
    /// behind all of it whether all is over.
    pub(super) fn feed(&mut self) {
        if let Some(error) = self.output.take_failure() {
            let remark = format!("output of the job was lost: {error}");
            self.keep(|record| record.remark = Some(remark.clone()));
            self.send(&Word::Remark(remark));
        }
        if !self.is_there {
            return;
        }
        self.link.flush();
        while self.link.backlog() < MOST_READ
            && let Some(printed) = self.output.next()
        {
            self.link.send(&Word::Output(printed));
        }
        let is_over = self.said.is_some() && !self.is_told && self.output.is_sent();
        if self.send_collected(is_over) && is_over {
            self.is_told = true;
            self.said.iter().for_each(|said| self.link.send(&Word::Report(said.clone())));
        }
    }

    /// Sends what processes have written, as far as there is room; true if that is `all`.
    fn send_collected(&mut self, all: bool) -> bool {
        while self.link.backlog() < MOST_READ {
            let Some(piece) = self.collected.next(all) else { return true };
            self.link.send(&Word::Collected(piece));
        }
        false
    }

    /// Sees to it that this is called again when there is room.
    pub(super) fn wait(&mut self, poll: &Poll) -> Result<()> {
        match self.link.take_change().filter(|_| self.is_there) {
            Some(writable) => poll.set_writable(&self.link, self.number, writable),
            None => Ok(()),
        }
    }

    /// True when processes are to wait with what they print.
    pub(super) fn is_full(&self) -> bool {
        self.is_there && self.output.in_memory().max(self.link.backlog()) > MOST_UNSENT
    }

    /// The job has ended without a console.
    pub(super) fn conclude(&mut self, status: u8, why: Option<String>) {
        self.feed();
        self.keep(|record| (record.secret, record.ended) = (None, Some((status, why))));
        self.record = None;
    }

    /// The console wants nothing to be left.
    pub(super) fn leave(&mut self) {
        self.output.remove();
        if let Some(record) = self.record.take() {
            record.remove();
        }
    }

    /// This daemon cannot go on.
    pub(super) fn fail(&mut self, why: &str) {
        self.send(&Word::Failed(why.to_owned()));
        self.keep(|record| record.remark = Some(why.to_owned()));
    }

    /// Changes what is kept of the job. A record that cannot be replaced stays as it was.
    fn keep(&mut self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut self.record {
            change(record);
            record.replace();
        }
    }
}

impl Drop for Console {
    /// A daemon that stops for another reason than the end of the job leaves no secret.
    fn drop(&mut self) {
        self.keep(|record| record.secret = None);
    }
}
