//! The part of a hiding proof before the last sum-check, walked through by verifier and prover.
//!
//! The prover makes each message and then reads it as the verifier does, since both need the linear
//! equation that is left at the end.

use super::pads::{Affine, Used};
use super::products::{self, Equation};
use super::stack::{self, Linear};
use crate::claims::{Challenges, Publics, Tally};
use crate::error::VerifyError;
use crate::field::EF;
use crate::logup;
use crate::plan::Plan;
use crate::replay::{self, LookedUp, Number, Sum};
use crate::sumcheck::SumProof;
use crate::transcript::Transcript;
use crate::verify::checks;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::FractionGkrProof;

/// What was read so far.
pub(crate) struct Walk<'a> {
    plan: &'a Plan,
    used: Used,
    pub(crate) challenges: Challenges,
    lookups: Option<LookedUp<Affine>>,
    products: Sum<Affine>,
    claims: Vec<Affine>,
    kappa: EF,
    /// Equations of pads that must hold.
    equations: Vec<Affine>,
    /// The coefficients of the equation of products, joined with powers of `unit`.
    lower: Affine,
    pub(crate) unit: EF,
    tau: EF,
}

impl<'a> Walk<'a> {
    /// Begins behind the roots.
    pub(crate) fn new(plan: &'a Plan, transcript: &mut Transcript) -> Self {
        let alpha = transcript.draw("alpha");
        let beta = transcript.draw("beta");
        Self {
            plan,
            used: Used::default(),
            challenges: Challenges { alpha, beta, ..Challenges::default() },
            lookups: None,
            products: Sum::default(),
            claims: Vec::new(),
            kappa: EF::ZERO,
            equations: Vec::new(),
            lower: Affine::default(),
            unit: EF::ZERO,
            tau: EF::ZERO,
        }
    }

    /// Reads the look-ups.
    pub(crate) fn lookups(
        &mut self,
        proof: &FractionGkrProof<EF>,
        transcript: &mut Transcript,
    ) -> Result<(), VerifyError> {
        let read = &mut |sent| self.used.read(sent);
        let found = replay::lookups(proof, self.plan.leaf_bits, transcript, read);
        let found = found.ok_or(VerifyError::Lookups)?;
        self.challenges.lookups = found.point.clone();
        self.lookups = Some(found);
        self.challenges.gamma = transcript.draw("gamma");
        self.challenges.checks = transcript.draw_point("checks", self.plan.check_bits());
        Ok(())
    }

    /// Reads the first sum-check.
    pub(crate) fn products(
        &mut self,
        proof: &Option<SumProof>,
        transcript: &mut Transcript,
    ) -> Result<(), VerifyError> {
        let plan = self.plan;
        let rounds = (!plan.products.is_empty()).then_some(plan.product_bits());
        let read = &mut |sent| self.used.read(sent);
        let found = replay::sum(proof, rounds, plan.product_degree(), transcript, read);
        self.products = found.ok_or(VerifyError::Sum("first"))?;
        self.challenges.products = self.products.point.clone();
        Ok(())
    }

    /// Reads the claims at its end.
    pub(crate) fn claims(
        &mut self,
        claims: &[EF],
        transcript: &mut Transcript,
    ) -> Result<(), VerifyError> {
        if claims.len() != self.plan.claims() {
            return Err(VerifyError::Sum("first"));
        }
        transcript.absorb("claims", claims);
        self.claims = claims.iter().map(|sent| self.used.read(*sent)).collect();
        self.challenges.rho = transcript.draw("rho");
        self.kappa = transcript.draw("kappa");
        Ok(())
    }

    /// The equation of products.
    pub(crate) fn equation(&self) -> Equation<'_> {
        let gates = self.lookups.as_ref().map_or(&[][..], |lookups| &lookups.gates);
        Equation { plan: self.plan, challenges: &self.challenges, gates, kappa: self.kappa }
    }

    /// Reads the lower coefficients of the equation of products.
    pub(crate) fn lower(
        &mut self,
        lower: &[EF],
        transcript: &mut Transcript,
    ) -> Result<(), VerifyError> {
        if lower.len() != products::degree(self.plan) {
            return Err(VerifyError::Products);
        }
        transcript.absorb("coefficients", lower);
        self.unit = transcript.draw("unit");
        let mut power = EF::ONE;
        for sent in lower {
            let number = self.used.read(*sent);
            self.lower.add(power, &number);
            power *= self.unit;
        }
        let right = self.equation().right(&self.products.last);
        self.lower.add(power, &right);
        Ok(())
    }

    /// Reads the factors of the equation of products, each moved by its pad.
    pub(crate) fn factors(
        &mut self,
        moved: &[EF],
        transcript: &mut Transcript,
    ) -> Result<(), VerifyError> {
        if moved.len() != products::factors(self.plan) {
            return Err(VerifyError::Products);
        }
        transcript.absorb("factors", moved);
        self.tau = transcript.draw("tau");
        let left = Affine::known(self.equation().left(self.unit, moved));
        self.lower.add(-EF::ONE, &left);
        self.equations.push(std::mem::take(&mut self.lower));
        let gates = self.lookups.iter().flat_map(|lookups| &lookups.gates);
        let factors = gates.flat_map(|gate| &gate.children).chain(&self.claims);
        for (factor, moved) in factors.zip(moved) {
            let mut equation = self.used.fresh();
            equation.add(self.unit, factor);
            equation.constant -= *moved;
            self.equations.push(equation);
        }
        Ok(())
    }

    /// The linear equation that is left. A prover does without its constant.
    pub(crate) fn linear(&self, publics: Option<&Publics<'_>>) -> Result<Linear, VerifyError> {
        let (plan, challenges) = (self.plan, &self.challenges);
        let lookups = self.lookups.as_ref().ok_or(VerifyError::Lookups)?;
        let known = logup::known(plan, challenges).ok_or(VerifyError::Claims)?;
        let requests = plan.requests(challenges);
        let tally = Tally::new(plan, challenges, &requests, publics);
        if !tally.is_complete() || self.used.count() != stack::pads(plan) {
            return Err(VerifyError::Claims);
        }
        let mut claims = lookups.denominator.clone();
        claims.add(-EF::ONE, &self.products.sum);
        claims.constant += publics.map_or(EF::ZERO, |p| checks(plan, challenges, p.outputs, &[]));
        let mut power = EF::ONE;
        for claim in &self.claims {
            power *= challenges.rho;
            claims.add(power, claim);
        }
        let (numerator, equations) = (&lookups.numerator, &self.equations);
        Ok(Linear::new(plan, tally, &known, &claims, numerator, equations, self.tau))
    }

    /// How many equations are joined in it.
    pub(crate) fn equations(plan: &Plan) -> usize {
        3 + products::factors(plan)
    }
}
