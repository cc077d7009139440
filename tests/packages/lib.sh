# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
#
# A Debian root to install packages in. Sourced by t-*.sh, as root, in a mount namespace or a
# guest of its own. PACKAGES_DEBS: 1/ and 2/, two versions; PACKAGES_ROOT: from scripts/debian-root,
# for mount_root.
# shellcheck source-path=SCRIPTDIR source=../../scripts/lib/tap.sh
. "$top/scripts/lib/tap.sh"
# shellcheck source-path=SCRIPTDIR source=../../scripts/lib/guest-kernel.sh
. "$top/scripts/lib/guest-kernel.sh" # $cache

new=/mnt

# FOLDER...: further layers on top (kernels' modules)
mount_root() {
	local layers='' folder
	for folder; do layers+=$folder:; done
	mount -t tmpfs -o mode=755 tmpfs $new
	mkdir $new/upper $new/work $new/root
	mount -t overlay -o "lowerdir=$layers$PACKAGES_ROOT,upperdir=$new/upper,workdir=$new/work" root $new/root || return
	new=$new/root
	mount_kernel_files
}

mount_kernel_files() {
	mount -t proc proc $new/proc
	mount --rbind /sys $new/sys
	mount --rbind /dev $new/dev
	mount -t tmpfs tmpfs $new/run
	mount -t tmpfs tmpfs $new/tmp
	# The headers are in the cache, under its own name: modules/RELEASE/build points there.
	mkdir -p "$new$cache" $new/debs
	mount --bind "$cache" "$new$cache" && mount --bind "$PACKAGES_DEBS" $new/debs
}

inside() { chroot $new env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
	DEBIAN_FRONTEND=noninteractive "$@"; }

install_debs() { # VERSION-FOLDER
	inside sh -c "apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-confold \
		install /debs/$1/tcp-swift-dkms_*.deb /debs/$1/swift-tools_*.deb"
}
# The headers that the page asks for are the cache's: here is a package of that name.
headers_package() {
	local folder
	folder=$(mktemp -d) && mkdir "$folder/DEBIAN" &&
		printf '%s\n' 'Package: linux-headers-amd64' 'Version: 1' 'Architecture: all' 'Maintainer: tests <tests@localhost>' \
			'Description: headers that are there' >"$folder/DEBIAN/control" &&
		dpkg-deb --build "$folder" $new/tmp/headers.deb >/dev/null && inside dpkg -i /tmp/headers.deb >/dev/null
}
package_version() { inside dpkg-query -W -f '${Version}' "$1"; }
built_for() { # RELEASE VERSION
	inside dkms status -m tcp-swift -v "$2" -k "$1" | grep -q ': installed' &&
		inside modinfo -k "$1" -F filename tcp_swift
}
# Removes tcp-swift-dkms where the module is not loaded, but would be by the next boot: of the tools, which stay,
# it is undone what was set of the module, and no more.
undoes_sysctls() { # COMMAND...
	local undo=$new/usr/lib/tcp_swift/undo status=0
	printf '#!/bin/sh\necho "$@" >>/tmp/undone\n' >$new/tmp/undo && chmod +x $new/tmp/undo
	mount --bind $new/tmp/undo "$undo" && mount -t tmpfs tmpfs $new/sys/module || return
	"$@" || status=$?
	umount "$undo" $new/sys/module
	[ $status = 0 ] && diff <(echo 'sysctls settings') $new/tmp/undone
}
# Files of the root, but for logs, dpkg's and apt's own, and what depmod writes.
files() {
	(cd $new && find . -xdev -path ./run -prune -o -path ./tmp -prune -o -path ./debs -prune -o -print) |
		grep -vE '^\./(var/(log|cache|tmp)|var/lib/(dpkg|apt|systemd)|(usr/)?lib/modules/[^/]*/modules\.)' |
		LC_ALL=C sort
}
