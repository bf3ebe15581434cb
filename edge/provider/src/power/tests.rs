//! Tests of prices and energy, with the arithmetic done a second time in other units.

use super::{
    Decimal, Earnings, Energy, EnergyBasis, EnergyMeter, JobEnergy, Money, PowerPrice, PowerSample,
    PriceError, SampleError, TgridRate,
};
use crate::testing::noise;
use tg_types::Amount;

fn price(text: &str) -> PowerPrice {
    text.parse().expect("a price")
}

fn rate(text: &str) -> TgridRate {
    TgridRate(text.parse().expect("a rate"))
}

fn measured(millijoules: u64) -> Option<JobEnergy> {
    Some(JobEnergy { energy: Energy::millijoules(millijoules), basis: EnergyBasis::Measured })
}

const KWH: u64 = 3_600_000_000;

#[test]
fn prices_are_read_and_shown() {
    assert_eq!(price("0.30/kWh").per_kwh().micros(), 300_000);
    assert_eq!(price("0.3 / kwh").to_string(), "0.30/kWh");
    assert_eq!(price("27/KWH").to_string(), "27.00/kWh");
    assert_eq!(price("0.000001/kWh").to_string(), "0.000001/kWh");
    assert_eq!(price("999999999.999999/kWh").to_string(), "999999999.999999/kWh");
}

#[test]
fn prices_of_another_form_are_refused() {
    let error = |text: &str| text.parse::<PowerPrice>().expect_err(text);
    for text in ["", "0.30", "0.30/MWh", "0.30/kWh/h", "kWh/0.30"] {
        assert!(matches!(error(text), PriceError::Unit { .. }), "{text}");
    }
    for text in ["/kWh", "./kWh", "1./kWh", ".5/kWh", "-1/kWh", "0,30/kWh", "1e3/kWh", "$1/kWh"] {
        assert!(matches!(error(text), PriceError::Number { .. }), "{text}");
    }
    assert!(matches!(error("0.0000001/kWh"), PriceError::Number { .. }));
    for text in ["1000000000/kWh", "99999999999999999999/kWh"] {
        assert!(matches!(error(text), PriceError::TooLarge { .. }), "{text}");
    }
}

#[test]
fn prop_any_number_is_refused_or_shown_as_it_is() {
    arbtest::arbtest(|u| {
        let text = noise(u, &["0", "1", "9", ".", "000", "-", "+", " "])?;
        if let Ok(number) = text.parse::<Decimal>() {
            assert_eq!(number.to_string().parse(), Ok(number), "{text}");
        }
        let number = Decimal { micros: u.int_in_range(0..=999_999_999_999_999)? };
        assert_eq!(number.to_string().parse(), Ok(number));
        Ok(())
    });
}

#[test]
fn energy_is_power_by_time() {
    assert_eq!(Energy::of_power(450_000, 3_600_000).to_string(), "0.450000 kWh");
    assert_eq!(Energy::of_power(1, 999), Energy::ZERO);
    assert_eq!(Energy::of_power(u32::MAX, u64::MAX).get(), u64::MAX);
}

#[test]
fn cost_of_a_kwh_is_its_price() {
    let cost = Energy::millijoules(KWH).cost(price("0.30/kWh"));
    assert_eq!(cost.to_string(), "0.300000");
    assert_eq!(Energy::millijoules(1).cost(price("0.30/kWh")).micros_floor(), 0);
    assert_eq!(Energy::millijoules(1).cost(price("0.30/kWh")).micros_ceil(), 1);
    assert_eq!(Energy::ZERO.cost(price("0.30/kWh")).micros_ceil(), 0);
    let most = Energy::millijoules(u64::MAX).cost(price("999999999.999999/kWh"));
    assert!(most.micros_floor() > 0, "the largest cost fits");
}

#[test]
fn net_earnings_need_a_rate() {
    let income = Amount::tgrid(2).expect("two");
    let all = Earnings::new(income, measured(KWH), Some(price("0.30/kWh")), Some(rate("0.25")));
    assert_eq!(all.net.map(|net| net.to_string()).as_deref(), Some("0.200000"));
    let without_rate = Earnings::new(income, measured(KWH), Some(price("0.30/kWh")), None);
    assert_eq!(without_rate.net, None);
    assert_eq!(without_rate.cost.map(|cost| cost.to_string()).as_deref(), Some("0.300000"));
    let without_price = Earnings::new(income, measured(KWH), None, Some(rate("0.25")));
    assert_eq!((without_price.cost, without_price.net), (None, None));
    let without_energy = Earnings::new(income, None, Some(price("0.30/kWh")), Some(rate("0.25")));
    assert_eq!((without_energy.cost, without_energy.net), (None, None));
}

#[test]
fn loss_is_shown_as_one() {
    let dear = Earnings::new(Amount::ZERO, measured(KWH), Some(price("0.30/kWh")), Some(rate("1")));
    assert_eq!(dear.net.map(|net| net.to_string()).as_deref(), Some("-0.300000"));
    let little = Money::default().minus(Energy::millijoules(1).cost(price("0.30/kWh")));
    assert_eq!(little.to_string(), "-0.000001", "rounded to the worse side");
}

/// Goal: net earnings are exact. Method: the same sums with one common denominator.
#[test]
fn prop_net_is_income_without_cost_exactly() {
    arbtest::arbtest(|u| {
        let units = u.int_in_range(0..=Amount::CAP.units())?;
        let millijoules = u.arbitrary::<u64>()?;
        let per_kwh = u.int_in_range(0..=1_000_000_000_u64)?;
        let per_tgrid = u.int_in_range(0..=1_000_000_000_u64)?;
        let earnings = Earnings::new(
            Amount::new(units).expect("within the cap"),
            measured(millijoules),
            Some(PowerPrice(Decimal { micros: per_kwh })),
            Some(TgridRate(Decimal { micros: per_tgrid })),
        );
        // In units of 10^-15 / 3.6 * 10^9 of the currency there is no fraction at all.
        let (nano, kwh) = (1_000_000_000_i128, i128::from(KWH));
        let income = i128::from(units) * i128::from(per_tgrid) * kwh;
        let cost = i128::from(millijoules) * i128::from(per_kwh) * nano;
        let expected = (income - cost).div_euclid(nano * kwh);
        assert_eq!(earnings.net.map(Money::micros_floor), Some(expected));
        Ok(())
    });
}

#[test]
fn meter_takes_power_to_change_evenly() {
    let mut meter = EnergyMeter::start(1_000);
    // 100 W for 1 s before the first sample, 200 W on average for 2 s, 300 W for 1 s at the end.
    for (at_ms, power_mw) in [(2_000, 100_000), (4_000, 300_000)] {
        meter.add(PowerSample { at_ms, power_mw }).expect("in order");
    }
    let found = meter.finish(5_000, Some(1)).expect("in order").expect("measured");
    assert_eq!(found.energy.get(), 100_000 + 400_000 + 300_000);
    assert_eq!(found.basis, EnergyBasis::Measured);
}

#[test]
fn meter_without_samples_takes_the_rated_power() {
    let meter = EnergyMeter::start(0);
    let found = meter.finish(2_000, Some(65_000)).expect("in order").expect("rated");
    assert_eq!((found.energy.get(), found.basis), (130_000, EnergyBasis::Rated));
    assert_eq!(meter.finish(2_000, None), Ok(None));
}

#[test]
fn sample_of_the_past_is_refused_and_changes_nothing() {
    let mut meter = EnergyMeter::start(10);
    let early = PowerSample { at_ms: 9, power_mw: 5 };
    assert_eq!(meter.add(early), Err(SampleError::Backwards { at_ms: 9, last_ms: 10 }));
    assert_eq!(meter, EnergyMeter::start(10));
    meter.add(PowerSample { at_ms: 20, power_mw: 5 }).expect("in order");
    let before = meter;
    let late = PowerSample { at_ms: 19, power_mw: 5 };
    assert_eq!(meter.add(late), Err(SampleError::Backwards { at_ms: 19, last_ms: 20 }));
    assert_eq!(meter, before);
    assert!(meter.finish(19, None).is_err());
    assert!(EnergyMeter::start(10).finish(9, Some(1)).is_err());
}

/// Goal: energy lies between what the least and the most power would give, and a sample that says
/// what was known anyway changes nothing. Method: random samples, one put in between.
#[test]
fn prop_energy_is_within_the_samples() {
    arbtest::arbtest(|u| {
        let mut at_ms = u.int_in_range(0..=1_000_000_u64)?;
        let started = at_ms;
        let mut meter = EnergyMeter::start(started);
        let mut finer = meter;
        let (mut least, mut most) = (u32::MAX, 0);
        let mut last: Option<PowerSample> = None;
        for _ in 0..u.int_in_range(1..=20)? {
            at_ms += 2 * u.int_in_range(0..=10_000_u64)?;
            let power_mw = 2 * u.int_in_range(0..=1_000_000_u32)?;
            (least, most) = (least.min(power_mw), most.max(power_mw));
            let sample = PowerSample { at_ms, power_mw };
            if let Some(last) = last {
                let between = PowerSample {
                    at_ms: (last.at_ms + at_ms) / 2,
                    power_mw: (last.power_mw + power_mw) / 2,
                };
                if (last.at_ms + at_ms) % 2 == 0 {
                    finer.add(between).expect("in order");
                }
            }
            meter.add(sample).expect("in order");
            finer.add(sample).expect("in order");
            last = Some(sample);
        }
        let end = at_ms + u.int_in_range(0..=10_000_u64)?;
        let energy = |meter: EnergyMeter| {
            meter.finish(end, None).expect("in order").expect("measured").energy
        };
        assert_eq!(energy(meter), energy(finer));
        assert!(Energy::of_power(least, end - started) <= energy(meter));
        assert!(energy(meter) <= Energy::of_power(most, end - started));
        Ok(())
    });
}
