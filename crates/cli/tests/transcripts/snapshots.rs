//! What every verb says, on terminals of 80 and 120 columns, without and with colours: its help, a success, and failures.
//!
//! There is one snapshot for each verb, written with `INSTA_UPDATE=always`. Each command runs once for each terminal, in a yard
//! of that terminal's own; where terminals show the same, the transcript has it once. No line of help or of a table may be longer
//! than the terminal is wide.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use sandyard_testkit::TestYard;
use tokio::process::Command;

use crate::screens::{Names, Screen, plain, with_words};
use crate::served::{PATIENCE, Served};
use crate::tasks::painter;

/// Commands with their exit codes. In braces stand the names of jobs and of texts with spaces.
const LINES: &[(&str, i32)] = &[
    ("--url ftp://example.com ps", 2),
    ("--url http://127.0.0.1:9 ps", 3),
    ("help nothing", 2),
    ("nonsense", 2),
    ("ps", 0),
    ("ps --status done", 4),
    ("ps --limit 0", 2),
    ("run -k shell {echo}", 0),
    ("run ./args.sh --rm -- one two", 17),
    ("run --dir folder -k shell ls", 0),
    ("run -k session", 0),
    ("run -k shell", 2),
    ("run -k shel true", 2),
    ("run notes.txt", 2),
    ("run --egress npm --offline -k shell true", 2),
    ("demo", 4),
    ("demo --nonsense", 2),
    ("status first", 0),
    ("status {bad}", 0),
    ("status nobody", 4),
    ("status aaaaaaaaaaaaaaaaaaaaaaaaaa", 4),
    ("inspect first", 0),
    ("inspect nobody", 4),
    ("inspect", 2),
    ("attach {bad}", 3),
    ("attach nobody", 4),
    ("attach first --since never", 2),
    ("logs first", 0),
    ("logs nobody", 4),
    ("logs first --stream both", 2),
    ("events first --no-follow --type stdout", 0),
    ("events nobody", 4),
    ("events first --after x", 2),
    ("stats first", 0),
    ("stats nobody", 4),
    ("stats {live} --interval 0", 2),
    ("wait first {bad}", 3),
    ("wait nobody", 4),
    ("wait", 2),
    ("extend {live} 2h", 0),
    ("extend first 2h", 4),
    ("extend {live} soon", 2),
    ("cancel {spare}", 0),
    ("cancel nobody", 4),
    ("cancel", 2),
    ("download first -o out", 0),
    ("download {live}", 4),
    ("download nobody", 4),
    ("rm --force {spare}", 0),
    ("rm {live}", 2),
    ("rm nobody", 4),
    ("prune --older-than 1d", 0),
    ("prune --older-than x", 2),
    ("prune --nonsense", 2),
    ("context index folder --index index", 0),
    ("context recall folder --index index retry", 0),
    ("context stats folder --index index", 0),
    ("context recall nobody words", 4),
    ("context show {bad}", 2),
    ("context show first --step 1", 4),
    ("shell {live} echo hi", 0),
    ("shell {live} {fail}", 7),
    ("shell first true", 4),
    ("shell --detach {live}", 2),
    ("code {live} -l bash {echo}", 0),
    ("code {live} 1+1", 2),
    ("code {live} -l cobol 1+1", 2),
    ("kernels {live}", 0),
    ("kernels {live} --rm nope", 4),
    ("kernels first", 4),
    ("cp notes.txt {live}:a.txt", 0),
    ("cp folder {live}:in", 0),
    ("cp {live}:in back", 0),
    ("cp {live}:absent .", 2),
    ("cp a b", 2),
    ("screenshot nobody", 4),
    ("screenshot first", 4),
    ("open desktop {live} --no-browser", 0),
    ("open lab {live} --no-browser", 0),
    ("open port {live} 5173 --no-browser", 0),
    ("open desktop nobody --no-browser", 4),
    ("open lab nobody --no-browser", 4),
    ("open port {live} 0", 2),
    ("open port nobody 1 --no-browser", 4),
    ("open vnc nobody", 4),
    ("open vnc {live} --port x", 2),
    ("explain folder -o explained", 0),
    ("explain absent", 1),
    ("explain folder --json --open", 2),
    ("audit show first", 0),
    ("audit verify first", 0),
    ("audit show nobody", 4),
    ("audit verify absent.zip", 1),
    ("audit verify first --key x", 2),
    ("up --show-config", 0),
    ("up --listen nowhere", 2),
    ("up --nonsense", 2),
    ("doctor", 0),
    ("doctor nodriver", 2),
    ("doctor --nonsense", 2),
    ("image list", 0),
    ("image prune", 0),
    ("image build --flavour vanilla", 2),
    ("image build --kernel vmlinuz", 2),
    ("image list --nonsense", 2),
    ("image prune --nonsense", 2),
    ("store copy stopped copy", 0),
    ("store copy absent other", 1),
    ("store copy", 2),
    ("keys create", 0),
    ("keys list", 0),
    ("keys revoke none", 2),
    ("keys revoke", 2),
    ("mcp --nonsense", 2),
    ("mcp extra", 2),
    ("completions bash", 0),
    ("completions tcsh", 2),
    ("completions", 2),
    ("version", 0),
    ("version --nonsense", 2),
    ("version extra", 2),
];

/// Commands in a yard whose task waits for an answer.
const TASK_LINES: &[(&str, i32)] = &[
    ("ps", 0),
    ("status {task}", 0),
    ("reply {task} {colour}", 0),
    ("reply {task}", 2),
    ("wait {task}", 0),
    ("reply {task} again", 4),
    ("attach {task}", 0),
    ("logs -f {task}", 0),
];

/// What a command said on one terminal.
struct Said {
    line: String,
    code: i32,
    text: String,
}

/// All transcripts of one terminal, by the verb.
type Transcripts = BTreeMap<String, Vec<Said>>;

/// One terminal and the yard behind it.
struct Session<'a> {
    yard: &'a Served,
    screen: Screen,
    /// The words in braces.
    words: Vec<(&'static str, String)>,
    names: Names,
    said: Transcripts,
}

impl<'a> Session<'a> {
    fn new(yard: &'a Served, screen: Screen) -> Self {
        let mut names = Names::default();
        names.add(yard.home.path().to_str().unwrap(), "[HOME]");
        names.add(&yard.url, "[URL]");
        names.add(yard.url.trim_start_matches("http://"), "[ADDRESS]");
        Self { yard, screen, words: Vec::new(), names, said: Transcripts::new() }
    }

    fn knows_job(&mut self, word: &'static str, id: &str) {
        self.words.push((word, id.to_owned()));
        self.names.add_job(id, &word.to_uppercase());
    }

    fn command(&self, line: &str) -> Command {
        let mut arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        for (word, text) in &self.words {
            let word = format!("{{{word}}}");
            arguments.iter_mut().for_each(|argument| *argument = argument.replace(&word, text));
        }
        let mut command = self.yard.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        // No program and no engine of this machine may be part of a transcript.
        command.env("PATH", "/nonexistent").env("SANDYARD_DOCKER_SOCKET", "/nonexistent");
        command
    }

    async fn says(&mut self, line: &str, expected: i32) {
        let (code, text) = self.screen.shows(self.command(line)).await;
        assert_eq!(code, expected, "{line}: {text}");
        if fits(line) && code == 0 {
            self.screen.assert_fits(line, &text);
        }
        let text = self.names.settle(&first_part(line, &text));
        self.note(verb_of(line), Said { line: line.to_owned(), code, text });
    }

    /// Records the help of a verb and of those below it.
    async fn helps(&mut self) {
        let mut pending = vec![String::new()];
        while let Some(verb) = pending.pop() {
            let line = format!("{verb} --help").trim().to_owned();
            let (code, text) = self.screen.shows(self.command(&line)).await;
            assert_eq!(code, 0, "{line}: {text}");
            self.screen.assert_fits(&line, &text);
            pending.extend(
                verbs_in(&plain(&text)).iter().map(|below| format!("{verb} {below}").trim().to_owned()),
            );
            let said = Said { code, text: with_words(&text), line: line.clone() };
            self.note(verb_of(&line), said);
        }
    }

    fn note(&mut self, verb: &str, said: Said) {
        self.said.entry(verb.to_owned()).or_default().push(said);
    }
}

/// The verb whose transcript has a command.
fn verb_of(line: &str) -> &str {
    match line.split_whitespace().next() {
        None | Some("help" | "nonsense") => "sandyard",
        Some(option) if option.starts_with('-') => "sandyard",
        Some(verb) => verb,
    }
}

/// True for commands whose success is a table or a list of values: nothing of it may be broken by the terminal.
fn fits(line: &str) -> bool {
    matches!(verb_of(line), "ps" | "status" | "stats" | "kernels" | "keys" | "doctor" | "image" | "version")
}

/// Leaves out what is about this machine or differs from run to run, and most of a long script.
fn first_part(line: &str, text: &str) -> String {
    match line {
        "doctor" => text.split("\n\n").next().unwrap_or_default().to_owned() + "\n[…]\n",
        "completions bash" => {
            text.lines().take(4).map(|line| format!("{line}\n")).collect::<String>() + "[…]\n"
        }
        // Results of calls are recorded as the calls end.
        "audit show first" => {
            text.lines().take(7).map(|line| format!("{line}\n")).collect::<String>() + "[…]\n"
        }
        _ => text.to_owned(),
    }
}

/// Returns the verbs that a help lists.
fn verbs_in(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !matches!(*line, "Verbs:" | "Commands:")).skip(1);
    let verbs = lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = verbs.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// A yard with an ended job, a failed one and two sessions, and files at home.
async fn furnished(screen: Screen) -> Transcripts {
    let yard = Served::start().await;
    let home = yard.home.path();
    std::fs::create_dir_all(home.join("folder/src")).unwrap();
    std::fs::create_dir(home.join("data")).unwrap();
    for (path, text) in [
        ("notes.txt", "Notes.\n"),
        ("args.sh", "echo \"$1|$2\"; exit 17\n"),
        ("folder/README.md", "# Retry\n\nWhere the retry is.\n"),
        ("folder/src/main.py", "def retry():\n    return 1\n\n\nprint(retry())\n"),
    ] {
        std::fs::write(home.join(path), text).unwrap();
    }
    stopped_yard(&home.join("stopped")).await;
    let mut session = Session::new(&yard, screen);
    for (word, text) in [("echo", "echo hi"), ("fail", "echo err >&2; exit 7")] {
        session.words.push((word, text.to_owned()));
    }
    let first = yard.run(&["run", "-d", "-k", "shell", "--name", "first", "echo hi"]).await.expect(0).out;
    yard.run(&["wait", "first"]).await.expect(0);
    let long = "echo out; exit 3 # a line that is longer than any terminal is wide, by far, so that every table cuts it off";
    let bad = yard.run(&["run", "-d", "-k", "shell", long]).await.expect(0).out;
    yard.run(&["wait", bad.trim()]).await.expect(3);
    for (word, id) in [
        ("first", first.trim().to_owned()),
        ("bad", bad.trim().to_owned()),
        ("live", yard.session().await),
        ("spare", yard.session().await),
    ] {
        session.knows_job(word, &id);
    }
    session.helps().await;
    for (line, code) in LINES {
        session.says(line, *code).await;
    }
    session.said
}

/// Makes the data folder of a yard that has one job and no server.
async fn stopped_yard(folder: &Path) {
    let yard = TestYard::new().await.unwrap();
    yard.run(sandyard_testkit::shell("true")).await.unwrap();
    let data = yard.data().to_owned();
    let _stopped = yard.stop().await;
    std::fs::create_dir(folder).unwrap();
    for entry in std::fs::read_dir(data).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
}

/// A yard with a task that asks.
async fn asked(screen: Screen) -> Transcripts {
    let yard = painter().await;
    let mut session = Session::new(&yard, screen);
    session.words.push(("colour", "Blue, please.".to_owned()));
    let task = yard.run(&["run", "-d", "--offline", "paint", "it"]).await.expect(0).out;
    session.knows_job("task", task.trim());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while yard.run(&["ps", "-q", "--status", "waiting"]).await.out.is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "it does not ask");
    }
    for (line, code) in TASK_LINES {
        session.says(line, *code).await;
    }
    session.said
}

async fn on(screen: Screen) -> Transcripts {
    let (mut all, asked) = tokio::join!(furnished(screen), asked(screen));
    for (verb, said) in asked {
        all.entry(verb).or_default().extend(said);
    }
    all
}

/// Puts the transcripts of all terminals below each command. What several terminals show alike stands there once.
fn joined(verb: &str, screens: &[Transcripts]) -> String {
    let mut text = String::new();
    for (number, first) in screens[0][verb].iter().enumerate() {
        writeln!(text, "$ sandyard {}    → {}", first.line, first.code).unwrap();
        let mut shown: Vec<(&str, Vec<String>)> = Vec::new();
        for (screen, transcripts) in Screen::ALL.iter().zip(screens) {
            let said = &transcripts[verb][number];
            assert_eq!(said.line, first.line);
            match shown.iter_mut().find(|(same, _)| *same == said.text) {
                Some((_, names)) => names.push(screen.name()),
                None => shown.push((&said.text, vec![screen.name()])),
            }
        }
        for (said, names) in shown {
            let names = if names.len() == screens.len() { "all".to_owned() } else { names.join(", ") };
            writeln!(text, "──── {names}\n{}", said.trim_end()).unwrap();
        }
        text.push('\n');
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_says_what_is_recorded() {
    let [first, second, third, fourth] = Screen::ALL.map(on);
    let (first, second, third, fourth) = tokio::join!(first, second, third, fourth);
    let screens = [first, second, third, fourth];
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for verb in screens[0].keys() {
            insta::assert_snapshot!(verb.as_str(), joined(verb, &screens));
        }
    });
}
