//! Numbers that are looked up without being committed: sums of committed and virtual ones.

use super::ColumnId;
use crate::field::{EF, F, dot_base, int};
use crate::plan::Layout;
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_tensor::program::ValueId;

/// What a number is read from, at the place of the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A column of the same layout.
    Column(ColumnId),
    /// A value of as many elements.
    Value(ValueId),
    /// The accumulator of an operation.
    Accumulator(usize),
    /// What a tap of an operation's window reads; a candidate of an arg-max.
    Tap(usize, usize),
    /// The condition of an operation.
    Condition(usize),
    /// The row number that an operation looks up.
    Index(usize),
    /// What stands at a place among an operation's reads.
    Placed(Placed),
    /// A column with a number for each element of an operation's divisor, at the one that is read.
    Beside(usize, ColumnId),
}

/// A place among what the only term of an element reads, if each number that is read were `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) operation: usize,
    pub(crate) place: usize,
    pub(crate) number: i32,
}

/// Factors by place: all 1, or one for each column, row or inference. Padding has the factor 0
/// unless all are 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All 1.
    One,
    /// By the last side.
    Columns(Arc<[F]>),
    /// By the place on the first side, repeated.
    Rows(Arc<[F]>),
    /// The number of the inference. Only constants have it.
    Inferences,
}

impl Spread {
    /// The factor of an element of the first inference.
    pub(crate) fn at(&self, row: usize, column: usize) -> F {
        match self {
            Self::One => F::ONE,
            Self::Inferences => F::ZERO,
            Self::Columns(factors) => factors[column],
            Self::Rows(factors) => factors[row % factors.len()],
        }
    }

    /// The value at a point of the function of the factors.
    pub(crate) fn eval(&self, layout: &Layout, point: &[EF]) -> EF {
        let batch = layout.batch_weights(point);
        let side = match self {
            Self::One => return EF::ONE,
            Self::Columns(_) => 1,
            Self::Rows(_) => 0,
            Self::Inferences => {
                let numbers = (0..batch.len()).map(|number| int(number as i64));
                return dot_base(&batch, numbers) * layout.inner_indicator(point);
            }
        };
        let batch: EF = batch.into_iter().sum();
        let other: EF = layout.side_weights(point, 1 - side).into_iter().sum();
        let weights = layout.side_weights(point, side);
        let factors = (0..weights.len()).map(|place| self.at(place, place));
        batch * other * dot_base(&weights, factors)
    }
}

/// A source times a factor.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) source: Source,
    pub(crate) scale: F,
    pub(crate) spread: Spread,
}

/// A sum of terms and a constant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    pub(crate) terms: Vec<Term>,
    pub(crate) constant: Vec<(F, Spread)>,
}

impl Form {
    /// Only one source.
    pub(crate) fn of(source: Source) -> Self {
        let mut form = Self::default();
        form.add(source, F::ONE);
        form
    }

    /// Adds a source.
    pub(crate) fn add(&mut self, source: Source, scale: F) {
        self.terms.push(Term { source, scale, spread: Spread::One });
    }

    /// Adds a constant.
    pub(crate) fn plus(&mut self, constant: F) {
        self.constant.push((constant, Spread::One));
    }

    /// Adds another form times a factor.
    pub(crate) fn add_form(&mut self, other: &Self, scale: F) {
        let scaled = |term: &Term| Term { scale: term.scale * scale, ..term.clone() };
        self.terms.extend(other.terms.iter().map(scaled));
        let constants = other.constant.iter();
        self.constant.extend(constants.map(|(c, spread)| (*c * scale, spread.clone())));
    }

    /// The same times factors by place. The form must not have any yet.
    pub(crate) fn spread(mut self, spread: &Spread) -> Self {
        self.terms.iter_mut().for_each(|term| term.spread = spread.clone());
        self.constant.iter_mut().for_each(|(_, place)| *place = spread.clone());
        self
    }

    /// The number at a cell that stands for nothing: sources are 0 there.
    pub(crate) fn padding(&self) -> F {
        let everywhere = self.constant.iter().filter(|(_, spread)| *spread == Spread::One);
        everywhere.map(|(constant, _)| *constant).sum()
    }
}
