//! Accelerators of all makers: what a device of a model has and can do, as data.
//!
//! The table orders models (a training run belongs on a flagship, a small inference on a consumer
//! card), bounds what a node may claim, and says how a GPU splits. It credits nobody with anything:
//! work is given by what was measured. Ledger entries name models by number, so rows are only ever
//! added at the end.

mod wanted;

pub use wanted::{Unclear, Wanted};

use crate::model::has_words;
use crate::packing::Models;
use std::fmt;
use std::sync::LazyLock;
use tg_types::DeviceKind;

/// The table that comes with this version.
const TABLE: &str = include_str!("catalogue/catalogue.txt");
/// The most rows: a model's number is a byte, and the last one stands for all models not listed.
pub const ROWS_MAX: usize = 255;
/// The number of models that are not listed.
pub const UNLISTED: u8 = u8::MAX;
/// A memory may be stated this much larger than the table has it, in percent: drivers count in
/// other units, and some cards have been given more.
const MEMORY_PERCENT_MAX: u64 = 110;
const MIB_PER_GIB: u32 = 1_024;

/// How sought after devices are, from the most common to the rarest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Small and old cards, and accelerators of notebooks.
    Entry,
    /// Cards for players.
    Consumer,
    /// Cards for professionals.
    Workstation,
    /// Cards of data centres.
    Datacentre,
    /// What large models are trained on.
    Flagship,
}

impl Tier {
    const ALL: [Self; 5] =
        [Self::Entry, Self::Consumer, Self::Workstation, Self::Datacentre, Self::Flagship];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Consumer => "consumer",
            Self::Workstation => "workstation",
            Self::Datacentre => "datacentre",
            Self::Flagship => "flagship",
        }
    }

    /// Its place, from 0 to 4.
    pub const fn place(self) -> i32 {
        self as i32
    }
}

/// How a device splits into parts that do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// It does not.
    None,
    /// Into four, as an A30 does.
    Mig4,
    /// Into seven, as an A100 does.
    Mig7,
}

/// Kinds of numbers and units that a device is fast with: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Abilities(u8);

impl Abilities {
    /// Nothing special.
    pub const NONE: Self = Self(0);
    /// Matrix units.
    pub const TENSOR: Self = Self(1);
    /// IEEE numbers of 16 bits.
    pub const HALF: Self = Self(1 << 1);
    /// Numbers of 16 bits with the range of 32.
    pub const BF16: Self = Self(1 << 2);
    /// Integers of 8 bits.
    pub const INT8: Self = Self(1 << 3);
    /// Numbers of 8 bits.
    pub const FP8: Self = Self(1 << 4);
    /// Numbers of 4 bits.
    pub const FP4: Self = Self(1 << 5);

    const ALL: [(Self, &'static str); 6] = [
        (Self::TENSOR, "tensor"),
        (Self::HALF, "half"),
        (Self::BF16, "bf16"),
        (Self::INT8, "int8"),
        (Self::FP8, "fp8"),
        (Self::FP4, "fp4"),
    ];

    /// Both together.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Whether all of `needed` are there.
    pub const fn contains(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with these bits; `None` if one has no meaning.
    pub fn of_bits(bits: u8) -> Option<Self> {
        let known = Self::ALL.into_iter().fold(Self::NONE, |all, (one, _)| all.with(one));
        known.contains(Self(bits)).then_some(Self(bits))
    }
}

/// A model of accelerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name here.
    pub name: &'static str,
    /// Words of the name that drivers report.
    pub words: &'static str,
    /// Who makes it.
    pub maker: &'static str,
    /// What kind of device it is.
    pub kind: DeviceKind,
    /// How sought after it is.
    pub tier: Tier,
    /// Memory of one.
    pub memory_mib: u32,
    /// Bandwidth of that memory, in 10^9 bytes per second.
    pub bandwidth: u32,
    /// Operations on numbers of 16 bits, in 10^12 per second; 0 if not stated.
    pub half_rate: u32,
    /// Operations on integers of 8 bits, in 10^12 per second; 0 if not stated.
    pub int8_rate: u32,
    /// What it can do.
    pub abilities: Abilities,
    /// How it splits.
    pub split: Split,
}

/// Why a table is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not as many fields as a row has.
    Fields,
    /// A name or word that is empty or has blanks at its ends.
    Text,
    /// No kind of device.
    Kind,
    /// No tier.
    Tier,
    /// No number, or one that no device reaches.
    Number,
    /// No ability, or one named twice.
    Ability,
    /// No way to split.
    Split,
    /// A name that a row before has.
    Repeated,
    /// More rows than there are numbers.
    Many,
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {} of the catalogue: {:?}", self.line, self.fault)
    }
}

impl std::error::Error for CatalogueError {}

/// All models that are known.
#[derive(Clone, Debug)]
pub struct Catalogue {
    models: Vec<Model>,
}

impl Catalogue {
    /// The table that comes with this version.
    pub fn builtin() -> Self {
        Self::parse(TABLE).expect("the table of this version is tested")
    }

    /// The same, read once for all who ask.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Catalogue> = LazyLock::new(Catalogue::builtin);
        &SHARED
    }

    /// Reads a table.
    pub fn parse(text: &'static str) -> Result<Self, CatalogueError> {
        let mut models: Vec<Model> = Vec::new();
        for (line, row) in (1..).zip(text.lines()) {
            if row.is_empty() || row.starts_with('#') {
                continue;
            }
            let refused = |fault| CatalogueError { line, fault };
            let model = parse_row(row).map_err(refused)?;
            if models.iter().any(|other| other.name == model.name) {
                return Err(refused(Fault::Repeated));
            }
            if models.len() == ROWS_MAX {
                return Err(refused(Fault::Many));
            }
            models.push(model);
        }
        Ok(Self { models })
    }

    /// All models, by number.
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// The model with this number; `None` if it is not listed.
    pub fn get(&self, number: u8) -> Option<&Model> {
        self.models.get(usize::from(number))
    }

    /// The number of the model that a driver calls so, the one with the most words and then the
    /// nearest memory; [`UNLISTED`] if there is none.
    pub fn number(&self, reported: &str, memory_mib: u32) -> u8 {
        self.nearest(&self.named(reported), memory_mib)
    }

    /// The models that a driver may call so, those with the most words.
    pub(crate) fn named(&self, reported: &str) -> Vec<u8> {
        let named = (0..UNLISTED).zip(&self.models);
        let named = named.filter(|(_, model)| has_words(model.words, reported));
        let named: Vec<(u8, usize)> = named.map(|(it, model)| (it, model.words.len())).collect();
        let most = named.iter().map(|(_, words)| *words).max();
        named.into_iter().filter(|(_, words)| Some(*words) == most).map(|(it, _)| it).collect()
    }

    /// The one of these models with the nearest memory; [`UNLISTED`] if there is none.
    pub(crate) fn nearest(&self, numbers: &[u8], memory_mib: u32) -> u8 {
        let apart = |number: &u8| {
            let model = self.get(*number);
            (model.map(|model| model.memory_mib.abs_diff(memory_mib)), *number)
        };
        numbers.iter().copied().min_by_key(apart).unwrap_or(UNLISTED)
    }

    /// The models that somebody who asks for this may mean: `h100` is any H100, `A100-80GB` one row
    /// of the table.
    pub fn asked(&self, asked: &str) -> Models {
        let mut found = Models::NONE;
        for (number, model) in (0..UNLISTED).zip(&self.models) {
            if has_words(asked, model.name) || has_words(asked, model.words) {
                found = found.with(number);
            }
        }
        found
    }

    /// Whether a node may claim this much memory for a device of the model.
    pub fn is_plausible(&self, number: u8, memory_mib: u32) -> bool {
        self.get(number).is_none_or(|model| {
            let most = u64::from(model.memory_mib) * MEMORY_PERCENT_MAX / 100;
            u64::from(memory_mib) <= most
        })
    }
}

fn parse_row(row: &'static str) -> Result<Model, Fault> {
    let fields: Vec<&'static str> = row.split('|').collect();
    let [name, words, maker, kind, tier, memory, bandwidth, half, int8, abilities, split] =
        *fields.as_slice()
    else {
        return Err(Fault::Fields);
    };
    if [name, words, maker].iter().any(|text| text.is_empty() || text.trim() != *text) {
        return Err(Fault::Text);
    }
    let kind = match kind {
        "gpu" => DeviceKind::Gpu,
        "tpu" | "npu" => DeviceKind::Accelerator,
        _ => return Err(Fault::Kind),
    };
    let tier = Tier::ALL.into_iter().find(|it| it.name() == tier).ok_or(Fault::Tier)?;
    let split = match split {
        "-" => Split::None,
        "mig4" => Split::Mig4,
        "mig7" => Split::Mig7,
        _ => return Err(Fault::Split),
    };
    Ok(Model {
        name,
        words,
        maker,
        kind,
        tier,
        memory_mib: number(memory, 1, 1_024)? * MIB_PER_GIB,
        bandwidth: number(bandwidth, 1, 100_000_000)?,
        half_rate: number(half, 0, 1_000_000)?,
        int8_rate: number(int8, 0, 1_000_000)?,
        abilities: parse_abilities(abilities)?,
        split,
    })
}

fn number(text: &str, least: u32, most: u32) -> Result<u32, Fault> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u32 = text.parse().map_err(|_not_a_number| Fault::Number)?;
    if is_plain && (least..=most).contains(&number) { Ok(number) } else { Err(Fault::Number) }
}

fn parse_abilities(text: &str) -> Result<Abilities, Fault> {
    let mut all = Abilities::NONE;
    if text == "-" {
        return Ok(all);
    }
    for word in text.split(' ') {
        let found = Abilities::ALL.into_iter().find(|(_, name)| *name == word);
        let (one, _) = found.ok_or(Fault::Ability)?;
        if all.contains(one) {
            return Err(Fault::Ability);
        }
        all = all.with(one);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
