//! Single servers as people read them.

use coalloc_proto::v1;

use crate::kit::text;

/// Most servers that a line names; the rest is counted.
const NAMED_MAX: usize = 64;

/// The servers of a reservation, one line for each site and window.
#[must_use]
pub fn granted(all: &[v1::GrantedServers]) -> Vec<String> {
    let line = |of: &v1::GrantedServers| {
        let named: Vec<String> = of.servers.iter().take(NAMED_MAX).cloned().collect();
        let count = text::count(of.servers.len(), "server");
        let names = match of.servers.len() - named.len() {
            0 => text::enumerate(&named),
            more => format!("{} and {more} more", named.join(", ")),
        };
        format!("{count} of {}: {names}", of.resource_manager)
    };
    all.iter().map(line).collect()
}

/// A site, and how many of its servers a reservation has, if it is by-server.
#[must_use]
pub fn counted(site: &str, all: &[v1::GrantedServers]) -> String {
    let here = all.iter().filter(|of| of.site == site).map(|of| of.servers.len());
    match here.max() {
        Some(count) => format!("{site} ({})", text::count(count, "server")),
        None => site.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_servers_are_counted() {
        let of = |count: usize| v1::GrantedServers {
            site: "A".into(),
            resource_manager: "crm-A".into(),
            servers: (1..=count).map(|number| format!("A/{number}")).collect(),
            ..Default::default()
        };
        assert_eq!(granted(&[of(2)]), ["2 servers of crm-A: A/1 and A/2"]);
        assert!(granted(&[of(70)])[0].ends_with("A/64 and 6 more"));
        assert_eq!(counted("A", &[of(3)]), "A (3 servers)");
        assert_eq!(counted("B", &[of(3)]), "B");
    }
}
