//! Paths of files: no spelling reaches anything outside of the workspace.

use serde_json::json;

use crate::client::Served;

#[tokio::test]
async fn f1_no_spelling_of_a_path_leaves_the_workspace() {
    let served = Served::start().await;
    let id = served.session().await;
    served.shell(&id, "echo inside > inside.txt").await;
    let long = "n".repeat(5000);
    let deep = "d/".repeat(3000);
    for path in [
        "../etc/passwd",
        "..",
        "a/../../etc/passwd",
        "%2e%2e/etc/passwd",
        "..%2fetc%2fpasswd",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "%252e%252e%252fetc%252fpasswd",
        "..%252f..%252fetc/passwd",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "//etc/passwd",
        "./inside.txt",
        "a%00b",
        "%00",
        "inside.txt%00.png",
        "%c0%ae%c0%ae/etc/passwd",
        "%e0%80%ae%e0%80%ae/x",
        "%ff%fe",
        "%",
        "%zz",
        "%2",
        &long,
        &deep,
    ] {
        let target = format!("/jobs/{id}/files/{path}");
        for (method, headers, body) in [
            ("GET", vec![], ""),
            ("HEAD", vec![], ""),
            ("PUT", vec![], "owned"),
            ("PATCH", vec![("Content-Type", "application/json")], r#"{"move":"stolen"}"#),
            ("DELETE", vec![], ""),
        ] {
            let reply = served.request(method, &target, &headers, body.as_bytes()).await;
            let shown = &target[..target.len().min(90)];
            assert!([400, 404, 414].contains(&reply.status), "{method} {shown}: {reply:?}");
            assert!(!reply.text().contains("root:"), "{method} {shown}");
        }
    }
    let kept = served.get(&format!("/jobs/{id}/files/inside.txt")).await;
    assert_eq!(kept.text(), "inside\n");
    for target in ["../out", "/etc/out", "a/../../out", ""] {
        let body = json!({ "move": target }).to_string();
        let headers = [("Content-Type", "application/json")];
        let reply =
            served.request("PATCH", &format!("/jobs/{id}/files/inside.txt"), &headers, body.as_bytes()).await;
        assert_eq!(reply.status, 422, "{target}");
    }
}

#[tokio::test]
async fn a_backslash_is_a_letter_like_any_other() {
    let served = Served::start().await;
    let id = served.session().await;
    let target = format!("/jobs/{id}/files/..%5C..%5Cetc%5Cpasswd");
    assert_eq!(served.request("PUT", &target, &[], b"mine").await.status, 200);
    assert_eq!(served.shell(&id, "ls -A").await["stdout"], "..\\..\\etc\\passwd\n");
    assert_eq!(served.get(&target).await.text(), "mine");
}

#[tokio::test]
async fn f2_links_do_not_lead_out() {
    let served = Served::start().await;
    let id = served.session().await;
    served.shell(&id, "ln -s /etc/passwd out; ln -s loop loop; ln -s / root; ln -s .. up; echo in > in.txt; ln -s in.txt inside").await;
    for path in ["out", "loop", "root/etc/passwd", "root", "up", "up/x"] {
        let reply = served.get(&format!("/jobs/{id}/files/{path}")).await;
        assert!((400..500).contains(&reply.status), "{path}: {reply:?}");
        assert!(!reply.text().contains("root:"), "{path}");
    }
    assert_eq!(served.get(&format!("/jobs/{id}/files/inside")).await.text(), "in\n");
    let stat = served.get(&format!("/jobs/{id}/files/out?stat=1")).await.json();
    assert_eq!((&stat["kind"], &stat["target"]), (&json!("symlink"), &json!("/etc/passwd")));
}

#[tokio::test]
async fn f13_f14_a_file_is_never_a_page() {
    let served = Served::start().await;
    let id = served.session().await;
    for name in ["page.html", "drawing.svg", "a%22b%0d%0aSet-Cookie:%20x=1.html", "%E2%80%AEgpj.exe"] {
        let target = format!("/jobs/{id}/files/{name}");
        let written = served.request("PUT", &target, &[], b"<script>alert(1)</script>").await;
        assert_eq!(written.status, 200, "{name}: {written:?}");
        let reply = served.get(&target).await;
        assert_eq!(reply.header("content-type"), Some("application/octet-stream"), "{name}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{name}");
        assert!(reply.header("content-disposition").unwrap().starts_with("attachment"), "{name}");
        assert!(reply.header("content-security-policy").unwrap().contains("sandbox"), "{name}");
        assert_eq!(reply.header("set-cookie"), None, "{name}");
    }
}
