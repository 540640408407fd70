//! Headers both ways, as tables.

use super::*;
use crate::auth::KeyStore;

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
    let access = AccessRules::new("0.0.0.0", KeyStore::from_keys(["sy_key".to_owned()]));
    to_sandbox(&map(&all), 5173, &access, None)
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
    let access = AccessRules::new("127.0.0.1", KeyStore::default());
    let sent = to_sandbox(&map(&[("authorization", "token wrong")]), 8888, &access, Some("token right"));
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
        to_client(&map(&[("set-cookie", cookie)]), 80, shown).contains_key(SET_COOKIE)
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
    let sent = to_client(&map(&fields), 80, &PortAddress::Origin);
    assert_eq!(sent["x-own"], "kept");
    for (name, _) in &fields[..6] {
        assert!(!sent.contains_key(*name), "{name}");
    }
}

#[test]
fn w6_a_page_is_framed_and_opened_by_its_own_origin_alone() {
    let sent = to_client(&map(&[("content-security-policy", "frame-ancestors *")]), 80, &PortAddress::Origin);
    let policies: Vec<_> = sent.get_all(CONTENT_SECURITY_POLICY).iter().collect();
    assert_eq!(policies, ["frame-ancestors *", "frame-ancestors 'self'"]);
    assert_eq!(sent["cross-origin-opener-policy"], "same-origin-allow-popups");
    assert_eq!(sent["cross-origin-resource-policy"], "same-origin");
    let below =
        to_client(&map(&[("content-security-policy", "x")]), 80, &PortAddress::Below("/p".to_owned()));
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
