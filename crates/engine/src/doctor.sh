# What `converge doctor` asks a host. POSIX shell; it changes nothing. Lines of KEY<tab>VALUE.
# $CV_WHAT: `login` (as the login user) or `work` (as the user who does the work).
say() { printf '%s\t%s\n' "$1" "$2"; }
say uid "$(id -u)"
say user "$(id -un 2>/dev/null)"
say now "$(date +%s)"
missing=
for tool in cat chmod chown cut date df dd find grep head ln mv rm sed sha256sum sort stat sync tail tr awk flock timeout; do
  command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
say missing "$missing"
say shell "$(readlink /proc/$$/exe 2>/dev/null)"
if [ "$CV_WHAT" = work ]; then
  root=/var/lib/converge
  at=$root
  while [ ! -d "$at" ]; do at=${at%/*}; [ -n "$at" ] || at=/; done
  if [ -w "$at" ]; then say writable yes; else say writable no; fi
  read -r options <<EOF
$(awk -v p="$at" '{ if (index(p "/", $5 "/") == 1 || $5 == "/") if (length($5) >= n) { n = length($5); o = $6 "," $NF } } END { print o }' /proc/self/mountinfo 2>/dev/null)
EOF
  case ",$options," in *,ro,*) say readonly yes ;; esac
  say disk "$(df -Pk "$at" 2>/dev/null | awk 'NR == 2 { print $4, $2, $6 }')"
  say inodes "$(df -Pi "$at" 2>/dev/null | awk 'NR == 2 { print $4, $2 }')"
  if [ -e "$root/version" ]; then say version "$(head -c 64 "$root/version")"; fi
  if [ -d "$root" ] && [ ! -O "$root" ]; then say foreign yes; fi
  if [ -e "$root/lock" ] && command -v flock >/dev/null && ! flock -n "$root/lock" true; then
    say locked "$(head -c 300 "$root/lock" | head -n 1 | tr '\t' ' ')"
  fi
  if [ -d /run/systemd/system ]; then say init systemd; else say init "$(head -c 64 /proc/1/comm 2>/dev/null)"; fi
  if command -v dpkg >/dev/null; then
    say audit "$(dpkg --audit 2>&1 | head -n 1)"
    for lock in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock; do
      [ -e "$lock" ] || continue
      inode=$(stat -c %i "$lock")
      pid=$(awk -v i="$inode" '{ split($6, p, ":"); if (p[3] == i && $2 != "->") print $5 }' /proc/locks | head -n 1)
      [ -z "$pid" ] || say aptlock "$lock $pid $(head -c 64 "/proc/$pid/comm" 2>/dev/null)"
    done
    say lists "$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' 2>/dev/null | wc -l)"
  fi
fi
say end .
