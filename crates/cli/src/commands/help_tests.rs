//! The command line: its definition is consistent, its help fits a terminal, and it accepts what scripts use.

use super::*;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

/// Longer lines are broken by the terminal, inside of words.
#[test]
fn the_help_of_every_verb_fits_80_columns_and_has_examples() {
    let mut command = Cli::command().term_width(80);
    command.build();
    let mut pending: Vec<_> = verbs_of(&command);
    let mut seen = 0;
    while let Some((name, mut verb)) = pending.pop() {
        let help = verb.render_long_help().to_string();
        assert!(help.contains("\nExamples:\n  "), "{name} has no examples");
        assert!(help.contains("\nGlobal options:\n"), "{name} mixes its options with the global ones");
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line:?}");
        }
        pending.extend(verbs_of(&verb).into_iter().map(|(below, verb)| (format!("{name} {below}"), verb)));
        seen += 1;
    }
    assert!(seen > 45, "only {seen} verbs were found");
}

/// Returns the shown verbs of a command, without `help`, which has no help of its own.
fn verbs_of(command: &clap::Command) -> Vec<(String, clap::Command)> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    verbs.map(|verb| (verb.get_name().to_owned(), verb.clone())).collect()
}

#[test]
fn what_scripts_rely_on_is_understood() {
    for line in [
        "sandyard up --listen 127.0.0.1:8000 --data /d --driver native --pool 0 --model replay:x --config f.toml",
        "sandyard run --kind shell --json echo hi",
        "sandyard run --file - --output out.zip",
        "sandyard run --kind shell true --output dir -e A=1 --limit memory_mib=64",
        "sandyard logs -f abcd",
        "sandyard shell abcd -- ls -l /",
        "sandyard image build --flavour base --format tree",
        "sandyard code abcd --language python --kernel python-2 --json 1+1",
        "sandyard code abcd --file -",
        "sandyard doctor --json",
        "sandyard cp abcd:src ./src",
        "sandyard cp a b abcd:in",
        "sandyard run ./a.py --file b.csv:in/b.csv --dir . --rm -- --fast x",
        "sandyard run -k session --shell",
        "sandyard run --on-question fail do it",
        "sandyard shell abcd ls -l --color=never",
        "sandyard shell abcd --detach -- sleep 9",
        "sandyard shell -t abcd htop",
        "sandyard attach abcd --since now",
        "sandyard wait abcd efgh",
        "sandyard extend abcd 2h",
        "sandyard stats abcd --once --json",
        "sandyard events abcd --no-follow --type state",
        "sandyard open lab abcd --no-browser",
        "sandyard keys list --data /d",
        "sandyard version --json",
    ] {
        let parsed = Cli::try_parse_from(line.split(' '));
        assert!(
            parsed.is_ok(),
            "{line}: {}",
            parsed.err().map(|error| error.to_string()).unwrap_or_default()
        );
    }
}

#[test]
fn a_wrong_command_line_exits_with_two() {
    let error = Cli::try_parse_from(["sandyard", "run", "--nonsense"]).unwrap_err();
    assert_eq!(error.exit_code(), i32::from(CommandExit::Usage.code()));
}

#[test]
fn words_behind_the_job_are_the_command() {
    let words = |line: &str| match Cli::try_parse_from(line.split(' ')).unwrap().command {
        CliVerb::Shell(shell) => shell.words(),
        _ => panic!("{line}"),
    };
    for line in ["sandyard shell abcd ls -l --stdin", "sandyard shell abcd -- ls -l --stdin"] {
        assert_eq!(words(line), ["ls", "-l", "--stdin"]);
    }
    assert_eq!(words("sandyard shell abcd --detach -- make serve"), ["make", "serve"]);
    assert!(words("sandyard shell abcd").is_empty());
    assert!(Cli::try_parse_from(["sandyard", "shell", "--detach", "abcd"]).is_err(), "nothing to detach");
}
