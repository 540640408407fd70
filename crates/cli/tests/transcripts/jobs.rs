//! Jobs: run, look, follow, end, remove.

use crate::served::{PATIENCE, Served, said};

#[tokio::test]
async fn output_goes_where_it_came_from_and_the_end_is_told() {
    let yard = Served::start().await;
    let said = yard.run(&["run", "--kind", "shell", "echo out; echo err >&2"]).await.expect(0);
    assert_eq!(said.out, "out\n");
    assert!(said.err.contains("err\n") && said.err.contains("· succeeded after "), "{}", said.err);
}

#[tokio::test]
async fn each_end_has_its_exit_code() {
    let yard = Served::start().await;
    let failed = yard.run(&["run", "--kind", "shell", "exit 3"]).await.expect(3);
    assert!(failed.err.contains("code 3"), "{}", failed.err);
    yard.run(&["run", "--kind", "shell", "--limit", "timeout_s=1", "sleep 60"]).await.expect(5);
}

#[tokio::test]
async fn json_is_one_document_and_nothing_else_on_stdout() {
    let yard = Served::start().await;
    let view = yard.run(&["run", "--json", "--kind", "shell", "echo hi; exit 4"]).await.expect(4).json();
    assert_eq!((view["state"].as_str(), view["exit_code"].as_i64()), (Some("failed"), Some(4)));
    assert_eq!(view["stdout"], "hi\n");
}

#[tokio::test]
async fn a_script_comes_from_a_file_with_variables() {
    let yard = Served::start().await;
    std::fs::write(yard.home.path().join("job.sh"), "echo $WHO").unwrap();
    let said = yard.run(&["run", "--file", "job.sh", "--env", "WHO=world"]).await.expect(0);
    assert_eq!(said.out, "world\n");
}

#[tokio::test]
async fn the_result_is_taken_home_also_from_a_failed_job() {
    let yard = Served::start().await;
    let code = "mkdir d; echo x > d/f; chmod 755 d/f; exit 1";
    yard.run(&["run", "--kind", "shell", code, "--output", "result"]).await.expect(1);
    assert_eq!(std::fs::read_to_string(yard.home.path().join("result/d/f")).unwrap(), "x\n");
    yard.run(&["run", "--kind", "shell", code, "--output", "result.zip"]).await.expect(1);
    let zip = std::fs::File::open(yard.home.path().join("result.zip")).unwrap();
    assert!(zip::ZipArchive::new(zip).unwrap().by_name("d/f").is_ok());
}

#[tokio::test]
async fn jobs_are_listed_looked_at_and_removed() {
    let yard = Served::start().await;
    let id = yard.run(&["run", "--kind", "shell", "--name", "first", "echo hi"]).await.expect(0);
    drop(id);
    let listed = yard.run(&["ps", "--json"]).await.expect(0).json();
    let id = listed["jobs"][0]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(listed["jobs"][0]["name"], "first");
    let table = yard.run(&["ps"]).await.expect(0).out;
    assert!(table.starts_with("JOB ") && table.contains(&id[..8]) && table.contains("succeeded"), "{table}");
    assert_eq!(yard.run(&["ps", "-q"]).await.expect(0).out, format!("{id}\n"));

    let described = yard.run(&["status", &id[..6]]).await.expect(0).out;
    assert!(described.contains("state:      succeeded\n"), "{described}");
    assert_eq!(yard.run(&["status", "--json", "first"]).await.expect(0).json()["job_id"], id.as_str());
    assert_eq!(yard.run(&["logs", "first"]).await.expect(0).out, "hi\n");
    assert_eq!(yard.run(&["logs", "-f", &id]).await.expect(0).out, "hi\n");

    yard.run(&["download", &id]).await.expect(0);
    assert!(yard.home.path().join(format!("{id}.zip")).is_file());
    assert_eq!(yard.run(&["rm", &id]).await.expect(0).out, format!("{id}\n"));
    assert_eq!(yard.run(&["ps", "-q"]).await.expect(0).out, "");
}

#[tokio::test]
async fn a_job_that_lives_is_only_removed_by_force() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let refused = yard.run(&["rm", &id]).await.expect(2);
    assert!(refused.err.contains("hint: cancel it first, or use --force"), "{}", refused.err);
    yard.run(&["cancel", &id]).await.expect(0);
    yard.run(&["status", "--wait", &id]).await.expect(6);
    assert_eq!(yard.run(&["prune", "--dry-run"]).await.expect(0).out, format!("{id}\n"));
    yard.run(&["prune"]).await.expect(2);
    yard.run(&["prune", "--yes", "--older-than", "1h"]).await.expect(0);
    assert_eq!(yard.run(&["ps", "-q"]).await.expect(0).out, format!("{id}\n"));
    yard.run(&["prune", "--yes"]).await.expect(0);
    assert_eq!(yard.run(&["ps", "-q"]).await.expect(0).out, "");
}

#[tokio::test]
async fn an_interrupt_cancels_where_nobody_can_be_asked() {
    let yard = Served::start().await;
    let command = yard.command(&["run", "--kind", "shell", "echo begun; sleep 60"]);
    let running = tokio::spawn(said(with_pid_file(command, &yard)));
    let pid = tokio::time::timeout(PATIENCE, begun(&yard)).await.unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    running.await.unwrap().expect(6);
}

/// Runs the command under a shell that says its pid, so that a signal can be sent to it.
fn with_pid_file(command: tokio::process::Command, yard: &Served) -> tokio::process::Command {
    let inner = command.as_std();
    let mut outer = tokio::process::Command::new("/bin/sh");
    outer.args(["-c", "echo $$ > pid; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    outer.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.current_dir(yard.home.path()).stdin(std::process::Stdio::null()).kill_on_drop(true);
    outer
}

/// The pid, once the job has said its first word.
async fn begun(yard: &Served) -> rustix::process::Pid {
    loop {
        let listed = yard.run(&["ps", "--json"]).await.json();
        if let Some(id) = listed["jobs"][0]["job_id"].as_str()
            && yard.run(&["logs", id]).await.out == "begun\n"
        {
            let text = std::fs::read_to_string(yard.home.path().join("pid")).unwrap();
            return rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        }
    }
}
