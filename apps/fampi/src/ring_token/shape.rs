//! What figures 1 and 2 have to look like, whatever the machine.

use super::pattern::Pattern;
use super::story::{Epoch, Part, Story};

pub(super) const YES: &str = "yes";
const NO: &str = "no";
const TOO_FEW: &str = "no token is left to tell";

fn holds(it: bool) -> &'static str {
    if it { YES } else { NO }
}

/// Each claim, and whether it is so; nothing of what was not run.
pub(super) fn of(stories: &[Story]) -> Vec<(String, &'static str)> {
    let mut claims = Vec::new();
    for part in [Part::Real, Part::Simulated] {
        let of_part: Vec<&Story> = stories.iter().filter(|story| story.part == part).collect();
        let calm = of_part.iter().find(|story| story.pattern == Pattern::Nobody);
        if let Some(story) = calm {
            let (name, n) = (part.name(), story.ranks);
            let claim = format!("{name}: without a death no token is lost, and each has {n} hops");
            let right = story.tokens.iter().all(|it| it.back.is_some_and(|(_, hops)| hops == n));
            claims.push((claim, holds(right)));
        }
        for story in of_part.iter().filter(|story| story.pattern != Pattern::Nobody) {
            let name = format!("{}, {}", part.name(), story.pattern.name());
            let claim = format!("{name}: a token has a hop for each process that lives on its way");
            claims.push((claim, holds(hops_follow_deaths(story))));
            claims.push(going_on(&name, story));
            claims.extend(calm.map(|calm| faster(&name, story, calm)));
            claims.push(epochs_apart(&name, story));
        }
    }
    claims
}

/// True when each token has at most as many hops as processes lived when it was made, and at least
/// as many as when it was back.
fn hops_follow_deaths(story: &Story) -> bool {
    story.tokens.iter().all(|token| {
        let allowed =
            |(back, hops)| (story.living_at(back)..=story.living_at(token.made)).contains(&hops);
        token.back.is_none_or(allowed)
    })
}

/// What is made when all know of all deaths comes back.
fn going_on(name: &str, story: &Story) -> (String, &'static str) {
    let left = story.ranks - story.epochs.len() as u32;
    let all_know = story.epochs.iter().filter_map(Epoch::known_to_all).fold(0.0, f64::max);
    let mut later = story.tokens.iter().filter(|token| token.made > all_know).peekable();
    let verdict = if later.peek().is_none() {
        TOO_FEW
    } else {
        holds(later.all(|token| token.back.is_some_and(|(_, hops)| hops == left)))
    };
    (format!("{name}: the {left} that are left lose no token once all know"), verdict)
}

/// At the end the round trip is below that without deaths.
fn faster(name: &str, story: &Story, calm: &Story) -> (String, &'static str) {
    let (Some((with, _)), Some((without, _))) = (story.tenth(9), calm.tenth(9)) else {
        return (format!("{name}: the round trip falls"), TOO_FEW);
    };
    let claim = format!("{name}: the round trip falls, {with:.4} < {without:.4} ms at the end");
    (claim, holds(with < without))
}

/// All who live know of each death before the next one, so that they agree on the epoch.
fn epochs_apart(name: &str, story: &Story) -> (String, &'static str) {
    let mut spreads: Vec<f64> = story.epochs.iter().filter_map(Epoch::spread).collect();
    spreads.sort_by(f64::total_cmp);
    let spread = spreads.get(spreads.len() / 2).copied().unwrap_or(f64::NAN);
    let apart = |epoch: &Epoch| {
        let end = story.end_of(epoch);
        let known = epoch.known_to_all().is_some_and(|at| at < end);
        known && epoch.known.len() >= tellers(story, end)
    };
    let claim =
        format!("{name}: all know of each death before the next, median spread {spread:.4} ms");
    (claim, holds(story.epochs.iter().all(apart)))
}

/// How many have to tell of what was known before this moment: each that lived until then, or one
/// of each node with such a process.
fn tellers(story: &Story, moment: f64) -> usize {
    let gone = story.epochs.iter().take_while(|epoch| epoch.at < moment).map(|epoch| epoch.dead);
    let mut lives = vec![true; story.ranks as usize];
    gone.for_each(|rank| lives[rank as usize] = false);
    lives.chunks(story.tell_together as usize).filter(|it| it.contains(&true)).count()
}

#[cfg(test)]
mod tests {
    use super::super::story::Token;
    use super::*;

    /// Four ranks, of which one dies after ten of thirty tokens and another after twenty; all know
    /// 0.1 ms later, and one token is lost with each. A hop takes 0.01 ms.
    fn ring(pattern: Pattern) -> Story {
        let deaths: &[(u32, f64)] =
            if pattern == Pattern::Nobody { &[] } else { &[(2, 9.95), (1, 19.95)] };
        let epochs: Vec<Epoch> = deaths
            .iter()
            .map(|&(dead, at)| {
                let lives = |rank: &u32| *rank != dead && (*rank != 2 || at < 10.0);
                let known = (0..4).filter(lives).map(|rank| (rank, at + 0.1)).collect();
                Epoch { dead, at, known }
            })
            .collect();
        let token = |number: u32| {
            let made = f64::from(number);
            let hops = 4 - epochs.iter().filter(|epoch| epoch.at <= made).count() as u32;
            let is_lost = !epochs.is_empty() && (number == 10 || number == 20);
            let back = (!is_lost).then(|| (made + 0.01 * f64::from(hops), hops));
            Token { made, back }
        };
        let tokens = (0..30).map(token).collect();
        Story { part: Part::Real, pattern, ranks: 4, tell_together: 1, tokens, epochs }
    }

    /// The verdicts on a run without deaths and on this one.
    fn judged(calm: &Story, story: Story) -> Vec<&'static str> {
        of(&[calm.clone(), story]).into_iter().map(|(_, verdict)| verdict).collect()
    }

    #[test]
    fn a_ring_as_it_should_be_holds_all_claims() {
        assert_eq!(judged(&ring(Pattern::Nobody), ring(Pattern::One)), [YES; 5]);
        assert!(of(&[]).is_empty(), "nothing of what was not run");
    }

    #[test]
    fn a_token_that_is_lost_without_a_death_is_told() {
        let mut calm = ring(Pattern::Nobody);
        calm.tokens[3].back = None;
        assert_eq!(judged(&calm, ring(Pattern::One)), [NO, YES, YES, YES, YES]);
    }

    #[test]
    fn hops_that_no_process_made_and_hops_of_the_dead_are_told() {
        for hops in [1, 3] {
            let mut story = ring(Pattern::One);
            story.tokens[25].back = Some((25.02, hops));
            assert_eq!(judged(&ring(Pattern::Nobody), story)[1..3], [NO, NO], "{hops}");
        }
    }

    #[test]
    fn a_token_that_is_lost_when_all_know_is_told() {
        let mut story = ring(Pattern::One);
        story.tokens[25].back = None;
        assert_eq!(judged(&ring(Pattern::Nobody), story), [YES, YES, NO, YES, YES]);
        let mut story = ring(Pattern::One);
        story.epochs[1].known.push((0, 29.5));
        assert_eq!(judged(&ring(Pattern::Nobody), story)[2], TOO_FEW);
    }

    #[test]
    fn round_trips_that_do_not_fall_are_told() {
        let mut story = ring(Pattern::One);
        story.tokens.iter_mut().skip(20).for_each(|token| {
            token.back = token.back.map(|(back, hops)| (back + 0.1, hops));
        });
        assert_eq!(judged(&ring(Pattern::Nobody), story), [YES, YES, YES, NO, YES]);
    }

    #[test]
    fn an_epoch_that_some_learn_of_late_or_never_is_told() {
        let mut late = ring(Pattern::One);
        late.epochs[0].known[0].1 = 20.0;
        assert_eq!(judged(&ring(Pattern::Nobody), late), [YES, YES, YES, YES, NO]);
        let mut never = ring(Pattern::One);
        never.epochs[0].known.remove(1);
        assert_eq!(judged(&ring(Pattern::Nobody), never), [YES, YES, YES, YES, NO]);
        // Of two on each node one tells: 0 of the first, 3 of the second.
        let mut together = ring(Pattern::One);
        together.tell_together = 2;
        together.epochs.iter_mut().for_each(|epoch| epoch.known.retain(|(rank, _)| *rank != 1));
        assert_eq!(judged(&ring(Pattern::Nobody), together), [YES; 5]);
    }
}
