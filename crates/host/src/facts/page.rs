//! The page `docs/facts.md`, from the types.

use serde_json::Value;

/// The reference page of all facts, in Markdown.
pub fn facts_page() -> String {
    let schema = super::facts_schema();
    let mut page = format!(
        "# Facts\n\nWritten by `cargo xtask generate` from the code.\n\n{}\n\n{INTRODUCTION}\n## All facts\n\n\
         | fact | type | meaning |\n|---|---|---|\n",
        text(&schema)
    );
    rows(&schema, &schema, "", &mut page);
    page
}

const INTRODUCTION: &str = "\
Facts of a host travel with the first questions to it, in one round trip. Most cost a few milliseconds. `nvidia`, `amd`, \
`containerd`, `docker`, `kubelet` and `kubernetes` run programs of the host and are asked only where the text of a role that runs there, its \
templates or a variable names them (or hands `facts` on as a whole), or one on another host or cluster that reads this host's facts.

```yaml
resources:
  - name: pages for pinned buffers
    when: facts.nvidia.count > 0 and not facts.nvidia.gpus[0].unified_memory
    sysctl: {name: vm.nr_hugepages, value: \"{{ facts.memory_mib // 64 }}\"}
```

`converge facts INVENTORY` shows them, with identical output of hosts grouped; `converge facts INVENTORY nvidia.gpus[0].name` shows one. \
Facts are data: a host that says `{{ … }}` is quoted, never rendered.

## The moment of a fact

`facts` has the values of the moment in which an item runs; `facts_before` those from before the run. They differ behind an item of the same run that alters a fact:

* What a parameter determines is predicted: behind `hostname: {name: gpu-1}` the plan shows what `facts.hostname` gives then.
* What a change is known to alter and nobody can know before is deferred: behind a package transaction that brings containerd, an item that reads \
`facts.containerd` waits for it and is resolved when its turn comes. So it is behind the unit or the configuration file of such a program, a mount, swap, huge pages, \
the kernel module of a GPU, kubeadm and a restart of the host. Behind a text file nothing waits.
* Other foreign code (a maintainer script, a command, the start of a unit) may alter any fact. The host compares the facts that later items read just before and just \
after it. When one has moved, the rest is planned anew; when none has, that costs no round trip.

A list of `for_each` must be known when the plan is made: one that reads a fact which the run alters is an error. A role whose items depend on what a host \
*was*, such as the steps of an upgrade, reads `facts_before`.

## Facts of other hosts

`hostvars[HOST].facts` are the facts of any host of the inventory. Nothing has to gather them before, and a template may go over many hosts:

```jinja
{% for h in groups['all'] %}
{{ hostvars[h].facts.network.ipv4.address }} {{ h }}
{% endfor %}
```

Hosts outside `--limit` are asked too, and nothing is changed there. Where a host of the run alters the fact, the order of the roles decides, and in a role the order \
of its resources: `name` comes before `hosts` on every host of `roles: [name, hosts]`.

* Behind what the other host alters before, the value is the new one: predicted in the plan, or deferred until the other host has made the change. The resource is not begun before \
that, and is skipped where the other host fails in it or is lost.
* What the other host alters later has its value from before the run. A note in the plan names the resource that changes it; the next run has the new value. So hosts never wait for each \
other in a circle. To get the new value, put what alters the fact into an earlier role.
* What other foreign code (a command) alters on the other host is seen by the next run.

A resource that reads a fact of a host that cannot be reached, or is in maintenance, is blocked and names the host; other resources go on. Variables of the inventory need no contact: \
`hostvars[HOST].ansible_host`.

`containerd` is the one that runs: its command line names the configuration, and `containerd config dump` of the same program gives the socket, the runtimes and their \
drivers of control groups. Of several the one of k8s-snap, k3s or RKE2 comes before that of a package, and dockerd's own last.

On machines with unified memory (DGX Spark, GB10) nvidia-smi gives no memory: `memory_mib` of the GPU is null, `unified_memory` is true, and \
`facts.memory_mib` is what GPU and processors share. Where nvidia-smi fails, `nvidia.problem` says why, and model, UUID and driver come from \
the kernel module. AMD's part was written from the documentation of the amdgpu module, amd-smi and rocm-smi, and was not tried on such a GPU.
";

fn text(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// The schema behind `$ref` and behind the null of an optional one.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let some = |s: &&'a Value| s.get("type").and_then(Value::as_str) != Some("null");
    let inner = schema.get("anyOf").and_then(Value::as_array).and_then(|all| all.iter().find(some));
    let schema = inner.unwrap_or(schema);
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
    target.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

fn type_of(schema: &Value) -> &str {
    let first =
        |types: &'_ Value| types.as_array().and_then(|all| all.first()).and_then(Value::as_str).map(str::len);
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(types) if first(types).is_some() => types.get(0).and_then(Value::as_str).unwrap_or("any"),
        _ => "any",
    }
}

fn rows(root: &Value, schema: &Value, prefix: &str, page: &mut String) {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let inner = resolved(root, property);
        let path = format!("{prefix}{name}");
        let (shown, items) = match (type_of(inner), inner.get("items")) {
            ("array", Some(items)) => {
                let items = resolved(root, items);
                let of = if items.get("properties").is_some() { "objects" } else { type_of(items) };
                (format!("list of {of}"), Some(items))
            }
            (name, _) => (name.to_owned(), None),
        };
        page.push_str(&format!("| `{path}` | {shown} | {} |\n", text(property).replace('\n', " ")));
        match items {
            Some(items) => rows(root, items, &format!("{path}[]."), page),
            None => rows(root, inner, &format!("{path}."), page),
        }
    }
}
