#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Install, upgrade, remove and purge in a Debian root, by apt and without a network. Started by
# tests/packages/run in namespaces of its own; KERNEL_6_12 and KERNEL_6_1 are the releases there are,
# besides the one whose headers the root may have.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$top/tests/packages/lib.sh"
later=0.1.0+later1 now=0.1.0

mount --make-rprivate /
mount_root "$cache/$KERNEL_6_12/tree" || exit 1
files >$new/tmp/before

ok 'chroot: install' install_debs 1
ok 'chroot: dkms has built the module for 6.12' built_for "$KERNEL_6_12" $now
for own in "$PACKAGES_ROOT"/usr/lib/modules/*/build; do
	[ ! -L "$own" ] || ok "chroot: dkms has built the module for the root's own headers" built_for "$(basename "${own%/build}")" $now
done
# For the guests, where an emulated compiler would take ten minutes.
keep_built() { # RELEASE
	inside dkms mktarball -m tcp-swift -v $now -k "$1" --archive built.tar.gz &&
		cp $new/var/lib/dkms/tcp-swift/$now/tarball/built.tar.gz "$PACKAGES_DEBS/built-$1.tar.gz"
}
ok 'chroot: what dkms has built, as an archive' keep_built "$KERNEL_6_12"
# A kernel comes, as linux-image's and linux-headers' own scripts tell it.
mkdir -p "$new/lib/modules/$KERNEL_6_1" $new/tmp/upper $new/tmp/work
mount -t overlay -o "lowerdir=$cache/$KERNEL_6_1/tree/usr/lib/modules/$KERNEL_6_1,upperdir=$new/tmp/upper,workdir=$new/tmp/work" \
	kernel "$new/lib/modules/$KERNEL_6_1"
ok 'chroot: a kernel 6.1 comes' inside /etc/kernel/postinst.d/dkms "$KERNEL_6_1"
ok 'chroot: dkms has built the module for it' built_for "$KERNEL_6_1" $now
ok 'chroot: what dkms has built for it, as an archive' keep_built "$KERNEL_6_1"
ok 'chroot: swiftctl runs' inside swiftctl --version
ok 'chroot: swiftd.toml is valid' inside swiftd --config /etc/swiftd.toml --check
ok 'chroot: and has all options' eval 'inside swiftd --print-sample | cmp - $new/etc/swiftd.toml'
ok 'chroot: swiftd is not enabled' eval '! find $new/etc/systemd -name swiftd.service | grep .'
ok 'chroot: its unit is there' test -e $new/lib/systemd/system/swiftd.service
ok 'chroot: nothing is set by itself' eval '! ls $new/etc/sysctl.d/*swift* $new/etc/modprobe.d/*swift* $new/etc/modules-load.d/*swift*'
for file in usr/share/zsh/vendor-completions/_swiftctl \
	usr/share/man/man8/swiftctl-flows.8.gz usr/share/doc/swift-tools/README.Debian \
	usr/share/doc/swift-tools/examples/sysctl.d/tcp_swift.conf; do
	ok "chroot: there is $file" test -s $new/$file
done
ok 'chroot: the links of the pages lead somewhere' "$top/tests/packages/links.py" $new/usr/share/doc/swift-tools

sed -i 's/^interval_s = 1.0/interval_s = 0.5/' $new/etc/swiftd.toml
# Of the later version, with another module of the same MODULE_VERSION.
other_module() {
	local folder
	folder=$(mktemp -d -p $new/tmp) && rm -rf "$PACKAGES_DEBS/3" && mkdir "$PACKAGES_DEBS/3" &&
		cp "$PACKAGES_DEBS"/2/swift-tools_*.deb "$PACKAGES_DEBS/3" &&
		dpkg-deb -R "$PACKAGES_DEBS"/2/tcp-swift-dkms_*.deb "$folder" &&
		sed -i 's/^MODULE_DESCRIPTION("/&Later /' "$folder/usr/src/tcp-swift-$later/main.c" &&
		dpkg-deb --root-owner-group -b "$folder" "$PACKAGES_DEBS/3/tcp-swift-dkms_${later}_all.deb"
}
ok 'chroot: another module' other_module
ok 'chroot: upgrade' install_debs 3
ok 'chroot: the later version is there' test "$(package_version swift-tools)/$(package_version tcp-swift-dkms)" = $later/$later
ok "chroot: the administrator's swiftd.toml stays" grep -qx 'interval_s = 0.5' $new/etc/swiftd.toml
ok 'chroot: dkms has built the later module' built_for "$KERNEL_6_12" $later
ok 'chroot: which is what the kernel has' eval 'inside modinfo -k $KERNEL_6_12 -F description tcp_swift | grep -q "^Later TCP Swift" &&
	! inside dkms status | grep WARNING'
ok 'chroot: and dropped the earlier one' eval '! inside dkms status -m tcp-swift -v 0.1.0 | grep .'

mkdir -p $new/run/tcp_swift $new/var/lib/tcp_swift
ok 'chroot: remove the module: its targets and settings go' undoes_sysctls inside apt-get -q -y remove tcp-swift-dkms
ok 'chroot: remove' inside apt-get -q -y remove swift-tools
ok 'chroot: dkms has no module any more' eval '! inside dkms status | grep .'
ok 'chroot: the kernels neither' eval '! find $new/lib/modules/ -name "tcp_swift*" | grep .'
ok 'chroot: swiftd.toml stays until the purge' test -e $new/etc/swiftd.toml
ok 'chroot: purge' inside apt-get -q -y purge swift-tools tcp-swift-dkms
umount "$new/lib/modules/$KERNEL_6_1" && rmdir "$new/lib/modules/$KERNEL_6_1"
ok 'chroot: no state is left' not ls -d $new/run/tcp_swift $new/var/lib/tcp_swift
ok 'chroot: no file is left' eval 'files | diff $new/tmp/before -'
finish
