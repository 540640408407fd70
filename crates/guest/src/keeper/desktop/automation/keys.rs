//! Names of keys and characters as keysyms (the X protocol's appendix A, and `keysymdef.h`).

/// Keys by the names that xdotool and X know, and the short ones that people use.
const NAMES: &[(&str, u32)] = &[
    ("BackSpace", 0xff08),
    ("Tab", 0xff09),
    ("Return", 0xff0d),
    ("Enter", 0xff0d),
    ("Pause", 0xff13),
    ("Escape", 0xff1b),
    ("Esc", 0xff1b),
    ("Home", 0xff50),
    ("Left", 0xff51),
    ("Up", 0xff52),
    ("Right", 0xff53),
    ("Down", 0xff54),
    ("Prior", 0xff55),
    ("Page_Up", 0xff55),
    ("PageUp", 0xff55),
    ("Next", 0xff56),
    ("Page_Down", 0xff56),
    ("PageDown", 0xff56),
    ("End", 0xff57),
    ("Print", 0xff61),
    ("Insert", 0xff63),
    ("Menu", 0xff67),
    ("Num_Lock", 0xff7f),
    ("KP_Enter", 0xff8d),
    ("Delete", 0xffff),
    ("Del", 0xffff),
    ("Shift", 0xffe1),
    ("Shift_L", 0xffe1),
    ("Shift_R", 0xffe2),
    ("Ctrl", 0xffe3),
    ("Control", 0xffe3),
    ("Control_L", 0xffe3),
    ("Control_R", 0xffe4),
    ("Caps_Lock", 0xffe5),
    ("Meta", 0xffe7),
    ("Alt", 0xffe9),
    ("Alt_L", 0xffe9),
    ("Alt_R", 0xffea),
    ("Super", 0xffeb),
    ("Super_L", 0xffeb),
    ("Win", 0xffeb),
    ("Cmd", 0xffeb),
    ("Super_R", 0xffec),
    ("space", 0x20),
    ("plus", 0x2b),
    ("minus", 0x2d),
    ("comma", 0x2c),
    ("period", 0x2e),
    ("slash", 0x2f),
    ("equal", 0x3d),
    ("underscore", 0x5f),
];
const F1: u32 = 0xffbe;
const FUNCTION_KEYS: u32 = 24;

pub(super) const RETURN: u32 = 0xff0d;
pub(super) const TAB: u32 = 0xff09;

/// The keysym of a key's name or of a single character.
pub(super) fn by_name(name: &str) -> Option<u32> {
    let mut characters = name.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return Some(of_character(character));
    }
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, keysym)| *keysym);
    known.or_else(|| function_key(name))
}

fn function_key(name: &str) -> Option<u32> {
    let number: u32 = name.strip_prefix(['F', 'f'])?.parse().ok()?;
    (1..=FUNCTION_KEYS).contains(&number).then(|| F1 + number - 1)
}

/// The keysym of a character: its own number in Latin 1, marked as Unicode beyond.
pub(super) fn of_character(character: char) -> u32 {
    match u32::from(character) {
        0x0a | 0x0d => RETURN,
        0x09 => TAB,
        latin @ (0x20..=0x7e | 0xa0..=0xff) => latin,
        other => 0x0100_0000 | other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_characters_become_keysyms() {
        for (name, keysym) in [
            ("Return", 0xff0d),
            ("return", 0xff0d),
            ("a", 0x61),
            ("A", 0x41),
            ("ü", 0xfc),
            ("€", 0x0100_20ac),
            ("F1", 0xffbe),
            ("f12", 0xffc9),
            ("ctrl", 0xffe3),
        ] {
            assert_eq!(by_name(name), Some(keysym), "{name}");
        }
        for name in ["", "F25", "F0", "Hyperdrive", "F-1"] {
            assert_eq!(by_name(name), None, "{name}");
        }
        assert_eq!(of_character('\n'), RETURN);
        assert_eq!(of_character('😀'), 0x0101_f600);
    }
}
