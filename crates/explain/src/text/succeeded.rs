//! Commands of a job that are worth telling: those that install, build, run or test something.

/// Longest command that is shown. A longer one is a script, and nothing that a person types.
const MAX_BYTES: usize = 160;

/// Programs that install, build, run or test whatever their arguments are.
const WORKING: &[&str] = &[
    "bazel", "bun", "cargo", "cmake", "composer", "ctest", "deno", "docker", "dotnet", "eslint", "flask",
    "g++", "gcc", "go", "gradle", "gradlew", "gunicorn", "jest", "just", "make", "meson", "mocha", "mvn",
    "mvnw", "mypy", "ninja", "node", "nox", "npm", "npx", "php", "pip", "pip3", "pnpm", "poetry", "pylint",
    "pytest", "python", "python3", "rake", "ruby", "ruff", "rustc", "tox", "tsc", "ts-node", "uv", "uvicorn",
    "vite", "vitest", "yarn",
];

/// Returns a command as people would type it, if it is worth telling.
pub(super) fn told(command: &str) -> Option<&str> {
    let command = command.trim();
    let plain = command.len() <= MAX_BYTES && !command.chars().any(char::is_control);
    // `python -c …` and here-documents are thoughts of the moment.
    let lasting = !command.contains("<<") && !command.contains(" -c ") && !command.contains(" -e ");
    (plain && lasting && steps(command).any(works)).then_some(command)
}

/// The commands that a line consists of.
fn steps(command: &str) -> impl Iterator<Item = &str> {
    command.split(['&', ';', '|']).map(str::trim).filter(|step| !step.is_empty())
}

/// True if a step runs a program that works on the project.
fn works(step: &str) -> bool {
    let mut words = step.split_whitespace();
    // Variables and wrappers stand before the program.
    let program =
        words.find(|word| !word.contains('=') && !matches!(*word, "time" | "env" | "sudo" | "timeout"));
    let Some(program) = program else { return false };
    let name = program.rsplit('/').next().unwrap_or_default();
    let asks_only = step.split_whitespace().any(|word| matches!(word, "--version" | "--help" | "-V" | "-h"));
    !asks_only && (WORKING.contains(&name) || program.starts_with("./"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_on_the_project_is_told() {
        for command in ["pytest -q", "cd app && npm test", "CI=1 make check", " ./run.sh ", "go build ./..."]
        {
            assert_eq!(told(command), Some(command.trim()), "{command}");
        }
        for command in [
            "ls -la",
            "cat x.py | head",
            "python -c 'print(1)'",
            "node --version",
            "python3 - <<'E'\n1\nE",
            "cd /tmp",
            "",
        ] {
            assert_eq!(told(command), None, "{command}");
        }
        assert_eq!(told(&format!("pytest {}", "x".repeat(200))), None);
    }
}
