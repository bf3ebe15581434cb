//! Whether this CPU can run the program.
//!
//! The program is built for x86-64-v3, so on an older CPU it would die of an illegal instruction
//! somewhere. This check comes before everything else and says it in a sentence. It asks the CPU
//! itself: the standard library's question is answered when the program is built, because the build
//! assumes the very features in question. For the same reason the check is written without anything
//! that a compiler would like to do with wide registers: no collections, no formatting, no loop
//! over data.

use std::{
    hint::black_box,
    io::{self, Write as _},
    process::ExitCode,
};

/// Features of x86-64-v3 (psABI, table of micro-architecture levels), in the order of their bits
/// in [`Lacking`].
const FEATURES: [&str; 10] =
    ["SSE4.2", "FMA", "MOVBE", "OSXSAVE", "AVX", "F16C", "BMI1", "AVX2", "BMI2", "LZCNT"];

/// Features of x86-64-v3 that the CPU lacks, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacking(u32);

/// Checks that the CPU has every feature the program was built for.
///
/// # Errors
/// With the features it lacks.
#[inline(never)]
pub fn check() -> Result<(), Lacking> {
    let lacking = lacking();
    if lacking == 0 { Ok(()) } else { Err(Lacking(lacking)) }
}

/// Says that this CPU is too old.
#[inline(never)]
#[must_use]
pub fn refuse(lacking: Lacking) -> ExitCode {
    say("error: this CPU is older than the program was built for; it lacks:");
    for (bit, name) in FEATURES.iter().enumerate() {
        if black_box(lacking.0) & (1 << bit) != 0 {
            say(" ");
            say(name);
        }
    }
    say("\nhint: use a CPU with AVX2 (x86-64-v3: Intel since 2013, AMD since 2015)\n");
    ExitCode::FAILURE
}

#[inline(never)]
fn say(text: &str) {
    let _nobody_listens = io::stderr().write_all(text.as_bytes());
}

/// A feature's bit in the result, if its bit in the CPU's answer is not set.
#[inline(always)]
fn lacks(answer: u32, bit: u32, feature: u32) -> u32 {
    let is_there = (black_box(answer) >> bit) & 1;
    (is_there ^ 1) << feature
}

/// The missing features, from the CPU's answers: leaf 1 ecx, leaf 7 ebx, leaf 0x8000_0001 ecx.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has levels"))]
#[inline(never)]
fn missing(one_ecx: u32, seven_ebx: u32, extended_ecx: u32) -> u32 {
    lacks(one_ecx, 20, 0)
        | lacks(one_ecx, 12, 1)
        | lacks(one_ecx, 22, 2)
        | lacks(one_ecx, 27, 3)
        | lacks(one_ecx, 28, 4)
        | lacks(one_ecx, 29, 5)
        | lacks(seven_ebx, 3, 6)
        | lacks(seven_ebx, 5, 7)
        | lacks(seven_ebx, 8, 8)
        | lacks(extended_ecx, 5, 9)
}

#[cfg(target_arch = "x86_64")]
fn lacking() -> u32 {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let seven_ebx = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let has_extended = __cpuid(0x8000_0000).eax > 0x8000_0000;
    let extended_ecx = if has_extended { __cpuid(0x8000_0001).ecx } else { 0 };
    missing(__cpuid(1).ecx, seven_ebx, extended_ecx)
}

#[cfg(not(target_arch = "x86_64"))]
fn lacking() -> u32 {
    0
}

#[cfg(test)]
mod tests {
    use super::{FEATURES, check, missing};

    fn names(lacking: u32) -> Vec<&'static str> {
        let is_set = |(bit, _): &(usize, &&str)| lacking & (1 << bit) != 0;
        FEATURES.iter().enumerate().filter(is_set).map(|(_, name)| *name).collect()
    }

    #[test]
    fn cpu_that_runs_this_test_is_accepted() {
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn cpu_without_a_feature_is_named_as_such() {
        assert_eq!(missing(!0, !0, !0), 0);
        assert_eq!(names(missing(!0, !(1 << 5), !0)), ["AVX2"]);
        assert_eq!(names(missing(!(1 << 28), !(1 << 8), !(1 << 5))), ["AVX", "BMI2", "LZCNT"]);
        assert_eq!(names(missing(0, 0, 0)), FEATURES);
    }
}
