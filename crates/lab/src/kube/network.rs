//! A pod network with nothing to install, where each node has a bridge: a static route to every other node's pods.

use super::kubectl::expect;
use crate::error::Result;
use crate::host::Host;

/// The services' addresses: kubeadm's own default.
pub const SERVICE_SUBNET: &str = "10.96.0.0/12";

/// Routes from every node to every other node's pods, each node with its `spec.podCIDR`, for a network of the pods on each node alone. Lay them when
/// kube-proxy is Ready: a pod that calls a service before its rules are there waits half a minute. Call it again with all nodes when one comes.
pub fn pod_routes(nodes: &[(&Host, &str)]) -> Result<()> {
    for (host, _) in nodes {
        let mut routes = vec![(SERVICE_SUBNET.to_owned(), None)];
        let others = nodes.iter().filter(|(other, _)| other.name() != host.name());
        routes.extend(others.map(|(other, cidr)| ((*cidr).to_owned(), Some(other.address().to_string()))));
        host.write("/etc/systemd/network/10-lab.network.d/pods.conf", "644", &route_text(&routes))?;
        let script = "networkctl reload && networkctl reconfigure host0";
        expect(host.exec(script)?, script)?;
        host.wait_for("its routes", || {
            host.exec("ip route").is_ok_and(|output| routes.iter().all(|(to, _)| output.stdout.contains(to)))
        })?;
    }
    Ok(())
}

/// Service addresses are on the link: one without rules is unreachable within seconds, instead of a black hole.
fn route_text(routes: &[(String, Option<String>)]) -> String {
    let text = |(to, gateway): &(String, Option<String>)| match gateway {
        Some(gateway) => format!("[Route]\nDestination={to}\nGateway={gateway}\n"),
        None => format!("[Route]\nDestination={to}\nScope=link\n"),
    };
    routes.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_are_gateways() {
        let routes =
            [("10.96.0.0/12".to_owned(), None), ("10.244.1.0/24".to_owned(), Some("10.78.0.12".to_owned()))];
        let text = route_text(&routes);
        assert!(text.contains("[Route]\nDestination=10.96.0.0/12\nScope=link\n"), "{text}");
        assert!(text.contains("[Route]\nDestination=10.244.1.0/24\nGateway=10.78.0.12\n"), "{text}");
    }
}
