//! What providers are told is what placements do.

use super::{Contest, Gain, Standing, highest_at, quarter_octaves};
use crate::index::ScorePart as Part;
use crate::market::tests::{
    among, made_for, offer_of, random_job, random_mix, random_node, random_paces,
};
use crate::pace::Paces;
use crate::tests::{ask, descriptor, device, name, offer, owner, spec};
use crate::{Ask, GpuMix, Offer, Pricing, Rule, fit};
use tg_types::{Amount, Bps, DeviceKind, NodeDescriptor, RegionAsk};

fn gpu(price: u64) -> NodeDescriptor {
    descriptor(device(DeviceKind::Gpu, "NVIDIA GeForce RTX 4090", 24_000), price)
}

#[test]
fn highest_number_of_a_step_is_the_last_before_the_next() {
    for quarters in 8..200 {
        let highest = highest_at(quarters);
        assert_eq!(quarter_octaves(highest), quarters, "{quarters}");
        assert_eq!(quarter_octaves(highest + 1), quarters + 1, "{quarters}");
    }
    assert_eq!((highest_at(-1), highest_at(0)), (0, 1));
    assert_eq!(highest_at(400), u64::MAX);
}

#[test]
fn node_learns_what_it_lacks_and_which_price_would_win() {
    let (cheap, dear) = (gpu(400), gpu(800));
    let (spec, paces) = (spec(), Paces::default());
    let ask = ask(&spec);
    let offers = [offer(1, &cheap), offer(2, &dear)];
    let (given, mix) = (None, &GpuMix::default());
    let contest = Contest { ask: &ask, paces: &paces, offers: &offers, given, mix };
    assert_eq!(contest.standing(0), Some(Standing::Best { equals: 0 }));
    assert_eq!(contest.gain(0), None);
    let Some(Standing::Behind { best: 0, its, own }) = contest.standing(1) else {
        panic!("{:?}", contest.standing(1));
    };
    assert_eq!(its.part(Part::Price) - own.part(Part::Price), 12, "an octave of price");
    assert_eq!(its.part(Part::Load), own.part(Part::Load));
    let Some(Gain::Price(Pricing::Hour, price)) = contest.gain(1) else {
        panic!("{:?}", contest.gain(1));
    };
    assert!((400..450).contains(&price.units()), "{price:?}");
    assert_eq!(contest.standing(2), None);
}

#[test]
fn node_far_from_the_client_is_behind_by_its_region() {
    let (here, far) = (gpu(400), NodeDescriptor { region: name("us"), ..gpu(400) });
    let (mut spec, paces) = (spec(), Paces::default());
    spec.needs.region = RegionAsk::Near { region: here.region.clone() };
    let ask = ask(&spec);
    let offers = [offer(1, &here), offer(2, &far)];
    let (given, mix) = (None, &GpuMix::default());
    let contest = Contest { ask: &ask, paces: &paces, offers: &offers, given, mix };
    let Some(Standing::Behind { best: 0, its, own }) = contest.standing(1) else {
        panic!("{:?}", contest.standing(1));
    };
    assert_eq!(its.total() - own.total(), its.part(Part::Region) - own.part(Part::Region));
    assert_eq!(its.part(Part::Region) - own.part(Part::Region), 6);
    assert!(matches!(contest.gain(1), Some(Gain::Price(..))), "{:?}", contest.gain(1));
}

#[test]
fn rule_and_the_stake_that_is_lacking_are_named() {
    let (one, other) = (gpu(400), gpu(5_000));
    let (spec, paces) = (spec(), Paces::default());
    let ask = Ask { bond: Amount::constant(1_000), ..ask(&spec) };
    let poor = Offer { stake_free: Amount::constant(400), ..offer(1, &one) };
    let busy = Offer { running: one.slots, ..offer(3, &one) };
    let offers = [poor, offer(2, &other), busy];
    let (given, mix) = (None, &GpuMix::default());
    let contest = Contest { ask: &ask, paces: &paces, offers: &offers, given, mix };
    assert_eq!(contest.standing(0), Some(Standing::Removed(Rule::Stake)));
    assert_eq!(contest.gain(0), Some(Gain::Stake(Amount::constant(600))));
    assert_eq!(contest.standing(1), Some(Standing::Removed(Rule::Price)));
    let most = spec.pay.units();
    let gain = contest.gain(1);
    assert!(matches!(gain, Some(Gain::Price(_, price)) if price.units() <= most), "{gain:?}");
    assert_eq!((contest.standing(2), contest.gain(2)), (Some(Standing::Removed(Rule::Busy)), None));
}

#[test]
fn node_is_held_against_the_one_that_was_given_the_run() {
    let same = gpu(400);
    let doubted = Offer { reputation: Bps::ZERO, ..offer(2, &same) };
    let (spec, paces) = (spec(), Paces::default());
    let ask = ask(&spec);
    let offers = [offer(1, &same), doubted, offer(3, &same)];
    let (given, mix) = (Some(0), &GpuMix::default());
    let contest = Contest { ask: &ask, paces: &paces, offers: &offers, given, mix };
    assert_eq!(contest.standing(2), Some(Standing::Best { equals: 1 }));
    let Some(Standing::Behind { best: 0, its, own }) = contest.standing(1) else {
        panic!("{:?}", contest.standing(1));
    };
    assert!(its.part(Part::Reputation) > own.part(Part::Reputation));
    assert_eq!(its.total() - own.total(), its.part(Part::Reputation) - own.part(Part::Reputation));
}

/// Goal: nobody is told another story than what happens: whoever is placed is best by the score
/// that is shown, and a change that is named wins. Method: random fleets and jobs.
#[test]
fn prop_shown_score_is_the_one_by_which_runs_are_placed() {
    arbtest::arbtest(|u| {
        let mut nodes = Vec::new();
        for _ in 0..u.int_in_range(1..=8)? {
            nodes.push(random_node(u)?);
        }
        let stakes = [90_000; 5];
        let offers: Vec<Offer<'_>> = nodes.iter().map(|node| offer_of(node, &stakes)).collect();
        let ((spec, facts), mix) = (random_job(u)?, random_mix(u)?);
        let (excluded, paces) = ([owner(u.int_in_range(1..=9)?)], random_paces(u)?);
        let ask = Ask { facts: facts.as_ref(), excluded: &excluded, ..ask(&spec) };
        let pricing = Pricing::of_job(&spec, ask.facts);
        let market = made_for(&ask, &mix, offers.iter().copied());
        let found = among(market, (&ask, &paces), u.arbitrary()?, &offers);
        let (offers, given) = (offers.as_slice(), None);
        let contest = Contest { ask: &ask, paces: &paces, offers, given, mix: &mix };
        for (number, offer) in offers.iter().enumerate() {
            let standing = contest.standing(number).expect("it is there");
            let is_best = matches!(standing, Standing::Best { .. });
            let is_removed =
                matches!(standing, Standing::Removed(rule) if fit(&ask, offer) == Err(rule));
            assert_eq!(is_removed, fit(&ask, offer).is_err());
            if found.is_some_and(|found| found.number == number) {
                assert!(is_best || standing == Standing::Aside, "{standing:?} {offers:?}");
            }
            if let Some(Gain::Price(_, price)) = contest.gain(number) {
                assert!(price <= pricing.of(offer.descriptor), "{price:?}");
            }
        }
        Ok(())
    });
}
