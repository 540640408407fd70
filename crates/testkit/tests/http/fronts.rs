//! A proxy in front of the server: it ends keyless mode, and neither side's headers reach further than they should.

use sandyard_server::auth::origins::Domain;
use sandyard_server::auth::{AccessRules, KeyStore};
use sandyard_server::http::ServeLimits;
use sandyard_testkit::TestYard;
use serde_json::json;

use crate::client::{Reply, Served};
use crate::upstream::{Upstream, plain};

const BEARER: (&str, &str) = ("Authorization", "Bearer sy_key");
const DOMAIN: &str = "https://yard.example";

const UPGRADE: [(&str, &str); 4] = [
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Headers by which proxies, content networks and sign-on services tell of themselves or of the visitor.
const SIGNS: [(&str, &str); 16] = [
    ("Forwarded", "for=203.0.113.9;proto=https"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-User", "ann"),
    ("Via", "1.1 front"),
    ("X-Real-IP", "203.0.113.9"),
    ("True-Client-IP", "203.0.113.9"),
    ("CF-Connecting-IP", "203.0.113.9"),
    ("Cf-Access-Jwt-Assertion", "secret"),
    ("Fly-Client-IP", "203.0.113.9"),
    ("X-Amzn-Trace-Id", "Root=1"),
    ("X-Goog-Iap-Jwt-Assertion", "secret"),
    ("Tailscale-User-Login", "ann"),
    ("Remote-User", "ann"),
    ("X-Auth-Request-Email", "ann@yard.example"),
    ("X-Envoy-External-Address", "203.0.113.9"),
];

async fn behind_a_front(keys: KeyStore) -> Served {
    let access = AccessRules::new("127.0.0.1", keys).with_domain(Domain::parse(DOMAIN).unwrap());
    Served::serve(TestYard::new().await.unwrap(), access, ServeLimits::default()).await
}

/// A session of a server with the key, whose sandbox is live.
async fn session(served: &Served) -> String {
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

/// Requests as a TLS front passes them on: `Host` as the browser sent it, and who asked.
struct Front<'a> {
    served: &'a Served,
    host: String,
}

impl Front<'_> {
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut all = vec![
            ("Host", self.host.as_str()),
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-Proto", "https"),
            ("Via", "1.1 front"),
        ];
        all.extend_from_slice(headers);
        self.served.request("GET", path, &all, b"").await
    }
}

/// Takes a ticket for a port through the front, and returns the port's origin and the cookie for it.
async fn enter<'a>(served: &'a Served, id: &str, port: u16) -> (Front<'a>, String) {
    let api = Front { served, host: "yard.example".to_owned() };
    let reply = api.get(&format!("/jobs/{id}/ports/{port}"), &[BEARER]).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    let host = format!("{port}-{id}.yard.example");
    let location = reply.header("location").unwrap();
    let path = location.strip_prefix(&format!("https://{host}")).unwrap_or_else(|| panic!("{location}"));
    let origin = Front { served, host };
    let reply = origin.get(path, &[]).await;
    let cookie = reply.header("set-cookie").unwrap_or_else(|| panic!("{reply:?}"));
    assert!(cookie.starts_with("__Host-sandyard-pass=") && cookie.contains("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (origin, cookie)
}

#[tokio::test]
async fn w26_a_request_that_a_proxy_passed_on_needs_a_key() {
    let served = Served::start().await;
    let id = served.session().await;
    let upstream = Upstream::page().await;
    let host = format!("{}-{id}.localhost:{}", upstream.port, served.address.port());
    let visit = [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")];
    for sign in SIGNS {
        for path in
            ["/jobs".to_owned(), format!("/status/{id}"), format!("/jobs/{id}/proxy/{}/", upstream.port)]
        {
            let reply = served.request("GET", &path, &[sign], b"").await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "needs_key"), "{sign:?} {path}");
            let hint = reply.json()["error"]["hint"].as_str().unwrap().to_owned();
            assert!(hint.contains("--domain") && hint.contains("api.key"), "{hint}");
        }
        let headers: Vec<_> = UPGRADE.into_iter().chain([sign]).collect();
        let reply = served.request("GET", &format!("/jobs/{id}/shell"), &headers, b"").await;
        assert_eq!(reply.status, 403, "a terminal, {sign:?}");
        for more in [&[][..], &visit[..], &UPGRADE[..]] {
            let headers: Vec<_> = [("Host", host.as_str()), sign].iter().chain(more).copied().collect();
            let reply = served.request("GET", "/", &headers, b"").await;
            assert_eq!((reply.status, reply.header("set-cookie")), (401, None), "{headers:?}");
        }
        assert_eq!(served.request("GET", "/healthz", &[sign], b"").await.status, 200, "{sign:?}");
    }
    // Proxies speak HTTP/1.0 unless they are told otherwise; programs of today do not.
    let old = format!("GET /jobs HTTP/1.0\r\nHost: {}\r\n\r\n", served.address);
    assert_eq!(served.send(old.as_bytes()).await.code(), "needs_key");
    let old = format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n");
    assert_eq!(served.send(old.as_bytes()).await.status, 401);
    assert_eq!(served.get("/jobs").await.status, 200);
    assert!(upstream.seen().is_empty(), "{:?}", upstream.seen());
}

#[tokio::test]
async fn w26_a_domain_ends_keyless_mode() {
    let served = behind_a_front(KeyStore::default()).await;
    for path in ["/jobs", "/version", "/mcp", "/lab"] {
        for host in ["yard.example", "localhost", "127.0.0.1:8000"] {
            let reply = served.request("GET", path, &[("Host", host)], b"").await;
            assert_eq!((reply.status, reply.code().as_str()), (401, "unauthorized"), "{host}{path}");
        }
    }
    let id = "a".repeat(26);
    for host in [format!("8888-{id}.yard.example"), format!("8888-{id}.localhost")] {
        let reply = served.request("GET", "/lab", &[("Host", &host)], b"").await;
        assert_eq!(reply.status, 401, "{host}: {reply:?}");
    }
}

#[tokio::test]
async fn w26_behind_a_front_a_key_and_tickets_open_what_they_should() {
    let served = behind_a_front(KeyStore::from_keys(["sy_key".to_owned()])).await;
    let id = session(&served).await;
    let upstream = Upstream::page().await;
    let api = Front { served: &served, host: "yard.example".to_owned() };
    assert_eq!(api.get("/jobs", &[]).await.status, 401);
    assert_eq!(api.get("/jobs", &[BEARER, ("Origin", DOMAIN)]).await.status, 200);
    // A front that replaces `Host` by the address of this server.
    let rewritten = Front { served: &served, host: served.address.to_string() };
    assert_eq!(rewritten.get("/jobs", &[]).await.status, 401);
    assert_eq!(rewritten.get("/jobs", &[BEARER, ("Origin", DOMAIN)]).await.status, 200);
    let (origin, cookie) = enter(&served, &id, upstream.port).await;
    assert_eq!(origin.get("/", &[]).await.status, 401);
    let reply =
        origin.get("/", &[("Cookie", &cookie), ("Origin", &format!("https://{}", origin.host))]).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
}

#[tokio::test]
async fn w8_a_page_on_another_port_of_this_machine_is_foreign() {
    let served = Served::start().await;
    let id = served.session().await;
    let own = format!("http://{}", served.address);
    for origin in [
        "http://127.0.0.1",
        "http://127.0.0.1:3000",
        "http://localhost:3000",
        "https://127.0.0.1",
        &format!("http://localhost:{}", served.address.port()),
    ] {
        let headers: Vec<_> = UPGRADE.into_iter().chain([("Origin", origin)]).collect();
        for path in [format!("/jobs/{id}/shell"), format!("/jobs/{id}/desktop/socket")] {
            let reply = served.request("GET", &path, &headers, b"").await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "foreign_origin"), "{origin} {path}");
        }
        let headers = [("Origin", origin), ("Content-Type", "application/json")];
        let reply = served.request("POST", "/schedule", &headers, br#"{"kind": "session"}"#).await;
        assert_eq!(reply.status, 403, "{origin}");
    }
    assert_eq!(served.request("GET", "/jobs", &[("Origin", &own)], b"").await.status, 200);
    let tunnel = [("Host", "localhost:9000"), ("Origin", "http://localhost:9000")];
    assert_eq!(served.request("GET", "/jobs", &tunnel, b"").await.status, 200);
}

#[tokio::test]
async fn w27_nothing_of_a_sign_on_front_reaches_a_program() {
    let served = behind_a_front(KeyStore::from_keys(["sy_key".to_owned()])).await;
    let id = session(&served).await;
    let login = "Set-Cookie: session=mine; Path=/\r\nSet-Cookie: _oauth2_proxy=guess; Path=/\r\n";
    let upstream = Upstream::answering(plain("hello", login)).await;
    let (origin, pass) = enter(&served, &id, upstream.port).await;
    let first = origin.get("/", &[("Cookie", &pass)]).await;
    let set: Vec<String> =
        first.all("set-cookie").map(|set| set.split(';').next().unwrap().to_owned()).collect();
    let cookies =
        format!("{pass}; {}; _oauth2_proxy=secret; CF_Authorization=secret; theme=secret", set.join("; "));
    let mut headers = SIGNS.map(|(name, _)| (name, "secret")).to_vec();
    headers.extend([
        ("Cookie", cookies.as_str()),
        ("Authorization", "Basic c2VjcmV0"),
        ("X-WEBAUTH-USER", "secret"),
        ("X-Whatever-The-Front-Says", "secret"),
        ("Accept", "text/html"),
        ("X-XSRFToken", "token"),
        ("Next-Action", "act"),
        ("Sec-WebSocket-Protocol", "vite-hmr"),
    ]);
    assert_eq!(origin.get("/", &headers).await.text(), "hello");
    let seen = upstream.seen().pop().unwrap().to_ascii_lowercase();
    assert!(!seen.contains("secret") && !seen.contains("c2vjcmv0") && !seen.contains("sandyard-"), "{seen}");
    for kept in [
        "session=mine",
        "_oauth2_proxy=guess",
        "x-xsrftoken: token",
        "next-action: act",
        "accept: text/html",
        "sec-websocket-protocol: vite-hmr",
    ] {
        assert!(seen.contains(kept), "{kept} in {seen}");
    }
    // A seal is good for its own origin alone.
    let other = Upstream::page().await;
    let (elsewhere, pass) = enter(&served, &id, other.port).await;
    let cookies = format!("{pass}; {}", set.join("; "));
    elsewhere.get("/", &[("Cookie", &cookies)]).await;
    assert!(!other.seen().pop().unwrap().contains("mine"), "{:?}", other.seen());
}

#[tokio::test]
async fn w28_a_program_steers_neither_the_front_nor_the_browser() {
    let evil = "X-Accel-Redirect: /etc/passwd\r\nX-Accel-Buffering: no\r\nX-Sendfile: /etc/passwd\r\n\
                X-LIGHTTPD-send-file: /etc/passwd\r\nX-Reproxy-URL: http://169.254.169.254/\r\n\
                Refresh: 0;url=https://evil.example\r\nNEL: {}\r\nReport-To: {}\r\nReporting-Endpoints: a=\"https://e\"\r\n\
                Timing-Allow-Origin: *\r\nX-Forwarded-Host: evil.example\r\nAlt-Svc: h3\r\nAccept-CH: UA\r\n\
                Origin-Agent-Cluster: ?0\r\nCross-Origin-Opener-Policy: unsafe-none\r\n\
                Cross-Origin-Resource-Policy: cross-origin\r\nReferrer-Policy: unsafe-url\r\n";
    let good = "ETag: \"1\"\r\nCross-Origin-Embedder-Policy: require-corp\r\nX-Nextjs-Cache: HIT\r\nContent-Language: en\r\n";
    let upstream = Upstream::answering(plain("hello", &format!("{evil}{good}X-Own: custom\r\n"))).await;
    let direct = Served::start().await;
    let id = direct.session().await;
    let host = format!("{}-{id}.localhost", upstream.port);
    let local = direct.request("GET", "/", &[("Host", &host)], b"").await;
    let program = direct.get(&format!("/jobs/{id}/proxy/{}/", upstream.port)).await;
    let served = behind_a_front(KeyStore::from_keys(["sy_key".to_owned()])).await;
    let id = session(&served).await;
    let (origin, pass) = enter(&served, &id, upstream.port).await;
    let fronted = origin.get("/", &[("Cookie", &pass)]).await;
    for (place, reply) in [("local", &local), ("program", &program), ("front", &fronted)] {
        assert_eq!(reply.status, 200, "{place}");
        for line in evil.lines().take(13) {
            let name = line.split(':').next().unwrap().to_ascii_lowercase();
            assert_eq!(reply.header(&name), None, "{place}: {name}");
        }
        for (name, value) in [("etag", "\"1\""), ("x-nextjs-cache", "HIT"), ("content-language", "en")] {
            assert_eq!(reply.header(name), Some(value), "{place}");
        }
    }
    for reply in [&local, &fronted] {
        for (name, value) in [
            ("cross-origin-opener-policy", "same-origin-allow-popups"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-embedder-policy", "require-corp"),
            ("origin-agent-cluster", "?1"),
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(reply.all(name).collect::<Vec<_>>(), [value], "{name}");
        }
    }
    assert_eq!((local.header("x-own"), fronted.header("x-own")), (Some("custom"), None));
}
