//! Every execution of two threads that the memory model of C++20, which is Rust's, allows.
//!
//! `loom` runs threads in every order and lets a load see what was stored before it. The model, and
//! ARM and POWER, allow more: a relaxed load may be done after what follows it in its thread, and
//! then see what another thread stores in answer to that. So here a load may give every value that
//! is ever stored at its word. Each thread, which is the code of a lane itself, runs on all of
//! them; two runs are an execution if every value comes from a store and, with *happens before* as
//! the order of each thread and of each release with the acquire that sees it,
//!
//! - nothing happens before itself;
//! - of two accesses to a word the one that happens before does not see, or make, a later value.
//!
//! **Guarantees.** What holds in all of these holds on every processor, ARM and POWER among them,
//! for which the instructions that compilers use are proved to keep these rules. Nothing is assumed
//! about values out of thin air: a model that forbids a cycle of program order and of loads with
//! the stores that they see (RC11) cannot tell the bugs that are looked for here.
//!
//! **Assumes** that each word is stored by one thread, and by it each value that matters once;
//! that there are no fences. A thread that would look again because it came too early is not run
//! further, as its next look is another execution. Of the words of slots one of each is watched at
//! a time: they are relaxed, so without the others the rest of an execution is still one.
//!
//! Reference: M. Batty, S. Owens, S. Sarkar, P. Sewell, T. Weber, *Mathematizing C++ Concurrency*,
//! POPL 2011; O. Lahav et al., *Repairing Sequential Consistency in C/C++11*, PLDI 2017.

use std::{cell::RefCell, collections::BTreeSet};

use super::{tests::frame, *};

/// How a run of a thread ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    TooEarly,
    Right,
    Wrong,
}

#[derive(Clone, Copy, Debug)]
struct Access {
    word: usize,
    is_store: bool,
    order: Ordering,
    value: u64,
}

/// A run of one thread, of the many that differ in what its loads give.
#[derive(Default)]
struct Run {
    accesses: Vec<Access>,
    /// For each load, which of the possible values it gives, and how many there are.
    choices: Vec<(usize, usize)>,
    loads: usize,
}

/// A word of a run, with all values that may be loaded; none where accesses are not watched.
struct Watched<'a> {
    word: usize,
    values: &'a BTreeSet<u64>,
    run: &'a RefCell<Run>,
    mistake: Mistake,
}

/// Says of a word, and true of its stores or false of its loads, if they are relaxed by mistake.
type Mistake = fn(usize, bool) -> bool;

impl Watched<'_> {
    fn note(&self, run: &mut Run, is_store: bool, order: Ordering, value: u64) {
        let order = if (self.mistake)(self.word, is_store) { Relaxed } else { order };
        run.accesses.push(Access { word: self.word, is_store, order, value });
    }
}

impl Word for Watched<'_> {
    fn load(&self, order: Ordering) -> u64 {
        if self.values.is_empty() {
            return 0;
        }
        let run = &mut *self.run.borrow_mut();
        if run.loads == run.choices.len() {
            run.choices.push((0, self.values.len()));
        }
        let value = *self.values.iter().nth(run.choices[run.loads].0).expect("one of them");
        run.loads += 1;
        self.note(run, false, order, value);
        value
    }

    fn store(&self, word: u64, order: Ordering) {
        if !self.values.is_empty() {
            self.note(&mut self.run.borrow_mut(), true, order, word);
        }
    }

    fn add(&self, more: u64, order: Ordering) {
        let run = &mut *self.run.borrow_mut();
        // Only this thread stores here.
        let last = run.accesses.iter().rfind(|it| it.is_store && it.word == self.word);
        let value = last.map_or(0, |it| it.value) + more;
        self.note(run, true, order, value);
    }
}

type Thread<'a> = &'a dyn Fn(&[Watched<'_>]) -> End;

/// Two threads over so many words.
struct Program<'a> {
    words: usize,
    threads: [Thread<'a>; 2],
    is_watched: &'a dyn Fn(usize) -> bool,
    mistake: Mistake,
}

impl Program<'_> {
    /// Everything that a thread can do when its loads give any of these values.
    fn runs(&self, thread: Thread<'_>, values: &[BTreeSet<u64>]) -> Vec<(End, Vec<Access>)> {
        let run = RefCell::new(Run::default());
        let watched = |(word, values)| Watched { word, values, run: &run, mistake: self.mistake };
        let words: Vec<_> = values.iter().enumerate().map(watched).collect();
        let mut runs = Vec::new();
        loop {
            let end = thread(&words);
            let run = &mut *run.borrow_mut();
            runs.push((end, std::mem::take(&mut run.accesses)));
            run.loads = 0;
            while run.choices.pop_if(|(chosen, of)| *chosen + 1 == *of).is_some() {}
            let Some((chosen, _)) = run.choices.last_mut() else { return runs };
            *chosen += 1;
        }
    }

    /// How many executions end right, and one that ends wrong.
    fn executions(&self) -> (usize, Option<[Vec<Access>; 2]>) {
        let start = |word| BTreeSet::from_iter((self.is_watched)(word).then_some(0));
        let mut values: Vec<_> = (0..self.words).map(start).collect();
        let (ones, others) = loop {
            let all = self.threads.map(|thread| self.runs(thread, &values));
            let known: usize = values.iter().map(BTreeSet::len).sum();
            for access in all.iter().flatten().flat_map(|(_, run)| run) {
                values[access.word].insert(access.value);
            }
            if values.iter().map(BTreeSet::len).sum::<usize>() == known {
                let ended = |(end, _): &(End, Vec<Access>)| *end != End::TooEarly;
                break all.map(|runs| runs.into_iter().filter(ended).collect::<Vec<_>>()).into();
            }
        };
        let mut right = 0;
        for ((one_end, one), (other_end, other)) in
            ones.iter().flat_map(|one| others.iter().map(move |other| (one, other)))
        {
            if is_allowed(one, other) {
                if (*one_end, *other_end) != (End::Right, End::Right) {
                    return (right, Some([one.clone(), other.clone()]));
                }
                right += 1;
            }
        }
        (right, None)
    }
}

/// True when two runs are an execution.
fn is_allowed(one: &[Access], other: &[Access]) -> bool {
    let all: Vec<Access> = [one, other].concat();
    assert!(all.len() <= 128, "a set of accesses is a number");
    // By access: which of the values of its word it makes or sees, and the store that makes it.
    let mut seen = Vec::new();
    for (at, access) in all.iter().enumerate() {
        let stores = all.iter().enumerate().filter(|(_, it)| it.is_store && it.word == access.word);
        let stores: Vec<(usize, &Access)> = stores.collect();
        let of_one = stores.iter().filter(|(at, _)| *at < one.len()).count();
        assert!(of_one == 0 || of_one == stores.len(), "stored by one thread");
        let made = (1..).zip(&stores).filter(|(_, (from, store))| {
            if access.is_store { *from == at } else { store.value == access.value }
        });
        let mut made = made.map(|(place, (from, _))| (place, Some(*from)));
        match (made.next(), access.value) {
            (Some(_), 0) if !access.is_store => unreachable!("who sees this is too early"),
            (Some(place), _) => seen.push(place),
            (None, 0) => seen.push((0, None)),
            (None, _) => return false,
        }
        assert_eq!(made.next(), None, "each value is stored once");
    }
    let mut before = vec![0_u128; all.len()];
    for (at, access) in all.iter().enumerate() {
        let end = if at < one.len() { one.len() } else { all.len() };
        (at + 1..end).for_each(|later| before[at] |= 1 << later);
        if let ((_, Some(store)), false, Acquire) = (seen[at], access.is_store, access.order)
            && all[store].order == Release
        {
            before[store] |= 1 << at;
        }
    }
    for over in 0..all.len() {
        let beyond = before[over];
        before.iter_mut().filter(|it| **it >> over & 1 == 1).for_each(|it| *it |= beyond);
    }
    (0..all.len()).all(|first| {
        let later = (0..all.len()).filter(|second| before[first] >> second & 1 == 1);
        later.into_iter().all(|second| {
            let (a, b) = (all[first], all[second]);
            let from_later = !a.is_store && b.is_store && seen[first].0 == seen[second].0;
            let is_back = seen[second].0 < seen[first].0 || from_later;
            first != second && (a.word != b.word || !is_back)
        })
    })
}

/// True of the words in which the numbers of frames are.
fn is_number(word: usize) -> bool {
    word >= LINE && word.is_multiple_of(LINE)
}

/// Sends frames with these numbers of values through a lane. Of each slot its number and the word
/// at the place `watched` are looked at.
fn lane_executions<const SLOTS: usize>(
    frames: &[usize],
    watched: usize,
    mistake: Mistake,
) -> (usize, Option<[Vec<Access>; 2]>) {
    let writer = |words: &[Watched<'_>]| {
        let (mut writer, lane) = (Writer::default(), Lane::<_, SLOTS>::new(words));
        let sent = (1..).zip(frames).all(|(number, values)| {
            let (vote, values) = frame(number, *values);
            writer.put(lane, &vote, &values)
        });
        if sent { End::Right } else { End::TooEarly }
    };
    let reader = |words: &[Watched<'_>]| {
        let (mut reader, lane) = (Reader::default(), Lane::<_, SLOTS>::new(words));
        let mut end = End::Right;
        for (number, values) in (1..).zip(frames) {
            if !reader.has_come(lane) {
                return End::TooEarly;
            }
            let mut found = (reader.vote(lane), vec![0; *values]);
            reader.values(lane, &mut found.1);
            let watched = |(vote, values): (Vote, Vec<u64>)| {
                let words: Vec<u64> = vote.into_iter().chain(values).collect();
                words.chunks(ROOM).map(|slot| slot.get(watched - 1).copied()).collect::<Vec<_>>()
            };
            if watched(found) != watched(frame(number, *values)) {
                end = End::Wrong;
            }
            reader.advance(lane, *values);
        }
        end
    };
    let is_watched =
        |word| word == READ || is_number(word) || (word > LINE && word % LINE == watched);
    let words = Lane::<Watched<'_>, SLOTS>::WORDS;
    Program { words, threads: [&writer, &reader], is_watched: &is_watched, mistake }.executions()
}

/// The executions of lanes of every kind, until one is wrong.
fn lanes(mistake: Mistake) -> Result<usize, String> {
    let mut all = 0;
    for watched in 1..LINE {
        for (right, wrong) in [
            lane_executions::<1>(&[0, 1, 0], watched, mistake),
            lane_executions::<2>(&[0, 0, 0, 0], watched, mistake),
            lane_executions::<2>(&[7, 2, 9], watched, mistake),
            lane_executions::<3>(&[0, 9, 0, 9], watched, mistake),
            // Its reader does not tell of every frame.
            lane_executions::<8>(&[9, 9, 9, 9, 0], watched, mistake),
        ] {
            if let Some([writer, reader]) = wrong {
                return Err(format!("the writer: {writer:#?}\nthe reader: {reader:#?}"));
            }
            assert!(right > 0, "a lane that works at all");
            all += right;
        }
    }
    Ok(all)
}

/// Where the bell is: after a lane of one slot.
const BELL: usize = Lane::<Watched<'_>, 1>::WORDS;

/// The executions of a frame for which a bell is rung: is it there for who hears the bell?
fn bell(mistake: Mistake) -> (usize, Option<[Vec<Access>; 2]>) {
    let writer = |all: &[Watched<'_>]| {
        let (vote, values) = frame(1, 0);
        Writer::default().put(Lane::<_, 1>::new(&all[..BELL]), &vote, &values);
        ring(&all[BELL]);
        End::Right
    };
    let reader = |all: &[Watched<'_>]| {
        if !hears(&all[BELL], &mut 0) {
            return End::TooEarly;
        }
        let has_come = Reader::default().has_come(Lane::<_, 1>::new(&all[..BELL]));
        if has_come { End::Right } else { End::Wrong }
    };
    let is_watched = |word| word == LINE || word == BELL;
    let threads: [Thread<'_>; 2] = [&writer, &reader];
    Program { words: BELL + 1, threads, is_watched: &is_watched, mistake }.executions()
}

#[test]
fn frames_are_whole_in_every_execution_that_the_memory_model_allows() {
    let executions = lanes(|_, _| false).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{executions} executions");
}

#[test]
fn each_access_that_orders_others_is_missed_if_it_is_relaxed() {
    assert!(
        lanes(|word, is_store| word == READ && is_store).is_err(),
        "the reader's count, stored"
    );
    assert!(lanes(|word, is_store| word == READ && !is_store).is_err(), "and loaded");
    assert!(lanes(|word, is_store| is_number(word) && is_store).is_err(), "a number, stored");
    assert!(lanes(|word, is_store| is_number(word) && !is_store).is_err(), "and loaded");
}

#[test]
fn whoever_hears_the_bell_finds_the_frame_in_every_execution() {
    let (right, wrong) = bell(|_, _| false);
    assert!(right > 0 && wrong.is_none(), "{wrong:?}");
    assert!(bell(|word, is_store| word == BELL && is_store).1.is_some(), "rung relaxed");
    assert!(bell(|word, is_store| word == BELL && !is_store).1.is_some(), "heard relaxed");
}
