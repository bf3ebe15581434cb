//! This program as it is started inside a sandbox: its file, the dynamic loader and the libraries
//! it has loaded, mounted under a name of their own. An image need not contain the libraries that
//! this program was built with, so it brings them along.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::spec::INIT_WORD;
use crate::view::Bind;

/// Where the helper is found inside.
pub(crate) const HELPER_FOLDER: &str = "/.tensorgrid";
/// The control socket's name, in the folder of the run and in the helper's folder.
pub(crate) const CONTROL_NAME: &str = "control";
/// More libraries than a program of ours loads, drivers included.
const LIBRARIES_MAX: usize = 256;

/// Why this program cannot be started again.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// Its own file is not known.
    #[error("this program's own file is not known")]
    Unknown(#[source] io::Error),
    /// Its file was replaced while it ran.
    #[error("this program's file {path} is gone, probably replaced by an update")]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// What it has loaded is not known.
    #[error("the libraries of this program are not known")]
    Libraries(#[source] io::Error),
}

/// This program, ready to be started elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Helper {
    program: PathBuf,
    loader: Option<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl Helper {
    /// Finds the files of another program, or of this one.
    pub(crate) fn find(other: Option<&Path>) -> Result<Self, HelperError> {
        let program = match other {
            Some(other) => other.to_owned(),
            None => std::env::current_exe().map_err(HelperError::Unknown)?,
        };
        if !program.exists() {
            return Err(HelperError::Gone { path: program });
        }
        let maps = fs::read_to_string("/proc/self/maps").map_err(HelperError::Libraries)?;
        Ok(Self::from_maps(program, &maps))
    }

    fn from_maps(program: PathBuf, maps: &str) -> Self {
        // A line is six fields, the last of which is a path and may contain blanks.
        let paths = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        let mut loader = None;
        let mut libraries: Vec<PathBuf> = Vec::new();
        for path in paths.map(Path::new) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let is_library = name.contains(".so") && !name.ends_with("(deleted)");
            if is_library && name.starts_with("ld-") {
                loader = Some(path.to_owned());
            } else if is_library
                && libraries.len() < LIBRARIES_MAX
                && !libraries.iter().any(|known| known.file_name() == path.file_name())
            {
                libraries.push(path.to_owned());
            }
        }
        Self { program, loader, libraries }
    }

    /// What is mounted into [`HELPER_FOLDER`], the control socket of a run included.
    pub(crate) fn binds(&self, control: &Path) -> Vec<Bind> {
        let folder = Path::new(HELPER_FOLDER);
        let bind = |source: &Path, target: PathBuf| Bind { source: source.to_owned(), target };
        let mut binds = vec![
            bind(&self.program, folder.join("init")),
            bind(control, folder.join(CONTROL_NAME)),
        ];
        if let Some(loader) = &self.loader {
            binds.push(bind(loader, folder.join("ld.so")));
            let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
            // Beside the program: a folder in between is one that `bwrap` opens to root alone.
            let libraries = self.libraries.iter();
            binds.extend(libraries.map(|path| bind(path, folder.join(name(path)))));
        }
        binds
    }

    /// How it is started as a helper where it is mounted.
    pub(crate) fn command_inside(&self) -> Vec<String> {
        let mut words = self.start_inside();
        words.push(INIT_WORD.to_owned());
        words
    }

    /// How it is started where it is mounted; arguments follow.
    pub(crate) fn start_inside(&self) -> Vec<String> {
        let folder = HELPER_FOLDER;
        let mut words = Vec::new();
        if self.loader.is_some() {
            words.push(format!("{folder}/ld.so"));
            words.push("--library-path".to_owned());
            words.push(folder.to_owned());
        }
        words.push(format!("{folder}/init"));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::Helper;
    use std::path::{Path, PathBuf};

    #[test]
    fn libraries_and_loader_are_found_once_each() {
        let maps = "\
55d0-55d1 r-xp 00000000 fe:00 123   /opt/some program/tool
7f00-7f01 r--p 00000000 fe:00 124   /usr/lib/x86_64-linux-gnu/libc.so.6
7f01-7f02 r-xp 00001000 fe:00 124   /usr/lib/x86_64-linux-gnu/libc.so.6
7f02-7f03 r-xp 00001000 fe:00 129   /opt/lib/libc.so.6
7f03-7f04 r-xp 00000000 fe:00 125   /usr/lib/libgone.so.1 (deleted)
7f04-7f05 r-xp 00000000 fe:00 126   /usr/lib/ld-linux-x86-64.so.2
7ffd-7ffe rw-p 00000000 00:00 0     [stack]
";
        let helper = Helper::from_maps("/opt/some program/tool".into(), maps);
        assert_eq!(helper.loader, Some("/usr/lib/ld-linux-x86-64.so.2".into()));
        let libc = PathBuf::from("/usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(helper.libraries, [libc]);
        assert_eq!(helper.command_inside().first().map(String::as_str), Some("/.tensorgrid/ld.so"));
        assert_eq!(helper.binds("/c".as_ref()).len(), 4);
    }

    #[test]
    fn static_program_needs_no_loader() {
        let helper = Helper::from_maps("/x".into(), "00-01 r-xp 0 0:0 1 /x\n");
        assert_eq!(helper.command_inside(), ["/.tensorgrid/init", "sandbox-init"]);
        assert_eq!(helper.binds("/c".as_ref()).len(), 2);
    }

    #[test]
    fn this_program_is_found() {
        let helper = Helper::find(None).expect("is found");
        let binds = helper.binds("/c".as_ref());
        assert!(binds.iter().all(|bind| bind.source == Path::new("/c") || bind.source.exists()));
    }
}
