// All that needs LibTorch: networks, files for Python, and computation on GPUs.
//
// LibTorch brings 280 libraries, which take 0.35 s and 100 MB to load; on CPUs graph
// alone needs them. Therefore its callers (src/model/networks, src/model/device) are a
// library of its own, build/lib/hanse-torch.so, which is loaded when something asks for it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/model/cohort.hpp"
#include "hanse/model/cohort_gradients.hpp"
#include "hanse/model/device_communicator.hpp"
#include "hanse/model/device_server.hpp"
#include "hanse/model/device_sums.hpp"
#include "hanse/model/frozen_part.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

struct ModelCase;     // what a model is made for
class CohortForward;  // trains clients with models of a kind side by side
class Objective;      // a loss of the user's own
struct ObjectiveCase;

// A GPU that this process may use.
struct Gpu {
  std::string identity;  // unique to it, "GPU 3f8a..."; MIG slices are GPUs, too
  std::string name;      // "NVIDIA H100 80GB HBM3, compute capability 9.0"
  int64_t memory_bytes = 0;
};

// The GPUs of this process.
struct GpuLibrary {
  // None when there is no GPU, no driver, or no CUDA in this build. Throws InvalidArgument when one
  // does not answer.
  std::vector<Gpu> (*all)();

  // Makes all()[index] the GPU of this process, and its results the same from run to run:
  // deterministic algorithms, no search for the fastest one. `precision` is that of the networks to
  // come: TF32 in tf32 alone, and in convolutions whose factors are bfloat16 numbers. Returns
  // LibTorch's name of it, "cuda:0". Call it before the first computation. Throws NotCompiled in a
  // build without CUDA, and InvalidArgument when the GPU does not work or lacks the precision.
  std::string (*use)(int64_t index, Precision precision);

  // Memory that nobody has, of the GPU in use.
  int64_t (*free_bytes)();

  // Names the runtime and what else fixes bits, "13.0, cuDNN 91900"; empty in a build without CUDA.
  std::string (*cuda_version)();
  std::string (*nccl_version)();  // of the loaded library, "2.29.3"; empty in a build without it
};

// How a kind of model is made of LibTorch.
struct TorchModel {
  std::string kind;  // model.kind
  // Null: it needs no LibTorch.
  std::unique_ptr<Model> (*make)(const ModelCase& c);
  // Null: it trains on CPUs alone.
  std::unique_ptr<CohortForward> (*make_cohort)(const ModelCase& c, const std::string& device);
};

struct TorchLibrary {
  // A row a kind, but for those that network_spec() describes.
  std::span<const TorchModel> models;

  // See train_for().
  std::unique_ptr<Objective> (*make_objective)(const ObjectiveCase& c);

  // The bytes of a file that torch.load reads (with weights_only too) as a state dict: a dictionary
  // from the layout's names to float32 tensors of its shapes, and from carried tensors to int64
  // ones; names of one tensor share its values. REQUIRES: row.size() == layout.n_params().
  std::string (*state_dict)(const ParameterLayout& layout, std::span<const float> row);

  // Makes the cohort of the model that make_model() builds of the same arguments: the same layout,
  // the same loss and the same dropout masks, within float tolerance of its results. Memory on the
  // device: 2 C P floats (3 with momentum), 4 bytes a value of a sample, the activations and what
  // their gradients need: for linear, mlp and the cnn kinds as much again, and the patches of one
  // convolution, C B inputs kernel^2 pixels floats. Throws InvalidArgument as make_model() does,
  // and for models with buffers or frozen parameters; as train_for() and smooth_labels().
  std::unique_ptr<Cohort> (*make_cohort)(const ModelOptions& options,
                                         const std::vector<int64_t>& sample_shape,
                                         const LabelForm& labels, const Cohort::Settings& settings);

  // Makes of `host`, which make_model() has built of the same arguments and which must outlive the
  // result, a model whose arithmetic runs on a device: it does all that the host's does, within
  // float tolerance and with the same dropout masks, but for record_gradient(). Its losses, of any
  // form, are the host's, found from the logits. Cost of a gradient beside the device's own work:
  // the row, the samples and the deltas of the logits go there, logits and gradient come back; of a
  // Hessian-vector product: two rows there and one back; of clipped gradients: those of the samples
  // come back one by one, [rows, trainable] floats, or where a host draws masks a sample at a time
  // in a pass each. Memory on the device: 2 P floats and what autograd keeps. Throws
  // InvalidArgument where the device has no room or a user's network does not run there.
  std::unique_ptr<Model> (*make_device_model)(Model& host, const ModelOptions& options,
                                              const std::vector<int64_t>& sample_shape,
                                              const LabelForm& labels, const std::string& device);

  // Makes what computes on a device the frozen part that freeze() has found of the network of
  // `part`; null: networks of its kind are not cut on devices. REQUIRES: PartModel::hold() was
  // called. Memory on the device: what is frozen. Throws InvalidArgument where the device has no
  // room.
  std::shared_ptr<FrozenPart> (*make_device_frozen_part)(
      const FrozenPart& host, const PartModel& part, const ModelOptions& options,
      const std::vector<int64_t>& sample_shape, const LabelForm& labels, const std::string& device);

  // `cohort` must outlive it; gradients include `weight_decay`.
  std::unique_ptr<CohortGradients> (*make_cohort_gradients)(Cohort& cohort, int64_t lines,
                                                            double weight_decay);

  // Memory: P int64 or float32, and while it folds 16 float64 for each of P or at most 65536 lanes.
  // `device` is LibTorch's name. REQUIRES: as UpdateSum.
  std::unique_ptr<DeviceSum> (*make_device_sum)(int64_t n_params, int64_t addends,
                                                Reduction reduction, const std::string& device);

  // `layers`: the parts of a row that are weighed apart; together they are the row. `comm` and
  // `devices` must outlive the object.
  std::unique_ptr<DeviceUpdates> (*make_device_updates)(Communicator& comm,
                                                        DeviceCommunicator& devices,
                                                        std::vector<RowPart> layers,
                                                        int64_t trained, const std::string& device);

  // mix_rows() on a device, in one product there.
  void (*mix_rows_on)(const std::string& device, std::span<const double> weights,
                      std::span<const float> rows, int64_t n, std::span<float> out);

  // `devices` must outlive it. Memory: this rank's part of at most 2 P float32, and the sum's part.
  std::unique_ptr<DeviceServer> (*make_device_server)(Communicator& comm,
                                                      DeviceCommunicator& devices, int64_t n_params,
                                                      const std::string& device);

  // Sends through the host's memory and `comm`, for ranks that share a GPU, which NCCL refuses, and
  // for CPUs. `comm` must outlive it.
  std::unique_ptr<DeviceCommunicator> (*make_staged_communicator)(Communicator& comm);

  // NCCL between the GPUs of the ranks; `device` ("cuda:0") is this rank's. `comm` must outlive it.
  // Collective over `comm`. REQUIRES: no two ranks have the same GPU. Throws NotCompiled in a build
  // without CUDA.
  std::unique_ptr<DeviceCommunicator> (*make_nccl_communicator)(Communicator& comm,
                                                                const std::string& device);

  // How often the host has waited for numbers of a device: each time costs it a round trip.
  int64_t (*downloads)();

  // set_model_threads() for LibTorch and oneDNN.
  void (*set_threads)(int64_t threads);

  std::string (*kernels)();  // chosen on this machine, "torch AVX512"

  std::string (*version)();  // of LibTorch's headers, "1.13.1"

  GpuLibrary gpu;
};

// Loads the library at the first call; it has as many threads as OpenBLAS. HANSE_TORCH in the
// environment chooses among several: system, or unset: hanse-torch.so; newest, or a version of
// torch_versions(). Cost of the first call: 0.35 s. Throws InvalidArgument when there is none of
// that version, or when it or one that it needs cannot be loaded.
const TorchLibrary& torch_library();

// Versions of LibTorch for which a library of its own, hanse-torch-2.15.0.so, lies beside the
// program's, the newest last.
std::vector<std::string> torch_versions();

// What to do about a file that needs a newer LibTorch than `version`: the choice of one that is
// there, or how to add it.
std::string newer_torch_hint(const std::string& version);

// Was torch_library() called before?
bool uses_torch();

// The command that adds LibTorch to this installation.
std::string torch_command();

}  // namespace hanse
