// precompiled.hpp, and the tensors of LibTorch.
#pragma once

#include <ATen/ATen.h>

#include "support/precompiled.hpp"
