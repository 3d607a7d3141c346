//! The commit machine by itself: what deciding costs, without any network.
//!
//! `cargo bench --no-default-features --bench machine`

// The macros below make functions without documentation.
#![allow(missing_docs)]

use std::collections::VecDeque;

use criterion::{Criterion, criterion_group, criterion_main};
use fampi::{
    CommId, Rank,
    ids::BlockId,
    protocol::{Effect, agreement::Vote, commit::Commit, message::Message},
};

type Links = VecDeque<(Rank, Rank, Message)>;

/// One block on all these machines, all yes; every message is delivered in its turn.
fn commit(machines: &mut [Commit], block: BlockId, out: &mut Vec<Effect>) {
    let mut links = Links::new();
    let post = |from: usize, out: &mut Vec<Effect>, links: &mut Links| {
        for effect in out.drain(..) {
            if let Effect::Send(to, message) = effect {
                links.push_back((Rank::from(from), to, message));
            }
        }
    };
    for (at, machine) in machines.iter_mut().enumerate() {
        machine.handle_vote(block, Vote::yes(0), out);
        post(at, out, &mut links);
    }
    while let Some((from, to, message)) = links.pop_front() {
        machines[to.index()].handle_message(from, message, out);
        post(to.index(), out, &mut links);
    }
}

fn machines(criterion: &mut Criterion) {
    for size in [2_u32, 16, 128] {
        let mut ranks: Vec<Commit> =
            (0..size).map(|rank| Commit::new(CommId(1), Rank::new(rank), size)).collect();
        let (mut block, mut out) = (BlockId(0), Vec::new());
        criterion.bench_function(&format!("commit on {size} machines"), |bencher| {
            bencher.iter(|| {
                commit(&mut ranks, block, &mut out);
                block = block.next();
            });
        });
    }
}

criterion_group!(benches, machines);
criterion_main!(benches);
