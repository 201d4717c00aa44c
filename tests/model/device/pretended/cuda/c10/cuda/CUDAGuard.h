#include "model/device/pretended/cuda/cuda_graphs.hpp"
