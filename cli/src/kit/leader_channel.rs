//! A channel to whichever process of a coordinator leads. With one address it is a plain channel. With several, a call that
//! was not carried out, or whose answer was lost, is made again for some time, because another process takes over meanwhile.
//!
//! Every call may be made twice: what changes something carries an id of its own (I8).
//!
//! Left out: finding out who leads, which the connection does ([`coalloc_net::client`]).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower_service::Service;

/// For how long a call is made again. A takeover takes less than 10 s.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before a call is made again.
const PAUSE: Duration = Duration::from_millis(200);

/// A channel to the process that leads.
#[derive(Debug, Clone)]
pub struct LeaderChannel {
    channel: Channel,
    has_several: bool,
}

impl LeaderChannel {
    /// Uses a channel to this address, or to these with commas between.
    #[must_use]
    pub fn new(channel: Channel, address: &str) -> Self {
        Self { channel, has_several: coalloc_net::client::several(address) }
    }
}

type Error = Box<dyn std::error::Error + Send + Sync>;

impl Service<Request<Body>> for LeaderChannel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !self.has_several {
            let answer = self.channel.call(request);
            return Box::pin(async move { Ok(answer.await?) });
        }
        // The channel that is ready is the one that was asked.
        let ready = self.channel.clone();
        let channel = std::mem::replace(&mut self.channel, ready);
        Box::pin(call_leader(channel, request))
    }
}

async fn call_leader(
    mut channel: Channel,
    request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let begun = Instant::now();
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    loop {
        let mut again = Request::new(Body::new(Full::new(body.clone())));
        *again.method_mut() = head.method.clone();
        *again.uri_mut() = head.uri.clone();
        *again.version_mut() = head.version;
        *again.headers_mut() = head.headers.clone();
        let answer = match std::future::poll_fn(|context| channel.poll_ready(context)).await {
            Ok(()) => channel.call(again).await,
            Err(error) => Err(error),
        };
        let is_final = match &answer {
            Ok(answer) => !Status::from_header_map(answer.headers())
                .is_some_and(|status| status.code() == Code::Unavailable),
            Err(_) => false,
        };
        if is_final || begun.elapsed() >= PATIENCE {
            return Ok(answer?);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
