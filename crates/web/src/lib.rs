//! The pages for browsers, as bytes. The build script of this crate builds them from `web/`; the server serves them on its own
//! origin, and the guest inside a sandbox. Owns no route and no header.

/// The page with the live view of a desktop.
pub const DESKTOP_HTML: &str = include_str!("../../../web/src/desktop.html");
/// Style of the live view, at `/assets/desktop.css`.
pub const DESKTOP_CSS: &str = include_str!("../../../web/src/desktop.css");
/// Script of the live view with the core of noVNC, at `/assets/desktop.js`.
pub const DESKTOP_JS: &str = include_str!(concat!(env!("SANDYARD_WEB_DIST"), "/desktop.js"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_from_outside_and_has_no_inline_script() {
        assert!(!DESKTOP_HTML.contains("http:") && !DESKTOP_HTML.contains("//"), "{DESKTOP_HTML}");
        assert!(!DESKTOP_HTML.contains("<style") && !DESKTOP_HTML.contains(" style="));
        for script in DESKTOP_HTML.split("<script").skip(1) {
            assert!(script.trim_start().starts_with("type=\"module\" src=\"/assets/"), "{script}");
        }
    }

    #[test]
    fn w18_the_script_never_makes_markup_or_code_from_text() {
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!DESKTOP_JS.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = include_str!("../../../web/package-lock.json");
        assert!(!lock.contains("\"resolved\""));
        assert!(lock.contains("\"integrity\": \"sha512-"));
    }
}
