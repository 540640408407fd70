//! The query of a URI.

use axum::http::Uri;
use sandyard_api::Query;

use crate::http::response::failure::HttpFailure;

/// The query of a URI, which may have these names only.
pub(in crate::http) fn query(uri: &Uri, known: &[&str]) -> Result<Query, HttpFailure> {
    Ok(Query::read(query_pairs(uri.query().unwrap_or_default()), known)?)
}

/// The decoded pairs of a query string. Bytes that are not UTF-8 are replaced.
pub(in crate::http) fn query_pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// The first value of a name in the query of a URI.
pub(in crate::http) fn query_value(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_decode_once_and_without_panic() {
        let pairs = query_pairs("a=1&b=%2525&c=x+y&d&=e&f=%&g=%zz&h=%c3%bc&i=%+1");
        let values: Vec<_> = pairs.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["1", "%25", "x y", "", "e", "%", "%zz", "ü", "% 1"]);
    }
}
