#include "hanse/kinds/clusters.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/job/job.hpp"
#include "hanse/rules/bandit/problem.hpp"
#include "named_clients.hpp"

namespace hanse {

namespace {

constexpr const char* kPath = "federation.clusters-path";
constexpr const char* kForm = "client,cluster";
constexpr int64_t kNone = -1;

std::vector<int64_t> read_copies(const ClusterOptions& options, const Federation& federation) {
  const auto copy_in = [&](double number, const std::string& where) {
    const bool is_inside = number >= 0 && number < static_cast<double>(options.models);
    const int64_t copy = is_inside ? static_cast<int64_t>(number) : 0;
    if (is_inside && static_cast<double>(copy) == number) return copy;
    throw InvalidArgument(fmt::format("cluster {} is none of 0 to {}", number, options.models - 1),
                          where, fmt::format("federation.models = {}", options.models));
  };
  return numbers_of_clients(options.clusters_path, "clusters of the clients", kForm,
                            federation.clients(), federation.names().clients, copy_in);
}

// Numbers clusters in the order of their first clients.
std::vector<int64_t> in_order(const std::vector<int64_t>& members, int64_t clusters) {
  std::vector<int64_t> number(to_index(clusters), kNone), ordered;
  int64_t next = 0;
  for (const int64_t member : members) {
    int64_t& own = number[to_index(member)];
    if (own == kNone) own = next++;
    ordered.push_back(own);
  }
  return ordered;
}

std::vector<int64_t> copies_by_labels(const ClusterOptions& options, const Federation& federation) {
  const int64_t classes = federation.classes();
  if (classes == 0 || federation.label_form().values > 1) {
    throw InvalidArgument("a sample has no class, of which clients would have shares",
                          "client.cluster-by", "loss, or file");
  }
  std::vector<double> shares;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    std::vector<double> own(to_index(classes), 0.0);
    const auto labels = labels_of(federation, federation.train(client));
    for (const int32_t label : labels) {
      if (label >= 0) own[to_index(label)] += 1.0 / static_cast<double>(labels.size());
    }
    shares.insert(shares.end(), own.begin(), own.end());
  }
  constexpr int64_t kStarts = 10;
  try {
    return in_order(k_means(shares, classes, options.models, kStarts).member_of, options.models);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(
        fmt::format("fewer than {} clients differ in their shares of labels", options.models),
        "federation.models", "fewer, or client.cluster-by = loss");
  }
}

}  // namespace

void check_clusters(const Job& job) {
  const ClusterOptions& options = job.client;
  const bool by_file = options.cluster_by == ClusterBy::kFile;
  if (options.models > 1 && options.clustered.empty()) {
    throw InvalidArgument("no tensors are named of which there would be several copies",
                          "client.clustered", "* for whole models, or federation.models = 1");
  }
  if (!options.has_clusters() && options.cluster_by != ClusterBy::kLoss) {
    throw InvalidArgument("there are no copies to choose among", "client.cluster-by",
                          "leave it loss, or client.clustered = * with federation.models = 4");
  }
  if (by_file && options.clusters_path.empty()) {
    throw InvalidArgument("client.cluster-by = file needs a file", kPath,
                          fmt::format("a CSV file: {}", kForm));
  }
  if (!options.clusters_path.empty() && !by_file) {
    throw InvalidArgument("a file of clusters is read with client.cluster-by = file alone", kPath,
                          "client.cluster-by = file, or leave it empty");
  }
}

void require_clients_for_copies(const Job& job, int64_t clients) {
  if (!job.client.has_clusters() || job.client.models <= clients) return;
  throw InvalidArgument(
      fmt::format("{} copies are more than the {} clients", job.client.models, clients),
      "federation.models", "as many copies as clients at most");
}

std::vector<int64_t> fixed_copies(const Job& job, const Federation& federation) {
  const ClusterOptions& options = job.client;
  if (!options.has_clusters()) return {};
  switch (options.cluster_by) {
    case ClusterBy::kFile: return read_copies(options, federation);
    case ClusterBy::kLabels: return copies_by_labels(options, federation);
    case ClusterBy::kLoss: break;
  }
  return {};
}

}  // namespace hanse
