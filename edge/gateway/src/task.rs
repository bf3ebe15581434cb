//! What a run of a stranger's program reads and gives, as packages carry it. Such work has no
//! meaning of its own for the ledger: it is named by its content, and providers agree or do not.

use crate::package::{PackageError, Several};
use crate::stream::{
    FileSource, HEAD_BYTES_MAX, Plain, copy_checked, expect_end, head_bytes, length, read_head,
};
use std::io::{self, Read, Write};
use tg_privacy::WrapPublic;
use tg_types::hash::{Tag, tagged};
use tg_types::{Bytes, Encode, Hash32, wire};

/// The most words of a command line, and variables.
pub const WORDS_MAX: usize = 1_024;

/// The most files that go in or come out.
pub const FILES_MAX: usize = 1_024;

/// The longest word; what is longer belongs into a file.
pub const WORD_BYTES_MAX: usize = 64 << 10;

/// What a program may say on one stream; the rest belongs into a file.
pub const STREAM_BYTES_MAX: usize = 8 << 20;

/// The longest report of what was enforced.
pub const REPORT_BYTES_MAX: usize = 16 << 10;

/// A word of a command line.
pub type Word = Bytes<WORD_BYTES_MAX>;

/// What a program said on one stream.
pub type Said = Bytes<STREAM_BYTES_MAX>;

wire! {
    /// A variable of the environment.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Variable {
        /// Its name.
        pub name: Word,
        /// Its value.
        pub value: Word,
    }
}

wire! {
    /// A file by its path below the folder of inputs or outputs. What is in it follows behind the
    /// head, in the order of the list.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NamedFile {
        /// Its path.
        pub path: Word,
        /// How long it is.
        pub bytes: u64,
        /// The SHA-256 of what is in it.
        pub hash: Hash32,
    }
}

/// Files that go in or come out.
pub type Files = Several<NamedFile, FILES_MAX>;

wire! {
    /// Where a task's own files come from.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Root {
        /// The provider's programs, read-only.
        Host = 1,
        /// An image archive among the inputs.
        Archive {
            /// The name of the input.
            name: Word,
        } = 2,
        /// An image that the provider pulls by its name.
        Image {
            /// The name.
            name: Word,
        } = 3,
        /// The provider's own program, which runs the float model among the inputs. There is no
        /// command, no environment and no network.
        Onnx = 4,
    }
}

wire! {
    /// What a task may use at most.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskLimits {
        /// Memory of all its processes.
        pub memory_mib: u32,
        /// What it may write.
        pub disk_mib: u32,
        /// How much of the processors at once, in thousandths of a core.
        pub cpu_milli: u32,
        /// Processes and threads at once.
        pub pids: u32,
    }
}

wire! {
    /// What a run of a program reads: the head of its package. The files follow.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TaskInputs {
        /// A secret of the client, so that strangers learn nothing from the ids of task and output.
        pub salt: [u8; 32],
        /// The key to which the result is wrapped.
        pub result_to: WrapPublic,
        /// The program and its arguments; what the image states if there are none.
        pub program: Several<Word, WORDS_MAX>,
        /// The environment.
        pub environment: Several<Variable, WORDS_MAX>,
        /// Where its files come from.
        pub root: Root,
        /// What it may use.
        pub limits: TaskLimits,
        /// Whether it asks for the provider's network.
        pub network: bool,
        /// The folder whose content is saved while it runs, as an absolute path.
        pub checkpoint: Option<Word>,
        /// Its input files.
        pub files: Files,
    }
}

wire! {
    /// What a checkpoint holds: the head of its package. The files follow.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SavedFiles {
        /// The files of the folder.
        pub files: Files,
    }
}

impl SavedFiles {
    const SAVED: Tag = Tag::new("tensorgrid/saved files");

    /// Tells one state of the folder from another.
    #[must_use]
    pub fn id(&self) -> Hash32 {
        tagged(Self::SAVED, &[&self.to_bytes()])
    }

    /// Reads the head and leaves the reader at the first file.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(from: &mut dyn Read) -> Result<Self, PackageError> {
        read_head(from, HEAD_BYTES_MAX)
    }
}

impl TaskInputs {
    const TASK: Tag = Tag::new("tensorgrid/task");

    /// The id of the task. The hashes of all files are in it.
    #[must_use]
    pub fn id(&self) -> Hash32 {
        tagged(Self::TASK, &[&self.to_bytes()])
    }

    /// Reads the head and leaves the reader at the first file.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(from: &mut dyn Read) -> Result<Self, PackageError> {
        read_head(from, HEAD_BYTES_MAX)
    }
}

wire! {
    /// What a run of a program gave: the head of its part of a package. The files follow.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TaskOutput {
        /// The client's secret, so that the output's id can be recomputed.
        pub salt: [u8; 32],
        /// How it ended, in words; `exited 0` is the usual.
        pub ended: Word,
        /// What it wrote to standard output.
        pub stdout: Said,
        /// What it wrote to standard error.
        pub stderr: Said,
        /// What it left in its output folder.
        pub files: Files,
        /// What really held it, guard by guard.
        pub enforced: Bytes<REPORT_BYTES_MAX>,
    }
}

impl TaskOutput {
    const OUTPUT: Tag = Tag::new("tensorgrid/task output");
    const ENFORCED: Tag = Tag::new("tensorgrid/task enforced");

    /// The id of the output: what replicas must agree on. Standard error is not part of it, because
    /// programs tell times and places there.
    #[must_use]
    pub fn id(&self) -> Hash32 {
        let (ended, stdout) = (self.ended.to_bytes(), self.stdout.to_bytes());
        tagged(Self::OUTPUT, &[&self.salt, &ended, &stdout, &self.files.to_bytes()])
    }

    /// Reads the head and leaves the reader at the first file.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(from: &mut dyn Read) -> Result<Self, PackageError> {
        read_head(from, HEAD_BYTES_MAX)
    }

    /// The id of what was enforced, which stands in the receipt beside the output.
    #[must_use]
    pub fn enforced_id(&self) -> Hash32 {
        tagged(Self::ENFORCED, &[self.enforced.as_slice()])
    }
}

impl NamedFile {
    /// Takes the content of the file, which comes next. It counts only if this ends well.
    ///
    /// # Errors
    /// If it is another content, or one side fails.
    pub fn read(&self, from: &mut dyn Read, to: &mut dyn Write) -> io::Result<()> {
        copy_checked(from, to, self.bytes, &self.hash)
    }
}

/// Reads files to their end and keeps nothing of them.
///
/// # Errors
/// If one is not what the list says, or there is more.
pub fn check_files(files: &Files, from: &mut dyn Read) -> Result<(), PackageError> {
    files.as_slice().iter().try_for_each(|file| file.read(from, &mut io::sink()))?;
    expect_end(from)
}

/// A head with the files that it lists.
pub struct WithFiles<F> {
    head: Vec<u8>,
    files: F,
}

/// Files that are written one after the other.
pub trait FileList: Send + Sync {
    /// How long all are together.
    fn bytes(&self) -> u64;

    /// Writes all of them.
    ///
    /// # Errors
    /// If one cannot be read, or has changed.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl FileList for Vec<FileSource> {
    fn bytes(&self) -> u64 {
        self.iter().map(FileSource::bytes).fold(0, u64::saturating_add)
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.iter().try_for_each(|file| file.write(out))
    }
}

impl<F> WithFiles<F> {
    /// A head and the files of its list, in their order.
    ///
    /// # Errors
    /// If the head is too long.
    pub fn new(head: &impl Encode, files: F) -> Result<Self, PackageError> {
        Ok(Self { head: head_bytes(head)?, files })
    }
}

impl<F: FileList> Plain for WithFiles<F> {
    fn bytes(&self) -> u64 {
        length(&self.head).saturating_add(self.files.bytes())
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.head)?;
        self.files.write(out)
    }
}

/// A word of a command line.
///
/// # Errors
/// If it is too long.
pub fn word(text: &str) -> Result<Word, PackageError> {
    said(text.as_bytes().to_vec())
}

/// Bytes of bounded length, such as what a program said.
///
/// # Errors
/// If there are more.
pub fn said<const MAX: usize>(bytes: Vec<u8>) -> Result<Bytes<MAX>, PackageError> {
    let (found, max) = (length(&bytes), u64::try_from(MAX).unwrap_or(u64::MAX));
    Bytes::new(bytes).map_err(|_| PackageError::TooLarge { found, max })
}

#[cfg(test)]
mod tests {
    use super::{Files, NamedFile, Root, TaskInputs, TaskLimits, TaskOutput, said, word};
    use crate::package::Several;
    use tg_privacy::WrapSecret;
    use tg_types::{Bytes, Decode as _, Encode as _, Hash32};

    fn inputs() -> TaskInputs {
        let words = ["sh", "-c", "true"].map(|text| word(text).expect("short"));
        TaskInputs {
            salt: [1; 32],
            result_to: WrapSecret::from_seed([2; 32]).public().clone(),
            program: Several::new(words.to_vec()).expect("few"),
            environment: Several::default(),
            root: Root::Host,
            limits: TaskLimits { memory_mib: 64, disk_mib: 8, cpu_milli: 1_000, pids: 16 },
            network: false,
            checkpoint: None,
            files: Files::default(),
        }
    }

    fn output() -> TaskOutput {
        let hash = Hash32::new([7; 32]);
        let file = NamedFile { path: word("a/b").expect("short"), bytes: 1, hash };
        TaskOutput {
            salt: [1; 32],
            ended: word("exited 0").expect("short"),
            stdout: said(b"yes".to_vec()).expect("short"),
            stderr: said(b"12 ms".to_vec()).expect("short"),
            files: Files::new(vec![file]).expect("few"),
            enforced: Bytes::new(b"network: namespace".to_vec()).expect("short"),
        }
    }

    #[test]
    fn task_is_read_back_and_every_part_of_it_counts() {
        let task = inputs();
        assert_eq!(TaskInputs::from_bytes(&task.to_bytes()), Ok(task.clone()));
        let other = TaskInputs { network: true, ..task.clone() };
        assert_ne!(task.id(), other.id());
        assert_ne!(task.id(), TaskInputs { salt: [3; 32], ..task.clone() }.id());
        let saved = TaskInputs { checkpoint: word("/ckpt").ok(), ..task.clone() };
        assert_eq!(TaskInputs::from_bytes(&saved.to_bytes()), Ok(saved.clone()));
        assert_ne!(task.id(), saved.id());
        let model = TaskInputs { root: Root::Onnx, ..task.clone() };
        assert_eq!(TaskInputs::from_bytes(&model.to_bytes()), Ok(model.clone()));
        assert_ne!(task.id(), model.id());
    }

    #[test]
    fn output_is_the_same_whatever_was_said_on_standard_error() {
        let one = output();
        assert_eq!(TaskOutput::from_bytes(&one.to_bytes()), Ok(one.clone()));
        let stderr = said(b"13 ms".to_vec()).expect("short");
        assert_eq!(one.id(), TaskOutput { stderr, ..one.clone() }.id());
        let stdout = said(b"no".to_vec()).expect("short");
        assert_ne!(one.id(), TaskOutput { stdout, ..one.clone() }.id());
        assert_ne!(one.id(), TaskOutput { files: Files::default(), ..one.clone() }.id());
        let hash = Hash32::new([8; 32]);
        let file = NamedFile { hash, ..one.files.as_slice()[0].clone() };
        let files = Files::new(vec![file]).expect("few");
        assert_ne!(one.id(), TaskOutput { files, ..one.clone() }.id());
    }

    #[test]
    fn prop_any_bytes_are_a_task_or_an_error() {
        arbtest::arbtest(|u| {
            let mut bytes = inputs().to_bytes();
            let at = u.choose_index(bytes.len())?;
            bytes[at] = u.arbitrary()?;
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
            if let Ok(task) = TaskInputs::from_bytes(&bytes) {
                assert_eq!(task.to_bytes(), bytes);
            }
            Ok(())
        });
    }
}
