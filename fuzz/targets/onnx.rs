//! Fuzz target: see `tg_fuzz::onnx`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        // The importer catches panics of the float engine and refuses the file. libFuzzer's own
        // hook would end the process before that.
        let ours = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.location().is_some_and(|place| place.file().contains("/rten")) {
                ours(panic);
            }
        }));
    },
    |bytes: &[u8]| tg_fuzz::onnx::check(bytes)
);
