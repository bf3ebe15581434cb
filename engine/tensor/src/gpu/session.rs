//! One run on a device: which values are there, and the commands that wait to be sent.

use super::launch::{Launch, Source};
use super::prepare::Prepared;
use super::{Gpu, GpuError};
use crate::program::ValueId;
use crate::run::{Device, DeviceFailed, Elements, Session, Target};

/// Calls that are collected before they are sent: enough to hide the cost of sending, few enough
/// for the device to begin early.
const PENDING_MAX: usize = 32;

impl Device for Prepared {
    fn takes(&self, operation: usize) -> bool {
        self.tasks.get(operation).is_some_and(Option::is_some)
    }

    fn begin(&self) -> Option<Box<dyn Session + '_>> {
        self.gpu.check().ok()?;
        let buffers = vec![None; self.values];
        Some(Box::new(GpuSession { prepared: self, buffers, commands: None, pending: 0 }))
    }
}

/// One run.
struct GpuSession<'a> {
    prepared: &'a Prepared,
    /// The values that are on the device.
    buffers: Vec<Option<wgpu::Buffer>>,
    /// Calls that have not been sent.
    commands: Option<wgpu::CommandEncoder>,
    /// How many they are.
    pending: usize,
}

impl Session for GpuSession<'_> {
    fn compute<'h>(
        &mut self,
        operation: usize,
        host: &dyn Fn(ValueId) -> Elements<'h>,
    ) -> Result<(), DeviceFailed> {
        let task = self.prepared.tasks.get(operation).and_then(Option::as_ref);
        let task = task.expect("the runner asks for operations that are taken");
        let gpu = &self.prepared.gpu;
        let out = gpu.reserve(task.bytes);
        for launch in &task.launches {
            let reads = self.reads(launch, host);
            let commands = self.commands.get_or_insert_with(|| encoder(gpu));
            launch.encode(gpu, commands, &reads, &out);
            self.pending += 1;
        }
        if let Some(place) = self.buffers.get_mut(self.prepared.first + operation) {
            *place = Some(out);
        }
        if self.pending >= PENDING_MAX {
            self.pending = 0;
            gpu.0.queue.submit(self.commands.take().map(wgpu::CommandEncoder::finish));
        }
        failed(gpu.check())
    }

    fn fetch(&mut self, operation: usize, out: Target<'_>) -> Result<(), DeviceFailed> {
        let buffer = self.buffers.get(self.prepared.first + operation).and_then(Option::as_ref);
        let buffer = buffer.expect("the runner fetches what is there");
        let gpu = &self.prepared.gpu;
        let commands = self.commands.take().unwrap_or_else(|| encoder(gpu));
        self.pending = 0;
        failed(gpu.download(commands, buffer, out))
    }

    fn finished(&mut self, operation: usize) {
        for dead in self.prepared.dying.get(operation).into_iter().flatten() {
            if let Some(buffer) = self.buffers.get_mut(dead.index()) {
                *buffer = None;
            }
        }
    }
}

impl GpuSession<'_> {
    /// The buffers that a call reads. Values that are not on the device yet are uploaded.
    fn reads<'h>(
        &mut self,
        launch: &Launch,
        host: &dyn Fn(ValueId) -> Elements<'h>,
    ) -> Vec<wgpu::Buffer> {
        let gpu = &self.prepared.gpu;
        let mut find = |source: &Source| match source {
            Source::Fixed(buffer) => buffer.clone(),
            Source::Value(value) => match self.buffers.get_mut(value.index()) {
                Some(place) => place.get_or_insert_with(|| gpu.upload(host(*value))).clone(),
                None => gpu.upload(host(*value)),
            },
        };
        launch.reads.iter().map(&mut find).collect()
    }
}

pub(super) fn encoder(gpu: &Gpu) -> wgpu::CommandEncoder {
    gpu.0.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
}

/// The device remembers what happened; a run only needs to know that something did.
fn failed(outcome: Result<(), GpuError>) -> Result<(), DeviceFailed> {
    outcome.map_err(|_| DeviceFailed)
}
