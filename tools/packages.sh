# The Debian 12 packages that Kvik needs; sourced by ./run, ./test and tools/package.sh.
# shellcheck shell=bash disable=SC2034

build_packages=(
  g++ cmake ninja-build
  libboost1.81-dev libboost-json1.81-dev  # HTTP, JSON
  libcli11-dev                            # command line
  libfmt-dev libspdlog-dev                # formatting, logging
  libicu-dev                              # Unicode
  libpcre2-dev                            # regular expressions of tokenizer.json
  libssl-dev                              # page keys
  libxxhash-dev                           # checksums, hashes of tensors
  libsqlite3-dev                          # index of the disk tier
  libhiredis-dev                          # Redis as a tier
  libcurl4-openssl-dev                    # headers of libcurl, which downloads load when they run
  nlohmann-json3-dev                      # KV events: MessagePack
  libedit-dev                             # line editing in a terminal
)
# For web/. Not installed if npm exists, because Debian's packages conflict with other versions of Node.
if ! command -v npm >/dev/null; then build_packages+=(nodejs npm); fi

# The portable program (cmake/portable.cmake) also holds these libraries.
package_packages=(libbsd-dev libmd-dev libncurses-dev icu-devtools dpkg-dev python3)

model_packages=(python3 python3-pip)        # tools/fetch_models.py

test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev
  pkgconf                                 # programs that use the library
  libboost-context1.81-dev                # fibers, to run CUDA kernels on the host thread by thread
  python3-jinja2                          # the oracle for chat templates
  python3 python3-numpy                   # end-to-end tests, the oracle
  iproute2                                # loopback in an agent's network namespace (--long)
  openssl                                 # certificates of the TLS tests
  tmux                                    # the terminal of e2e/terminal_test.py
  clang-format clang-19                   # tests/tidy: formatting, and thread-safety analysis
  chromium                                # the page, in tests/e2e
  redis-server haproxy                    # fleets of servers, in tests/e2e
  libzmq3-dev python3-zmq python3-msgpack  # readers of KV events
  python3-pip                             # downloads trained models
  python3-jsonschema                      # validates answers against their schemas
  python3-yaml                            # the files of deploy/
  man-db zsh fish                         # man pages and completions
  json-schema-test-suite                  # the cases of tests/e2e/constrain_test.py
)

long_packages=(debootstrap systemd-container)  # folders of other distributions (--long)

# Only for the preset `fuzz` (tests/fuzz/CMakeLists.txt); GCC has no libFuzzer.
fuzz_packages=(clang-19 libclang-rt-19-dev)

# install_missing PACKAGE…: calls apt only if a package is missing, so that a machine with all packages needs neither network nor root.
install_missing() {
  local missing=() package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return; fi

  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "Please install as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]}" >&2
  # A broken third-party source must not prevent installing Debian's packages.
  "${as_root[@]}" apt-get update -q >&2 || echo "apt-get update failed; continuing with the known packages" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

# unpack_promtool: adds promtool to the path. Debian's package would also start a service, so it is only unpacked. If it is not available,
# the test that needs it is skipped with a message.
unpack_promtool() {
  local folder=$PWD/build/promtool
  if ! command -v promtool >/dev/null && [[ ! -x $folder/usr/bin/promtool ]]; then
    mkdir -p "$folder"
    (cd "$folder" && apt-get download -q prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) >&2 ||
      echo "promtool is not available; its test is skipped" >&2
  fi
  PATH=$PATH:$folder/usr/bin
}

# configure [CMAKE ARGUMENT…]: configures the preset `$preset` (default: release), through ccache if it is installed. ccache uses paths
# relative to the root of the repository, so that clones share compiled objects, and needs options for precompiled headers.
configure() {
  local with_ccache=()
  if command -v ccache >/dev/null; then
    local launcher="env;CCACHE_BASEDIR=$PWD;CCACHE_NOHASHDIR=1;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"
    with_ccache=("-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher")
  fi
  cmake --preset "${preset:-release}" "${with_ccache[@]}" "$@" --log-level=WARNING >/dev/null  # errors go to stderr
}
