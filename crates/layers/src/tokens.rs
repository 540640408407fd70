//! Splits Rust source into the few kinds of tokens that imports are made of. Comments, numbers, lifetimes and characters are dropped.

/// One token and the line it begins on, counting from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) line: usize,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A keyword or an identifier, without the `r#` of a raw one.
    Word(String),
    /// The content of a string literal, escapes left as they are.
    Text(String),
    /// `::`.
    PathSeparator,
    /// Any other character.
    Mark(char),
}

/// Splits a whole file. Source that does not compile gives some tokens, never an error.
pub(crate) fn split(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { characters: source.chars().collect(), position: 0, line: 1, tokens: Vec::new() };
    while lexer.position < lexer.characters.len() {
        lexer.next();
    }
    lexer.tokens
}

struct Lexer {
    characters: Vec<char>,
    position: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.peek(0)?;
        self.position += 1;
        self.line += usize::from(character == '\n');
        Some(character)
    }

    fn push(&mut self, kind: TokenKind, line: usize) {
        self.tokens.push(Token { kind, line });
    }

    fn next(&mut self) {
        let line = self.line;
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => {
                while self.peek(0).is_some_and(|next| next != '\n') && self.advance().is_some() {}
            }
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => {
                self.advance();
                self.text(line);
            }
            (Some('\''), _) => self.character_or_lifetime(),
            (Some(':'), Some(':')) => {
                self.position += 2;
                self.push(TokenKind::PathSeparator, line);
            }
            (Some(first), _) if first.is_ascii_digit() => {
                self.take_word();
            }
            (Some(first), _) if is_word(first) => self.word(line),
            (Some(first), _) => {
                self.advance();
                if !first.is_whitespace() {
                    self.push(TokenKind::Mark(first), line);
                }
            }
            (None, _) => {}
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    self.position += 2;
                    depth += 1;
                }
                (Some('*'), Some('/')) => {
                    self.position += 2;
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                (Some(_), _) => {
                    self.advance();
                }
                (None, _) => return,
            }
        }
    }

    /// The rest of a string literal, behind its opening quote.
    fn text(&mut self, line: usize) {
        let mut content = String::new();
        while let Some(next) = self.advance() {
            match next {
                '"' => break,
                '\\' => content.extend([Some('\\'), self.advance()].into_iter().flatten()),
                other => content.push(other),
            }
        }
        self.push(TokenKind::Text(content), line);
    }

    /// The rest of a raw string literal, behind its `r` and at its hashes.
    fn raw_text(&mut self, line: usize) {
        let mut hashes = 0;
        while self.peek(0) == Some('#') {
            self.advance();
            hashes += 1;
        }
        self.advance();
        let mut content = String::new();
        while let Some(next) = self.advance() {
            if next == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.position += hashes;
                break;
            }
            content.push(next);
        }
        self.push(TokenKind::Text(content), line);
    }

    fn character_or_lifetime(&mut self) {
        self.advance();
        if self.peek(0) != Some('\\') && self.peek(1) != Some('\'') {
            self.take_word();
            return;
        }
        while let Some(next) = self.advance() {
            match next {
                '\'' => return,
                '\\' => drop(self.advance()),
                _ => {}
            }
        }
    }

    fn word(&mut self, line: usize) {
        let word = self.take_word();
        let raw = matches!(word.as_str(), "r" | "br" | "cr");
        match (self.peek(0), self.peek(1)) {
            (Some('"'), _) if raw => self.raw_text(line),
            (Some('#'), Some('"' | '#')) if raw => self.raw_text(line),
            (Some('#'), Some(first)) if word == "r" && is_word(first) => {
                self.advance();
                let word = self.take_word();
                self.push(TokenKind::Word(word), line);
            }
            (Some('"'), _) if matches!(word.as_str(), "b" | "c") => {
                self.advance();
                self.text(line);
            }
            (Some('\''), _) if word == "b" => self.character_or_lifetime(),
            _ => self.push(TokenKind::Word(word), line),
        }
    }

    fn take_word(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) = self.peek(0).filter(|&next| is_word(next)) {
            self.position += 1;
            word.push(next);
        }
        word
    }
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}
