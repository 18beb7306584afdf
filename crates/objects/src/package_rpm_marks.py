# What dnf and its plugin versionlock keep of a package: whether somebody asked for it, and a lock of its version. It must not hold a single quotation mark.


# The mark of an installed package: `auto` where it came as the dependency of another one; and whether it is held.
def marks(names):
    import libdnf

    history = libdnf.transaction.Swdb(CACHE if os.access(CACHE, os.R_OK) else ":memory:")
    for word in names:
        name, arch = word.rsplit(".", 1)
        reason = history.resolveRPMTransactionItemReason(name, arch, -1)
        weak = libdnf.transaction.TransactionItemReason_WEAK_DEPENDENCY
        dependency = libdnf.transaction.TransactionItemReason_DEPENDENCY
        held = "-" if lock_of(name) is None else "hold"
        say(word, "auto" if reason in (weak, dependency) else "manual", held)


def mark(how, names):
    import libdnf

    host = Host(False, writes=True)
    history = host.base.history
    reason = {"auto": "DEPENDENCY", "manual": "USER"}[how]
    for name in names:
        for package in host.installed(name):
            history.set_reason(package, getattr(libdnf.transaction, "TransactionItemReason_" + reason))
    cookie = host.base._ts.dbCookie()
    history.beg(cookie, [], [])
    history.end(cookie)


# The file of the locks; nothing where the plugin is not set up.
def lock_list():
    import configparser

    conf = configparser.ConfigParser(interpolation=None)
    try:
        conf.read("/etc/dnf/plugins/versionlock.conf")
        return conf.get("main", "locklist", fallback=None) if conf.getboolean("main", "enabled", fallback=False) else None
    except (configparser.Error, ValueError):
        return None


def lock_lines():
    try:
        with open(lock_list() or "/nonexistent", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


# The name that an entry of the list locks, perhaps a pattern: `NAME`, or NAME-EPOCH:VERSION-RELEASE.ARCH with or without its end. None for comments, and for
# what is only kept out (`!`).
def locked_name(line):
    entry = line.strip()
    if not entry or entry[0] in "#!":
        return None
    found = re.match(r"^(.+?)-(?:[0-9*]+:)?[0-9*?\[][^-]*(?:-[^-]+)?$", entry)
    return found.group(1) if found else entry


# The entry by which a package is locked.
def lock_of(name):
    import fnmatch

    for line in lock_lines():
        locked = locked_name(line)
        if locked is not None and fnmatch.fnmatchcase(name, locked):
            return line.strip()
    return None


# Has the plugin pass over the locks of these packages. Whether the plugin is there.
def release_locks(base, names):
    import fnmatch

    has = False
    for plugin in base._plugins.plugins:
        if plugin.name == "versionlock":
            module, has = sys.modules[type(plugin).__module__], True
            read = module._read_locklist
            module._read_locklist = lambda: [
                line for line in read() if not any(fnmatch.fnmatchcase(name, locked_name(line) or "") for name in names)
            ]
    return has


# Locks packages at the versions that are there, or ends their locks.
def hold(how, names):
    lines = lock_lines()
    host = Host(False)
    for word in names:
        packages = host.installed(word)
        name = packages[0].name if packages else word
        there = ["%s-%s:%s-%s.*" % (p.name, p.epoch, p.version, p.release) for p in packages if how == "hold"]
        own = [line for line in lines if locked_name(line) == name]
        lines = [line for line in lines if line not in own or line.strip() in there]
        lines += [line for line in there if line not in lines]
        if how == "unhold" and lock_of(name) is not None and not own:
            raise Refused("%s is held by the pattern `%s` in %s: take it out there" % (name, lock_of(name), lock_list()))
    path = lock_list()
    if path is None:
        raise Refused("dnf of this host has no versionlock plugin")
    new = path + ".converge"
    with open(new, "w") as file:
        file.write("".join(line + "\n" for line in lines))
    os.chmod(new, 0o644)
    os.rename(new, path)


