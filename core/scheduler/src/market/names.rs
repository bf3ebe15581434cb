//! Names of devices, each looked up once for all markets of a block.

use super::STEPS_PER_COMPARISON;
use crate::catalogue::{Catalogue, UNLISTED};
use crate::pace::DeviceClass;
use crate::packing::Models;
use crate::{Meter, is_of_model};
use std::collections::BTreeMap;
use tg_types::{Device, DeviceKind, Name};

/// Names that are told apart: a bound on look-ups. Devices with others count as not listed.
const NAMES_MAX: usize = 1_024;

/// What devices are called, and what that means.
#[derive(Debug)]
pub struct Names {
    catalogue: Catalogue,
    known: BTreeMap<Name, u16>,
    rows: Vec<Rows>,
    /// How often there was something new.
    version: usize,
    /// What was asked for and what that may be, with the version that was looked at.
    asked: BTreeMap<Name, (usize, Meant)>,
}

/// What goes under one name.
#[derive(Clone, Debug)]
struct Rows {
    /// The rows of the catalogue that have the name; `None` until somebody needs them.
    rows: Option<Vec<u8>>,
    /// Under which numbers such devices stand in the index.
    used: Models,
}

/// What somebody who asks by name may mean.
#[derive(Clone, Debug)]
pub(super) struct Meant {
    /// By the numbers of names.
    names: Vec<bool>,
    pub(super) models: Models,
}

impl Meant {
    /// Whether a name may be meant: one that has no number of its own may.
    pub(super) fn has(&self, name: u16) -> bool {
        self.names.get(usize::from(name)).copied().unwrap_or(true)
    }
}

impl Default for Names {
    fn default() -> Self {
        let catalogue = Catalogue::builtin();
        let (known, rows, asked) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Self { catalogue, known, rows, version: 0, asked }
    }
}

impl Names {
    /// The numbers of a device's name and model. A memory that no such device has makes it one that
    /// is not listed.
    pub(super) fn of(&mut self, device: &Device, memory_mib: u32) -> (u16, u8) {
        let number = match self.known.get(&device.model) {
            Some(number) => *number,
            None if self.rows.len() >= NAMES_MAX => return (u16::MAX, UNLISTED),
            None => {
                let number = u16::try_from(self.rows.len()).unwrap_or(u16::MAX);
                self.known.insert(device.model.clone(), number);
                self.rows.push(Rows { rows: None, used: Models::NONE });
                number
            }
        };
        let known = &mut self.rows[usize::from(number)];
        let catalogue = &self.catalogue;
        let rows = match device.kind {
            DeviceKind::Cpu => &[], // the catalogue has none
            DeviceKind::Gpu | DeviceKind::Accelerator => {
                let named = || catalogue.named(device.model.as_str());
                known.rows.get_or_insert_with(named).as_slice()
            }
        };
        let model = DeviceClass::of_rows(catalogue, device.kind, rows, memory_mib).model;
        if !known.used.contains(model) {
            known.used = known.used.with(model);
            self.version += 1;
        }
        (number, model)
    }

    /// What may be meant.
    pub(super) fn meant(&mut self, asked: &Name, meter: &Meter) -> Meant {
        if let Some((_, known)) =
            self.asked.get(asked).filter(|(version, _)| *version == self.version)
        {
            return known.clone();
        }
        meter.add(self.rows.len() * STEPS_PER_COMPARISON);
        let mut names = vec![false; self.rows.len()];
        // Devices whose names are not told apart may be meant too.
        let is_full = self.rows.len() >= NAMES_MAX;
        let mut bits = if is_full { Models::NONE.with(UNLISTED) } else { Models::NONE }.bits();
        for (_, number) in self.known.iter().filter(|(name, _)| is_of_model(asked, name)) {
            names[usize::from(*number)] = true;
            let used = self.rows[usize::from(*number)].used.bits();
            bits.iter_mut().zip(used).for_each(|(bits, used)| *bits |= used);
        }
        let meant = Meant { names, models: Models::of_bits(bits) };
        self.asked.insert(asked.clone(), (self.version, meant.clone()));
        meant
    }
}
