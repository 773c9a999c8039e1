# SPDX-License-Identifier: BSD-3-Clause
# Sourced by verbs.sh: makes $kernel/image and $kernel/initrd from Debian's stock kernel, which is only unpacked, never
# installed. Kept in the build folder, so that the next run has them.

# Modules of the guest; what they need comes along.
guest_modules="virtio_mmio 9pnet_virtio 9p virtio_net overlay dummy rdma_rxe ib_uverbs rdma_ucm"
# Looked up by name at run time, so no module says that it needs them.
guest_checksums="crc32_generic crc32c_generic crc32_pclmul crc32c_intel"

kernel_download() {
    (cd "$scratch" && timeout 120 apt-get -qq -o APT::Sandbox::User=root download "$1" >&2)
}

# Prints the path of the package with the kernel: in the folder, in apt's cache, or downloaded now.
kernel_package() {
    local name found
    name=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/{print $2; exit}')
    if [ -z "$name" ]; then # no lists of packages yet
        apt-get -qq update >&2 || true
        name=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/{print $2; exit}')
    fi
    [ -n "$name" ] || skip "no kernel: apt knows no package linux-image-amd64"
    for found in /var/cache/apt/archives/"${name}"_*_amd64.deb; do
        [ ! -r "$found" ] || { echo "$found"; return; }
    done
    # a mirror forgets old versions: then the lists are old
    kernel_download "$name" || { apt-get -qq update >&2 && kernel_download "$name"; } ||
        skip "no kernel: the package $name could not be downloaded"
    echo "$scratch"/"${name}"_*.deb
}

# The module's file, of whatever compression.
module_file() {
    grep -m 1 -E "/$(sed 's/[-_]/[-_]/g' <<<"$1")\.ko(\.xz)?\$" "$scratch/modules" || true
}

module_read() {
    case $1 in
    *.xz) xz -dc "$1" ;;
    *) cat "$1" ;;
    esac
}

declare -A module_done
# Appends a module and, before it, what it depends on to the list of the guest; those built in have no file.
module_add() {
    local file needs need name=${1//-/_}
    [ -z "${module_done[$name]:-}" ] || return 0
    module_done[$name]=1
    file=$(module_file "$name")
    [ -n "$file" ] || return 0
    module_read "$file" >"$scratch/root/mod/$name.ko"
    needs=$(tr '\0' '\n' <"$scratch/root/mod/$name.ko" | sed -n 's/^depends=//p; s/^softdep=pre: *//p' | tr ', ' '\n\n')
    for need in $needs; do
        module_add "$need"
    done
    echo "$name" >>"$scratch/root/mod/order"
}

make_initrd() {
    local module
    mkdir -p "$scratch/root"/{bin,dev,proc,sys,mod,root,host,run,tmp}
    cp "$busybox" "$scratch/root/bin/busybox"
    ln -sf busybox "$scratch/root/bin/sh"
    cp "$top_srcdir/tests/verbs/init" "$scratch/root/init"
    chmod 755 "$scratch/root/init" "$scratch/root/bin/busybox"
    find "$scratch/unpacked" -name '*.ko' -o -name '*.ko.xz' >"$scratch/modules"
    : >"$scratch/root/mod/order"
    for module in $guest_checksums $guest_modules; do
        module_add "$module"
    done
    grep -q '^rdma_rxe$' "$scratch/root/mod/order" || skip "no kernel: the package has no rdma_rxe"
    (cd "$scratch/root" && find . | "$busybox" cpio -o -H newc 2>/dev/null)
}

# The ELF file inside the image: emulated decompression would take longer than all the rest of the boot.
extract_image() {
    local offset
    offset=$(LC_ALL=C grep -m 1 -abo $'\xfd7zXZ' "$1" | head -n 1 | cut -d: -f1) || true
    if [ -z "$offset" ] || ! tail -c +$((offset + 1)) "$1" | xz -dc --single-stream 2>/dev/null; then
        cat "$1"
    fi
}

make_kernel() {
    local package
    inputs=$(cat "$top_srcdir/tests/verbs/kernel.sh" "$top_srcdir/tests/verbs/init" "$busybox" | cksum)
    if [ "$(cat "$kernel/made" 2>/dev/null)" = "$inputs" ]; then
        return
    fi
    package=$(kernel_package) || exit 77
    mkdir -p "$scratch/unpacked" "$kernel"
    rm -f "$kernel/made"
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$scratch/unpacked" ./boot ./lib 2>/dev/null ||
        dpkg-deb -x "$package" "$scratch/unpacked"
    extract_image "$(echo "$scratch"/unpacked/boot/vmlinuz-*)" >"$kernel/image"
    make_initrd >"$kernel/initrd"
    rm -rf "$scratch/unpacked" "$scratch/root" "$scratch"/linux-image-*.deb
    echo "$inputs" >"$kernel/made"
}
