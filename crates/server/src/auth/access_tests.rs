//! The rules of the API, as tables.

use axum::http::{HeaderName, HeaderValue};

use super::*;

fn admit(access: &AccessRules, method: &Method, headers: &HeaderMap) -> Result<Caller, ApiError> {
    access.admit(&RequestHead { method, version: Version::HTTP_11, headers })
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
    };
    let mut map = HeaderMap::new();
    for (name, value) in fields.iter().map(field) {
        map.append(name, value);
    }
    map
}

fn open_code(fields: &[(&str, &str)]) -> Option<ErrorCode> {
    let access = AccessRules::new("127.0.0.1", KeyStore::default());
    admit(&access, &Method::POST, &headers(fields)).err().map(|error| error.code)
}

#[test]
fn job_origins_are_told_from_the_api_and_addressed_by_the_name_the_client_used() {
    let job = "k5c7jq3l2m4n6o7p2q3r4s5t6u";
    let origin = JobOrigin { job: crate::job::JobId::parse(job).unwrap(), port: 8888 };
    let plain = AccessRules::new("127.0.0.1", KeyStore::default());
    let domain = AccessRules::new("0.0.0.0", KeyStore::default())
        .with_domain(Domain::parse("https://yard.example").unwrap());
    let site = |access: &AccessRules, host: &str| access.site(&headers(&[("host", host)]));
    let local = format!("8888-{job}.localhost:8000");
    let named = format!("8888-{}.YARD.example", job.to_uppercase());
    assert_eq!(site(&plain, &local), Site::Job(origin.clone()));
    assert_eq!(site(&domain, &local), Site::Job(origin.clone()));
    assert_eq!(site(&domain, &named), Site::Job(origin.clone()));
    assert_eq!(site(&plain, &named), Site::Api);
    assert_eq!(plain.site(&headers(&[("host", &local), ("host", "localhost")])), Site::Api);
    let url = |access: &AccessRules, host: &str| access.origin_url(&origin, &headers(&[("host", host)]));
    assert_eq!(url(&plain, "127.0.0.1:8000"), Some(format!("http://8888-{job}.localhost:8000")));
    assert_eq!(url(&domain, "localhost:9000"), Some(format!("http://8888-{job}.localhost:9000")));
    assert_eq!(url(&domain, "yard.example:8000"), Some(format!("https://8888-{job}.yard.example")));
    assert_eq!(url(&plain, "10.0.0.1:8000"), None);
}

#[test]
fn w2_w8_an_open_address_knows_only_local_names() {
    for host in ["localhost", "localhost:9999", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST", "localhost."] {
        assert_eq!(open_code(&[("host", host)]), None, "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "8888-abc.localhost:8000", "10.0.0.1"]
    {
        assert_eq!(open_code(&[("host", host)]), Some(ErrorCode::ForeignHost), "{host}");
    }
    for host in ["", "a b", "[::1", "localhost:port", "user@localhost"] {
        assert_eq!(open_code(&[("host", host)]), Some(ErrorCode::BadRequest), "{host}");
    }
    assert_eq!(open_code(&[]), Some(ErrorCode::BadRequest));
    assert_eq!(open_code(&[("host", "localhost"), ("host", "localhost")]), Some(ErrorCode::BadRequest));
}

#[test]
fn w2_w8_origins_are_compared_whole() {
    for (host, origin) in [
        ("localhost", "http://localhost"),
        ("localhost", "https://localhost"),
        ("localhost:80", "http://LOCALHOST"),
        ("localhost:9000", "http://localhost:9000"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
    ] {
        assert_eq!(open_code(&[("host", host), ("origin", origin)]), None, "{host} {origin}");
    }
    for (host, origin) in [
        ("localhost:8000", "http://localhost:3000"),
        ("localhost:8000", "http://localhost"),
        ("localhost", "http://localhost:8000"),
        ("localhost:80", "https://localhost"),
        ("localhost:8000", "http://127.0.0.1:8000"),
        ("[::1]:8000", "http://[::1]"),
    ] {
        let code = open_code(&[("host", host), ("origin", origin)]);
        assert_eq!(code, Some(ErrorCode::ForeignOrigin), "{host} {origin}");
    }
    for origin in [
        "null",
        "",
        "http://evil.example",
        "http://localhost.evil.example",
        "http://8888-abc.localhost:8000",
        "http://5173-k5c7jq3l2m4n6o7p2q3r4s5t6u.localhost",
        "file://",
        "http://localhost@evil.example",
        "localhost",
    ] {
        let code = open_code(&[("host", "localhost"), ("origin", origin)]);
        assert_eq!(code, Some(ErrorCode::ForeignOrigin), "{origin}");
    }
}

#[test]
fn w19_requests_a_foreign_page_causes_without_origin_are_refused() {
    let access = AccessRules::new("localhost", KeyStore::default());
    let fields =
        |mode| headers(&[("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)]);
    assert!(admit(&access, &Method::GET, &fields("no-cors")).is_err());
    assert!(admit(&access, &Method::POST, &fields("navigate")).is_err());
    assert!(admit(&access, &Method::GET, &fields("navigate")).is_ok());
}

#[test]
fn w23_keys_are_needed_everywhere_but_on_an_open_loopback() {
    let store = || KeyStore::from_keys(["sk-right".to_owned()]);
    let code = |access: &AccessRules, fields: &[(&str, &str)]| {
        let mut all = vec![("host", "yard.example")];
        all.extend_from_slice(fields);
        admit(access, &Method::GET, &headers(&all)).err().map(|error| error.code)
    };
    let access = AccessRules::new("0.0.0.0", store());
    assert_eq!(code(&access, &[("authorization", "Bearer sk-right")]), None);
    assert_eq!(code(&access, &[("authorization", "bearer sk-right")]), None);
    for value in
        ["", "Bearer", "Bearer ", "Bearer sk-wrong", "Basic sk-right", "sk-right", "Bearer sk-right,sk-right"]
    {
        assert_eq!(code(&access, &[("authorization", value)]), Some(ErrorCode::Unauthorized), "{value}");
    }
    let twice = [("authorization", "Bearer sk-right"), ("authorization", "Bearer sk-right")];
    assert_eq!(code(&access, &twice), Some(ErrorCode::Unauthorized));
    assert_eq!(code(&AccessRules::new("0.0.0.0", KeyStore::default()), &[]), Some(ErrorCode::Unauthorized));
    assert!(!AccessRules::new("127.0.0.1", store()).is_open());
    let own = [("authorization", "Bearer sk-right"), ("origin", "https://yard.example")];
    assert_eq!(code(&access, &own), None);
    let foreign = [("authorization", "Bearer sk-right"), ("origin", "https://other.example")];
    assert_eq!(code(&access, &foreign), Some(ErrorCode::ForeignOrigin));
}

#[test]
fn w26_a_proxy_in_front_or_a_domain_ends_keyless_mode() {
    for name in ["forwarded", "via", "x-forwarded-for", "X-Real-IP", "cf-ray", "true-client-ip", "x-envoy-a"]
    {
        let code = open_code(&[("host", "localhost"), (name, "x")]);
        assert_eq!(code, Some(ErrorCode::NeedsKey), "{name}");
    }
    for name in ["accept", "x-requested-with", "user-agent", "x-own", "cache-control", "x-request-id"] {
        assert_eq!(open_code(&[("host", "localhost"), (name, "x")]), None, "{name}");
    }
    let open = AccessRules::new("127.0.0.1", KeyStore::default());
    let headers = headers(&[("host", "localhost")]);
    let old = RequestHead { method: &Method::GET, version: Version::HTTP_10, headers: &headers };
    assert_eq!(open.admit(&old).unwrap_err().code, ErrorCode::NeedsKey);
    let named = open.with_domain(Domain::parse("https://yard.example").unwrap());
    assert!(!named.is_open());
    assert_eq!(admit(&named, &Method::GET, &headers).unwrap_err().code, ErrorCode::Unauthorized);
}

#[test]
fn w8_behind_a_front_the_domains_own_pages_are_known() {
    let access = AccessRules::new("127.0.0.1", KeyStore::from_keys(["sk".to_owned()]))
        .with_domain(Domain::parse("https://yard.example:8443").unwrap());
    let code = |origin: &str| {
        let fields = [("host", "127.0.0.1:8000"), ("origin", origin), ("authorization", "Bearer sk")];
        admit(&access, &Method::POST, &headers(&fields)).err().map(|error| error.code)
    };
    assert_eq!(code("https://yard.example:8443"), None);
    for origin in ["https://yard.example", "http://yard.example:8443", "https://8888-a.yard.example:8443"] {
        assert_eq!(code(origin), Some(ErrorCode::ForeignOrigin), "{origin}");
    }
}
