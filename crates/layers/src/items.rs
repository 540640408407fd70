//! Finds where an item of a module begins, and its name.

use crate::tokens::{Token, TokenKind};

/// Keywords whose next word is the item's name.
const NAMED: [&str; 9] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"];

/// Returns the name of the item whose keyword is at `position`. An `impl` belongs to the item of its type; a macro's call at this place
/// is an item with the macro's name.
pub(crate) fn item_beginning(tokens: &[Token], position: usize) -> Option<String> {
    if !is_boundary(position.checked_sub(1).and_then(|before| tokens.get(before))) {
        return None;
    }
    let word = word(tokens, position)?;
    let next = tokens.get(position + 1).map(|token| &token.kind);
    match (word, next) {
        ("impl", _) => implemented_type(tokens, position + 1),
        ("macro_rules", Some(TokenKind::Mark('!'))) => name(tokens, position + 2),
        (_, Some(TokenKind::Mark('!'))) => Some(word.to_owned()),
        // `const fn` and `static mut`.
        ("const" | "static", Some(TokenKind::Word(next)))
            if matches!(next.as_str(), "fn" | "unsafe" | "mut") =>
        {
            if next == "mut" {
                name(tokens, position + 2)
            } else {
                None
            }
        }
        (keyword, Some(TokenKind::Word(name))) if NAMED.contains(&keyword) => Some(name.clone()),
        _ => None,
    }
}

/// True for tokens that an item may follow: the end of another item, of an attribute or of `pub(…)`, and words before a keyword.
fn is_boundary(before: Option<&Token>) -> bool {
    match before.map(|token| &token.kind) {
        None | Some(TokenKind::Mark(';' | '}' | ']' | ')') | TokenKind::Text(_)) => true,
        Some(TokenKind::Word(word)) => {
            matches!(word.as_str(), "pub" | "unsafe" | "async" | "const" | "extern" | "default")
        }
        Some(_) => false,
    }
}

/// The last word of the type behind `impl`: of `impl<T> Trait<T> for path::Type<T>` it is `Type`.
fn implemented_type(tokens: &[Token], mut position: usize) -> Option<String> {
    let mut depth = 0_usize;
    let mut last = None;
    while let Some(token) = tokens.get(position) {
        let after_dash = position > 0
            && tokens.get(position - 1).is_some_and(|before| before.kind == TokenKind::Mark('-'));
        match &token.kind {
            TokenKind::Mark('{') => break,
            TokenKind::Mark('<' | '(' | '[') => depth += 1,
            TokenKind::Mark('>') if after_dash => {}
            TokenKind::Mark('>' | ')' | ']') => depth = depth.saturating_sub(1),
            TokenKind::Word(word) if depth == 0 && word == "where" => break,
            TokenKind::Word(word) if depth == 0 && word == "for" => last = None,
            TokenKind::Word(word) if depth == 0 => last = Some(word.clone()),
            _ => {}
        }
        position += 1;
    }
    last
}

fn word(tokens: &[Token], position: usize) -> Option<&str> {
    match tokens.get(position).map(|token| &token.kind) {
        Some(TokenKind::Word(word)) => Some(word),
        _ => None,
    }
}

fn name(tokens: &[Token], position: usize) -> Option<String> {
    word(tokens, position).map(str::to_owned)
}
