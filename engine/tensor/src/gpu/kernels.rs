//! The kernels of a device, compiled once for each variant that a model needs.
//!
//! A kernel is a file of WGSL behind the files it builds on. What differs between variants (how
//! elements are packed, which kind of operation it is) are constants of the pipeline, so that the
//! driver drops what a variant does not use.

use super::Gpu;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const COMMON: &str = include_str!("common.wgsl");
const WINDOW: &str = include_str!("window.wgsl");
const PRODUCT: &str = include_str!("product.wgsl");
const TILE: &str = include_str!("tile.wgsl");
const DIRECT: &str = include_str!("direct.wgsl");
const GRID: &str = include_str!("grid.wgsl");
const REDUCE: &str = include_str!("reduce.wgsl");
const EACH: &str = include_str!("each.wgsl");
const MOVES: &str = include_str!("moves.wgsl");

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kernel {
    /// Products, tile by tile.
    Tile,
    /// Products of narrow groups.
    Direct,
    /// Operations over a grid.
    Grid,
    /// Sums and largest elements.
    Reduce,
    /// Copies.
    Moves,
}

impl Kernel {
    fn source(self) -> String {
        match self {
            Self::Tile => [COMMON, WINDOW, PRODUCT, TILE].concat(),
            Self::Direct => [COMMON, WINDOW, PRODUCT, DIRECT, EACH].concat(),
            Self::Grid => [COMMON, GRID, EACH].concat(),
            Self::Reduce => [COMMON, WINDOW, REDUCE, EACH].concat(),
            Self::Moves => [COMMON, MOVES].concat(),
        }
    }

    /// How many buffers it reads.
    fn reads(self) -> u32 {
        match self {
            Self::Tile | Self::Direct => 3,
            Self::Grid => 5,
            Self::Reduce | Self::Moves => 2,
        }
    }
}

/// A kernel with its constants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variant {
    /// Which kernel.
    pub(super) kernel: Kernel,
    /// Its constants, all that it declares.
    pub(super) constants: Vec<(&'static str, u32)>,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// The kernel.
    pub(super) pipeline: wgpu::ComputePipeline,
    /// What it reads and writes: parameters, output, then inputs.
    pub(super) layout: wgpu::BindGroupLayout,
}

/// The compiled kernels of a device.
#[derive(Debug)]
pub(super) struct Kernels {
    layouts: BTreeMap<Kernel, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>,
    /// What has been compiled. A lock, because models are made ready by any thread.
    modules: Mutex<BTreeMap<Kernel, wgpu::ShaderModule>>,
    /// What has been compiled. A lock, for the same reason.
    variants: Mutex<BTreeMap<Variant, Compiled>>,
}

impl Kernels {
    pub(super) fn new(device: &wgpu::Device) -> Self {
        let all = [Kernel::Tile, Kernel::Direct, Kernel::Grid, Kernel::Reduce, Kernel::Moves];
        let layouts = all.map(|kernel| (kernel, layout(device, kernel.reads())));
        Self { layouts: layouts.into(), modules: Mutex::default(), variants: Mutex::default() }
    }
}

impl Gpu {
    /// Compiles a variant, or finds it.
    pub(super) fn compiled(&self, variant: Variant) -> Option<Compiled> {
        let kernels = &self.0.kernels;
        let mut variants = kernels.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = variants.get(&variant) {
            return Some(compiled.clone());
        }
        let (layout, pipeline_layout) = kernels.layouts.get(&variant.kernel)?;
        let constants = variant.constants.iter().map(|(name, value)| (*name, f64::from(*value)));
        let constants: Vec<(&str, f64)> = constants.collect();
        let pipeline = self.0.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(pipeline_layout),
            module: &self.module(variant.kernel),
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &constants,
                // Every kernel writes what it reads.
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        let compiled = Compiled { pipeline, layout: layout.clone() };
        variants.insert(variant, compiled.clone());
        Some(compiled)
    }

    fn module(&self, kernel: Kernel) -> wgpu::ShaderModule {
        let mut modules = self.0.kernels.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = || {
            self.0.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: None,
                source: wgpu::ShaderSource::Wgsl(kernel.source().into()),
            })
        };
        modules.entry(kernel).or_insert_with(compile).clone()
    }
}

fn layout(device: &wgpu::Device, reads: u32) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
    let entry = |binding: u32| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: match binding {
                0 => wgpu::BufferBindingType::Uniform,
                other => wgpu::BufferBindingType::Storage { read_only: other != 1 },
            },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let entries: Vec<wgpu::BindGroupLayoutEntry> = (0..reads + 2).map(entry).collect();
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &entries,
    });
    let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    (layout, pipeline)
}
