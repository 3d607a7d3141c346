//! On which node a process is started.

use super::{Node, membership::Membership, space::Spaces};

/// A node that processes can be started on.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Room {
    /// Its host name.
    pub name: String,
    /// How many processes it is meant for.
    pub slots: u32,
}

/// The nodes of the processes of a launch, in their order: nodes are filled one after the other, or
/// in turns; what is left when all are full goes on in turns.
pub fn of_launch(processes: u32, rooms: &[Room], in_turns: bool) -> Vec<u32> {
    let mut free: Vec<u32> = rooms.iter().map(|room| room.slots).collect();
    let mut places = Vec::with_capacity(processes as usize);
    let mut next = 0;
    while places.len() < processes as usize {
        if free.iter().all(|slots| *slots == 0) {
            free.fill(1);
            next = 0;
        }
        if free[next] > 0 {
            free[next] -= 1;
            places.push(next as u32);
            next += usize::from(in_turns);
        } else {
            next += 1;
        }
        next %= rooms.len();
    }
    places
}

/// The nodes of processes that a process starts, so many each on nodes of these names, if any: each
/// process goes to the living one of them that is least loaded for its size, the first if there are
/// several. Nothing when there is none.
pub fn of_spawn(
    wanted: &[(u32, &[String])],
    rooms: &[Room],
    members: &Membership,
    spaces: &Spaces,
) -> Option<Vec<u32>> {
    let is_open = |node| !members.is_lost(node) && !members.is_joining(node);
    let nodes = (0..).map(Node).zip(rooms);
    let mut open: Vec<(Node, &Room, u64)> = nodes
        .filter(|(node, _)| is_open(*node))
        .map(|(node, room)| (node, room, spaces.load_of(node).into()))
        .collect();
    let size = |room: &Room| u64::from(room.slots.max(1));
    let mut places = Vec::new();
    for (processes, names) in wanted {
        for _ in 0..*processes {
            let named = |room: &Room| names.is_empty() || names.contains(&room.name);
            let possible = open.iter_mut().filter(|(_, room, _)| named(room));
            // Of the loads after one more, as fractions of the sizes.
            let least = possible.min_by(|(_, room, load), (_, other, others_load)| {
                ((*load + 1) * size(other)).cmp(&((*others_load + 1) * size(room)))
            })?;
            least.2 += 1;
            places.push(least.0.0);
        }
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        membership::Membership,
        space::{Known, Program, Space},
    };

    fn rooms(slots: &[u32]) -> Vec<Room> {
        let room = |(at, slots): (usize, &u32)| Room { name: format!("n{at}"), slots: *slots };
        slots.iter().enumerate().map(room).collect()
    }

    #[test]
    fn a_launch_fills_nodes_in_order_or_in_turns() {
        let of = |processes, slots: &[u32], turns| of_launch(processes, &rooms(slots), turns);
        assert_eq!(of(5, &[2, 4], false), [0, 0, 1, 1, 1]);
        assert_eq!(of(8, &[2, 4], false), [0, 0, 1, 1, 1, 1, 0, 1], "the rest in turns");
        assert_eq!(of(5, &[2, 2, 2], true), [0, 1, 2, 0, 1]);
        assert_eq!(of(4, &[1, 3], true), [0, 1, 1, 1]);
        assert_eq!(of(3, &[1], true), [0, 0, 0]);
    }

    #[test]
    fn a_new_process_goes_to_the_least_loaded_living_node() {
        let space = Space {
            name: "job".into(),
            places: vec![0, 0, 1, 1, 2],
            spawner: None,
            port: None,
            program: Program::default(),
            others: Vec::new(),
        };
        let mut spaces = Spaces::default();
        spaces.add(Known::new(space, None)).expect("the first");
        let (rooms, mut members) = (rooms(&[2, 2, 2]), Membership::new(Node(1), 3));
        let of = |members: &Membership, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            of_spawn(&[(3, &names)], &rooms, members, &spaces)
        };
        assert_eq!(of(&members, &[]), Some(vec![2, 0, 1]));
        assert_eq!(of(&members, &["n1"]), Some(vec![1, 1, 1]));
        assert_eq!(of(&members, &["n7"]), None);
        members.note_lost(Node(2));
        assert_eq!(of(&members, &[]), Some(vec![0, 1, 0]));
        assert_eq!(of(&members, &["n2"]), None);
    }
}
