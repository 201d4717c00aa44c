// Small good inputs of every reader, made by the program's own writers where it has one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

constexpr int64_t kSeedWidth = 3;  // floats of a client in the checkpoints

using Seeds = std::vector<std::string>;

Seeds idx_seeds(const std::string& folder);
Seeds picture_seeds(const std::string& folder);
Seeds cifar_seeds(const std::string& folder);
Seeds npz_seeds(const std::string& folder);
Seeds csv_seeds(const std::string& folder);
Seeds leaf_seeds(const std::string& folder);
Seeds tff_seeds(const std::string& folder);
Seeds text_seeds(const std::string& folder);
Seeds hanse_seeds(const std::string& folder);
Seeds feature_seeds(const std::string& folder);
Seeds checkpoint_seeds(const std::string& folder);
Seeds model_seeds(const std::string& folder);
Seeds torchscript_seeds(const std::string& folder);
Seeds weights_seeds(const std::string& folder);
Seeds adapter_seeds(const std::string& folder);
Seeds pickle_seeds(const std::string& folder);
Seeds graph_seeds(const std::string& folder);
Seeds job_seeds(const std::string& folder);
Seeds replay_seeds(const std::string& folder);
Seeds availability_seeds(const std::string& folder);
Seeds arms_seeds(const std::string& folder);

}  // namespace hanse
