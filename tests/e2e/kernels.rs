//! Code in kernels of a live sandbox: Python, TypeScript, bash; state, limits, ends, floods.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::yard::Yard;

/// A yard whose sandboxes have kernels; `None`, with the reason told, if this machine has no full image.
pub(crate) async fn full_yard() -> Option<Yard> {
    let yard = Yard::start_with(&["--images", "full"]).await;
    let drivers = yard.get_json("/drivers").await;
    let images = drivers["images"].as_array().cloned().unwrap_or_default();
    if images.iter().any(|image| image["flavour"] == "full" && image["ready"] == true) {
        return Some(yard);
    }
    eprintln!("skipped: needs the full image (sandyard image build --flavour full)");
    None
}

pub(crate) async fn code(yard: &Yard, id: &str, language: &str, code: &str) -> Value {
    yard.post_json(&format!("/jobs/{id}/code"), &json!({"language": language, "code": code})).await
}

async fn kernels(yard: &Yard, id: &str) -> Vec<Value> {
    yard.get_json(&format!("/jobs/{id}/kernels")).await["kernels"].as_array().unwrap().clone()
}

/// Waits until a kernel is in a state.
async fn wait_kernel(yard: &Yard, id: &str, kernel: &str, state: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let list = kernels(yard, id).await;
        if list.iter().any(|one| one["kernel"] == kernel && one["state"] == state) {
            return;
        }
        assert!(Instant::now() < deadline, "{kernel} is not {state}: {list:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn python_keeps_its_state_and_tells_everything() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    let first =
        code(&yard, &id, "python", "import sys\nx = 20\nprint('out'); print('err', file=sys.stderr)\nx + 1")
            .await;
    assert_eq!((&first["stdout"], &first["stderr"]), (&json!("out\n"), &json!("err\n")), "{first}");
    assert_eq!((&first["result"], &first["status"]), (&json!("21"), &json!("ok")), "{first}");
    assert_eq!(first["outputs"], json!([{"text/plain": "21"}]));
    let second = code(&yard, &id, "python", "x * 2").await;
    assert_eq!((&second["result"], &second["execution_count"]), (&json!("40"), &json!(2)), "{second}");
    let failed = code(&yard, &id, "python", "def f():\n    raise ValueError('no')\nf()").await;
    assert_eq!(
        (&failed["status"], &failed["error"]["name"]),
        (&json!("error"), &json!("ValueError")),
        "{failed}"
    );
    assert_eq!(failed["error"]["message"], "no");
    assert!(!failed["error"]["traceback"].to_string().contains("\\u001b"), "{failed}");
    let again = yard.get_json(&format!("/jobs/{id}/code/{}", second["execution"].as_str().unwrap())).await;
    assert_eq!(again["result"], "40");
    let unknown = yard.get(&format!("/jobs/{id}/code/x9-9")).await;
    assert_eq!(unknown.status(), 404);
}

#[tokio::test]
async fn typescript_has_types_await_state_and_packages_of_the_workspace() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    for (path, text) in [
        ("package.json", r#"{"dependencies": {"left-over": "1.0.0"}}"#),
        (
            "node_modules/left-over/package.json",
            r#"{"name": "left-over", "version": "1.0.0", "type": "module", "main": "index.js"}"#,
        ),
        (
            "node_modules/left-over/index.js",
            "export const pad = (text, length) => text.padStart(length, '.');",
        ),
    ] {
        let put =
            yard.client.put(format!("{}/jobs/{id}/files/{path}", yard.url)).body(text).send().await.unwrap();
        assert!(put.status().is_success(), "{path}");
    }
    let annotated = "interface Point { x: number }\nconst point: Point = { x: 3 };\nconsole.log(point.x as number);\npoint.x";
    let first = code(&yard, &id, "typescript", annotated).await;
    assert_eq!((&first["stdout"], &first["result"]), (&json!("3\n"), &json!("3")), "{first}");
    let second = code(
        &yard,
        &id,
        "typescript",
        "await new Promise<number>((done) => setTimeout(() => done(point.x + 1), 20))",
    )
    .await;
    assert_eq!(second["result"], "4", "{second}");
    let imported = code(&yard, &id, "typescript", "import { pad } from 'npm:left-over';\npad('x', 4)").await;
    assert_eq!(imported["result"], "\"...x\"", "{imported}");
    let failed = code(&yard, &id, "typescript", "throw new TypeError('no')").await;
    assert_eq!((&failed["status"], &failed["error"]["message"]), (&json!("error"), &json!("no")), "{failed}");
    let plain = code(&yard, &id, "javascript", "var a = 1; a + 1").await;
    assert_eq!((&plain["result"], &plain["kernel"]), (&json!("2"), &json!("javascript")), "{plain}");
}

#[tokio::test]
async fn bash_keeps_its_variables() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    code(&yard, &id, "bash", "X=7; cd /tmp").await;
    let answer = code(&yard, &id, "bash", "echo $X; pwd").await;
    assert_eq!(answer["stdout"], "7\n/tmp\n", "{answer}");
}

#[tokio::test]
async fn five_hundred_cells_in_a_row_lose_nothing() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    for number in 0..500 {
        let python = code(&yard, &id, "python", &format!("print('p{number}'); {number}")).await;
        assert_eq!(
            (&python["stdout"], &python["result"]),
            (&json!(format!("p{number}\n")), &json!(number.to_string())),
            "{python}"
        );
        let deno = code(
            &yard,
            &id,
            "typescript",
            &format!("console.log('t{number}'); console.error('e{number}'); {number}"),
        )
        .await;
        assert_eq!(
            (&deno["stdout"], &deno["stderr"], &deno["result"]),
            (&json!(format!("t{number}\n")), &json!(format!("e{number}\n")), &json!(number.to_string())),
            "{deno}"
        );
    }
}

#[tokio::test]
async fn many_lines_and_long_lines_arrive_whole() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    for (language, lines, long) in [
        ("python", "for i in range(5000): print('line', i)", "print('x' * 5_000_000); print('the end')"),
        (
            "typescript",
            "for (let i = 0; i < 5000; i++) console.log('line', i)",
            "console.log('x'.repeat(3_000_000)); console.log('the end')",
        ),
    ] {
        let answer = code(&yard, &id, language, lines).await;
        let expected: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        assert!(
            answer["stdout"] == expected,
            "{language}: {:?}",
            answer["stdout"].as_str().map(|text| text.lines().count())
        );
        let answer = code(&yard, &id, language, long).await;
        let stdout = answer["stdout"].as_str().unwrap();
        assert!(
            stdout.starts_with("xxx") && stdout.ends_with("xxx\nthe end\n"),
            "{language}: {}",
            stdout.len()
        );
        assert_eq!(code(&yard, &id, language, "6 * 7").await["stdout"], "");
    }
}

#[tokio::test]
async fn calls_on_one_kernel_wait_and_kernels_run_beside_each_other() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    code(&yard, &id, "python", "1").await;
    let made = yard.post(&format!("/jobs/{id}/kernels"), &json!({"language": "python"})).await;
    assert_eq!(made.status(), 201);
    let made: Value = made.json().await.unwrap();
    assert_eq!((&made["kernel"], &made["state"]), (&json!("python-2"), &json!("idle")));
    // The first waits for a file that the second makes: together or not at all.
    let waits = "import os, time\nwhile not os.path.exists('there'): time.sleep(0.01)\n'seen'";
    let slow = json!({"language": "python", "code": waits, "timeout_s": 60});
    let path = format!("/jobs/{id}/code");
    let other = json!({"language": "python", "kernel": "python-2", "code": "open('there', 'w').close()"});
    let queued = json!({"language": "python", "code": "'after'"});
    let (slow, queued, made) =
        tokio::join!(yard.post_json(&path, &slow), yard.post_json(&path, &queued), async {
            wait_kernel(&yard, &id, "python", "busy").await;
            yard.post_json(&path, &other).await
        });
    assert_eq!(slow["result"], "'seen'", "{slow}");
    assert_eq!(queued["result"], "'after'", "{queued}");
    assert_eq!(made["status"], "ok", "{made}");
    let gone = yard.client.delete(format!("{}/jobs/{id}/kernels/python-2", yard.url)).send().await.unwrap();
    assert_eq!(gone.status(), 204);
    assert_eq!(kernels(&yard, &id).await.len(), 1);
    let unknown = yard.post(&path, &other).await;
    assert_eq!(unknown.status(), 404);
    let unknown: Value = unknown.json().await.unwrap();
    assert_eq!(unknown["error"]["code"], "unknown_kernel");
}

#[tokio::test]
async fn interrupt_keeps_the_state_and_restart_does_not() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    for (language, set, endless, get) in [
        ("python", "x = 5", "import time\nprint('before', flush=True)\ntime.sleep(600)", "x"),
        ("typescript", "let x = 5", "console.log('before'); while (true) {}", "x"),
    ] {
        code(&yard, &id, language, set).await;
        let body = json!({"language": language, "code": endless});
        let path = format!("/jobs/{id}/code");
        let (stopped, ()) = tokio::join!(yard.post_json(&path, &body), async {
            wait_kernel(&yard, &id, language, "busy").await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            let response = yard.post(&format!("/jobs/{id}/kernels/{language}/interrupt"), &json!({})).await;
            assert_eq!(response.status(), 204);
        });
        assert_eq!(
            (&stopped["status"], &stopped["stdout"]),
            (&json!("interrupted"), &json!("before\n")),
            "{stopped}"
        );
        assert_eq!(code(&yard, &id, language, get).await["result"], "5");
        let restarted = yard.post(&format!("/jobs/{id}/kernels/{language}/restart"), &json!({})).await;
        assert_eq!(restarted.status(), 200);
        let lost = code(&yard, &id, language, get).await;
        assert_eq!(
            (&lost["status"], &lost["error"]["name"].as_str().map(|name| name.ends_with("Error"))),
            (&json!("error"), &Some(true)),
            "{lost}"
        );
    }
}

#[tokio::test]
async fn time_limits_keep_what_was_said_and_a_kernel_that_will_not_stop_is_replaced() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    let path = format!("/jobs/{id}/code");
    code(&yard, &id, "python", "x = 1").await;
    let body = json!({"language": "python", "code": "import time\nprint('partial', flush=True)\ntime.sleep(600)", "timeout_s": 1});
    let answer = yard.post_json(&path, &body).await;
    assert_eq!(
        (&answer["stdout"], &answer["status"], &answer["timed_out"]),
        (&json!("partial\n"), &json!("timed_out"), &json!(true)),
        "{answer}"
    );
    assert_eq!(code(&yard, &id, "python", "x").await["result"], "1");
    let body = json!({"language": "python", "code": "import time\nwhile True:\n    time.sleep(600)", "idle_timeout_s": 1});
    assert_eq!(yard.post_json(&path, &body).await["status"], "idle_timed_out");
    let stubborn = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)";
    let answer =
        yard.post_json(&path, &json!({"language": "python", "code": stubborn, "timeout_s": 1})).await;
    assert_eq!(answer["status"], "timed_out", "{answer}");
    assert!(answer["notes"].to_string().contains("state is lost"), "{answer}");
    let fresh = code(&yard, &id, "python", "'x' in globals()").await;
    assert_eq!(fresh["result"], "False", "{fresh}");
    let body = json!({"language": "typescript", "code": "await new Promise(() => {})", "timeout_s": 2});
    assert_eq!(yard.post_json(&path, &body).await["status"], "timed_out");
    assert_eq!(code(&yard, &id, "typescript", "6 * 7").await["result"], "42");
}

#[tokio::test]
async fn prompts_are_errors_and_dead_kernels_are_replaced_with_a_note() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    let prompt = code(&yard, &id, "python", "x = 3\ninput('name? ')").await;
    assert_eq!(
        (&prompt["status"], &prompt["error"]["name"]),
        (&json!("error"), &json!("StdinNotImplementedError")),
        "{prompt}"
    );
    let died = code(
        &yard,
        &id,
        "python",
        "import os, time\nprint('last words', flush=True)\ntime.sleep(0.3)\nos._exit(7)",
    )
    .await;
    assert_eq!((&died["status"], &died["stdout"]), (&json!("died"), &json!("last words\n")), "{died}");
    let next = code(&yard, &id, "python", "'x' in globals()").await;
    assert_eq!((&next["status"], &next["result"]), (&json!("ok"), &json!("False")), "{next}");
    assert!(next["notes"].to_string().contains("fresh"), "{next}");
    let died = code(&yard, &id, "typescript", "Deno.exit(9)").await;
    assert_eq!(died["status"], "died", "{died}");
    // A kernel that ends between two calls is noticed as well.
    code(&yard, &id, "bash", "true").await;
    yard.shell(&id, "pkill -9 -f '[b]ash --noprofile --norc --noediting'; sleep 0.5").await;
    let next = code(&yard, &id, "bash", "echo alive").await;
    assert_eq!(next["stdout"], "alive\n", "{next}");
    assert!(next["notes"].to_string().contains("signal 9"), "{next}");
}

#[tokio::test]
async fn rich_output_comes_by_its_types_and_floods_have_an_end() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    let plot = "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()";
    let answer = code(&yard, &id, "python", plot).await;
    let png = answer["outputs"].as_array().unwrap().iter().find_map(|output| output["image/png"].as_str());
    assert!(png.is_some_and(|png| png.starts_with("iVBORw0KGgo")), "{answer}");
    let long = code(&yard, &id, "python", "print('x' * 30_000_000); print('the end')").await;
    assert_eq!(long["status"], "ok");
    let stdout = long["stdout"].as_str().unwrap();
    assert!(
        stdout.starts_with("xxx") && stdout.contains("left out") && stdout.ends_with("the end\n"),
        "{}",
        stdout.len()
    );
    let huge = "from IPython.display import display\ndisplay({'text/plain': 'small', 'text/html': 'y' * 20_000_000}, raw=True)\n'after'";
    let answer = code(&yard, &id, "python", huge).await;
    assert_eq!(answer["result"], "'after'", "{}", answer["notes"]);
    assert!(answer["notes"].to_string().contains("too large"), "{}", answer["notes"]);
    let lines = code(&yard, &id, "python", "for number in range(300_000): print('line', number)").await;
    let stdout = lines["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("line 0\n") && stdout.ends_with("line 299999\n"), "{}", stdout.len());
}

#[tokio::test]
async fn code_streams_and_a_lost_client_finds_it_again() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    let url = format!("{}/jobs/{id}/code", yard.url);
    let post = |body: Value| yard.client.post(&url).header("Accept", "text/event-stream").json(&body).send();
    let slow = "import time\nprint('one', flush=True)\ntime.sleep(1.5)\nprint('two')\n3";
    let mut response = post(json!({"language": "python", "code": slow})).await.unwrap();
    let mut text = String::new();
    while !text.contains("one") {
        text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    drop(response);
    let execution = text.split("\"execution\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let again = yard.get_json(&format!("/jobs/{id}/code/{execution}")).await;
    assert_eq!((&again["stdout"], &again["result"]), (&json!("one\ntwo\n"), &json!("3")), "{again}");
    // Only who asks for it takes the code along.
    let body = json!({"language": "python", "code": "import time\nprint('one', flush=True)\ntime.sleep(600)", "interrupt_on_disconnect": true});
    let mut response = post(body).await.unwrap();
    let mut text = String::new();
    while !text.contains("one") {
        text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    drop(response);
    wait_kernel(&yard, &id, "python", "idle").await;
}

#[tokio::test]
async fn l17_a_hostile_kernel_costs_itself_only() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    code(&yard, &id, "python", "1").await;
    // Anybody in the sandbox may speak to the kernel, and say anything in its name.
    let hostile = r"
import json, glob, socket, struct
info = json.load(open(glob.glob('/run/user/1000/kernels/kernel-python.json')[0]))
for port in (info['shell_port'], info['control_port'], info['iopub_port']):
    for garbage in (b'\xff' * 64, b'GET / HTTP/1.0\r\n\r\n', bytes([255] + [0] * 8 + [127, 3, 0]) + b'NULL' + bytes(48) + bytes([2]) + struct.pack('>Q', 2**63)):
        s = socket.create_connection(('127.0.0.1', port)); s.sendall(garbage); s.close()
print('done')
";
    let put = yard
        .client
        .put(format!("{}/jobs/{id}/files/hostile.py", yard.url))
        .body(hostile)
        .send()
        .await
        .unwrap();
    assert!(put.status().is_success());
    assert_eq!(yard.shell(&id, "python3 hostile.py").await["stdout"], "done\n");
    assert_eq!(code(&yard, &id, "python", "2").await["result"], "2");
    // A kernel that publishes nonsense in the name of its own execution.
    let nonsense = r"
from ipykernel.kernelapp import IPKernelApp
k = IPKernelApp.instance().kernel
for content in ([], 3, {'data': [1] * 1000}, {'name': {}, 'text': 7}, {'traceback': 'x'}):
    for kind in ('stream', 'display_data', 'error', 'status', 'execute_result', 'nonsense'):
        k.session.send(k.iopub_socket, kind, content={'x': content} if not isinstance(content, dict) else content, parent=k.get_parent())
'fine'
";
    let answer = code(&yard, &id, "python", nonsense).await;
    assert_eq!(answer["result"], "'fine'", "{answer}");
    assert_eq!(code(&yard, &id, "python", "3").await["result"], "3");
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn l17_a_kernel_that_writes_garbage_into_its_channels_is_replaced() {
    let Some(yard) = full_yard().await else { return };
    let id = yard.session().await;
    for garbage in [
        r"bytes([2]) + (2**62).to_bytes(8, 'big') + b'x' * 100000",
        r"b'\xff' * 1000000",
        r"bytes([1, 1, 120]) * 1000000",
    ] {
        code(&yard, &id, "python", "x = 1").await;
        // The kernel holds its ends of keeper's connections: it can say anything on them.
        let attack = format!(
            "import os, socket\nfor fd in range(3, 256):\n    try:\n        s = socket.socket(fileno=os.dup(fd)); s.getpeername()\n    except OSError: continue\n    if s.family == socket.AF_INET:\n        try: s.setblocking(True); s.settimeout(1); s.sendall({garbage})\n        except OSError: pass\n"
        );
        let body = json!({"language": "python", "code": attack, "timeout_s": 5});
        let answer = yard.post_json(&format!("/jobs/{id}/code"), &body).await;
        assert_ne!(answer["status"], "lost", "{answer}");
        // Whatever became of it, the next code runs, in a fresh kernel if it must.
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let body = json!({"language": "python", "code": "6 * 7", "timeout_s": 10});
            let next = yard.post_json(&format!("/jobs/{id}/code"), &body).await;
            if next["result"] == "42" {
                break;
            }
            assert!(Instant::now() < deadline, "{next}");
        }
    }
    assert_eq!(yard.shell(&id, "echo alive").await["stdout"], "alive\n");
}
