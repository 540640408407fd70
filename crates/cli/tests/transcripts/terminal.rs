//! The command on a terminal: an interactive shell, and Ctrl-C at a running job.

use std::path::Path;

use tokio::process::Command;

use crate::person::Person;
use crate::served::{Served, said};

#[tokio::test]
async fn an_interactive_shell_has_size_keys_and_exit_code() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let mut person = Person::at(yard.command(&["shell", &id]));
    person.types("stty size; echo ma''rk\n");
    person.sees("30 100").await;
    person.sees("mark").await;
    person.types("exit 5\n");
    assert_eq!(person.leaves().await, 5);
}

#[tokio::test]
async fn an_interactive_shell_is_the_same_after_the_server_was_away() {
    let mut yard = Served::start().await;
    let id = yard.session().await;
    let mut person = Person::at(yard.command(&["shell", &id]));
    person.types("kept=5; echo ma''rk\n");
    person.sees("mark").await;
    yard.stop().await;
    person.sees("the connection to the server is lost; reconnecting").await;
    yard.serve_again().await;
    // Keys that are typed too early are dropped, so they are typed until the shell answers.
    for _ in 0..100 {
        person.types("echo kept-$kept\n");
        if person.sees_soon("kept-5").await {
            break;
        }
    }
    person.types("exit $kept\n");
    assert_eq!(person.leaves().await, 5);
}

#[tokio::test]
async fn ctrl_c_interrupts_a_command_and_shows_its_last_words() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let code = "trap 'echo la''st; exit 3' INT; echo be''gun; while :; do sleep 0.05; done";
    let mut person = Person::at(yard.command(&["shell", &id, "--", code]));
    person.sees("begun").await;
    person.interrupts();
    person.sees("last").await;
    assert_eq!(person.leaves().await, 3);
}

#[tokio::test]
async fn a_detached_command_prints_its_process_and_goes_on() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let code = "while [ ! -e go ]; do sleep 0.05; done; touch done";
    let said = yard.run(&["shell", &id, "--detach", "--", code]).await.expect(0);
    assert!(said.out.starts_with('p') && said.out.trim().len() < 20, "{said:?}");
    let code = "touch go; while [ ! -e done ]; do sleep 0.05; done; echo done";
    assert_eq!(yard.run(&["shell", &id, "--", code]).await.expect(0).out, "done\n");
}

#[tokio::test]
async fn ctrl_c_asks_and_a_job_that_is_left_goes_on() {
    let yard = Served::start().await;
    let mut person = Person::at(yard.command(&["run", "--kind", "shell", "echo be''gun; sleep 60"]));
    person.sees("begun").await;
    person.interrupts();
    person.sees("[c]ancel the job, [l]eave it running, or [w]atch on?").await;
    person.types("w\n");
    person.sees("watching on").await;
    person.interrupts();
    person.types("l\n");
    assert_eq!(person.leaves().await, 130);
    let listed = yard.run(&["ps", "--json"]).await.json();
    assert_eq!(listed["jobs"][0]["state"], "running");
    let id = listed["jobs"][0]["job_id"].as_str().unwrap();
    yard.run(&["rm", "--force", id]).await.expect(0);
}

#[tokio::test]
async fn ctrl_c_twice_cancels() {
    let yard = Served::start().await;
    let mut person = Person::at(yard.command(&["run", "--kind", "shell", "echo be''gun; sleep 60"]));
    person.sees("begun").await;
    person.interrupts();
    person.sees("atch on?").await;
    person.interrupts();
    person.sees("cancelling").await;
    assert_eq!(person.leaves().await, 6);
}

/// Everything that a job can choose, and a terminal would obey: colours, a title, the clipboard, the cursor, a screen switch.
const EVIL: &str = "\\033[31mred\\033[0m \\033]0;title\\007\\033]52;c;cm0gLXJm\\033\\\\up\\033[1A\\033[2K\\r\\033[?1049hend\\n";

/// What a terminal has shown when the command is over.
async fn shown(command: Command) -> String {
    Person::at(command).watches_to_the_end().await.1
}

/// Asserts that a screen has no sequence but our own colours.
fn is_clean(what: &str, screen: &str) {
    // A line that tells the present state is written over.
    let mut left = screen.replace("\r\u{1b}[K", "");
    for ours in ["0", "1", "2", "31", "32", "33"] {
        left = left.replace(&format!("\u{1b}[{ours}m"), "");
    }
    let bad = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    assert!(!left.contains(bad), "{what}: {screen:?}");
}

#[tokio::test]
async fn p5_no_text_of_a_job_steers_the_terminal() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let code = format!("printf '{EVIL}'; printf '{EVIL}' >&2; exit 3");
    let mut run = yard.command(&["run", "--kind", "shell", "--name", "evil", &code]);
    run.env("NO_COLOR", "1");
    let screen = shown(run).await;
    is_clean("run", &screen);
    assert!(screen.contains("red up") && screen.contains("end"), "{screen:?}");
    let name = "\u{1b}]0;x\u{7}\u{9b}2J";
    yard.run(&["run", "--detach", "--kind", "session", "--name", name]).await;
    let shell = format!("printf '{EVIL}' >&2; touch $'\\033[2Jfile'; mkdir d; touch $'d/\\033[2J'");
    for arguments in [
        &["logs", "evil"][..],
        &["logs", "-f", "evil"],
        &["logs", "--stream", "stderr", "evil"],
        &["status", "evil"],
        &["status", "--json", "evil"],
        &["ps"],
        &["ps", "--json"],
        &["audit", "show", "evil"],
        &["audit", "show", "--json", "evil"],
        &["shell", &id, "--", &shell],
        &["cp", &format!("{id}:\u{1b}[2Jfile"), "."],
        &["cp", &format!("{id}:\u{1b}[2Jnone"), "."],
        &["cp", &format!("{id}:d"), "got"],
        &["status", name],
        &["rm", "\u{1b}[2Jnobody"],
        &["download", "-o", "-", "evil"],
    ] {
        is_clean(&arguments.join(" "), &shown(yard.command(arguments)).await);
    }
    let raw = shown(yard.command(&["logs", "--raw", "--stream", "stdout", "evil"])).await;
    assert!(raw.contains("\u{1b}]52;c;"), "{raw:?}");
    let piped = yard.run(&["logs", "--stream", "stdout", "evil"]).await.expect(0).out;
    assert!(piped.starts_with("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}"), "{piped:?}");
}

/// Files whose names and code are evil.
fn evil_folder(home: &Path) {
    let folder = home.join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("\u{1b}[2Jred.py"), "def red\u{1b}[2J():\n    pass\n").unwrap();
    std::fs::write(folder.join("red.py"), "def red():\n    return '\u{1b}]0;t\u{7}'\n").unwrap();
}

#[tokio::test]
async fn p5_no_verb_that_tells_of_jobs_and_files_steers_the_terminal() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let printed = format!("printf '{EVIL}'");
    yard.run(&["run", "-k", "shell", "--name", "evil", &format!("{printed}; {printed} >&2")]).await.expect(0);
    evil_folder(yard.home.path());
    for arguments in [
        &["code", &id, "-l", "bash", &printed][..],
        &["kernels", &id],
        &["attach", "evil"],
        &["attach", "--since", "now", "evil"],
        &["events", "--no-follow", "evil"],
        &["stats", "evil"],
        &["inspect", "evil"],
        &["wait", "evil"],
        &["run", "--json", "-k", "shell", &printed],
        &["context", "recall", "folder", "--index", "index", "red"],
        &["explain", "folder", "-o", "explained"],
    ] {
        let mut command = yard.command(arguments);
        command.env("NO_COLOR", "1");
        let screen = shown(command).await;
        assert!(!screen.contains("error:"), "{arguments:?}: {screen}");
        is_clean(&arguments.join(" "), &screen);
    }
    let raw = shown(yard.command(&["attach", "--raw", "evil"])).await;
    assert!(raw.contains("\u{1b}]52;c;"), "{raw:?}");
}

#[tokio::test]
async fn colours_are_for_terminals_unless_the_environment_wants_others() {
    let yard = Served::start().await;
    yard.run(&["run", "-k", "shell", "--name", "first", "true"]).await.expect(0);
    for (variables, coloured) in [
        (&[][..], false),
        (&[("FORCE_COLOR", "1")], true),
        (&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], true),
        (&[("FORCE_COLOR", "1"), ("TERM", "dumb")], true),
        (&[("FORCE_COLOR", "0")], false),
    ] {
        for arguments in [&["ps"][..], &["ps", "--help"], &["status", "nobody"]] {
            let mut command = yard.command(arguments);
            command.envs(variables.iter().copied());
            let said = said(command).await;
            let found = said.out.contains("\u{1b}[") || said.err.contains("\u{1b}[");
            assert_eq!(found, coloured, "{arguments:?} with {variables:?}: {said:?}");
        }
    }
    let mut command = yard.command(&["ps"]);
    command.env("NO_COLOR", "1");
    let screen = shown(command).await;
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
    let screen = shown(yard.command(&["ps"])).await;
    assert!(screen.contains("\u{1b}[32msucceeded\u{1b}[0m"), "{screen:?}");
}

#[tokio::test]
async fn what_is_sent_and_fetched_has_a_bar_on_a_terminal_alone() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let home = yard.home.path();
    std::fs::create_dir(home.join("folder")).unwrap();
    std::fs::write(home.join("folder/large"), vec![b'a'; 1024 * 1024]).unwrap();
    let inside = format!("{id}:in");
    for (arguments, verb) in [
        (&["run", "-k", "shell", "--dir", "folder", "true"][..], "send"),
        (&["cp", "folder", &inside], "copy"),
        (&["cp", "folder/large", &inside], "copy"),
        (&["cp", &inside, "back"], "download"),
    ] {
        let mut command = yard.command(arguments);
        command.env("TERM", "xterm");
        let screen = shown(command).await;
        let bar =
            screen.split('\r').any(|line| line.contains(&format!("{verb} ")) && line.contains(['█', '░']));
        assert!(bar, "{arguments:?}: {screen:?}");
        let piped = yard.run(arguments).await.expect(0);
        assert!(!piped.err.contains(['█', '░']) && !piped.out.contains(['█', '░']), "{piped:?}");
    }
}

#[tokio::test]
async fn a_command_needs_no_dashes_and_gets_a_terminal_if_it_wants_one() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let words = yard.run(&["shell", &id[..8], "printf", "%s|", "-a", "b c"]).await.expect(0);
    assert_eq!(words.out, "-a|b c|");
    let command = yard.command(&["shell", "-t", &id, "test -t 0 && stty size; exit 4"]);
    let (code, screen) = Person::at(command).watches_to_the_end().await;
    assert_eq!((code, screen.contains("30 100")), (4, true), "{screen:?}");
}
