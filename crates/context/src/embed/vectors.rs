//! Vectors as signed bytes, and how alike two of them are.

/// The length to which vectors are scaled.
const UNIT: f32 = 127.0;

/// Scales a vector to length 127 and rounds it to signed bytes.
pub(crate) fn unit_bytes(vector: &[f32]) -> Vec<u8> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    let scale = if length > 0.0 { UNIT / length } else { 0.0 };
    vector.iter().map(|value| (value * scale).round().clamp(-127.0, 127.0) as i8 as u8).collect()
}

/// A query vector, widened once so that the loop over all documents multiplies 16-bit numbers, which every processor does eight at a time.
#[derive(Debug, Clone)]
pub(crate) struct WideVector(Vec<i16>);

impl WideVector {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|&byte| i16::from(byte as i8)).collect())
    }

    /// Cosine of this vector with each of many, which lie one after the other.
    pub(crate) fn cosines(&self, vectors: &[u8]) -> Vec<f32> {
        const SCALE: f32 = 1.0 / (UNIT * UNIT);
        let dimensions = self.0.len().max(1);
        vectors.chunks_exact(dimensions).map(|vector| self.product(vector) as f32 * SCALE).collect()
    }

    /// Fits in 32 bits: 1,024 products of two signed bytes are below 2²⁴.
    fn product(&self, vector: &[u8]) -> i32 {
        self.0
            .iter()
            .zip(vector)
            .map(|(&wide, &byte)| i32::from(wide) * i32::from(i16::from(byte as i8)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cosines_are_those_of_the_real_vectors(
            one in prop::collection::vec(-1f32..1.0, 64),
            other in prop::collection::vec(-1f32..1.0, 64),
        ) {
            let length = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            prop_assume!(length(&one) > 0.1 && length(&other) > 0.1);
            let real = one.iter().zip(&other).map(|(one, other)| one * other).sum::<f32>() / length(&one) / length(&other);
            let found = WideVector::new(&unit_bytes(&one)).cosines(&unit_bytes(&other))[0];
            prop_assert!((real - found).abs() < 0.02, "{real} {found}");
        }
    }

    #[test]
    fn nothing_is_like_nothing() {
        assert_eq!(unit_bytes(&[0.0; 4]), [0; 4]);
        assert_eq!(WideVector::new(&[0; 4]).cosines(&[1, 2, 3, 4]), [0.0]);
    }
}
