//! `catalogue`: which accelerators are known by name. Nothing is asked of a network.

use crate::{
    args::CatalogueArguments,
    failure::{Exit, Failure},
    printer::{Printer, table},
};
use serde::Serialize;
use tg_scheduler::catalogue::{Catalogue, Model};

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    /// What drivers report of it.
    words: &'static str,
    maker: &'static str,
    kind: String,
    tier: &'static str,
    memory_mib: u32,
    /// In 10^9 bytes per second.
    bandwidth: u32,
    /// In 10^12 operations per second; 0 if not stated.
    half_rate: u32,
    /// In 10^12 operations per second; 0 if not stated.
    int8_rate: u32,
}

impl From<&Model> for Listed {
    fn from(model: &Model) -> Self {
        let Model { name, words, maker, kind, tier, memory_mib, .. } = *model;
        let Model { bandwidth, half_rate, int8_rate, .. } = *model;
        let (kind, tier) = (kind.name().to_lowercase(), tier.name());
        Self { name, words, maker, kind, tier, memory_mib, bandwidth, half_rate, int8_rate }
    }
}

/// Lists all accelerators, or those that a name may mean.
pub(super) fn run(arguments: &CatalogueArguments, printer: &Printer) -> Result<Exit, Failure> {
    let catalogue = Catalogue::shared();
    let meant = arguments.name.as_deref().map(|name| catalogue.names_of(name, 0));
    if let (Some([]), Some(name)) = (meant.as_deref(), &arguments.name) {
        let near = catalogue.near(name).join(", ");
        return Err(Failure::misuse(
            format!("no accelerator of the catalogue is called {name}"),
            format!("did you mean one of {near}? `tensorgrid catalogue` lists all"),
        ));
    }
    let is_meant = |model: &&Model| meant.as_ref().is_none_or(|meant| meant.contains(&model.name));
    let listed: Vec<Listed> =
        catalogue.models().iter().filter(is_meant).map(Listed::from).collect();
    let rate = |rate: u32| if rate == 0 { "-".to_owned() } else { rate.to_string() };
    let row = |it: &Listed| {
        let memory = format!("{}", it.memory_mib / 1_024);
        let name = it.name.to_owned();
        let (maker, tier, words) = (it.maker.to_owned(), it.tier.to_owned(), it.words.to_owned());
        [name, maker, tier, memory, it.bandwidth.to_string(), rate(it.half_rate), words]
    };
    let rows: Vec<[String; 7]> = listed.iter().map(row).collect();
    let titles = ["name", "maker", "tier", "GiB", "GB/s", "10^12/s half", "drivers say"];
    printer.result(&listed, || table(titles, &rows));
    Ok(Exit::Done)
}
