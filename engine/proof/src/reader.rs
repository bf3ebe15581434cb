//! Reads the bytes of proofs: postcard, in the one way in which it is written.
//!
//! A proof is tens of thousands of elements, so an element is read as one word. Types of the
//! library read their elements as words from formats for humans, so this says it is one. Numbers
//! that take more bytes than they need are refused, and with them every second way to write
//! something; a list is not longer than the bytes that are left.

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess,
    Visitor,
};

/// Bytes that are not a proof.
#[derive(Debug, thiserror::Error)]
#[error("not a proof")]
pub(crate) struct Malformed;

impl de::Error for Malformed {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

/// The bytes that are left.
pub(crate) struct Reader<'a> {
    pub(crate) left: &'a [u8],
}

impl Reader<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, left) = self.left.split_first().ok_or(Malformed)?;
        self.left = left;
        Ok(*byte)
    }

    /// Seven bits in each byte, the lowest first; all but the last have the top bit.
    fn varint(&mut self) -> Result<u32, Malformed> {
        let mut number = 0_u32;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u32::from(byte & 0x7f);
            let is_last = byte & 0x80 == 0;
            // Bits that have no place, or a last byte that says nothing.
            if bits << shift >> shift != bits || (is_last && bits == 0 && shift > 0) {
                return Err(Malformed);
            }
            number |= bits << shift;
            if is_last {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn len(&mut self) -> Result<usize, Malformed> {
        let len = self.varint()? as usize;
        if len > self.left.len() { Err(Malformed) } else { Ok(len) }
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Malformed;

    fn is_human_readable(&self) -> bool {
        true
    }

    #[inline]
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let (word, left) = self.left.split_first_chunk::<4>().ok_or(Malformed)?;
        self.left = left;
        visitor.visit_u32(u32::from_le_bytes(*word))
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let folded = self.varint()?;
        visitor.visit_i32((folded >> 1) as i32 ^ -((folded & 1) as i32))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self),
            _ => Err(Malformed),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let left = self.len()?;
        visitor.visit_seq(Items { reader: self, left })
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_seq(Items { reader: self, left })
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_seq(Items { reader: self, left })
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_seq(Items { reader: self, left: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_enum(self)
    }

    /// Nothing of this kind is in a proof.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Malformed> {
        Err(Malformed)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i64 i128 u8 u16 u64 u128 f32 f64 char str string bytes byte_buf map identifier
        ignored_any
    }
}

struct Items<'r, 'a> {
    reader: &'r mut Reader<'a>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Malformed;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> EnumAccess<'de> for &mut Reader<'de> {
    type Error = Malformed;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Malformed> {
        let variant = self.varint()?;
        Ok((seed.deserialize(IntoDeserializer::<Malformed>::into_deserializer(variant))?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = Malformed;

    fn unit_variant(self) -> Result<(), Malformed> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Malformed> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Malformed> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}
