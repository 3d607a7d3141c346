//! Pure state machines: they decide, and never do.
//!
//! A machine is told of messages and failures (`handle_…`), and answers through an out-parameter,
//! [`Effects`]. It has no clock, no input or output, no randomness, so the very same type runs
//! under the engine, in the simulator and in a model checker. Its state is comparable and can be
//! hashed. A crash can fall between any two effects.
//!
//! | file | idea | source |
//! |---|---|---|
//! | [`commit`] | agreement on a block's verdict: fast path, then slow path | Hassani 2015 §3.1 |
//! | [`process`] | the life of blocks and communicators | Hassani 2015 §3.1 |
//! | [`exchange`] | the fast path's exchange, recursive multiplying | Hassani 2015 §3.1 |
//! | [`nodes`] | the exchange where ranks share nodes: those of a node first | – |
//! | [`agreement`] | the slow path's contribution and decision | ULFM 2015, "Agreement" |
//! | [`fused`] | the numbers that ride on a commit | – |
//! | [`placement`] | on which nodes the ranks are | – |
//! | [`parts`] | numbers of a node that are not combined before those of others | – |
//! | [`tree`] | a tree of the living that mends itself | ULFM 2015, "Agreement" |
//! | [`view`] | the agreed live set and its fingerprint | – |
//! | [`handshake`] | the steps of a recovery, and what follows deaths in them | Hassani 2015 §3.3 |
//! | [`roster`] | who holds which rank, before and after a rebuild | Hassani 2015 §3.3 |
//! | [`redundancy`] | where a state is kept beside its rank | Moody 2010, Bautista-Gomez 2011 |
//! | [`pages`] | what has changed in a state since its last valid copy | – |
//! | [`keepers`] | who keeps what for whom, by their nodes | Moody 2010, §3; – |
//! | [`membership`] | who is too slow for work, and who is well again | Camargo 2018 §3 |
//! | [`interrupt`] | the flood that cuts a doomed block short | ULFM 2015, "Revoke" |
//! | [`riders`] | small collectives that ride on a commit, when a rank waits for them before | – |
//! | [`rounds`] | collectives among some of the ranks, round by round | Thakur 2005 §4 |
//! | [`message`], [`codec`] | what travels, and its bytes | – |

pub mod agreement;
pub mod codec;
pub mod commit;
pub mod exchange;
pub mod fused;
pub mod handshake;
pub mod interrupt;
pub mod keepers;
pub mod membership;
pub mod message;
pub mod nodes;
pub mod pages;
pub mod parts;
pub mod placement;
pub(crate) mod planted;
pub mod process;
pub mod redundancy;
pub mod riders;
pub mod roster;
pub mod rounds;
pub mod tree;
pub mod view;

use crate::{ids::BlockId, rank::Rank};
use fused::Values;
use message::{Fused, Message, Yes};

/// Where a machine puts what it wants done, in order.
pub trait Effects {
    /// Send this message; links are FIFO and reliable between living ranks.
    fn send(&mut self, to: Rank, message: Message);
    /// Send a message of the fast path.
    fn send_yes(&mut self, to: Rank, yes: Yes) {
        self.send(to, Message::Yes(yes));
    }
    /// Send a message of the fast path with values.
    fn send_fused(&mut self, to: Rank, yes: Yes, values: &Values) {
        self.send(to, Message::Fused(Fused { yes, values: *values }));
    }
    /// Tell the engine what happened.
    fn emit(&mut self, event: Event);
}

/// What happened inside a machine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// The block has its decision; ask the machine for it.
    Decided(BlockId),
    /// Another rank knew of this death before we did.
    Learned(Rank),
    /// The block is doomed: its pending requests need not be waited for.
    Interrupted(BlockId),
}

/// One effect as a value, for simulators and checkers.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Effect {
    /// See [`Effects::send`].
    Send(Rank, Message),
    /// See [`Effects::emit`].
    Emit(Event),
}

impl Effects for alloc::vec::Vec<Effect> {
    fn send(&mut self, to: Rank, message: Message) {
        self.push(Effect::Send(to, message));
    }

    fn emit(&mut self, event: Event) {
        self.push(Effect::Emit(event));
    }
}
