//! Which GPUs a job asks for: what was typed in the words of nodes, and what cannot be.

use super::plan::{Plan, What};
use crate::{
    args::jobs::JobOptions,
    failure::{Failure, OrFail as _},
};
use tg_jobfile::Accelerator;
use tg_scheduler::catalogue::{Catalogue, Unclear, Wanted};
use tg_types::gpu::GPUS_MAX;
use tg_types::{DeviceKind, GpuAsk, Name, Needs};

/// The model of GPUs that are asked for.
pub(super) fn model(asked: Option<&Accelerator>) -> Result<Option<Name>, Failure> {
    let Some(asked) = asked else { return Ok(None) };
    if asked.count().get() > GPUS_MAX.into() {
        let what = format!("a run is given {GPUS_MAX} GPUs at most");
        return Err(Failure::misuse(what, "ask for fewer, or hand in several jobs"));
    }
    Ok(Some(asked.model().clone()))
}

/// Needs in the words of nodes: what the catalogue calls a model, drivers may call otherwise. A
/// name that is not listed stays: a node may have such a device, which is looked up with the price.
pub(super) fn named(needs: Needs) -> Result<Needs, Failure> {
    let Some(model) = &needs.model else { return Ok(needs) };
    match Catalogue::shared().wanted(model.as_str()) {
        Ok(Wanted { words, kind, memory_mib_min, .. }) => {
            let words = words.parse().or_fail("the model has no name", "correct --gpu")?;
            // That is the memory of the model, and no part of it has as much.
            let is_part = matches!(needs.gpus, GpuAsk::Part { .. });
            let of_model = if is_part { 0 } else { memory_mib_min };
            let memory_mib_min = needs.memory_mib_min.max(of_model);
            Ok(Needs { model: Some(words), kind: kind.or(needs.kind), memory_mib_min, ..needs })
        }
        Err(Unclear::Unknown(_)) => Ok(needs),
        Err(Unclear::Several(names)) => Err(Failure::misuse(
            format!("{model} may be any of {}", names.join(", ")),
            "name one of them, or ask for memory with --vram",
        )),
    }
}

/// The GPUs that a run is to have, as far as that was typed.
pub(super) fn asked(options: &JobOptions) -> Result<GpuAsk, Failure> {
    let named = options.gpu.as_ref().map_or(1, |gpu| gpu.count().get());
    let is_counted_twice = options.gpus.is_some() || options.gpu_share.is_some();
    if named > 1 && is_counted_twice {
        let what = "the number of GPUs is given twice";
        return Err(Failure::misuse(
            what,
            "name the model without a number, or leave the other out",
        ));
    }
    Ok(match (options.gpu_share, options.gpus) {
        (Some(share), _) => {
            GpuAsk::Part { steps: share.steps(), may_share: options.share_with_strangers }
        }
        (None, Some(count)) => GpuAsk::Whole { count },
        (None, None) if named > 1 => {
            GpuAsk::Whole { count: u8::try_from(named).unwrap_or(u8::MAX) }
        }
        (None, None) => GpuAsk::Usual,
    })
}

/// Refuses GPUs that are typed beside a job file, which says itself what it needs.
pub(super) fn check_untyped(options: &JobOptions) -> Result<(), Failure> {
    let typed = [
        options.gpu.is_some().then_some("--gpu"),
        options.gpus.is_some().then_some("--gpus"),
        options.gpu_share.is_some().then_some("--gpu-share"),
        options.vram.is_some().then_some("--vram"),
    ];
    match typed.into_iter().flatten().next() {
        Some(option) => Err(Failure::misuse(
            format!("{option} is given beside a job file"),
            "say it in the file: `resources` has accelerators, gpu_memory and gpu_share",
        )),
        None => Ok(()),
    }
}

/// Refuses GPUs of its own for what has none.
pub(super) fn check(plan: &Plan) -> Result<(), Failure> {
    let needs_gpu = plan.needs.kind == Some(DeviceKind::Gpu);
    match &plan.what {
        What::Tensor { .. } if plan.needs.gpus != GpuAsk::Usual => Err(Failure::misuse(
            "a tensor program is computed beside others and has no GPU of its own",
            "leave --gpus and --gpu-share out; --gpu and --vram say on what it is computed",
        )),
        What::Float { .. } if needs_gpu => Err(Failure::misuse(
            "a float model is run on the processor and would pay for a GPU that it does not use",
            "ask for no GPU, or leave --float out, so that the model is run as exact integers",
        )),
        What::Tensor { .. } | What::Float { .. } | What::Task { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{model, named};
    use tg_types::{DeviceKind, Needs};

    #[test]
    fn models_are_asked_for_in_the_words_of_nodes() {
        let asked = |text: &str, memory_mib_min| {
            let model = model(Some(&text.parse().expect("a GPU"))).expect("few enough");
            let kind = Some(DeviceKind::Gpu);
            named(Needs { model, kind, memory_mib_min, ..Needs::ANY })
        };
        let check = |text: &str, memory_mib_min, words: &str, expected| {
            let Ok(needs) = asked(text, memory_mib_min) else { panic!("{text} is refused") };
            let model = needs.model.as_ref().map(tg_types::Name::as_str);
            assert_eq!((model, needs.memory_mib_min), (Some(words), expected), "{text}");
            assert_eq!(needs.kind, Some(DeviceKind::Gpu));
        };
        check("A100-80GB:1", 0, "A100", 73_728);
        check("A100-80GB", 80_000, "A100", 80_000);
        check("RTX 4090", 7, "RTX 4090", 7);
        check("RTX 4090:16", 0, "RTX 4090", 0);
        check("something else", 0, "something else", 0); // a node may have it
        let many = model(Some(&"H100:17".parse().expect("GPUs"))).expect_err("16 at most");
        assert!(many.hint.contains("fewer"), "{}", many.hint);
    }
}
