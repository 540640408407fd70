//! The command line: its definition is consistent, its help is as recorded, and it accepts what scripts use.

use clap::CommandFactory;

use super::*;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_help_is_as_recorded() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut text = command.render_long_help().to_string();
    let names: Vec<_> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| verb.get_name().to_owned())
        .collect();
    for name in names {
        let verb = command.find_subcommand_mut(&name).unwrap();
        text += &format!("\n──── {name}\n{}", verb.render_long_help());
    }
    insta::assert_snapshot!("help", text);
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
