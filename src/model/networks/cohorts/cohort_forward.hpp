// The forward pass of a network with a leading dimension of clients, each with parameters of its
// own, as one graph of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "hanse/model/frozen_part.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/model/torch_library.hpp"
#include "makers.hpp"
#include "networks/mask_source.hpp"

namespace hanse {

// What computes one client after the other, and knows its own way back.
class ClientPasses {
 public:
  // The logits [n, ...] of training on a client's samples [n, values]. `leaves`: its tensors,
  // in the layout's order. `masks` draw until backward() has ended.
  virtual at::Tensor forward(const std::vector<at::Tensor>& leaves, const at::Tensor& samples,
                             MaskSource& masks) = 0;
  // Overwrites the gradients of the last forward() from those of its logits and, where it is
  // defined, of representation(), one a leaf that trains; nobody asks for those that are undefined.
  virtual void backward(const at::Tensor& delta, const std::vector<at::Tensor>& gradients,
                        const at::Tensor& of_representation = {}) = 0;
  // What the last layer read in the last forward(); undefined: it is not told.
  virtual at::Tensor representation() const = 0;
  // Overwrites those of `leaves` that are buffers by what the last forward() has made of them.
  virtual void move_buffers(std::span<const at::Tensor> leaves) const = 0;
  virtual bool draws() const = 0;  // are there masks?

 protected:
  ~ClientPasses() = default;
};

class CohortForward {
 public:
  struct Dropout {
    int64_t width;  // values a sample
    double share;
    int64_t steps = 1;  // a client's masks are drawn step by step: [steps, samples, width / steps]
  };

  // Samples [C] of a training step, 0: the client rests; and seeds [C] of what a network draws.
  struct StepOfClients {
    std::span<const int64_t> counts;
    std::span<const uint64_t> seeds;
  };

  virtual ~CohortForward() = default;

  // In the order in which a forward pass meets them; only those with a share above 0.
  const std::vector<Dropout>& dropouts() const { return dropouts_; }

  // Logits [C, B, outputs] of input [C, B, values of a sample], [C, B, positions, outputs] where
  // each position has a class. `leaves` are the layout's tensors, each with a leading C; masks[d]
  // [C, B, width] multiply what dropouts()[d] drops from; without masks nothing is dropped.
  // `representation`, unless null, gets what the last layer reads.
  virtual at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                            std::span<const at::Tensor> masks,
                            at::Tensor* representation = nullptr) const = 0;

  // The tensors of the whole network, where `leaves` are those of a part.
  virtual std::vector<at::Tensor> whole(std::span<const at::Tensor> leaves) const {
    return {leaves.begin(), leaves.end()};
  }

  // Null: a training step is logits(), differentiated, and there are no buffers.
  virtual ClientPasses* client_passes() { return nullptr; }

  // Cuts it where the host's network is cut, whose frozen part that is (frozen_part.hpp): samples
  // of all passes are from now on the values that it makes of them. Returns what makes them here,
  // of `leaves`, of which those that move need not be defined; null: this kind is not cut.
  virtual FrozenPart* cut_as(const FrozenPart& /*host*/,
                             const std::vector<at::Tensor>& /*leaves*/) {
    return nullptr;
  }

  // Does a training step call the same kernels, with the same numbers from the host, every time?
  virtual bool can_be_recorded() const { return true; }

  // Throws Error when samples in the host's memory are none of this network's.
  virtual void check(const Batch& /*batch*/) const {}

 protected:
  std::vector<Dropout> dropouts_;
};

// The forward pass of a part: `network`, whose tensors come from the part's rows, and of frozen
// ones there is one on the device for all clients. REQUIRES: as sources_of().
std::unique_ptr<CohortForward> make_part_cohort(std::unique_ptr<CohortForward> network,
                                                const PartModel& part, const std::string& device);

// Makes that of the model which make_model() builds, on a device as LibTorch names it. Throws
// InvalidArgument when a user's module does not run there.
std::unique_ptr<CohortForward> make_cohort_forward(const ModelCase& c, const std::string& device);

// As TorchLibrary::models.
std::span<const TorchModel> torch_models();

// The forward passes of single kinds; the first is of the layers of network_spec().
std::unique_ptr<CohortForward> make_layers_cohort(const ModelCase& c, const std::string& device);
std::unique_ptr<CohortForward> make_resnet_cohort(const ModelCase& c, const std::string& device);
std::unique_ptr<CohortForward> make_lstm_cohort(const ModelCase& c, const std::string& device);
std::unique_ptr<CohortForward> make_transformer_cohort(const ModelCase& c,
                                                       const std::string& device);
std::unique_ptr<CohortForward> make_graph_cohort(const ModelCase& c, const std::string& device);

// Images [B, C channels, height, width] of input [C, B, values].
inline at::Tensor images_side_by_side(const at::Tensor& input, const std::vector<int64_t>& shape) {
  return input.transpose(0, 1).reshape(
      {input.size(1), input.size(0) * shape[0], shape[1], shape[2]});
}

}  // namespace hanse
