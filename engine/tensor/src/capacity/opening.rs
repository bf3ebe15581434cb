//! One block of a filled memory with all that shows it to be right.

use super::{BLOCK_BYTES, BLOCKS_MAX, CapacityError, Filled, Plan, leaf, node};
use crate::kernels::{self, Path, Square};
use tg_types::Hash32;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, encode_list};

/// Hashes of a path at most.
const PATH_MAX: usize = BLOCKS_MAX.trailing_zeros() as usize;

/// Bytes of an opening at most: two blocks and three paths with their lengths.
pub const OPENING_BYTES_MAX: usize = 2 * BLOCK_BYTES + 3 * (PATH_MAX * 32 + 1) + 1;

/// A block that is read, with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    block: Square,
    path: Vec<Hash32>,
}

/// What shows that a block is what it ought to be. The block itself is not there: whoever checks
/// computes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub(super) path: Vec<Hash32>,
    /// The block before and the other one; none for a block that comes from the seed.
    pub(super) inputs: Option<Box<(Input, Input)>>,
}

impl Encode for Input {
    fn encode(&self, out: &mut Vec<u8>) {
        self.block.encode(out);
        encode_list(&self.path, out);
    }
}

impl Decode for Input {
    const BYTES_MIN: usize = BLOCK_BYTES + 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { block: Square::decode(reader)?, path: reader.list(PATH_MAX)? })
    }
}

impl Encode for Opening {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(&self.path, out);
        match &self.inputs {
            None => out.push(0),
            Some(inputs) => {
                out.push(1);
                inputs.encode(out);
            }
        }
    }
}

impl Decode for Opening {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let path = reader.list(PATH_MAX)?;
        let inputs = Option::<(Input, Input)>::decode(reader)?;
        Ok(Self { path, inputs: inputs.map(Box::new) })
    }
}

impl Filled {
    /// Opens a block.
    ///
    /// # Errors
    /// If there is no such block, or the device that has it failed.
    pub fn open(&self, place: u32) -> Result<Opening, CapacityError> {
        let missing = || CapacityError::Place { place, blocks: self.plan.blocks() };
        let index = usize::try_from(place).ok().filter(|index| *index < self.plan.blocks);
        let index = index.ok_or_else(missing)?;
        let input = |index: usize| -> Result<Input, CapacityError> {
            let block = self.blocks.read(index)?.ok_or_else(missing)?;
            Ok(Input { block, path: self.path(index) })
        };
        let at = self.plan.place_of(index);
        let inputs = match self.plan.before(at) {
            None => None,
            Some(before) => {
                let before = input(before)?;
                let other = self.plan.other(at, &leaf(&before.block));
                Some(Box::new((before, input(other)?)))
            }
        };
        Ok(Opening { path: self.path(index), inputs })
    }
}

/// The root over a leaf with this path; `None` if the path has another length than all have.
fn climb(plan: &Plan, index: usize, leaf: Hash32, path: &[Hash32]) -> Option<Hash32> {
    let join = |(below, index): (Hash32, usize), sibling: &Hash32| {
        let pair = if index & 1 == 0 { (&below, sibling) } else { (sibling, &below) };
        (node(pair.0, pair.1), index >> 1)
    };
    (path.len() == plan.depth()).then(|| path.iter().fold((leaf, index), join).0)
}

/// Checks an opening of one block under a root: everything that the block is made of is there, and
/// the block is what comes out of it, to the bit.
///
/// # Errors
/// What is wrong with it.
pub fn check(
    plan: &Plan,
    root: &Hash32,
    place: u32,
    opening: &Opening,
) -> Result<(), CapacityError> {
    let index = usize::try_from(place).ok().filter(|index| *index < plan.blocks);
    let index = index.ok_or(CapacityError::Place { place, blocks: plan.blocks() })?;
    let is_under = |index: usize, leaf: Hash32, path: &[Hash32]| {
        let place = u32::try_from(index).unwrap_or(u32::MAX);
        let is_there = climb(plan, index, leaf, path).as_ref() == Some(root);
        if is_there { Ok(()) } else { Err(CapacityError::Path { place }) }
    };
    let at = plan.place_of(index);
    let mut block = [0; BLOCK_BYTES];
    match (plan.before(at), opening.inputs.as_deref()) {
        (None, None) => plan.expand(index, &mut block),
        (Some(before_index), Some((before, other))) => {
            let hash = leaf(&before.block);
            is_under(before_index, hash, &before.path)?;
            is_under(plan.other(at, &hash), leaf(&other.block), &other.path)?;
            // One block is not worth a look for faster instructions, and every path gives the same.
            let mask = hash.as_bytes();
            kernels::chain(Path::Portable, &before.block, &other.block, mask, &mut block);
        }
        (None, Some(_)) | (Some(_), None) => return Err(CapacityError::Inputs { place }),
    }
    is_under(index, leaf(&block), &opening.path)
}
