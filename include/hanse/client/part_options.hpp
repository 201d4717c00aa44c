// Options of what is trained of a model, and of what stays with the client.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/model/trained_part.hpp"

namespace hanse {

// The rank of adapters: 0: none, or that of a file.
struct AdapterRank {
  static constexpr int64_t kOfFile = -1;
  int64_t value = 0;

  bool is_any() const { return value != 0; }
  static AdapterRank parse(std::string_view text);
  std::string text() const;
};

// Which factors of adapters are sent, and what the server makes of them.
enum class LoraKind { kPlain, kFfa, kRolora, kFedsa, kFlora };
constexpr auto choices_of(LoraKind) {
  return std::array{"plain", "ffa", "rolora", "fedsa", "flora"};
}
enum class LoraScale { kRank, kRoot };
constexpr auto choices_of(LoraScale) { return std::array{"rank", "root"}; }

// Which copy of the clustered tensors a client takes: that of its least loss in every round, or a
// fixed one.
enum class ClusterBy { kLoss, kFile, kLabels };
constexpr auto choices_of(ClusterBy) { return std::array{"loss", "file", "labels"}; }

// Tensors of which each cluster of clients has a copy: clustered.hpp.
struct ClusterOptions {
  std::string clustered;  // their names; empty: none
  int64_t models = 1;     // copies
  ClusterBy cluster_by = ClusterBy::kLoss;
  std::string clusters_path;       // of ClusterBy::kFile: client,cluster
  std::vector<int64_t> copies_of;  // [clients] the fixed ones, set by client.cluster-by

  bool has_clusters() const { return models > 1 && !clustered.empty(); }
};

// Which part of the model is trained, and which stays with the client.
struct PartOptions : ClusterOptions {
  std::string personal;   // names of tensors that stay with the client: personal.hpp
  std::string alternate;  // those that steps move in a round, in turn: movement.hpp
  std::string moves;      // those that they move at all, set by evaluate.tune; empty: all
  bool alone = false;     // all of them; set by run.protocol = local
  std::string train;      // names of tensors that are trained: part_model.hpp; empty: all
  AdapterRank lora;
  std::string lora_layers = "*";  // names of the matrices that have one
  LoraKind lora_kind = LoraKind::kPlain;
  double lora_alpha = 0;  // of s = alpha / rank or alpha / sqrt(rank); 0: rank
  LoraScale lora_scale = LoraScale::kRank;
  std::string lora_ranks;  // file of the clients' ranks: ranked_adapters.hpp; empty: all the same
  AdapterPath lora_path = AdapterPath::kAuto;
  double lora_dropout = 0;  // share of the adapters' inputs, [0, 1)

  // Is some of a client's model its own, or its cluster's?
  bool keeps_tensors() const { return alone || !personal.empty() || has_clusters(); }
};

// s of W = W_0 + s B A for this rank. At alpha = rank and LoraScale::kRank it is 1.
double adapter_scale(const PartOptions& options, int64_t rank);

}  // namespace hanse
