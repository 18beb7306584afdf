//! The lab's links, addresses and firewall rules. All names derive from the lab's number.

use crate::command;
use crate::error::{LabError, Result};
use crate::mirror::MirrorAddress;
use fs_err as fs;
use std::net::Ipv4Addr;

/// Numbers that labs without a fixed one take; 77 is kept for the one that asks for it by number.
const FREE: std::ops::RangeInclusive<u8> = 78..=99;

/// The network of one lab: 10.`number`.0.0/24.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net {
    pub number: u8,
}

impl Net {
    /// Takes a number. The bridge is the claim: making a link that exists fails, whoever tries.
    pub(crate) fn claim(fixed: Option<u8>, owner: &str) -> Result<Self> {
        if let Some(number) = fixed {
            let net = Self { number };
            return if net.try_claim(owner)? { Ok(net) } else { Err(LabError::SubnetTaken(number)) };
        }
        for number in FREE {
            let net = Self { number };
            if net.try_claim(owner)? {
                return Ok(net);
            }
        }
        Err(LabError::NoSubnet)
    }

    fn try_claim(self, owner: &str) -> Result<bool> {
        let bridge = self.bridge();
        // Another user's network of the same numbers would answer for our hosts.
        if is_link(&bridge) || self.is_routed()? {
            return Ok(false);
        }
        if let Err(error) = command::run("ip", &["link", "add", &bridge, "type", "bridge"]) {
            // Lost a race for it, or links cannot be made here at all.
            return if is_link(&bridge) { Ok(false) } else { Err(error) };
        }
        command::run("ip", &["link", "set", &bridge, "alias", &alias(owner)])?;
        Ok(true)
    }

    fn is_routed(self) -> Result<bool> {
        let subnet = format!("{}/24", self.address(0));
        let output = command::checked(command::root("ip").args(["-4", "route", "show", &subnet]))?;
        Ok(!output.stdout.is_empty())
    }

    /// The network that `owner` holds, from an earlier process.
    pub(crate) fn find(owner: &str) -> Option<Self> {
        let wanted = alias(owner);
        (77..=99).map(|number| Self { number }).find(|net| {
            let text = fs::read_to_string(format!("/sys/class/net/{}/ifalias", net.bridge()));
            text.is_ok_and(|text| text.trim_end() == wanted)
        })
    }

    /// The bridge that the machine has an address on.
    pub(crate) fn bridge(self) -> String {
        format!("clab{}", self.number)
    }

    /// The bridge at the far end of the delay line.
    pub(crate) fn far_bridge(self) -> String {
        format!("clab{}r", self.number)
    }

    /// The ends of the delay line: on [`Net::bridge`] and on [`Net::far_bridge`].
    pub(crate) fn taps(self) -> [String; 2] {
        [format!("clab{}a", self.number), format!("clab{}b", self.number)]
    }

    pub(crate) fn gateway(self) -> Ipv4Addr {
        self.address(1)
    }

    pub(crate) fn address(self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number, 0, last)
    }

    /// Name of a host's machine, short enough for a link name: `c78-11`.
    pub(crate) fn machine(self, last: u8) -> String {
        format!("c{}-{last}", self.number)
    }

    /// A host's link on this machine, as systemd-nspawn names it.
    pub(crate) fn host_link(self, last: u8) -> String {
        format!("vb-{}", self.machine(last))
    }

    /// Name of the lab's cgroup below the cgroup2 mount.
    pub(crate) fn cgroup(self) -> String {
        format!("converge-lab-{}", self.number)
    }

    /// Addresses and rules: the hosts reach each other, this machine and the mirror, and nothing else.
    pub(crate) fn configure(self, mirror: &[MirrorAddress]) -> Result<()> {
        let bridge = self.bridge();
        command::run("sysctl", &["-qw", &format!("net.ipv6.conf.{bridge}.disable_ipv6=1")])?;
        command::run("ip", &["addr", "replace", &format!("{}/24", self.gateway()), "dev", &bridge])?;
        command::run("ip", &["link", "set", &bridge, "up"])?;
        command::run("sysctl", &["-qw", "net.ipv4.ip_forward=1"])?;
        let subnet = format!("{}/24", self.address(0));
        for parent in ["FORWARD", "INPUT"] {
            let chain = self.chain(parent);
            rule(&["-N", &chain])?;
            rule(&["-I", parent, "-j", &chain])?;
        }
        let forward = self.chain("FORWARD");
        // With br_netfilter, which nodes of Kubernetes load, what goes from host to host over a bridge passes here too: to a pod's address, say.
        for bridge in [&bridge, &self.far_bridge()] {
            rule(&["-A", &forward, "-i", bridge, "-o", bridge, "-j", "ACCEPT"])?;
        }
        rule(&["-t", "nat", "-N", &bridge])?;
        rule(&["-t", "nat", "-A", "POSTROUTING", "-j", &bridge])?;
        for MirrorAddress { address, port, .. } in mirror {
            let (address, port) = (address.to_string(), port.to_string());
            let to = ["-s", &subnet, "-d", &address, "-p", "tcp", "--dport", &port];
            let back = ["-d", &subnet, "-s", &address, "-p", "tcp", "--sport", &port];
            rule(&[&["-A", &forward], &to[..], &["-j", "ACCEPT"]].concat())?;
            rule(&[&["-A", &forward], &back[..], &["-j", "ACCEPT"]].concat())?;
            rule(&[&["-t", "nat", "-A", &bridge], &to[..], &["-j", "MASQUERADE"]].concat())?;
        }
        rule(&["-A", &forward, "-s", &subnet, "-j", "DROP"])
    }

    /// Drops, or no longer drops, all that comes from a host.
    pub(crate) fn mute(self, last: u8, on: bool) -> Result<()> {
        let (chain, address) = (self.chain("INPUT"), self.address(last).to_string());
        let is = ["-s", &address, "-j", "DROP"];
        let there = command::succeeds("iptables", &[&["-w", "-C", &chain], &is[..]].concat());
        match (on, there) {
            (true, false) => rule(&[&["-A", &chain], &is[..]].concat()),
            (false, true) => rule(&[&["-D", &chain], &is[..]].concat()),
            _ => Ok(()),
        }
    }

    fn chain(self, parent: &str) -> String {
        format!("{}-{parent}", self.bridge())
    }

    /// Makes the far bridge and the delay line's ends, owned by the caller; they are up afterwards.
    pub(crate) fn make_delay_line(self) -> Result<()> {
        let far = self.far_bridge();
        if !is_link(&far) {
            command::run("ip", &["link", "add", &far, "type", "bridge"])?;
            command::run("sysctl", &["-qw", &format!("net.ipv6.conf.{far}.disable_ipv6=1")])?;
            command::run("ip", &["link", "set", &far, "up"])?;
        }
        let user = rustix::process::geteuid().as_raw().to_string();
        for (tap, bridge) in self.taps().iter().zip([self.bridge(), far]) {
            command::run("ip", &["tuntap", "add", "dev", tap, "mode", "tap", "user", &user])?;
            command::run("ip", &["link", "set", tap, "txqueuelen", "10000", "master", &bridge, "up"])?;
        }
        Ok(())
    }

    pub(crate) fn drop_delay_line(self) -> Result<()> {
        for tap in self.taps().iter().filter(|tap| is_link(tap)) {
            command::run("ip", &["link", "del", tap])?;
        }
        Ok(())
    }
}

fn alias(owner: &str) -> String {
    format!("converge-lab {owner}")
}

fn rule(args: &[&str]) -> Result<()> {
    command::run("iptables", &[&["-w"], args].concat())
}

/// Whether a link of this name exists in the machine's network namespace.
pub(crate) fn is_link(name: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(name).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names_fit_the_kernel() {
        let net = Net { number: 99 };
        for name in [net.host_link(254), net.far_bridge(), net.taps()[1].clone()] {
            assert!(name.len() <= 15, "{name}");
        }
        assert!(net.chain("FORWARD").len() <= 28);
    }

    #[test]
    fn addresses_lie_in_the_labs_own_subnet() {
        assert_eq!(Net { number: 77 }.address(11).to_string(), "10.77.0.11");
        assert_eq!(Net { number: 77 }.gateway().to_string(), "10.77.0.1");
    }
}
