//! Facts: what every host can tell about itself without tools of its own.

use serde_json::{Map, Value, json};

/// Prints `name=value` lines. POSIX shell, no changes, a few milliseconds.
pub(crate) const SCRIPT: &str = r#"
[ ! -r /etc/os-release ] || while IFS='=' read -r k v; do v=${v#\"}; v=${v%\"}; case $k in
ID|VERSION_ID|VERSION_CODENAME|PRETTY_NAME) echo "os.$k=$v";; esac; done </etc/os-release
echo "kernel=$(uname -r)"; echo "arch=$(uname -m)"; echo "hostname=$(uname -n)"
echo "cpus=$(grep -c ^processor /proc/cpuinfo 2>/dev/null)"
while read -r k v u; do case $k in MemTotal:) echo "memory_kib=$v";; esac; done </proc/meminfo
read -r pid1 </proc/1/comm && echo "init=$pid1"
for p in apt-get dnf apk zypper; do if command -v $p >/dev/null 2>&1; then echo "package_manager=$p"; break; fi; done
if command -v dpkg >/dev/null 2>&1; then echo "dpkg_arch=$(dpkg --print-architecture)"; fi
"#;

/// Makes facts of the answer. What is missing or odd is `null`.
pub(crate) fn parse(answer: &str) -> Value {
    let lines: Map<String, Value> = answer
        .lines()
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.to_owned(), json!(v.trim())))
        .collect();
    let text = |name: &str| lines.get(name).cloned().unwrap_or(Value::Null);
    let number = |name: &str| text(name).as_str().and_then(|v| v.parse::<u64>().ok());
    let manager = match text("package_manager").as_str() {
        Some("apt-get") => json!("apt"),
        _ => text("package_manager"),
    };
    json!({
        "os": {
            "id": text("os.ID"),
            "version": text("os.VERSION_ID"),
            "codename": text("os.VERSION_CODENAME"),
            "name": text("os.PRETTY_NAME"),
        },
        "kernel": text("kernel"),
        "arch": text("arch"),
        "dpkg_arch": text("dpkg_arch"),
        "hostname": text("hostname"),
        "cpus": number("cpus"),
        "memory_mib": number("memory_kib").map(|k| k / 1024),
        "init": text("init"),
        "package_manager": manager,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_typed_and_odd_answers_are_null() {
        let facts =
            parse("os.ID=debian\nos.VERSION_ID=12\ncpus=2\nmemory_kib=2048\npackage_manager=apt-get\nx\n");
        assert_eq!(facts["os"]["id"], "debian");
        assert_eq!(facts["cpus"], 2);
        assert_eq!(facts["memory_mib"], 2);
        assert_eq!(facts["package_manager"], "apt");
        assert_eq!(parse("cpus=many\n")["cpus"], Value::Null);
    }
}
