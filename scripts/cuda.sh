# shellcheck shell=bash disable=SC2154
# scripts/setup --cuda: LibTorch with CUDA and NCCL, and CUDA's compiler, in a Python environment.
# Sourced by setup, test-cuda and pack-gpu-test.

# The version of the machines with GPUs at hand, in .venv-cuda and build-cuda; another one has folders
# of its own.
torch_version=${HANSE_TORCH_VERSION:-2.11.0}
cuda_venv=$root/.venv-cuda${HANSE_TORCH_VERSION:+-$HANSE_TORCH_VERSION}
cuda_build=build-cuda${HANSE_TORCH_VERSION:+-$HANSE_TORCH_VERSION}

cuda_pip() { "$cuda_venv/bin/python" -m pip --disable-pip-version-check "$@"; }

site_packages() { find "$cuda_venv/lib" -maxdepth 2 -name site-packages -print -quit; }

# The CUDA version of LibTorch, such as 13.2.
torch_cuda_version() { sed -n "s/^cuda.* = '\(.*\)'/\1/p" "$(site_packages)/torch/version.py"; }

# pip has compilers from CUDA 13 on; an older one is the machine's, where it has the same version.
machine_nvcc() {
  local nvcc=${CUDACXX:-nvcc} version
  version=$(torch_cuda_version)
  [[ $("$nvcc" --version 2>/dev/null) == *"release ${version%%.*}."* ]] ||
    die "torch $torch_version needs the compiler of CUDA $version, which pip does not have" \
      "load a module with CUDA ${version%%.*}, or let CUDACXX name its nvcc"
  realpath "$(command -v "$nvcc")"
}

has_pip_compiler() { [[ $(torch_cuda_version | cut -d. -f1) -ge 13 ]]; }

# LibTorch's CMake files enable the CUDA language, and the wheel brings no compiler: the one of the
# same CUDA version as its runtime.
install_cuda_compiler() {
  local version
  if ! has_pip_compiler; then
    machine_nvcc >/dev/null
    return
  fi
  version=$(cuda_pip show nvidia-cuda-runtime | sed -n 's/^Version: \([0-9]*\.[0-9]*\).*/\1/p')
  quietly cuda_pip install "nvidia-cuda-nvcc==$version.*" "nvidia-cuda-crt==$version.*" \
    "nvidia-nvvm==$version.*"
}

# The wheels ship libcudart.so.13 and no libcudart.so, the name that linkers ask for.
link_cuda_libraries() {
  local library plain
  for library in "$(site_packages)"/nvidia/{cu*,nccl}/lib/lib*.so.*; do
    plain=${library%%.so.*}.so
    [[ ! -e $library || -e $plain ]] || ln -s "$(basename "$library")" "$plain"
  done
  for library in "$(site_packages)"/nvidia/cu*/lib; do
    ln -sfn lib "${library}64"
  done
}

# Is the version there that was asked for, not an earlier default?
has_cuda_torch() { [[ $(cat "$cuda_venv/complete" 2>/dev/null) == "$torch_version" ]]; }

install_cuda_torch() {
  install_missing python3-venv
  if has_cuda_torch; then
    return
  fi
  say "setup: installing torch and CUDA's compiler into ${cuda_venv#"$root"/} (6 GB)"
  quietly /usr/bin/python3 -m venv --clear "$cuda_venv"
  if ! cuda_pip install --quiet "torch==$torch_version"; then
    [[ -z ${HANSE_TORCH_VERSION-} ]] || die "torch $torch_version cannot be installed"
    say "setup: torch $torch_version is not served; taking the newest"
    quietly cuda_pip install torch
  fi
  install_cuda_compiler
  link_cuda_libraries
  say "$torch_version" >"$cuda_venv/complete"
}

# Compute capabilities that the kernels are compiled for: A100, H100 and H200, B200; of the last one
# also PTX, from which a driver makes code for later GPUs. CUDA 12 does not know B200 before 12.8.
cuda_architectures() {
  local newest='9.0+PTX'
  ! has_pip_compiler || newest='9.0;10.0+PTX'
  say "${HANSE_CUDA_ARCHITECTURES:-8.0;$newest}"
}

# What cmake needs to know, an option a line.
cuda_options() {
  local packages cuda nvcc
  packages=$(site_packages)
  if has_pip_compiler; then
    cuda=$(find "$packages/nvidia" -maxdepth 1 -name 'cu[0-9]*' -print -quit)
  else
    nvcc=$(machine_nvcc)
    cuda=${nvcc%/bin/nvcc}
  fi
  say "-DHANSE_CUDA=ON"
  say "-DTORCH_CUDA_ARCH_LIST=$(cuda_architectures)"
  say "-DCMAKE_CUDA_COMPILER=$cuda/bin/nvcc"
  say "-DCUDAToolkit_ROOT=$cuda"
  say "-DCMAKE_PREFIX_PATH=$packages/torch;$cuda;$packages/nvidia/nccl"
}

print_cuda_options() {
  local option
  say "The GPU build:"
  say "  cmake --preset release -B $cuda_build \\"
  while read -r option; do say "    '$option' \\"; done < <(cuda_options)
  say "    && cmake --build $cuda_build"
}
