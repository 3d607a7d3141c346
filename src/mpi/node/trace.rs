//! The file in which this process is recorded.
//!
//! `FAMPI_TRACE_DIR` names a folder, in which each process has a file `<node>-<pid>.trace`. The
//! wall clock brings several nodes together, as well as their clocks agree. With
//! `FAMPI_TRACE_BLOCKS=off` it holds deaths and recoveries, and no blocks.

use std::{fs::File, path::PathBuf, process, sync::Once, time::SystemTime};

use super::{clock::monotonic, process::node_name};
use crate::seam::trace;

const VARIABLE: &str = "FAMPI_TRACE_DIR";
const BLOCKS: &str = "FAMPI_TRACE_BLOCKS";

/// Begins to record this process, if that is asked for and was not done before. Without the file
/// the process goes on: it may be the replacement that a recovery waits for.
pub fn record() {
    static ONCE: Once = Once::new();
    let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return };
    ONCE.call_once(|| {
        let node = node_name().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = folder.join(format!("{node}-{}.trace", process::id()));
        match File::options().create(true).append(true).open(&path) {
            Ok(file) => {
                let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let wall = wall.unwrap_or_default();
                let blocks = std::env::var_os(BLOCKS).is_none_or(|word| word != "off");
                trace::record(Box::new(file), blocks, monotonic(), (&node, wall));
            }
            Err(error) => {
                let path = path.display();
                let advice = "set it to a folder that every rank can write to";
                // In one piece, as the launcher mixes what the ranks say.
                let what =
                    format!("fampi: no trace by {VARIABLE}, as {path} fails ({error}): {advice}\n");
                eprint!("{what}");
            }
        }
    });
}
