// The GPUs of this host, and what is made for them: functions of TorchLibrary, whose header says
// what they do. A build without CUDA has no GPU; all but NCCL works on "cpu", too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hanse/model/torch_library.hpp"

namespace hanse {

std::vector<Gpu> gpus();
std::string use_gpu(int64_t index, Precision precision);
int64_t free_bytes();
std::string cuda_version();
std::string nccl_version();

std::unique_ptr<Cohort> make_cohort(const ModelOptions& options,
                                    const std::vector<int64_t>& sample_shape,
                                    const LabelForm& labels, const Cohort::Settings& settings);
std::shared_ptr<FrozenPart> make_device_frozen_part(const FrozenPart& host, const PartModel& part,
                                                    const ModelOptions& options,
                                                    const std::vector<int64_t>& sample_shape,
                                                    const LabelForm& labels,
                                                    const std::string& device);

std::unique_ptr<Model> make_device_model(Model& host, const ModelOptions& options,
                                         const std::vector<int64_t>& sample_shape,
                                         const LabelForm& labels, const std::string& device);
std::unique_ptr<CohortGradients> make_cohort_gradients(Cohort& cohort, int64_t lines,
                                                       double weight_decay);
std::unique_ptr<DeviceSum> make_device_sum(int64_t n_params, int64_t addends, Reduction reduction,
                                           const std::string& device);
std::unique_ptr<DeviceUpdates> make_device_updates(Communicator& comm, DeviceCommunicator& devices,
                                                   std::vector<RowPart> layers, int64_t trained,
                                                   const std::string& device);
void mix_rows_on(const std::string& device, std::span<const double> weights,
                 std::span<const float> rows, int64_t n, std::span<float> out);
std::unique_ptr<DeviceServer> make_device_server(Communicator& comm, DeviceCommunicator& devices,
                                                 int64_t n_params, const std::string& device);
std::unique_ptr<DeviceCommunicator> make_staged_communicator(Communicator& comm);
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator& comm,
                                                           const std::string& device);

}  // namespace hanse
