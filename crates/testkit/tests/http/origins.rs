//! Ports of sandboxes on their own origins and below the API: who gets there, and what gets through.

use std::time::Duration;

use sandyard_server::auth::{AccessRules, KeyStore};
use sandyard_server::http::ServeLimits;
use sandyard_testkit::TestYard;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{PATIENCE, Reply, Served};
use crate::upstream::{Upstream, plain};

const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0");
const PAGE: (&str, &str) = ("Accept", "text/html");

/// The headers of a page that a person opens.
fn visit(site: &'static str) -> [(&'static str, &'static str); 5] {
    [BROWSER, PAGE, ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
}

struct Origin<'a> {
    served: &'a Served,
    host: String,
}

impl Served {
    fn origin(&self, id: &str, port: u16) -> Origin<'_> {
        Origin { served: self, host: format!("{port}-{id}.localhost:{}", self.address.port()) }
    }
}

impl Origin<'_> {
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut all = vec![("Host", self.host.as_str())];
        all.extend_from_slice(headers);
        self.served.request(method, path, &all, body).await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.ask("GET", path, headers, b"").await
    }
}

async fn keyed() -> Served {
    let access = AccessRules::new("127.0.0.1", KeyStore::from_keys(["sy_key".to_owned()]));
    Served::serve(TestYard::new().await.unwrap(), access, ServeLimits::default()).await
}

const BEARER: (&str, &str) = ("Authorization", "Bearer sy_key");

async fn keyed_session(served: &Served) -> String {
    let body = json!({"kind": "session"}).to_string();
    let headers = [BEARER, ("Content-Type", "application/json")];
    let reply = served.request("POST", "/schedule", &headers, body.as_bytes()).await;
    let id = reply.json()["job_id"].as_str().unwrap().to_owned();
    loop {
        let reply = served.request("GET", &format!("/status/{id}?wait=1"), &[BEARER], b"").await;
        if reply.json()["sandbox"] == "live" {
            return id;
        }
    }
}

fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {reply:?}"));
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains("Domain"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_port_is_seen_on_its_origin_and_below_the_api() {
    let served = Served::start().await;
    let id = served.session().await;
    let upstream = Upstream::page().await;
    let origin = served.origin(&id, upstream.port);
    let reply = origin.get("/a/b?c=d", &[]).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
    let path = format!("/jobs/{id}/proxy/{}", upstream.port);
    let reply =
        served.request("POST", &format!("{path}/x?y"), &[("Content-Type", "text/plain")], b"body").await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
    assert_eq!(reply.header("content-security-policy"), Some("sandbox"));
    assert_eq!(served.get(&path).await.header("location"), Some(format!("{path}/").as_str()));
    let seen = upstream.seen();
    assert!(seen[0].starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{seen:?}");
    assert!(seen[1].starts_with("POST /x?y HTTP/1.1\r\n") && seen[1].ends_with("\r\n\r\nbody"), "{seen:?}");
    for text in &seen {
        assert!(
            text.to_ascii_lowercase().contains(&format!("host: localhost:{}\r\n", upstream.port)),
            "{text}"
        );
    }
}

#[tokio::test]
async fn w7_with_a_key_an_origin_opens_by_ticket_and_cookie_alone() {
    let served = keyed().await;
    let id = keyed_session(&served).await;
    let upstream = Upstream::page().await;
    let origin = served.origin(&id, upstream.port);
    for headers in [vec![], vec![BEARER], visit("none").to_vec(), vec![("Cookie", "sandyard-pass=1.2")]] {
        let reply = origin.get("/", &headers).await;
        assert_eq!(reply.status, 401, "{headers:?}");
        let upgrade = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
        let headers: Vec<_> = headers.into_iter().chain(upgrade).collect();
        assert_eq!(origin.get("/", &headers).await.status, 401, "upgrade {headers:?}");
    }
    let path = format!("/jobs/{id}/ports/{}", upstream.port);
    assert_eq!(served.get(&path).await.status, 401);
    let body = json!({"for": format!("port:{}", upstream.port)}).to_string();
    let headers = [BEARER, ("Content-Type", "application/json")];
    let reply = served.request("POST", &format!("/jobs/{id}/tickets"), &headers, body.as_bytes()).await;
    let link = reply.json()["url"].as_str().unwrap().to_owned();
    let reply = served.get(&link).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_eq!(served.get(&link).await.status, 401, "a ticket works once");
    let asked = served.request("POST", &format!("/jobs/{id}/tickets"), &headers, body.as_bytes()).await;
    let followed =
        served.request("GET", asked.json()["url"].as_str().unwrap(), &visit("cross-site"), b"").await;
    let page = followed.text();
    let again = page.split_once("href=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap();
    assert_eq!(
        served.request("GET", again, &visit("same-origin"), b"").await.status,
        303,
        "asked first: {page}"
    );
    let location = reply.header("location").unwrap().to_owned();
    let enter = location.strip_prefix(&format!("http://{}", origin.host)).unwrap().to_owned();
    let elsewhere = served.origin(&id, 1).get(&enter, &[]).await;
    assert_eq!(elsewhere.status, 401, "a ticket of another port, used up by the try");
    assert_eq!(origin.get(&enter, &[]).await.status, 401);
    let reply = served.request("GET", &path, &[BEARER], b"").await;
    let enter = reply.header("location").unwrap().split_once(&origin.host).unwrap().1.to_owned();
    let reply = origin.get(&enter, &visit("cross-site")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.text().contains("http-equiv=\"refresh\" content=\"0;url=/\""), "{}", reply.text());
    let cookie = cookie(&reply);
    let reply = origin.get("/", &[("Cookie", &cookie)]).await;
    assert_eq!(reply.text(), "hello");
    assert_eq!(served.origin(&id, 1).get("/", &[("Cookie", &cookie)]).await.status, 401, "another port");
    let other = keyed_session(&served).await;
    let reply = served.origin(&other, upstream.port).get("/", &[("Cookie", &cookie)]).await;
    assert_eq!(reply.status, 401, "another job");
    assert!(upstream.seen().iter().all(|text| !text.contains("ticket") && !text.contains("sandyard-pass")));
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn w1_w8_what_foreign_pages_cause_reaches_no_sandbox() {
    let served = Served::start().await;
    let id = served.session().await;
    let upstream = Upstream::page().await;
    let origin = served.origin(&id, upstream.port);
    let reply = origin.get("/", &visit("none")).await;
    assert_eq!(reply.text(), "hello");
    let cookie = cookie(&reply);
    let pass = ("Cookie", cookie.as_str());
    for site in ["cross-site", "same-site"] {
        let reply = origin.get("/", &[&visit(site)[..], &[pass]].concat()).await;
        assert!(reply.status == 200 && reply.text().contains("Open this sandbox?"), "{reply:?}");
        for (mode, dest) in
            [("cors", "empty"), ("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe")]
        {
            let headers =
                [BROWSER, pass, ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest)];
            assert_eq!(origin.get("/", &headers).await.status, 403, "{site} {mode} {dest}");
        }
        assert_eq!(origin.ask("POST", "/", &[&visit(site)[..], &[pass]].concat(), b"x").await.status, 403);
    }
    for foreign in
        ["http://evil.example", "null", "http://localhost", "http://1-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost"]
    {
        for headers in [vec![], vec![("Upgrade", "websocket"), ("Connection", "Upgrade")]] {
            let headers = [vec![pass, ("Origin", foreign)], headers].concat();
            assert_eq!(origin.get("/", &headers).await.status, 403, "{headers:?}");
            assert_eq!(origin.ask("OPTIONS", "/", &headers, b"").await.status, 403, "{headers:?}");
        }
    }
    let same = [("Sec-Fetch-Site", "same-origin"), pass, BROWSER];
    assert_eq!(origin.get("/", &same).await.text(), "hello");
    assert_eq!(upstream.seen().len(), 2, "{:?}", upstream.seen());
}

#[tokio::test]
async fn w2_nothing_of_the_api_is_on_a_job_origin_and_browsers_are_kept_off_the_program_route() {
    let served = Served::start().await;
    let id = served.session().await;
    let origin = served.origin(&id, 1);
    for path in
        ["/jobs", "/healthz", "/schedule", "/openapi.json", "/", "/lab", "/.sandyard/x", "/.sandyard/enter"]
    {
        let reply = origin.get(path, &[]).await;
        assert!([401, 404, 502].contains(&reply.status), "{path}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
    }
    let path = format!("/jobs/{id}/proxy/1/");
    for header in [
        ("Origin", "http://127.0.0.1"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-User", "?1"),
    ] {
        let reply = served.request("GET", &path, &[header], b"").await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "foreign_origin"), "{header:?}");
    }
    assert_eq!(served.get(&path).await.code(), "sandbox_failed");
}

#[tokio::test]
async fn w11_w12_a_program_sees_nothing_of_its_visitors() {
    let served = keyed().await;
    let id = keyed_session(&served).await;
    let upstream = Upstream::page().await;
    let origin = served.origin(&id, upstream.port);
    let reply = served.request("GET", &format!("/jobs/{id}/ports/{}", upstream.port), &[BEARER], b"").await;
    let enter = reply.header("location").unwrap().split_once(".localhost").unwrap().1;
    let pass = cookie(&origin.get(&enter[enter.find('/').unwrap()..], &[]).await);
    let hop = [
        ("Connection", "X-Secret, keep-alive"),
        ("X-Secret", "spoofed"),
        ("Keep-Alive", "timeout=spoofed"),
        ("TE", "trailers"),
        ("X-Job-Id", "spoofed"),
        ("Accept", "kept"),
    ];
    let identity = [
        ("X-Forwarded-For", "spoofed"),
        ("X-Forwarded-Host", "spoofed"),
        ("Forwarded", "for=spoofed"),
        ("X-Real-IP", "spoofed"),
    ];
    let below = format!("/jobs/{id}/proxy/{}/", upstream.port);
    for headers in [hop.to_vec(), [&hop[..], &identity].concat()] {
        origin.get("/", &[&headers[..], &[("Cookie", pass.as_str())]].concat()).await;
        served.request("GET", &below, &[&headers[..], &[BEARER]].concat(), b"").await;
    }
    for text in upstream.seen() {
        assert!(!text.contains("spoofed") && !text.to_ascii_lowercase().contains("\r\nte:"), "{text}");
        assert!(text.contains("kept") && !text.contains("sy_key"), "{text}");
    }
    assert_eq!(upstream.seen().len(), 4);
}

#[tokio::test]
async fn w3_w4_answers_keep_to_their_origin() {
    let served = Served::start().await;
    let id = served.session().await;
    let evil = "Set-Cookie: a=1; Domain=localhost\r\nSet-Cookie: sandyard-pass=x\r\nSet-Cookie: good=1; Path=/\r\n\
                Service-Worker-Allowed: /\r\nAccess-Control-Allow-Origin: *\r\nClear-Site-Data: \"*\"\r\n\
                Connection: close, X-Hop\r\nX-Hop: 1\r\n";
    let upstream = Upstream::answering(plain("x", evil)).await;
    let reply = served.origin(&id, upstream.port).get("/", &[]).await;
    assert_eq!(reply.header("set-cookie"), Some("good=1; Path=/"));
    for name in ["service-worker-allowed", "access-control-allow-origin", "clear-site-data", "x-hop"] {
        assert_eq!(reply.header(name), None, "{name}");
    }
    assert_eq!(reply.header("cross-origin-opener-policy"), Some("same-origin-allow-popups"));
    let reply = served.get(&format!("/jobs/{id}/proxy/{}/", upstream.port)).await;
    assert_eq!(reply.header("set-cookie"), None);
    assert_eq!(reply.header("content-security-policy"), Some("sandbox"));
}

#[tokio::test]
async fn w13_w14_only_plain_paths_and_ports_are_passed_on() {
    let served = Served::start().await;
    let id = served.session().await;
    let upstream = Upstream::page().await;
    let origin = served.origin(&id, upstream.port);
    for path in ["/../x", "/a/%2e%2e/x", "/..%2fx", "//evil.example/", "/a%00", "/a%0d%0aX: y", "/a\\..\\b"] {
        let path = path.replace(' ', "%20");
        assert_eq!(origin.get(&path, &[]).await.status, 400, "{path}");
        let below = format!("/jobs/{id}/proxy/{}{path}", upstream.port);
        assert!([400, 404].contains(&served.get(&below).await.status), "{below}");
    }
    for port in ["0", "65536", "+80", "080", "22@127.0.0.1", "unix", "%38%30", "-1"] {
        let reply = served.get(&format!("/jobs/{id}/proxy/{port}/")).await;
        assert_eq!(reply.status, 400, "{port}");
        assert_eq!(served.get(&format!("/jobs/{id}/ports/{port}")).await.status, 400, "{port}");
    }
    let absolute =
        format!("GET http://evil.example/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", origin.host);
    assert_eq!(served.send(absolute.as_bytes()).await.status, 400);
    let connect =
        format!("CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", origin.host);
    assert!([400, 405].contains(&served.send(connect.as_bytes()).await.status));
    assert!(upstream.seen().is_empty(), "{:?}", upstream.seen());
}

#[tokio::test]
async fn w10_no_request_hides_in_another() {
    let served = Served::start().await;
    let id = served.session().await;
    let host = |port: u16| format!("{port}-{id}.localhost");
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    let length = smuggled.len();
    for head in [
        format!("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: xchunked\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
        format!("Content-Length: 0, {length}\r\n\r\n{smuggled}"),
        format!("Content-Length: +{length}\r\n\r\n{smuggled}"),
        format!("Content-Length: -1\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\n0;ext=\"\n\"\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n{smuggled}"),
        format!("X: y\n{smuggled}"),
    ] {
        let upstream = Upstream::page().await;
        let request = format!("POST /first HTTP/1.1\r\nHost: {}\r\n{head}", host(upstream.port));
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("no end");
        let seen = upstream.seen();
        // Bytes after a whole request may form another request, to a host that is not ours. The upstream must
        // never see a second one.
        assert!(seen.len() <= 1, "{head:?}: {seen:?}");
        assert!(seen.iter().all(|text| text.starts_with("POST /first ")), "{head:?}: {seen:?}");
        let answers = String::from_utf8_lossy(&answer).matches("HTTP/1.1 200").count();
        assert!(answers <= 1, "{head:?}: {}", String::from_utf8_lossy(&answer));
    }
    let upstream = Upstream::page().await;
    let old = format!(
        "POST / HTTP/1.0\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        host(upstream.port)
    );
    assert_eq!(served.send(old.as_bytes()).await.status, 400);
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn w9_no_byte_passes_before_the_101_and_any_other_answer_closes() {
    let served = Served::start().await;
    let id = served.session().await;
    let upgrade = |host: &str| {
        format!(
            "GET /socket HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\
             GET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"
        )
    };
    for answer in [plain("no", ""), "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned()] {
        let upstream = Upstream::answering(answer).await;
        let host = format!("{}-{id}.localhost", upstream.port);
        let reply = served.send(upgrade(&host).as_bytes()).await;
        assert_eq!(reply.header("connection"), Some("close"));
        assert_eq!(upstream.seen().len(), 1, "{:?}", upstream.seen());
        assert!(!upstream.seen()[0].contains("smuggled"));
    }
    // Early bytes wait for the 101 and then arrive as bytes of the socket.
    let upstream = Upstream::with(|mut stream, seen| async move {
        let mut buffer = vec![0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        seen.lock().unwrap().push(String::from_utf8_lossy(&buffer[..count]).into_owned());
        let nothing = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut buffer)).await;
        seen.lock().unwrap().push(format!("{}", nothing.is_err()));
        let head =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst";
        stream.write_all(head).await.unwrap();
        let count = stream.read(&mut buffer).await.unwrap();
        seen.lock().unwrap().push(String::from_utf8_lossy(&buffer[..count]).into_owned());
    })
    .await;
    let host = format!("{}-{id}.localhost", upstream.port);
    let reply = served.send(upgrade(&host).as_bytes()).await;
    assert_eq!(reply.status, 101, "{reply:?}");
    assert_eq!(reply.text(), "first");
    let seen = upstream.seen();
    assert!(seen[0].contains("upgrade: websocket") && !seen[0].contains("smuggled"), "{seen:?}");
    assert_eq!((seen[1].as_str(), seen[2].starts_with("GET /smuggled")), ("true", true), "{seen:?}");
}

#[tokio::test]
async fn a_hostile_program_costs_its_own_answer_only() {
    let served = Served::start().await;
    let id = served.session().await;
    for (answer, status) in [
        ("garbage\r\n\r\n".to_owned(), 502),
        (String::new(), 502),
        (format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(200_000)), 502),
        (format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(5000)), 502),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_owned(), 502),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx".to_owned(), 502),
    ] {
        let upstream = Upstream::answering(answer.clone()).await;
        let origin = served.origin(&id, upstream.port);
        let short: String = answer.chars().take(60).collect();
        let reply = origin.get("/", &[]).await;
        assert_eq!(reply.status, status, "{short}");
        // W18: nothing of the request is echoed.
        let reply = origin.get("/canary-src=x", &[PAGE]).await;
        assert!(!reply.text().contains("src=x"), "{}", reply.text());
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{short}: {reply:?}");
    }
    assert_eq!(served.shell(&id, "echo alive").await["stdout"], "alive\n");
}

#[tokio::test]
async fn w15_an_origin_ends_with_its_job() {
    let served = Served::start().await;
    let id = served.session().await;
    let upstream = Upstream::page().await;
    let origin = served.origin(&id, upstream.port);
    assert_eq!(origin.get("/", &[]).await.status, 200);
    let nothing = origin.served.origin(&id, 1).get("/", &[PAGE]).await;
    assert!(nothing.status == 502 && nothing.text().contains("http-equiv=\"refresh\""), "{nothing:?}");
    served.post(&format!("/jobs/{id}/cancel"), &json!({})).await;
    served.wait(&id, |status| status["sandbox"] == "gone").await;
    // The row says so a moment before the last link to the machine is let go.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let ended = loop {
        let reply = origin.get("/", &[PAGE]).await;
        if reply.status == 410 {
            break reply;
        }
        assert!(tokio::time::Instant::now() < deadline, "{reply:?}");
    };
    assert!(ended.text().contains("has ended"), "{ended:?}");
    let reached = upstream.seen().len();
    for way in ["lab".to_owned(), format!("ports/{}", upstream.port)] {
        let page = served.get(&format!("/jobs/{id}/{way}")).await;
        assert_eq!(page.status, 200);
        assert!(page.text().contains(&format!("href=\"/jobs/{id}/download\"")), "{}", page.text());
    }
    served.request("DELETE", &format!("/jobs/{id}"), &[], b"").await;
    assert_eq!(origin.get("/", &[]).await.status, 404);
    assert_eq!(upstream.seen().len(), reached);
}

#[tokio::test]
async fn lab_makes_a_session_once_and_never_for_a_foreign_page() {
    let served = Served::start().await;
    let foreign = served.request("GET", "/lab", &visit("cross-site"), b"").await;
    assert!(foreign.status == 200 && foreign.text().contains("Open this sandbox?"), "{foreign:?}");
    served.expect_nothing().await;
    let first = served.get("/lab").await;
    assert_eq!(first.status, 303);
    let second = served.get("/lab").await;
    assert_eq!(first.header("location"), second.header("location"));
    assert_eq!(served.get("/jobs").await.json()["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn plain_bytes_go_both_ways_after_the_tcp_upgrade() {
    let served = Served::start().await;
    let id = served.session().await;
    let echo = Upstream::with(|mut stream, _| async move {
        let (mut reader, mut writer) = stream.split();
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
    })
    .await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "GET /jobs/{id}/proxy/{} HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: tcp\r\n\r\n",
        echo.port
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).await.unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer[..count]));
    let sent: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let (mut reader, mut writer) = stream.split();
    let writing = async {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let both = async { tokio::join!(writing, reader.read_to_end(&mut received)) };
    tokio::time::timeout(PATIENCE, both).await.expect("no end").1.unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn w20_a_program_is_read_no_faster_than_its_client_takes_it() {
    let served = Served::start().await;
    let id = served.session().await;
    let upstream = Upstream::with(|mut stream, seen| async move {
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut written = 0_usize;
        let block = [b'x'; 64 * 1024];
        while let Ok(Ok(())) = tokio::time::timeout(Duration::from_secs(1), stream.write_all(&block)).await {
            written += block.len();
            assert!(written < 64 * 1024 * 1024, "nobody holds it back");
        }
        seen.lock().unwrap().push(written.to_string());
    })
    .await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: {}-{id}.localhost\r\n\r\n", upstream.port);
    stream.write_all(head.as_bytes()).await.unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while upstream.seen().is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "it was never held back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
