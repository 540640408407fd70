//! What every verb says, on terminals of 80 and 120 columns, without and with colours: its help, a success, and failures.
//!
//! What differs from run to run (ids, times, sizes, paths) is replaced. No line may be longer than the terminal is wide.

use std::fmt::Write as _;

use tokio::process::Command;

use crate::person::Person;
use crate::served::Served;

/// A terminal.
#[derive(Clone, Copy)]
struct Screen {
    columns: u16,
    colour: bool,
}

const NARROW: Screen = Screen { columns: 80, colour: false };
const WIDE: Screen = Screen { columns: 120, colour: true };

const VERBS: [&str; 32] = [
    "run",
    "demo",
    "ps",
    "status",
    "inspect",
    "attach",
    "logs",
    "events",
    "stats",
    "wait",
    "reply",
    "extend",
    "cancel",
    "download",
    "rm",
    "prune",
    "shell",
    "code",
    "kernels",
    "cp",
    "screenshot",
    "open",
    "explain",
    "audit",
    "up",
    "doctor",
    "image",
    "keys",
    "mcp",
    "completions",
    "version",
    "help",
];

/// Runs a command and returns what the terminal has shown, and the exit code.
async fn shown(mut command: Command, screen: Screen) -> (i32, String) {
    let (name, value) = if screen.colour { ("FORCE_COLOR", "1") } else { ("NO_COLOR", "1") };
    command.env(name, value).env("TERM", "xterm");
    let (code, text) = Person::at_width(command, screen.columns).watches_to_the_end().await;
    (code, text.replace("\r\n", "\n"))
}

/// Removes the colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| {
        whole
            + part
                .trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';')
                .get(1..)
                .unwrap_or("")
    })
}

fn assert_fits(what: &str, text: &str, screen: Screen) {
    for line in plain(text).lines() {
        // A line that is written over ends with the last of its texts.
        let line = line.rsplit('\r').next().unwrap_or(line);
        assert!(line.chars().count() <= usize::from(screen.columns), "{what} is too wide: {line:?}");
    }
}

/// Shows colours as words.
fn with_words(text: &str) -> String {
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

async fn helps(screen: Screen) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for verb in std::iter::once("").chain(VERBS.into_iter().take(31)) {
        let arguments: Vec<&str> = [verb, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let (code, text) =
            shown(crate::served::command("http://127.0.0.1:9", home.path(), &arguments), screen).await;
        assert_eq!(code, 0, "{verb}: {text}");
        // Long words of values may be wider than a narrow terminal; nothing else may.
        writeln!(all, "──── {verb}\n{}", with_words(&text)).unwrap();
    }
    all
}

#[tokio::test]
async fn the_help_of_every_verb_is_as_recorded() {
    let narrow = helps(NARROW).await;
    assert_fits("help", &narrow, NARROW);
    insta::assert_snapshot!("help_80", narrow);
    insta::assert_snapshot!("help_120_colour", helps(WIDE).await);
}

/// Replaces what is another at each run.
fn settled(text: &str, yard: &Served, ids: &[(&str, String)]) -> String {
    let mut text = text.replace(yard.home.path().to_str().unwrap(), "[HOME]").replace(&yard.url, "[URL]");
    for (name, id) in ids {
        text = text.replace(id.as_str(), &format!("[{name}]")).replace(&id[..8], &format!("[{name}…]"));
    }
    let mut words = String::new();
    for line in text.lines() {
        let line: Vec<String> = line.split(' ').map(word).collect();
        let line = line.join(" ");
        words += &times(line.trim_end());
        words.push('\n');
    }
    words
}

/// Replaces numbers, and words that only a machine makes.
fn word(word: &str) -> String {
    let bare: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
    let random =
        bare.len() >= 20 && bare.chars().any(|letter| letter.is_ascii_digit()) && !word.contains("[");
    if random {
        return "[RANDOM]".to_owned();
    }
    let mut shown = String::new();
    for letter in word.chars() {
        if letter.is_ascii_digit() {
            if !shown.ends_with('#') {
                shown.push('#');
            }
        } else if letter == '.' && shown.ends_with('#') {
            // A point between two digits; one at the end of a sentence comes back below.
        } else {
            shown.push(letter);
        }
    }
    if word.ends_with('.') && !shown.ends_with('.') {
        shown.push('.');
    }
    shown
}

/// Replaces spans of time, whose units depend on how busy the machine is, and the spaces that they leave in a table.
fn times(line: &str) -> String {
    let mut line = line.to_owned();
    for span in ["# d # h", "# h # min", "# min # s", "# ms", "# s"] {
        line = line.replace(span, "[TIME]");
    }
    while line.contains("   ") {
        line = line.replace("   ", "  ");
    }
    line
}

struct Transcript<'a> {
    yard: &'a Served,
    screen: Screen,
    ids: Vec<(&'static str, String)>,
    text: String,
}

impl Transcript<'_> {
    async fn add(&mut self, line: &[&str], expected: i32) {
        let (code, text) = shown(self.yard.command(line), self.screen).await;
        assert_fits(&line.join(" "), &text, self.screen);
        assert_eq!(code, expected, "{line:?}: {text}");
        let asked = settled(&line.join(" "), self.yard, &self.ids);
        let said = settled(&with_words(&text), self.yard, &self.ids);
        writeln!(self.text, "$ sandyard {}{said}[{code}]\n", asked).unwrap();
    }
}

async fn transcript(screen: Screen) -> String {
    let yard = Served::start().await;
    std::fs::create_dir(yard.home.path().join("data")).unwrap();
    std::fs::write(yard.home.path().join("a.txt"), "A\n").unwrap();
    let job =
        yard.run(&["run", "-d", "-k", "shell", "--name", "first", "echo hi"]).await.out.trim().to_owned();
    yard.run(&["wait", &job]).await.expect(0);
    let bad_code = "echo out; exit 3 # a line of code that is longer than any terminal is wide, by far, so that it is cut somewhere";
    let bad = yard.run(&["run", "-d", "-k", "shell", bad_code]).await.out.trim().to_owned();
    yard.run(&["wait", &bad]).await.expect(3);
    let live = yard.session().await;
    let spare = yard.session().await;
    let ids =
        vec![("JOB", job.clone()), ("BAD", bad.clone()), ("LIVE", live.clone()), ("SPARE", spare.clone())];
    let mut shown = Transcript { yard: &yard, screen, ids, text: String::new() };
    let (job, bad, live, spare) = (job.as_str(), bad.as_str(), live.as_str(), spare.as_str());
    let (inside, absent) = (format!("{live}:a.txt"), format!("{live}:absent"));
    let lines: [(&[&str], i32); 66] = [
        (&["ps"], 0),
        (&["ps", "--status", "done"], 4),
        (&["ps", "--limit", "0"], 2),
        (&["run", "-k", "shell"], 2),
        (&["run", "-k", "shel", "true"], 2),
        (&["demo"], 4),
        (&["demo", "--nonsense"], 2),
        (&["status", "first"], 0),
        (&["status", bad], 0),
        (&["status", "nobody"], 4),
        (&["status", "aaaaaaaaaaaaaaaaaaaaaaaaaa"], 4),
        (&["inspect", "nobody"], 4),
        (&["inspect"], 2),
        (&["attach", bad], 3),
        (&["attach", "nobody"], 4),
        (&["attach", job, "--since", "never"], 2),
        (&["logs", job], 0),
        (&["logs", "nobody"], 4),
        (&["logs", job, "--stream", "both"], 2),
        (&["events", job, "--no-follow", "--type", "stdout"], 0),
        (&["events", "nobody"], 4),
        (&["stats", job], 0),
        (&["stats", "nobody"], 4),
        (&["stats", live, "--interval", "0"], 2),
        (&["wait", job, bad], 3),
        (&["wait", "nobody"], 4),
        (&["wait"], 2),
        (&["reply", live, "hello"], 4),
        (&["reply", live], 2),
        (&["extend", live, "2h"], 0),
        (&["extend", job, "2h"], 4),
        (&["extend", live, "soon"], 2),
        (&["cancel", spare], 0),
        (&["cancel", "nobody"], 4),
        (&["cancel"], 2),
        (&["download", job, "-o", "out"], 0),
        (&["download", live], 4),
        (&["download", "nobody"], 4),
        (&["rm", live], 2),
        (&["rm", "nobody"], 4),
        (&["prune", "--older-than", "1d"], 0),
        (&["prune", "--older-than", "x"], 2),
        (&["shell", live, "echo", "-n", "hi"], 0),
        (&["shell", live, "echo err >&2; exit 7"], 7),
        (&["shell", job, "true"], 4),
        (&["code", live, "-l", "bash", "echo hi"], 0),
        (&["code", live, "1+1"], 2),
        (&["code", live, "-l", "cobol", "1+1"], 2),
        (&["kernels", live], 0),
        (&["kernels", live, "--rm", "nope"], 4),
        (&["kernels", job], 4),
        (&["cp", "a.txt", &inside], 0),
        (&["cp", &absent, "."], 2),
        (&["cp", "a", "b"], 2),
        (&["screenshot", "nobody"], 4),
        (&["open", "lab", "nobody", "--no-browser"], 4),
        (&["open", "port", live, "0"], 2),
        (&["audit", "verify", "absent.zip"], 4),
        (&["doctor", "nodriver"], 2),
        (&["up", "--listen", "nowhere"], 2),
        (&["up", "--nonsense"], 2),
        (&["image", "build", "--flavour", "vanilla"], 2),
        (&["keys", "list"], 0),
        (&["keys", "revoke", "none"], 2),
        (&["completions", "tcsh"], 2),
        (&["version"], 0),
    ];
    for (line, code) in lines {
        shown.add(line, code).await;
    }
    shown.text
}

#[tokio::test]
async fn every_verb_says_what_is_recorded() {
    insta::assert_snapshot!("verbs_80", transcript(NARROW).await);
    insta::assert_snapshot!("verbs_120_colour", transcript(WIDE).await);
}
