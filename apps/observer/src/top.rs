//! Tables of what the observers of this machine know, for a person.
//!
//! Observers are found among the processes of our user, by the memory that they show
//! ([`crate::view`]). Nothing is asked of them, and nothing tells them that somebody looks.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use fampi::protocol::detector::{
    Cause, Node,
    view::{HEAD_WORDS, Head, NODE_WORDS, NodeView, RANK_WORDS, RankView, State, node_at},
};

use crate::view::{NAME, now};

/// Between two tables.
const PERIOD: Duration = Duration::from_secs(1);
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

/// Prints the tables of all observers, once or again and again until the last one has left.
pub fn main(once: bool) -> Result<()> {
    let mut text = some_tables(Path::new("/proc"))?;
    let output = io::stdout();
    while !text.is_empty() {
        let clear = if !once && output.is_terminal() { CLEAR } else { "" };
        let written = write!(output.lock(), "{clear}{text}").and_then(|()| output.lock().flush());
        // Who does not read any more wants no more.
        if once || written.is_err() {
            return Ok(());
        }
        thread::sleep(PERIOD);
        text = tables(Path::new("/proc"));
    }
    println!("the last observer has left");
    Ok(())
}

fn some_tables(processes: &Path) -> Result<String> {
    let text = tables(processes);
    let advice = "`cargo fampi run --observer` starts a job with one";
    ensure!(!text.is_empty(), "no observer of yours runs here: {advice}");
    Ok(text)
}

/// The tables of the observers among the processes in this folder, one after another.
fn tables(processes: &Path) -> String {
    let numbers = fs::read_dir(processes).into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    let shown = numbers.into_iter().filter_map(|number| {
        let shown = find(&processes.join(number.to_string())).and_then(read)?;
        Some(table(number, &shown, now()))
    });
    shown.collect::<Vec<String>>().join("\n")
}

/// The memory that a process shows, if it is an observer of ours.
fn find(process: &Path) -> Option<File> {
    let program = fs::read_link(process.join("exe")).ok()?;
    // When it was built again, its name goes on with "(deleted)".
    if !program.file_name()?.to_str()?.starts_with(env!("CARGO_PKG_NAME")) {
        return None;
    }
    let descriptors = fs::read_dir(process.join("fd")).ok()?.flatten();
    let memory = format!("/memfd:{NAME}");
    let shows = |path: &Path| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with(&memory))
    };
    let mut paths = descriptors.map(|descriptor| descriptor.path());
    File::open(paths.find(|path| shows(path))?).ok()
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

/// What an observer, which has this number, knows now.
fn table(number: u32, Shown { head, nodes, ranks }: &Shown, now: Duration) -> String {
    let me = head.me.node.0 as usize;
    let name = nodes.get(me).map_or("?", |node| &node.name);
    let Head { period, timeout, watched, refused, .. } = head;
    let mut text = format!(
        "observer {number} on {name}: watched: {watched}, nodes: {}, ranks: {}\n\
         heartbeats every {period:?}, lost after {timeout:?}; strangers refused: {refused}{}\n\n",
        nodes.len(),
        ranks.len(),
        if head.fenced { "; lost to all other nodes" } else { "" }
    );
    let rows = nodes.iter().enumerate().map(|(at, node)| {
        let state = match (at == me, node.lost) {
            (true, _) => "here",
            (false, true) => "lost",
            (false, false) => "alive",
        };
        let ago = |heard| format!("{} ms ago", now.saturating_sub(heard).as_millis());
        let heard = node.heard.map_or_else(|| "-".into(), ago);
        let (life, asked) = (node.incarnation.0, node.asked);
        [
            at.to_string(),
            life.to_string(),
            node.name.clone(),
            state.into(),
            heard,
            asked.to_string(),
        ]
    });
    align(&mut text, ["node", "life", "name", "state", "heard", "asked"], rows);
    text.push('\n');
    let rows = ranks.iter().enumerate().map(|(rank, RankView { incarnation, node, state })| {
        [rank.to_string(), incarnation.0.to_string(), node.0.to_string(), words(*state)]
    });
    align(&mut text, ["rank", "life", "node", "state"], rows);
    text
}

fn words(state: State) -> String {
    match state {
        State::Alive => "alive".into(),
        State::Watched(process) => format!("process {process}"),
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
    use fampi::protocol::detector::{Host, Incarnation};

    fn shown() -> Shown {
        let node = |name: &str, lost, heard| NodeView {
            incarnation: Incarnation(0),
            lost,
            asked: u64::from(lost) * 3,
            heard,
            name: name.into(),
        };
        let rank = |life, node, state| RankView {
            incarnation: Incarnation(life),
            node: Node(node),
            state,
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

    #[test]
    fn a_person_sees_who_is_where_and_how() {
        let expected = "\
            observer 4711 on a1: watched: 1, nodes: 3, ranks: 4\n\
            heartbeats every 100ms, lost after 1s; strangers refused: 2\n\
            \n\
            node  life  name  state  heard      asked\n\
            0     0     a1    here   -          0\n\
            1     0     a2    lost   -          3\n\
            2     0     b1    alive  42 ms ago  0\n\
            \n\
            rank  life  node  state\n\
            0     0     0     process 4712\n\
            1     0     1     lost with its node\n\
            2     2     2     alive\n\
            3     0     2     ended by signal 9\n";
        assert_eq!(table(4711, &shown(), Duration::from_secs(10)), expected);
    }

    #[test]
    fn of_many_ranks_the_first_are_shown_and_the_rest_counted() {
        let mut shown = shown();
        shown.ranks = vec![shown.ranks[2]; 1000];
        let text = table(1, &shown, Duration::ZERO);
        assert!(text.ends_with("and 936 more\n") && text.lines().count() < 80, "{text}");
    }

    #[test]
    fn where_no_observer_runs_a_sentence_says_so() {
        for folder in ["/no/such/folder", "/proc/self"] {
            let why = some_tables(Path::new(folder)).expect_err("no processes").to_string();
            assert!(why.starts_with("no observer of yours runs here: "), "{why}");
        }
    }
}
