//! Mailboxes of one process, as if it were several.

use std::time::{Duration, Instant};

use super::*;
use crate::protocol::fused::ReduceOp;

/// Longer than a busy machine takes for all that is ever waited for here.
const PATIENCE: Duration = Duration::from_secs(30);

/// What comes if it is looked for again and again, which must not be in vain for ever.
fn awaited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} does not come");
        thread::yield_now();
    }
}

/// Mailboxes of so many neighbours; each has all the ways that `is_reached` lets it have.
fn mailboxes(size: usize, is_reached: impl Fn(usize, usize) -> bool) -> Vec<Mailbox> {
    let inboxes: Vec<Inbox> = (0..size).map(|_| Inbox::new(size).expect("Linux")).collect();
    let own = Process::own(0);
    // Neighbours have other numbers; what they share is opened by that of this process.
    let told: Vec<_> = inboxes.iter().map(|inbox| (own, inbox.address())).collect();
    let boxes = inboxes.into_iter().enumerate().map(|(me, inbox)| {
        let open = |(to, (process, at)): (usize, &(Process, Address))| {
            (to != me && is_reached(me, to)).then(|| Outbox::open(process, *at, me, size)).flatten()
        };
        let ways = told.iter().enumerate().map(open).collect();
        let (readers, begun) = (vec![Reader::default(); size], vec![Frame::new(); size]);
        Mailbox { me, inbox, crowded: false, readers, begun, heard: 0, ways }
    });
    boxes.collect()
}

/// Votes without values and with any number of them.
fn letter(number: u64) -> (Letter, Option<Values>) {
    let (block, floor) = (BlockId(number), BlockId(number.rotate_left(32)));
    let (comm, step) = (CommId(!number), number as u8);
    let yes = Yes { block, step, view: number << 8 | 7, floor };
    let words: Vec<u64> =
        (0..number % (MAX_VALUES as u64 + 1)).map(|at| number << 4 | at).collect();
    let values = Values::new(ReduceOp::Max, &words);
    (Letter { comm, yes, has_values: values.is_some() }, values)
}

fn send(mailbox: &mut Mailbox, to: u32, number: u64) -> bool {
    match letter(number) {
        (Letter { comm, yes, .. }, None) => mailbox.send(Rank::new(to), comm, &yes),
        (Letter { comm, yes, .. }, Some(values)) => {
            mailbox.send_fused(Rank::new(to), comm, &yes, &values)
        }
    }
}

fn taken(mailbox: &mut Mailbox, from: u32) -> Option<(Letter, Option<Values>)> {
    let mut values = Held::NOTHING;
    match mailbox.take(Rank::new(from), &mut values) {
        Found::Letter(letter) => Some((letter, values.get().copied())),
        Found::Frame(_) | Found::Nothing | Found::Elsewhere => None,
    }
}

/// A slow frame of this many bytes.
fn frame(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + bytes) as u8).collect()
}

/// The next slow frame, or none yet.
fn taken_slow(mailbox: &mut Mailbox, from: u32) -> Option<Vec<u8>> {
    while mailbox.has(Rank::new(from)) {
        match mailbox.take(Rank::new(from), &mut Held::default()) {
            Found::Frame(frame) => return Some(frame.to_vec()),
            Found::Nothing => {}
            Found::Letter(_) | Found::Elsewhere => panic!("no slow frame"),
        }
    }
    None
}

#[test]
fn slow_frames_of_any_length_come_whole_and_in_order_among_letters() {
    let mut boxes = mailboxes(2, |_, _| true);
    let [a, b] = boxes.as_mut_slice() else { panic!("two") };
    for bytes in (0..200).chain([1536, 1537, 100_000]) {
        assert!(!b.hears_the_bell());
        assert!(send(a, 1, bytes as u64) && a.send_slow(Rank::new(1), &frame(bytes)));
        assert!(send(a, 1, 1 + bytes as u64));
        assert!(b.hears_the_bell());
        assert_eq!(taken(b, 0), Some(letter(bytes as u64)));
        let whole = awaited("a slow frame", || {
            a.flush();
            taken_slow(b, 0)
        });
        assert_eq!(whole, frame(bytes));
        a.flush();
        assert_eq!(taken(b, 0), Some(letter(1 + bytes as u64)));
        let _ = b.hears_the_bell();
    }
    assert!(!a.is_sending() && !b.has(Rank::new(0)));
}

#[test]
fn a_slow_frame_that_its_sender_could_not_end_is_never_seen() {
    let mut boxes = mailboxes(2, |_, _| true);
    let mut b = boxes.pop().expect("two");
    let mut a = boxes.pop().expect("two");
    assert!(a.send_slow(Rank::new(1), &frame(50)) && a.send_slow(Rank::new(1), &frame(10_000)));
    assert!(a.is_sending());
    drop(a);
    assert_eq!(taken_slow(&mut b, 0), Some(frame(50)));
    assert_eq!(taken_slow(&mut b, 0), None);
    b.close(Rank::new(0));
    assert!(!b.send_slow(Rank::new(0), &frame(1)));
}

#[test]
fn slow_frames_cross_between_threads() {
    let mut boxes = mailboxes(2, |_, _| true);
    let mut b = boxes.pop().expect("two");
    let mut a = boxes.pop().expect("two");
    thread::scope(|scope| {
        scope.spawn(move || {
            for bytes in 0..3000 {
                assert!(a.send_slow(Rank::new(1), &frame(bytes)));
            }
            awaited("room", || {
                a.flush();
                (!a.is_sending()).then_some(())
            });
        });
        scope.spawn(move || {
            for bytes in 0..3000 {
                awaited("a frame, or the bell", || {
                    (b.has(Rank::new(0)) || b.hears_the_bell()).then_some(())
                });
                let whole = awaited("a slow frame", || taken_slow(&mut b, 0));
                assert_eq!(whole, frame(bytes));
            }
        });
    });
}

#[test]
fn letters_come_whole_once_and_in_order_however_many_wait() {
    let mut boxes = mailboxes(3, |_, _| true);
    let [a, b, c] = boxes.as_mut_slice() else { panic!("three") };
    for number in 0..99 {
        assert!(send(a, 1, number));
        assert!(send(c, 1, 1000 + number));
    }
    assert!(a.is_sending(), "more than a lane holds");
    for number in 0..99 {
        assert_eq!(taken(b, 0), Some(letter(number)));
        assert_eq!(taken(b, 2), Some(letter(1000 + number)));
        a.flush();
        c.flush();
    }
    assert!(!a.is_sending());
    assert_eq!(taken(b, 0), None);
    assert_eq!(taken(a, 1), None);
}

#[test]
fn letters_cross_between_threads() {
    const LETTERS: u64 = 100_000;
    let mut boxes = mailboxes(2, |_, _| true);
    let mut b = boxes.pop().expect("two");
    let mut a = boxes.pop().expect("two");
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..LETTERS {
                assert!(send(&mut a, 1, number));
            }
            awaited("room", || {
                a.flush();
                (!a.is_sending()).then_some(())
            });
        });
        scope.spawn(move || {
            for number in 0..LETTERS {
                let got = awaited("a letter", || taken(&mut b, 0));
                assert_eq!(got, letter(number));
            }
        });
    });
}

#[test]
fn who_is_not_attached_is_heard_elsewhere() {
    let mut boxes = mailboxes(3, |from, to| (from, to) == (0, 1));
    let [a, b, _] = boxes.as_mut_slice() else { panic!("three") };
    assert!(
        matches!(b.take(Rank::new(0), &mut Held::default()), Found::Nothing),
        "attached before the first letter"
    );
    assert!(matches!(b.take(Rank::new(2), &mut Held::default()), Found::Elsewhere));
    assert!(!send(a, 2, 1));
    assert!(!send(b, 0, 1));
}

#[test]
fn what_the_dead_have_written_is_read() {
    let mut boxes = mailboxes(2, |_, _| true);
    let mut b = boxes.pop().expect("two");
    let mut a = boxes.pop().expect("two");
    assert!(send(&mut a, 1, 7));
    drop(a);
    assert_eq!(taken(&mut b, 0), Some(letter(7)));
    assert!(send(&mut b, 0, 8), "nobody reads it, nobody is hurt");
    b.close(Rank::new(0));
    assert!(!send(&mut b, 0, 9));
}

#[test]
fn memory_of_others_is_not_taken_for_an_inbox() {
    let inbox = Inbox::new(2).expect("Linux");
    let (own, right) = (Process::own(0), inbox.address());
    assert!(Outbox::open(&own, right, 0, 2).is_some());
    let wrong = |at| Outbox::open(&own, at, 0, 2).is_none();
    assert!(wrong(Address { token: right.token ^ 1, ..right }), "another token");
    assert!(wrong(Address { token: 0, ..right }), "no inbox");
    assert!(wrong(Address { descriptor: 1_000_000, ..right }), "no descriptor");
    assert!(Outbox::open(&own, right, 0, 3).is_none(), "another size");
    let file = std::fs::File::open("/proc/self/stat").expect("Linux");
    let descriptor = u64::from(std::os::fd::AsRawFd::as_raw_fd(&file).unsigned_abs());
    assert!(wrong(Address { descriptor, ..right }), "a file");
}

#[test]
fn a_neighbour_that_claims_to_have_read_too_much_is_not_believed() {
    let mut boxes = mailboxes(2, |_, _| true);
    let [a, b] = boxes.as_mut_slice() else { panic!("two") };
    for number in 0..32 {
        assert!(send(a, 1, number));
    }
    b.inbox.memory.words()[LINE + lane::READ].store(u64::MAX, Release);
    assert!(send(a, 1, 32));
    let way = a.ways[1].as_ref().expect("a way");
    assert!(way.writer.is_sane());
}
