//! A page of our own where a sandbox has none to show: plain words, nothing of the request, no script.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;

use crate::app::FullJobStatus;
use crate::http::request::conditions::wants_page;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
static OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// A page or plain text of the server's own. All texts are escaped when the page is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Notice {
    pub(in crate::http) status: StatusCode,
    pub(in crate::http) title: String,
    pub(in crate::http) lines: Vec<String>,
    /// The page reloads after this many seconds, from another address or from its own if that is empty.
    pub(in crate::http) again: Option<(u32, String)>,
    /// Address and text of each link; an empty address is this page's own.
    pub(in crate::http) links: Vec<(String, String)>,
}

impl Notice {
    /// A title and a line under it.
    pub(in crate::http) fn new(status: StatusCode, title: &str, line: impl Into<String>) -> Self {
        Self { status, title: title.to_owned(), lines: vec![line.into()], again: None, links: Vec::new() }
    }

    /// Adds a reload after that many seconds, from `address` or from the page's own address if that is empty.
    pub(in crate::http) fn again(mut self, seconds: u32, address: impl Into<String>) -> Self {
        self.again = Some((seconds, address.into()));
        self
    }

    /// Adds a paragraph of plain text.
    pub(in crate::http) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Adds a link with these words. An empty address is the page's own.
    pub(in crate::http) fn link(mut self, address: impl Into<String>, words: &str) -> Self {
        self.links.push((address.into(), words.to_owned()));
        self
    }

    /// A job that has no machine now: waiting for one, or ended.
    pub(in crate::http) fn of_job(job: &FullJobStatus) -> Self {
        let state = job.state.as_str();
        let mut notice = if job.state.is_terminal() {
            let line = format!("The job has ended: {state}. Its sandbox is gone, its files are kept.");
            Self::new(StatusCode::GONE, "This sandbox has ended", line)
        } else {
            let line = format!("The job is {state}. This page goes on by itself.");
            Self::new(StatusCode::SERVICE_UNAVAILABLE, "Waiting for the sandbox", line).again(1, "")
        };
        let failure = job.error.as_ref().map(|error| error.message.clone());
        notice.lines.extend(failure.or_else(|| job.reason.clone()).filter(|line| !line.is_empty()));
        notice
    }

    /// A page for browsers that show one, plain text for other clients.
    pub(in crate::http) fn answer(&self, headers: &HeaderMap) -> Response {
        let (kind, text) = if wants_page(headers) {
            ("text/html; charset=utf-8", self.page())
        } else {
            ("text/plain; charset=utf-8", self.text())
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let fields = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, kind),
            (CACHE_CONTROL, "no-store"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (OPENER_POLICY.clone(), "same-origin"),
        ] {
            fields.insert(name, HeaderValue::from_static(value));
        }
        if let (Some((seconds, _)), true) = (&self.again, self.status.is_server_error()) {
            fields.insert(RETRY_AFTER, HeaderValue::from(*seconds));
        }
        response
    }

    fn text(&self) -> String {
        format!("{}\n{}\n", self.title, self.lines.join("\n"))
    }

    fn page(&self) -> String {
        let again = match &self.again {
            Some((seconds, address)) if address.is_empty() => {
                format!("<meta http-equiv=\"refresh\" content=\"{seconds}\">")
            }
            Some((seconds, address)) => {
                format!("<meta http-equiv=\"refresh\" content=\"{seconds};url={}\">", escape(address))
            }
            None => String::new(),
        };
        let lines: String = self.lines.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
        let links: String = self
            .links
            .iter()
            .map(|(address, words)| format!("<p><a href=\"{}\">{}</a></p>\n", escape(address), escape(words)))
            .collect();
        let title = escape(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{again}<title>{title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <style>:root{{color-scheme:light dark}}body{{max-width:40rem;margin:4rem auto;padding:0 1rem;\
             font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}}</style></head>\n\
             <body><h1>{title}</h1>\n{lines}{links}</body></html>\n"
        )
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use axum::http::header::ACCEPT;

    use super::*;

    #[test]
    fn w18_words_of_a_job_are_never_markup() {
        let evil = "\"><img src=x onerror=alert(1)>'";
        let notice = Notice::new(StatusCode::OK, evil, evil).link(evil, evil).again(1, evil);
        let page = notice.page();
        assert!(!page.contains("<img") && !page.contains("\">'"), "{page}");
        let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html,*/*"))]);
        let headers = |accept: &HeaderMap| notice.answer(accept).headers().clone();
        assert_eq!(headers(&accept)[CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(headers(&HeaderMap::new())[CONTENT_TYPE], "text/plain; charset=utf-8");
        for headers in [headers(&accept), headers(&HeaderMap::new())] {
            assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'"));
        }
    }
}
