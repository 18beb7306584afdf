# What a transaction of dnf changes besides packages, and a rollback brings back: the configuration files with those that rpm lays beside them, and whether units are
# enabled and active. Kept with the run: `saved/rpm-kept` (what was before and behind its transactions) and `saved/rpm-files/SHA256`. It must not hold a single quotation mark.
import hashlib
import json
import os
import re
import stat
import subprocess
import sys

ROOT = os.environ.get("CV_ROOT", "")
SIDES = (".rpmnew", ".rpmsave", ".rpmorig")
UNIT = re.compile(r"^(?:/usr)?/lib/systemd/system/([^/@]+\.(?:service|socket|timer|path))$")
NONE = {"sort": "absent"}


def saved_of(variable):
    run = os.environ.get(variable, "")
    return os.path.join(ROOT, "runs", run, "saved") if run and ROOT else None


# Whether only root can move what lies there.
def is_safe(path):
    place = os.path.realpath(os.path.dirname(path))
    while True:
        try:
            found = os.lstat(place)
        except OSError:
            return False
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
            return False
        if place == "/":
            return True
        place = os.path.dirname(place)


# What there is, with the bytes of a file in the folder `keep`, if any.
def file_state(path, keep=None):
    try:
        found = os.lstat(path)
    except OSError:
        return NONE
    if stat.S_ISLNK(found.st_mode):
        return {"sort": "link", "to": os.readlink(path), "uid": found.st_uid, "gid": found.st_gid}
    if not stat.S_ISREG(found.st_mode):
        return {"sort": "other"}
    with open(path, "rb") as file:
        data = file.read()
    digest = hashlib.sha256(data).hexdigest()
    if keep is not None:
        write(os.path.join(keep, digest), data)
    more = {}
    try:
        for name in os.listxattr(path, follow_symlinks=False):
            more[name] = os.getxattr(path, name, follow_symlinks=False).hex()
    except OSError:
        pass
    mode = stat.S_IMODE(found.st_mode)
    return {"sort": "file", "sha256": digest, "mode": mode, "uid": found.st_uid, "gid": found.st_gid, "xattrs": more}


def write(path, data, state=None):
    new = path + ".converge-new"
    if os.path.lexists(new):
        os.unlink(new)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        if state is not None:
            os.fchown(file.fileno(), state["uid"], state["gid"])
            os.fchmod(file.fileno(), state["mode"])
            for name, value in state["xattrs"].items():
                os.setxattr(file.fileno(), name, bytes.fromhex(value))
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)


def put(path, state, keep):
    if state["sort"] == "absent":
        os.unlink(path)
    elif state["sort"] == "link":
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(state["to"], path)
        os.lchown(path, state["uid"], state["gid"])
    else:
        kept = [os.path.join(folder, state["sha256"]) for folder in keep]
        with open([name for name in kept if os.path.isfile(name)][0], "rb") as file:
            write(path, file.read(), state)


def unit_states(names):
    states = {name: ["absent", "-"] for name in names}
    if not names or not os.path.isdir("/run/systemd/system"):
        return {}
    command = ["systemctl", "show", "-p", "Id,LoadState,UnitFileState,ActiveState", "--"] + sorted(names)
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, universal_newlines=True).stdout
    for block in said.split("\n\n"):
        words = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if words.get("Id") in states and words.get("LoadState") not in ("not-found", None):
            states[words["Id"]] = [words.get("UnitFileState") or "-", words.get("ActiveState") or "-"]
    return states


class Kept:
    # `headers`: of all packages that come or go.
    def __init__(self, headers):
        import rpm

        self.paths, self.units = set(), set()
        for header in headers:
            for file in rpm.files(header):
                unit = UNIT.match(file.name)
                if unit:
                    self.units.add(unit.group(1))
                ghost = file.fflags & rpm.RPMFILE_GHOST and file.name.startswith("/etc/")
                if (file.fflags & rpm.RPMFILE_CONFIG or ghost) and is_safe(file.name):
                    self.paths.add(file.name)
        self.folder, self.source = saved_of("CV_RUN"), saved_of("CV_FROM_RUN")
        self.old = self.read(self.source)
        self.paths.update(path for path in self.old["files"] if not path.endswith(SIDES))
        self.units.update(self.old["units"])

    def read(self, folder):
        try:
            with open(os.path.join(folder or "", "rpm-kept")) as file:
                return json.load(file)
        except (OSError, ValueError):
            return {"files": {}, "units": {}}

    def look(self, keep=None):
        every = [path + side for path in self.paths for side in ("",) + SIDES]
        return {path: file_state(path, keep) for path in every}, unit_states(self.units)

    # Before the transaction: it does not begin where something cannot be kept.
    def begin(self):
        keep = None
        if self.folder is not None:
            keep = os.path.join(self.folder, "rpm-files")
            os.makedirs(keep, 0o700, exist_ok=True)
        self.files, self.states = self.look(keep)
        self.note(self.files, self.states)

    # What changed, the first state before and the last one behind.
    def note(self, files, states):
        if self.folder is None:
            return
        kept = self.read(self.folder)
        for known, before, behind in (kept["files"], self.files, files), (kept["units"], self.states, states):
            for key, state in behind.items():
                first = known[key]["before"] if key in known else before[key]
                known[key] = {"before": first, "after": state}
        write(os.path.join(self.folder, "rpm-kept"), json.dumps(kept).encode())

    # Behind the transaction. Yields what people should know.
    def end(self):
        self.restored = set()
        if self.old["files"] or self.old["units"]:
            yield from self.restore_files()
            yield from self.restore_units()
        files, states = self.look()
        for path in sorted(files):
            if files[path] != self.files[path] and files[path]["sort"] == "file" and path not in self.restored:
                own, _, side = path.rpartition(".")
                if side == "rpmnew":
                    yield "kept the edited %s; the one of the package is beside it as %s" % (own, path)
                elif side in ("rpmsave", "rpmorig"):
                    why = "was edited" if side == "rpmsave" else "was there before its package"
                    yield "%s %s, and the transaction has put it aside as %s" % (own, why, path)
        self.note(files, states)

    # A file that is as the run which is being reverted has left it becomes what it was before. Of one that has been changed since only what rpm has laid beside it goes,
    # and only where its bytes are kept.
    def restore_files(self):
        # What the run has not changed is kept with this one.
        keep = [os.path.join(folder, "rpm-files") for folder in (self.source, self.folder) if folder is not None]
        try:
            with open(os.path.join(os.path.dirname(self.source), "journal"), errors="replace") as file:
                known = set(re.findall(r"\b[0-9a-f]{64}\b", file.read()))
        except OSError:
            known = set()
        for entry in self.old["files"].values():
            known.update(entry[which].get("sha256") for which in ("before", "after"))
        for path in sorted(self.old["files"]):
            before, after = self.old["files"][path]["before"], self.old["files"][path]["after"]
            now = file_state(path)
            if now == before or self.files.get(path) != after or "other" in (before["sort"], now["sort"]) or not is_safe(path):
                continue
            if path.endswith((".rpmsave", ".rpmorig")) and now["sort"] == "file" and now["sha256"] not in known:
                continue
            try:
                put(path, before, keep)
                self.restored.add(path)
            except (OSError, IndexError) as error:
                yield "%s is not as it was before the run: %s" % (path, error)

    def restore_units(self):
        now = unit_states(self.old["units"])
        if any(state[0] != "absent" for state in now.values()):
            subprocess.run(["systemctl", "daemon-reload"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            now = unit_states(self.old["units"])
        for name in sorted(now):
            before, after = self.old["units"][name]["before"], self.old["units"][name]["after"]
            if self.states.get(name) != after or "absent" in (before[0], now[name][0]):
                continue
            verbs = []
            if {before[0], now[name][0]} == {"enabled", "disabled"}:
                verbs.append("enable" if before[0] == "enabled" else "disable")
            runs = {"active": True, "activating": True, "reloading": True, "inactive": False, "failed": False}
            was, runs = runs.get(before[1]), runs.get(now[name][1])
            if was is not None and runs is not None and was != runs:
                verbs.append("start" if was else "stop")
            for verb in verbs:
                command = ["systemctl", "-q", verb, "--", name]
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=120)
                if done.returncode:
                    yield "%s is not as it was before the run: systemctl %s: %s" % (name, verb, " ".join(done.stdout.split()))
