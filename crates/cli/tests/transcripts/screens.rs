//! What a terminal shows at the end of a command, with everything replaced that differs from run to run.

use tokio::process::Command;

use crate::person::Person;

/// A terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) columns: u16,
    pub(crate) colour: bool,
}

impl Screen {
    /// The terminals of all transcripts.
    pub(crate) const ALL: [Self; 4] = [
        Self { columns: 80, colour: false },
        Self { columns: 120, colour: false },
        Self { columns: 80, colour: true },
        Self { columns: 120, colour: true },
    ];

    pub(crate) fn name(self) -> String {
        format!("{}{}", self.columns, if self.colour { " colour" } else { "" })
    }

    /// Runs a command here. Returns its exit code and what is left on the terminal.
    pub(crate) async fn shows(self, mut command: Command) -> (i32, String) {
        let (name, value) = if self.colour { ("FORCE_COLOR", "1") } else { ("NO_COLOR", "1") };
        command.env(name, value).env("TERM", "xterm");
        let (code, text) = Person::at_width(command, self.columns).watches_to_the_end().await;
        (code, settled_lines(&text))
    }

    /// Asserts that no line is broken by the terminal.
    pub(crate) fn assert_fits(self, what: &str, text: &str) {
        for line in plain(text).lines() {
            let width = line.chars().count();
            assert!(width <= usize::from(self.columns), "{what} is too wide for {}: {line:?}", self.name());
        }
    }
}

/// Does what a terminal does with lines that are written over, as bars of progress are. Colours stay.
fn settled_lines(text: &str) -> String {
    let mut shown = String::new();
    let mut line = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' if letters.peek() != Some(&'\n') => line.clear(),
            '\r' => {}
            '\n' => {
                shown.push_str(&line);
                shown.push('\n');
                line.clear();
            }
            '\u{1b}' => {
                let sequence: String =
                    std::iter::from_fn(|| letters.next_if(|letter| !letter.is_ascii_alphabetic())).collect();
                if letters.next() == Some('m') {
                    line += &format!("\u{1b}{sequence}m");
                }
            }
            letter => line.push(letter),
        }
    }
    shown + &line
}

/// Removes the colours.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Shows colours as words.
pub(crate) fn with_words(text: &str) -> String {
    let mut text = text.to_owned();
    for (code, word) in [
        ("0", "/"),
        ("1", "strong"),
        ("2", "faint"),
        ("4", "under"),
        ("31", "red"),
        ("32", "green"),
        ("33", "yellow"),
    ] {
        text = text.replace(&format!("\u{1b}[{code}m"), &format!("<{word}>"));
    }
    text
}

/// Words that stand for others in a transcript: ids, paths, addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(pub(crate) Vec<(String, String)>);

/// Letters that commands show of an id.
const SHORT_ID: usize = 8;
/// Letters of an id of a job.
const JOB_ID: usize = 26;
/// Letters of the id of a key.
const KEY_ID: usize = 12;
/// Shown letters of a text that a table has cut: how many fit depends on the times beside it.
const CUT: usize = 12;

impl Names {
    pub(crate) fn add(&mut self, text: &str, name: &str) {
        self.0.push((text.to_owned(), name.to_owned()));
    }

    /// Adds the id of a job, whole and short.
    pub(crate) fn add_job(&mut self, id: &str, name: &str) {
        self.add(id, &format!("[{name}]"));
        self.add(&id[..SHORT_ID], &format!("[{name}…]"));
    }

    /// Replaces everything that differs from run to run.
    pub(crate) fn settle(&self, text: &str) -> String {
        let mut names = self.clone();
        for word in plain(text).split(|letter: char| !letter.is_ascii_alphanumeric()) {
            let is_id = word.len() == JOB_ID && word.bytes().all(|byte| !byte.is_ascii_uppercase());
            if is_id && !names.0.iter().any(|(known, _)| known == word) {
                names.add_job(word, "OTHER");
            }
        }
        let mut text = with_words(text);
        for (from, to) in &names.0 {
            text = text.replace(from.as_str(), to);
        }
        let lines = text.lines().map(|line| settled_line(line) + "\n");
        lines.collect()
    }
}

fn settled_line(line: &str) -> String {
    let mut line = numbers(&randoms(&folders(line)));
    for (spans, name) in [
        (&["#-#-#T#:#:#Z"][..], "[AT]"),
        (&["# d # h", "# h # min", "# min # s", "# ms", "# s"], "[TIME]"),
        (&["# bytes", "# KiB", "# MiB", "# GiB"], "[SIZE]"),
    ] {
        for span in spans {
            line = replace_spans(&line, span, name);
        }
    }
    // The widths of columns depend on times.
    while line.contains("   ") {
        line = line.replace("   ", "  ");
    }
    if let Some(cut) = line.strip_suffix('…') {
        let start = cut.rfind("  ").map_or(0, |gap| gap + 2);
        let kept: String = cut[start..].chars().take(CUT).collect();
        line = format!("{}{kept}…", &cut[..start]);
    }
    line.trim_end().to_owned()
}

/// Replaces a span wherever it is not the beginning of a longer word, as `# s` is in `of=# status`.
fn replace_spans(line: &str, span: &str, name: &str) -> String {
    let mut parts = line.split(span);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown += if part.starts_with(|letter: char| letter.is_ascii_alphabetic()) { span } else { name };
        shown += part;
    }
    shown
}

/// Replaces the folders that tests make for a while.
fn folders(line: &str) -> String {
    let mut parts = line.split("/tmp/.tmp");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        shown + "[FOLDER]" + part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric())
    })
}

/// Replaces hashes, keys, the ids of keys, and tickets.
fn randoms(line: &str) -> String {
    let mut shown = String::new();
    for word in line.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
        let bare = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let has = |is: fn(&u8) -> bool| bare.as_bytes().iter().any(is);
        let is_secret = bare.len() >= 20 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        let is_key_id = bare.len() == KEY_ID && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_secret || is_key_id {
            shown += "[RANDOM]";
            shown += &word[bare.len()..];
        } else {
            shown += word;
        }
    }
    shown
}

/// Replaces every number by one sign, with its fraction.
fn numbers(line: &str) -> String {
    let mut shown = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii_digit() {
            shown.push(letter);
            continue;
        }
        while letters.next_if(char::is_ascii_digit).is_some() {}
        let mut rest = letters.clone();
        if rest.next() == Some('.') && rest.next().is_some_and(|letter| letter.is_ascii_digit()) {
            letters = rest;
            while letters.next_if(char::is_ascii_digit).is_some() {}
        }
        shown.push('#');
    }
    shown
}

#[test]
fn what_differs_from_run_to_run_is_replaced() {
    let id = "abcdefgh".to_owned() + &"z".repeat(18);
    let mut names = Names::default();
    names.add_job(&id, "JOB");
    for (told, settled) in [
        (format!("{id} took 1 min 3 s, 2.0 MiB"), "[JOB] took [TIME], [SIZE]\n"),
        ("abcdefgh    12 ms   echo a long text that w…".to_owned(), "[JOB…]  [TIME]  echo a long …\n"),
        ("at 2026-01-31T08:15:00.250Z: 7 of 1..3".to_owned(), "at [AT]: # of #..#\n"),
        ("key sy_0123456789qrstuvwxyz!".to_owned(), "key [RANDOM]!\n"),
        ("key 0a1b2c3d4e5f from /tmp/.tmpAb12Cd/keys".to_owned(), "key [RANDOM] from [FOLDER]/keys\n"),
        ("of=9 status=200 took 3 s".to_owned(), "of=# status=# took [TIME]\n"),
        (format!("{}7 and {}", "y".repeat(25), "y".repeat(8)), "[OTHER] and [OTHER…]\n"),
    ] {
        assert_eq!(names.settle(&told), settled);
    }
    assert_eq!(
        settled_lines("copy 1 %\r\u{1b}[2Kcopy 2 %\r\u{1b}[2K\u{1b}[1mdone\u{1b}[0m\r\n"),
        "\u{1b}[1mdone\u{1b}[0m\n"
    );
}
