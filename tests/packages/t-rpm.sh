#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Fedora's packages, as far as Debian goes: rpm installs, upgrades and removes them in a Debian root,
# their scripts run there, DKMS is Debian's. What they would depend on by name is Fedora's, and is not
# looked at (--nodeps). Started by tests/packages/run in namespaces of its own; RPMS are the two
# packages, LATER later ones of tcp-swift-dkms, whose module differs in its description, KERNEL a release.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$top/tests/packages/lib.sh"

mount --make-rprivate /
mount_root "$cache/$KERNEL/tree" || exit 1
# The database is Debian's rpm's place for it, below the root: nothing of this host.
in_root() { rpm --root $new --nodeps "$@"; }
# But for rpm's database, and for folders that Fedora's package filesystem has.
files_but_for_rpm() {
	files | grep -vE '^\./(root/\.rpmdb|usr/share/(licenses|zsh/site-functions)$)'
}
version=$(rpm -qp --qf '%{VERSION}' "${RPMS##* }")
files_but_for_rpm >$new/tmp/before

# shellcheck disable=SC2086 # a list
ok 'rpm: install' in_root -i $RPMS
ok 'rpm: DKMS has built the module' built_for "$KERNEL" "$version"
hardened() { # PROGRAM; built and linked as the distribution's
	readelf -h "$1" | grep -q 'Type: *DYN' && readelf -d "$1" | grep -q BIND_NOW && readelf -lW "$1" | grep -q GNU_RELRO
}
for program in swiftctl swiftd; do
	ok "rpm: $program: position-independent, and all is bound and read-only at its start" hardened $new/usr/sbin/$program
done
ok 'rpm: swiftctl runs' inside swiftctl --version
ok 'rpm: swiftd.toml is valid' inside swiftd --config /etc/swiftd.toml --check
ok 'rpm: it is a configuration file' eval 'rpm --root $new -qc swift-tools | grep -qx /etc/swiftd.toml'
ok 'rpm: the unit names the swiftd that is there' grep -q '^ExecStart=/usr/sbin/swiftd ' $new/usr/lib/systemd/system/swiftd.service
ok 'rpm: swiftd is not enabled' eval '! find $new/etc/systemd -name swiftd.service | grep .'
ok 'rpm: the links of the pages lead somewhere' "$top/tests/packages/links.py" $new/usr/share/doc/swift-tools
ok 'rpm: all is as it was packaged' in_root -V swift-tools tcp-swift-dkms
sed -i 's/^interval_s = 1.0/interval_s = 0.5/' $new/etc/swiftd.toml
# shellcheck disable=SC2086
ok 'rpm: the same once more, over it' in_root -U --force $RPMS
ok "rpm: the administrator's swiftd.toml stays" grep -qx 'interval_s = 0.5' $new/etc/swiftd.toml
ok 'rpm: the module stays' built_for "$KERNEL" "$version"
described() { # PATTERN; the module that is there, whose file depends on it alone
	inside modinfo -k "$KERNEL" -F description tcp_swift | grep -x "$1"
}
built_alone() { # VERSION
	built_for "$KERNEL" "$1" && [ "$(inside dkms status -m tcp-swift | wc -l)" = 1 ] && not dkms_differs
}
dkms_differs() { inside dkms status -m tcp-swift 2>&1 | grep WARNING; }
dkms=${RPMS##* }
for later in $LATER; do
	other=$(rpm -qp --qf '%{VERSION}' "$later")
	of="of the same MODULE_VERSION, ${later##*/}"
	ok "rpm: upgrade to another module $of" in_root -U "$later"
	ok "rpm: the module is the later one $of" eval "built_alone $other && described 'Later TCP Swift.*'"
	ok "rpm: downgrade $of" in_root -U --oldpackage "$dkms"
	ok "rpm: the module is the older one $of" eval 'built_alone "$version" && described "TCP Swift.*"'
done
mkdir -p $new/run/tcp_swift $new/var/lib/tcp_swift
ok 'rpm: remove the module: its targets and settings go' undoes_sysctls in_root -e tcp-swift-dkms
ok 'rpm: remove' in_root -e swift-tools
ok 'rpm: DKMS has no module any more' eval '! inside dkms status | grep .'
ok 'rpm: the kernel neither' eval '! find $new/lib/modules/ -name "tcp_swift*" | grep .'
ok 'rpm: what the administrator changed is kept' test -e $new/etc/swiftd.toml.rpmsave
rm $new/etc/swiftd.toml.rpmsave
ok 'rpm: no state is left' not ls -d $new/run/tcp_swift $new/var/lib/tcp_swift
ok 'rpm: no file is left' eval 'files_but_for_rpm | diff $new/tmp/before -'
finish
