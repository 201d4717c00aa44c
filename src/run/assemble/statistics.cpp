#include "hanse/protocol/statistics.hpp"

#include <fmt/format.h>

#include "assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/kinds/statistics.hpp"
#include "privacy.hpp"
#include "results/statistics_text.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostColumns = 10000;

// The samples as the source has them: nothing is filled, and where all count none is set apart.
Federation load_as_is(const Job& job, Communicator& host) {
  DataOptions data = job.data;
  data.as_is = true;
  data.rows = true;
  data.standardize = Standardize::kNone;
  data.normalize = "none";
  data.validation_fraction = 0;
  if (job.statistics.on == StatisticsOn::kAll) data.test_fraction = 0;
  FederationOptions federation = job.federation;
  federation.held_out = federation.validation_clients = HeldOut();
  return Federation::load(data, federation, seed_of(job, job.data.seed), host);
}

// A class's number, if names of classes are numbers: 0 and 1 of the file, not of the order.
std::vector<std::string> levels_of_label(const Federation& federation) {
  std::vector<std::string> names;
  const int64_t classes = federation.names().classes.empty() ? 0 : federation.classes();
  for (int64_t c = 0; c < classes; ++c) names.emplace_back(federation.names().classes.at(c));
  return names;
}

// Rank 0 knows the features' names.
TableFacts facts_on_rank_0(const Job& job, const Federation& federation) {
  TableFacts table;
  const auto& record = federation.names().features;
  for (int64_t f = 0; f < federation.sample_values(); ++f) {
    if (record && record->has_columns()) {
      table.columns.push_back({value_name(*record, f), record->values[to_index(f)].levels});
    } else {
      table.columns.push_back({fmt::format("f{}", f), {}});
    }
  }
  table.labels = federation.label_form().values;
  for (int64_t k = 0; k < table.labels; ++k) {
    const auto columns = split_list(job.data.label_column);
    const bool named = std::ssize(columns) == table.labels;
    table.columns.push_back(
        {named ? columns[static_cast<std::size_t>(k)] : "label", levels_of_label(federation)});
  }
  return table;
}

void share_text(Communicator& comm, std::vector<std::string>& texts) {
  int64_t count = std::ssize(texts);
  comm.bcast(std::span(&count, 1), 0);
  texts.resize(static_cast<std::size_t>(count));
  for (std::string& text : texts) bcast_list(comm, text);
}

TableFacts share_facts(const Job& job, const Federation& federation, Communicator& comm) {
  TableFacts table;
  if (comm.rank() == 0) table = facts_on_rank_0(job, federation);
  std::vector<std::string> names;
  for (const TableColumn& column : table.columns) names.push_back(column.name);
  share_text(comm, names);
  table.columns.resize(names.size());
  for (std::size_t c = 0; c < names.size(); ++c) {
    table.columns[c].name = names[c];
    share_text(comm, table.columns[c].levels);
  }
  table.labels = federation.label_form().values;
  const bool are_named = !federation.names().clients.empty();
  for (int64_t c = 0; are_named && c < federation.clients(); ++c) {
    table.clients.emplace_back(federation.names().clients.at(c));
  }
  return table;
}

std::vector<std::string> notices_of(const Job& job, int64_t samples) {
  const PrivacyOptions& privacy = job.privacy;
  if (!privacy.is_on()) return {};
  std::vector<std::string> lines{"privacy: of each sample; neighbours add or remove one"};
  if (privacy.delta * static_cast<double>(samples) > 1) {
    lines.push_back(
        fmt::format("privacy.delta = {:g} is above 1 / {} samples: a run that publishes "
                    "one sample at random would meet it",
                    privacy.delta, samples));
  }
  if (const std::string flaw = privacy_flaw(privacy); !flaw.empty()) lines.push_back(flaw);
  return lines;
}

}  // namespace

std::unique_ptr<Assembly> assemble_statistics(const Job& job, Communicator& comm,
                                              const RankGpu* /*given*/) {
  auto assembly = std::make_unique<StatisticsAssembly>(comm);
  assembly->federation = load_as_is(job, *assembly->host);
  const Federation& federation = assembly->federation;
  agree_on(comm, [&] {
    if (federation.sample_values() <= kMostColumns) return;
    throw InvalidArgument(fmt::format("samples have {} values, {} are the most for statistics",
                                      federation.sample_values(), kMostColumns),
                          job.data.path);
  });
  const TableFacts table = share_facts(job, federation, comm);
  const CipherKey key = first_key(job, comm);
  agree_on(comm, [&] {
    std::vector<NamedAnalysis> analyses;
    for (const std::string& kind : split_list(job.statistics.kind)) {
      const AnalysisSetup setup{job.statistics, table, static_cast<uint64_t>(job.run.seed)};
      analyses.push_back({kind, make_analysis(kind, setup, job.privacy.is_on())});
    }
    assembly->statistics = std::make_unique<StatisticsProtocol>(
        federation, table, job.statistics.on, std::move(analyses), comm);
    if (job.privacy.is_on()) assembly->statistics->make_private(job.privacy, key);
  });
  for (std::string& line : notices_of(job, assembly->statistics->samples())) {
    assembly->greeting.push_back(std::move(line));
  }
  assembly->greeting.push_back(fmt::format(
      "{}: {} of {} samples of {} clients, {} columns", job.run.name, job.statistics.kind,
      assembly->statistics->samples(), federation.clients(), table.width()));
  return assembly;
}

std::vector<ResultFile> StatisticsAssembly::result_files() const {
  std::vector<ResultFile> written;
  for (const StatisticsResult& result : statistics->results()) {
    for (const ResultTable& own : result.tables) {
      written.push_back({own.name + ".csv", csv_text(own)});
    }
  }
  written.push_back({"statistics.json", json_text(statistics->names(), statistics->results())});
  return written;
}

std::string StatisticsAssembly::table() const {
  const std::vector<std::string> names = statistics->names();
  std::string text;
  for (std::size_t a = 0; a < names.size(); ++a) {
    text += terminal_text(names[a], statistics->results()[a]);
  }
  return text;
}

}  // namespace hanse
