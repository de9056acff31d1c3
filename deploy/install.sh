#!/bin/sh
# Installs Kvik on Linux (x86-64, glibc 2.31 or later) from a release:
#   sh install.sh                 to ~/.local, without root
#   sh install.sh --prefix DIR    to DIR
#   sh install.sh --apt           the .deb, with a systemd service
#   sh install.sh --uninstall     removes what the first or second form installed
# Variables: KVIK_VERSION (default: the newest), KVIK_BASE_URL (where the releases are; required until Kvik has a public address).
set -eu

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

usage() { fail "unknown argument '$1': expected --prefix DIR, --apt or --uninstall"; }

prefix=$HOME/.local with_apt=0 action=install
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -gt 1 ] || fail "--prefix needs a folder"; prefix=$2; shift 2 ;;
    --apt) with_apt=1; shift ;;
    --uninstall) action=uninstall; shift ;;
    *) usage "$1" ;;
  esac
done

list=$prefix/share/kvik/installed-files
if [ "$action" = uninstall ]; then
  [ -f "$list" ] || fail "nothing of Kvik's is installed in $prefix: $list is missing"
  while IFS= read -r file; do rm -f "$prefix/$file"; done <"$list"
  rm -f "$list"
  for folder in share/kvik share/doc/kvik/licenses share/doc/kvik; do rmdir "$prefix/$folder" 2>/dev/null || true; done
  echo "Removed Kvik from $prefix"
  exit
fi

# --- the platform ---

system=$(uname -s) machine=$(uname -m)
[ "$system" = Linux ] || fail "this is $system: expected Linux"
[ "$machine" = x86_64 ] || fail "this machine is $machine: expected x86_64"
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc \([0-9]*\.[0-9]*\).*/\1/p')
[ -n "$glibc" ] || fail "this system has no glibc (Alpine?): expected glibc 2.31 or later"
major=${glibc%%.*} minor=${glibc#*.}
if [ "$major" -lt 2 ] || { [ "$major" -eq 2 ] && [ "$minor" -lt 31 ]; }; then fail "this system has glibc $glibc: expected 2.31 or later"; fi
grep -qw avx2 /proc/cpuinfo || echo "install.sh: this processor has no AVX2: Kvik will be slow" >&2

# --- the download ---

base=${KVIK_BASE_URL:-}
[ -n "$base" ] || fail "KVIK_BASE_URL is not set: expected the address of the folder with the releases"
if command -v curl >/dev/null; then
  fetch() { curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"; }
elif command -v wget >/dev/null; then
  fetch() { wget -q -O "$2" "$1"; }
else
  fail "neither curl nor wget is installed"
fi
command -v sha256sum >/dev/null || fail "sha256sum is not installed"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
version=${KVIK_VERSION:-}
if [ -z "$version" ]; then
  fetch "$base/latest" "$folder/latest" || fail "cannot download $base/latest"
  version=$(head -n 1 "$folder/latest")
fi
case $version in
  '' | *[!0-9A-Za-z.+~-]*) fail "'$version' is not a version" ;;
esac
name=kvik-$version-linux-x86_64.tar.gz
if [ $with_apt = 1 ]; then name=kvik_${version}_amd64.deb; fi
for file in "kvik-$version.sha256" "$name"; do
  fetch "$base/$version/$file" "$folder/$file" || fail "cannot download $base/$version/$file"
done
expected=$(awk -v name="$name" '$2 == name { print $1 }' "$folder/kvik-$version.sha256")
[ -n "$expected" ] || fail "kvik-$version.sha256 does not list $name"
found=$(sha256sum "$folder/$name" | cut -d ' ' -f 1)
[ "$found" = "$expected" ] || fail "$name is damaged: its SHA-256 is $found, expected $expected"

# --- the installation ---

if [ $with_apt = 1 ]; then
  command -v apt-get >/dev/null || fail "--apt: this system has no apt-get"
  chmod 755 "$folder" # apt reads it as another user
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "--apt needs root, and sudo is not installed"
    as_root=sudo
  fi
  $as_root apt-get install -y "$folder/$name"
  echo "Installed Kvik $version. Edit /etc/kvik/kvik.toml, then: systemctl enable --now kvik"
  exit
fi

mkdir "$folder/unpacked"
tar -xzf "$folder/$name" -C "$folder/unpacked" --strip-components=1
"$folder/unpacked/bin/kvik" --version >/dev/null || fail "the program does not run on this machine"
mkdir -p "$prefix/share/kvik"
(cd "$folder/unpacked" && find . ! -type d | sed 's|^\./||' | sort) >"$folder/files"
# Each file is replaced by a rename, so that a program that is running continues to run.
while IFS= read -r file; do
  mkdir -p "$prefix/$(dirname "$file")"
  cp -p "$folder/unpacked/$file" "$prefix/$file.part"
  mv -f "$prefix/$file.part" "$prefix/$file"
done <"$folder/files"
if [ -f "$list" ]; then # files that only the earlier version has
  grep -vxFf "$folder/files" "$list" | while IFS= read -r file; do rm -f "$prefix/$file"; done
fi
cp "$folder/files" "$list"
echo "Installed Kvik $version to $prefix/bin/kvik"
case :$PATH: in
  *:"$prefix/bin":*) ;;
  *) echo "$prefix/bin is not in PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
