//! Notebooks that executions leave behind, and jobs of kind `python` and `typescript`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kernels::{code, full_yard};
use crate::yard::Yard;

async fn notebook(yard: &Yard, id: &str, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let response = yard.get(&format!("/jobs/{id}/files/{name}")).await;
        let found: Option<Value> = response.json().await.ok();
        if let Some(found) = found.filter(|found| wanted(found)) {
            return found;
        }
        assert!(Instant::now() < deadline, "{name} never became what it should");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn cells(notebook: &Value) -> usize {
    notebook["cells"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn every_execution_is_a_cell_of_a_valid_notebook() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    code(&yard, &id, "python", "print('hi'); 1 + 1").await;
    code(&yard, &id, "python", "1 / 0").await;
    code(&yard, &id, "python", "from IPython.display import HTML\nHTML('<b>x</b>')").await;
    code(&yard, &id, "typescript", "console.log('hi'); 2").await;
    code(&yard, &id, "bash", "echo hi").await;
    let python = notebook(&yard, &id, "session.python.ipynb", |found| cells(found) == 3).await;
    assert_eq!(python["cells"][0]["source"], "print('hi'); 1 + 1");
    assert_eq!(python["cells"][0]["outputs"][0]["text"], "hi\n");
    assert_eq!(python["cells"][0]["outputs"][1]["data"]["text/plain"], "2");
    assert_eq!(python["cells"][1]["outputs"][0]["ename"], "ZeroDivisionError");
    for language in ["python", "typescript", "bash"] {
        notebook(&yard, &id, &format!("session.{language}.ipynb"), |found| cells(found) > 0).await;
    }
    let check = "import nbformat, glob\nfor name in sorted(glob.glob('session.*.ipynb')):\n    book = nbformat.read(name, 4)\n    nbformat.validate(book)\n    print(name, book.nbformat, book.nbformat_minor)";
    yard.client.put(format!("{}/jobs/{id}/files/check.py", yard.url)).body(check).send().await.unwrap();
    let answer = yard.shell(&id, "python3 -W error check.py").await;
    assert_eq!(
        answer["stdout"], "session.bash.ipynb 4 5\nsession.python.ipynb 4 5\nsession.typescript.ipynb 4 5\n",
        "{answer}"
    );
}

#[tokio::test]
async fn f2_what_a_person_wrote_is_never_overwritten_and_no_link_is_followed() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    yard.shell(&id, "mkdir elsewhere; echo mine > elsewhere/kept; ln -s elsewhere/kept session.bash.ipynb; ln -s /etc/passwd session.typescript.ipynb").await;
    code(&yard, &id, "bash", "echo one").await;
    code(&yard, &id, "typescript", "1").await;
    notebook(&yard, &id, "session.bash-2.ipynb", |found| cells(found) == 1).await;
    notebook(&yard, &id, "session.typescript-2.ipynb", |found| cells(found) == 1).await;
    let links =
        yard.shell(&id, "cat elsewhere/kept; readlink session.bash.ipynb session.typescript.ipynb").await;
    assert_eq!(links["stdout"], "mine\nelsewhere/kept\n/etc/passwd\n");
    code(&yard, &id, "python", "'first'").await;
    notebook(&yard, &id, "session.python.ipynb", |found| cells(found) == 1).await;
    code(&yard, &id, "python", "'second'").await;
    notebook(&yard, &id, "session.python.ipynb", |found| cells(found) == 2).await;
    // A person saves the file: in place, as JupyterLab does.
    yard.shell(&id, "sed -i.bak s/first/edited/g session.python.ipynb").await;
    code(&yard, &id, "python", "'third'").await;
    let copy = notebook(&yard, &id, "session.python-2.ipynb", |found| cells(found) == 3).await;
    assert_eq!(copy["cells"][0]["source"], "'first'");
    let kept = notebook(&yard, &id, "session.python.ipynb", |found| cells(found) == 2).await;
    assert!(kept["cells"][0]["source"].as_str().unwrap().contains("edited"));
}

#[tokio::test]
async fn jobs_of_kind_python_end_as_a_script_would() {
    let Some(yard) = full_yard().await else { return };
    let body = |code: &str| json!({"kind": "python", "code": code});
    let good = yard.run(&body("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")).await;
    assert_eq!((&good["state"], &good["exit_code"]), (&json!("succeeded"), &json!(0)), "{good}");
    assert_eq!((&good["stdout"], &good["stderr"]), (&json!("out\n42\n"), &json!("err\n")), "{good}");
    let bad = yard.run(&body("print('before')\n1 / 0")).await;
    assert_eq!(
        (&bad["state"], &bad["exit_code"], &bad["stdout"]),
        (&json!("failed"), &json!(1), &json!("before\n")),
        "{bad}"
    );
    let stderr = bad["stderr"].as_str().unwrap();
    assert!(stderr.contains("ZeroDivisionError") && !stderr.contains('\u{1b}'), "{bad}");
    for (code, exit) in [
        ("import sys; sys.exit(3)", 3),
        ("exit(4)", 4),
        ("import os; os._exit(5)", 5),
        ("raise SystemExit", 0),
    ] {
        let ended = yard.run(&body(code)).await;
        assert_eq!((&ended["exit_code"], &ended["stderr"]), (&json!(exit), &json!("")), "{code}: {ended}");
    }
    let zip = yard.download(good["job_id"].as_str().unwrap()).await;
    assert!(
        zip.windows(20).any(|window| window == b"session.python.ipynb"),
        "the notebook is not in the result"
    );
}

#[tokio::test]
async fn jobs_of_kind_typescript_run_in_deno() {
    let Some(yard) = full_yard().await else { return };
    let body = |code: &str| json!({"kind": "typescript", "code": code});
    let good =
        yard.run(&body("const x: number = await Promise.resolve(2);\nconsole.log('out');\nx * 21")).await;
    assert_eq!((&good["state"], &good["stdout"]), (&json!("succeeded"), &json!("out\n42\n")), "{good}");
    let bad = yard.run(&body("throw new Error('no')")).await;
    assert_eq!((&bad["exit_code"], &bad["state"]), (&json!(1), &json!("failed")), "{bad}");
    assert!(bad["stderr"].as_str().unwrap().contains("Error: no"), "{bad}");
    let left = yard.run(&body("console.log('bye'); Deno.exit(6)")).await;
    assert_eq!((&left["exit_code"], &left["stdout"]), (&json!(6), &json!("bye\n")), "{left}");
}

/// The arguments of `sandyard run` arrive, and errors name the lines of the script.
#[tokio::test]
async fn scripts_take_arguments_and_keep_their_lines() {
    let Some(yard) = full_yard().await else { return };
    let home = tempfile::tempdir().unwrap();
    let python = "from __future__ import annotations\nimport sys\ndef f(x: Nowhere): ...\nprint(sys.argv[1:])\n1 / 0\n";
    let typescript = "#!/usr/bin/env -S deno run\nconst all: string[] = [...Deno.args, ...process.argv.slice(2)];\nconsole.log(all.join('|'));\n";
    for (name, script, code, out, err) in [
        ("a.py", python, 1, "['a b', \"it's\"]\n", "----> 5 1 / 0"),
        ("a.ts", typescript, 0, "a b|it's|a b|it's\n", ""),
    ] {
        std::fs::write(home.path().join(name), script).unwrap();
        let path = home.path().join(name);
        let ended = tokio::process::Command::new(env!("CARGO_BIN_EXE_sandyard"))
            .args(["run", path.to_str().unwrap(), "--", "a b", "it's"])
            .env("SANDYARD_URL", &yard.url)
            .stdin(std::process::Stdio::null())
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{name}: {ended:?}");
        assert_eq!(text(&ended.stdout), out, "{name}: {ended:?}");
        assert!(text(&ended.stderr).contains(err), "{name}: {}", text(&ended.stderr));
    }
}

#[tokio::test]
async fn limits_end_a_job_in_a_kernel_and_keep_its_output() {
    let Some(yard) = full_yard().await else { return };
    let endless = "print('said', flush=True)\nimport time\nwhile True: time.sleep(1)";
    let limited = |limits: Value| json!({"kind": "python", "code": endless, "limits": limits});
    let ended = yard.run(&limited(json!({"timeout_s": 8}))).await;
    assert_eq!((&ended["state"], &ended["stdout"]), (&json!("timed_out"), &json!("said\n")), "{ended}");
    let ended = yard.run(&limited(json!({"idle_timeout_s": 8}))).await;
    assert_eq!((&ended["state"], &ended["stdout"]), (&json!("timed_out"), &json!("said\n")), "{ended}");
    let id = yard.schedule(&limited(json!({}))).await;
    yard.wait_for(&id, |status| status["stdout"] == "said\n").await;
    yard.post(&format!("/jobs/{id}/cancel"), &json!({})).await;
    let ended = yard.wait_end(&id).await;
    assert_eq!((&ended["state"], &ended["stdout"]), (&json!("cancelled"), &json!("said\n")), "{ended}");
    let hungry = "print('eating', flush=True)\nx = []\nwhile True: x.append(bytearray(10_000_000))";
    let ended = yard.run(&json!({"kind": "python", "code": hungry, "limits": {"memory_mib": 256}})).await;
    assert_eq!((&ended["state"], &ended["stdout"]), (&json!("failed"), &json!("eating\n")), "{ended}");
    assert!(ended["error"]["message"].to_string().contains("memory"), "{ended}");
}

#[tokio::test]
async fn a_kept_job_leaves_its_kernel_to_look_into() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.schedule(&json!({"kind": "python", "code": "x = 41", "keep": true})).await;
    let ended = yard.wait_end(&id).await;
    assert_eq!(ended["state"], "succeeded", "{ended}");
    let answer = code(&yard, &id, "python", "x + 1").await;
    assert_eq!(answer["result"], "42", "{answer}");
    yard.delete(&id).await;
}

/// The host pid of keeper: the only process of the sandbox that holds neither the job's uid nor init's place.
fn keeper_pid(yard: &Yard) -> i32 {
    let is_keeper = |pid: &i32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == b"keeper")
    };
    yard.sandbox_pids().into_iter().find(is_keeper).expect("no keeper")
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Follows an execution; keeper dials again within a moment of its end.
async fn attach(yard: &Yard, id: &str, execution: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let response = yard.get(&format!("/jobs/{id}/code/{execution}")).await;
        if response.status() != 502 {
            return response.json().await.unwrap();
        }
        assert!(Instant::now() < deadline, "keeper did not come back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_killed_keeper_costs_neither_kernels_nor_the_job_that_runs_in_one() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    code(&yard, &id, "python", "x = 7").await;
    let slow = json!({"language": "python", "code": "import time\nprint('one', flush=True)\ntime.sleep(3)\nprint('two')\nx"});
    let url = format!("{}/jobs/{id}/code", yard.url);
    let mut response =
        yard.client.post(&url).header("Accept", "text/event-stream").json(&slow).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("one") {
        text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    kill(keeper_pid(&yard));
    drop(response);
    let execution = text.split("\"execution\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let again = attach(&yard, &id, &execution).await;
    assert_eq!(
        (&again["status"], &again["stdout"], &again["result"]),
        (&json!("ok"), &json!("one\ntwo\n"), &json!("7")),
        "{again}"
    );
    assert!(again["notes"].to_string().contains("restarted"), "{again}");
    assert_eq!(code(&yard, &id, "python", "x + 1").await["result"], "8");
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;

    let counted = "import time, os\nopen('runs', 'a').write('run\\n')\nprint('begun', flush=True)\ntime.sleep(3)\nprint(open('runs').read())";
    let id = yard.schedule(&json!({"kind": "python", "code": counted})).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while yard.status(&id).await["stdout"] != "begun\n" {
        assert!(Instant::now() < deadline, "it never began");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    kill(keeper_pid(&yard));
    let ended = yard.wait_end(&id).await;
    assert_eq!(
        (&ended["state"], &ended["stdout"]),
        (&json!("succeeded"), &json!("begun\nrun\n\n")),
        "{ended}"
    );
}
