# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest kernels' cache: the Debian kernel packages of scripts/kernels.txt, downloaded and
# unpacked without being installed. Sourced by scripts/vm after common.sh.
#
#   $cache/RELEASE/vmlinux       the package's kernel, uncompressed
#                  initramfs     busybox and the modules that mount the root
#                  tree/         usr/lib/modules/RELEASE, laid over the guest's root
#                  headers/      the header packages, to build modules with
#                  stamp         what `fingerprint` says
#   $cache/6.12 -> RELEASE       which release the line's name stands for

cache=${TCP_SWIFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tcp_swift}/kernels
# shellcheck source=scripts/lib/kernels.sh
. "${BASH_SOURCE[0]%/*}/kernels.sh"
# shellcheck source=scripts/lib/debian.sh
. "${BASH_SOURCE[0]%/*}/debian.sh"

# Checksums of the boot files, names and sizes of all the rest: cheap enough for
# every run, and any file lost or cut short shows. (The packages were
# verified by sha256 when they came.)
fingerprint() { # DIR
	(cd "$1" && cksum vmlinux initramfs &&
		find tree headers -type f -printf '%s %p\n' | LC_ALL=C sort | cksum) 2>/dev/null
}

kernel_is_whole() { # DIR
	[ -f "$1/stamp" ] && [ "$(cat "$1/stamp")" = "$(fingerprint "$1")" ]
}

# Finds or makes the cache entry of a line ("6.12") and sets kernel_dir, release.
use_kernel() { # LINE
	local name
	mkdir -p "$cache" 2>/dev/null || die "cannot write the cache $cache; set TCP_SWIFT_CACHE"
	name=$(readlink "$cache/$1")
	[ -n "$name" ] && kernel_is_whole "$cache/$name" || fetch_kernel "$1" || return
	release=$(readlink "$cache/$1")
	# shellcheck disable=SC2034 # used by scripts/vm
	kernel_dir=$cache/$release
}

fetch_kernel() ( # LINE
	line=$1
	exec 9>"$cache/lock"
	flock -n 9 || { say "waiting for another download to end"; flock 9; }

	rm -rf "$cache"/.new-* # left by a run that was killed
	temp=$(mktemp -d "$cache/.new-XXXXXX") || exit
	trap 'rm -rf "$temp"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	cd "$temp" || exit

	say "looking for the newest $line"
	# shellcheck disable=SC2086 # a list
	private_apt "$temp/apt" ${kernel_suites[$line]//,/ } || exit
	apt=$temp/apt/apt.conf
	package=$(dependencies "$apt" "${kernel_package[$line]}" 'linux-image-.*')
	[ -n "$package" ] || die "Debian's ${kernel_suites[$line]} has no ${kernel_package[$line]}"
	name=${package#linux-image-}
	if kernel_is_whole "$cache/$name"; then # another run was quicker, or nothing newer
		ln -sfn "$name" "$cache/$line"
		exit
	fi
	[ ! -e "$cache/$name" ] || say "the cached $name is damaged; fetching it again"

	# Since 7.x the image's package is empty and depends on these.
	for part in "$package" $(dependencies "$apt" "$package" 'linux-(base|binary|modules)-.*'); do
		get_package "$apt" "$part" unpacked
	done
	for part in "linux-headers-$name" $(dependencies "$apt" "linux-headers-$name" 'linux-(headers|kbuild)-.*'); do
		get_package "$apt" "$part" headers
	done
	say "unpacking"
	mkdir -p tree/usr/lib
	for part in unpacked/{usr/,}lib/modules; do
		[ ! -d $part ] || cp -al $part tree/usr/lib/
	done
	[ -d "tree/usr/lib/modules/$name" ] || die "$package brings no modules of $name"
	plain_modules "tree/usr/lib/modules/$name/kernel" || die "cannot unpack the modules in $PWD ($(free_mb) MB free)"
	depmod -b tree/usr "$name"
	vmlinuz=$(find unpacked -name "vmlinuz-$name" -o -path "*/modules/$name/vmlinuz" | head -n 1)
	unpack_vmlinux "${vmlinuz:-none}" || die "$package holds a kernel in a form not known here"
	rm -r unpacked apt
	make_initramfs "$name" || die "$package lacks a module that the guest's root needs"
	headers=usr/src/linux-headers-$name
	sed -i "s|/usr/src/|$cache/$name/headers/usr/src/|" "headers/$headers/Makefile" # the one absolute path
	ln -sfn "$cache/$name/headers/$headers" "tree/usr/lib/modules/$name/build"
	fingerprint . >stamp
	chmod 755 .

	cd "$cache" || exit
	rm -rf "${cache:?}/$name"
	mv "$temp" "$name"
	ln -sfn "$name" "$line"
	say "$name is ready in $cache"
)

# What guests load is left uncompressed and without its signature, whose marker is the last 28 bytes: to check
# one is a hundred million instructions, of an emulated CPU. (The packages were verified when they came.)
plain_modules() { # FOLDER
	(
		cd "$1" || exit
		find net lib crypto arch fs/{9p,netfs,overlayfs} drivers/virtio drivers/net/bonding -name '*.ko*' 2>/dev/null # built in, some of them
		find drivers/{net,block} -maxdepth 1 -name '*.ko*'
	) >modules
	sed -n "s|.*\.xz$|$1/&|p" modules | xargs -r xz -df && sed -n "s|.*\.zst$|$1/&|p" modules | xargs -r zstd -qd --rm || return
	sed -E "s|(.*\.ko).*|$1/\1|" modules | while read -r module; do
		[ "$(tail -c 28 "$module")" != '~Module signature appended~' ] || truncate -s -28 "$module" || return
	done
	rm modules
}

# Booted uncompressed, the emulated CPU is spared seconds of unpacking. Where
# the compressed part lies: Documentation/arch/x86/boot.rst.
unpack_vmlinux() { # VMLINUZ
	local setup offset length
	setup=$(od -An -j $((0x1f1)) -N 1 -t u1 "$1")
	read -r offset length < <(od -An -j $((0x248)) -N 8 -t u4 "$1")
	# the last four bytes are the unpacked size
	tail -c +$(((setup + 1) * 512 + offset + 1)) "$1" | head -c $((length - 4)) >payload
	xz -dc payload >vmlinux 2>/dev/null || zstd -qdcf payload >vmlinux || return
	rm payload
	[ "$(head -c 4 vmlinux)" = $'\x7fELF' ]
}

# busybox and the modules that mount the root; /init is added by each run.
make_initramfs() { # RELEASE, in the cache entry
	local applet module path
	mkdir -p initramfs.d/bin initramfs.d/modules
	cp "$(command -v busybox)" initramfs.d/bin/busybox
	for applet in $(busybox --list); do
		[ "$applet" = busybox ] || ln -s busybox "initramfs.d/bin/$applet"
	done
	for module in virtio_pci 9pnet_virtio 9p overlay; do
		modprobe -d tree/usr -S "$1" --show-depends "$module" || return
	done >needed
	awk '$1 == "insmod" && !seen[$2]++ { print $2 }' needed | while read -r path; do
		module=${path##*/}
		case $path in
		*.xz) module=${module%.xz} && xz -dc "$path" ;;
		*.zst) module=${module%.zst} && zstd -qdc "$path" ;;
		*) cat "$path" ;;
		esac >"initramfs.d/modules/new"
		mv initramfs.d/modules/{new,"$module"}
		echo "$module"
	done >initramfs.d/modules/order
	(cd initramfs.d && find . | cpio -o -H newc -R 0:0 --quiet) >initramfs
	rm -rf initramfs.d needed
}
