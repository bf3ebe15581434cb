//! The talk between supervisor and helpers: frames of JSON over a local socket, each led by its
//! length, and one open folder handed over with a frame. Separate because both sides use it, one
//! waiting, the other never waiting.
//!
//! The socket is a file in the folder of the run. It accepts the launcher, then the first process
//! inside, and is closed before the stranger's program is started.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Twice the text of a task, plus the mounts it may name.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// A helper that does not take its order for so long is broken.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Read at once.
const CHUNK_BYTES: usize = 4096;

/// Why a message cannot be sent or read.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket failed.
    #[error("the socket failed")]
    Io(#[from] io::Error),
    /// A frame is longer than any message.
    #[error("a message of {0} bytes")]
    TooLong(usize),
    /// Not a message.
    #[error("a message that cannot be read")]
    Json(#[from] serde_json::Error),
}

impl From<Errno> for ControlError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// One side of the talk.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: UnixStream,
    read: Vec<u8>,
    folder: Option<OwnedFd>,
    is_over: bool,
}

impl Channel {
    /// The supervisor's side of an accepted connection; reading never waits.
    pub(crate) fn accepted(stream: UnixStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Self { stream, read: Vec::new(), folder: None, is_over: false })
    }

    /// A helper's side.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        Self::accepted(UnixStream::connect(path)?)
    }

    /// The other process: number and user.
    pub(crate) fn peer(&self) -> io::Result<rustix::net::UCred> {
        Ok(rustix::net::sockopt::socket_peercred(&self.stream)?)
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), ControlError> {
        self.stream.write_all(&frame(message)?)?;
        Ok(())
    }

    /// Sends a message with an open folder.
    pub(crate) fn send_with(
        &mut self,
        message: &impl Serialize,
        folder: BorrowedFd<'_>,
    ) -> Result<(), ControlError> {
        let frame = frame(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut extra = SendAncillaryBuffer::new(&mut space);
        let folders = [folder];
        let fits = extra.push(SendAncillaryMessage::ScmRights(&folders));
        assert!(fits, "the buffer is made for one file");
        let sent = sendmsg(&self.stream, &[IoSlice::new(&frame)], &mut extra, SendFlags::NOSIGNAL)?;
        self.stream.write_all(frame.get(sent..).unwrap_or_default())?;
        Ok(())
    }

    /// Waits for a message; a helper's way of reading.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ControlError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = checked_length(length)?;
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Takes in what has come, without waiting; the supervisor's way of reading.
    pub(crate) fn take_in(&mut self) -> Result<(), ControlError> {
        while !self.is_over {
            let mut bytes = [0; CHUNK_BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut extra = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let count = match recvmsg(&self.stream, &mut slices, &mut extra, flags) {
                Ok(message) => message.bytes,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => 0,
                Err(error) => return Err(error.into()),
            };
            for message in extra.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    self.folder = files.last().or(self.folder.take());
                }
            }
            self.read.extend_from_slice(bytes.get(..count).unwrap_or_default());
            self.is_over = count == 0;
            if self.read.len() > FRAME_BYTES_MAX {
                return Err(ControlError::TooLong(self.read.len()));
            }
        }
        Ok(())
    }

    /// The next message of those taken in.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ControlError> {
        let Some((&length, rest)) = self.read.split_first_chunk::<4>() else { return Ok(None) };
        let length = checked_length(length)?;
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(bytes)?;
        self.read.drain(..length.saturating_add(4));
        Ok(Some(message))
    }

    /// The folder that came with a message.
    pub(crate) fn take_folder(&mut self) -> Option<OwnedFd> {
        self.folder.take()
    }

    /// Whether the other side has closed.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn frame(message: &impl Serialize) -> Result<Vec<u8>, ControlError> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= FRAME_BYTES_MAX);
    let length = length.ok_or(ControlError::TooLong(body.len()))?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

fn checked_length(bytes: [u8; 4]) -> Result<usize, ControlError> {
    let length = usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX { Err(ControlError::TooLong(length)) } else { Ok(length) }
}

#[cfg(test)]
mod tests {
    use super::{Channel, ControlError};
    use crate::spec::{Exit, Landlocked, Report};
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().expect("a pair");
        (Channel::accepted(one).expect("set up"), Channel::accepted(other).expect("set up"))
    }

    #[test]
    fn messages_and_a_folder_arrive() {
        let (mut one, mut other) = pair();
        let folder = File::open("/").expect("opens");
        let ready = Report::Ready { landlock: Landlocked::Fully };
        one.send_with(&ready, folder.as_fd()).expect("sends");
        one.send(&Report::Ended(Exit::Code(3))).expect("sends");
        other.take_in().expect("takes in");
        assert_eq!(other.next::<Report>().expect("reads"), Some(ready));
        assert!(other.take_folder().is_some());
        assert!(other.take_folder().is_none());
        assert_eq!(other.next().expect("reads"), Some(Report::Ended(Exit::Code(3))));
        assert_eq!(other.next::<Report>().expect("reads"), None);
        assert!(!other.is_over());
        drop(one);
        other.take_in().expect("takes in");
        assert!(other.is_over());
    }

    /// Goal: a message is read whole however it is cut. Method: bytes come at random pieces.
    #[test]
    fn prop_cut_messages_are_read_whole() {
        arbtest::arbtest(|u| {
            let (mut one, mut other) = pair();
            let reports: Vec<u8> = u.arbitrary()?;
            let frames: Vec<u8> = reports
                .iter()
                .flat_map(|&code| super::frame(&Report::Ended(Exit::Code(code))).expect("fits"))
                .collect();
            let mut rest = frames.as_slice();
            let mut read = Vec::new();
            while !rest.is_empty() {
                let at = u.int_in_range(1..=rest.len())?;
                let (now, later) = rest.split_at(at);
                one.stream.write_all(now).expect("writes");
                other.take_in().expect("takes in");
                while let Some(Report::Ended(Exit::Code(code))) = other.next().expect("reads") {
                    read.push(code);
                }
                rest = later;
            }
            assert_eq!(read, reports);
            Ok(())
        });
    }

    #[test]
    fn oversized_and_broken_messages_are_refused() {
        let (mut one, mut other) = pair();
        one.stream.write_all(&u32::MAX.to_le_bytes()).expect("writes");
        other.take_in().expect("takes in");
        assert!(matches!(other.next::<Report>(), Err(ControlError::TooLong(_))));
        let (mut one, mut other) = pair();
        one.stream.write_all(&[2, 0, 0, 0, b'{', b'x']).expect("writes");
        other.take_in().expect("takes in");
        assert!(matches!(other.next::<Report>(), Err(ControlError::Json(_))));
    }
}
