//! Hosts that are listed elsewhere than on the command line: in a file, or by Slurm.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::hosts::HostSlots;

/// The hosts of a file, in its order: a line `HOST`, `HOST:4` or `HOST slots=4` for each; `#` and
/// what follows it is a comment. A host that comes again takes more.
pub(super) fn of_file(path: &Path) -> Result<Vec<HostSlots>> {
    let file = path.display();
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read the hosts in {file}"))?;
    let mut hosts: Vec<HostSlots> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let host = of_line(line);
        let Some(host) = host else {
            bail!(
                "line {number} of {file} is '{line}': write HOST, HOST:PROCESSES or HOST \
                 slots=PROCESSES, with 1 process or more"
            );
        };
        match hosts.iter_mut().find(|it| it.name == host.name) {
            Some(known) => known.slots = known.slots.saturating_add(host.slots),
            None => hosts.push(host),
        }
    }
    ensure!(!hosts.is_empty(), "{file} names no host: write one a line, as in node1 slots=4");
    Ok(hosts)
}

fn of_line(line: &str) -> Option<HostSlots> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match &words[..] {
        [host] => host.parse().ok(),
        [host, slots] if !host.contains(':') => {
            format!("{host}:{}", slots.strip_prefix("slots=")?).parse().ok()
        }
        _ => None,
    }
}

/// The hosts of the allocation of Slurm that this process runs in, if it does.
pub(super) fn of_slurm() -> Result<Option<Vec<HostSlots>>> {
    let Ok(nodes) = env::var("SLURM_JOB_NODELIST") else { return Ok(None) };
    let said = Command::new("scontrol").args(["show", "hostnames", &nodes]).output();
    let said = said.context("this is an allocation of Slurm, whose tool scontrol is not there")?;
    ensure!(said.status.success(), "scontrol does not know the hosts {nodes} of this allocation");
    let names = String::from_utf8_lossy(&said.stdout).into_owned();
    let names: Vec<&str> = names.split_whitespace().collect();
    let counts = ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"];
    let counts = counts.iter().find_map(|name| env::var(name).ok()).unwrap_or_default();
    let slots = counted(&counts).filter(|slots| slots.len() == names.len());
    let slots = slots.unwrap_or_else(|| vec![1; names.len()]);
    let hosts = names.into_iter().zip(slots);
    Ok(Some(hosts.map(|(name, slots)| HostSlots { name: name.to_owned(), slots }).collect()))
}

/// Numbers as Slurm writes them: `2(x3),1` is 2, 2, 2, 1.
fn counted(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1_usize),
        };
        let number: u32 = number.parse().ok().filter(|number| *number > 0)?;
        all.extend(std::iter::repeat_n(number, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(String, u32)>> {
        let folder = env::temp_dir().join(format!("fampi-hosts-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let path = folder.join(text.len().to_string());
        fs::write(&path, text)?;
        let hosts = of_file(&path);
        fs::remove_file(&path)?;
        let _ = fs::remove_dir(&folder);
        Ok(hosts?.into_iter().map(|host| (host.name, host.slots)).collect())
    }

    #[test]
    fn a_file_lists_hosts_in_three_ways() {
        let text = "# two racks\na slots=2\n\n  b:3 # fast\nc\na:1\n";
        let hosts = of(text).expect("hosts");
        assert_eq!(hosts, [("a".into(), 3), ("b".into(), 3), ("c".into(), 1)]);
    }

    #[test]
    fn what_is_no_list_of_hosts_is_refused_with_its_line() {
        for (text, said) in [
            ("", "names no host"),
            ("a\nb slots=none\n", "line 2 of"),
            ("a:0", "line 1 of"),
            ("a:2 slots=2 more", "write HOST, HOST:PROCESSES or HOST slots=PROCESSES"),
        ] {
            let refused = of(text).expect_err("refused").to_string();
            assert!(refused.contains(said), "{refused}");
        }
        let refused = of_file(Path::new("/no/such/file")).expect_err("refused").to_string();
        assert_eq!(refused, "cannot read the hosts in /no/such/file");
    }

    #[test]
    fn numbers_of_slurm_are_read() {
        assert_eq!(counted("2(x3),1"), Some(vec![2, 2, 2, 1]));
        assert_eq!(counted("4"), Some(vec![4]));
        for wrong in ["", "0", "2(x", "x"] {
            assert_eq!(counted(wrong), None, "{wrong}");
        }
    }
}
