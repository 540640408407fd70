//! The pages for browsers, as bytes. The build script of this crate builds them from `web/`; the server serves them on its own
//! origin, and the guest inside a sandbox. Owns no route and no header.

/// One file of the pages.
#[derive(Debug)]
pub struct WebAsset {
    /// Name below `/assets/`. Names of scripts and styles have a hash of their content, except those of the desktop's page.
    pub name: &'static str,
    /// Value of `Content-Type`.
    pub media_type: &'static str,
    /// Entity tag, with quotes: a hash of the content.
    pub tag: &'static str,
    /// The content.
    pub bytes: &'static [u8],
    /// The content, compressed with brotli at build time.
    pub brotli: &'static [u8],
}

impl WebAsset {
    /// Returns the asset of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.name == name)
    }

    /// True if the name has a hash of the content, so that a copy never becomes stale.
    pub fn is_immutable(&self) -> bool {
        let stem = self.name.rsplit_once('.').map_or(self.name, |(stem, _)| stem);
        stem.rsplit_once('-').is_some_and(|(_, hash)| hash.len() == 8)
    }
}

/// All files of the pages.
pub static ASSETS: &[WebAsset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The page with the live view of a desktop.
pub const DESKTOP_HTML: &str = include_str!(concat!(env!("SANDYARD_WEB_DIST"), "/desktop.html"));
/// Style of the live view, at `/assets/desktop.css`.
pub const DESKTOP_CSS: &str = include_str!(concat!(env!("SANDYARD_WEB_DIST"), "/desktop.css"));
/// Script of the live view with the core of noVNC, at `/assets/desktop.js`.
pub const DESKTOP_JS: &str = include_str!(concat!(env!("SANDYARD_WEB_DIST"), "/desktop.js"));

#[cfg(test)]
#[path = "web_tests.rs"]
mod tests;
