# What dnf would do, and does: the program behind package_rpm.sh, for dnf 4, whose own Python runs it. It must not hold a single quotation mark.
import os
import re
import sys

OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
CACHE = "/var/lib/dnf/history.sqlite"
ROOT = os.environ.get("CV_ROOT", "")


def say(*words):
    OUT.write(" ".join(words) + "\n")


SCRATCH = []


class Host:
    # From the cache of the repositories alone, unless `asks`. Nothing is written, its history and its log neither, unless `writes`. Versions of packages that are
    # `released` may change although they are locked.
    def __init__(self, asks, writes=False, released=()):
        import dnf
        import dnf.repo
        import dnf.rpm

        self.dnf = dnf
        self.base = base = dnf.Base()
        base.conf.read()
        base.conf.cachedir = base.conf.system_cachedir
        if not writes:
            self.write_nothing()
        base.conf.substitutions.update_from_etc(base.conf.installroot)
        # Only what is asked for is done.
        base.conf.clean_requirements_on_remove = False
        base.conf.install_weak_deps, self.weak = False, base.conf.install_weak_deps
        base.init_plugins()
        base.pre_configure_plugins()
        base.read_all_repos()
        base.configure_plugins()
        self.has_locks = release_locks(base, released)
        self.ages, self.lacking = [], []
        for repo in list(base.repos.iter_enabled()):
            if not asks:
                repo._repo.setSyncStrategy(dnf.repo.SYNC_ONLY_CACHE)
                try:
                    repo.load()
                    self.ages.append(repo._repo.getAge())
                except dnf.exceptions.RepoError:
                    self.lacking.append(repo.id)
                    repo.disable()
        base.fill_sack(load_available_repos="auto" if asks else True)
        substitutions = base.conf.substitutions
        self.arches = [substitutions["arch"], substitutions["basearch"], "noarch"]

    def write_nothing(self):
        import glob
        import shutil
        import tempfile

        scratch = tempfile.mkdtemp(prefix="converge-plan.", dir="/run" if os.access("/run", os.W_OK) else None)
        SCRATCH.append(scratch)
        conf = self.base.conf
        for path in glob.glob(glob_of(conf.persistdir) + "/history.sqlite*"):
            if os.access(path, os.R_OK):
                shutil.copyfile(path, os.path.join(scratch, os.path.basename(path)))
        conf.logdir = conf.persistdir = scratch
        if os.geteuid() != 0:
            cache = os.path.join(scratch, "cache")
            os.mkdir(cache)
            for path in glob.glob(glob_of(conf.system_cachedir) + "/*"):
                os.symlink(path, os.path.join(cache, os.path.basename(path)))
            conf.cachedir = cache

    # All packages, also those that dnf is told to leave alone.
    def every(self):
        import hawkey

        return self.base.sack.query(flags=hawkey.IGNORE_EXCLUDES)

    # The refusal of packages that dnf is told to leave alone, in words that say where.
    def excluded(self, packages):
        return Refused("\n".join(sorted({self.why_excluded(package) for package in packages})))

    def why_excluded(self, package):
        import fnmatch

        lock = lock_of(package.name)
        if lock is not None:
            where = "%s is held by `%s` in %s (versionlock): " % (package.name, lock, lock_list())
            return where + "declare it with its version and `hold: true`, or release it before with `hold: false`"
        names = [package.name, package.name + "." + package.arch, str(package)]
        confs = [(self.base.conf, self.base.conf.config_file_path)]
        confs += [(repo, "the repository " + repo.id) for repo in self.base.repos.iter_enabled()]
        for conf, where in confs:
            for pattern in conf.excludepkgs:
                if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                    return "%s is excluded by `excludepkgs=%s` in %s: take it out there" % (package.name, pattern, where)
        return package.name + " is excluded by `excludepkgs` or `includepkgs` of a repository, a plugin or a module stream"

    def key(self, package):
        return package.name if package.arch in self.arches else package.name + "." + package.arch

    def of_name(self, query, word):
        name, dot, arch = word.rpartition(".")
        if dot and query.filter(name=name, arch=arch) and not query.filter(name=word):
            return query.filter(name=name, arch=arch)
        return query.filter(name=word, arch=self.arches)

    def installed(self, word):
        return list(self.of_name(self.every().installed(), word))

    def offered(self, word):
        return self.of_name(self.base.sack.query().available(), word)

    # Asks for a word: `NAME`, `NAME=VERSION`, or `NAME-` (to be removed).
    def want(self, word, newest=False):
        base = self.base
        name, exact, version = word.partition("=")
        goes = name[:-1] if name.endswith("-") and not exact else name
        out = [p for p in self.installed(goes) if not base.sack.query().installed().filter(pkg=[p])]
        if not out and not self.offered(goes) and not self.installed(goes):
            out = list(self.of_name(self.every().available(), goes))
        if exact and not out and not self.offered(name).filter(evr=version):
            out = list(self.of_name(self.every().available(), name).filter(evr=version))
        if out:
            raise self.excluded(out)
        if exact:
            found = list(self.offered(name).filter(evr=version))
            if not found:
                there = sorted({p.evr for p in self.offered(name)})
                raise Refused("no package " + name + " at version " + version, None if there else name, versions=[name] + there)
            self.exact(name, found[0])
        elif word.endswith("-"):
            for package in self.installed(word[:-1]):
                base.package_remove(package)
        elif not self.offered(name) and not self.installed(name):
            by = sorted({p.name for p in base.sack.query().available().filter(provides=name)})
            if by:
                raise Refused("no package " + name, virtual=[name] + by)
            raise Refused("no package " + name, name)
        elif newest and self.installed(name):
            newer = [p for p in self.of_name(self.every().available(), name) if p.evr_gt(self.installed(name)[0])]
            if newer and lock_of(name) is not None and not self.offered(name).filter(evr=[p.evr for p in newer]):
                raise self.excluded(newer)
            base.upgrade(name)
        else:
            base.install(name)

    def exact(self, name, package):
        now = self.installed(name)
        if not now:
            self.base.package_install(package)
        elif package.evr_gt(now[0]):
            self.base.package_upgrade(package)
        elif package.evr_lt(now[0]):
            self.base.package_downgrade(package, strict=True)

    # What the transaction does: names with the package that comes, or None.
    def done(self):
        done = {}
        for package in self.base.transaction.remove_set:
            done[self.key(package)] = None
        for package in self.base.transaction.install_set:
            done[self.key(package)] = package
        several = self.base.sack.query().installed().filter(name=[p.name for p in done.values() if p is not None])
        only = self.base._get_installonly_query(several)
        for package in only:
            if done.get(self.key(package)) is not None:
                raise Refused(package.name + " is kept in several versions side by side (installonlypkgs), which converge does not manage")
        return done

    def solve(self, erasing):
        try:
            self.base.resolve(allow_erasing=erasing)
        except self.dnf.exceptions.DepsolveError as error:
            text = str(error)
            names = re.findall(r"package (\S+) is filtered out by exclude filtering", text)
            out = [p for p in self.every() if str(p) in names] if names else []
            raise Refused("\n".join([text] + ([str(self.excluded(out))] if out else [])))
        return self.done()

    # Where the file of an installed version can be had again.
    def can_return(self, package):
        return (
            bool(self.of_name(self.base.sack.query().available(), self.key(package)).filter(evr=package.evr))
            or kept(self.key(package), package.evr) is not None
            or cached(package) is not None
        )


class Refused(Exception):
    # `unknown`: the name that no repository has; `virtual`: that name, and who provides it; `versions`: that name, and its versions.
    def __init__(self, text, unknown=None, virtual=(), versions=()):
        Exception.__init__(self, text)
        self.unknown, self.more = unknown, {"virtual": virtual, "versions": versions}


def kept(name, version):
    path = os.path.join(ROOT, "rpms", name + "=" + version + ".rpm")
    return path if os.path.isfile(path) else None


def cached(package):
    import glob

    found = glob.glob("/var/cache/dnf/*/packages/%s-%s-%s.%s.rpm" % (package.name, package.version, package.release, package.arch))
    return found[0] if found else None


def lines(done):
    for name in sorted(done):
        package = done[name]
        yield "remv " + name if package is None else "inst " + name + " " + package.evr


# Names of about the length and the beginning of one that is not known.
def near(host, name):
    names = {p.name for p in host.base.sack.query().available().filter(name__glob=glob_of(name[:2]) + "*")}
    return sorted(n for n in names if abs(len(n) - len(name)) <= 2)[:400]


def glob_of(text):
    return re.sub(r"([*?\[])", r"[\1]", text)


# Each stage over what those before it leave: all up to it are resolved together, and what is new with it is its own.
def plan(stages):
    held = [stage.split(" ", 3) for stage in stages if "h" in stage.split(" ", 2)[1]]
    host = Host(False, released=[word.partition("=")[0] for stage in held for word in stage[3].split(" ")])
    say("manager", "dnf")
    if host.has_locks:
        say("locks")
    say("arch", host.base.conf.substitutions["basearch"])
    asked, told, before, erasing = [], set(), {}, False
    closure = {}
    for number, stage in enumerate(stages, 1):
        state, flags, index, words = stage.split(" ", 3)
        say("stage", str(number))
        wants = []
        for word in words.split(" "):
            name, _, version = word.partition("=")
            there = [before[name]] if name in before else host.installed(name)
            now = there[0] if there else None
            if state == "absent":
                if now is not None:
                    wants.append(name + "-")
            elif now is None or state == "latest" or (version and version != now.evr):
                wants.append(word)
        if not wants:
            continue
        if state != "absent":
            if index not in told:
                told.add(index)
                say("index", index, index_state(host, index))
            if not host.ages:
                say("end", "72")
                continue
        erasing = erasing or state == "absent"
        weak = "r" in flags or ("c" in flags and host.weak)
        asked.append((wants, state == "latest", weak))
        try:
            host.base.reset(goal=True)
            host.base.conf.install_weak_deps = any(w for _, _, w in asked)
            for some, newest, _ in asked:
                for word in some:
                    host.want(word, newest)
            done = host.solve(erasing)
        except Refused as error:
            asked.pop()
            for line in str(error).splitlines():
                say("err", line)
            if error.unknown:
                say("near", error.unknown, *near(host, error.unknown))
            for word, names in error.more.items():
                if len(names) > 1:
                    say(word, *names)
            say("end", "1")
            continue
        new = {n: p for n, p in done.items() if n not in before or differ(before[n], p)}
        for line in lines(new):
            say(line)
        for name, package in sorted(new.items()):
            now = [before[name]] if name in before else host.installed(name)
            if package is not None and now and now[0] is not None and package.evr_lt(now[0]):
                say("older", name)
        say("end", "0")
        before = done
        closure.update(new)
    for name in sorted(closure):
        there = host.installed(name)
        say("closure", name)
        if there and host.can_return(there[0]):
            say("offered", name)


def differ(one, other):
    return (one is None) != (other is None) or (one is not None and one.evr != other.evr)


# The words of an AptIndexState.
def index_state(host, key):
    if not host.ages:
        return "absent"
    if host.lacking and not tried():
        return "incomplete"
    most = key.partition(":")[2]
    return "old" if most and max(host.ages) > int(most) else "current"


# Whether nothing was refreshed since the repositories were last written: one whose server does not answer is not asked for again and again.
def tried():
    try:
        when = os.stat(os.path.join(ROOT, "lists/.refreshed")).st_mtime
    except OSError:
        return False
    folder = "/etc/yum.repos.d"
    files = [folder] + [os.path.join(folder, f) for f in os.listdir(folder)] if os.path.isdir(folder) else []
    return all(os.stat(f).st_mtime <= when for f in files)


# The words are those of apt-get: its command and its options are passed over. They name all that changes, so that a lock of one of them is meant to go.
def solved(words, writes=False):
    words = [w for w in words if w != "install" and not w.startswith("-")]
    names = [os.path.basename(word).partition("=")[0] for word in words]
    host = Host(False, writes, [name[:-1] if name.endswith("-") else name for name in names])
    # Files of packages that were kept. dnf takes them all at once, before anything else is asked for.
    for package in host.base.add_remote_rpms([w for w in words if w.startswith("/")]):
        host.exact(host.key(package), package)
    for word in words:
        if not word.startswith("/"):
            host.want(word)
    return host, host.solve(any(w.endswith("-") for w in words))


# Does it, where it is what the lines in the file say. Status 70: it would be another transaction, which is told, and nothing was changed.
def apply(planned, words):
    expected = [line for line in open(planned).read().splitlines() if line]
    # Names and versions come from the metadata that the plan saw; only packages are fetched.
    host, done = solved(words, writes=True)
    got = list(lines(done))
    if sorted(got) != sorted(expected):
        for line in got:
            say(line)
        return 70
    base = host.base
    for repo in base.repos.iter_enabled():
        repo._repo.setSyncStrategy(host.dnf.repo.SYNC_TRY_CACHE)
    coming = list(base.transaction.install_set)
    base.download_packages(coming)
    for package in coming:
        result, error = base.package_signature_check(package)
        if result == 1:
            base.package_import_key(package, askcb=lambda *_: True)
        elif result:
            raise Refused(error)
    import dnf.yum.rpmtrans
    import libdnf

    dependencies = os.environ.get("CV_RPM_AUTO", "").split()
    for item in base.transaction:
        if item.pkg in coming and host.key(item.pkg) in dependencies:
            item.reason = libdnf.transaction.TransactionItemReason_DEPENDENCY

    # dnf tells of a scriptlet that fails twice.
    failed = []

    class Display(dnf.yum.rpmtrans.TransactionDisplay):
        def error(self, message):
            if message not in failed:
                failed.append(message)

        def scriptout(self, msgs):
            sys.stderr.write(msgs.decode(errors="replace") if isinstance(msgs, bytes) else msgs or "")

    kept = Kept(headers(coming, base.transaction.remove_set))
    kept.begin()
    try:
        base.do_transaction(Display())
    finally:
        for text in failed + list(kept.end()):
            say("note", " ".join(text.split()))
    return 0


# The headers of packages that come, of which the files are here, and of installed ones.
def headers(coming, going):
    import rpm

    reader = rpm.TransactionSet()
    reader.setVSFlags(rpm._RPMVSF_NOSIGNATURES | rpm._RPMVSF_NODIGESTS)
    for package in coming:
        with open(package.localPkg(), "rb") as file:
            yield reader.hdrFromFdno(file.fileno())
    for name in {package.name for package in going}:
        yield from reader.dbMatch("name", name)


# Keeps the file of an installed version.
def fetch(name, version, folder):
    import shutil

    host = Host(False)
    package = [p for p in host.installed(name) if p.evr == version][0]
    path = cached(package)
    if path is None:
        found = list(host.offered(name).filter(evr=version))
        if not found:
            return 1
        for repo in host.base.repos.iter_enabled():
            repo._repo.setSyncStrategy(host.dnf.repo.SYNC_TRY_CACHE)
        host.base.download_packages(found[:1])
        path = found[0].localPkg()
    new = os.path.join(folder, ".new")
    shutil.copyfile(path, new)
    os.rename(new, os.path.join(folder, name + "=" + version + ".rpm"))
    return 0


# Why a package is there in several versions.
def several(names):
    host = Host(False)
    for name in names:
        there = sorted(host.installed(name))
        versions = " and ".join(package.evr for package in there)
        if host.base._get_installonly_query(host.every().installed()).filter(pkg=there):
            say(name, "is kept in several versions side by side (installonlypkgs: " + versions + "), which converge does not manage")
        else:
            say(name, "is installed as " + versions + ": dnf was cut off. `dnf remove --duplicates` on the host keeps the newest one; then run this again")


# What nothing needs any more once these are gone, as apt-get says it.
def unneeded(names):
    host = Host(False)
    host.base.conf.clean_requirements_on_remove = True
    for name in names:
        for package in host.installed(name):
            host.base._goal.erase(package, clean_deps=True)
    for name in sorted(host.solve(True)):
        say("Remv", name)


def main(mode, *words):
    if mode == "marks":
        marks(words)
    elif mode == "plan":
        plan(words)
    elif mode == "simulate":
        for line in lines(solved(words)[1]):
            say(line)
    elif mode == "apply":
        return apply(words[0], words[1:])
    elif mode == "fetch":
        return fetch(*words)
    elif mode == "mark":
        (hold if words[0] in ("hold", "unhold") else mark)(words[0], words[1:])
    elif mode == "several":
        several(words)
    elif mode == "index":
        host = Host(False)
        for key in words:
            say("-", index_state(host, key))
    elif mode == "unneeded":
        unneeded(words)
    return 0


try:
    status = main(*sys.argv[1:]) or 0
except Refused as error:
    sys.stderr.write(str(error) + "\n")
    status = 1
except Exception as error:
    sys.stderr.write("%s: %s\n" % (type(error).__name__, error))
    status = 1
finally:
    for folder in SCRATCH:
        __import__("shutil").rmtree(folder, ignore_errors=True)
OUT.flush()
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)
