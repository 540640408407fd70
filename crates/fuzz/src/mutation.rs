//! Changes of inputs: bits, bytes, numbers at their limits, pieces cut, doubled, moved and taken from other seeds.

/// Numbers at which lengths and counts go wrong.
const LIMITS: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX];
/// Most changes of one input.
const MAX_CHANGES: u64 = 6;

/// A source of mutated inputs. The same seed gives the same inputs.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        // A state of zero would stay zero.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Returns a changed copy of one of the seeds, of at most `most_bytes`.
    pub fn next(&mut self, seeds: &[Vec<u8>], most_bytes: usize) -> Vec<u8> {
        let mut bytes = self.seed(seeds).to_vec();
        for _ in 0..=self.below(MAX_CHANGES) {
            self.change(&mut bytes, seeds);
            bytes.truncate(most_bytes);
        }
        bytes
    }

    fn seed<'a>(&mut self, seeds: &'a [Vec<u8>]) -> &'a [u8] {
        let place = self.place(seeds.len());
        seeds.get(place).map_or(&[], Vec::as_slice)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.place(bytes.len());
        match self.below(9) {
            0 => bytes.truncate(at),
            1 => self.flip_a_bit(bytes, at),
            2 => self.write_a_limit(bytes, at),
            3 => bytes.insert(at, self.random() as u8),
            4 => {
                let end = at + self.place(bytes.len() - at);
                bytes.drain(at..end);
            }
            5 => {
                let end = at + self.place(bytes.len() - at).min(256);
                let piece = bytes[at..end].to_vec();
                self.insert(bytes, &piece);
            }
            6 => {
                let other = self.seed(seeds).to_vec();
                let from = self.place(other.len());
                let end = from + self.place(other.len() - from);
                self.insert(bytes, &other[from..end]);
            }
            7 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = self.random() as u8;
                }
            }
            _ => bytes.extend(std::iter::repeat_n(self.random() as u8, self.place(64))),
        }
    }

    fn insert(&mut self, bytes: &mut Vec<u8>, piece: &[u8]) {
        let at = self.place(bytes.len());
        bytes.splice(at..at, piece.iter().copied());
    }

    fn flip_a_bit(&mut self, bytes: &mut [u8], at: usize) {
        let bit = self.below(8);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }

    /// Writes a number at its limit over 1 to 8 bytes, in either order.
    fn write_a_limit(&mut self, bytes: &mut [u8], at: usize) {
        let number = LIMITS[self.place(LIMITS.len())];
        let width = 1usize << self.below(4);
        let (big, little) = (number.to_be_bytes(), number.to_le_bytes());
        let text = if self.below(2) == 0 { &big[8 - width..] } else { &little[..width] };
        for (place, byte) in bytes.iter_mut().skip(at).zip(text) {
            *place = *byte;
        }
    }

    /// A place in something of that length; its end is one too, where that is harmless.
    fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length.max(1) as u64)).unwrap_or(0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random() % bound.max(1)
    }

    /// The xorshift generator of Marsaglia with a multiplication: quick, and good enough to choose places.
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }
}
