//! What can be wrong with NVIDIA's library, its driver or a GPU, in words, each with what to do.

use super::DRIVER_VERSION;
use crate::root::Root;
use nvml_wrapper::error::NvmlError;
use std::path::PathBuf;

/// Why NVIDIA's library, or one of its devices, is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvidiaFault {
    /// There is no library.
    #[error("no NVML library found: looked for {}", list(looked_for))]
    NoLibrary {
        /// Where.
        looked_for: Vec<PathBuf>,
        /// What the loader said.
        said: String,
    },
    /// There is a library, but it is another one.
    #[error("{} is not a whole NVML library: {said}", library.display())]
    NotNvml {
        /// Which.
        library: PathBuf,
        /// What is missing.
        said: String,
    },
    /// The library does not have a function that is needed.
    #[error("the NVIDIA driver is too old: {said}")]
    TooOld {
        /// Which function.
        said: String,
    },
    /// The driver's kernel part is not loaded.
    #[error("the NVIDIA driver is not loaded")]
    DriverNotLoaded,
    /// Kernel part and library are of different versions.
    #[error("the NVIDIA driver in the kernel{} and the NVML library are of different versions",
            .kernel.as_ref().map(|version| format!(" ({version})")).unwrap_or_default())]
    VersionMismatch {
        /// The version of the kernel part.
        kernel: Option<String>,
    },
    /// This user may not use the driver.
    #[error("this user may not use the NVIDIA driver")]
    NoPermission,
    /// The operating system, or a control group, keeps the device from this process.
    #[error("the operating system or a control group blocks the GPU")]
    Blocked,
    /// The GPU does not answer any more.
    #[error("the GPU has fallen off the bus")]
    Lost,
    /// The GPU was there and is not listed any more.
    #[error("the GPU was there and is gone")]
    Vanished,
    /// The GPU must be reset.
    #[error("the GPU must be reset before it can be used again")]
    ResetRequired,
    /// The GPU's power cables are not plugged in.
    #[error("the GPU's power cables are not properly attached")]
    Power,
    /// The kernel has trouble with the GPU's interrupts.
    #[error("the kernel has trouble with the GPU's interrupts")]
    Interrupts,
    /// The GPU's own memory of facts is broken.
    #[error("the GPU's infoROM is corrupted")]
    InfoRom,
    /// The driver did not answer in time.
    #[error("the NVIDIA driver did not answer in time")]
    Timeout,
    /// Anything else.
    #[error("the NVIDIA driver refused: {said}")]
    Refused {
        /// What the library said.
        said: String,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let texts: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    texts.join(", ")
}

impl NvidiaFault {
    /// What the library's error means.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library has dozens of errors; those with a fix of their own are named"
    )]
    pub(crate) fn of(error: NvmlError, root: &Root) -> Self {
        match error {
            NvmlError::FailedToLoadSymbol(said) => Self::TooOld { said },
            NvmlError::FunctionNotFound => Self::TooOld { said: error.to_string() },
            NvmlError::DriverNotLoaded => Self::DriverNotLoaded,
            NvmlError::LibRmVersionMismatch => {
                Self::VersionMismatch { kernel: kernel_version(root) }
            }
            NvmlError::NoPermission => Self::NoPermission,
            NvmlError::OperatingSystem => Self::Blocked,
            NvmlError::GpuLost => Self::Lost,
            NvmlError::ResetRequired => Self::ResetRequired,
            NvmlError::InsufficientPower => Self::Power,
            NvmlError::IrqIssue => Self::Interrupts,
            NvmlError::CorruptedInfoROM => Self::InfoRom,
            NvmlError::Timeout => Self::Timeout,
            other => Self::Refused { said: other.to_string() },
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::NoLibrary { .. } => {
                "install NVIDIA's driver; in a container, start it with the GPU \
                 (podman --device nvidia.com/gpu=all, docker --gpus all)"
            }
            Self::NotNvml { .. } => {
                "point the setting at libnvidia-ml.so.1 of the driver, or leave it out"
            }
            Self::TooOld { .. } => "update NVIDIA's driver to version 525 or newer",
            Self::DriverNotLoaded => {
                "load it with `modprobe nvidia`; if that fails, reinstall the driver for the \
                 running kernel and look at `dmesg`"
            }
            Self::VersionMismatch { .. } => {
                "the driver was updated while it ran: restart the machine, or unload its modules \
                 and load them again; in a container, update the toolkit on the host"
            }
            Self::NoPermission => {
                "add this user to the group that owns /dev/nvidia* (often `video` or `render`), \
                 then log in again"
            }
            Self::Blocked => "allow /dev/nvidia* in the control group or container",
            Self::Lost | Self::Vanished => {
                "look for `Xid` in `dmesg`; check the card's seat, risers and power supply; \
                 restart the machine"
            }
            Self::ResetRequired => "run `nvidia-smi --gpu-reset`, or restart the machine",
            Self::Power => "plug in all of the card's power cables",
            Self::Interrupts => "restart the machine; if it stays, look at `dmesg` and the BIOS",
            Self::InfoRom => "the card must be repaired; ask its maker",
            Self::Timeout | Self::Refused { .. } => {
                "run `nvidia-smi`; if it fails too, restart the machine"
            }
        }
    }

    /// Whether the whole device is of no use, not only one of its figures.
    pub(super) const fn ends_device(&self) -> bool {
        match self {
            Self::Lost
            | Self::Vanished
            | Self::ResetRequired
            | Self::Power
            | Self::Interrupts
            | Self::DriverNotLoaded
            | Self::VersionMismatch { .. } => true,
            Self::NoLibrary { .. }
            | Self::NotNvml { .. }
            | Self::TooOld { .. }
            | Self::NoPermission
            | Self::Blocked
            | Self::InfoRom
            | Self::Timeout
            | Self::Refused { .. } => false,
        }
    }
}

/// The version of the driver's kernel part: `NVRM version: NVIDIA UNIX x86_64 Kernel Module
/// 535.154.05  Thu Dec 28 …`.
pub(crate) fn kernel_version(root: &Root) -> Option<String> {
    let text = root.text(DRIVER_VERSION)?;
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        parts.clone().count() >= 2
            && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    line.split_ascii_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{NvidiaFault, kernel_version};
    use crate::root::Root;
    use crate::testing::{Folder, noise};
    use nvml_wrapper::error::NvmlError;

    const VERSION: &str = "proc/driver/nvidia/version";

    #[test]
    fn version_of_the_kernel_part_is_found_in_both_forms() {
        let folder = Folder::new();
        let root = Root::new(folder.path());
        assert_eq!(kernel_version(&root), None);
        folder.write(
            VERSION,
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 2023\n\
             GCC version:  gcc version 12.3.0\n",
        );
        assert_eq!(kernel_version(&root).as_deref(), Some("535.154.05"));
        folder.write(
            VERSION,
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
        );
        assert_eq!(kernel_version(&root).as_deref(), Some("580.65.06"));
    }

    #[test]
    fn prop_version_in_any_text_is_digits_and_dots_or_nothing() {
        arbtest::arbtest(|u| {
            let folder = Folder::new();
            folder.write(VERSION, noise(u, &["NVRM version", " ", ".", "5", "35.1", "\n"])?);
            if let Some(version) = kernel_version(&Root::new(folder.path())) {
                assert!(version.bytes().all(|b| b == b'.' || b.is_ascii_digit()));
            }
            Ok(())
        })
        .budget_ms(200);
    }

    #[test]
    fn mismatch_names_the_version_in_the_kernel() {
        let folder = Folder::new();
        folder.write(VERSION, "NVRM version: NVIDIA Kernel Module 535.1.2 x\n");
        let root = Root::new(folder.path());
        let fault = NvidiaFault::of(NvmlError::LibRmVersionMismatch, &root);
        assert_eq!(
            fault.to_string(),
            "the NVIDIA driver in the kernel (535.1.2) and the NVML library are of different \
             versions"
        );
        assert!(fault.fix().contains("restart"));
    }

    #[test]
    fn error_without_a_fix_of_its_own_keeps_its_words() {
        let folder = Folder::new();
        let fault = NvidiaFault::of(NvmlError::NotSupported, &Root::new(folder.path()));
        assert_eq!(
            fault.to_string(),
            "the NVIDIA driver refused: the requested operation is not available on the target \
             device"
        );
    }
}
