// What nccl_communicator.cpp calls of CUDA's runtime, as CUDA declares it.
#pragma once

extern "C" {

using cudaStream_t = struct CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorNotReady = 600, cudaErrorIllegalAddress = 700 };

cudaError_t cudaStreamQuery(cudaStream_t stream);
const char* cudaGetErrorString(cudaError_t error);
}
