#!/usr/bin/env bash
# Makes the packages in build/packages:
#   kvik_VERSION_amd64.deb                       Debian 11 and later, Ubuntu 20.04 and later
#   kvik-VERSION-linux-x86_64.tar.gz             any distribution with glibc 2.31 or later, without installing anything
#   kvik-VERSION-py3-none-manylinux_2_31_x86_64.whl, kvik-VERSION.tgz   for pip and npm
#   kvik-VERSION.sha256                          their checksums, which deploy/install.sh verifies
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh

install_missing "${build_packages[@]}" "${package_packages[@]}"
tools/build_page.sh >&2 || echo "The page could not be built; / will say how to" >&2
tests=()
if [[ ! -f build/CMakeCache.txt ]]; then tests=(-DKVIK_BUILD_TESTS=OFF); fi
configure -DKVIK_PORTABLE=ON "${tests[@]}"
cmake --build build --target kvik_portable kvik_portable_shared kvik_documents --parallel "$(nproc)" >&2

packages=$PWD/build/packages
rm -rf "$packages"
for generator in DEB TGZ; do
  cpack --config build/CPackConfig.cmake -G "$generator" >&2
done
rm -rf "$packages"/_CPack_Packages "$packages"/*.sha256
version=$(sed -n 's/^project(kvik VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
/usr/bin/python3 -B tools/make/wheel.py build/portable/kvik "$version" "$packages" build/documents
/usr/bin/python3 -B tools/make/npm_package.py build/portable/kvik "$version" "$packages" build/documents
(cd "$packages" && sha256sum kvik[-_]*.* >"kvik-$version.sha256.part" && mv "kvik-$version.sha256.part" "kvik-$version.sha256")
ls -l "$packages" >&2
