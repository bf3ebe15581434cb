#!/bin/sh
# Builds and runs one fuzz target on stable Rust: run.sh <target> [libFuzzer options].
# README.md explains.
set -eu
target=$1
shift
folder=$(cd "$(dirname "$0")" && pwd)
host=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-$folder/target}
# What a nightly compiler would pass: edges counted in place, and the operands of comparisons.
coverage="-Cllvm-args=-sanitizer-coverage"
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module $coverage-level=4 $coverage-inline-8bit-counters \
$coverage-pc-table $coverage-trace-compares"
export RUSTFLAGS
# With --target, so that build scripts and macros are not instrumented.
cargo build --release --manifest-path "$folder/Cargo.toml" --target-dir "$built" \
    --target "$host" --bin "$target"
new=$folder/corpus/$target/new
mkdir -p "$new" "$folder/artifacts/$target"
folders="$new $folder/corpus/$target"
case "$*" in *minimize_crash*) folders= ;; esac
export RAYON_NUM_THREADS=1 # one core, and the same order every time
# Word splitting is wanted: two folders, or none.
exec "$built/$host/release/$target" $folders -artifact_prefix="$folder/artifacts/$target/" \
    -use_value_profile=1 -max_len=65536 -timeout=10 -rss_limit_mb=2048 "$@"
