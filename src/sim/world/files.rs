//! Files in memory: they outlive the processes, and a process may die in the middle of a write.

use super::{Pid, Time, World, event::Event, note};
use crate::{
    error::Error,
    fault::class,
    seam::{
        buffer::Buffer,
        platform::{FileAccess, FileId, FileMode, Operation, PostId, Progress, Status},
    },
};

/// No file has more elements.
const DISK_ELEMENTS: u64 = 1 << 20;

/// A file that a process has opened.
pub(in crate::sim) struct OpenFile {
    path: String,
    mode: FileMode,
    /// When the last access is over; each comes after those before it.
    busy_until: Time,
}

impl World {
    /// Opens a file, and makes it when it is to be written and not there.
    pub(in crate::sim) fn open_file(
        &mut self,
        me: Pid,
        path: &str,
        mode: FileMode,
        like: &dyn Buffer,
    ) -> Result<FileId, Error> {
        let refused = |class| Err(Error::Mpi { call: "MPI_File_open", class });
        match self.files.get(path) {
            None if path.is_empty() => return refused(class::BAD_FILE),
            None if mode == FileMode::Read => return refused(class::NO_SUCH_FILE),
            None => drop(self.files.insert(path.to_owned(), like.copy(0, 0))),
            Some(content) if content.element() != like.element() => return refused(class::TYPE),
            Some(_) => {}
        }
        let open = &mut self.processes[me].files;
        open.push(OpenFile { path: path.to_owned(), mode, busy_until: 0 });
        Ok(FileId(open.len() as u32 - 1))
    }

    /// The error class of an access that the mode forbids.
    pub(in crate::sim) fn file_refusal(
        &self,
        me: Pid,
        access: FileAccess,
        elements: usize,
    ) -> Option<i32> {
        let end = access.at.saturating_add(elements as u64);
        match self.processes[me].files[access.file.0 as usize].mode {
            FileMode::Read if access.writes => Some(class::READ_ONLY),
            FileMode::Write if !access.writes => Some(class::ACCESS),
            _ => (access.writes && end > DISK_ELEMENTS).then_some(class::NO_SPACE),
        }
    }

    /// Starts an access, of which a part may be done at once.
    pub(in crate::sim) fn start_file(&mut self, me: Pid, id: PostId, access: FileAccess) {
        let it = &self.processes[me];
        let (now, busy_until) = (it.local, it.files[access.file.0 as usize].busy_until);
        if access.writes && busy_until < now {
            let begun = self.draw.scaled(it.posts[&id.0].buffer.elements() as u64 + 1);
            self.write(me, id, access, begun as usize);
        }
        let time = (now + self.latency()).max(busy_until + 1);
        self.processes[me].files[access.file.0 as usize].busy_until = time;
        self.schedule(time, Event::FileDone { process: me, post: id });
    }

    /// The rest of an access is done.
    pub(in crate::sim) fn finish_file(&mut self, me: Pid, id: PostId) {
        let Some(post) = self.processes[me].posts.get(&id.0) else { return };
        let Operation::File(access) = post.operation else { return };
        let room = post.buffer.elements();
        let path = &self.processes[me].files[access.file.0 as usize].path;
        let mut elements = room;
        let mut read = None;
        if !access.writes {
            let content = &self.files[path];
            let at = content.elements().min(access.at as usize);
            elements = room.min(content.elements() - at);
            read = Some(content.copy(at, elements));
        }
        note!(self, self.clock, "p{me} has moved {elements} elements of {path}");
        if access.writes {
            self.write(me, id, access, room);
        }
        let status = Status { elements, ..Status::default() };
        self.complete(me, id, Progress::Complete(status), read);
    }

    /// Writes the first elements of a buffer.
    fn write(&mut self, me: Pid, id: PostId, access: FileAccess, count: usize) {
        let it = &self.processes[me];
        let open = &it.files[access.file.0 as usize];
        let written = it.posts[&id.0].buffer.copy(0, count);
        let content = self.files.get_mut(&open.path).expect("files are not removed");
        let fits = content.overwrite(access.at as usize, &*written);
        debug_assert!(fits, "the type was compared when the file was opened");
    }
}
