//! The rules of job origins, as tables.

use axum::http::{HeaderName, HeaderValue, Version};

use super::*;
use crate::auth::KeyStore;
use crate::job::JobId;

const HOST_NAME: &str = "5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:8000";
const NOW: Duration = Duration::from_secs(1_700_000_000);

fn origin() -> JobOrigin {
    JobOrigin { job: JobId::parse(&"a".repeat(26)).unwrap(), port: 5173 }
}

fn open() -> AccessRules {
    AccessRules::new("127.0.0.1", KeyStore::default())
}

fn keyed() -> AccessRules {
    AccessRules::new("0.0.0.0", KeyStore::from_keys(["sy_key".to_owned()]))
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.append(HOST, HeaderValue::from_static(HOST_NAME));
    for (name, value) in fields {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    map
}

fn visit(access: &AccessRules, fields: &[(&str, &str)]) -> Result<PortVisit, VisitRefused> {
    visit_at(access, &Method::GET, fields, NOW)
}

fn visit_at(
    access: &AccessRules,
    method: &Method,
    fields: &[(&str, &str)],
    now: Duration,
) -> Result<PortVisit, VisitRefused> {
    let headers = headers(fields);
    access.visit(&origin(), &RequestHead { method, version: Version::HTTP_11, headers: &headers }, now)
}

fn known() -> PortVisit {
    PortVisit::Known(Caller::operator().by_pass())
}

fn first() -> PortVisit {
    PortVisit::First(Caller::operator().by_pass())
}

fn page(site: &str) -> Vec<(&str, &str)> {
    vec![("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
}

fn cookie(access: &AccessRules) -> String {
    access
        .pass_cookie(&origin(), &Caller::operator(), &headers(&[]), NOW)
        .split(';')
        .next()
        .unwrap()
        .to_owned()
}

#[test]
fn an_open_loopback_lets_programs_and_typed_addresses_in() {
    let access = open();
    assert_eq!(visit(&access, &[]), Ok(known()));
    assert_eq!(visit(&access, &[("user-agent", "curl/8.0")]), Ok(known()));
    assert_eq!(visit(&access, &page("none")), Ok(first()));
    assert_eq!(visit(&access, &page("same-origin")), Ok(first()));
    assert_eq!(visit(&access, &[("user-agent", "Mozilla/5.0")]), Err(VisitRefused::NoPass));
    assert_eq!(visit(&access, &[("sec-fetch-site", "same-origin")]), Err(VisitRefused::NoPass));
}

#[test]
fn w1_nothing_that_a_foreign_page_causes_goes_on_even_with_the_cookie() {
    for access in [open(), keyed()] {
        let pass = cookie(&access);
        for site in ["cross-site", "same-site", "odd"] {
            assert_eq!(visit(&access, &page(site)), Ok(PortVisit::Ask), "a followed link, {site}");
            for (mode, dest) in
                [("cors", "empty"), ("no-cors", "image"), ("navigate", "iframe"), ("websocket", "websocket")]
            {
                let fields = [
                    ("sec-fetch-site", site),
                    ("sec-fetch-mode", mode),
                    ("sec-fetch-dest", dest),
                    ("cookie", &pass),
                ];
                assert_eq!(visit(&access, &fields), Err(VisitRefused::Foreign), "{site} {mode} {dest}");
            }
            let mut post = page(site);
            post.push(("cookie", &pass));
            let refused = visit_at(&access, &Method::POST, &post, NOW);
            assert_eq!(refused, Err(VisitRefused::Foreign), "a form by POST, {site}");
        }
        let twice = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site"), ("cookie", &pass)];
        assert_eq!(visit(&access, &twice), Err(VisitRefused::Foreign));
    }
}

#[test]
fn w8_the_origin_is_exactly_this_one() {
    let access = keyed();
    let pass = cookie(&access);
    let with = |origin: &str| visit(&access, &[("origin", origin), ("cookie", &pass)]);
    assert_eq!(with(&format!("http://{HOST_NAME}")), Ok(known()));
    for foreign in [
        "null",
        "",
        "http://localhost:8000",
        "http://5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost",
        "http://5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:8001",
        "http://5174-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:8000",
        "http://5173-baaaaaaaaaaaaaaaaaaaaaaaaa.localhost:8000",
        "http://5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:8000.evil.example",
    ] {
        assert_eq!(with(foreign), Err(VisitRefused::Foreign), "{foreign}");
    }
}

#[test]
fn w7_with_keys_only_the_pass_of_this_origin_opens_it() {
    let access = keyed();
    let pass = cookie(&access);
    assert_eq!(visit(&access, &[("cookie", &pass)]), Ok(known()));
    assert_eq!(visit(&access, &[("cookie", &format!("a=b; sandyard-pass=tossed; {pass}"))]), Ok(known()));
    assert_eq!(visit(&access, &[("cookie", "sandyard-pass=tossed"), ("cookie", &pass)]), Ok(known()));
    let other = JobOrigin { port: 8888, ..origin() };
    let elsewhere = access.pass_cookie(&other, &Caller::operator(), &headers(&[]), NOW);
    for fields in [
        vec![],
        vec![("cookie", "sandyard-pass=")],
        vec![("cookie", elsewhere.split(';').next().unwrap())],
        vec![("authorization", "Bearer sy_key")],
        page("none"),
    ] {
        assert_eq!(visit(&access, &fields), Err(VisitRefused::NoPass), "{fields:?}");
    }
    let late = visit_at(&access, &Method::GET, &[("cookie", &pass)], NOW * 2);
    assert_eq!(late, Err(VisitRefused::NoPass));
}

#[test]
fn w3_the_cookie_is_as_strict_as_its_connection_allows() {
    let plain = open().pass_cookie(&origin(), &Caller::operator(), &headers(&[]), NOW);
    for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age="] {
        assert!(plain.contains(attribute), "{plain}");
    }
    assert!(plain.starts_with("sandyard-pass=") && !plain.contains("Domain") && !plain.contains("Secure"));
    let access = keyed().with_domain(Domain::parse("https://yard.example").unwrap());
    let mut fields = HeaderMap::new();
    fields.insert(HOST, HeaderValue::from_static("5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.yard.example"));
    let tls = access.pass_cookie(&origin(), &Caller::operator(), &fields, NOW);
    assert!(tls.starts_with("__Host-sandyard-pass=") && tls.contains("; Secure"), "{tls}");
    assert!(
        access.pass_cookie(&origin(), &Caller::operator(), &headers(&[]), NOW).starts_with("sandyard-pass="),
        "a tunnel"
    );
}

#[test]
fn w26_a_domain_or_a_proxy_in_front_leaves_the_pass_alone() {
    let domain = || Domain::parse("https://yard.example").unwrap();
    assert_eq!(visit(&open().with_domain(domain()), &[]), Err(VisitRefused::NoPass));
    assert_eq!(visit(&open().with_domain(domain()), &page("none")), Err(VisitRefused::NoPass));
    let access = open();
    let pass = cookie(&access);
    for name in ["forwarded", "via", "x-forwarded-for", "x-real-ip", "cf-ray", "x-webauth-user"] {
        let mut fields = page("none");
        fields.push((name, "x"));
        assert_eq!(visit(&access, &fields), Err(VisitRefused::NoPass), "{name}");
        assert_eq!(visit(&access, &[(name, "x"), ("cookie", &pass)]), Ok(known()), "{name}");
    }
    let headers = headers(&[]);
    let old = RequestHead { method: &Method::GET, version: Version::HTTP_10, headers: &headers };
    assert_eq!(access.visit(&origin(), &old, NOW), Err(VisitRefused::NoPass));
}

#[test]
fn w27_a_seal_is_good_for_one_cookie_of_one_origin() {
    let access = keyed();
    let set = access.seal_cookie(&origin(), ("a", "1"), false, None).unwrap();
    let seal = set.split(';').next().unwrap();
    assert!(is_own_cookie(seal.split('=').next().unwrap()) && set.contains("; Path=/; HttpOnly"), "{set}");
    let sent = headers(&[("cookie", &format!("sandyard-seal-a=tossed; {seal}"))]);
    assert!(access.is_sealed(&origin(), ("a", "1"), &sent));
    assert!(!access.is_sealed(&origin(), ("a", "2"), &sent), "another value");
    assert!(!access.is_sealed(&origin(), ("b", "1"), &sent), "another name");
    assert!(!access.is_sealed(&JobOrigin { port: 1, ..origin() }, ("a", "1"), &sent), "another origin");
    for name in ["", "a=b", "a;b", "ü", &"a".repeat(129)] {
        assert_eq!(access.seal_cookie(&origin(), (name, "1"), false, None), None, "{name}");
    }
    let set = access.seal_cookie(&origin(), ("a", "1"), true, None).unwrap();
    assert!(set.starts_with("__Host-sandyard-seal-a=") && set.contains("; Secure"), "{set}");
}
