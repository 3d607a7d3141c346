//! Tables of what the observers of this machine know, for a person.
//!
//! Observers are found among the processes of our user, by the memory that they show
//! ([`super::view`]). Nothing is asked of them, and nothing tells them that somebody looks. Blocks
//! that the ranks of this node have committed are counted in memory of theirs ([`super::pulse`]);
//! how many that is in a second takes two looks.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};

use crate::{
    clock,
    daemon::{PROGRAM, pulse::Page, view::NAME},
    protocol::{
        Cause, Node,
        pulse::LOOKS,
        view::{HEAD_WORDS, Head, NODE_WORDS, NodeView, RANK_WORDS, RankView, State, node_at},
    },
};

/// Between two tables.
const PERIOD: Duration = Duration::from_secs(1);
/// Between the two looks before the first one.
const MOMENT: Duration = Duration::from_millis(200);
/// Nodes, and ranks, of a table; the rest is counted.
const MOST_ROWS: usize = 64;
/// Forgets what a terminal shows, and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// What one observer knows.
#[derive(Debug)]
struct Shown {
    head: Head,
    nodes: Vec<NodeView>,
    ranks: Vec<RankView>,
}

/// What was seen of one observer at one moment.
#[derive(Debug)]
struct Look {
    /// The observer.
    process: u32,
    shown: Shown,
    /// Blocks that each rank has committed, where that can be seen.
    commits: Vec<Option<u64>>,
    at: Duration,
}

/// Prints the tables of all observers, once or again and again until the last one has left.
pub fn main(once: bool) -> Result<()> {
    let processes = Path::new("/proc");
    let mut before = first_look(processes)?;
    thread::sleep(MOMENT);
    let output = io::stdout();
    loop {
        let looks = look(processes);
        if looks.is_empty() {
            println!("the last observer has left");
            return Ok(());
        }
        let (clear, text) = (!once && output.is_terminal(), tables(&before, &looks));
        let clear = if clear { CLEAR } else { "" };
        let written = write!(output.lock(), "{clear}{text}").and_then(|()| output.lock().flush());
        // Who does not read any more wants no more.
        if once || written.is_err() {
            return Ok(());
        }
        before = looks;
        thread::sleep(PERIOD);
    }
}

fn first_look(processes: &Path) -> Result<Vec<Look>> {
    let looks = look(processes);
    let advice = "`cargo fampi run --observer` starts a job with one";
    ensure!(!looks.is_empty(), "no observer of yours runs here: {advice}");
    Ok(looks)
}

/// The observers among the processes in this folder, by number.
fn look(processes: &Path) -> Vec<Look> {
    let numbers = fs::read_dir(processes).into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    let looks = numbers.into_iter().filter_map(|process| {
        let observer = processes.join(process.to_string());
        let shown = find(&observer).and_then(read)?;
        let page = |rank: &RankView| open(&observer, rank.page?)?.read();
        let commits = shown.ranks.iter().map(|rank| page(rank).map(|pulse| pulse.commits));
        Some(Look { process, commits: commits.collect(), shown, at: clock::now() })
    });
    looks.collect()
}

/// The memory of a rank, behind this descriptor of its observer.
fn open(observer: &Path, descriptor: u32) -> Option<Page> {
    let path = observer.join("fd").join(descriptor.to_string());
    // Opening something else could wait for ever.
    if !is_memory(&path, "") {
        return None;
    }
    Page::of(File::open(path).ok()?.into())
}

/// The tables of all observers, one after another, with what happened since the look before.
fn tables(before: &[Look], looks: &[Look]) -> String {
    let table = |look: &Look| table(look, before.iter().find(|it| it.process == look.process));
    looks.iter().map(table).collect::<Vec<String>>().join("\n")
}

/// The memory that a process shows, if it is an observer of ours.
fn find(process: &Path) -> Option<File> {
    let program = fs::read_link(process.join("exe")).ok()?;
    // When it was built again, its name goes on with "(deleted)".
    if !program.file_name()?.to_str()?.starts_with(PROGRAM) {
        return None;
    }
    let descriptors = fs::read_dir(process.join("fd")).ok()?.flatten();
    let mut paths = descriptors.map(|descriptor| descriptor.path());
    File::open(paths.find(|path| is_memory(path, NAME))?).ok()
}

/// True for a descriptor of memory whose name begins so.
fn is_memory(descriptor: &Path, name: &str) -> bool {
    let memory = format!("/memfd:{name}");
    fs::read_link(descriptor).is_ok_and(|target| target.to_string_lossy().starts_with(&memory))
}

/// What is in the memory, if that is a view of this version.
fn read(mut file: File) -> Option<Shown> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|it| u64::from_ne_bytes(*it)).collect();
    let head = Head::from_words(*words.first_chunk::<HEAD_WORDS>()?)?;
    if words.len() != head.words() {
        return None;
    }
    let (nodes, ranks) = words[HEAD_WORDS..].split_at(node_at(Node(head.nodes)) - HEAD_WORDS);
    let nodes = nodes.as_chunks::<NODE_WORDS>().0.iter().map(|it| NodeView::from_words(*it));
    let ranks = ranks.as_chunks::<RANK_WORDS>().0.iter().map(|it| RankView::from_words(*it));
    Some(Shown { head, nodes: nodes.collect(), ranks: ranks.collect::<Option<_>>()? })
}

/// What an observer knows.
fn table(look: &Look, before: Option<&Look>) -> String {
    let Look { process, shown: Shown { head, nodes, ranks }, at, .. } = look;
    let me = head.me.node.0 as usize;
    let name = nodes.get(me).map_or("?", |node| &node.name);
    let Head { period, timeout, watched, refused, .. } = head;
    let mut text = format!(
        "observer {process} on {name}: watched: {watched}, nodes: {}, ranks: {}\n\
         heartbeats every {period:?}, lost after {timeout:?}; strangers refused: {refused}{}\n\n",
        nodes.len(),
        ranks.len(),
        if head.fenced { "; lost to all other nodes" } else { "" }
    );
    // An observer leaves when its ranks have left, and others may hear nothing of that.
    let has_lost_ranks = |number: usize| {
        let is_lost = |rank: &RankView| rank.state == State::Dead(Cause::NodeLost);
        ranks.iter().any(|rank| rank.node.0 as usize == number && is_lost(rank))
    };
    let rows = nodes.iter().enumerate().map(|(number, node)| {
        let state = match (number == me, node.lost, node.asked_in_vain) {
            (true, ..) => "here",
            (_, true, _) if has_lost_ranks(number) => "lost",
            (_, true, _) => "gone",
            (_, _, 0) if node.opinion.is_slow(head.zeta) => "slow",
            (_, _, 0) => "alive",
            _ => "silent",
        };
        let ago = |heard| format!("{} ms ago", at.saturating_sub(heard).as_millis());
        let heard = node.heard.map_or_else(|| "-".into(), ago);
        let (life, asked) = (node.incarnation.0, node.asked);
        [
            number.to_string(),
            life.to_string(),
            node.name.clone(),
            state.into(),
            heard,
            asked.to_string(),
        ]
    });
    align(&mut text, ["node", "life", "name", "state", "heard", "asked"], rows);
    text.push('\n');
    let rows = ranks.iter().enumerate().map(|(number, rank)| {
        let commits = look.commits.get(number).copied().flatten();
        let rate = before.and_then(|before| rate(before, look, number));
        let commits = commits.map_or_else(|| "-".into(), |commits| commits.to_string());
        let rate = rate.map_or_else(|| "-".into(), |rate| format!("{rate:.0}"));
        let (life, node) = (rank.incarnation.0.to_string(), rank.node.0.to_string());
        [number.to_string(), life, node, commits, rate, words(rank, head.zeta)]
    });
    align(&mut text, ["rank", "life", "node", "commits", "per second", "state"], rows);
    text
}

/// Commits in a second of a rank that is the same process at both looks.
fn rate(before: &Look, look: &Look, rank: usize) -> Option<f64> {
    let of = |look: &Look| Some((look.shown.ranks.get(rank)?.state, (*look.commits.get(rank)?)?));
    let ((process, first), (same, last)) = (of(before)?, of(look)?);
    let passed = look.at.checked_sub(before.at).filter(|passed| !passed.is_zero())?;
    let commits = last.checked_sub(first).filter(|_| process == same)?;
    Some(commits as f64 / passed.as_secs_f64())
}

fn words(rank: &RankView, zeta: u32) -> String {
    match rank.state {
        State::Alive => "alive".into(),
        State::Watched(process) => {
            let mut words = format!("process {process}");
            if rank.opinion.is_slow(zeta) {
                let _ = write!(words, ", slow: {} good tests of {zeta}", rank.opinion.streak);
            }
            if rank.still > 0 {
                let _ = write!(words, ", no progress in {} of {LOOKS} looks", rank.still);
            }
            words
        }
        State::Dead(Cause::Ended) => "ended".into(),
        State::Dead(Cause::Exit(0)) => "left in order".into(),
        State::Dead(Cause::Exit(status)) => format!("ended with status {status}"),
        State::Dead(Cause::Signal(signal)) => format!("ended by signal {signal}"),
        State::Dead(Cause::Hung) => "hung".into(),
        State::Dead(Cause::Declared) => "declared dead".into(),
        State::Dead(Cause::NodeLost) => "lost with its node".into(),
        State::Dead(Cause::Replaced) => "replaced".into(),
    }
}

/// Appends the first rows below their header, and how many more there are.
fn align<const N: usize>(
    text: &mut String,
    header: [&str; N],
    rows: impl ExactSizeIterator<Item = [String; N]>,
) {
    let more = rows.len().saturating_sub(MOST_ROWS);
    let header = header.map(str::to_owned);
    let rows: Vec<[String; N]> = [header].into_iter().chain(rows.take(MOST_ROWS)).collect();
    let length = |row: &[String; N], column: usize| row[column].chars().count();
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| length(row, column)).max().unwrap_or(0));
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Host, Incarnation, diagnosis::Opinion};

    fn shown() -> Shown {
        let node = |name: &str, lost, heard| NodeView {
            incarnation: Incarnation(0),
            lost,
            asked: u64::from(lost) * 3,
            asked_in_vain: 0,
            heard,
            name: name.into(),
            opinion: Opinion::default(),
        };
        let rank = |life, node, state| RankView {
            incarnation: Incarnation(life),
            node: Node(node),
            state,
            page: None,
            still: 0,
            opinion: Opinion::default(),
        };
        let head = Head {
            nodes: 3,
            ranks: 4,
            me: Host { node: Node(0), incarnation: Incarnation(0) },
            period: Duration::from_millis(100),
            timeout: Duration::from_secs(1),
            watched: 1,
            refused: 2,
            fenced: false,
            zeta: 5,
        };
        let heard = Some(Duration::from_millis(9_958));
        Shown {
            head,
            nodes: vec![node("a1", false, None), node("a2", true, None), node("b1", false, heard)],
            ranks: vec![
                rank(0, 0, State::Watched(4712)),
                rank(0, 1, State::Dead(Cause::NodeLost)),
                rank(2, 2, State::Alive),
                rank(0, 2, State::Dead(Cause::Signal(9))),
            ],
        }
    }

    fn look_at(shown: Shown, commits: Option<u64>, at: Duration) -> Look {
        let commits = shown.ranks.iter().map(|rank| commits.filter(|_| rank.node == Node(0)));
        Look { process: 4711, commits: commits.collect(), shown, at }
    }

    #[test]
    fn a_person_sees_who_is_where_and_how() {
        let before = look_at(shown(), Some(1000), Duration::from_millis(9_800));
        let now = look_at(shown(), Some(1234), Duration::from_secs(10));
        let expected = "\
            observer 4711 on a1: watched: 1, nodes: 3, ranks: 4\n\
            heartbeats every 100ms, lost after 1s; strangers refused: 2\n\
            \n\
            node  life  name  state  heard      asked\n\
            0     0     a1    here   -          0\n\
            1     0     a2    lost   -          3\n\
            2     0     b1    alive  42 ms ago  0\n\
            \n\
            rank  life  node  commits  per second  state\n\
            0     0     0     1234     1170        process 4712\n\
            1     0     1     -        -           lost with its node\n\
            2     2     2     -        -           alive\n\
            3     0     2     -        -           ended by signal 9\n";
        assert_eq!(tables(&[before], &[now]), expected);
    }

    #[test]
    fn a_node_that_nothing_comes_from_any_more_is_lost_only_with_ranks() {
        let mut shown = shown();
        shown.ranks[1].state = State::Dead(Cause::Exit(0));
        let text = table(&look_at(shown, None, Duration::ZERO), None);
        assert!(text.contains("\n1     0     a2    gone"), "{text}");
        assert!(text.contains("left in order") && !text.contains("lost  "), "{text}");
    }

    #[test]
    fn who_is_suspected_is_shown_so() {
        let mut shown = shown();
        shown.nodes[2].asked_in_vain = 2;
        shown.ranks[0].still = 5;
        let text = table(&look_at(shown, None, Duration::ZERO), None);
        assert!(text.contains("\n2     0     b1    silent"), "{text}");
        assert!(text.contains("process 4712, no progress in 5 of 8 looks\n"), "{text}");
    }

    #[test]
    fn who_failed_a_test_is_shown_as_slow_until_it_has_passed_enough() {
        let mut shown = shown();
        shown.ranks[0].opinion = Opinion { fails: 2, streak: 4 };
        shown.nodes[2].opinion = Opinion { fails: 1, streak: 0 };
        let text = table(&look_at(shown, None, Duration::ZERO), None);
        assert!(text.contains("process 4712, slow: 4 good tests of 5\n"), "{text}");
        assert!(text.contains("\n2     0     b1    slow "), "{text}");
    }

    #[test]
    fn who_has_passed_enough_tests_is_not_shown_as_slow_nor_is_anybody_without_tests() {
        for (opinion, zeta) in [((2, 5), 5), ((0, 0), 5), ((2, 4), 0)] {
            let mut shown = shown();
            let (fails, streak) = opinion;
            shown.ranks[0].opinion = Opinion { fails, streak };
            shown.nodes[2].opinion = Opinion { fails, streak };
            shown.head.zeta = zeta;
            let text = table(&look_at(shown, None, Duration::ZERO), None);
            assert!(!text.contains("slow"), "{text}");
        }
    }

    #[test]
    fn a_rate_is_that_of_one_process_and_needs_two_looks() {
        let look = |commits, seconds| look_at(shown(), commits, Duration::from_secs(seconds));
        let now = look(Some(500), 3);
        assert_eq!(rate(&look(Some(100), 1), &now, 0), Some(200.0));
        assert_eq!(rate(&look(Some(100), 3), &now, 0), None, "no time has passed");
        assert_eq!(rate(&look(Some(501), 1), &now, 0), None, "it counts anew");
        assert_eq!(rate(&look(None, 1), &now, 0), None);
        let mut other = look(Some(100), 1);
        other.shown.ranks[0].state = State::Watched(4713);
        assert_eq!(rate(&other, &now, 0), None);
    }

    #[test]
    fn of_many_ranks_the_first_are_shown_and_the_rest_counted() {
        let mut shown = shown();
        shown.ranks = vec![shown.ranks[2]; 1000];
        let text = table(&look_at(shown, None, Duration::ZERO), None);
        assert!(text.ends_with("and 936 more\n") && text.lines().count() < 80, "{text}");
    }

    #[test]
    fn where_no_observer_runs_a_sentence_says_so() {
        for folder in ["/no/such/folder", "/proc/self"] {
            let why = first_look(Path::new(folder)).expect_err("no processes").to_string();
            assert!(why.starts_with("no observer of yours runs here: "), "{why}");
        }
    }
}
