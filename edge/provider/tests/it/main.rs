//! The provider's view of machines, from outside: through a test library with NVML's C interface,
//! and on the machine that runs the tests.

mod machine;
mod nvml;
mod partition;
