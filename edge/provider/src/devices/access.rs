//! What a program in a sandbox needs to use one GPU and no other: its device files, the variables
//! by which runtimes choose it, and the libraries that belong to the driver of this machine and
//! that no image can bring along.
//!
//! Only what exists is named: a sandbox refuses device files that are not there.

use super::facts::{DeviceFacts, Kind, PciAddress, Source};
use super::nvidia::DRIVER_GPUS;
use crate::root::Root;
use std::path::PathBuf;

/// Files of NVIDIA's driver that all of its GPUs share.
const NVIDIA_SHARED: [&str; 4] =
    ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"];

/// Where NVIDIA's driver says which files let programs use partitions.
const CAPABILITIES: &str = "/proc/driver/nvidia/capabilities";

/// The one file by which programs get to all GPUs of a machine under WSL.
const WSL_SHARED: &str = "/dev/dxg";

/// The file that all of AMD's GPUs share.
const AMD_SHARED: &str = "/dev/kfd";

/// Where a driver's libraries are: Debian's and Red Hat's places, WSL's and that of NixOS.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
];

/// Libraries of NVIDIA's driver that compute, by the beginnings of their names: they must be of the
/// kernel part's version, so images do not have them.
const NVIDIA_LIBRARIES: [&str; 7] = [
    "libcuda.so.",
    "libnvidia-gpucomp.so.",
    "libnvidia-ml.so.",
    "libnvidia-nvvm.so.",
    "libnvidia-opencl.so.",
    "libnvidia-ptxjitcompiler.so.",
    "libnvidia-allocator.so.",
];

/// How a program gets to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Its device files.
    pub files: Vec<PathBuf>,
    /// Variables that name it.
    pub variables: Vec<(String, String)>,
    /// The driver's libraries, for programs that bring all others along.
    pub libraries: Vec<PathBuf>,
}

/// How a program gets to a GPU of this machine; `None` if it cannot.
pub(super) fn access(facts: &DeviceFacts, root: &Root) -> Option<Access> {
    match (facts.kind, facts.source) {
        (Kind::Gpu, Source::Nvml) => nvidia(facts, root),
        (Kind::Gpu, Source::Wgpu | Source::Sysfs | Source::Procfs) => rendered(facts, root),
        // The processor does its work, and every program has that.
        (Kind::Software, _) => Some(Access::default()),
        (Kind::Cpu | Kind::Accelerator, _) => None,
    }
}

fn nvidia(facts: &DeviceFacts, root: &Root) -> Option<Access> {
    let minor = facts.pci.and_then(|address| minor(root, address));
    let own = minor.map_or_else(|| WSL_SHARED.to_owned(), |minor| format!("/dev/nvidia{minor}"));
    let shared = NVIDIA_SHARED.iter().map(ToString::to_string);
    let id = facts.id.as_str();
    let variables = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];
    root.exists(&own).then(|| Access {
        files: existing(root, std::iter::once(own).chain(shared)),
        variables: variables.map(|name| (name.to_owned(), id.to_owned())).to_vec(),
        libraries: libraries(root),
    })
}

/// The number of the device file, from what the driver says of the GPU at this place.
fn minor(root: &Root, address: PciAddress) -> Option<u32> {
    let text = root.text(&format!("{DRIVER_GPUS}/{address}/information"))?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Device Minor:"))?;
    line.trim().parse().ok()
}

/// The files by which a program may use a partition of the GPU at this place: that of the GPU
/// instance with this number, and that of its one compute instance.
pub(crate) fn partition_files(root: &Root, address: PciAddress, instance: u32) -> Vec<PathBuf> {
    let Some(gpu) = minor(root, address) else { return Vec::new() };
    let of_instance = format!("{CAPABILITIES}/gpu{gpu}/mig/gi{instance}");
    let files = [format!("{of_instance}/access"), format!("{of_instance}/ci0/access")];
    let files = files.iter().filter_map(|file| {
        let text = root.text(file)?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("DeviceFileMinor:"))?;
        let number: u32 = line.trim().parse().ok()?;
        Some(format!("/dev/nvidia-caps/nvidia-cap{number}"))
    });
    existing(root, files)
}

/// The driver's libraries in the first folder that has any.
fn libraries(root: &Root) -> Vec<PathBuf> {
    let is_wanted = |name: &String| NVIDIA_LIBRARIES.iter().any(|start| name.starts_with(start));
    let found = LIBRARY_FOLDERS.iter().map(|folder| {
        let names = root.names(folder).into_iter().filter(is_wanted);
        names.map(|name| PathBuf::from(folder).join(name)).collect::<Vec<_>>()
    });
    found.into_iter().find(|names| !names.is_empty()).unwrap_or_default()
}

/// GPUs whose kernel driver draws by files of `/dev/dri`: AMD's, Intel's and others.
fn rendered(facts: &DeviceFacts, root: &Root) -> Option<Access> {
    let device = format!("/sys/bus/pci/devices/{}", facts.pci?);
    let mut names = root.names(&format!("{device}/drm")).into_iter();
    let own = format!("/dev/dri/{}", names.find(|name| name.starts_with("renderD"))?);
    let is_amd = root.link_name(&format!("{device}/driver")).is_some_and(|name| name == "amdgpu");
    let shared = is_amd.then(|| AMD_SHARED.to_owned());
    root.exists(&own).then(|| Access {
        files: existing(root, std::iter::once(own).chain(shared)),
        ..Access::default()
    })
}

fn existing(root: &Root, paths: impl Iterator<Item = String>) -> Vec<PathBuf> {
    paths.filter(|path| root.exists(path)).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::{access, partition_files};
    use crate::devices::facts::{DeviceFacts, DeviceId, Kind, PciAddress, Source};
    use crate::root::Root;
    use crate::testing::Folder;
    use std::path::PathBuf;

    fn facts(kind: Kind, source: Source) -> DeviceFacts {
        let mut facts = DeviceFacts::new(DeviceId::new("GPU-1b2c"), kind, source);
        facts.pci = PciAddress::parse("0000:41:00.0");
        facts
    }

    fn paths(all: &[&str]) -> Vec<PathBuf> {
        all.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn nvidia_gpu_has_its_own_file_those_all_share_and_the_libraries_of_its_driver() {
        let folder = Folder::new();
        let information = "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-1b2c\nDevice Minor: \t 3\n";
        folder.write("proc/driver/nvidia/gpus/0000:41:00.0/information", information);
        for name in ["nvidia3", "nvidia0", "nvidiactl", "nvidia-uvm"] {
            folder.write(&format!("dev/{name}"), "");
        }
        let libraries = "usr/lib/x86_64-linux-gnu";
        for name in ["libcuda.so.550.54", "libc.so.6", "libcuda.so", "libnvidia-ml.so.550.54"] {
            folder.write(&format!("{libraries}/{name}"), "");
        }
        folder.link(&format!("{libraries}/libcuda.so.1"), "libcuda.so.550.54");
        let found = access(&facts(Kind::Gpu, Source::Nvml), &Root::new(folder.path()));
        let found = found.expect("its file is there");
        assert_eq!(found.files, paths(&["/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm"]));
        let named = |name: &str| (name.to_owned(), "GPU-1b2c".to_owned());
        assert_eq!(found.variables, ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"].map(named));
        let names = ["libcuda.so.1", "libcuda.so.550.54", "libnvidia-ml.so.550.54"];
        let names = names.map(|name| PathBuf::from(format!("/{libraries}/{name}")));
        assert_eq!(found.libraries, names);
    }

    #[test]
    fn partition_has_the_files_of_its_instances() {
        let folder = Folder::new();
        let address = PciAddress::parse("0000:41:00.0").expect("a place");
        let root = Root::new(folder.path());
        assert_eq!(partition_files(&root, address, 9), paths(&[]));
        let information = "Model: \t\t NVIDIA A100\nDevice Minor: \t 3\n";
        folder.write("proc/driver/nvidia/gpus/0000:41:00.0/information", information);
        let of = "proc/driver/nvidia/capabilities/gpu3/mig/gi9";
        let says = |number: u8| format!("DeviceFileMinor: {number}\nDeviceFileMode: 292\n");
        folder.write(&format!("{of}/access"), says(30));
        folder.write(&format!("{of}/ci0/access"), says(31));
        folder.write("dev/nvidia-caps/nvidia-cap30", "");
        assert_eq!(partition_files(&root, address, 9), paths(&["/dev/nvidia-caps/nvidia-cap30"]));
        folder.write("dev/nvidia-caps/nvidia-cap31", "");
        assert_eq!(partition_files(&root, address, 9).len(), 2);
    }

    #[test]
    fn gpus_of_other_makers_have_the_file_they_render_by() {
        let folder = Folder::new();
        let device = "sys/bus/pci/devices/0000:41:00.0";
        folder.write(&format!("{device}/drm/card1/dev"), "");
        folder.write(&format!("{device}/drm/renderD129/dev"), "");
        folder.write("dev/dri/renderD128", "");
        folder.write("dev/dri/renderD129", "");
        folder.write("dev/kfd", "");
        let root = Root::new(folder.path());
        let found = || access(&facts(Kind::Gpu, Source::Wgpu), &root).map(|found| found.files);
        assert_eq!(found(), Some(paths(&["/dev/dri/renderD129"])));
        folder.link(&format!("{device}/driver"), "../../../bus/pci/drivers/amdgpu");
        assert_eq!(found(), Some(paths(&["/dev/dri/renderD129", "/dev/kfd"])));
    }

    #[test]
    fn gpu_without_a_file_cannot_be_got_to() {
        let folder = Folder::new();
        let root = Root::new(folder.path());
        assert_eq!(access(&facts(Kind::Gpu, Source::Nvml), &root), None);
        assert_eq!(access(&facts(Kind::Gpu, Source::Wgpu), &root), None);
        folder.write("dev/dxg", "");
        let in_wsl = access(&facts(Kind::Gpu, Source::Nvml), &root).expect("by the shared file");
        assert_eq!(in_wsl.files, paths(&["/dev/dxg"]));
        let software = access(&facts(Kind::Software, Source::Wgpu), &root);
        assert_eq!(software, Some(super::Access::default()));
    }
}
