//! A job as one line of text, to be read by people, pasted, and changed by hand.
//!
//! `seed=7 ranks=4 spares=1 answer=rebuild work=ring,sum calm=1 … crashes=2@1500,4#17`: process 2
//! dies at 1500 µs, process 4 before its effect 17. What a line leaves out is as in
//! [`Job::plain`].

use std::{fmt, time::Duration};

use fampi::sim::{Crash, CrashPoint};

use super::{
    job::{Answer, Job, Work},
    setting::Setting,
};

/// What to do about a line that is none.
const PASTE: &str = "paste a line that a failure or `--seed` has printed";
/// Each has a stack of its own.
const MOST_PROCESSES: u32 = 128;
const ANSWERS: [(Answer, &str); 3] =
    [(Answer::Rebuild, "rebuild"), (Answer::Merge, "merge"), (Answer::Shrink, "shrink")];

impl Job {
    /// Four ranks, one round in the storm and one in the calm, nobody dies.
    pub fn plain() -> Self {
        Self {
            setting: Setting::plain(),
            answer: Answer::Rebuild,
            work: vec![Work::Ring, Work::Ring],
            calm: 1,
            slow: None,
            depth: 1,
            outstanding: 2,
            rows: false,
        }
    }

    /// The job that a line describes, or what is wrong with the line.
    pub fn from_line(line: &str) -> Result<Self, String> {
        let mut job = Self::plain();
        for word in line.split_whitespace() {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("`{word}` is not of the form name=value: {PASTE}"))?;
            job.set(name, value)
                .ok_or_else(|| format!("`{word}` is not part of a job: {PASTE}"))?;
        }
        let processes = job.setting.ranks.saturating_add(job.setting.spares);
        if job.setting.ranks == 0 || processes > MOST_PROCESSES || job.calm >= job.work.len() {
            return Err(format!(
                "a job has a rank, up to {MOST_PROCESSES} ranks and spares, and a round before \
                 the calm ones: change the line"
            ));
        }
        Ok(job)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let setting = &mut self.setting;
        match name {
            "seed" => setting.seed = value.parse().ok()?,
            "ranks" => setting.ranks = value.parse().ok()?,
            "spares" => setting.spares = value.parse().ok()?,
            "answer" => self.answer = named(&ANSWERS, value)?,
            "work" => {
                let rounds = value.split(',').map(|name| named(&Work::ALL, name));
                self.work = rounds.collect::<Option<_>>()?;
            }
            "calm" => self.calm = value.parse().ok()?,
            "calm-from" => setting.calm_from = value.parse().ok()?,
            "detection" => setting.detection = range(value)?,
            "latency" => setting.latency = range(value)?,
            "exchange" => setting.exchange = widths(value)?,
            "patience" => setting.patience = value.parse().ok()?,
            "patient" => setting.patient = value.parse().ok()?,
            "nodes" => {
                let (nodes, each) = value.split_once('x')?;
                setting.nodes = [nodes.parse().ok()?, each.parse().ok().filter(|it| *it != 0)?];
            }
            "spawn" => setting.spawn = range(value)?,
            "spawns" => setting.spawns = value.parse().ok()?,
            "slow" => {
                let (rank, time) = value.split_once('+')?;
                self.slow = Some((rank.parse().ok()?, time.parse().ok()?));
            }
            "depth" => self.depth = value.parse().ok()?,
            "outstanding" => self.outstanding = value.parse().ok()?,
            "rows" => self.rows = value.parse().ok()?,
            "crashes" => setting.crashes = value.split(',').map(crash).collect::<Option<_>>()?,
            _ => return None,
        }
        Some(())
    }
}

fn named<T: Copy>(names: &[(T, &str)], name: &str) -> Option<T> {
    names.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
}

fn name_of<'a, T: PartialEq>(names: &[(T, &'a str)], value: &T) -> &'a str {
    names.iter().find(|(known, _)| known == value).map_or("", |(_, name)| name)
}

fn range(text: &str) -> Option<[u64; 2]> {
    let (from, to) = text.split_once("..")?;
    Some([from.parse().ok()?, to.parse().ok()?])
}

fn widths(text: &str) -> Option<[u32; 2]> {
    let (first, later) = text.split_once('x')?;
    let widths = [first.parse().ok()?, later.parse().ok()?];
    (matches!(widths[0], 2 | 4 | 8) && matches!(widths[1], 2 | 4)).then_some(widths)
}

fn crash(text: &str) -> Option<Crash> {
    if let Some((process, time)) = text.split_once('@') {
        let time = Duration::from_micros(time.parse().ok()?);
        return Some(Crash::at_time(process.parse().ok()?, time));
    }
    let (process, effect) = text.split_once('#')?;
    Some(Crash::before_effect(process.parse().ok()?, effect.parse().ok()?))
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work: Vec<_> = self.work.iter().map(|work| name_of(&Work::ALL, work)).collect();
        let setting = &self.setting;
        write!(
            f,
            "seed={} ranks={} spares={} answer={} work={} calm={} calm-from={} detection={}..{} \
             latency={}..{} spawn={}..{} spawns={} depth={} outstanding={} rows={} exchange={}x{} \
             patience={}",
            setting.seed,
            setting.ranks,
            setting.spares,
            name_of(&ANSWERS, &self.answer),
            work.join(","),
            self.calm,
            setting.calm_from,
            setting.detection[0],
            setting.detection[1],
            setting.latency[0],
            setting.latency[1],
            setting.spawn[0],
            setting.spawn[1],
            setting.spawns,
            self.depth,
            self.outstanding,
            self.rows,
            setting.exchange[0],
            setting.exchange[1],
            setting.patience
        )?;
        if setting.nodes[0] != 0 {
            write!(f, " nodes={}x{}", setting.nodes[0], setting.nodes[1])?;
        }
        if setting.patient {
            f.write_str(" patient=true")?;
        }
        if let Some((rank, time)) = self.slow {
            write!(f, " slow={rank}+{time}")?;
        }
        for (at, crash) in setting.crashes.iter().enumerate() {
            f.write_str(if at == 0 { " crashes=" } else { "," })?;
            match crash.at {
                CrashPoint::Time(time) => write!(f, "{}@{}", crash.process, time.as_micros())?,
                CrashPoint::Effect(effect) => write!(f, "{}#{effect}", crash.process)?,
            }
        }
        Ok(())
    }
}
