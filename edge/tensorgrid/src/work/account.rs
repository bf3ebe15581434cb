//! What a node of this machine has earned and what its work has taken, over all of its starts. The
//! chain knows the balance; that includes money which came from elsewhere, and it knows nothing of
//! electricity. So `provide` keeps an account in a small file, and `earnings` shows it.

use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tg_agent::agent::Deeds;
use tg_provider::{
    devices::Catalogue,
    power::{Earnings, Energy, EnergyBasis, JobEnergy, PowerPrice, TgridRate},
};
use tg_types::Amount;

/// How the energy of work is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Basis {
    /// The devices tell what they draw.
    Measured,
    /// The owner has said it, or the devices tell what they may draw at most.
    Rated,
    /// Nobody knows.
    #[default]
    Unknown,
}

/// What a machine draws while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) power_mw: u32,
    pub(crate) basis: Basis,
}

impl Draw {
    /// What the devices of this machine tell; what the owner says if they tell nothing.
    pub(crate) fn of(catalogue: &Catalogue, watts: Option<u32>) -> Self {
        let sum = |of: fn(&tg_provider::devices::DeviceFacts) -> Option<u32>| {
            let devices = catalogue.devices().iter();
            devices.map(of).try_fold(0_u32, |sum, power| Some(sum.saturating_add(power?)))
        };
        let measured = sum(|facts| facts.power_mw).map(|power_mw| (power_mw, Basis::Measured));
        let said = watts.map(|watts| (watts.saturating_mul(1_000), Basis::Rated));
        let rated = || sum(|facts| facts.power_limit_mw).map(|limit| (limit, Basis::Rated));
        let known = measured.or(said).or_else(rated);
        let (power_mw, basis) = known.unwrap_or((0, Basis::Unknown));
        Self { power_mw, basis }
    }
}

/// The account of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    /// What was paid for runs and checks, in base units.
    earned: u64,
    /// What was lost in fines and slashes, in base units.
    lost: u64,
    /// How long something was computed.
    worked_ms: u64,
    /// What that took, in thousandths of a joule.
    energy_mj: u64,
    basis: Basis,
    /// The price of energy that was given last, as people write it.
    power_cost: Option<String>,
}

impl Account {
    /// Reads an account; an empty one if there is none yet.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        let new = path.with_extension("new");
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&new, bytes)?;
        fs::rename(new, path)
    }

    /// Adds time in which something was computed.
    fn work(&mut self, time: Duration, draw: Draw) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.worked_ms = self.worked_ms.saturating_add(millis);
        let energy = Energy::of_power(draw.power_mw, millis);
        self.energy_mj = Energy::millijoules(self.energy_mj).plus(energy).get();
        self.basis = draw.basis;
    }

    /// How long something was computed.
    pub(crate) const fn worked(&self) -> Duration {
        Duration::from_millis(self.worked_ms)
    }

    /// What was lost in fines and slashes.
    pub(crate) fn lost(&self) -> Amount {
        Amount::new(self.lost).unwrap_or(Amount::CAP)
    }

    /// How the energy is known.
    pub(crate) const fn basis(&self) -> Basis {
        self.basis
    }

    /// What was earned, and what it took and cost, as far as it can be told.
    pub(crate) fn earnings(&self, prices: Prices) -> Earnings {
        let basis = match self.basis {
            Basis::Measured => Some(EnergyBasis::Measured),
            Basis::Rated => Some(EnergyBasis::Rated),
            Basis::Unknown => None,
        };
        let energy = Energy::millijoules(self.energy_mj);
        let energy = basis.map(|basis| JobEnergy { energy, basis });
        let income = Amount::new(self.earned).unwrap_or(Amount::CAP);
        let last = || self.power_cost.as_ref().and_then(|price| price.parse().ok());
        Earnings::new(income, energy, prices.power.or_else(last), prices.tgrid)
    }
}

/// What energy costs and a TGRID is worth, in the owner's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prices {
    pub(crate) power: Option<PowerPrice>,
    pub(crate) tgrid: Option<TgridRate>,
}

/// The account of a node that works.
pub(crate) struct AccountKeeper {
    path: PathBuf,
    account: Account,
    written: Account,
    /// What the agent had told when it was last looked at.
    told: Deeds,
}

impl AccountKeeper {
    /// Goes on with an account.
    pub(crate) fn open(path: PathBuf, price: Option<PowerPrice>) -> io::Result<Self> {
        let written = Account::read(&path)?;
        let mut account = written.clone();
        account.power_cost = price.map(|price| price.to_string()).or(account.power_cost);
        Ok(Self { path, account, written, told: Deeds::default() })
    }

    /// Adds what has happened in the time since the last call.
    pub(crate) fn add(&mut self, deeds: Deeds, time: Duration, draw: Draw) {
        let more = |now: Amount, before: Amount| now.units().saturating_sub(before.units());
        self.account.earned =
            self.account.earned.saturating_add(more(deeds.earned, self.told.earned));
        self.account.lost = self.account.lost.saturating_add(more(deeds.lost, self.told.lost));
        if deeds.is_busy {
            self.account.work(time, draw);
        }
        self.told = deeds;
    }

    /// Writes the account, if there is anything new.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        if self.account != self.written {
            self.account.write(&self.path)?;
            self.written = self.account.clone();
        }
        Ok(())
    }
}

/// Where the account of a node is.
pub(crate) fn path(state: &Path, name: &tg_types::ChainId) -> PathBuf {
    state.join(format!("account-{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::{Account, AccountKeeper, Basis, Draw, Prices};
    use crate::files::TemporaryFolder;
    use std::{fs, time::Duration};
    use tg_agent::agent::Deeds;
    use tg_provider::power::TgridRate;
    use tg_types::Amount;

    #[test]
    fn account_goes_on_over_restarts_and_counts_nothing_twice() {
        let folder = TemporaryFolder::new().expect("a folder");
        let path = folder.path().join("state").join("account.json");
        let draw = Draw { power_mw: 100_000, basis: Basis::Rated };
        let deeds = |earned, is_busy| Deeds {
            earned: Amount::constant(earned),
            is_busy,
            ..Deeds::default()
        };
        for _ in 0..2 {
            let mut keeper = AccountKeeper::open(path.clone(), None).expect("an account");
            keeper.add(deeds(1_000, true), Duration::from_secs(18), draw);
            keeper.add(deeds(1_000, true), Duration::from_secs(18), draw);
            keeper.add(deeds(1_500, false), Duration::from_secs(99), draw);
            keeper.save().expect("writes");
        }
        let account = Account::read(&path).expect("an account");
        assert_eq!(account.worked(), Duration::from_secs(72));
        let prices = Prices {
            power: Some("0.50/kWh".parse().expect("a price")),
            tgrid: Some(TgridRate("1000".parse().expect("a rate"))),
        };
        let earnings = account.earnings(prices);
        assert_eq!(earnings.income, Amount::constant(3_000));
        // 100 W for 72 s are 7.2 kJ, the five-hundredth part of a kWh.
        assert_eq!(earnings.cost.map(|cost| cost.to_string()).as_deref(), Some("0.001000"));
        // 3,000 base units are 3 millionths of a TGRID.
        assert_eq!(earnings.net.map(|net| net.to_string()).as_deref(), Some("0.002000"));
        assert_eq!(account.earnings(Prices::default()).net, None);
    }

    #[test]
    fn damaged_account_is_an_error_and_stays() {
        let folder = TemporaryFolder::new().expect("a folder");
        let path = folder.path().join("account.json");
        fs::write(&path, "{\"earned\":1").expect("writes");
        assert!(AccountKeeper::open(path.clone(), None).is_err());
        assert_eq!(fs::read_to_string(&path).expect("reads"), "{\"earned\":1");
        let none = Account::read(&folder.path().join("none.json")).expect("an empty one");
        assert_eq!(none, Account::default());
        assert_eq!(none.earnings(Prices::default()).energy, None);
    }
}
