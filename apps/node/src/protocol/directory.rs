//! What processes publish and look up: every node has all of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Process, Ticket};

/// Which publication: its news' origin and number.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct EntryId(pub u32, pub u64);

/// Something published.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Entry {
    /// Which publication.
    pub id: EntryId,
    /// Its key.
    pub key: String,
    /// Who published it.
    pub publisher: Process,
    /// The value, as MPI's runtime has packed it.
    pub value: Vec<u8>,
    /// The first who reads it takes it away.
    pub once: bool,
}

/// A rank of this node that looks for values.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lookup {
    /// The request.
    pub ticket: Ticket,
    /// What it looks for.
    pub keys: Vec<String>,
    /// It waits until all are there.
    pub waits: bool,
    /// The namespace that has met who started it, once this is found.
    pub meets: Option<String>,
}

/// Everything that is published, and who waits for what is not.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Directory {
    /// By key, the oldest first.
    entries: BTreeMap<String, Vec<Entry>>,
    /// Taken away before they came: news of different origins overtake each other.
    removed: Vec<EntryId>,
    waiting: Vec<Lookup>,
}

impl Directory {
    /// Something is published.
    pub fn add(&mut self, entry: Entry) {
        if let Some(at) = self.removed.iter().position(|id| *id == entry.id) {
            self.removed.swap_remove(at);
            return;
        }
        self.entries.entry(entry.key.clone()).or_default().push(entry);
    }

    /// These are not published any more.
    pub fn remove(&mut self, ids: &[EntryId]) {
        for id in ids {
            let mut found = false;
            for list in self.entries.values_mut() {
                let before = list.len();
                list.retain(|entry| entry.id != *id);
                found |= list.len() < before;
            }
            if !found {
                self.removed.push(*id);
            }
        }
        self.entries.retain(|_, list| !list.is_empty());
    }

    /// What this process has published under these keys.
    pub fn of(&self, publisher: &Process, keys: &[String]) -> Vec<EntryId> {
        let entries = keys.iter().filter_map(|key| self.entries.get(key)).flatten();
        entries.filter(|entry| entry.publisher == *publisher).map(|entry| entry.id).collect()
    }

    /// A rank looks for values.
    pub fn wait(&mut self, lookup: Lookup) {
        self.waiting.push(lookup);
    }

    /// The next of those who wait that finds everything, or does not wait; with what it finds.
    pub fn take_ready(&mut self) -> Option<(Lookup, Vec<Entry>)> {
        let is_ready = |it: &Lookup| !it.waits || it.keys.iter().all(|key| self.has(key));
        let at = self.waiting.iter().position(is_ready)?;
        let lookup = self.waiting.remove(at);
        let found = lookup.keys.iter().filter_map(|key| self.find(key)).cloned().collect();
        Some((lookup, found))
    }

    /// The next of those who wait for something under one of these ports: it never comes.
    pub fn take_hopeless(&mut self, is_hopeless: impl Fn(&str) -> bool) -> Option<Lookup> {
        let missing = |it: &Lookup| it.keys.iter().any(|key| !self.has(key) && is_hopeless(key));
        let at = self.waiting.iter().position(missing)?;
        Some(self.waiting.remove(at))
    }

    fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Of what is to be read once the oldest, of what stays the newest.
    fn find(&self, key: &str) -> Option<&Entry> {
        let list = self.entries.get(key)?;
        list.iter().find(|entry| entry.once).or_else(|| list.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, key: &str, once: bool) -> Entry {
        let publisher = Process { space: "job".into(), rank: 0 };
        let value = vec![number as u8];
        Entry { id: EntryId(0, number), key: key.into(), publisher, value, once }
    }

    fn lookup(ticket: u64, keys: &[&str], waits: bool) -> Lookup {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Lookup { ticket: Ticket(ticket), keys, waits, meets: None }
    }

    #[test]
    fn a_lookup_waits_until_all_of_its_keys_are_there() {
        let mut directory = Directory::default();
        directory.wait(lookup(1, &["a", "b"], true));
        directory.add(entry(1, "a", false));
        assert_eq!(directory.take_ready(), None);
        directory.add(entry(2, "b", false));
        let (ready, found) = directory.take_ready().expect("both are there");
        assert_eq!((ready.ticket, found.len()), (Ticket(1), 2));
        assert_eq!(directory.take_ready(), None);
    }

    #[test]
    fn who_does_not_wait_finds_what_there_is() {
        let mut directory = Directory::default();
        directory.wait(lookup(1, &["a", "b"], false));
        directory.add(entry(1, "b", false));
        let (_, found) = directory.take_ready().expect("at once");
        assert_eq!(found, [entry(1, "b", false)]);
    }

    #[test]
    fn what_is_read_once_comes_in_order_and_what_stays_is_the_newest() {
        let mut directory = Directory::default();
        let first = |directory: &mut Directory| {
            directory.wait(lookup(1, &["k"], true));
            directory.take_ready().map(|(_, found)| found[0].id)
        };
        directory.add(entry(1, "k", true));
        directory.add(entry(2, "k", true));
        assert_eq!(first(&mut directory), Some(EntryId(0, 1)));
        directory.remove(&[EntryId(0, 1)]);
        assert_eq!(first(&mut directory), Some(EntryId(0, 2)));
        directory.remove(&[EntryId(0, 2)]);
        directory.add(entry(3, "k", false));
        directory.add(entry(4, "k", false));
        assert_eq!(first(&mut directory), Some(EntryId(0, 4)));
    }

    #[test]
    fn a_removal_that_overtakes_its_publication_counts() {
        let mut directory = Directory::default();
        directory.remove(&[EntryId(0, 1)]);
        directory.add(entry(1, "k", true));
        directory.wait(lookup(1, &["k"], true));
        assert_eq!(directory.take_ready(), None);
        assert_eq!(directory, {
            let mut expected = Directory::default();
            expected.wait(lookup(1, &["k"], true));
            expected
        });
    }

    #[test]
    fn who_waits_for_what_never_comes_is_found() {
        let mut directory = Directory::default();
        directory.wait(lookup(1, &["port:connect"], true));
        assert_eq!(directory.take_hopeless(|key| key.starts_with("other")), None);
        let hopeless = directory.take_hopeless(|key| key.starts_with("port"));
        assert_eq!(hopeless.map(|lookup| lookup.ticket), Some(Ticket(1)));
    }
}
