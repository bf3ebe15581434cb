//! Operations over a grid: weighted sums, products, choices, divisions and tables.

use super::kernels::{Kernel, Variant};
use super::launch::{Finish, Launch};
use super::memory::pack;
use super::prepare::Prepare;
use crate::program::{
    Inverse, JoinTerm, Multipliers, Operand, Operation, Primitive, ValueId, Width,
};

/// Sides of a grid at most.
const SIDES: usize = 6;

/// Operands of an operation at most.
const OPERANDS: usize = 4;

/// Which operation it is, as `KIND` of `grid.wgsl`.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Join,
    Product,
    Select,
    Normalise,
    Table,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Self::Join => 0,
            Self::Product => 1,
            Self::Select => 2,
            Self::Normalise => 3,
            Self::Table => 4,
        }
    }
}

/// An operation, as `Params` of `grid.wgsl`.
#[derive(Debug)]
struct Grid {
    kind: Kind,
    finish: Finish,
    offsets: [i32; 2],
    begins: [u32; OPERANDS],
    eaches: [u32; OPERANDS],
    is_root: bool,
    /// The last side.
    last: u32,
    operands: Vec<ValueId>,
    /// Each side and the operands' strides.
    sides: Vec<[u32; 1 + OPERANDS]>,
    numbers: Vec<i32>,
}

impl Grid {
    fn new(kind: Kind, finish: Finish, sides: &[u32], operands: &[&Operand]) -> Self {
        let stride = |operand: usize, side: usize| {
            let operand = operands.get(operand);
            operand.and_then(|operand| operand.strides.as_slice().get(side)).copied().unwrap_or(0)
        };
        let rows = sides.iter().enumerate().map(|(side, places)| {
            [*places, stride(0, side), stride(1, side), stride(2, side), stride(3, side)]
        });
        Self {
            kind,
            finish,
            offsets: [0; 2],
            begins: [0; OPERANDS],
            eaches: [0; OPERANDS],
            is_root: false,
            last: sides.last().copied().unwrap_or(1),
            operands: operands.iter().map(|operand| operand.value).collect(),
            sides: merged(rows),
            numbers: Vec::new(),
        }
    }

    fn words(&self) -> Vec<u32> {
        let [x, y] = self.offsets.map(i32::cast_unsigned);
        let (operands, sides) = (self.operands.len() as u32, self.sides.len() as u32);
        let mut words = self.finish.words().to_vec();
        words.extend([x, y, 0, 0]);
        words.extend(self.begins);
        words.extend(self.eaches);
        words.extend([operands, sides, self.last, self.is_root.into()]);
        for [places, a, b, c, d] in &self.sides {
            words.extend([*places, *a, *b, *c, *d, 0, 0, 0]);
        }
        words.resize(24 + 8 * SIDES, 0);
        words
    }
}

/// The same grid with fewer sides: neighbours that all operands step through as one are one.
fn merged(sides: impl Iterator<Item = [u32; 1 + OPERANDS]>) -> Vec<[u32; 1 + OPERANDS]> {
    let mut out: Vec<[u32; 1 + OPERANDS]> = Vec::new();
    for inner in sides {
        let [places, strides @ ..] = inner;
        match out.last_mut() {
            Some([before, outer @ ..])
                if outer.iter().zip(&strides).all(|(outer, inner)| {
                    u64::from(*outer) == u64::from(*inner) * u64::from(places)
                }) =>
            {
                *before *= places;
                *outer = strides;
            }
            Some(_) | None => out.push(inner),
        }
    }
    out
}

impl Prepare<'_> {
    pub(super) fn grid(&mut self, operation: &Operation) -> Option<Launch> {
        let finish = Finish::clamping(&operation.spec);
        let grid = match &operation.primitive {
            Primitive::Join { sides, terms, constant, shift } => {
                let finish = Finish { shift: *shift, ..finish };
                join(finish, sides.as_slice(), terms.as_slice(), constant)
            }
            Primitive::Product { sides, a, b, offset_a, offset_b, rescale } => Grid {
                offsets: [*offset_a, *offset_b],
                numbers: vec![rescale.multiplier(0)],
                ..Grid::new(
                    Kind::Product,
                    Finish::rescaling(rescale, &operation.spec),
                    sides.as_slice(),
                    &[a, b],
                )
            },
            Primitive::Select { sides, condition, then, otherwise } => {
                let operands = [condition, then, otherwise];
                Grid::new(Kind::Select, finish, sides.as_slice(), &operands)
            }
            Primitive::Normalise { sides, a, offset, x, inverse, entries, shift, zero } => Grid {
                offsets: [*offset, 0],
                is_root: match inverse {
                    Inverse::Reciprocal => false,
                    Inverse::Root => true,
                },
                numbers: entries.as_slice().iter().map(|entry| (*entry).into()).collect(),
                ..Grid::new(
                    Kind::Normalise,
                    Finish { shift: *shift, zero: *zero, ..finish },
                    sides.as_slice(),
                    &[a, x],
                )
            },
            Primitive::Table { x, entries } => Grid {
                offsets: [self.spec(*x)?.lo, 0],
                operands: vec![*x],
                numbers: entries.as_slice().iter().map(|entry| (*entry).into()).collect(),
                ..Grid::new(Kind::Table, finish, &[], &[])
            },
            Primitive::Linear { .. }
            | Primitive::MatMul { .. }
            | Primitive::Sum { .. }
            | Primitive::Max { .. }
            | Primitive::Move { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. } => return None,
        };
        self.grid_launch(&grid, operation.spec.width())
    }

    fn grid_launch(&mut self, grid: &Grid, out: Width) -> Option<Launch> {
        let first = *grid.operands.first()?;
        let mut reads = vec![self.numbers(&grid.numbers)?];
        let mut constants = vec![("OUT_PACK", pack(out)), ("KIND", grid.kind.number())];
        for (place, name) in ["A_PACK", "B_PACK", "C_PACK", "D_PACK"].into_iter().enumerate() {
            // A kernel reads four buffers; where there are fewer operands, the first again.
            let value = grid.operands.get(place).copied().unwrap_or(first);
            reads.push(self.source(value)?);
            constants.push((name, pack(self.spec(value)?.width())));
        }
        let variant = Variant { kernel: Kernel::Grid, constants };
        Launch::by_item(self.gpu, variant, &grid.words(), reads, grid.finish.items)
    }
}

fn join(finish: Finish, sides: &[u32], terms: &[JoinTerm], constant: &Multipliers) -> Grid {
    let operands: Vec<&Operand> = terms.iter().map(|term| &term.operand).collect();
    let finish = Finish { each: constant.as_slice().len() > 1, ..finish };
    let mut grid = Grid::new(Kind::Join, finish, sides, &operands);
    grid.numbers.extend_from_slice(constant.as_slice());
    let places = grid.begins.iter_mut().zip(&mut grid.eaches);
    for (term, (begin, each)) in terms.iter().zip(places) {
        let factors = term.multipliers.as_slice();
        *begin = grid.numbers.len() as u32;
        *each = (factors.len() > 1).into();
        grid.numbers.extend_from_slice(factors);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sides: &[[u32; 5]], expected: &[[u32; 5]]) {
        assert_eq!(merged(sides.iter().copied()), expected);
    }

    #[test]
    fn sides_that_all_operands_step_through_as_one_are_merged() {
        check(&[[2, 12, 12, 0, 0], [3, 4, 4, 0, 0], [4, 1, 1, 0, 0]], &[[24, 1, 1, 0, 0]]);
        check(&[[2, 12, 0, 0, 0], [12, 1, 1, 0, 0]], &[[2, 12, 0, 0, 0], [12, 1, 1, 0, 0]]);
        check(&[[2, 0, 0, 0, 0], [3, 0, 0, 0, 0]], &[[6, 0, 0, 0, 0]]);
        check(&[[1, 7, 7, 7, 7]], &[[1, 7, 7, 7, 7]]);
    }
}
