// The operators that a graph file may name. What is not here: whatever reads or writes files or
// memory that it did not get (from_file, set, as_strided, _reshape_alias, resize), draws random
// numbers, returns numbers to the program (item), makes tensors whose shape depends on values
// (nonzero), or computes with complex numbers. Operators whose kernels trust their arguments have a
// check of their own in networks/graph_guards.cpp.
#include <set>
#include <sstream>
#include <string_view>

#include "graphs/graph_file.hpp"

namespace hanse {

namespace {

constexpr std::string_view kOfEntries =
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin "
    "acos "
    "atan sinh cosh tanh asinh acosh atanh sigmoid relu relu6 silu gelu mish elu selu celu "
    "hardtanh "
    "hardsigmoid hardswish leaky_relu softplus softshrink hardshrink threshold log_sigmoid_forward "
    "erf erfc floor ceil round trunc frac sign sgn isnan isinf isfinite logical_not bitwise_not "
    "nan_to_num clamp clamp_min clamp_max prelu _prelu_kernel glu positive logit "
    "threshold_backward sigmoid_backward tanh_backward silu_backward gelu_backward mish_backward "
    "elu_backward hardtanh_backward hardsigmoid_backward hardswish_backward leaky_relu_backward "
    "softplus_backward softshrink_backward hardshrink_backward log_sigmoid_backward glu_backward "
    "prelu_backward _prelu_kernel_backward logit_backward "
    "add sub rsub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin "
    "atan2 hypot eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or "
    "bitwise_xor __and__ __or__ __xor__ where addcmul addcdiv lerp masked_fill xlogy logaddexp "
    "logaddexp2 copysign";

constexpr std::string_view kOfAxes =
    "sum mean prod var std var_mean std_mean amax amin max min argmax argmin norm "
    "linalg_vector_norm logsumexp cumsum cumprod logcumsumexp all any sort topk argsort aminmax "
    "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data";

constexpr std::string_view kOfLayers =
    "mm addmm bmm baddbmm addbmm mv addmv dot addr matmul linear convolution convolution_backward "
    "native_batch_norm native_batch_norm_backward _native_batch_norm_legit "
    "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training native_layer_norm "
    "native_layer_norm_backward native_group_norm native_group_norm_backward embedding "
    "embedding_dense_backward max_pool2d_with_indices max_pool2d_with_indices_backward "
    "max_pool3d_with_indices max_pool3d_with_indices_backward avg_pool2d avg_pool2d_backward "
    "avg_pool3d avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward "
    "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d "
    "_adaptive_avg_pool3d_backward constant_pad_nd reflection_pad1d reflection_pad1d_backward "
    "reflection_pad2d reflection_pad2d_backward replication_pad1d replication_pad1d_backward "
    "replication_pad2d replication_pad2d_backward upsample_nearest1d upsample_nearest1d_backward "
    "upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward "
    "_upsample_nearest_exact2d _upsample_nearest_exact2d_backward upsample_linear1d "
    "upsample_linear1d_backward upsample_bilinear2d upsample_bilinear2d_backward "
    "upsample_bicubic2d upsample_bicubic2d_backward upsample_trilinear3d "
    "upsample_trilinear3d_backward pixel_shuffle pixel_unshuffle channel_shuffle im2col col2im "
    "_weight_norm_interface _weight_norm_interface_backward";

constexpr std::string_view kOfPlaces =
    "index index_put _index_put_impl index_select index_add index_fill index_copy gather scatter "
    "scatter_add scatter_reduce select slice narrow select_backward slice_backward select_scatter "
    "slice_scatter diagonal diagonal_backward diagonal_scatter view reshape _unsafe_view "
    "expand expand_as permute transpose t squeeze unsqueeze flatten unflatten "
    "unbind "
    "split split_with_sizes chunk unsafe_split unsafe_split_with_sizes unsafe_chunk cat stack "
    "repeat tile flip roll movedim clone contiguous _to_copy to type_as detach alias lift_fresh "
    "copy fill zero zeros ones full empty zeros_like ones_like full_like empty_like new_zeros "
    "new_ones new_full new_empty empty_strided new_empty_strided scalar_tensor arange linspace eye "
    "tril triu tril_indices triu_indices diag_embed trace";

std::set<std::string> names_in(std::initializer_list<std::string_view> lists) {
  std::set<std::string> names;
  for (const std::string_view list : lists) {
    std::istringstream words{std::string(list)};
    for (std::string word; words >> word;) names.insert(word);
  }
  return names;
}

}  // namespace

bool is_allowed_operator(const std::string& name) {
  static const std::set<std::string> allowed =
      names_in({kOfEntries, kOfAxes, kOfLayers, kOfPlaces});
  constexpr std::string_view kNamespace = "aten::";
  if (!name.starts_with(kNamespace)) return false;
  const std::string bare = name.substr(kNamespace.size());
  if (allowed.contains(bare)) return true;
  return bare.size() > 1 && bare.ends_with('_') &&
         allowed.contains(bare.substr(0, bare.size() - 1));
}

}  // namespace hanse
