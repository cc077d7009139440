# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Packages of any Debian suite, downloaded and verified without touching the host's apt: so that
# Debian 13 gets Debian 12's kernels, and the other way round. Sourced after common.sh.

# Where to have a suite from: where the host's apt has it, or has Debian's other releases.
debian_mirror() { # SUITE
	local label=Debian otherwise=http://deb.debian.org/debian
	[[ $1 != *-security ]] || label+=-Security otherwise+=-security
	# shellcheck disable=SC2016 # apt's names
	apt-get indextargets --format '$(RELEASE) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 'Component: main' 2>/dev/null |
		awk -v suite="$1" -v label=$label -v uri=$otherwise '$3 !~ /^https?:/ { next }
			$2 == label && !other++ { uri = $3 }
			$1 == suite { uri = $3; exit }
			END { print uri }'
}

# A file for `apt-get -c`, of an apt that knows these suites alone and waits for no other's lock.
private_apt() { # DIR SUITE...
	local dir=$1 suite
	shift
	mkdir -p "$dir"/lists/partial "$dir"/cache/archives/partial || return
	for suite; do
		printf '%s\n' 'Types: deb' "URIs: $(debian_mirror "$suite")" "Suites: $suite" 'Components: main' 'Architectures: amd64' \
			'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' ''
	done >"$dir/suites.sources"
	cat >"$dir/apt.conf" <<-END
		Dir::Etc::SourceList "$dir/suites.sources";
		Dir::Etc::SourceParts "/dev/null";
		Dir::Etc::PreferencesParts "/dev/null";
		Dir::State::Lists "$dir/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$dir/cache";
		Acquire::Languages "none";
		APT::Sandbox::User "root";
	END
	apt_patient apt-get -qq -c "$dir/apt.conf" update >&2 && apt_knows "$dir" "$@" ||
		die "cannot read the package lists of Debian's $*; check the network and apt's sources"
}

# apt-get update takes a mirror that does not answer for a warning.
apt_knows() { # DIR SUITE...
	local dir=$1 suite
	shift
	for suite; do
		compgen -G "$dir/lists/*_dists_${suite}_main_binary-amd64_Packages*" >/dev/null || return
	done
}

dependencies() { # APT-CONF PACKAGE REGEX: those whose names match
	apt-cache -c "$1" depends --important "$2" 2>/dev/null | sed -nE "s/^ *Depends: ($3)$/\1/p"
}

free_mb() { df -Pm . | awk 'NR == 2 { print $4 }'; }

get_package() { # APT-CONF PACKAGE DIR: downloads, verifies, unpacks
	local sum try
	say "downloading $2"
	for try in 1 2; do
		apt_patient apt-get -qq -c "$1" -o Acquire::Retries=3 download "$2" >&2 && break
		[ $try = 1 ] || die "cannot download $2; check the network, apt's sources, and the disk ($(free_mb) MB free)"
		sleep 2
	done
	sum=$(apt-cache -c "$1" show --no-all-versions "$2" | sed -n 's/^SHA256: //p')
	echo "$sum $(echo ./*.deb)" | sha256sum --quiet -c >&2 ||
		die "the downloaded $2 is not what apt promised; try again"
	dpkg-deb -x ./*.deb "$3" || die "cannot unpack $2 in $PWD ($(free_mb) MB free)"
	rm ./*.deb
}
