//! Where blobs are, as an operator says it, and the way there.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ClientConfigKey, ClientOptions, Error, RetryConfig};

use super::ObjectBlobs;
use super::bucket::Bucket;

/// Time for which a request is repeated that the store does not answer or puts off.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time without a byte of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The place of a yard's blobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BlobsLocation {
    /// The data directory.
    #[default]
    Data,
    /// Another folder, which several servers may share.
    Folder(PathBuf),
    /// A bucket of S3 or a store that speaks like it.
    S3 {
        /// Its name.
        bucket: String,
        /// Prefix of all objects.
        prefix: String,
    },
    /// A bucket of Google Cloud Storage.
    Google {
        /// Its name.
        bucket: String,
        /// Prefix of all objects.
        prefix: String,
    },
}

/// The text is no place for blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a place like s3://bucket/prefix, gs://bucket/prefix or file:///folder")]
pub struct BadBlobsUrl;

/// The variables in which programs find the credentials of object stores. Prints their names only.
#[derive(Clone, Default)]
pub struct CredentialVariables(BTreeMap<String, String>);

impl CredentialVariables {
    /// Takes those of an environment.
    pub fn of<'a>(environment: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let is_one = |name: &str| ["AWS_", "GOOGLE_"].iter().any(|prefix| name.starts_with(prefix));
        let found = environment.filter(|(name, value)| is_one(name) && !value.is_empty());
        Self(found.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Names as the configuration of stores has them.
    fn settings(&self) -> impl Iterator<Item = (String, &str)> {
        self.0.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }
}

impl fmt::Debug for CredentialVariables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl BlobsLocation {
    /// Reads a place. Credentials are no part of it.
    pub fn parse(text: &str) -> Result<Self, BadBlobsUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(BadBlobsUrl)?;
        if scheme == "file" {
            return if rest.starts_with('/') { Ok(Self::Folder(rest.into())) } else { Err(BadBlobsUrl) };
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |part: &str| {
            part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'))
        };
        if bucket.is_empty() || !is_name(bucket) || !is_name(prefix) {
            return Err(BadBlobsUrl);
        }
        let (bucket, prefix) = (bucket.to_owned(), prefix.trim_matches('/').to_owned());
        match scheme {
            "s3" => Ok(Self::S3 { bucket, prefix }),
            "gs" => Ok(Self::Google { bucket, prefix }),
            _ => Err(BadBlobsUrl),
        }
    }

    /// Opens the blobs of a bucket; `None` for folders.
    pub(in crate::blobs) fn open(
        &self,
        variables: &CredentialVariables,
    ) -> Result<Option<ObjectBlobs>, Error> {
        let (bucket, prefix) = match self {
            Self::Data | Self::Folder(_) => return Ok(None),
            Self::S3 { bucket, prefix } => (s3(bucket, variables)?, prefix),
            Self::Google { bucket, prefix } => (google(bucket, variables)?, prefix),
        };
        Ok(Some(ObjectBlobs::new(bucket, Path::parse(prefix)?)))
    }
}

fn s3(name: &str, variables: &CredentialVariables) -> Result<Bucket, Error> {
    let mut builder = AmazonS3Builder::new().with_bucket_name(name);
    for (name, value) in variables.settings() {
        if let Ok(key) = name.parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    // The store compares what it gets with the checksum of each object or part.
    let builder = builder.with_checksum_algorithm(Checksum::SHA256);
    let built = Arc::new(builder.with_retry(retries()).with_http_connector(HostTrust).build()?);
    Ok(Bucket { objects: built.clone(), pages: Some(built) })
}

fn google(name: &str, variables: &CredentialVariables) -> Result<Bucket, Error> {
    let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(name);
    for (name, value) in variables.settings() {
        if let Ok(key) = name.parse::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let built = Arc::new(builder.with_retry(retries()).with_http_connector(HostTrust).build()?);
    Ok(Bucket { objects: built.clone(), pages: Some(built) })
}

fn retries() -> RetryConfig {
    RetryConfig { retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() }
}

/// Connects with the certificates that this host trusts.
#[derive(Debug)]
struct HostTrust;

impl HttpConnector for HostTrust {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient, Error> {
        let failed =
            |source: Box<dyn std::error::Error + Send + Sync>| Error::Generic { store: "HTTP", source };
        let trust = crate::trust::of_this_host().map_err(|error| failed(error.into()))?;
        let is_plain_allowed =
            options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(trust)
            .https_only(!is_plain_allowed)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .build();
        Ok(HttpClient::new(client.map_err(|error| failed(error.into()))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_credentials_are_not_printed() {
        let s3 = BlobsLocation::S3 { bucket: "yard".into(), prefix: "a/b".into() };
        assert_eq!(BlobsLocation::parse("s3://yard/a/b/"), Ok(s3));
        let google = BlobsLocation::Google { bucket: "yard".into(), prefix: String::new() };
        assert_eq!(BlobsLocation::parse("gs://yard"), Ok(google));
        assert_eq!(BlobsLocation::parse("file:///mnt/blobs"), Ok(BlobsLocation::Folder("/mnt/blobs".into())));
        for bad in [
            "",
            "yard",
            "s3://",
            "s3://key:secret@yard/x",
            "file://relative",
            "http://yard/x",
            "s3://yard/a?b",
        ] {
            assert_eq!(BlobsLocation::parse(bad), Err(BadBlobsUrl), "{bad}");
        }
        let environment = [("AWS_SECRET_ACCESS_KEY", "hunter2"), ("PATH", "/bin")];
        let variables = CredentialVariables::of(environment.into_iter());
        assert_eq!(format!("{variables:?}"), r#"{"AWS_SECRET_ACCESS_KEY"}"#);
    }
}
