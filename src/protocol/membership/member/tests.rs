//! What ranks tell each other in a census, and the group that they make of it.

use super::{
    super::{evidence::CANDIDATE, levels::MOST_WITH_ALL},
    *,
};

const ZETA: u32 = 3;

/// What the observer of a rank's node has counted of the rank, and of other nodes.
struct Board {
    tested: Tested,
    of_nodes: Vec<Opinion>,
}

impl Tests for Board {
    fn tested(&self) -> Option<Tested> {
        Some(self.tested)
    }

    fn of_node(&self, node: u32) -> Opinion {
        self.of_nodes[node as usize]
    }
}

#[allow(clippy::unnecessary_wraps, reason = "as the platform has it")]
fn tested(fails: u32, streak: u32) -> Option<Tested> {
    Some(Tested::of(Opinion { fails, streak }, ZETA))
}

/// Ranks, each of which knows the group or not, take a census; those of no number are dead.
fn census<T: Tests>(ranks: &mut [Option<(Member, bool)>], tests: impl Fn(usize) -> T) -> Levels {
    let size = ranks.len();
    let mut words = vec![NOBODY; size * ROW_WORDS];
    for (at, place) in ranks.iter_mut().enumerate() {
        if let Some((member, knows)) = place {
            let all = Census::words(member, *knows, &tests(at), (at, size));
            words[at * ROW_WORDS..][..ROW_WORDS]
                .copy_from_slice(&all[at * ROW_WORDS..][..ROW_WORDS]);
        }
    }
    let mut census = Census::of_words(&words);
    let more = census.more();
    let mut words = vec![NOTHING; size * more];
    for (at, (member, _)) in
        ranks.iter().enumerate().filter_map(|(at, it)| Some((at, it.as_ref()?)))
    {
        let all = census.more_words(member, (at, size));
        words[at * more..][..more].copy_from_slice(&all[at * more..][..more]);
    }
    census.add(words);
    let told = census.speaker().map(|speaker| {
        let (member, _) = ranks[speaker].as_ref().expect("it has told something");
        census.group_words(member)
    });
    let mut after = None;
    for (member, knows) in ranks.iter_mut().flatten() {
        if let Some(words) = told.as_ref().filter(|_| !*knows) {
            assert_eq!(census.group_words(member).len(), words.len(), "there is room for it");
            assert!(Census::teach(member, words));
        }
        let levels = census.next(member);
        assert_eq!(*after.get_or_insert_with(|| levels.clone()), levels);
        member.accept(levels);
        *knows = true;
    }
    after.expect("somebody lives")
}

fn members(group: &Membership) -> Vec<u32> {
    group.members().map(Rank::number).collect()
}

fn four(slow: Slow) -> Vec<Option<(Member, bool)>> {
    let member =
        |rank: u32| Member::new(Rank::new(rank), 4, slow, &tested(u32::from(rank == 2), 0));
    (0..4).map(|rank| Some((member(rank), false))).collect()
}

fn news(ranks: &mut [Option<(Member, bool)>], rank: usize, tests: &impl Tests) -> u32 {
    ranks[rank].as_mut().expect("it lives").0.news(tests)
}

/// Who works after all of four ranks of one node have told, of which rank 2 is known to have this.
fn after(ranks: &mut [Option<(Member, bool)>], of_rank_2: Option<Tested>) -> Vec<u32> {
    let levels = census(ranks, |rank| if rank == 2 { of_rank_2 } else { tested(0, 9) });
    members(levels.view())
}

#[test]
fn who_fails_a_test_is_benched_and_comes_back_after_zeta_good_ones() {
    let mut group = four(Slow::Return);
    assert_eq!(news(&mut group, 2, &tested(1, 0)), 0, "what was before counts against nobody");
    assert!(news(&mut group, 2, &tested(2, 0)) > 0);
    assert_eq!(after(&mut group, tested(2, 0)), [0, 1, 3]);
    assert_eq!(news(&mut group, 2, &tested(2, ZETA - 1)), 0);
    assert!(news(&mut group, 2, &tested(2, ZETA)) > 0);
    assert_eq!(after(&mut group, tested(2, ZETA)), [0, 1, 2, 3]);
    assert_eq!(news(&mut group, 2, &tested(2, ZETA + 1)), 0);
}

#[test]
fn who_may_not_come_back_does_not() {
    let mut group = four(Slow::Leave);
    assert_eq!(after(&mut group, tested(2, 0)), [0, 1, 3]);
    assert_eq!(news(&mut group, 2, &tested(2, 1000)), 0);
    assert_eq!(after(&mut group, tested(2, 1000)), [0, 1, 3]);
}

#[test]
fn a_bad_moment_that_is_over_benches_nobody() {
    for slow in [Slow::Return, Slow::Leave] {
        let mut group = four(slow);
        assert!(news(&mut group, 2, &tested(2, ZETA - 1)) > 0);
        assert_eq!(news(&mut group, 2, &tested(2, ZETA)), 0);
        assert_eq!(after(&mut group, tested(2, ZETA)), [0, 1, 2, 3]);
    }
}

#[test]
fn without_tests_nothing_is_ever_new() {
    let mut member = Member::new(Rank::new(0), 2, Slow::Return, &None);
    assert_eq!((member.news(&None), member.tell(true, &None).finding), (0, NOTHING));
    let mut member = Member::new(Rank::new(0), 2, Slow::Stay, &tested(0, 0));
    let told = member.tell(true, &tested(1, 0));
    assert_eq!((member.news(&tested(1, 0)), told.finding, told.node), (0, NOTHING, None));
}

#[test]
fn a_dead_rank_is_none_of_the_benched_and_its_replacement_is_a_member_or_on_probation() {
    for (slow, of_new, works) in [
        (Slow::Return, tested(4, 90), true),
        (Slow::Probation, tested(4, 90), false),
        (Slow::Probation, None, true),
    ] {
        let mut group = four(slow);
        group[2] = None;
        let levels = census(&mut group, |_| tested(0, 9));
        assert_eq!(members(levels.view()), [0, 1, 3]);
        assert!(!levels.view().is_benched(Rank::new(2)));
        group[2] = Some((Member::new(Rank::new(2), 4, slow, &of_new), false));
        let is_in = |group: &[u32]| group.contains(&2);
        assert_eq!(is_in(&after(&mut group, of_new)), works, "{slow:?}");
        let later = |streak| of_new.and_then(|_| tested(4, streak));
        assert_eq!(news(&mut group, 2, &later(92)), 0, "what was before does not count");
        assert_eq!(is_in(&after(&mut group, later(92))), works);
        let asked = if works { 0 } else { CANDIDATE };
        assert_eq!(news(&mut group, 2, &later(93)), asked);
        assert!(is_in(&after(&mut group, later(93))));
    }
}

#[test]
fn who_begins_is_told_the_group_and_the_benched_are_named_by_their_ranks_now() {
    let mut group = four(Slow::Return);
    assert_eq!(after(&mut group, tested(2, 0)), [0, 1, 3]);
    // Rank 1 dies, rank 3 has a new process; then rank 2 is rank 1 among those who are left.
    group[1] = None;
    group[3] = Some((Member::new(Rank::new(3), 4, Slow::Return, &tested(0, 9)), false));
    assert_eq!(after(&mut group, tested(2, 1)), [0, 3]);
    let mut left: Vec<_> = [0, 2, 3].map(|rank| group[rank].take()).into();
    let rows = left.iter_mut().flatten().map(|(member, _)| Some(member.tell(true, &tested(2, 1))));
    let shrunken = Census { rows: rows.collect(), of_nodes: Vec::new() };
    let view = left[0].as_ref().map(|(member, _)| member.view().clone()).expect("it lives");
    assert_eq!(shrunken.benched(&view), [Rank::new(1)].into_iter().collect());
}

/// Three nodes of two ranks each, and what each observer has counted of the others.
struct Nodes {
    ranks: Vec<Option<(Member, bool)>>,
    opinions: Vec<Vec<Opinion>>,
    of_ranks: Vec<Opinion>,
}

impl Nodes {
    fn new(slow: Slow) -> Self {
        let opinions = vec![vec![Opinion::default(); 3]; 3];
        let mut nodes = Self { ranks: Vec::new(), opinions, of_ranks: vec![Opinion::default(); 6] };
        nodes.ranks = (0..6)
            .map(|rank| {
                let board = nodes.board(rank);
                Some((Member::new(rank.into(), 6, slow, &board), false))
            })
            .collect();
        nodes
    }

    fn board(&self, rank: usize) -> Board {
        let node = (rank as u32 / 2, 3);
        let tested = Tested { node, ..Tested::of(self.of_ranks[rank], ZETA) };
        Board { tested, of_nodes: self.opinions[rank / 2].clone() }
    }

    fn fail(&mut self, tester: usize, target: usize) {
        let opinion = &mut self.opinions[tester][target];
        *opinion = Opinion { fails: opinion.fails + 1, streak: 0 };
    }

    fn pass(&mut self, tester: usize, target: usize, times: u32) {
        self.opinions[tester][target].streak += times;
    }

    fn news(&mut self) -> u32 {
        let boards: Vec<Board> = (0..6).map(|rank| self.board(rank)).collect();
        let living = self
            .ranks
            .iter_mut()
            .zip(&boards)
            .filter_map(|(it, board)| Some((it.as_mut()?, board)));
        living.fold(0, |all, ((member, _), board)| all | member.news(board))
    }

    fn census(&mut self) -> Vec<u32> {
        let boards: Vec<Board> = (0..6).map(|rank| self.board(rank)).collect();
        let board = |rank: usize| Board { of_nodes: boards[rank].of_nodes.clone(), ..boards[rank] };
        members(census(&mut self.ranks, board).view())
    }
}

#[test]
fn a_node_that_others_accuse_takes_its_ranks_along_and_comes_back_when_most_saw_it_well() {
    let mut nodes = Nodes::new(Slow::Return);
    assert_eq!(nodes.news(), 0);
    nodes.fail(0, 1);
    assert_eq!(nodes.news(), ACCUSATION, "before any census");
    assert_eq!(nodes.census(), [0, 1, 4, 5]);
    nodes.fail(1, 0);
    nodes.fail(1, 2);
    assert_eq!(nodes.news(), 0, "who is benched is not heard");
    nodes.pass(0, 1, ZETA);
    assert_eq!(nodes.news(), CANDIDATE);
    assert_eq!(nodes.census(), [0, 1, 4, 5], "one of two is not most");
    nodes.pass(0, 1, ZETA);
    nodes.pass(2, 1, 2);
    assert_eq!(nodes.census(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(nodes.news(), 0, "what it saw before is forgotten");
}

#[test]
fn as_few_nodes_as_possible_go_and_under_any_the_accused() {
    for (rule, left) in [(Rule::Fewest, vec![2, 3, 4, 5]), (Rule::Any, vec![0, 1])] {
        let mut nodes = Nodes::new(Slow::Return);
        for (member, _) in nodes.ranks.iter_mut().flatten() {
            *member = member.clone().by(rule);
        }
        nodes.fail(0, 1);
        nodes.fail(0, 2);
        assert_eq!(nodes.census(), left, "{rule:?}");
    }
}

#[test]
fn the_lowest_living_rank_speaks_for_its_node_of_those_that_do_not_begin() {
    let mut nodes = Nodes::new(Slow::Return);
    nodes.census();
    nodes.fail(1, 2);
    nodes.ranks[2] = None;
    assert_eq!(nodes.census(), [0, 1, 3], "rank 3 has told it");
    let board = nodes.board(2);
    nodes.ranks[2] = Some((Member::new(Rank::new(2), 6, Slow::Return, &board), false));
    nodes.pass(0, 2, ZETA);
    nodes.pass(1, 2, ZETA);
    assert_eq!(nodes.census(), [0, 1, 2, 3, 4, 5], "rank 3 speaks, as rank 2 begins");
}

#[test]
fn a_node_is_heard_while_one_of_its_ranks_works() {
    let mut nodes = Nodes::new(Slow::Return);
    nodes.of_ranks[2] = Opinion { fails: 1, streak: 0 };
    nodes.fail(1, 2);
    assert_eq!(nodes.census(), [0, 1, 3], "the benched one speaks for its node");
    let mut nodes = Nodes::new(Slow::Return);
    for rank in [2, 3] {
        nodes.of_ranks[rank] = Opinion { fails: 1, streak: 0 };
    }
    nodes.fail(1, 2);
    assert_eq!(nodes.census(), [0, 1, 4, 5], "nobody of it works");
    nodes.of_ranks[3].streak = ZETA;
    assert_eq!(nodes.census(), [0, 1, 3, 4, 5]);
    assert_eq!(nodes.news(), 0, "what it saw meanwhile is forgotten");
    nodes.fail(1, 2);
    assert_eq!(nodes.census(), [0, 1, 3], "and now it is heard");
}

#[test]
fn a_node_without_ranks_is_accused_by_nobody_and_a_new_process_brings_it_back() {
    let mut nodes = Nodes::new(Slow::Return);
    (nodes.ranks[2], nodes.ranks[3]) = (None, None);
    assert_eq!(nodes.census(), [0, 1, 4, 5]);
    nodes.fail(0, 1);
    assert_eq!(nodes.news(), 0);
    assert_eq!(nodes.census(), [0, 1, 4, 5], "node 0 does not go for it");
    let board = nodes.board(2);
    nodes.ranks[2] = Some((Member::new(Rank::new(2), 6, Slow::Return, &board), false));
    assert_eq!(nodes.census(), [0, 1, 2, 4, 5]);
}

#[test]
fn when_nobody_is_left_who_works_all_who_live_do() {
    let mut nodes = Nodes::new(Slow::Return);
    nodes.fail(0, 2);
    nodes.fail(1, 2);
    assert_eq!(nodes.census(), [0, 1, 2, 3]);
    for rank in 0..4 {
        nodes.ranks[rank] = None;
    }
    assert_eq!(nodes.census(), [4, 5]);
    assert_eq!(nodes.news(), 0);
}

#[test]
fn the_levels_in_words_are_the_same() {
    let mut nodes = Nodes::new(Slow::Return);
    nodes.fail(0, 2);
    nodes.of_ranks[1] = Opinion { fails: 1, streak: 0 };
    nodes.ranks[3] = None;
    assert_eq!(nodes.census(), [0, 2]);
    let levels = nodes.ranks[0].as_ref().map(|(member, _)| member.levels().clone());
    let levels = levels.expect("it lives");
    assert_eq!(Levels::of_words(&levels.to_words(), 6), Some(levels));
    assert_eq!(Levels::of_words(&[0; 19], 6), None);
}

/// Only three of more nodes than all test say anything of the last one, as with `VCube`.
#[test]
fn among_many_nodes_those_vote_that_test() {
    let nodes = MOST_WITH_ALL + 1;
    let last = Rank::new(nodes - 1);
    let report = |tester: u32, finding| Report { tester: Rank::new(tester), target: last, finding };
    let of = |reports: &[Report]| Brought {
        living: (0..nodes).map(|rank| (Rank::new(rank), Some(rank))).collect(),
        nodes,
        of_nodes: reports.to_vec(),
        ..Brought::default()
    };
    let terms = Terms { zeta: ZETA, ..Terms::default() };
    let benched = Levels::of_all(nodes).next(terms, &of(&[report(0, Finding::Accused)]));
    assert!(benched.view().is_benched(last));
    let [well, bad] = [Finding::Passed(ZETA), Finding::Passed(0)];
    for (findings, back) in [([well, well, bad], true), ([well, bad, bad], false)] {
        let reports = [0, 1, 2].map(|tester| report(tester, findings[tester as usize]));
        assert_eq!(benched.next(terms, &of(&reports)).view().is_member(last), back);
    }
}
