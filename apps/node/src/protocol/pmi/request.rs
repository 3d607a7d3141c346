//! What a process says in PMI-1, the words between MPICH and its launchers, and the answers.
//!
//! ```text
//! cmd=put kvsname=job@1 key=address value=all up to the end of the line
//! mcmd=spawn            and lines NAME=VALUE up to `endcmd`
//! ```
//!
//! Reference: the MPICH team, *PMI version 1.1 message protocol*.

use crate::protocol::{daemon::Wish, space::Program};

/// The longest command that is listened to; a spawn with many words is the longest.
pub const MOST_BYTES: usize = 1 << 20;
/// What a process may say, in bytes: of a name, a key, and a value.
const LENGTHS: (usize, usize, usize) = (256, 64, 1024);
/// The information of a spawn that names a variable and its value.
const VARIABLES: [&str; 2] = ["env", "PMIX_ENVAR"];

/// What a process wants.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Request {
    /// It is there.
    Init,
    /// How long may its words be?
    GetMaxes,
    /// Which of several programs that were started together is it?
    GetAppnum,
    /// The name of its namespace.
    GetName,
    /// How many processes could there be?
    GetUniverseSize,
    /// To say this to the others of its namespace, under a key.
    Put(String, String),
    /// What was said in this namespace under this key.
    Get(String, String),
    /// To go on when all others of its namespace are here.
    Barrier,
    /// It is done.
    Finalize,
    /// The job to end, with this status, for this reason.
    Abort(i32, String),
    /// To be found under this name, at this port.
    Publish(String, String),
    /// Not to be found under this name any more.
    Unpublish(String),
    /// The port that is found under this name.
    Lookup(String),
    /// Others to be started.
    Spawn(Wish),
    /// Something else, that is not known here: the command.
    Unknown(String),
}

/// Bytes of a process, as they come.
#[derive(Clone, Debug, Default)]
pub struct Reader(Vec<u8>);

/// It speaks something else, or says too much at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Nonsense;

impl Reader {
    /// More has come.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next request, if it has come wholly.
    pub fn take(&mut self) -> Result<Option<Request>, Nonsense> {
        const LAST: &[u8] = b"endcmd\n";
        let end = if self.0.starts_with(b"mcmd=") {
            let at = self.0.windows(LAST.len()).position(|it| it == LAST);
            at.map(|at| at + LAST.len())
        } else {
            self.0.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
        };
        let Some(end) = end else {
            return if self.0.len() > MOST_BYTES { Err(Nonsense) } else { Ok(None) };
        };
        let text: Vec<u8> = self.0.drain(..end).collect();
        let text = String::from_utf8(text).map_err(|_| Nonsense)?;
        if text.starts_with("mcmd=") {
            return Ok(Some(spawn(&text)));
        }
        command(text.trim_end_matches('\n')).map(Some)
    }
}

/// A command of one line.
fn command(line: &str) -> Result<Request, Nonsense> {
    // A value is the last word, and may have blanks.
    let (line, value) = match line.split_once(" value=") {
        Some((before, value)) => (before, value),
        None => (line, ""),
    };
    let words = || line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    let of = |name: &str| words().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    let or_none = |name: &str| of(name).unwrap_or_default();
    Ok(match of("cmd").ok_or(Nonsense)?.as_str() {
        "init" => Request::Init,
        "get_maxes" => Request::GetMaxes,
        "get_appnum" => Request::GetAppnum,
        "get_my_kvsname" => Request::GetName,
        "get_universe_size" => Request::GetUniverseSize,
        "put" => Request::Put(or_none("key"), value.to_owned()),
        "get" => Request::Get(or_none("kvsname"), or_none("key")),
        // Of a part of the namespace: only later versions know it.
        "barrier_in" if of("group").is_none() => Request::Barrier,
        "finalize" => Request::Finalize,
        "abort" => {
            let status = of("exitcode").and_then(|text| text.parse().ok()).unwrap_or(1);
            let why = line.split_once("message=").map_or("", |(_, why)| why);
            Request::Abort(status, why.to_owned())
        }
        "publish_name" => Request::Publish(or_none("service"), or_none("port")),
        "unpublish_name" => Request::Unpublish(or_none("service")),
        "lookup_name" => Request::Lookup(or_none("service")),
        other => Request::Unknown(other.to_owned()),
    })
}

/// A command of several lines; what is a matter of several programs cannot be done.
fn spawn(text: &str) -> Request {
    let pairs: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let of = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let all = |names: &str, values: &str| -> Vec<(String, String)> {
        let numbered =
            pairs.iter().filter_map(|(key, name)| Some((key.strip_prefix(names)?, name)));
        let both = numbered.filter_map(|(number, name)| {
            Some(((*name).to_owned(), of(&format!("{values}{number}"))?.to_owned()))
        });
        both.collect()
    };
    if of("mcmd") != Some("spawn") || of("totspawns") != Some("1") {
        return Request::Unknown("spawn".to_owned());
    }
    let (Some(file), Some(Ok(processes))) = (of("execname"), of("nprocs").map(str::parse)) else {
        return Request::Unknown("spawn".to_owned());
    };
    let mut words = vec![file.to_owned()];
    words.extend((1..).map_while(|number| of(&format!("arg{number}")).map(str::to_owned)));
    let mut wish = Wish { processes, ..Wish::default() };
    let (mut environment, mut folder) = (Vec::new(), None);
    for (name, value) in all("info_key_", "info_val_") {
        match name.as_str() {
            "host" | "hosts" => wish.hosts.extend(value.split(',').map(str::to_owned)),
            "wdir" => folder = Some(value),
            name if VARIABLES.contains(&name) => {
                let pair = value.split_once('=');
                environment.extend(pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            _ => {}
        }
    }
    let folder = folder.unwrap_or_else(|| ".".to_owned());
    let said = all("preput_key_", "preput_val_");
    wish.program = Program { words, environment, folder, said };
    Request::Spawn(wish)
}

/// What a process is answered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Reply {
    /// To [`Request::Init`].
    Init,
    /// To [`Request::GetMaxes`].
    Maxes,
    /// To [`Request::GetAppnum`].
    Appnum,
    /// To [`Request::GetName`].
    Name(String),
    /// To [`Request::GetUniverseSize`].
    UniverseSize(u32),
    /// To [`Request::Put`].
    Put,
    /// To [`Request::Get`].
    Get(Option<String>),
    /// To [`Request::Barrier`].
    Barrier,
    /// To [`Request::Finalize`].
    Finalize,
    /// To [`Request::Publish`].
    Publish,
    /// To [`Request::Unpublish`].
    Unpublish,
    /// To [`Request::Lookup`].
    Lookup(Option<String>),
    /// To [`Request::Spawn`]: it was done, or not.
    Spawn(bool),
    /// To [`Request::Unknown`].
    Unknown(String),
}

impl Reply {
    /// As it is sent.
    pub fn text(&self) -> String {
        let (kvs, key, value) = LENGTHS;
        let mut text = match self {
            Self::Init => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            Self::Maxes => {
                format!("cmd=maxes kvsname_max={kvs} keylen_max={key} vallen_max={value} rc=0")
            }
            Self::Appnum => "cmd=appnum appnum=0 rc=0".to_owned(),
            Self::Name(name) => format!("cmd=my_kvsname kvsname={name} rc=0"),
            Self::UniverseSize(size) => format!("cmd=universe_size size={size} rc=0"),
            Self::Put => "cmd=put_result rc=0 msg=success".to_owned(),
            Self::Get(Some(value)) => format!("cmd=get_result rc=0 msg=success value={value}"),
            Self::Get(None) => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
            Self::Barrier => "cmd=barrier_out rc=0".to_owned(),
            Self::Finalize => "cmd=finalize_ack rc=0".to_owned(),
            Self::Publish => "cmd=publish_result rc=0 msg=success".to_owned(),
            Self::Unpublish => "cmd=unpublish_result rc=0 msg=success".to_owned(),
            Self::Lookup(Some(port)) => format!("cmd=lookup_result rc=0 msg=success port={port}"),
            Self::Lookup(None) => "cmd=lookup_result rc=-1 msg=service_not_found".to_owned(),
            Self::Spawn(true) => "cmd=spawn_result rc=0".to_owned(),
            Self::Spawn(false) => "cmd=spawn_result rc=-1 msg=not_started".to_owned(),
            Self::Unknown(command) => format!("cmd={command}_result rc=-1 msg=not_supported"),
        };
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Vec<Request> {
        let mut reader = Reader::default();
        let mut found = Vec::new();
        // However the bytes are cut.
        for byte in text.as_bytes() {
            reader.add(&[*byte]);
            found.extend(reader.take().expect("PMI"));
        }
        found
    }

    #[test]
    fn what_mpich_says_is_understood_however_it_is_cut() {
        let text = "cmd=init pmi_version=1 pmi_subversion=1\n\
                    cmd=put kvsname=job@1 key=-allgather-1-0 value=a b=c  d\n\
                    cmd=get kvsname=job@1 key=PMI_process_mapping\n\
                    cmd=barrier_in\ncmd=barrier_in group=WORLD\n\
                    cmd=abort exitcode=7 message=no way\ncmd=finalize\n";
        let put = Request::Put("-allgather-1-0".into(), "a b=c  d".into());
        let get = Request::Get("job@1".into(), "PMI_process_mapping".into());
        assert_eq!(
            all(text),
            [
                Request::Init,
                put,
                get,
                Request::Barrier,
                Request::Unknown("barrier_in".into()),
                Request::Abort(7, "no way".into()),
                Request::Finalize,
            ]
        );
    }

    #[test]
    fn a_spawn_names_its_program_where_to_start_it_and_what_it_is_to_find() {
        let text = "mcmd=spawn\nnprocs=2\nexecname=./solve\ntotspawns=1\nspawnssofar=1\n\
                    arg1=x y\narg2=\nargcnt=2\npreput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\n\
                    preput_val_0=tag#0$connentry#20=\ninfo_num=3\ninfo_key_0=wdir\n\
                    info_val_0=/tmp\ninfo_key_1=PMIX_ENVAR\ninfo_val_1=A=b=c\ninfo_key_2=host\n\
                    info_val_2=one,two\nendcmd\ncmd=finalize\n";
        let program = Program {
            words: vec!["./solve".into(), "x y".into(), String::new()],
            environment: vec![("A".into(), "b=c".into())],
            folder: "/tmp".into(),
            said: vec![("PARENT_ROOT_PORT_NAME".into(), "tag#0$connentry#20=".into())],
        };
        let hosts = vec!["one".into(), "two".into()];
        let wish = Wish { processes: 2, hosts, program, ..Wish::default() };
        assert_eq!(all(text), [Request::Spawn(wish), Request::Finalize]);
        let several = text.replace("totspawns=1", "totspawns=2");
        assert_eq!(all(&several)[0], Request::Unknown("spawn".into()));
    }

    #[test]
    fn what_is_no_pmi_is_refused() {
        let mut reader = Reader::default();
        reader.add(b"GET / HTTP/1.1\r\n");
        assert_eq!(reader.take(), Err(Nonsense));
        let mut reader = Reader::default();
        reader.add(&vec![b'a'; MOST_BYTES + 1]);
        assert_eq!(reader.take(), Err(Nonsense));
    }

    proptest! {
        #[test]
        fn bytes_from_outside_are_a_request_or_none(
            text in "(mcmd=spawn\n|cmd=[a-z_]{0,9}[ \n])?([a-z_0-9]{1,9}=[ -~]{0,9}[ \n]){0,9}"
        ) {
            let mut reader = Reader::default();
            reader.add(text.as_bytes());
            let mut left = reader.0.len();
            while let Ok(Some(_)) = reader.take() {
                prop_assert!(reader.0.len() < left);
                left = reader.0.len();
            }
        }
    }
}
