//! The table that comes with this version, and tables that are refused.

use super::{Abilities, Catalogue, CatalogueError, Fault, Split, Tier, UNLISTED};
use std::collections::BTreeSet;
use tg_types::DeviceKind;

const ROW: &str = "X1|X 1|maker|gpu|consumer|24|1000|330|660|tensor half int8|-";

#[test]
fn table_of_this_version_is_plausible() {
    let catalogue = Catalogue::builtin();
    let models = catalogue.models();
    assert!(models.len() >= 150, "{}", models.len());
    let names: BTreeSet<String> = models.iter().map(|model| model.name.to_lowercase()).collect();
    assert_eq!(names.len(), models.len(), "names are unique whatever their case");
    let makers: BTreeSet<&str> = models.iter().map(|model| model.maker).collect();
    assert!(makers.len() >= 12, "{makers:?}");
    for model in models {
        let name = model.name;
        let sixteen = [Abilities::HALF, Abilities::BF16];
        let is_fast = sixteen.iter().any(|one| model.abilities.contains(*one));
        assert!(model.half_rate == 0 || is_fast, "{name}");
        assert!(model.int8_rate == 0 || model.abilities.contains(Abilities::INT8), "{name}");
        assert!(model.split == Split::None || model.maker == "nvidia", "{name}");
        assert!(model.tier != Tier::Flagship || model.half_rate >= 200, "{name}");
        assert!(model.tier != Tier::Entry || model.half_rate <= 120, "{name}");
        // A row is found by what it says drivers report.
        let number = catalogue.number(&format!("Maker {}", model.words), model.memory_mib);
        assert_eq!(catalogue.get(number).map(|found| found.name), Some(name));
    }
}

#[test]
fn models_are_found_by_what_drivers_report() {
    let catalogue = Catalogue::builtin();
    let check = |reported: &str, gib: u32, expected: Option<&str>| {
        let number = catalogue.number(reported, gib * 1_024);
        assert_eq!(catalogue.get(number).map(|model| model.name), expected, "{reported}");
    };
    check("NVIDIA A100-SXM4-80GB", 80, Some("A100-80GB"));
    check("NVIDIA A100-SXM4-40GB", 40, Some("A100-40GB"));
    check("NVIDIA A10", 24, Some("A10"));
    check("NVIDIA H100 PCIe", 80, Some("H100-PCIE"));
    check("NVIDIA H100 80GB HBM3", 80, Some("H100"));
    check("NVIDIA GeForce RTX 4070 Ti SUPER", 16, Some("RTX-4070-TI-SUPER"));
    check("NVIDIA GeForce RTX 4070 Ti", 12, Some("RTX-4070-TI"));
    check("NVIDIA GeForce RTX 4090 Laptop GPU", 16, Some("RTX-4090-LAPTOP"));
    check("AMD Instinct MI300X", 192, Some("MI300X"));
    check("Intel(R) Arc(TM) A770 Graphics", 16, Some("ARC-A770"));
    check("Apple M3 Max", 128, Some("M3-MAX"));
    check("llvmpipe", 1, None);
    assert_eq!(catalogue.number("llvmpipe", 1), UNLISTED);
}

#[test]
fn names_that_people_type_are_sets_of_models() {
    let catalogue = Catalogue::builtin();
    let names = |asked: &str| -> Vec<&str> {
        let found = catalogue.asked(asked);
        let models = (0..UNLISTED).zip(catalogue.models());
        models.filter(|(it, _)| found.contains(*it)).map(|(_, model)| model.name).collect()
    };
    assert_eq!(names("a100"), ["A100-80GB", "A100-40GB"]);
    assert_eq!(names("A100-80GB"), ["A100-80GB"]);
    assert_eq!(names("rtx4090"), ["RTX-4090", "RTX-4090-LAPTOP"]);
    assert_eq!(names("tpu v5e"), ["TPU-V5E"]);
    assert_eq!(names("A1"), Vec::<&str>::new());
}

#[test]
fn claims_beyond_the_model_are_not_plausible() {
    let catalogue = Catalogue::builtin();
    let number = catalogue.number("NVIDIA GeForce RTX 4090", 24 * 1_024);
    assert!(catalogue.is_plausible(number, 24_564));
    assert!(!catalogue.is_plausible(number, 80 * 1_024));
    assert!(catalogue.is_plausible(UNLISTED, u32::MAX), "of others nothing is known");
    let model = catalogue.get(number).expect("listed");
    assert_eq!((model.kind, model.tier), (DeviceKind::Gpu, Tier::Consumer));
}

#[test]
fn rows_that_are_none_are_refused() {
    fn check(text: &str, line: usize, fault: Fault) {
        // Tables live as long as the program.
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        let refused = Catalogue::parse(text).map(|catalogue| catalogue.models().len());
        assert_eq!(refused, Err(CatalogueError { line, fault }), "{text}");
    }
    assert_eq!(Catalogue::parse(ROW).map(|catalogue| catalogue.models().len()), Ok(1));
    check(&format!("# a remark\n{ROW}\n{ROW}"), 3, Fault::Repeated);
    check("X1|X 1|maker|gpu", 1, Fault::Fields);
    for (from, to, fault) in [
        ("X1|", "|", Fault::Text),
        ("X1|", "X1 |", Fault::Text),
        ("gpu", "cpu", Fault::Kind),
        ("consumer", "toy", Fault::Tier),
        ("|24|", "|0|", Fault::Number),
        ("|24|", "|+24|", Fault::Number),
        ("|24|", "|2048|", Fault::Number),
        ("|330|", "|-1|", Fault::Number),
        ("|330|", "|99999999999|", Fault::Number),
        ("half", "half half", Fault::Ability),
        ("half", "magic", Fault::Ability),
        ("|-", "|mig8", Fault::Split),
    ] {
        check(&ROW.replacen(from, to, 1), 1, fault);
    }
    let many: Vec<String> = (0..256).map(|it| ROW.replacen("X1", &format!("X{it}"), 1)).collect();
    check(&many.join("\n"), 256, Fault::Many);
}
