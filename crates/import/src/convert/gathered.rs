//! service_facts, package_facts, getent: facts that a task gathers, in the structure that Ansible gives them; and those of the beginning that a
//! question gives.

use super::params::param;
use super::{Context, Conversion, Params, shell_text};
use crate::expression::ImportProblem;
use crate::task::Task;
use converge_syntax::Node;

/// A module that gathers a fact.
pub(crate) struct GatheredFact {
    pub module: &'static str,
    /// The database that the module is given, where it takes one.
    pub database: Option<&'static str>,
    pub fact: &'static str,
    /// The name of the answer here.
    pub register: &'static str,
    /// The script that gives the fact in JSON.
    pub run: &'static str,
}

/// The modules that gather a fact.
pub(crate) const GATHERED: &[GatheredFact] = &[
    GatheredFact {
        module: "service_facts",
        database: None,
        fact: "services",
        register: "gathered_services",
        run: SERVICES,
    },
    GatheredFact {
        module: "package_facts",
        database: None,
        fact: "packages",
        register: "gathered_packages",
        run: PACKAGES,
    },
    GatheredFact {
        module: "getent",
        database: Some("passwd"),
        fact: "getent_passwd",
        register: "gathered_passwd",
        run: ENTRIES,
    },
    GatheredFact {
        module: "getent",
        database: Some("group"),
        fact: "getent_group",
        register: "gathered_group",
        run: ENTRIES,
    },
    GatheredFact {
        module: "getent",
        database: Some("shadow"),
        fact: "getent_shadow",
        register: "gathered_shadow",
        run: ENTRIES,
    },
];

/// The fact that a task gathers.
pub(crate) fn gathered_by(task: &Task) -> Option<&'static GatheredFact> {
    let database = task.args.get("database").and_then(Node::scalar_text);
    GATHERED.iter().find(|known| {
        known.module == task.module && known.database.is_none_or(|own| database.as_deref() == Some(own))
    })
}

/// SELinux, as Ansible finds it in the beginning on a system that has its library: Debian's `dpkg` needs that.
pub(crate) const SELINUX: GatheredFact = GatheredFact {
    module: "setup",
    database: None,
    fact: "selinux",
    register: "gathered_selinux",
    run: r#"if ! [ -e /sys/fs/selinux/enforce ]; then echo '{"status": "disabled"}'; exit 0; fi
of() { sed -n "s/^ *$1 *= *\([a-z]*\).*/\1/p" /etc/selinux/config 2>/dev/null | tail -n 1; }
if [ "$(cat /sys/fs/selinux/enforce)" = 1 ]; then mode=enforcing; else mode=permissive; fi
printf '{"status": "enabled", "mode": "%s", "policyvers": %s, "config_mode": "%s", "type": "%s"}' \
  "$mode" "$(cat /sys/fs/selinux/policyvers)" "$(of SELINUX)" "$(of SELINUXTYPE)""#,
};

/// Entries of a database with fields behind colons, by the first of them. `@` is the database, with a key behind it or without.
const ENTRIES: &str = r#"entries=$(getent @) || exit
printf '%s\n' "$entries" | awk -F: '
function e(t) { gsub(/["\\]/, "\\\\&", t); gsub(/[\001-\037]/, " ", t); return t }
BEGIN { printf "{" }
NF && !($1 in seen) { seen[$1]; printf "%s\"%s\":[", (c++ ? "," : ""), e($1)
  for (i = 2; i <= NF; i++) printf "%s\"%s\"", (i > 2 ? "," : ""), e($i)
  printf "]" }
END { print "}" }'"#;

/// Services of init scripts, then systemd's: the state of each unit, and the one of its file where that says more.
const SERVICES: &str = r#"{ if command -v service >/dev/null; then service --status-all 2>/dev/null | sed -n 's/^ *\[ \([+-]\) \] */sysv \1 /p'; fi
systemctl list-units --no-pager --no-legend --type service --all --plain | sed -n '/\.service/s/^/unit /p'
systemctl list-unit-files --no-pager --no-legend --type service --all | sed -n '/\.service/s/^/file /p'; } | awk -v q="'" '
function e(t) { gsub(/["\\]/, "\\\\&", t); return t }
function add(n, now, from) { if (!(n in source)) names[++count] = n; state[n] = now; source[n] = from }
function is_bad(t) { return t == "not-found" || t == "masked" || t == "failed" }
$1 == "sysv" { add($3, $2 == "+" ? "running" : "stopped", "sysv") }
$1 == "unit" { add($2, $5 == "running" ? "running" : "stopped", "systemd"); status[$2] = $4
  for (i = 2; i < NF; i++) if (is_bad($i)) { status[$2] = $i; break } }
$1 == "file" && !($2 in source) { now = "unknown"; ask = "systemctl show " q $2 q " --property=ActiveState 2>/dev/null"
  if ((ask | getline line) > 0) { sub(/^ActiveState=/, "", line); now = line }
  close(ask); add($2, now, "systemd"); status[$2] = $3; next }
$1 == "file" && !is_bad(status[$2]) { status[$2] = $3 }
END { printf "{"
  for (i = 1; i <= count; i++) { n = names[i]; printf "%s\"%s\":{\"name\":\"%s\",\"state\":\"%s\",\"source\":\"%s\"", (i > 1 ? "," : ""), e(n), e(n), state[n], source[n]
    if (n in status) printf ",\"status\":\"%s\"", status[n]
    printf "}" }
  print "}" }'"#;

/// Packages that dpkg has, those of another architecture with its name.
const PACKAGES: &str = r#"dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n' | awk -F '\t' -v own="$(dpkg --print-architecture)" '
BEGIN { printf "{" }
$1 != "config-files" && $1 != "not-installed" { n = ($4 == own || $4 == "all") ? $2 : $2 ":" $4
  printf "%s\"%s\":[{\"name\":\"%s\",\"version\":\"%s\",\"arch\":\"%s\",\"source\":\"apt\"}]", (c++ ? "," : ""), n, n, $3, $4 }
END { print "}" }'"#;

/// A question whose answer stands for the fact from here on.
pub(super) fn gather(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    let manager = params.take(&["manager"]).map(|node| node.to_json().to_string()).unwrap_or_default();
    if !["", "\"auto\"", "\"apt\"", "[\"auto\"]", "[\"apt\"]"].contains(&manager.as_str()) {
        return Err(ImportProblem::new(
            format!("`manager: {manager}` asks for packages of another sort"),
            "write `query`",
        ));
    }
    params.ignore(&["strategy"]);
    let database = params.text(&["database"]);
    let key = params.text(&["key"]);
    let split = params.text(&["split"]);
    let known =
        GATHERED.iter().find(|known| known.module == params.module && known.database == database.as_deref());
    if let (Some(database), None) = (&database, known) {
        return Err(ImportProblem::new(
            format!("`getent` reads the database `{database}`"),
            "write `query` with getent",
        ));
    }
    if split.is_some_and(|split| split != ":") {
        return Err(ImportProblem::new(
            "`split` takes the fields apart in another way",
            "write `query` with getent",
        ));
    }
    params.finish("query")?;
    let Some(known) = known.filter(|known| context.read_facts.contains(known.fact)) else {
        return Ok(Conversion { left_out: Some("left out"), ..Conversion::default() });
    };
    if context.has_loop || context.register.is_some() {
        return Err(ImportProblem::new(
            "the gathered facts are registered too",
            "write `query`, and read its answer",
        ));
    }
    let of = database.unwrap_or_default();
    let of = key.map_or_else(|| of.clone(), |key| format!("{of} {}", shell_text::word(&key)));
    let mut all =
        Conversion::one("query", vec![param("run", known.run.replace('@', &of)), param("json", true)]);
    all.made.iter_mut().for_each(|made| made.registers = true);
    Ok(all)
}
