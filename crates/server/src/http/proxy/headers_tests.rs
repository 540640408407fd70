//! Headers both ways, as tables.

use axum::http::header::SET_COOKIE;

use super::*;
use crate::auth::KeyStore;
use crate::auth::origins::Domain;
use crate::job::JobId;

const PUBLIC: &str = "5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:8000";

fn map(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    map
}

fn inside(fields: &[(&str, &str)]) -> HeaderMap {
    let mut all = vec![("host", PUBLIC)];
    all.extend_from_slice(fields);
    inside_with(&all, 5173, None)
}

fn rules() -> AccessRules {
    AccessRules::new("0.0.0.0", KeyStore::from_keys(["sy_key".to_owned()]))
        .with_domain(Domain::parse("https://yard.example").unwrap())
}

fn origin(port: u16) -> JobOrigin {
    JobOrigin { job: JobId::parse(&"a".repeat(26)).unwrap(), port }
}

fn inside_with(fields: &[(&str, &str)], port: u16, authorization: Option<&str>) -> HeaderMap {
    let (access, headers) = (rules(), map(fields));
    HeaderFilter::new(&access, origin(port), PortAddress::Origin, &headers)
        .to_sandbox(&headers, authorization)
}

/// The headers of an answer for a client that reached the server directly.
fn outward(headers: &HeaderMap, shown: &PortAddress) -> HeaderMap {
    outward_to(PUBLIC, headers, shown)
}

fn outward_to(host: &str, headers: &HeaderMap, shown: &PortAddress) -> HeaderMap {
    let access = rules();
    HeaderFilter::new(&access, origin(80), shown.clone(), &map(&[("host", host)])).to_client(headers)
}

fn plain(headers: &HeaderMap) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

fn only_host() -> Vec<(String, String)> {
    vec![("host".to_owned(), "localhost:5173".to_owned())]
}

#[test]
fn w11_what_is_meant_for_one_hop_ends_here() {
    for fields in [
        [("connection", "x-a, Authorization"), ("x-a", "1"), ("authorization", "Basic x")].as_slice(),
        &[("connection", "close"), ("connection", "X-A"), ("x-a", "1"), ("keep-alive", "timeout=5")],
        &[("te", "trailers"), ("trailer", "x"), ("transfer-encoding", "chunked"), ("upgrade", "h2c")],
        &[("proxy-authorization", "Basic x"), ("proxy-connection", "keep-alive"), ("expect", "100-continue")],
        &[("connection", "host, cookie")],
    ] {
        assert_eq!(plain(&inside(fields)), only_host(), "{fields:?}");
    }
}

#[test]
fn w12_nobody_says_who_a_client_is() {
    for name in [
        "x-forwarded-for",
        "X-Forwarded-Host",
        "x-forwarded-anything",
        "Forwarded",
        "x-job-id",
        "x-real-ip",
        "via",
        "x-original-url",
        "x-sandyard-job",
        "remote-user",
    ] {
        assert_eq!(plain(&inside(&[(name, "spoofed")])), only_host(), "{name}");
    }
}

#[test]
fn our_cookie_and_our_key_stay_here_and_the_rest_goes_on() {
    let sent = inside(&[
        ("cookie", "a=1; sandyard-pass=secret; b=2"),
        ("cookie", "__Host-sandyard-pass=secret"),
        ("authorization", "Bearer sy_key"),
        ("accept", "text/html"),
    ]);
    assert_eq!(sent[COOKIE], "a=1; b=2");
    assert_eq!(sent["accept"], "text/html");
    assert!(!sent.contains_key(AUTHORIZATION) && !format!("{sent:?}").contains("secret"));
    assert_eq!(inside(&[("authorization", "Bearer other")])[AUTHORIZATION], "Bearer other");
    assert!(!inside(&[("cookie", "sandyard-pass=secret")]).contains_key(COOKIE));
}

#[test]
fn w17_the_service_gets_its_own_token_whatever_the_client_says() {
    let fields = [("host", PUBLIC), ("authorization", "token wrong")];
    let sent = inside_with(&fields, 8888, Some("token right"));
    assert_eq!(sent.get_all(AUTHORIZATION).iter().collect::<Vec<_>>(), ["token right"]);
}

#[test]
fn a_request_looks_as_if_it_came_from_inside() {
    let own = format!("http://{PUBLIC}");
    let sent = inside(&[("origin", &own), ("referer", &format!("{own}/page?x=1"))]);
    assert_eq!(sent[HOST], "localhost:5173");
    assert_eq!(sent[ORIGIN], "http://localhost:5173");
    assert_eq!(sent[REFERER], "http://localhost:5173/page?x=1");
    for foreign in
        ["http://elsewhere.example/secret", "http://5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:80001/"]
    {
        assert!(!inside(&[("referer", foreign)]).contains_key(REFERER), "{foreign}");
    }
}

#[test]
fn w3_cookies_stay_with_their_host_and_path() {
    let below = PortAddress::Below("/jobs/x/proxy/80".to_owned());
    let set = |cookie: &str, shown: &PortAddress| {
        outward(&map(&[("set-cookie", cookie)]), shown).contains_key(SET_COOKIE)
    };
    for cookie in ["a=b", "a=b; Path=/", "a=b; Path=/x; HttpOnly", "__Host-a=b; Secure; Path=/", "a=domain"] {
        assert!(set(cookie, &PortAddress::Origin), "{cookie}");
        assert!(!set(cookie, &below), "{cookie}");
    }
    for cookie in [
        "a=b; Domain=localhost",
        "a=b; domain=.localhost; Path=/",
        "a=b;DOMAIN=x",
        "a=b; Domain",
        "a=b ; Path=/ ; domain = yard.example",
        "sandyard-pass=x",
        "__Host-sandyard-pass=x; Secure; Path=/",
        " sandyard-pass =x",
        "a=b; Path=/jobs/x/proxy/80; Domain=localhost",
    ] {
        assert!(!set(cookie, &PortAddress::Origin), "{cookie}");
        assert!(!set(cookie, &below), "{cookie}");
    }
    assert!(set("a=b; Path=/jobs/x/proxy/80/y", &below));
    for path in ["/", "/jobs/x/proxy/8", "/jobs/x/proxy/801", "/jobs", ""] {
        assert!(!set(&format!("a=b; Path=/jobs/x/proxy/80; Path={path}"), &below), "{path}");
    }
}

#[test]
fn w4_nothing_reaches_beyond_the_origin() {
    let fields = [
        ("service-worker-allowed", "/"),
        ("clear-site-data", "\"*\""),
        ("access-control-allow-origin", "*"),
        ("alt-svc", "h3=\":443\""),
        ("strict-transport-security", "max-age=1; includeSubDomains"),
        ("connection", "close"),
        ("x-own", "kept"),
    ];
    let sent = outward(&map(&fields), &PortAddress::Origin);
    assert_eq!(sent["x-own"], "kept");
    for (name, _) in &fields[..6] {
        assert!(!sent.contains_key(*name), "{name}");
    }
}

#[test]
fn w6_a_page_is_framed_and_opened_by_its_own_origin_alone() {
    let sent = outward(&map(&[("content-security-policy", "frame-ancestors *")]), &PortAddress::Origin);
    let policies: Vec<_> = sent.get_all(CONTENT_SECURITY_POLICY).iter().collect();
    assert_eq!(policies, ["frame-ancestors *", "frame-ancestors 'self'"]);
    assert_eq!(sent["cross-origin-opener-policy"], "same-origin-allow-popups");
    assert_eq!(sent["cross-origin-resource-policy"], "same-origin");
    let below = outward(&map(&[("content-security-policy", "x")]), &PortAddress::Below("/p".to_owned()));
    assert_eq!(below.get_all(CONTENT_SECURITY_POLICY).iter().collect::<Vec<_>>(), ["sandbox"]);
}

#[test]
fn redirects_lead_outside() {
    let below = PortAddress::Below("/jobs/x/proxy/80".to_owned());
    for (location, origin, program) in [
        ("/lab?a", "/lab?a", "/jobs/x/proxy/80/lab?a"),
        ("http://localhost:80/a", "/a", "/jobs/x/proxy/80/a"),
        ("http://127.0.0.1:80", "/", "/jobs/x/proxy/80/"),
        ("http://[::1]:80?q", "/?q", "/jobs/x/proxy/80/?q"),
        ("http://localhost:800/a", "http://localhost:800/a", "http://localhost:800/a"),
        (
            "http://localhost:80.evil.example/",
            "http://localhost:80.evil.example/",
            "http://localhost:80.evil.example/",
        ),
        ("//elsewhere.example/", "//elsewhere.example/", "//elsewhere.example/"),
        ("next", "next", "next"),
    ] {
        assert_eq!(outside(location, 80, &PortAddress::Origin), origin);
        assert_eq!(outside(location, 80, &below), program);
    }
}

#[test]
fn w27_behind_a_front_only_known_headers_and_sealed_cookies_enter() {
    let fronted = "5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.yard.example";
    for (name, enters) in [
        ("accept", true),
        ("x-csrftoken", true),
        ("x-xsrf-token", true),
        ("next-router-state-tree", true),
        ("sec-websocket-key", true),
        ("hx-request", true),
        ("last-event-id", true),
        ("mcp-session-id", true),
        ("authorization", false),
        ("x-api-key", false),
        ("x-webauth-user", false),
        ("x-anything", false),
        ("cookie", false),
    ] {
        let sent = inside_with(&[("host", fronted), (name, "a=b")], 5173, None);
        assert_eq!(sent.contains_key(name), enters, "{name}");
        let sent = inside_with(&[("host", PUBLIC), (name, "a=b")], 5173, None);
        let direct = name != "x-webauth-user";
        assert_eq!(sent.contains_key(name), direct, "{name} without a front");
    }
    let access = rules().with_passed_headers(vec![AUTHORIZATION]);
    let headers = map(&[("host", fronted), ("authorization", "Bearer own"), ("x-other", "x")]);
    let filter = HeaderFilter::new(&access, origin(5173), PortAddress::Origin, &headers);
    let sent = filter.to_sandbox(&headers, None);
    assert!(sent.contains_key(AUTHORIZATION) && !sent.contains_key("x-other"), "the operator's choice");
}

#[test]
fn w27_below_the_api_a_seal_keeps_to_the_programs_path() {
    let below = PortAddress::Below("/jobs/x/proxy/80".to_owned());
    let answer = map(&[("set-cookie", "a=b; Path=/jobs/x/proxy/80/y")]);
    let sent = outward_to("yard.example", &answer, &below);
    let set: Vec<_> = sent.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(set.len(), 2);
    assert!(set[1].starts_with("sandyard-seal-a=") && set[1].contains("; Path=/jobs/x/proxy/80;"), "{set:?}");
    assert_eq!(outward(&answer, &below).get_all(SET_COOKIE).iter().count(), 1, "no front, no seal");
}

#[test]
fn w28_a_stricter_policy_of_a_page_stays() {
    for (name, theirs, sent) in [
        ("cross-origin-opener-policy", "same-origin", "same-origin"),
        ("cross-origin-opener-policy", "unsafe-none", "same-origin-allow-popups"),
        ("cross-origin-opener-policy", "same-origin; report-to=\"x\"", "same-origin-allow-popups"),
        ("cross-origin-resource-policy", "same-site", "same-origin"),
        ("referrer-policy", "no-referrer", "no-referrer"),
        ("referrer-policy", "unsafe-url", "same-origin"),
    ] {
        let answer = outward(&map(&[(name, theirs)]), &PortAddress::Origin);
        assert_eq!(answer.get_all(name).iter().collect::<Vec<_>>(), [sent], "{theirs}");
    }
    let twice = map(&[("referrer-policy", "no-referrer"), ("referrer-policy", "unsafe-url")]);
    assert_eq!(outward(&twice, &PortAddress::Origin).get_all("referrer-policy").iter().count(), 1);
}

/// The lines of a head as headers; lines that no header can be are left out, as the parser of HTTP refuses them.
fn read_lines(bytes: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in bytes.split(|&byte| byte == b'\n').take(100) {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

/// No head, of a client, a front or a program, brings the yard's key in, a header of one hop through, or our own policies down.
#[test]
fn fuzz_heads() {
    let access = rules();
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "heads").run(|bytes| {
        let headers = read_lines(bytes);
        for address in [PortAddress::Origin, PortAddress::Below("/jobs/x/proxy/80".to_owned())] {
            let below = address != PortAddress::Origin;
            let filter = HeaderFilter::new(&access, origin(5173), address, &headers);
            let (sent, answer) = (filter.to_sandbox(&headers, None), filter.to_client(&headers));
            assert_eq!(sent.get_all(HOST).iter().collect::<Vec<_>>(), ["localhost:5173"]);
            assert!(!sent.values().any(|value| value.to_str().is_ok_and(|text| access.is_own_key(text))));
            for name in &HOP_BY_HOP {
                assert!(!sent.contains_key(name) && !answer.contains_key(name), "{name}");
            }
            for name in ["cross-origin-opener-policy", "cross-origin-resource-policy", "referrer-policy"] {
                assert!(below || answer.get_all(name).iter().count() == 1, "{name}");
            }
            assert!(
                !below || answer.get_all(CONTENT_SECURITY_POLICY).iter().collect::<Vec<_>>() == ["sandbox"]
            );
        }
        if let Some(name) = std::str::from_utf8(bytes).ok().and_then(crate::auth::origins::name_of_authority)
        {
            assert!(name.bytes().all(|byte| !byte.is_ascii_uppercase() && !byte.is_ascii_whitespace()));
            if let Some(origin) = JobOrigin::read(&name, &["localhost"]) {
                assert_eq!(origin.name("localhost"), name);
            }
        }
    });
}
