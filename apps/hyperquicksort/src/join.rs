//! Beginning, and beginning again: a block in which all ranks tell each other who there is and who
//! has which list of the last commit, and owners get the lists that they lack
//!
//! 1. from the input, where the last step made them from the own keys alone;
//! 2. from a rank that has the list, or a copy of it (`store=copies`);
//! 3. from a file (`store=files`);
//! 4. from the input, with what other ranks have to give ([`crate::lineage`], `store=lineage`).
//!
//! **Guarantees** that a rank that dies in here leaves the others able to join again: a list that
//! was got is one of the last commit, whether or not this block counts, and what is known of
//! members and events changes with its commit.

use fampi::{Error, Rank, Step, Tag, Timeout, TryBlock};

use crate::exchange::rank_of;
use crate::files::{Files, Made};
use crate::keys::Key;
use crate::lineage::{self, Failed};
use crate::options::Store;
use crate::owners::Owners;
use crate::report::{EVENT_WORDS, Events};
use crate::resilience::{Sort, SortError};
use crate::roll::{Parts, Roll, Source, Standing, broadcast};
use crate::sorter::Sorter;
use crate::stages::Stage;
use crate::table::{Row, WORDS};

impl<K: Key> Sort<'_, '_, K> {
    /// Learns in a block of all ranks who the members are, and gets the lists that are now this
    /// rank's. What is known only here changes with the commit of that block.
    pub(crate) fn join(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let place = (step.comm().rank().index(), step.comm().size() as usize);
        self.sorter.abandon();
        let own = self.standing();
        let roll = Roll::call(step, place, self.sorter.way.parts, &own)?;
        let (members, done) = (roll.members(), roll.done());
        let mut events = self.next_events(&roll);
        if let Some(speaker) = roll.survivors().next()
            && roll.survivors().count() < members.len()
        {
            let words = broadcast(step, speaker, self.tell(&events))?;
            events = self.hear(&words);
        }
        let counted = self.group.census(step)?;
        let view = counted.view();
        events.count(self.group.view(), view);
        let works = |member: &u32| view.is_member(Rank::new(*member));
        let working: Vec<u32> = members.iter().copied().filter(works).collect();
        self.sorter.owners = Owners::new(self.options.owners, self.sorter.way.parts, &working);
        let Sorter { owners, way, .. } = &self.sorter;
        // The copies of the only one that works are with those who do not.
        let keepers = if working.len() > 1 { &working } else { &members };
        self.copies.renew(self.options.owners, keepers, owners, way.parts);
        match self.stages.made_by(done) {
            None | Some(Stage::End) => {}
            Some(Stage::Keys) => self.make_missing(false)?,
            Some(Stage::Local) => self.make_missing(true)?,
            Some(Stage::Round(round)) => {
                events.rebuilt += self.fetch(step, &roll, &members, place.0, round)?;
                if self.options.store == Store::Copies {
                    let table = &self.sorter.table;
                    self.copies.exchange(step, &members, &self.sorter, table)?;
                }
            }
        }
        let finished = self.witness.commit(step)?;
        self.copies.accept(&finished)?;
        self.sorter.drop_foreign();
        self.group.accept(counted, &finished);
        (self.members, self.events) = (members, events);
        (self.done, self.begun, self.joined) = (done, done, true);
        Ok(())
    }

    fn standing(&self) -> Standing {
        let parts = self.sorter.way.parts;
        let kept = (0..parts).filter(|part| self.copies.of(*part).is_some());
        Standing {
            member: self.sorter.me,
            epoch: self.events.epoch,
            done: self.done,
            begun: self.begun,
            lists: Parts::of(parts, self.sorter.lists.keys().copied()),
            copies: Parts::of(parts, kept),
        }
    }

    fn next_events(&self, roll: &Roll) -> Events {
        let left = roll.survivors().count();
        // Before the first commit all ranks begin.
        let left = if left == 0 { roll.members().len() } else { left };
        Events {
            lost: self.events.lost + (self.members.len() - left) as u64,
            epoch: roll.next_epoch(),
            redone: self.events.redone + u64::from(roll.is_behind()),
            ..self.events
        }
    }

    /// What a rank that begins has to know.
    fn tell(&self, events: &Events) -> Vec<u64> {
        let Made { epoch, step } = self.made;
        let mut words = events.words().to_vec();
        words.extend([self.input, epoch, step, self.files.as_ref().map_or(0, Files::job)]);
        words.extend(self.sorter.table.iter().flat_map(Row::words));
        words
    }

    fn hear(&mut self, words: &[u64]) -> Events {
        let rows = self.sorter.way.parts as usize * WORDS;
        let (head, table) = words.split_at(words.len() - rows);
        let (events, head) = head.split_at(EVENT_WORDS);
        let [input, epoch, step, job] = *head else { unreachable!("as many were told") };
        self.input = input;
        if let Some(files) = &mut self.files {
            files.begin(job, false);
        }
        self.made = Made { epoch, step };
        self.sorter.table = table.chunks(WORDS).map(Row::of_words).collect();
        Events::of_words(events.try_into().expect("as many were told"))
    }

    /// Makes the lists of this rank that depend on nothing but the keys that a part begins with.
    fn make_missing(&mut self, sorted: bool) -> Result<(), Error> {
        for part in self.sorter.mine() {
            if self.sorter.lists.contains_key(&part) {
                continue;
            }
            let made = self.sorter.make(part);
            made.map_err(|error| self.object(&SortError::unreadable(&self.sorter.keys, &error)))?;
            if let Some(list) = self.sorter.lists.get_mut(&part).filter(|_| sorted) {
                let length = list.len();
                self.sorter.way.local.sort(list.first(length)?);
            }
        }
        Ok(())
    }

    /// Gets the lists of a round that are now this rank's, and gives those that it has to others.
    /// How many keys were made again from the input.
    fn fetch(
        &mut self,
        block: &mut TryBlock,
        roll: &Roll,
        members: &[u32],
        rank: usize,
        round: u32,
    ) -> Result<u64, Error> {
        let (mut lost, mut coming) = (Vec::new(), Vec::new());
        for part in 0..self.sorter.way.parts {
            let owner = rank_of(members, self.sorter.owners.of(part));
            let length = self.sorter.table[part as usize].length as usize;
            match roll.source(part, owner) {
                Source::Rank(from) if owner == rank => {
                    let mut list = self.sorter.spares.take(length)?;
                    let keys = list.first(length)?;
                    if from == rank {
                        keys.copy_from_slice(self.copies.of(part).unwrap_or_default());
                        self.sorter.lists.insert(part, list);
                        continue;
                    }
                    let (from, section) = (Rank::new(from as u32), [0..length]);
                    let receive = block.irecv_section(list.buffer(), section, from, Tag(part))?;
                    coming.push((part, list, receive));
                }
                Source::Rank(from) if from == rank => self.give(block, part, owner)?,
                Source::Own | Source::Rank(_) => {}
                Source::Lost => lost.push(part),
            }
        }
        for (part, list, receive) in coming {
            block.wait_local(receive, Timeout::Never)?;
            self.sorter.lists.insert(part, list);
        }
        match self.options.store {
            _ if lost.is_empty() => Ok(0),
            Store::Copies => Err(self.object(&SortError::Trouble(Some(lost_for_good(&lost))))),
            Store::Files => self.read_files(&lost).map(|()| 0),
            Store::Lineage => {
                let place = (rank, members);
                let made = lineage::rebuild(&mut self.sorter, block, place, round, &lost);
                made.map_err(|failed| self.failed(failed))?;
                Ok(lost.iter().map(|part| self.sorter.table[*part as usize].length).sum())
            }
        }
    }

    fn give(&self, block: &mut TryBlock, part: u32, to: usize) -> Result<(), Error> {
        let to = Rank::new(to as u32);
        if let Some(list) = self.sorter.lists.get(&part) {
            block.isend_section(list.buffer(), [0..list.len()], to, Tag(part))?;
        } else if let Some(copy) = self.copies.of(part) {
            block.isend(copy.to_vec(), to, Tag(part))?;
        }
        Ok(())
    }

    fn read_files(&mut self, lost: &[u32]) -> Result<(), Error> {
        for part in lost.iter().copied() {
            if self.sorter.owners.of(part) != self.sorter.me {
                continue;
            }
            let length = self.sorter.table[part as usize].length as usize;
            let mut list = self.sorter.spares.take(length)?;
            let Some(files) = &self.files else { unreachable!("there is a folder for them") };
            let read = files.read(self.made, part, list.first(length)?);
            read.map_err(|error| {
                let sentence = format!("the list of part {part} cannot be read: {error}");
                self.object(&SortError::Trouble(Some(sentence)))
            })?;
            self.sorter.lists.insert(part, list);
        }
        Ok(())
    }

    fn failed(&self, failed: Failed) -> Error {
        match failed {
            Failed::Block(error) => error,
            Failed::Input(error) => self.object(&SortError::unreadable(&self.sorter.keys, &error)),
            Failed::Changed(part) => {
                let sentence = format!("the input of part {part} is not what it was");
                self.object(&SortError::Trouble(Some(sentence)))
            }
        }
    }
}

fn lost_for_good(lost: &[u32]) -> String {
    let parts: Vec<_> = lost.iter().map(u32::to_string).collect();
    let parts = parts.join(", ");
    format!("lists are lost, with the ranks that had them and their copies: those of parts {parts}")
}
