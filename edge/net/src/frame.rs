//! Frames: four bytes of length, big-endian, and so many bytes of content.
//!
//! A request is one frame; an answer is any number of them and the end of the stream. An empty
//! frame is a frame: whoever has nothing to say sends it to show that it is still there.

use futures::future::BoxFuture;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The most bytes in a frame. Transactions, also those with the longest proof, receipts and pages
/// of logs fit; whatever is larger is a blob, which can be resumed.
pub const FRAME_BYTES_MAX: usize = (2 << 20) + (64 << 10);

/// Why a frame cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// There is more than a frame may have.
    #[error("frame of {found} bytes, at most {max} are allowed")]
    TooLarge {
        /// How many bytes there are or are announced.
        found: usize,
        /// The most.
        max: usize,
    },
    /// The stream ends inside a frame.
    #[error("stream ends inside a frame: {found} of {expected} bytes")]
    Truncated {
        /// How many bytes of the length or the content there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// The stream fails.
    #[error("stream fails")]
    Io(#[source] io::Error),
}

/// Writes one frame.
///
/// # Errors
/// If it is too large, in which case nothing is written, or the stream fails.
pub fn write_frame<'a>(
    to: &'a mut (dyn AsyncWrite + Unpin + Send),
    frame: &'a [u8],
) -> BoxFuture<'a, Result<(), FrameError>> {
    Box::pin(async move {
        let found = frame.len();
        let too_large = FrameError::TooLarge { found, max: FRAME_BYTES_MAX };
        if found > FRAME_BYTES_MAX {
            return Err(too_large);
        }
        let length = u32::try_from(found).map_err(|_| too_large)?;
        to.write_all(&length.to_be_bytes()).await.map_err(FrameError::Io)?;
        to.write_all(frame).await.map_err(FrameError::Io)
    })
}

/// Reads one frame, or `None` where the stream ends. Memory is taken as the content arrives, not
/// as it is announced.
///
/// # Errors
/// If more is announced than a frame may have, the stream ends inside, or fails.
pub fn read_frame<'a>(
    from: &'a mut (dyn AsyncRead + Unpin + Send),
) -> BoxFuture<'a, Result<Option<Vec<u8>>, FrameError>> {
    Box::pin(async move {
        let header = read_at_most(from, size_of::<u32>()).await?;
        if header.is_empty() {
            return Ok(None);
        }
        let length = <[u8; 4]>::try_from(header.as_slice()).map_err(|_| FrameError::Truncated {
            found: header.len(),
            expected: size_of::<u32>(),
        })?;
        let expected = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if expected > FRAME_BYTES_MAX {
            return Err(FrameError::TooLarge { found: expected, max: FRAME_BYTES_MAX });
        }
        let content = read_at_most(from, expected).await?;
        if content.len() < expected {
            return Err(FrameError::Truncated { found: content.len(), expected });
        }
        Ok(Some(content))
    })
}

/// Reads until there are `count` bytes or the stream ends.
async fn read_at_most(
    from: &mut (dyn AsyncRead + Unpin + Send),
    count: usize,
) -> Result<Vec<u8>, FrameError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(count).unwrap_or(u64::MAX);
    from.take(limit).read_to_end(&mut bytes).await.map_err(FrameError::Io)?;
    Ok(bytes)
}
