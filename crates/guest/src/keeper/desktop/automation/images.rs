//! Pictures: the screen's pixels, as PNG.

use std::hash::{DefaultHasher, Hasher as _};

use x11rb::protocol::xproto::{ConnectionExt as _, GetImageReply, ImageFormat};

use super::client::{DisplayClient, DisplayError, invalid};
use super::worker::ScreenDigest;

pub(super) struct Picture {
    pub(super) png: Vec<u8>,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A part of the screen.
struct Area {
    x: i16,
    y: i16,
    width: u16,
    height: u16,
}

impl DisplayClient {
    /// The screen, or the part of it that a window covers.
    pub(super) fn picture(&self, window: Option<u32>) -> Result<Picture, DisplayError> {
        let area = match window {
            Some(window) => self.window_area(window)?,
            None => self.screen(),
        };
        let image = self.image(&area)?;
        let png = encode(&image.data, area.width, area.height)?;
        Ok(Picture { png, width: u32::from(area.width), height: u32::from(area.height) })
    }

    /// The screen with its digest; `None`, and nothing encoded, if the digest is `unless`.
    pub(super) fn picture_unless(
        &self,
        unless: Option<ScreenDigest>,
    ) -> Result<Option<(ScreenDigest, Picture)>, DisplayError> {
        let area = self.screen();
        let image = self.image(&area)?;
        let digest = digest_of(&image.data);
        if unless == Some(digest) {
            return Ok(None);
        }
        let png = encode(&image.data, area.width, area.height)?;
        Ok(Some((digest, Picture { png, width: u32::from(area.width), height: u32::from(area.height) })))
    }

    /// The pixels of the screen, four bytes each.
    pub(super) fn pixels(&self) -> Result<Vec<u8>, DisplayError> {
        Ok(self.image(&self.screen())?.data)
    }

    fn screen(&self) -> Area {
        Area { x: 0, y: 0, width: self.width, height: self.height }
    }

    fn window_area(&self, window: u32) -> Result<Area, DisplayError> {
        let place = self.place(window)?;
        let clip = |at: i32, size: u32, most: u16| {
            let (from, to) =
                (at.clamp(0, i32::from(most)), at.saturating_add_unsigned(size).clamp(0, i32::from(most)));
            Some((i16::try_from(from).ok()?, u16::try_from(to - from).ok().filter(|size| *size > 0)?))
        };
        let (x, width) = clip(place.x, place.width, self.width).ok_or_else(off_screen)?;
        let (y, height) = clip(place.y, place.height, self.height).ok_or_else(off_screen)?;
        Ok(Area { x, y, width, height })
    }

    fn image(&self, area: &Area) -> Result<GetImageReply, DisplayError> {
        let Area { x, y, width, height } = *area;
        let all = u32::MAX;
        let cookie = self.connection.get_image(ImageFormat::Z_PIXMAP, self.root, x, y, width, height, all)?;
        Ok(cookie.reply()?)
    }
}

fn off_screen() -> DisplayError {
    invalid("the window is not on the screen")
}

fn digest_of(pixels: &[u8]) -> ScreenDigest {
    // Without a random key, because the next worker compares with it.
    let mut hasher = DefaultHasher::new();
    hasher.write(pixels);
    ScreenDigest(hasher.finish())
}

/// From the display's blue, green, red and filler bytes.
fn encode(pixels: &[u8], width: u16, height: u16) -> Result<Vec<u8>, DisplayError> {
    let count = usize::from(width) * usize::from(height);
    // The job may stand in for the X server: a wrong length must not reach the encoder.
    if pixels.len() != count * 4 {
        return Err(invalid("the display has another depth than 24 bits"));
    }
    let mut rgb = Vec::with_capacity(count * 3);
    for pixel in pixels.chunks_exact(4) {
        rgb.extend_from_slice(&[pixel[2], pixel[1], pixel[0]]);
    }
    let mut encoded = Vec::new();
    let failed = |error: png::EncodingError| invalid(format!("encode the picture: {error}"));
    let mut encoder = png::Encoder::new(&mut encoded, u32::from(width), u32::from(height));
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&rgb).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_become_a_picture_of_the_same_colours() {
        let encoded = encode(&[1, 2, 3, 0, 4, 5, 6, 0], 2, 1).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(encoded)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [3, 2, 1, 6, 5, 4]);
    }

    #[test]
    fn screens_are_told_apart_by_one_pixel() {
        let mut pixels = vec![7; 4 * 1280 * 800];
        let before = digest_of(&pixels);
        assert_eq!(digest_of(&pixels), before);
        pixels[4 * 1280 * 799] = 8;
        assert_ne!(digest_of(&pixels), before);
    }

    #[test]
    fn a_display_that_sends_too_few_pixels_is_refused() {
        assert!(encode(&[0; 7], 2, 1).is_err());
        assert!(encode(&[], u16::MAX, u16::MAX).is_err());
    }
}
