// How the models are made, a function a kind; zoo.cpp has the kinds' names. Each throws
// InvalidArgument when the samples' shape or the options do not fit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hanse/model/model.hpp"
#include "loss.hpp"

namespace hanse {

// What a model is made for.
struct ModelCase {
  const ModelOptions& options;
  const std::vector<int64_t>& sample_shape;  // positive
  LossPtr loss;
};

inline bool is_bfloat16(const ModelOptions& options) {
  return options.precision == Precision::kBfloat16;
}

// Throws InvalidArgument: the kind needs samples of that shape.
[[noreturn]] void refuse_shape(const ModelCase& c, const std::string& needed);

// One dense layer, and dense layers with ReLU between them.
std::unique_ptr<Model> make_linear(const ModelCase& c);
std::unique_ptr<Model> make_mlp(const ModelCase& c);

// The networks of network_spec(): the cnn kinds and lenet. Samples are images {channels, height,
// width}, large enough for the layers.
std::unique_ptr<Model> make_convolutional(const ModelCase& c);

// ResNet-18 (He et al. 2016, "Deep Residual Learning") with group norm in the place of batch norm
// (Wu and He 2018), as federated learning uses it since Hsieh et al. (2020) and Reddi et al.
// (2021): statistics of a batch would be those of one client. For small images: a 3x3 stem without
// pooling. Four stages of two blocks, options.channels in the first, doubled and halved in sides
// from stage to stage; a 1x1 convolution on the shortcut where the shape changes; the mean over
// positions and a dense layer. Each norm has options.groups groups, whose mean and variance are a
// sample's own. Names are torchvision's. 11.2M parameters for 10 classes.
std::unique_ptr<Model> make_resnet18(const ModelCase& c);

// Networks of sequences. Samples are {length} tokens; the output is one prediction a sequence (of
// the next character), or one a position where each has a label: then the dense layer reads the
// output of every step, and no position looks at later ones.
//
// Embedding, LSTM layers (Hochreiter and Schmidhuber 1997; gates in torch's order i, f, g, o), a
// dense layer on the last output. The model of LEAF for Shakespeare (Caldas et al. 2018) with its
// sizes by default.
std::unique_ptr<Model> make_lstm(const ModelCase& c);

// Embedding scaled by sqrt(d) plus sinusoidal positions, encoder layers with the norm behind each
// residual (Vaswani et al. 2017), a dense layer on the mean over positions. Nothing is masked
// unless every position has a label.
std::unique_ptr<Model> make_transformer(const ModelCase& c);

// A user's own network as data: a file of operators (graphs/graph_file.hpp), one graph for
// evaluation and one for training, which has the gradients too, so that autograd is not there. It
// gets float32 [rows, sample shape...] and returns float32 [rows, outputs]. Its parameters lie in
// the row under their own names; so do, behind them, float buffers (batch norm's means and
// variances), which are averaged like parameters but moved by forward passes only, and frozen
// parameters. Integer buffers are carried: every pass finds them as the file has them. In bfloat16
// graphs/graph_products.hpp rounds the factors of products. Nothing is drawn but
// hanse::keep: a pass in training takes one value of the client's stream, which seeds a stream of
// its own; each entry of each mask takes 32 bits of it, in the order of the nodes and of C's order
// of entries, and is kept when they are below p 2^32. Hence a mask has the same bits with any
// LibTorch. Memory of a pass: values are freed behind their last reader, and the blocks stay for
// the next pass; a gradient goes to its target as soon as its parameter is read no more.
//
// Throws also when the file is missing, damaged, or of other samples or outputs, names an operator
// that is not allowed or that LibTorch lacks, or changes its inputs; the message is one line.
std::unique_ptr<Model> make_graph(const ModelCase& c);

// Are a kind's factors rounded to bfloat16 on CPUs, and multiplied by LibTorch in float32? Throws
// InvalidArgument for an unknown kind.
bool rounds_factors(const std::string& kind);

// Throws InvalidArgument, with the option's key, unless there are some and all are positive.
void check_extents(const std::vector<int64_t>& extents, const std::string& what,
                   const std::string& key);

}  // namespace hanse
