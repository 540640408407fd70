//! Vectors, and how alike two of them are.
//!
//! A vector of the index has four bits per dimension: that lost no answer against sixteen in the measurements, and at half a million chunks
//! it decides whether the vectors fit. A query has more, because it is one.

/// Steps of one dimension per unit of length. Values of a unit vector of 256 dimensions are about 1/16, so 7 steps of 1/33 hold nearly all.
const STEPS: f32 = 33.0;
/// The number that stands for 0, so that stored numbers have no sign.
const ZERO: i16 = 8;
/// Steps of one dimension of a query.
const QUERY_STEPS: f32 = 512.0;

/// Stores a vector: its first half in the low four bits of each byte, its second half in the high four bits. An odd last dimension is 0.
pub(crate) fn packed(vector: &[f32]) -> Vec<u8> {
    let scale = STEPS / length(vector).max(f32::MIN_POSITIVE);
    let number = |value: &f32| ((value * scale).round().clamp(-7.0, 7.0) as i16 + ZERO) as u8;
    let half = vector.len().div_ceil(2);
    let (low, high) = vector.split_at(half);
    let high = high.iter().map(number).chain(std::iter::repeat(ZERO as u8));
    low.iter().map(number).zip(high).map(|(low, high)| low | high << 4).collect()
}

/// Bytes of a packed vector.
pub(crate) fn packed_bytes(dimensions: usize) -> usize {
    dimensions.div_ceil(2)
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|value| value * value).sum::<f32>().sqrt()
}

/// A query vector, in numbers that every processor multiplies eight at a time.
#[derive(Debug, Clone)]
pub(crate) struct WideVector {
    low: Vec<i16>,
    high: Vec<i16>,
    /// What the zeros of a packed vector add to its product.
    zeros: i32,
}

impl WideVector {
    pub(crate) fn new(vector: &[f32]) -> Self {
        let scale = QUERY_STEPS / length(vector).max(f32::MIN_POSITIVE);
        let wide: Vec<i16> = vector.iter().map(|value| (value * scale).round() as i16).collect();
        let (low, high) = wide.split_at(wide.len().div_ceil(2));
        let zeros = wide.iter().map(|&value| i32::from(value) * i32::from(ZERO)).sum();
        let mut high = high.to_vec();
        high.resize(low.len(), 0);
        Self { low: low.to_vec(), high, zeros }
    }

    /// Cosine of this vector with each of many packed ones, which lie one after the other.
    pub(crate) fn cosines(&self, vectors: &[u8]) -> Vec<f32> {
        const SCALE: f32 = 1.0 / (STEPS * QUERY_STEPS);
        let bytes = self.low.len().max(1);
        vectors.chunks_exact(bytes).map(|vector| (self.product(vector) - self.zeros) as f32 * SCALE).collect()
    }

    /// Fits in 32 bits: 1,024 products of at most 15 · 512.
    fn product(&self, vector: &[u8]) -> i32 {
        let pairs = self.low.iter().zip(&self.high).zip(vector);
        pairs
            .map(|((&low, &high), &byte)| {
                i32::from(low) * i32::from(i16::from(byte & 15))
                    + i32::from(high) * i32::from(i16::from(byte >> 4))
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cosines_are_nearly_those_of_the_real_vectors(
            one in prop::collection::vec(-1f32..1.0, 255..257),
            mix in 0f32..1.0,
            seed in prop::collection::vec(-1f32..1.0, 257),
        ) {
            let other: Vec<f32> = one.iter().zip(&seed).map(|(one, noise)| one * mix + noise * (1.0 - mix)).collect();
            prop_assume!(length(&one) > 1.0 && length(&other) > 1.0);
            let real = one.iter().zip(&other).map(|(one, other)| one * other).sum::<f32>() / length(&one) / length(&other);
            let found = WideVector::new(&one).cosines(&packed(&other))[0];
            prop_assert!((real - found).abs() < 0.05, "{real} {found}");
        }
    }

    #[test]
    fn nothing_is_like_nothing() {
        assert_eq!(packed(&[0.0; 4]), [0x88; 2]);
        assert_eq!(WideVector::new(&[0.0; 4]).cosines(&packed(&[1.0, 2.0, 3.0, 4.0])), [0.0]);
    }
}
