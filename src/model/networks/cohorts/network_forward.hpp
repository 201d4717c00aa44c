// The forward pass of the networks of network_spec() as one graph of tensors, for one client or for
// several side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "narrow/network_products.hpp"
#include "network_spec.hpp"

namespace hanse {

// The stages on images x [B, C channels, height, width], C clients' in the channels of one: grouped
// convolutions. `leaves` begins with the stages' weights and biases, each with a leading C; one
// client's may have none. The result is before its ReLU.
//
// ReLU after pooling: max(relu(x)) = relu(max(x)), and the gradients are equal too, on a quarter of
// the values.
at::Tensor convolve(const NetworkProducts& products, const std::vector<ConvolutionStage>& stages,
                    std::span<const at::Tensor> leaves, at::Tensor x);

// Logits of x [..., B, inputs] by dense layers with ReLU between them; `last_input`, unless
// null, gets what the last one reads. `leaves` are their weights,
// with bias each followed by its own; of several clients all have a leading C. `masks`, when there
// are any, multiply the hidden layers' outputs one after another.
at::Tensor dense_layers(const NetworkProducts& products, std::span<const at::Tensor> leaves,
                        bool bias, at::Tensor x, std::span<const at::Tensor> masks,
                        at::Tensor* last_input = nullptr);

// x [..., in] by weight [out, in], in float32, or of C clients x [C, ..., in] by weight [C, out,
// in].
at::Tensor dense(const NetworkProducts& products, const at::Tensor& x, const at::Tensor& weight,
                 const at::Tensor& bias);

// Rows of weight [tokens, values] by ids [...], or of C clients' weight [C, tokens, values] by ids
// [C, ...].
at::Tensor embed(const at::Tensor& weight, const at::Tensor& ids);

}  // namespace hanse
