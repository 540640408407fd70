//! Whom our own HTTP clients trust over TLS: whom this host trusts.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// The host's trust. A host without certificates still reaches servers that need no TLS.
pub fn of_this_host() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        || ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    match builder()?.with_platform_verifier() {
        Ok(trusting) => Ok(trusting.with_no_client_auth()),
        Err(error) => {
            tracing::warn!(%error, "servers with TLS can't be reached: no certificates of this host can be read");
            Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        }
    }
}
