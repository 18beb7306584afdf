//! IP addresses: `ipaddr` and its relatives, as in the collection `ansible.utils`.

use std::net::IpAddr;

use ipnet::IpNet;
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::collections::items;
use super::invalid;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("ipaddr", |value: Value, query: Option<Value>| ipaddr(&value, query.as_ref(), None));
    env.add_filter("ipv4", |value: Value, query: Option<Value>| ipaddr(&value, query.as_ref(), Some(4)));
    env.add_filter("ipv6", |value: Value, query: Option<Value>| ipaddr(&value, query.as_ref(), Some(6)));
    env.add_filter("ipwrap", ipwrap);
    env.add_filter("ipsubnet", ipsubnet);
    env.add_filter("nthhost", nthhost);
    env.add_filter("cidr_merge", cidr_merge);
    env.add_filter("network_in_usable", |net: String, inner: String| inside(&net, &inner, true));
    env.add_filter("network_in_network", |net: String, inner: String| inside(&net, &inner, false));
    env.add_filter("ipmath", ipmath);
    env.add_test("ip", |value: Value| value.as_str().is_some_and(|text| parse(text).is_some()));
    env.add_test("ip_address", |value: Value| {
        value.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok())
    });
    env.add_test("ipv4_address", |value: Value| {
        value.as_str().is_some_and(|text| text.parse::<std::net::Ipv4Addr>().is_ok())
    });
    env.add_test("ipv6_address", |value: Value| {
        value.as_str().is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
    });
    env.add_test("in_network", |value: String, net: String| inside(&net, &value, false));
}

/// An address with its prefix, and whether the prefix was written.
#[derive(Clone, Copy)]
struct PrefixedAddress {
    net: IpNet,
    written: bool,
}

fn parse(text: &str) -> Option<PrefixedAddress> {
    let text = text.trim();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(PrefixedAddress { net: IpNet::from(address), written: false });
    }
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix = match prefix.parse::<u8>() {
        Ok(prefix) => prefix,
        // 255.255.255.0
        Err(_) => ipnet::ip_mask_to_prefix(prefix.parse().ok()?).ok()?,
    };
    Some(PrefixedAddress { net: IpNet::new(address, prefix).ok()?, written: true })
}

impl PrefixedAddress {
    fn number(&self) -> u128 {
        number(self.net.addr())
    }

    fn is_network(&self) -> bool {
        self.net.addr() == self.net.network()
    }

    fn text(&self) -> String {
        if self.written { self.net.to_string() } else { self.net.addr().to_string() }
    }

    fn size(&self) -> u128 {
        let bits = u32::from(self.net.max_prefix_len() - self.net.prefix_len());
        1_u128.checked_shl(bits).unwrap_or(u128::MAX)
    }

    /// The address at a place in the network; from its end for negative ones.
    fn at(&self, index: i128) -> Option<IpAddr> {
        let offset =
            if index < 0 { self.size().checked_sub(index.unsigned_abs())? } else { index.unsigned_abs() };
        (offset < self.size())
            .then(|| address(number(self.net.network()) + offset, self.net.addr().is_ipv6()))
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address(number: u128, six: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if !six => IpAddr::V4(number.into()),
        _ => IpAddr::V6(number.into()),
    }
}

/// Of a list, the members for which the test holds; of one value, the value itself, the requested part, or false.
fn ipaddr(value: &Value, query: Option<&Value>, version: Option<u8>) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let mut found = Vec::new();
        for item in items(value)? {
            let answer = ipaddr(&item, query, version)?;
            if answer.kind() != ValueKind::Bool || answer.is_true() {
                found.push(answer);
            }
        }
        return Ok(found.into());
    }
    let no = Value::from(false);
    let place = match value.kind() {
        ValueKind::Bool => return Ok(no),
        ValueKind::Number => u128::try_from(value.clone()).ok().map(|number| PrefixedAddress {
            net: address(number, version == Some(6)).into(),
            written: false,
        }),
        _ => parse(&value.to_string()),
    };
    let Some(place) = place.filter(|place| version.is_none_or(|v| (v == 6) == place.net.addr().is_ipv6()))
    else {
        return Ok(no);
    };
    let text = |text: String| Value::from(text);
    let Some(query) = query.filter(|query| !query.to_string().is_empty()) else {
        return Ok(text(place.text()));
    };
    let net = place.net;
    if let (true, Ok(index)) = (query.is_integer(), i128::try_from(query.clone())) {
        return Ok(place.at(index).map_or(no, |at| text(format!("{at}/{}", net.prefix_len()))));
    }
    let query = query.to_string();
    if let Ok(index) = query.parse::<i128>() {
        return Ok(place.at(index).map_or(no, |at| text(format!("{at}/{}", net.prefix_len()))));
    }
    let when = |holds: bool, value: String| if holds { text(value) } else { Value::from(false) };
    let single = net.prefix_len() == net.max_prefix_len();
    Ok(match query.as_str() {
        "address" | "ip" => when(!place.written || single || !place.is_network(), net.addr().to_string()),
        "host" | "address/prefix" => when(single || !place.is_network(), net.to_string()),
        "net" => when(!single && place.is_network(), net.to_string()),
        "network" | "network_id" => text(net.network().to_string()),
        "network/prefix" | "subnet" | "cidr" if query != "cidr" => text(net.trunc().to_string()),
        "cidr" => text(place.text()),
        "network_netmask" | "netmask" => text(net.netmask().to_string()),
        "hostmask" | "wildcard" => text(net.hostmask().to_string()),
        "broadcast" => when(!single && net.addr().is_ipv4(), net.broadcast().to_string()),
        "prefix" => Value::from(net.prefix_len()),
        "size" => place.size().into(),
        "int" => place.number().into(),
        "version" | "type" if query == "version" => Value::from(if net.addr().is_ipv4() { 4 } else { 6 }),
        "type" => text(if single || !place.is_network() { "address" } else { "network" }.to_owned()),
        "first_usable" | "last_usable" => {
            let size = i128::try_from(place.size()).unwrap_or(i128::MAX);
            let index = match (query.as_str(), size) {
                (_, 1) => 0,
                ("first_usable", 2) => 0,
                (_, 2) => 1,
                ("first_usable", _) => 1,
                _ => size - 2,
            };
            place.at(index).map_or(no, |at| text(at.to_string()))
        }
        "revdns" => text(revdns(net.addr())),
        "4" | "ipv4" => when(net.addr().is_ipv4(), place.text()),
        "6" | "ipv6" => when(net.addr().is_ipv6(), place.text()),
        "private" => when(is_private(net.addr()), place.text()),
        "public" => when(!is_private(net.addr()) && !net.addr().is_multicast(), place.text()),
        "loopback" => when(net.addr().is_loopback(), place.text()),
        "multicast" => when(net.addr().is_multicast(), place.text()),
        "link-local" | "lladdr" => when(is_link_local(net.addr()), place.text()),
        "bool" => Value::from(true),
        other => match parse(other) {
            // A network: is the address in it?
            Some(outer) => when(outer.net.trunc().contains(&net), place.text()),
            None => {
                return Err(invalid(format!(
                    "ipaddr: there is no query `{other}`; known are address, net, network, netmask, hostmask, broadcast, prefix, \
                     size, subnet, cidr, host, int, version, type, first_usable, last_usable, revdns, private, public, loopback, \
                     multicast, link-local, a number, a network"
                )));
            }
        },
    })
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.octets().first().is_some_and(|first| first & 0xfe == 0xfc),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments().first().is_some_and(|first| first & 0xffc0 == 0xfe80),
    }
}

fn revdns(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let digits = format!("{:032x}", u128::from(address));
            let reversed: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa.", reversed.join("."))
        }
    }
}

/// IPv6 addresses in brackets, everything else as it is.
fn ipwrap(value: Value) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(items(&value)?.into_iter().map(ipwrap).collect::<Result<Vec<_>, _>>()?.into());
    }
    Ok(match value.as_str().and_then(parse) {
        Some(place) if place.net.addr().is_ipv6() && place.written => {
            Value::from(format!("[{}]/{}", place.net.addr(), place.net.prefix_len()))
        }
        Some(place) if place.net.addr().is_ipv6() => Value::from(format!("[{}]", place.net.addr())),
        _ => value,
    })
}

/// The number of networks of a length in a network, or the one at an index; without a length the network itself.
fn ipsubnet(value: String, query: Option<Value>, index: Option<i128>) -> Result<Value, Error> {
    let no = Value::from(false);
    let Some(place) = parse(&value) else { return Ok(no) };
    let Some(query) = query.filter(|query| !query.to_string().is_empty()) else {
        return Ok(Value::from(place.net.trunc().to_string()));
    };
    let query = query.to_string();
    let Ok(length) = query.parse::<u8>() else {
        let outer = parse(&query)
            .ok_or_else(|| invalid(format!("ipsubnet: `{query}` is neither a length nor a network")))?;
        return Ok(match outer.net.contains(&place.net) {
            // The network's place in the other one, from 1.
            true if place.net.prefix_len() >= outer.net.prefix_len() => {
                let bits = u32::from(place.net.max_prefix_len() - place.net.prefix_len());
                let distance = number(place.net.network()) - number(outer.net.network());
                Value::from((distance.checked_shr(bits).unwrap_or(0) + 1).to_string())
            }
            _ => no,
        });
    };
    if length > place.net.max_prefix_len() {
        return Ok(no);
    }
    if length < place.net.prefix_len() {
        // The network around it.
        let around = IpNet::new(place.net.addr(), length).map_err(|error| invalid(error.to_string()))?;
        return Ok(Value::from(around.trunc().to_string()));
    }
    let count = 1_u128.checked_shl(u32::from(length - place.net.prefix_len())).unwrap_or(u128::MAX);
    let Some(index) = index else { return Ok(Value::from(count.to_string())) };
    let at = if index < 0 { count.checked_sub(index.unsigned_abs()) } else { Some(index.unsigned_abs()) };
    let Some(at) = at.filter(|at| *at < count) else { return Ok(no) };
    let bits = u32::from(place.net.max_prefix_len() - length);
    let start = number(place.net.network()) + at.checked_shl(bits).unwrap_or(0);
    Ok(Value::from(format!("{}/{length}", address(start, place.net.addr().is_ipv6()))))
}

fn nthhost(value: String, index: i128) -> Value {
    parse(&value)
        .and_then(|place| place.at(index))
        .map_or(Value::from(false), |at| Value::from(at.to_string()))
}

/// The fewest networks that are the same addresses (`merge`), or the one around them all (`span`).
fn cidr_merge(list: Value, action: Option<String>) -> Result<Value, Error> {
    let mut nets = Vec::new();
    for item in items(&list)? {
        let text = item.to_string();
        nets.push(parse(&text).ok_or_else(|| invalid(format!("cidr_merge: `{text}` is no address")))?.net);
    }
    match action.as_deref().unwrap_or("merge") {
        "merge" => {
            let mut merged = IpNet::aggregate(&nets);
            merged.sort();
            Ok(merged.iter().map(|net| Value::from(net.to_string())).collect())
        }
        "span" => {
            let Some(first) = nets.first() else { return Ok(Value::from(())) };
            let mut around = first.trunc();
            while !nets.iter().all(|net| around.contains(net)) {
                around = around.supernet().ok_or_else(|| invalid("cidr_merge: no network spans them all"))?;
            }
            Ok(Value::from(around.to_string()))
        }
        other => Err(invalid(format!("cidr_merge: there is no action `{other}`; write merge or span"))),
    }
}

fn inside(net: &str, inner: &str, usable: bool) -> Result<bool, Error> {
    let read = |text: &str| parse(text).ok_or_else(|| invalid(format!("`{text}` is no network")));
    let (net, inner) = (read(net)?, read(inner)?);
    if !net.net.trunc().contains(&inner.net) {
        return Ok(false);
    }
    let edges = [net.net.network(), net.net.broadcast()];
    Ok(!usable
        || net.size() <= 2
        || !(edges.contains(&inner.net.network()) || edges.contains(&inner.net.broadcast())))
}

fn ipmath(value: String, by: i128) -> Result<String, Error> {
    let place = parse(&value).ok_or_else(|| invalid(format!("ipmath: `{value}` is no address")))?;
    let six = place.net.addr().is_ipv6();
    let moved = if by < 0 {
        place.number().checked_sub(by.unsigned_abs())
    } else {
        place.number().checked_add(by.unsigned_abs())
    };
    let moved = moved.filter(|moved| six || u32::try_from(*moved).is_ok());
    let moved = moved.ok_or_else(|| invalid(format!("ipmath: there is no address {by} from {value}")))?;
    Ok(address(moved, six).to_string())
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    /// The examples of the collection's documentation.
    #[test]
    fn addresses() {
        table(&[
            ("'192.0.2.0' | ipaddr", "192.0.2.0"),
            ("'192.168.256.1' | ipaddr", "false"),
            (
                "['192.24.2.1', 'host.fqdn', '::1', '192.168.32.0/24', 'fe80::100/10', true] | ipaddr",
                "[192.24.2.1, '::1', 192.168.32.0/24, 'fe80::100/10']",
            ),
            ("['192.24.2.1', '::1'] | ipv4", "[192.24.2.1]"),
            ("['192.24.2.1', '::1'] | ipv6", "['::1']"),
            ("'192.0.2.1/24' | ipaddr('address')", "192.0.2.1"),
            ("'192.0.2.1/24' | ipaddr('network')", "192.0.2.0"),
            ("'192.0.2.1/24' | ipaddr('netmask')", "255.255.255.0"),
            ("'192.0.2.1/255.255.255.0' | ipaddr('prefix')", "24"),
            ("'192.0.2.1/24' | ipaddr('broadcast')", "192.0.2.255"),
            ("'192.0.2.1/24' | ipaddr('subnet')", "192.0.2.0/24"),
            ("'192.0.2.1/24' | ipaddr('size')", "256"),
            ("'192.0.2.0/24' | ipaddr('1')", "192.0.2.1/24"),
            ("'192.0.2.0/24' | ipaddr(-1)", "192.0.2.255/24"),
            ("'192.0.2.0/24' | ipaddr('net')", "192.0.2.0/24"),
            ("'192.0.2.1/24' | ipaddr('net')", "false"),
            ("'192.0.2.0/24' | ipaddr('first_usable')", "192.0.2.1"),
            ("'192.0.2.0/24' | ipaddr('last_usable')", "192.0.2.254"),
            ("'192.0.2.1' | ipaddr('revdns')", "1.2.0.192.in-addr.arpa."),
            ("'192.0.2.1' | ipaddr('192.0.0.0/16')", "192.0.2.1"),
            ("'10.1.1.1' | ipaddr('private')", "10.1.1.1"),
            ("'192.0.2.1' | ipaddr('int')", "3221225985"),
            ("'1.2.3.4' | ipaddr('nope')", "!no query"),
            ("['::1', '2001:db8::/32', '10.0.0.1'] | ipwrap", "['[::1]', '[2001:db8::]/32', 10.0.0.1]"),
            ("'192.168.144.0/20' | ipsubnet(26)", "'64'"),
            ("'192.168.144.0/20' | ipsubnet(26, 0)", "192.168.144.0/26"),
            ("'192.168.144.0/20' | ipsubnet(26, -1)", "192.168.159.192/26"),
            ("'192.168.144.16/20' | ipsubnet", "192.168.144.0/20"),
            ("'192.168.144.5' | ipsubnet(18)", "192.168.128.0/18"),
            ("'10.0.0.0/8' | nthhost(305)", "10.0.1.49"),
            ("'10.0.0.0/8' | nthhost(-1)", "10.255.255.255"),
            ("['192.168.0.0/17', '192.168.128.0/17', '192.168.128.1'] | cidr_merge", "[192.168.0.0/16]"),
            ("['192.168.0.0/24', '192.168.3.0/24'] | cidr_merge('span')", "192.168.0.0/22"),
            ("'192.168.0.0/24' | network_in_usable('192.168.0.1')", "true"),
            ("'192.168.0.0/24' | network_in_usable('192.168.0.255')", "false"),
            ("'192.168.0.0/24' | network_in_network('192.168.0.1')", "true"),
            ("'192.168.1.5' | ipmath(10)", "192.168.1.15"),
            ("'192.168.1.5' | ipmath(-10)", "192.168.0.251"),
            ("'10.0.0.1' is ip_address and not 'x' is ip", "true"),
        ]);
    }
}
