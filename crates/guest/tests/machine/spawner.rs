//! The spawner in a real machine: what it starts, what it refuses, and what the job can't do to it.

use crate::support::{Machine, PATIENCE, config, obstacle, read_all};
use sandyard_guest::process_host::{ProcessHost as _, SpawnError};

macro_rules! machine {
    () => {
        match obstacle() {
            Some(reason) => return println!("skipped: {reason}"),
            None => Machine::start(&config()).await,
        }
    };
}

#[tokio::test]
async fn a_command_runs_as_the_agent_without_any_privilege() {
    let machine = machine!();
    let finished = machine.sh("id -u; id -G; pwd; cat /proc/self/status; exit 3").await;
    assert_eq!(finished.stderr, "");
    assert_eq!(finished.exit.code, 3);
    assert!(finished.stdout.starts_with("1000\n1000\n/workspace\n"), "{}", finished.stdout);
    for line in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(
            finished.stdout.contains(&format!("{line}:\t0000000000000000")),
            "{line} in {}",
            finished.stdout
        );
    }
    assert!(finished.stdout.contains("NoNewPrivs:\t1\n"));
    assert!(finished.stdout.contains("Seccomp:\t2\n"));
}

/// Half a processor and 512 MiB; `free` and `nproc` would tell of the host otherwise.
#[tokio::test]
async fn programs_see_the_size_of_the_job() {
    let machine = machine!();
    let script = "grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; getconf _NPROCESSORS_ONLN
        awk '/^MemTotal/ {print $2}' /proc/meminfo; cut -d. -f1 /proc/uptime; cat /sys/fs/cgroup/cpu.max; ls /sys";
    let shown = machine.sh(script).await;
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert_eq!(lines[..4], ["1", "1", "1", "524288"], "{shown:?}");
    assert!(lines[4].parse::<u64>().unwrap() < 120, "the host's uptime: {shown:?}");
    assert_eq!(lines[5..], ["50000 100000", "devices", "fs"], "{shown:?}");
}

/// A reader that asks while the job grows sees the memory shrink.
#[tokio::test]
async fn memory_in_use_is_shown_while_it_is_used() {
    let machine = machine!();
    let script = "free_kib() { awk '/^MemAvailable/ {print $2}' /proc/meminfo; }
        before=$(free_kib); held=$(head -c 60000000 /dev/zero | tr '\\0' x)
        for turn in $(seq 200); do (( before - $(free_kib) > 50000 )) && echo less && break; sleep 0.1; done; : \"$held\"";
    let shown = machine.sh(script).await;
    assert_eq!(shown.stdout, "less\n", "{shown:?}");
}

#[tokio::test]
async fn refusals_name_what_is_wrong() {
    let machine = machine!();
    let table: [(&[&str], &str, &str, i32); 5] = [
        (&["no-such-program"], "/workspace", "program `no-such-program` not found on PATH", libc::ENOENT),
        (&["/etc/passwd"], "/workspace", "run `/etc/passwd`", libc::EACCES),
        (&["true"], "/nowhere", "working directory `/nowhere`", libc::ENOENT),
        (&["true"], "workspace", "working directory `workspace` is not absolute", libc::EINVAL),
        (&["true"], "/proc/self/fd/3", "working directory `/proc/self/fd/3`", libc::ENOTDIR),
    ];
    for (argv, cwd, expected, errno) in table {
        let command = machine.command(argv);
        let refused =
            machine.spawn(sandyard_guest::process_host::Command { cwd: cwd.into(), ..command }).await;
        let Err(SpawnError::Refused { what, source }) = refused else {
            panic!("{argv:?} in {cwd}: {refused:?}")
        };
        assert_eq!((what.as_str(), source.raw_os_error()), (expected, Some(errno)));
    }
    assert_eq!(machine.sh("echo still here").await.stdout, "still here\n");
}

#[tokio::test]
async fn a_job_has_only_its_own_descriptors_and_sees_only_its_own_processes() {
    let machine = machine!();
    let listed = machine
        .sh("ls /proc/$$/fd > /tmp/fds; tr '\\n' ' ' < /tmp/fds; echo; ls -d /proc/[0-9]* | wc -l; ls /run/sandyard /run/keeper /mnt | wc -w")
        .await;
    let lines: Vec<_> = listed.stdout.lines().collect();
    assert_eq!(lines[0].trim(), "0 1 2", "{}", listed.stderr);
    assert!(lines[1].trim().parse::<u32>().unwrap() <= 4, "{lines:?}");
    assert_eq!(
        lines[2].lines().last().map(str::trim),
        Some("3"),
        "only three directory headings: {}",
        listed.stdout
    );
}

#[tokio::test]
async fn writes_succeed_in_the_writable_places_and_nowhere_else() {
    let machine = machine!();
    let script = "for d in /workspace /home/agent /tmp /dev/shm /run/user/1000; do echo x > $d/f && mv $d/f $d/g || echo no $d; done
        for f in /etc/x /usr/x /run/x /dev/x /x /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/1/oom_score_adj; do
        (echo x > $f) 2>/dev/null && echo wrote $f; done
        cat /proc/self/oom_score_adj; echo 600 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj; mv /workspace/g /tmp/h && echo moved";
    let finished = machine.sh(script).await;
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("500\n600\nmoved\n", ""));
}

#[tokio::test]
async fn sensitive_files_are_empty_or_unreadable() {
    let machine = machine!();
    let script = "for f in kcore keys kallsyms kmsg timer_list sched_debug latency_stats kpagecount kpageflags config.gz modules; do
        test -e /proc/$f || continue; head -c 1 /proc/$f 2>/dev/null | wc -c | grep -qx 0 || echo readable $f; done
        ls /proc/acpi /proc/scsi 2>/dev/null | grep -v : | grep . ; grep -q MemTotal /proc/meminfo && cat /proc/cpuinfo /proc/stat /proc/version /proc/self/maps > /dev/null && echo good";
    let finished = machine.sh(script).await;
    assert_eq!(finished.stdout, "good\n", "{}", finished.stderr);
}

#[tokio::test]
async fn a_terminal_is_the_controlling_one_and_has_its_size() {
    let machine = machine!();
    let finished =
        machine.run(machine.terminal("tty; stty size; echo to stderr >&2; echo ok > /dev/tty")).await;
    assert_eq!(finished.stdout, "/dev/pts/0\r\n31 97\r\nto stderr\r\nok\r\n");
    assert_eq!(finished.exit.code, 0);
}

#[tokio::test]
async fn the_job_can_neither_kill_nor_starve_nor_read_the_spawner() {
    let machine = machine!();
    let script = "for s in KILL STOP TERM INT HUP SEGV CHLD; do kill -$s 1 2>/dev/null; done
        kill -STOP -1 2>/dev/null
        head -c 1 /proc/1/mem /proc/1/environ /proc/1/maps 2>/dev/null | wc -c; ls /proc/1/fd 2>/dev/null | wc -l
        python3 - <<'END'
import os, resource
def attempt(name, call):
    try:
        call(); print('could', name)
    except PermissionError:
        pass
attempt('limit', lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)))
attempt('affinity', lambda: os.sched_setaffinity(1, {0}))
attempt('scheduler', lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt('priority of all', lambda: os.setpriority(os.PRIO_USER, 0, 19))
END";
    let finished = machine.sh(script).await;
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("0\n0\n", ""));
    assert_eq!(machine.sh("echo alive").await.stdout, "alive\n");
}

#[tokio::test]
async fn kill_everything_ends_a_fork_bomb_and_spares_the_spawner() {
    let machine = machine!();
    // Bounded, because nothing but this machine's own pid namespace holds it here.
    let bomb = machine.command(&[
        "bash",
        "-c",
        "trap '' TERM; for i in $(seq 200); do (while :; do sleep 0.01; done) & done; wait",
    ]);
    let id = bomb.id.clone();
    machine.spawn(bomb).await.unwrap();
    assert!(
        machine.sh("until [ $(ls -d /proc/[0-9]* | wc -l) -gt 150 ]; do sleep 0.05; done").await.exit.code
            == 0
    );
    machine.client.kill_everything().await.unwrap();
    let exit = tokio::time::timeout(PATIENCE, machine.client.next_exit()).await.unwrap().unwrap();
    assert_eq!((exit.id, exit.code, exit.signal), (id, 137, Some(9)));
    let gone = machine.sh("until [ $(ls -d /proc/[0-9]* | wc -l) -le 4 ]; do sleep 0.05; done").await;
    assert_eq!(gone.exit.code, 0);
}

#[tokio::test]
async fn a_signal_reaches_the_whole_group() {
    let machine = machine!();
    let command = machine.command(&["bash", "-c", "sleep 100 & sleep 100; true"]);
    let id = command.id.clone();
    let spawned = machine.spawn(command).await.unwrap();
    machine.client.signal(&id, libc::SIGTERM).await.unwrap();
    let exit = tokio::time::timeout(PATIENCE, machine.client.next_exit()).await.unwrap().unwrap();
    assert_eq!((exit.code, exit.signal), (143, Some(15)));
    // Its end shows that no process of the group holds the pipe.
    assert_eq!(read_all(spawned.stdout), "");
    machine.client.forget(&id).await.unwrap();
    machine.client.signal(&id, libc::SIGTERM).await.unwrap();
}

#[tokio::test]
async fn long_arguments_and_standard_input_arrive_whole() {
    let machine = machine!();
    let long = "é\n".repeat(40_000);
    let mut command = machine.command(&[
        "python3",
        "-c",
        "import sys,os; print(len(os.environ['LONG']), len(sys.stdin.read()))",
    ]);
    command.env.insert("LONG".into(), long);
    command.stdin = true;
    let id = command.id.clone();
    let mut spawned = machine.spawn(command).await.unwrap();
    let stdin = spawned.stdin.take().unwrap();
    rustix::io::write(&stdin, b"hello").unwrap();
    machine.client.close_stdin(&id).await.unwrap();
    drop(stdin);
    assert_eq!(read_all(spawned.stdout), "80000 5\n");
}

#[tokio::test]
async fn a_stopped_start_is_given_up() {
    let machine = machine!();
    // Stops every new process it sees, as a hostile job would.
    let hostile = machine.command(&["python3", "-c", "import os,signal\nos.setpriority(os.PRIO_PROCESS,0,0)\nwhile True:\n  try: os.kill(-1, signal.SIGSTOP)\n  except ProcessLookupError: pass"]);
    machine.spawn(hostile).await.unwrap();
    for _ in 0..20 {
        // Each either starts or is refused; what counts is that an answer comes.
        if let Err(SpawnError::Refused { source, .. }) = machine.spawn(machine.command(&["true"])).await {
            assert_eq!(source.raw_os_error(), Some(libc::ETIMEDOUT));
            break;
        }
    }
    machine.client.kill_everything().await.unwrap();
    assert_eq!(machine.sh("echo alive").await.stdout, "alive\n");
}

#[tokio::test]
async fn a_restarted_keeper_finds_what_runs_and_what_has_ended() {
    let machine = machine!();
    let mut running = machine.command(&["bash", "-c", "read line; echo got $line; echo bad >&2"]);
    running.stdin = true;
    let ended = machine.command(&["bash", "-c", "echo before; exit 4"]);
    drop(machine.spawn(running.clone()).await.unwrap());
    drop(machine.spawn(ended.clone()).await.unwrap());
    // Not forgotten, as if keeper died before it could note the exit.
    let exit = tokio::time::timeout(PATIENCE, machine.client.next_exit()).await.unwrap().unwrap();
    let machine = machine.restart_keeper().await;
    let mut survivors = machine.client.survivors().await.unwrap().found;
    assert_eq!(survivors.len(), 2);
    let second = survivors.remove(1);
    assert_eq!((&second.command, second.exit), (&ended, Some(exit)));
    assert_eq!(read_all(second.spawned.stdout), "before\n");
    let first = survivors.remove(0);
    assert_eq!((&first.command, &first.exit), (&running, &None));
    rustix::io::write(first.spawned.stdin.unwrap(), b"hello\n").unwrap();
    machine.client.forget(&ended.id).await.unwrap();
    let exit = tokio::time::timeout(PATIENCE, machine.client.next_exit()).await.unwrap().unwrap();
    assert_eq!((exit.id, exit.code), (running.id.clone(), 0));
    machine.client.forget(&running.id).await.unwrap();
    assert_eq!(read_all(first.spawned.stdout), "got hello\n");
    assert_eq!(read_all(first.spawned.stderr.unwrap()), "bad\n");
    let machine = machine.restart_keeper().await;
    assert!(machine.client.survivors().await.unwrap().found.is_empty());
}
