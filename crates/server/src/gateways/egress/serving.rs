//! A connection of the sandbox to its proxy, in whichever protocol it speaks.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::socks::{self, SocksReply, SocksRequest};
use super::{EgressGateway, EgressRefusal, http};

impl EgressGateway {
    /// Serves one connection that a program in the sandbox made to the proxy.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        mut read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        // The first byte tells the protocols apart: no HTTP method begins with the byte 5.
        let Ok(first) = read.read_u8().await else { return };
        let whole = Box::pin(tokio::io::join(std::io::Cursor::new([first]).chain(read), write));
        if first == socks::VERSION {
            // An error means that the client broke the protocol or is gone. Its connection ends.
            let _ = self.serve_socks(whole).await;
        } else {
            http::serve(self, whole).await;
        }
    }

    async fn serve_socks(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> std::io::Result<()> {
        let (named, target) = match socks::read_request(&mut stream).await? {
            SocksRequest::Connect { named, target } => (named, target),
            SocksRequest::Unsupported(reply) => return socks::answer(&mut stream, reply).await,
        };
        let connection = match target {
            Ok(target) => self.reach(&target).await,
            Err(bad) => Err(self.refuse(&named, bad.into()).await),
        };
        match connection {
            Ok(connection) => {
                socks::answer(&mut stream, SocksReply::Connected).await?;
                connection.carry(stream).await;
                Ok(())
            }
            Err(EgressRefusal::Unresolved | EgressRefusal::Unreachable) => {
                socks::answer(&mut stream, SocksReply::Unreachable).await
            }
            Err(_) => socks::answer(&mut stream, SocksReply::NotAllowed).await,
        }
    }
}
