//! A sponge that can be made deaf, and remembers what it heard.
//!
//! In tests every transcript runs on it. Unless a [`Rule`] is set it absorbs and draws as the real
//! one does. A rule names elements, by their places in the order of absorbing, that are not
//! absorbed at all: a verifier under that rule is a mutant, and a prover under it a forger who
//! knows that these elements change no challenge. Or it moves elements, so that a prover who runs
//! an honest piece of code has absorbed what it is going to send instead.

use crate::field::{DEGREE, EF, F};
use crate::hash::Digest;
use crate::sponge::RealSponge;
use p3_challenger::{
    CanObserve, CanSample, CanSampleBits, CanSampleUniformBits, FieldChallenger,
    GrindingChallenger, ResamplingError,
};
use p3_field::BasedVectorSpace;
use p3_symmetric::MerkleCap;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// What a sponge does otherwise than the real one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    /// Places of elements that are not absorbed.
    pub(crate) deaf: BTreeSet<usize>,
    /// Nothing is absorbed behind this place, but for the work of grinding.
    pub(crate) deaf_from: Option<usize>,
    /// What is added to elements when they are absorbed.
    pub(crate) moved: BTreeMap<usize, F>,
}

impl Rule {
    /// One that does not hear these places.
    pub(crate) fn deaf(places: impl IntoIterator<Item = usize>) -> Self {
        Self { deaf: places.into_iter().collect(), ..Self::default() }
    }

    /// One that hears an element of the extension moved.
    pub(crate) fn moving(mut self, at: usize, by: EF) -> Self {
        let parts: &[F] = by.as_basis_coefficients_slice();
        self.moved.extend(parts.iter().enumerate().map(|(place, part)| (at + place, *part)));
        self
    }
}

/// What was said to a transcript, and what it answered.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Elements by place, as they were said.
    pub(crate) said: BTreeMap<usize, F>,
    /// Elements that were drawn, with the number of those said before; in order.
    pub(crate) drawn: Vec<(usize, F)>,
}

impl Log {
    /// The only place from some place on where these elements were said.
    pub(crate) fn place(&self, from: usize, elements: &[EF]) -> Range<usize> {
        let wanted: Vec<F> = elements
            .iter()
            .flat_map(|element| {
                let parts: &[F] = element.as_basis_coefficients_slice();
                parts.to_vec()
            })
            .collect();
        self.place_of(from, &wanted)
    }

    /// The same for elements of the base field.
    pub(crate) fn place_of(&self, from: usize, wanted: &[F]) -> Range<usize> {
        let said: Vec<F> = self.said.values().copied().collect();
        assert!(!wanted.is_empty() && said.len() == self.said.len());
        let at = said[from..].windows(wanted.len()).position(|window| window == wanted);
        let at = from + at.expect("it was said");
        at..at + wanted.len()
    }

    /// The first element of the extension that was drawn behind a place.
    pub(crate) fn drawn_behind(&self, place: usize) -> EF {
        let [first] = self.all_drawn_behind(place);
        first
    }

    /// The first ones.
    pub(crate) fn all_drawn_behind<const N: usize>(&self, place: usize) -> [EF; N] {
        let behind = self.drawn.iter().filter(|(at, _)| *at >= place);
        let drawn: Vec<F> = behind.map(|(_, element)| *element).take(N * DEGREE).collect();
        let element = |place: usize| drawn.get(place * DEGREE..(place + 1) * DEGREE);
        std::array::from_fn(|place| {
            let found = element(place).and_then(EF::from_basis_coefficients_slice);
            found.expect("as many were drawn")
        })
    }
}

thread_local! {
    /// The rule of transcripts that begin on this thread, and their log.
    static SET: RefCell<Option<(Rule, Arc<Mutex<Log>>)>> = const { RefCell::new(None) };
}

/// Runs a prover or verifier whose transcript follows a rule; gives what was said to it as well.
///
/// It runs in a pool of one thread: a prover moves into the pool that it finds itself in, and the
/// rule is that of a thread.
pub(crate) fn under<T: Send>(rule: &Rule, run: impl FnOnce() -> T + Send) -> (T, Log) {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let found = pool.install(|| {
        SET.with_borrow_mut(|set| *set = Some((rule.clone(), Arc::clone(&log))));
        let found = run();
        SET.with_borrow_mut(Option::take);
        found
    });
    let log = std::mem::take(&mut *log.lock().expect("nobody panicked with it"));
    (found, log)
}

/// The sponge.
#[derive(Clone, Debug)]
pub(crate) struct TestSponge {
    real: RealSponge,
    /// The rule with its log, and how many elements were said.
    follows: Option<(Arc<Rule>, Arc<Mutex<Log>>, usize)>,
}

impl TestSponge {
    /// One that does as the real one.
    pub(crate) fn new(real: RealSponge) -> Self {
        Self { real, follows: None }
    }

    /// The same, under the rule that is set, if one is.
    pub(crate) fn ruled(mut self) -> Self {
        let set = SET.with_borrow(|set| set.clone());
        self.follows = set.map(|(rule, log)| (Arc::new(rule), log, 0));
        self
    }

    fn note(&self, element: F) {
        if let Some((_, log, said)) = &self.follows {
            log.lock().expect("nobody panicked with it").drawn.push((*said, element));
        }
    }
}

impl CanObserve<F> for TestSponge {
    fn observe(&mut self, value: F) {
        let Some((rule, log, said)) = &mut self.follows else { return self.real.observe(value) };
        let place = *said;
        *said += 1;
        let mut log = log.lock().expect("nobody panicked with it");
        // A copy that goes back and says the same again writes over what it said.
        if log.said.insert(place, value).is_some() {
            log.drawn.retain(|(at, _)| *at <= place);
        }
        let is_deaf = rule.deaf_from.is_some_and(|from| place >= from);
        if is_deaf || rule.deaf.contains(&place) {
            return;
        }
        self.real.observe(value + rule.moved.get(&place).copied().unwrap_or_default());
    }
}

impl CanObserve<MerkleCap<F, Digest>> for TestSponge {
    fn observe(&mut self, cap: MerkleCap<F, Digest>) {
        cap.roots().iter().flatten().for_each(|element| self.observe(*element));
    }
}

impl CanSample<F> for TestSponge {
    fn sample(&mut self) -> F {
        let drawn: F = self.real.sample();
        self.note(drawn);
        drawn
    }
}

impl CanSampleBits<usize> for TestSponge {
    fn sample_bits(&mut self, bits: usize) -> usize {
        self.real.sample_bits(bits)
    }
}

impl CanSampleUniformBits<F> for TestSponge {
    fn sample_uniform_bits<const RESAMPLE: bool>(
        &mut self,
        bits: usize,
    ) -> Result<usize, ResamplingError> {
        self.real.sample_uniform_bits::<RESAMPLE>(bits)
    }
}

impl FieldChallenger<F> for TestSponge {}

/// The work is always heard: it is no message.
impl GrindingChallenger for TestSponge {
    type Witness = F;

    fn grind(&mut self, bits: usize) -> F {
        self.real.grind(bits)
    }

    fn check_witness(&mut self, bits: usize, witness: F) -> bool {
        self.real.check_witness(bits, witness)
    }
}
