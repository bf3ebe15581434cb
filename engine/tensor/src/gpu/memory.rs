//! Buffers of a device: what fits, and how elements get there and back.

use super::{Gpu, GpuError};
use crate::program::{Spec, Width};
use crate::run::{Elements, Target};
use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

/// The least that a device must be able to hold as one value. All do.
pub(super) const VALUE_BYTES_MIN: u64 = 64 << 20;

/// How long the processor waits for results: far longer than any operation takes, as drivers stop
/// what keeps a device busy for some seconds.
const WAIT_SECONDS: u64 = 600;

/// How large things may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of one value.
    pub(super) value_bytes: u64,
}

impl Bounds {
    pub(super) fn new(limits: &wgpu::Limits) -> Self {
        Self { value_bytes: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size) }
    }

    /// Whether a value of this many bytes can be on the device.
    pub(super) fn admit(&self, bytes: u64) -> bool {
        padded(bytes) <= self.value_bytes
    }
}

/// Bytes of the elements of a value.
pub(super) fn bytes_of(spec: &Spec) -> u64 {
    u64::from(spec.len) * spec.width().bytes() as u64
}

/// Elements in a word of the device, as a power of two.
pub(super) fn pack(width: Width) -> u32 {
    match width {
        Width::I8 => 2,
        Width::I16 => 1,
        Width::I32 => 0,
    }
}

/// Whole words, at least one.
fn padded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(4)
}

impl Gpu {
    /// A buffer for a value that a kernel will write: all zero.
    pub(super) fn reserve(&self, bytes: u64) -> wgpu::Buffer {
        let copies = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.buffer(padded(bytes), wgpu::BufferUsages::STORAGE | copies)
    }

    /// A buffer with the elements of a value.
    pub(super) fn upload(&self, elements: Elements<'_>) -> wgpu::Buffer {
        match elements {
            Elements::I8(elements) => {
                self.filled(elements.iter().map(|element| *element as u8).collect())
            }
            Elements::I16(elements) => self.filled(spread(elements, i16::to_le_bytes)),
            Elements::I32(elements) => self.upload_numbers(elements),
        }
    }

    /// A buffer of whole numbers of 32 bits.
    pub(super) fn upload_numbers(&self, numbers: &[i32]) -> wgpu::Buffer {
        self.filled(spread(numbers, i32::to_le_bytes))
    }

    /// A buffer with the parameters of a kernel.
    pub(super) fn upload_parameters(&self, words: &[u32]) -> wgpu::Buffer {
        let bytes = spread(words, u32::to_le_bytes);
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer(padded(bytes.len() as u64), usage);
        self.0.queue.write_buffer(&buffer, 0, &bytes);
        buffer
    }

    fn filled(&self, mut bytes: Vec<u8>) -> wgpu::Buffer {
        bytes.resize(bytes.len().max(1).next_multiple_of(4), 0);
        let buffer = self.reserve(bytes.len() as u64);
        self.0.queue.write_buffer(&buffer, 0, &bytes);
        buffer
    }

    fn buffer(&self, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let (label, mapped_at_creation) = (None, false);
        self.0.device.create_buffer(&wgpu::BufferDescriptor {
            label,
            size,
            usage,
            mapped_at_creation,
        })
    }

    /// Sends commands to the device, then waits for a value and copies it to the host.
    pub(super) fn download(
        &self,
        commands: wgpu::CommandEncoder,
        value: &wgpu::Buffer,
        out: Target<'_>,
    ) -> Result<(), GpuError> {
        self.download_part(commands, value, 0..value.size(), |bytes| collect(bytes, out))
    }

    /// Sends commands to the device, then waits for a part of a buffer and shows its bytes. Ends of
    /// parts are at whole words.
    pub(super) fn download_part<T>(
        &self,
        mut commands: wgpu::CommandEncoder,
        buffer: &wgpu::Buffer,
        part: Range<u64>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, GpuError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let size = part.end.saturating_sub(part.start);
        let stage = self.buffer(size, usage);
        commands.copy_buffer_to_buffer(buffer, part.start, &stage, 0, size);
        let submission = self.0.queue.submit([commands.finish()]);
        self.check()?;
        let (sender, receiver) = mpsc::channel();
        stage.slice(..).map_async(wgpu::MapMode::Read, move |outcome| {
            // Nobody waits any more if the device was too slow.
            let _gone = sender.send(outcome);
        });
        let wait = Duration::from_secs(WAIT_SECONDS);
        let device = &self.0.device;
        let (submission_index, timeout) = (Some(submission), Some(wait));
        let poll = device.poll(wgpu::PollType::Wait { submission_index, timeout });
        self.check()?;
        let silent = || self.fail(GpuError::Silent { seconds: WAIT_SECONDS });
        let refused = |reason: String| self.fail(GpuError::Refused { reason });
        poll.map_err(|_| silent())?;
        // The answer may be on its way still, through another thread that polled.
        let answer = receiver.recv_timeout(wait).map_err(|_| silent())?;
        answer.map_err(|error| refused(error.to_string()))?;
        let view =
            stage.slice(..).get_mapped_range().map_err(|error| refused(error.to_string()))?;
        Ok(read(&view))
    }
}

/// The bytes of numbers.
fn spread<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut out = vec![0; numbers.len() * N];
    for (to, from) in out.as_chunks_mut::<N>().0.iter_mut().zip(numbers) {
        *to = bytes(*from);
    }
    out
}

/// Elements from their bytes, which may be followed by padding.
fn collect(bytes: &[u8], out: Target<'_>) {
    match out {
        Target::I8(out) => {
            for (to, from) in out.iter_mut().zip(bytes) {
                *to = *from as i8;
            }
        }
        Target::I16(out) => {
            for (to, from) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *to = i16::from_le_bytes(*from);
            }
        }
        Target::I32(out) => {
            for (to, from) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *to = i32::from_le_bytes(*from);
            }
        }
    }
}
