//! The keyboard: keys by name, text of any script.
//!
//! XTEST presses key codes, so a character that no key has is first given to a spare one. Spare keys keep their last character:
//! a program looks the character up when it handles the key, which may be later, so a key is not given another at once.

use std::collections::BTreeSet;
use std::time::Duration;

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, Keycode, Keysym};
use x11rb::protocol::xtest::ConnectionExt as _;

use super::client::{DisplayClient, DisplayError, invalid, pause};
use super::keys;

/// Time for programs to handle the keys so far, before a spare key changes its character.
const SPARE_REST: Duration = Duration::from_millis(200);
/// Time for programs to learn of a changed key.
const MAPPING_TIME: Duration = Duration::from_millis(30);
/// Between two characters; programs that draw each one keep up with it.
const CHARACTER_TIME: Duration = Duration::from_millis(2);

/// A key of the keyboard, with or without shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    code: Keycode,
    shifted: bool,
}

/// The character of each key.
struct KeyboardLayout {
    first: Keycode,
    width: usize,
    keysyms: Vec<Keysym>,
}

impl KeyboardLayout {
    fn rows(&self) -> impl DoubleEndedIterator<Item = (Keycode, &[Keysym])> {
        let first = usize::from(self.first);
        let rows = self.keysyms.chunks_exact(self.width.max(1)).enumerate().collect::<Vec<_>>();
        rows.into_iter().filter_map(move |(number, row)| Some((Keycode::try_from(first + number).ok()?, row)))
    }

    fn find(&self, keysym: Keysym) -> Option<Key> {
        let at = |column: usize, shifted: bool| {
            self.rows()
                .find(|(_, row)| row.get(column) == Some(&keysym))
                .map(|(code, _)| Key { code, shifted })
        };
        at(0, false).or_else(|| at(1, true))
    }

    /// Keys without a meaning of their own: empty ones, then those that were given a character before.
    fn spare(&self) -> Vec<Keycode> {
        let (mut empty, mut given) = (Vec::new(), Vec::new());
        for (code, row) in self.rows() {
            let unicode = |keysym: &Keysym| keysym & 0xff00_0000 == 0x0100_0000;
            if row.iter().all(|keysym| *keysym == 0) {
                empty.push(code);
            } else if row.iter().all(|keysym| *keysym == 0 || unicode(keysym)) {
                given.push(code);
            }
        }
        empty.extend(given);
        empty
    }
}

impl DisplayClient {
    pub(super) fn type_text(&self, text: &str) -> Result<(), DisplayError> {
        let characters: Vec<char> = text.replace("\r\n", "\n").chars().collect();
        if let Some(odd) = characters.iter().find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
            return Err(invalid(format!("the character {odd:?} can't be typed; press keys by name instead")));
        }
        let shift = self.named_key("Shift")?;
        let mut rest = characters.as_slice();
        let mut first = true;
        while !rest.is_empty() {
            let (layout, count) = self.prepare(rest, first)?;
            for character in &rest[..count] {
                let key = layout
                    .find(keys::of_character(*character))
                    .ok_or_else(|| invalid(format!("the display took no key for {character:?}")))?;
                self.strike(key, shift)?;
                pause(CHARACTER_TIME);
            }
            rest = &rest[count..];
            first = false;
        }
        self.settle()
    }

    /// Assigns characters that no key has to spare keys. Returns the number of characters that can be typed now.
    fn prepare(&self, characters: &[char], first: bool) -> Result<(KeyboardLayout, usize), DisplayError> {
        let layout = self.layout()?;
        let spare = layout.spare();
        let mut missing: BTreeSet<Keysym> = BTreeSet::new();
        let mut kept: BTreeSet<Keycode> = BTreeSet::new();
        let mut count = 0;
        for character in characters {
            let keysym = keys::of_character(*character);
            match layout.find(keysym) {
                Some(key) => {
                    kept.insert(key.code);
                }
                None => {
                    let room = spare.iter().filter(|code| !kept.contains(code)).count();
                    if !missing.contains(&keysym) && missing.len() >= room {
                        break;
                    }
                    missing.insert(keysym);
                }
            }
            count += 1;
        }
        if missing.is_empty() {
            return Ok((layout, characters.len()));
        }
        if count == 0 {
            return Err(invalid("the display has no spare key for a character that no key has"));
        }
        if !first {
            // Programs look a character up when they handle the key: one that is slow would read the new character for an old key.
            pause(SPARE_REST);
        }
        let free = spare.iter().filter(|code| !kept.contains(code));
        for (keysym, code) in missing.iter().zip(free) {
            self.connection.change_keyboard_mapping(1, *code, 2, &[*keysym, *keysym])?;
        }
        self.settle()?;
        pause(MAPPING_TIME);
        Ok((self.layout()?, count))
    }

    /// Several chords separated by spaces.
    pub(super) fn press_keys(&self, keys: &str) -> Result<(), DisplayError> {
        let chords: Vec<Vec<Key>> =
            keys.split_whitespace().map(|chord| self.chord(chord)).collect::<Result<_, _>>()?;
        if chords.is_empty() {
            return Err(invalid("there is no key to press"));
        }
        for chord in chords {
            for key in &chord {
                self.key(*key, true)?;
            }
            // Modifiers are released last, as a person does.
            for key in chord.iter().rev() {
                self.key(*key, false)?;
            }
            self.settle()?;
            pause(CHARACTER_TIME);
        }
        Ok(())
    }

    /// Keys pressed together, `ctrl+shift+t`; a lone `+` is itself.
    pub(super) fn chord(&self, chord: &str) -> Result<Vec<Key>, DisplayError> {
        let mut names: Vec<&str> = chord.split('+').collect();
        if chord == "+" || chord.ends_with("++") {
            names.truncate(names.len() - 2);
            names.push("+");
        }
        let mut pressed = Vec::new();
        for name in names {
            let key = self.named_key(name)?;
            if key.shifted {
                pressed.push(self.named_key("Shift")?);
            }
            pressed.push(Key { shifted: false, ..key });
        }
        Ok(pressed)
    }

    fn named_key(&self, name: &str) -> Result<Key, DisplayError> {
        let keysym = keys::by_name(name).ok_or_else(|| {
            invalid(format!(
                "there is no key named `{}`; an `xdotool` action knows every name of X",
                name.escape_debug()
            ))
        })?;
        if let Some(key) = self.layout()?.find(keysym) {
            return Ok(key);
        }
        let character = name.chars().next().unwrap_or_default();
        let (layout, _) = self.prepare(&[character], true)?;
        layout.find(keysym).ok_or_else(|| invalid(format!("no key gives `{}`", name.escape_debug())))
    }

    fn strike(&self, key: Key, shift: Key) -> Result<(), DisplayError> {
        if key.shifted {
            self.key(shift, true)?;
        }
        self.key(key, true)?;
        self.key(key, false)?;
        if key.shifted {
            self.key(shift, false)?;
        }
        self.settle()
    }

    pub(super) fn key(&self, key: Key, down: bool) -> Result<(), DisplayError> {
        let event = if down { KEY_PRESS_EVENT } else { KEY_RELEASE_EVENT };
        self.connection.xtest_fake_input(event, key.code, 0, self.root, 0, 0, 0)?;
        Ok(())
    }

    fn layout(&self) -> Result<KeyboardLayout, DisplayError> {
        let setup = self.connection.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let count = last.saturating_sub(first).saturating_add(1);
        let reply = self.connection.get_keyboard_mapping(first, count)?.reply()?;
        Ok(KeyboardLayout { first, width: usize::from(reply.keysyms_per_keycode), keysyms: reply.keysyms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> KeyboardLayout {
        let keysyms = vec![0x61, 0x41, 0, 0, 0x0100_20ac, 0x0100_20ac, 0xff0d, 0];
        KeyboardLayout { first: 8, width: 2, keysyms }
    }

    #[test]
    fn characters_are_found_with_and_without_shift() {
        let layout = layout();
        assert_eq!(layout.find(0x61), Some(Key { code: 8, shifted: false }));
        assert_eq!(layout.find(0x41), Some(Key { code: 8, shifted: true }));
        assert_eq!(layout.find(0x42), None);
    }

    #[test]
    fn empty_keys_are_spared_first_and_named_ones_never() {
        assert_eq!(layout().spare(), [9, 10]);
    }

    #[test]
    fn a_display_that_lies_about_its_keys_does_no_harm() {
        let none = KeyboardLayout { first: 250, width: 0, keysyms: vec![0x61; 40] };
        assert_eq!(none.rows().count(), 6);
        assert_eq!(none.find(0x61), Some(Key { code: 250, shifted: false }));
    }
}
