//! Answers the tests of the observer, in a thread that does nothing else.
//!
//! It calls no MPI and waits for nothing but questions, so that a long computation of this process
//! does not show, and a processor that others keep busy, a limit of the system or a stop does. Each
//! answer says when it was given, so that the observer need not be woken up by it.

use std::{io, os::fd::OwnedFd, thread};

use rustix::{io::Errno, net::SendFlags};

use crate::{
    clock,
    protocol::{
        codec::{Frame, MAX_BYTES, decode, encode_at},
        diagnosis::Answer,
        message::Message,
    },
};

/// As much as the few calls need.
const STACK_BYTES: usize = 128 << 10;

/// Answers what comes on this connection until its other end is closed. The thread calls `begin`
/// first.
///
/// # Errors
///
/// When the system has no thread.
pub fn answer(connection: OwnedFd, begin: fn()) -> io::Result<()> {
    let thread = thread::Builder::new().name("fampi-answers".into()).stack_size(STACK_BYTES);
    let serve = move || {
        begin();
        say(&connection, Answer::BEGINS);
        while answer_one(&connection).is_some() {}
    };
    thread.spawn(serve).map(drop)
}

/// Waits for one question of the observer and answers it; `None` when the observer has closed the
/// connection.
fn answer_one(connection: &OwnedFd) -> Option<()> {
    let mut packet = [0; MAX_BYTES];
    let length = match rustix::io::read(connection, &mut packet) {
        Ok(0) => return None,
        Ok(length) => length,
        Err(Errno::INTR) => return Some(()),
        Err(_) => return None,
    };
    if let Some(Message::Question(question)) = decode(&packet[..length]) {
        say(connection, question.answer());
    }
    Some(())
}

/// An observer that is gone is noticed at the next reading.
fn say(connection: &OwnedFd, answer: Answer) {
    let mut frame = Frame::new();
    encode_at(&Message::Answer(answer), clock::now(), &mut frame);
    let _ = rustix::net::send(connection, &frame, SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    use super::*;
    use crate::protocol::{
        codec::{decode_at, encode},
        diagnosis::Question,
    };

    #[test]
    fn it_says_when_it_begins_before_it_answers_anything() {
        const START: Duration = Duration::from_millis(30);
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let ends = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = ends.expect("two ends");
        let question = Question { sequence: 1, attempt: 0, work: 1 };
        let mut frame = Frame::new();
        encode(&Message::Question(question), &mut frame);
        rustix::net::send(&ours, &frame, SendFlags::empty()).expect("sent");

        let asked = clock::now();
        answer(theirs, || sleep(START)).expect("a thread");
        let said = [0; 2].map(|_| {
            let mut packet = [0; MAX_BYTES];
            let length = rustix::io::read(&ours, &mut packet).expect("a packet");
            decode_at(&packet[..length]).expect("an answer")
        });
        let [(first, began), (second, answered)] = said;
        assert_eq!(first, Message::Answer(Answer::BEGINS));
        assert_eq!(second, Message::Answer(question.answer()));
        assert!(asked + START <= began && began <= answered);
    }
}
