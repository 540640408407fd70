//! The rules of job origins, as tables.

use axum::http::{HeaderName, HeaderValue};

use super::*;
use crate::auth::KeyStore;
use crate::job::JobId;

const HOST_NAME: &str = "5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:8000";
const NOW: Duration = Duration::from_secs(1_700_000_000);

fn origin() -> JobOrigin {
    JobOrigin { job: JobId::parse(&"a".repeat(26)).unwrap(), port: 5173 }
}

fn open() -> Access {
    Access::new("127.0.0.1", KeyStore::default())
}

fn keyed() -> Access {
    Access::new("0.0.0.0", KeyStore::from_keys(["sy_key".to_owned()]))
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.append(HOST, HeaderValue::from_static(HOST_NAME));
    for (name, value) in fields {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    map
}

fn visit(access: &Access, fields: &[(&str, &str)]) -> Result<Visit, Refused> {
    access.visit(&origin(), &Method::GET, &headers(fields), NOW)
}

fn page(site: &str) -> Vec<(&str, &str)> {
    vec![("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
}

fn cookie(access: &Access) -> String {
    access.pass_cookie(&origin(), &headers(&[]), NOW).split(';').next().unwrap().to_owned()
}

#[test]
fn an_open_loopback_lets_programs_and_typed_addresses_in() {
    let access = open();
    assert_eq!(visit(&access, &[]), Ok(Visit::Known));
    assert_eq!(visit(&access, &[("user-agent", "curl/8.0")]), Ok(Visit::Known));
    assert_eq!(visit(&access, &page("none")), Ok(Visit::First));
    assert_eq!(visit(&access, &page("same-origin")), Ok(Visit::First));
    assert_eq!(visit(&access, &[("user-agent", "Mozilla/5.0")]), Err(Refused::NoPass));
    assert_eq!(visit(&access, &[("sec-fetch-site", "same-origin")]), Err(Refused::NoPass));
}

#[test]
fn w1_nothing_that_a_foreign_page_causes_goes_on_even_with_the_cookie() {
    for access in [open(), keyed()] {
        let pass = cookie(&access);
        for site in ["cross-site", "same-site", "odd"] {
            assert_eq!(visit(&access, &page(site)), Ok(Visit::Ask), "a followed link, {site}");
            for (mode, dest) in
                [("cors", "empty"), ("no-cors", "image"), ("navigate", "iframe"), ("websocket", "websocket")]
            {
                let fields = [
                    ("sec-fetch-site", site),
                    ("sec-fetch-mode", mode),
                    ("sec-fetch-dest", dest),
                    ("cookie", &pass),
                ];
                assert_eq!(visit(&access, &fields), Err(Refused::Foreign), "{site} {mode} {dest}");
            }
            let mut post = page(site);
            post.push(("cookie", &pass));
            let refused = access.visit(&origin(), &Method::POST, &headers(&post), NOW);
            assert_eq!(refused, Err(Refused::Foreign), "a form by POST, {site}");
        }
        let twice = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site"), ("cookie", &pass)];
        assert_eq!(visit(&access, &twice), Err(Refused::Foreign));
    }
}

#[test]
fn w8_the_origin_is_exactly_this_one() {
    let access = keyed();
    let pass = cookie(&access);
    let with = |origin: &str| visit(&access, &[("origin", origin), ("cookie", &pass)]);
    assert_eq!(with(&format!("http://{HOST_NAME}")), Ok(Visit::Known));
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
        assert_eq!(with(foreign), Err(Refused::Foreign), "{foreign}");
    }
}

#[test]
fn w7_with_keys_only_the_pass_of_this_origin_opens_it() {
    let access = keyed();
    let pass = cookie(&access);
    assert_eq!(visit(&access, &[("cookie", &pass)]), Ok(Visit::Known));
    assert_eq!(
        visit(&access, &[("cookie", &format!("a=b; sandyard-pass=tossed; {pass}"))]),
        Ok(Visit::Known)
    );
    assert_eq!(visit(&access, &[("cookie", "sandyard-pass=tossed"), ("cookie", &pass)]), Ok(Visit::Known));
    let other = JobOrigin { port: 8888, ..origin() };
    let elsewhere = access.pass_cookie(&other, &headers(&[]), NOW);
    for fields in [
        vec![],
        vec![("cookie", "sandyard-pass=")],
        vec![("cookie", elsewhere.split(';').next().unwrap())],
        vec![("authorization", "Bearer sy_key")],
        page("none"),
    ] {
        assert_eq!(visit(&access, &fields), Err(Refused::NoPass), "{fields:?}");
    }
    let late = access.visit(&origin(), &Method::GET, &headers(&[("cookie", &pass)]), NOW * 2);
    assert_eq!(late, Err(Refused::NoPass));
}

#[test]
fn w3_the_cookie_is_as_strict_as_its_connection_allows() {
    let plain = open().pass_cookie(&origin(), &headers(&[]), NOW);
    for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age="] {
        assert!(plain.contains(attribute), "{plain}");
    }
    assert!(plain.starts_with("sandyard-pass=") && !plain.contains("Domain") && !plain.contains("Secure"));
    let access = keyed().with_domain(Domain::parse("https://yard.example").unwrap());
    let mut fields = HeaderMap::new();
    fields.insert(HOST, HeaderValue::from_static("5173-aaaaaaaaaaaaaaaaaaaaaaaaaa.yard.example"));
    let tls = access.pass_cookie(&origin(), &fields, NOW);
    assert!(tls.starts_with("__Host-sandyard-pass=") && tls.contains("; Secure"), "{tls}");
    assert!(access.pass_cookie(&origin(), &headers(&[]), NOW).starts_with("sandyard-pass="), "a tunnel");
}
