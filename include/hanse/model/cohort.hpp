// Several clients' models side by side on one device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/data/dataset.hpp"
#include "hanse/model/image_change.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/step_rule.hpp"

namespace at {
class Tensor;
}

namespace hanse {

class FrozenPart;
class PartModel;

// Some steps of C clients, borrowed from the caller. Unused places must hold finite values.
struct CohortSteps {
  std::span<const int64_t> places;  // [steps, C, B] places of samples on the device
  std::span<const int64_t> counts;  // [steps, C] samples; 0: the client does not step
  std::span<const StepSize> sizes;  // [steps, C]; scale 0: the client does not step
  // [steps, C, B] what each step makes of images, if the settings augment: it puts them, with their
  // labels, into the last C B places on the device. Of a client's batch of n the first n are read.
  std::span<const ImageChange> changes = {};
};

// How a GPU gets the kernels of steps.
struct KernelStarts {
  bool recorded = true;  // once, and started together
  int64_t streams = 4;   // where clients train one after the other: how many do so side by side
};

// Made by TorchLibrary::make_cohort. C clients' parameter rows [C, P] on a device, and steps on all
// of them at once. The shape of each kernel call depends on (C, B) and the model alone; two
// calls with the same arguments on the same kind of device give the same bits, on GPUs after
// use_gpu().
class Cohort {
 public:
  // The derivative of a client's objective by its batch's loss F: 1 / (base - F) where base - F >=
  // `least`, else `beyond`. base 0: 1.
  struct Slope {
    double base = 0, least = 0, beyond = 1;
  };
  // g <- scale h min(1, clip/|scale h|), h the slope times the loss's gradient, or with
  // `accumulates` the sum of samples h over the mini-batches since the client's last step; then
  // w <- keep w - rate direction(g), a StepRule's
  struct Settings {
    std::string device = "cpu";  // LibTorch's name: "cpu", "cuda:0"
    int64_t clients = 8;         // C >= 1
    int64_t batch = 20;          // B >= 1
    int64_t samples = 1;         // places for samples on the device
    StepNumbers step = {};       // but for mu
    bool accumulates = false;
    double clip = 0;  // largest gradient norm; 0: off
    Slope slope = {};
    bool by_hand = true;  // networks of known layers: gradients without autograd, which is slower
    KernelStarts starts = {};
    // What clients train for in the place of the model's loss, with its arguments: smooth_labels()
    // with this share, from 0 on, or train_for() with this file. Below 0 and empty: neither.
    double smoothing = -1;
    std::string objective = {};
    bool weighs = false;    // Start::class_weights are there
    bool mixes = false;     // the batches of steps are mixtures
    bool augments = false;  // samples are images, which steps change: CohortSteps::changes
    int64_t cutout = 0;     // ImageSize::side
    // Where clients train a part of the model: the rows are its rows, and of what is frozen the
    // device has one copy. It is read once, behind its hold(). Null: the rows have all tensors.
    const PartModel* part = nullptr;
    // Samples are what is frozen of them, as this frozen part of the part's network makes it. Null:
    // they are as they are.
    const FrozenPart* frozen = nullptr;
  };
  // A RandomStream with Purpose::kDropout.
  struct NoiseKey {
    uint64_t seed, round, client;
  };
  // Where steps begin, and which forces act besides the gradient:
  //   g <- g + mu (w - anchor) + pull,  before momentum
  struct Start {
    double mu = 0;                     // weight of the proximal term; 0: off
    bool to_theta = false;             // its anchor is theta; else what the rows start from
    std::span<const float> rows = {};  // [n, P] of the first clients; the others start from theta
    std::span<const std::span<const float>> received = {};  // [n] of [P]: each client's own theta
    std::span<const float> pulls = {};                      // [n, P]; empty: none
    // [n, moment_values()] what the clients' moments start from; empty: zero.
    std::span<const float> moments = {};
    std::span<const NoiseKey> noise = {};       // [n] streams of the clients' dropout masks
    std::span<const float> class_weights = {};  // [n, classes] where the settings weigh
    bool squares = false;                       // squares() are wanted
  };

  virtual ~Cohort() = default;

  // Copies a batch from the host's memory to the places [begin, begin + batch.rows); they are zero
  // before. Where steps mix, batch.mixed holds until the next put(), and null: nothing is mixed in.
  // Waits for the device to have read it.
  virtual void put(int64_t begin, const Batch& batch) = 0;
  // Values that a client's moments have, one moment behind the other: of what is trained.
  virtual int64_t moment_values() const = 0;
  // Copies the first clients' moments, [n, moment_values()], to the host's memory. Waits for the
  // device.
  virtual void take_moments(std::span<float> moments) const = 0;
  // Steps move parts of the trained values, each client those of its StepSize::part: [parts,
  // trained] 0: the value stays, and so do its moments; it has no share in the clipped norm. Call
  // it before start(). Else they move all.
  virtual void put_parts(std::span<const uint8_t> moves) = 0;
  // [P] float32 on the device: where the received model is put before start().
  virtual at::Tensor& theta() = 0;
  virtual void start(const Start& start) = 0;
  // Uploads the samples of the next steps at once, while the device works on earlier ones. Call it
  // after start().
  virtual void put_steps(const CohortSteps& steps) = 0;
  // `count` of the uploaded steps, from `first` on, for the first `clients` of C that have a sample
  // in them; the others have none. Cost of each: `clients` times that of the model's
  // loss_and_gradient, in kernels so many times as large.
  virtual void steps(int64_t first, int64_t count, int64_t clients) = 0;
  // [C, P] on the device: gradients of that step's losses alone, at the rows, which stay; valid
  // until the next call. The step's dropout masks apply. `counts`: the losses count in losses().
  virtual const at::Tensor& gradients(int64_t number, bool counts) = 0;
  // [C] float64 on the device: sums of the mean losses of each client's batches since start().
  virtual const at::Tensor& losses() const = 0;
  // Copies losses() to the host's memory. Waits for the device.
  virtual void take_losses(std::span<double> losses) const = 0;
  // Likewise the sums [C] of the squared losses of each client's samples since a start() that asked
  // for them.
  virtual void take_squares(std::span<double> squares) const = 0;
  // float32 on the device: theta() [P], or [C, P] where clients have started from thetas of their
  // own.
  virtual const at::Tensor& received() const = 0;
  // [C, P] float32 on the device; unchanged until the next start(), steps() or put_rows().
  virtual const at::Tensor& rows() const = 0;
  // Copies the first rows, [n, P], from and to the host's memory; and theta(), [P].
  virtual void take_rows(std::span<float> rows) const = 0;
  virtual void put_rows(std::span<const float> rows) = 0;
  virtual void take_theta(std::span<float> row) const = 0;
  virtual void put_theta(std::span<const float> row) = 0;
  // Evaluates theta() on the samples in these places, as Model::evaluate(). The shape of each
  // kernel call depends on their number and the model alone, and the bits on nothing else of the
  // call. take_evaluations() brings the results, and the sums of each call since it was called
  // last, in one transfer of up to some 64 MiB: it waits for the device.
  virtual void evaluate(std::span<const int64_t> places, SampleResults results) = 0;
  virtual std::vector<EvaluationSums> take_evaluations() = 0;
  // [batches, C] mean losses, in evaluation mode, of each of rows() on each of these ranges of
  // samples on the device. Waits for the device.
  virtual std::vector<double> row_losses(std::span<const SampleRange> batches) = 0;
};

}  // namespace hanse
