//! Decides whether a screen has come to rest, although a text cursor blinks on it.
//!
//! The screen is divided into tiles. Tiles that changed lately and touch each other form a region. A change does not count
//! if every region it touches is small and shows again what it showed before its last change: it blinks between two
//! contents. So a cursor counts once, when it is first seen to blink. A spinner or a clock shows something new each time, a
//! progress bar or a moving thing also changes which tiles its region has, and a page that flashes is not small: they all
//! count, each time.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Side of a tile: about a line of text.
const TILE_PIXELS: usize = 32;
/// Largest region that may blink: 64 × 64 pixels touch up to nine tiles, and so does a cursor 256 pixels high.
const BLINKING_TILES: usize = 9;
/// Regions that may blink on one screen: a few cursors. Beyond it something jumps from place to place, and all are forgotten.
const BLINKING_REGIONS: usize = 4;
const PIXEL_BYTES: usize = 4;

/// Tiles that touch each other, in ascending order.
type Region = Vec<usize>;

/// Compares the frames of one screen.
#[derive(Debug)]
pub(super) struct StabilityWatch {
    width: usize,
    height: usize,
    frame: Vec<u8>,
    /// Tiles that changed with the last change that counted, and since then.
    active: BTreeSet<usize>,
    /// Of each small region that changed: its content before the last change, and its content now.
    contents: BTreeMap<Region, [u64; 2]>,
}

impl StabilityWatch {
    /// Begins with the pixels of a screen, four bytes each.
    pub(super) fn new(width: u16, height: u16, frame: Vec<u8>) -> Self {
        let (width, height) = (usize::from(width), usize::from(height));
        Self { width, height, frame, active: BTreeSet::new(), contents: BTreeMap::new() }
    }

    /// Takes the next frame; returns true if it counts as a change.
    pub(super) fn take(&mut self, frame: Vec<u8>) -> bool {
        if frame == self.frame {
            return false;
        }
        let lawful = self.width * self.height * PIXEL_BYTES;
        if frame.len() != lawful || self.frame.len() != lawful {
            // A display that sends other sizes than it promised has no tiles to compare.
            self.frame = frame;
            self.forget();
            return true;
        }
        let changed = self.changed_tiles(&frame);
        self.active.extend(&changed);
        let mut counts = false;
        for region in self.regions() {
            if region.iter().any(|tile| changed.contains(tile)) {
                counts |= !self.blinks(region, &frame);
            }
        }
        if counts {
            self.active = changed;
        }
        if self.contents.len() > BLINKING_REGIONS {
            self.forget();
        }
        self.frame = frame;
        counts
    }

    /// Notes the new content of a region; returns true if it is the one before the last change.
    fn blinks(&mut self, region: Region, frame: &[u8]) -> bool {
        if region.len() > BLINKING_TILES {
            return false;
        }
        let now = self.content(&region, frame);
        let before = self.content(&region, &self.frame);
        let older = self.contents.insert(region, [before, now]).map(|[older, _]| older);
        older == Some(now)
    }

    fn forget(&mut self) {
        self.active.clear();
        self.contents.clear();
    }

    fn columns(&self) -> usize {
        self.width.div_ceil(TILE_PIXELS)
    }

    fn changed_tiles(&self, frame: &[u8]) -> BTreeSet<usize> {
        let mut changed = BTreeSet::new();
        for y in 0..self.height {
            let row = self.row(y, 0..self.width);
            if frame[row.clone()] == self.frame[row] {
                continue;
            }
            for column in 0..self.columns() {
                let part = self.row(y, self.tile_columns(column));
                if frame[part.clone()] != self.frame[part] {
                    changed.insert(y / TILE_PIXELS * self.columns() + column);
                }
            }
        }
        changed
    }

    /// The active tiles in groups that touch each other, also at corners.
    fn regions(&self) -> Vec<Region> {
        let mut left = self.active.clone();
        let mut regions = Vec::new();
        while let Some(first) = left.pop_first() {
            let (mut region, mut next) = (vec![first], 0);
            while let Some(&tile) = region.get(next) {
                next += 1;
                let touching: Vec<usize> = self.around(tile).filter(|other| left.remove(other)).collect();
                region.extend(touching);
            }
            region.sort_unstable();
            regions.push(region);
        }
        regions
    }

    fn around(&self, tile: usize) -> impl Iterator<Item = usize> {
        let columns = self.columns();
        let (row, column) = (tile / columns, tile % columns);
        let rows = row.saturating_sub(1)..=row + 1;
        let near = column.saturating_sub(1)..=(column + 1).min(columns - 1);
        rows.flat_map(move |row| near.clone().map(move |column| row * columns + column))
    }

    fn content(&self, region: &[usize], frame: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        for tile in region {
            let top = tile / self.columns() * TILE_PIXELS;
            for y in top..(top + TILE_PIXELS).min(self.height) {
                frame[self.row(y, self.tile_columns(tile % self.columns()))].hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn tile_columns(&self, column: usize) -> Range<usize> {
        column * TILE_PIXELS..((column + 1) * TILE_PIXELS).min(self.width)
    }

    /// Range of a row's pixels in a frame.
    fn row(&self, y: usize, x: Range<usize>) -> Range<usize> {
        (y * self.width + x.start) * PIXEL_BYTES..(y * self.width + x.end) * PIXEL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: u16 = 320;
    const HEIGHT: u16 = 200;
    /// Frames without a change that counts until a screen is at rest: 1.5 s at ten frames a second.
    const QUIET_FRAMES: usize = 15;
    const MOST_FRAMES: usize = 300;

    /// A screen in one colour.
    struct Screen(Vec<u8>);

    impl Screen {
        fn new() -> Self {
            Self(vec![0; usize::from(WIDTH) * usize::from(HEIGHT) * PIXEL_BYTES])
        }

        fn fill(mut self, x: usize, y: usize, width: usize, height: usize, colour: u8) -> Self {
            for row in y..y + height {
                let start = (row * usize::from(WIDTH) + x) * PIXEL_BYTES;
                self.0[start..start + width * PIXEL_BYTES].fill(colour);
            }
            self
        }

        fn cursor(self, x: usize, y: usize, shown: bool) -> Self {
            if shown { self.fill(x, y, 2, 18, 255) } else { self }
        }
    }

    /// Number of frames after which the screen is at rest, if ever.
    fn rests_after(draw: impl Fn(usize) -> Screen) -> Option<usize> {
        let mut watch = StabilityWatch::new(WIDTH, HEIGHT, draw(0).0);
        let mut quiet = 0;
        for number in 1..MOST_FRAMES {
            quiet = if watch.take(draw(number).0) { 0 } else { quiet + 1 };
            if quiet == QUIET_FRAMES {
                return Some(number);
            }
        }
        None
    }

    #[test]
    fn a_still_screen_rests_at_once() {
        assert_eq!(rests_after(|_| Screen::new()), Some(QUIET_FRAMES));
    }

    #[test]
    fn a_blinking_cursor_counts_once() {
        // On the border of four tiles, so that it is in all of them.
        let rests = rests_after(|number| Screen::new().cursor(31, 25, (number / 5).is_multiple_of(2)));
        assert_eq!(rests, Some(5 + QUIET_FRAMES));
    }

    #[test]
    fn two_cursors_that_blink_each_in_its_own_time_rest() {
        let rests = rests_after(|number| {
            Screen::new().cursor(40, 40, (number / 5).is_multiple_of(2)).cursor(
                200,
                150,
                (number / 7).is_multiple_of(2),
            )
        });
        assert_eq!(rests, Some(7 + QUIET_FRAMES));
    }

    #[test]
    fn a_cursor_on_a_page_that_was_just_painted_rests() {
        let rests = rests_after(|number| {
            let page = if number < 12 { Screen::new() } else { Screen::new().fill(0, 0, 320, 200, 90) };
            page.cursor(100, 100, (number / 5).is_multiple_of(2))
        });
        assert!(rests.is_some_and(|rests| rests <= 12 + 10 + QUIET_FRAMES), "{rests:?}");
    }

    #[test]
    fn typing_counts() {
        let rests = rests_after(|number| {
            let typed = number / 3;
            let text = Screen::new().fill(0, 50, typed.min(300) + 1, 10, 200);
            text.cursor(typed.min(300) + 3, 48, (number / 5).is_multiple_of(2))
        });
        assert_eq!(rests, None);
    }

    #[test]
    fn a_progress_bar_counts_until_it_is_full() {
        let bar = |number: usize| Screen::new().fill(10, 100, 1 + number.min(250), 12, 255);
        assert_eq!(rests_after(bar), Some(250 + QUIET_FRAMES));
    }

    #[test]
    fn a_block_that_moves_to_and_fro_counts() {
        for step in [1, 16, 32, 64] {
            let block = |number: usize| {
                let there = number * step % 512;
                let x = if there <= 256 { there } else { 512 - there };
                Screen::new().fill(x, 100, 32, 12, 255)
            };
            assert_eq!(rests_after(block), None, "{step} pixels a frame");
        }
    }

    #[test]
    fn a_spinner_counts() {
        for phases in [3, 4, 8] {
            let spinner = |number: usize| {
                let phase = number % phases;
                Screen::new().fill(100 + 10 * (phase % 3), 100 + 10 * (phase / 3), 8, 8, 255)
            };
            assert_eq!(rests_after(spinner), None, "{phases} phases");
        }
    }

    #[test]
    fn a_clock_counts_with_every_tick() {
        let clock = |number: usize| Screen::new().fill(250, 5, 1 + number / 10, 9, 255);
        assert_eq!(rests_after(clock), None);
    }

    #[test]
    fn a_window_that_flashes_counts() {
        let flash = |number: usize| {
            Screen::new().fill(20, 20, 200, 150, if (number / 5).is_multiple_of(2) { 0 } else { 255 })
        };
        assert_eq!(rests_after(flash), None);
    }

    #[test]
    fn a_display_that_sends_too_few_pixels_is_compared_as_a_whole() {
        let mut watch = StabilityWatch::new(WIDTH, HEIGHT, vec![0; 7]);
        assert!(watch.take(vec![1; 7]) && !watch.take(vec![1; 7]) && watch.take(Screen::new().0));
        let mut empty = StabilityWatch::new(0, 0, Vec::new());
        assert!(!empty.take(Vec::new()));
    }
}
