//! Loopback ports for daemons.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::kit::exit::Failure;

/// These lie below the ports that the system gives at random to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Returns `count` ports that nobody listens on.
///
/// All of them were bound at the same time, and were released just before this returns.
///
/// # Errors
/// When there are not that many.
pub fn free(count: usize) -> Result<Vec<u16>, Failure> {
    free_from(std::process::id(), count)
}

/// Does the same, with a start that depends on the process, so that two demos started together seldom collide.
fn free_from(process: u32, count: usize) -> Result<Vec<u16>, Failure> {
    let ports = u32::from(PORTS.end - PORTS.start);
    let first = process.wrapping_mul(97) % ports;
    let mut bound = Vec::with_capacity(count);
    for step in 0..ports {
        if bound.len() == count {
            break;
        }
        // This is below 30 000, so it fits.
        let port = PORTS.start + ((first + step) % ports) as u16;
        if let Ok(listener) = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            bound.push((port, listener));
        }
    }
    if bound.len() < count {
        let (start, end) = (PORTS.start, PORTS.end - 1);
        let text = format!("{count} free ports are needed on 127.0.0.1, {start} to {end}");
        return Err(Failure::internal(text));
    }
    Ok(bound.into_iter().map(|(port, _)| port).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_passed_over() {
        let first = free_from(4_711, 1).unwrap()[0];
        let taken = TcpListener::bind(("127.0.0.1", first));
        let Ok(_taken) = taken else { return }; // Another process was faster, so there is nothing to test.
        let ports = free_from(4_711, 5).unwrap();
        assert!(
            ports.len() == 5 && !ports.contains(&first) && ports.iter().all(|p| PORTS.contains(p))
        );
    }
}
