use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn command(id: &str, script: &str) -> Command {
    let env = [("PATH", "/usr/bin:/bin"), ("MARK", "present")];
    Command {
        id: ProcessId(id.into()),
        argv: ["sh", "-c", script].map(Into::into).into(),
        cwd: "/usr".into(),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        terminal: None,
        stdin: false,
    }
}

fn read_all(fd: OwnedFd) -> String {
    rustix::io::ioctl_fionbio(&fd, false).unwrap();
    let mut text = Vec::new();
    // A terminal's master answers EIO at the end.
    drop(File::from(fd).read_to_end(&mut text));
    String::from_utf8(text).unwrap()
}

async fn exit(processes: &LocalProcesses) -> RawExit {
    tokio::time::timeout(PATIENCE, processes.next_exit()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_command_gets_its_directory_and_just_its_environment() {
    let processes = LocalProcesses::default();
    let spawned =
        processes.spawn(command("a", "pwd; echo $MARK; env | wc -l; echo bad >&2; exit 7")).await.unwrap();
    let told = exit(&processes).await;
    assert_eq!(told, RawExit { id: ProcessId("a".into()), code: 7, signal: None });
    // The shell itself adds PWD.
    assert_eq!(read_all(spawned.stdout), "/usr\npresent\n3\n");
    processes.forget(&told.id).await.unwrap();
    assert!(processes.survivors().await.unwrap().found.is_empty());
}

#[tokio::test]
async fn a_signal_reaches_the_group_and_killing_everything_all_groups() {
    let processes = LocalProcesses::default();
    let first = processes.spawn(command("a", "sleep 100 & sleep 100; true")).await.unwrap();
    let second = processes.spawn(command("b", "trap '' TERM; sleep 100 & wait")).await.unwrap();
    processes.signal(&ProcessId("a".into()), libc::SIGTERM).await.unwrap();
    let told = exit(&processes).await;
    assert_eq!((told.id.0.as_str(), told.signal), ("a", Some(libc::SIGTERM)));
    processes.forget(&told.id).await.unwrap();
    assert_eq!(read_all(first.stdout), "");
    processes.kill_everything().await.unwrap();
    let told = exit(&processes).await;
    assert_eq!((told.id.0.as_str(), told.code), ("b", 137));
    processes.forget(&told.id).await.unwrap();
    assert_eq!(read_all(second.stdout), "");
}

#[tokio::test]
async fn a_terminal_is_the_controlling_one() {
    let processes = LocalProcesses::default();
    let terminal = Some(TerminalSize { columns: 91, rows: 17 });
    let spawned =
        processes.spawn(Command { terminal, ..command("a", "stty size < /dev/tty") }).await.unwrap();
    exit(&processes).await;
    processes.forget(&ProcessId("a".into())).await.unwrap();
    assert_eq!(read_all(spawned.stdout), "17 91\r\n");
}

#[tokio::test]
async fn another_keeper_is_given_what_was_not_forgotten() {
    let processes = LocalProcesses::default();
    let original = command("a", "echo kept; exit 5");
    drop(processes.spawn(original.clone()).await.unwrap());
    let told = exit(&processes).await;
    let mut survivors = processes.survivors().await.unwrap().found;
    let survivor = survivors.remove(0);
    assert_eq!((survivor.command, survivor.exit), (original, Some(told.clone())));
    processes.forget(&told.id).await.unwrap();
    assert_eq!(read_all(survivor.spawned.stdout), "kept\n");
}

#[tokio::test]
async fn refusals_name_the_program() {
    let processes = LocalProcesses::default();
    let mut missing = command("a", "");
    missing.argv = vec!["no-such-program".into()];
    let refused = processes.spawn(missing).await.unwrap_err();
    assert_eq!(refused.to_string(), "program `no-such-program` not found on PATH");
    assert!(processes.survivors().await.unwrap().found.is_empty());
}

#[tokio::test]
async fn a_keeper_that_was_followed_by_another_starts_nothing() {
    let first = LocalProcesses::default();
    first.spawn(command("a", "sleep 100")).await.unwrap();
    let second = first.for_next_keeper();
    let unanswered = tokio::time::timeout(Duration::from_millis(50), first.spawn(command("b", "true"))).await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    let found = second.survivors().await.unwrap().found;
    assert_eq!(found.iter().map(|survivor| survivor.command.id.0.as_str()).collect::<Vec<_>>(), ["a"]);
    second.spawn(command("b", "true")).await.unwrap();
    second.kill_everything().await.unwrap();
}
