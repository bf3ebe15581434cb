//! Typed access to a node's attributes and to operands that must be constant.

use tg_tensor::{Array, Data};

use super::parse::{Context, Operand};
use crate::dtype::{Dtype, ElementKind};
use crate::error::NodeError;
use crate::proto::{AttributeValue, LIST_MAX};

impl<'a> Context<'a> {
    fn attribute_kind(
        name: &'static str,
        found: &AttributeValue,
        expected: &'static str,
    ) -> NodeError {
        NodeError::AttributeKind { name, found: found.kind(), expected }
    }

    /// An integer attribute.
    pub(super) fn int(&self, name: &'static str) -> Result<Option<i64>, NodeError> {
        match self.node.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Int(value)) => Ok(Some(*value)),
            Some(other) => Err(Self::attribute_kind(name, other, "an integer")),
        }
    }

    /// An integer attribute with a default.
    pub(super) fn int_or(&self, name: &'static str, default: i64) -> Result<i64, NodeError> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// A flag with a default.
    pub(super) fn flag_or(&self, name: &'static str, default: bool) -> Result<bool, NodeError> {
        Ok(self.int(name)?.map_or(default, |value| value != 0))
    }

    /// A flag that must not be set: the form it asks for is not supported.
    pub(super) fn unset(&self, name: &'static str, what: &'static str) -> Result<(), NodeError> {
        if self.flag_or(name, false)? { Err(NodeError::Form { what }) } else { Ok(()) }
    }

    /// A finite float attribute with a default.
    pub(super) fn float_or(&self, name: &'static str, default: f32) -> Result<f32, NodeError> {
        match self.node.attribute(name) {
            None => Ok(default),
            Some(AttributeValue::Float(value)) if value.is_finite() => Ok(*value),
            Some(AttributeValue::Float(_)) => Err(NodeError::Form { what: "an infinite number" }),
            Some(other) => Err(Self::attribute_kind(name, other, "a float")),
        }
    }

    /// A list of integers.
    pub(super) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>, NodeError> {
        match self.node.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(Self::attribute_kind(name, other, "integers")),
        }
    }

    /// A list of floats.
    pub(super) fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>, NodeError> {
        match self.node.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Floats(values)) => Ok(Some(values)),
            Some(other) => Err(Self::attribute_kind(name, other, "floats")),
        }
    }

    /// A text with a default.
    pub(super) fn text_or(
        &self,
        name: &'static str,
        default: &'static str,
    ) -> Result<&'a str, NodeError> {
        match self.node.attribute(name) {
            None => Ok(default),
            Some(AttributeValue::Text(value)) => Ok(value),
            Some(other) => Err(Self::attribute_kind(name, other, "a text")),
        }
    }

    /// A tensor.
    pub(super) fn tensor(&self, name: &'static str) -> Result<Option<(Dtype, Array)>, NodeError> {
        match self.node.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Tensor(tensor)) => {
                let wrong = |source| NodeError::AttributeTensor { name, source };
                let dtype = tensor.kind().map_err(wrong)?.dtype();
                let array = tensor.to_array(self.elements_max).map_err(wrong)?;
                Ok(Some((dtype, array)))
            }
            Some(other) => Err(Self::attribute_kind(name, other, "a tensor")),
        }
    }

    /// An element kind, by its number.
    pub(super) fn element(&self, name: &'static str) -> Result<Option<Dtype>, NodeError> {
        let Some(found) = self.int(name)? else { return Ok(None) };
        let kind = ElementKind::from_number(found);
        let kind = kind.ok_or(NodeError::Range { what: "the element kind", found })?;
        Ok(Some(kind.dtype()))
    }

    /// A word out of a list.
    pub(super) fn word<T: Copy>(
        &self,
        name: &'static str,
        default: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, NodeError> {
        let found = self.text_or(name, default)?;
        let known = words.iter().find(|(word, _)| *word == found).map(|(_, value)| *value);
        known.ok_or_else(|| NodeError::AttributeText { name, found: found.to_owned() })
    }

    /// Checks how many operands there are.
    pub(super) fn count(&self, min: usize, max: usize) -> Result<(), NodeError> {
        let found = self.operands.len();
        if found < min || found > max {
            return Err(NodeError::OperandCount { found, min, max });
        }
        Ok(())
    }

    /// An operand that may be left out.
    pub(super) fn optional(&self, index: usize) -> Option<Operand<'a>> {
        self.operands.get(index).copied().flatten()
    }

    /// An operand that must be there.
    pub(super) fn operand(&self, index: usize) -> Result<Operand<'a>, NodeError> {
        self.optional(index).ok_or(NodeError::OperandMissing { index })
    }

    /// The constant behind an operand, or nothing if the operand is left out.
    pub(super) fn constant(
        &self,
        index: usize,
        what: &'static str,
    ) -> Result<Option<&'a Array>, NodeError> {
        match self.optional(index) {
            None => Ok(None),
            Some(Operand { constant: Some(array), .. }) => Ok(Some(array)),
            Some(Operand { constant: None, .. }) => Err(NodeError::NotConstant { index, what }),
        }
    }

    /// A short list of integers in a constant operand.
    pub(super) fn constant_ints(
        &self,
        index: usize,
        what: &'static str,
    ) -> Result<Option<&'a [i64]>, NodeError> {
        let Some(array) = self.constant(index, what)? else { return Ok(None) };
        match array.data() {
            Data::Int(values) if values.len() <= LIST_MAX => Ok(Some(values)),
            Data::Int(values) => {
                Err(NodeError::Length { what, found: values.len(), expected: LIST_MAX })
            }
            Data::Float(_) => {
                Err(NodeError::Kind { index, found: Dtype::Float, expected: "integers" })
            }
        }
    }

    /// Integers that old files hold in an attribute and new ones in a constant operand.
    pub(super) fn ints_of(
        &self,
        name: &'static str,
        index: usize,
        what: &'static str,
    ) -> Result<Option<&'a [i64]>, NodeError> {
        match self.ints(name)? {
            Some(values) => Ok(Some(values)),
            None => self.constant_ints(index, what),
        }
    }

    /// The one number of a constant operand.
    pub(super) fn constant_number(
        &self,
        index: usize,
        what: &'static str,
    ) -> Result<Option<f32>, NodeError> {
        let Some(array) = self.constant(index, what)? else { return Ok(None) };
        if array.is_empty() {
            return Ok(None);
        }
        if array.len() != 1 {
            return Err(NodeError::Length { what, found: array.len(), expected: 1 });
        }
        Ok(array.to_floats().first().copied())
    }
}

/// An axis counted from the front. Negative ones count from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, NodeError> {
    let wrong = NodeError::Range { what: "the axis", found: axis };
    let rank_signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let from_front = if axis < 0 { axis.checked_add(rank_signed) } else { Some(axis) };
    match from_front.map(usize::try_from) {
        Some(Ok(axis)) if axis < rank => Ok(axis),
        Some(_) | None => Err(wrong),
    }
}

/// Axes counted from the front, ascending. An axis that occurs twice is refused.
pub(super) fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>, NodeError> {
    if list.len() > rank {
        return Err(NodeError::Length { what: "the axes", found: list.len(), expected: rank });
    }
    let mut axes = Vec::with_capacity(list.len());
    for found in list {
        let axis = axis(*found, rank)?;
        if axes.contains(&axis) {
            return Err(NodeError::Range { what: "the axis (again)", found: *found });
        }
        axes.push(axis);
    }
    axes.sort_unstable();
    Ok(axes)
}

/// A number that counts something.
pub(super) fn size(found: i64, what: &'static str) -> Result<usize, NodeError> {
    usize::try_from(found).map_err(|_| NodeError::Range { what, found })
}

/// Numbers that count something, as many as expected.
pub(super) fn sizes(
    list: &[i64],
    expected: usize,
    what: &'static str,
) -> Result<Vec<usize>, NodeError> {
    if list.len() != expected {
        return Err(NodeError::Length { what, found: list.len(), expected });
    }
    list.iter().map(|found| size(*found, what)).collect()
}
