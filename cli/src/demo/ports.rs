//! Loopback ports for the daemons of a demo.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::exit::Failure;

/// Below the range that the system gives to outgoing connections, which would take them at random.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// `count` ports that nobody listens on: all were bound at one time, and were let go just now.
///
/// # Errors
/// When there are not that many.
pub fn free(count: usize) -> Result<Vec<u16>, Failure> {
    free_from(std::process::id(), count)
}

/// The search starts at a place of its own for each process, so that two demos that start together
/// seldom meet.
fn free_from(process: u32, count: usize) -> Result<Vec<u16>, Failure> {
    let ports = u32::from(PORTS.end - PORTS.start);
    let first = process.wrapping_mul(97) % ports;
    let mut bound = Vec::with_capacity(count);
    for step in 0..ports {
        if bound.len() == count {
            break;
        }
        // Below 30 000.
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
        let Ok(_taken) = taken else { return }; // Someone else was faster: nothing to test.
        let ports = free_from(4_711, 5).unwrap();
        assert!(
            ports.len() == 5 && !ports.contains(&first) && ports.iter().all(|p| PORTS.contains(p))
        );
    }
}
