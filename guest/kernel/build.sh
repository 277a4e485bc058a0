#!/usr/bin/env bash
# Builds a guest kernel from the distribution's Linux source and prints the path of the result.
#
#   build.sh uml|x86_64
#
# The result is cached by the content of everything that makes it: source, configs, patches, compiler and
# the steps below. Set BOXLITE_KERNEL_SOURCE to a linux-source tarball to build from that one.
set -euo pipefail
shopt -s nullglob

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/boxlite
# Kernels from here on have the seccomp mode of UML, which makes system calls about twice as fast.
wanted=6.16
# Debian 12's own, which scripts/setup installs.
fallback=/usr/src/linux-source-6.12.tar.xz

say() { printf 'kernel: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# The newest source of a later Debian suite, from the mirror that this host uses, through an apt root of
# its own: the host's configuration is not touched.
fetch_newer() {
    local root=$1 site suite package
    site=$(apt-get indextargets --format '$(ORIGIN) $(SITE)' 'Created-By: Packages' | awk '$1 == "Debian" { print $2; exit }')
    [ -n "$site" ] || return 1
    mkdir -p "$root"/{lists/partial,cache/archives/partial}
    : > "$root/status"
    for suite in trixie-backports trixie; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main"
    done > "$root/sources.list"
    local apt=(-o "Dir::Etc::sourcelist=$root/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$root"
        -o "Dir::State::lists=$root/lists" -o "Dir::Cache=$root/cache" -o "Dir::State::status=$root/status"
        -o APT::Sandbox::User=root -o Acquire::Retries=3)
    apt-get "${apt[@]}" -qq update >&2 || return 1
    package=$(apt-cache "${apt[@]}" search --names-only '^linux-source-[0-9.]+$' | awk '{ print $1 }' | sort -V | tail -n 1)
    [ -n "$package" ] && at_least "$wanted" "${package#linux-source-}" || return 1
    (cd "$root" && apt-get "${apt[@]}" -qq download "$package" >&2)
}

# Leaves exactly one tarball in $cache/kernel-source and prints its path.
source_tarball() {
    if [ -n "${BOXLITE_KERNEL_SOURCE:-}" ]; then
        echo "$BOXLITE_KERNEL_SOURCE"
        return
    fi
    local found work
    found=$(find "$cache/kernel-source" -name 'linux-source-*.tar.xz' 2>/dev/null | sort -V | tail -n 1)
    if [ -z "$found" ]; then
        work=$(mktemp -d "$cache/fetch-XXXXXX")
        mkdir -p "$cache/kernel-source"
        if fetch_newer "$work"; then
            dpkg -x "$work"/linux-source-*.deb "$work/x"
            mv "$work"/x/usr/src/linux-source-*.tar.xz "$cache/kernel-source/"
        else
            say "no source of $wanted or later is to be had; falling back to $fallback (UML in ptrace mode)"
            [ -f "$fallback" ] || die "$fallback is missing; scripts/setup installs it"
            ln -s "$fallback" "$cache/kernel-source/"
        fi
        rm -rf "$work"
        found=$(find "$cache/kernel-source" -name 'linux-source-*.tar.xz' | sort -V | tail -n 1)
    fi
    echo "$found"
}

# But for the sources of what no config here turns on, two thirds of the whole.
unpack() {
    local unused=() folder
    for folder in drivers/{gpu,media,scsi,staging,infiniband,iio,clk,pinctrl,usb} drivers/net/{ethernet,wireless} sound \
            Documentation tools/testing arch/{arm,arm64,powerpc,mips,m68k,riscv,s390,sparc}; do
        unused+=("--exclude=*/$folder/*.[ch]" "--exclude=*/$folder/*.dts*" "--exclude=*/$folder/*.rst")
    done
    tar -I 'xz -T0' -xf "$1" -C "$2" --strip-components=1 "${unused[@]}"
}

# Every line of the wanted config must hold, but for options that this source does not know.
check_config() {
    local tree=$1 config=$2 line name
    while read -r line; do
        case $line in
            CONFIG_*) name=${line%%=*} ;;
            '# CONFIG_'*' is not set') name=${line#\# } name=${name%% *} ;;
            *) continue ;;
        esac
        grep -qxF "$line" "$config" && continue
        case $line in '#'*) grep -q "^$name=" "$config" || continue ;; esac
        grep -rqE --include='Kconfig*' "^\s*(menu)?config ${name#CONFIG_}$" "$tree" || continue
        die "the source's Kconfig did not accept '$line'"
    done
}

# Messages of the compiler may be less exact about macros: that saves a twentieth.
run_make() {
    LD_PRELOAD="$work/large_pages.so" GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
        make -s -C "$work" ARCH=$arch CC="$work/cc" KCFLAGS="-ftrack-macro-expansion=0 $flags" \
        KBUILD_BUILD_USER=boxlite KBUILD_BUILD_HOST=boxlite KBUILD_BUILD_TIMESTAMP=1970-01-01 "$@" > "$work/build.log" 2>&1 || { tail -n 30 "$work/build.log" >&2; die "make $* failed"; }
}

build_kernel() {
    if [ -f "$out/$image" ]; then return; fi  # another process built it while this one waited
    say "building $target from $(basename "$tarball")"
    local started=$SECONDS patch
    work=$(mktemp -d "$cache/build-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    unpack "$tarball" "$work"
    for patch in "${patches[@]}"; do patch -s -d "$work" -p1 < "$patch" >&2; done
    cat "${configs[@]}" > "$work/wanted.config"
    gcc -O2 -shared -fPIC -o "$work/large_pages.so" "$here/large_pages.c"
    gcc -O2 -static -o "$work/cc" "$here/cc.c"
    cp -r "$here/precompiled" "$work/"
    run_make KCONFIG_ALLCONFIG="$work/wanted.config" allnoconfig
    check_config "$work" "$work/.config" < "$work/wanted.config"
    run_make -j"$(nproc)" "$image"
    mkdir -p "$out"
    strip --strip-all -o "$out/$image.new" "$work/$image"
    cp "$work/.config" "$out/config"
    make -s -C "$work" ARCH=$arch kernelrelease > "$out/release" 2>/dev/null
    mv "$out/$image.new" "$out/$image"
    say "built in $((SECONDS - started)) s"
}

# One process at a time; in a shell of its own.
locked() { (flock 9 && "$@") 9> "$cache/$1.lock"; }

target=${1:-}
# Static and below 2 GiB, the uml kernel does not need the large code model that its makefile asks for, nor
# tables for unwinding.
case $target in
    uml) arch=um image=linux flags='-mcmodel=small -fno-asynchronous-unwind-tables' ;;
    x86_64) arch=x86_64 image=vmlinux flags= ;;
    *) die "usage: build.sh uml|x86_64" ;;
esac
mkdir -p "$cache"

tarball=$(locked source_tarball)
configs=("$here/common.config" "$here/$target.config")
patches=("$here/patches/$arch"/*.patch)
version=$(basename "$tarball") version=${version#linux-source-} version=${version%.tar.xz}
if at_least 6.16 "$version"; then
    configs+=("$here/since-6.16.config")
    patches+=("$here/patches/$arch"/since-6.16/*.patch)
else
    patches+=("$here/patches/$arch"/before-6.16/*.patch)
fi
key=$({ sha256sum < "$tarball"; cat "${configs[@]}" "${patches[@]}" "$here"/{large_pages,cc}.c "$here"/precompiled/*.h
        echo "$arch $flags"; declare -f unpack run_make build_kernel; gcc --version; } | sha256sum | cut -c1-20)
out=$cache/kernels/$target-$key
[ -f "$out/$image" ] || locked build_kernel
echo "$out/$image"
