# shellcheck shell=bash disable=SC2154
# scripts/setup --user: everything that a site does not offer, without root. Sourced by setup.

user_prefix=$root/.venv-user
cxx=${CXX:-c++}

# Header libraries in the order of building: a header, its authors' release in pool/main of Debian's
# archive, SHA-256.
header_libraries=(
  "Eigen/Core e/eigen3/eigen3_3.4.0.orig.tar.bz2
    b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626"
  "fmt/core.h f/fmtlib/fmtlib_9.1.0+ds1.orig.tar.gz
    84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583"
  "spdlog/spdlog.h s/spdlog/spdlog_1.10.0+ds.orig.tar.xz
    620ca6842b5c21014470bd42eb4716024674214fb973b5ffa3aaea33310ad327"
  "nlohmann/json.hpp n/nlohmann-json3/nlohmann-json3_3.11.2.orig.tar.gz
    d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273"
  "xxhash.h x/xxhash/xxhash_0.8.1.orig.tar.gz
    3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c"
  "Random123/philox.h libr/librandom123/librandom123_1.14.0+dfsg.orig.tar.xz
    0ed9bf1de7732303f35529ff9b42b0ab84e1fbeaad8ba97768440d8e2b109e87"
)

has_header() { echo "#include <$1>" | "$cxx" -E -x c++ - >/dev/null 2>&1; }

# Of the site, or installed here before.
finds_header() {
  [[ -e $user_prefix/include/$1 || -e $user_prefix/include/eigen3/$1 ]] || has_header "$1"
}

has_library() { echo 'int main() {}' | "$cxx" -x c++ - "-l$1" -o /dev/null 2>/dev/null; }

# Compiled for the site's network and processors: they come from its modules.
require_site_libraries() {
  local missing=()
  echo '#include <span>' | "$cxx" -std=c++20 -E -x c++ - >/dev/null 2>&1 || missing+=("C++20")
  command -v mpicxx >/dev/null || missing+=("MPI")
  command -v h5cc >/dev/null || command -v h5pcc >/dev/null || missing+=("HDF5")
  has_library openblas || missing+=("OpenBLAS")
  has_library boost_program_options || missing+=("Boost.Program_options")
  has_header zlib.h || missing+=("zlib")
  has_header png.h || missing+=("libpng")
  has_library turbojpeg || missing+=("libjpeg-turbo")
  has_header sodium.h && has_library sodium || missing+=("libsodium")
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=("Python 3 with venv")
  if [[ ${#missing[@]} -gt 0 ]]; then
    die "not found: $(printf '%s, ' "${missing[@]}" | sed 's/, $//')" \
      "load the site's modules (module avail), or take Spack or conda: jobs/clusters-and-gpus.md"
  fi
}

user_pip() { "$user_prefix/bin/python" -m pip --disable-pip-version-check "$@"; }

user_site_packages() { find "$user_prefix/lib" -maxdepth 2 -name site-packages -print -quit; }

# Before anything is installed: what is missing comes from a mirror of the user's choice.
require_mirror() {
  local library missing=()
  [[ -z ${HANSE_DEBIAN_MIRROR-} ]] || return 0
  for library in "${header_libraries[@]}"; do
    finds_header "${library%% *}" || missing+=("${library%% *}")
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    die "no place to fetch these headers from: ${missing[*]}" \
      "set HANSE_DEBIAN_MIRROR to the address of a mirror of Debian, the folder that holds pool/"
  fi
}

fetch() {  # fetch URL FILE
  if command -v curl >/dev/null; then curl -fsSL "$1" -o "$2"; else wget -qO "$2" "$1"; fi
}

install_header_library() {  # install_header_library HEADER ARCHIVE SHA256
  local work address=${HANSE_DEBIAN_MIRROR-}/pool/main/$2
  finds_header "$1" && return
  say "setup: building $(basename "$2")"
  work=$(mktemp -d)
  fetch "$address" "$work/archive" || die "cannot fetch $address" "look at HANSE_DEBIAN_MIRROR"
  echo "$3  $work/archive" | sha256sum --check --status ||
    die "$address is not the file it should be" "its SHA-256 should be $3"
  mkdir "$work/source"
  tar -xf "$work/archive" -C "$work/source" --strip-components=1
  if [[ -e $work/source/CMakeLists.txt ]]; then
    quietly cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_INSTALL_PREFIX="$user_prefix" -DCMAKE_PREFIX_PATH="$user_prefix" \
      -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_TESTING=OFF \
      -DFMT_TEST=OFF -DFMT_DOC=OFF -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF \
      -DJSON_BuildTests=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5  # older than CMake 4 takes
    quietly cmake --build "$work/build"
    quietly cmake --install "$work/build"
  elif [[ -d $work/source/include ]]; then
    cp -r "$work/source/include/." "$user_prefix/include/"
  else
    cp "$work/source/$1" "$user_prefix/include/"
  fi
  rm -rf "$work"
}

print_user_options() {
  say "The build without root:"
  say "  export PATH=$user_prefix/bin:\$PATH"
  say "  cmake --preset release -DHANSE_TESTS=OFF -DHANSE_BENCHMARKS=OFF \\"
  say "    -DHANSE_TORCH_WHEEL=$(user_site_packages)/torch -DCMAKE_PREFIX_PATH=$user_prefix"
  say "  cmake --build build --target hanse"
}

install_for_user() {
  local library header archive digest
  require_site_libraries
  require_mirror
  if [[ ! -e $user_prefix/complete ]]; then
    say "setup: installing torch, CMake and Ninja into ${user_prefix#"$root"/} (2 GB)"
    quietly python3 -m venv "$user_prefix"
    quietly user_pip install cmake ninja matplotlib h5py
    install_torch_wheel "$user_prefix/bin/python" "torch==$torch_version"
  fi
  PATH=$user_prefix/bin:$PATH
  mkdir -p "$user_prefix/include"
  for library in "${header_libraries[@]}"; do
    read -rd '' header archive digest <<<"$library" || true
    install_header_library "$header" "$archive" "$digest"
  done
  touch "$user_prefix/complete"
  print_user_options
}
