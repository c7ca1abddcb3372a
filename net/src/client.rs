//! Channels to other daemons, with every limit set.
//!
//! Left out: TLS.

use coalloc_common::{InvalidField, limits};
use tonic::transport::{Channel, Endpoint};

/// Checks an address without connecting anywhere.
///
/// # Errors
/// [`InvalidField`] when it is not `host:port`.
pub fn check_address(field: &str, address: &str) -> Result<(), InvalidField> {
    bare(field, address).map(|_| ())
}

fn bare(field: &str, address: &str) -> Result<Endpoint, InvalidField> {
    let bad = || InvalidField::new(field, InvalidField::quoted(address), "host:port");
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if host.is_empty() || !host.chars().all(plain) || port.parse::<u16>().is_err() {
        return Err(bad());
    }
    Endpoint::from_shared(format!("http://{address}")).map_err(|_| bad())
}

/// A channel to `address` (`host:port`). It connects when it is first used, and reconnects by itself.
///
/// # Errors
/// [`InvalidField`] when the address is not `host:port`.
pub fn channel(field: &str, address: &str) -> Result<Channel, InvalidField> {
    Ok(endpoint(field, address)?.connect_lazy())
}

/// How to connect to `address` (`host:port`), with every limit set. Keepalive notices within a second that a
/// peer has gone without closing the connection.
///
/// # Errors
/// [`InvalidField`] when the address is not `host:port`.
pub fn endpoint(field: &str, address: &str) -> Result<Endpoint, InvalidField> {
    Ok(bare(field, address)?
        .connect_timeout(limits::CONNECT_PATIENCE.to_std())
        .timeout(limits::CALL_TIME_MAX.to_std())
        .http2_keep_alive_interval(limits::CLIENT_KEEPALIVE.to_std())
        .keep_alive_timeout(limits::CLIENT_KEEPALIVE_PATIENCE.to_std())
        .keep_alive_while_idle(false)
        .tcp_nodelay(true))
}
