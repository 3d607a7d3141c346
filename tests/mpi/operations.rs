//! Programs that do every operation on real ranks.

use fampi::{Level, Timeout, World};

use crate::{
    every::post_all,
    programs::{Ended, say, wait},
};

/// All operations at once in each block, with every root and messages of all sizes.
pub(crate) fn all(world: World) -> Ended {
    for seed in 0..12 {
        for root in 0..world.size() as usize {
            check_all(&world, root, seed)?;
        }
    }
    say(world, "all operations are right")
}

fn check_all(world: &World, root: usize, seed: u64) -> Ended {
    let (me, size) = (world.rank().index(), world.size() as usize);
    let longest = [3, 1, 40, 6000][seed as usize % 4];
    let mut block = world.start(Level::Global)?;
    let posted = post_all(&mut block, (me, size), root, seed, longest)?;
    let finished = wait(block.finish(Timeout::Never))?;
    assert!(finished.is_committed(), "seed {seed}, root {root}: {finished:?}");
    for (call, request) in posted {
        if let Err(wrong) = call.verify(me, &finished.take(request)?) {
            panic!("{wrong}");
        }
    }
    Ok(())
}
