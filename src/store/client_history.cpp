#include "hanse/store/client_history.hpp"

#include <filesystem>
#include <limits>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

namespace {

constexpr std::size_t kFirstRows = 16;

using Row = std::vector<std::pair<std::string, double>>;  // column, value

// The row of one client.
Row row_of(const ClientEvaluation& client, int64_t classes, const AskedMetrics& asked) {
  Row row{{"loss", client.loss}};
  if (classes > 0) row.emplace_back("accuracy", client.accuracy);
  if (classes == 2) row.emplace_back("auroc", client.auroc);
  for (auto& score : named_scores(asked, client.asked)) row.push_back(std::move(score));
  if (asked.on != EvaluateOn::kBoth) return row;
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  row.emplace_back("validation_loss", client.validation ? client.validation->loss : nothing);
  if (classes > 0) {
    row.emplace_back("validation_accuracy",
                     client.validation ? client.validation->accuracy : nothing);
  }
  return row;
}

}  // namespace

ClientHistory::ClientHistory(std::string path, int64_t last, int64_t clients, int64_t classes,
                             const AskedMetrics& asked)
    : path_(std::move(path)), clients_(clients), classes_(classes), asked_(asked) {
  for (const auto& [name, value] : row_of({}, classes, asked)) columns_.push_back(name);
  const hdf5::Section section;
  if (last >= 0 && std::filesystem::exists(path_)) {
    rounds_ = hdf5::File::open_to_read(path_).dataset("round").values<int64_t>();
    std::erase_if(rounds_, [&](int64_t round) { return round < 0 || round > last; });
    used_ = rounds_.size();
  }
  make_room(used_ + kFirstRows);
}

void ClientHistory::make_room(std::size_t rows) {
  const hdf5::Section section;
  rounds_.resize(rows, -1);
  TemporaryFile temporary(temporary_beside(path_));
  auto file = hdf5::File::create(temporary.path());
  file.write("round", rounds_);
  const hdf5::Dataset::Block kept{0, static_cast<int64_t>(used_), 0, clients_};
  std::vector<float> values(used_ * to_index(clients_));
  for (const std::string& name : columns_) {
    auto column = file.create_dataset(name, hdf5::kTypeOf<float>, {std::ssize(rounds_), clients_});
    if (used_ > 0) hdf5::File::open_to_read(path_).dataset(name).read_block(kept, values.data());
    column.write_block(kept, values.data());
    column.close();
  }
  file.close();
  temporary.publish(path_);
}

void ClientHistory::append(int64_t round, const EvaluationTable& found) {
  std::vector<std::vector<float>> rows(
      columns_.size(),
      std::vector<float>(to_index(clients_), std::numeric_limits<float>::quiet_NaN()));
  for (const ClientEvaluation& client : found) {
    const Row row = row_of(client, classes_, asked_);
    for (std::size_t i = 0; i < row.size(); ++i) {
      rows[i][to_index(client.client)] = static_cast<float>(row[i].second);
    }
  }
  if (used_ == rounds_.size()) make_room(2 * used_);
  const auto place = static_cast<int64_t>(used_);
  rounds_[used_++] = round;
  const hdf5::Section section;
  auto file = hdf5::File::open_to_write(path_);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto column = file.dataset(columns_[i]);
    column.write_block({place, 1, 0, clients_}, rows[i].data());
    column.close();
  }
  file.dataset("round").write(rounds_.data());
  file.close();
}

void ClientHistory::sync() const { sync_file(path_); }

}  // namespace hanse
