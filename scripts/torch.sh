# shellcheck shell=bash disable=SC2154
# LibTorch of a Python wheel, for CPUs. Sourced by setup, user.sh, build and test-torch.

# The one beside the system's: scripts/setup --torch.
second_venv=$root/.venv-torch

# The version of torch that Hanse's own wheel is built for: that of its extra `torch`.
wheel_torch() { sed -n 's/^torch = \["torch==\(.*\)"\]$/\1/p' "$root/scripts/packaging/extras.toml"; }

# The wheel without its dependencies: on CPUs LibTorch needs two small libraries of CUDA's 6 GB.
install_torch_wheel() {  # install_torch_wheel PYTHON torch[==VERSION]
  local python=$1 cuda pip=("$1" -m pip --disable-pip-version-check install --no-deps)
  quietly "${pip[@]}" "$2"
  cuda=$(cat "${python%/bin/python}"/lib/python*/site-packages/torch-*.dist-info/METADATA |
    sed -n 's/^Requires-Dist: cuda-toolkit\[.*\]==\([0-9]*\.[0-9]*\)\..*/\1/p')
  if [[ -n $cuda ]]; then
    quietly "${pip[@]}" "nvidia-cuda-runtime==$cuda.*" "nvidia-cuda-cupti==$cuda.*"
  fi
}

# Is the version there that HANSE_TORCH_VERSION names, or a newest one of its day?
has_second_torch() {
  [[ $(cat "$second_venv/complete" 2>/dev/null) == "${HANSE_TORCH_VERSION:-newest}" ]]
}

install_second_torch() {
  if has_second_torch; then return; fi
  install_missing python3-venv
  say "setup: installing torch into ${second_venv#"$root"/} (2 GB)"
  quietly /usr/bin/python3 -m venv --clear "$second_venv"
  install_torch_wheel "$second_venv/bin/python" "torch${HANSE_TORCH_VERSION:+==$HANSE_TORCH_VERSION}"
  say "${HANSE_TORCH_VERSION:-newest}" >"$second_venv/complete"
}

# What cmake needs to know of it; nothing where it is not installed.
second_torch_option() {
  if [[ -e $second_venv/complete ]]; then
    say "-DHANSE_SECOND_TORCH=$(echo "$second_venv"/lib/python*/site-packages/torch)"
  fi
}
