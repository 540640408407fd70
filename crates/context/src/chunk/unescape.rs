//! JSON text without escapes, for searching: `"a\nb"` must give the words `a` and `b`, not `nb`.

/// Returns the text with its escapes replaced, or `None` if it has none.
pub(super) fn unescaped(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        plain.push_str(&rest[..place]);
        let escape = rest[place + 1..].chars().next();
        rest = &rest[place + 1 + escape.map_or(0, char::len_utf8)..];
        match escape {
            Some('u') => {
                let code = rest.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                plain.push(code.and_then(char::from_u32).unwrap_or(' '));
                rest = if code.is_some() { &rest[4..] } else { rest };
            }
            Some('n') => plain.push('\n'),
            Some('t' | 'r' | 'b' | 'f') | None => plain.push(' '),
            Some(other) => plain.push(other),
        }
    }
    plain.push_str(rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_become_their_characters() {
        assert_eq!(unescaped(r#""a\nb \"c\" \u00e9 \\""#).as_deref(), Some("\"a\nb \"c\" é \\\""));
        assert_eq!(unescaped("plain"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_accepted(text in r"[a\\u0-9é]{0,30}") {
            unescaped(&text);
        }
    }
}
