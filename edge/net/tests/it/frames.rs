//! Frames: what is written is read, and nothing else is taken for a frame.

use futures::FutureExt as _;
use tg_net::frame::{FRAME_BYTES_MAX, FrameError, read_frame, write_frame};

fn written(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        write_frame(&mut bytes, frame).now_or_never().expect("memory is ready").expect("writes");
    }
    bytes
}

/// All frames in the bytes, and how it ended.
fn read(mut bytes: &[u8]) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut frames = Vec::new();
    loop {
        match read_frame(&mut bytes).now_or_never().expect("memory is ready") {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

#[test]
fn prop_frames_are_read_as_written() {
    arbtest::arbtest(|u| {
        let frames: Vec<Vec<u8>> = u.arbitrary()?;
        let (found, error) = read(&written(&frames));
        assert!(error.is_none());
        assert_eq!(found, frames);
        Ok(())
    });
}

#[test]
fn prop_truncated_frames_end_in_an_error_or_at_a_frame() {
    arbtest::arbtest(|u| {
        let frames: Vec<Vec<u8>> = u.arbitrary()?;
        let bytes = written(&frames);
        let cut = u.int_in_range(0..=bytes.len())?;
        let (found, error) = read(&bytes[..cut]);
        assert!(frames.starts_with(&found));
        let whole = written(&found).len();
        match error {
            None => assert_eq!(whole, cut, "a clean end is the end of a frame"),
            Some(FrameError::Truncated { .. }) => assert!(whole < cut),
            Some(error) => panic!("{error}"),
        }
        Ok(())
    });
}

#[test]
fn prop_any_bytes_are_frames_or_an_error() {
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        let (found, error) = read(&bytes);
        if error.is_none() {
            assert_eq!(written(&found), bytes);
        }
        Ok(())
    });
}

#[test]
fn frame_of_the_largest_size_is_taken_and_one_more_is_not() {
    let largest = vec![7; FRAME_BYTES_MAX];
    let bytes = written(std::slice::from_ref(&largest));
    assert_eq!(read(&bytes).0, [largest]);

    let mut none = Vec::new();
    let refused = write_frame(&mut none, &vec![7; FRAME_BYTES_MAX + 1]).now_or_never();
    assert!(matches!(refused, Some(Err(FrameError::TooLarge { .. }))));
    assert!(none.is_empty(), "nothing is written of it");

    let announced = u32::try_from(FRAME_BYTES_MAX + 1).expect("fits").to_be_bytes();
    let (found, error) = read(&announced);
    assert!(found.is_empty());
    assert!(matches!(error, Some(FrameError::TooLarge { .. })), "before its content is read");
}
