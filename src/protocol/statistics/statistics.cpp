#include "hanse/protocol/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "attempt.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "statistics/answers.hpp"
#include "statistics/private_answers.hpp"
#include "statistics/result_text.hpp"

namespace hanse {

namespace {

constexpr int64_t kBlock = 512;  // samples that are read at once

}  // namespace

StatisticsProtocol::StatisticsProtocol(const Federation& federation, const TableFacts& table,
                                       StatisticsOn on, std::vector<NamedAnalysis> analyses,
                                       Communicator& comm)
    : federation_(federation),
      comm_(comm),
      labels_(table.labels),
      width_(table.width()),
      on_(on),
      analyses_(std::move(analyses)) {
  for (int64_t c = 0; c < federation_.clients() + federation_.held_out(); ++c) {
    samples_ += samples_of(c).size();
  }
  columns_.add_to_rounds([this] { return last_; });
}

StatisticsProtocol::~StatisticsProtocol() = default;

void StatisticsProtocol::make_private(const PrivacyOptions& options, const CipherKey& key) {
  std::vector<int64_t> reaches;
  for (const NamedAnalysis& own : analyses_) reaches.push_back(own.analysis->squared_reach());
  noise_ = std::make_unique<PrivateAnswers>(options, reaches, key);
  columns_.add_to_summary([this] { return noise_->cost(); });
}

SampleRange StatisticsProtocol::samples_of(int64_t client) const {
  const SampleRange train = federation_.train(client), test = federation_.test(client);
  if (on_ == StatisticsOn::kTrain) return train;
  if (on_ == StatisticsOn::kTest) return federation_.has_test(client) ? test : SampleRange{};
  return {train.begin, std::max({train.end, federation_.validation(client).end, test.end})};
}

void StatisticsProtocol::initialize_model() { ask(); }

void StatisticsProtocol::ask() {
  std::exception_ptr failure;
  attempt(failure, [&] {
    if (is_server()) find_question();
  });
  agree(comm_, failure);
}

void StatisticsProtocol::find_question() {
  while (current_ < analyses_.size()) {
    asked_ = analysis().question();
    if (asked_) return;
    results_.push_back(analysis().result());
    ++current_;
    iteration_ = 0;
  }
}

void StatisticsProtocol::share_question() {
  if (!is_server()) asked_.emplace();
  int64_t head[] = {static_cast<int64_t>(current_), asked_->step};
  comm_.bcast(std::span(head), 0);
  current_ = to_index(head[0]);
  asked_->step = head[1];
  bcast_list(comm_, asked_->numbers);
}

void StatisticsProtocol::look_at(int64_t client, SampleRange range, Findings& findings) const {
  const int64_t features = federation_.sample_values();
  std::vector<float> read(to_index(range.size() * features)), rows(to_index(range.size()) * width_);
  std::vector<int64_t> places(to_index(range.size()));
  federation_.copy(range, read.data());
  std::iota(places.begin(), places.end(), range.begin);
  for (int64_t i = 0; i < range.size(); ++i) {
    float* row = rows.data() + to_index(i) * width_;
    std::copy_n(read.data() + i * features, features, row);
    for (int64_t k = 0; k < labels_; ++k) {
      const auto at = to_index((range.begin + i) * labels_ + k);
      row[features + k] = federation_.labels().empty()
                              ? federation_.targets()[at]
                              : static_cast<float>(federation_.labels()[at]);
    }
  }
  const Samples samples{.values = rows, .places = places, .client = client, .width = width_};
  analyses_[current_].analysis->look(*asked_, samples, findings);
}

// This rank's share: as many samples as every other's.
Findings StatisticsProtocol::look() const {
  Findings findings = analyses_[current_].analysis->open(*asked_);
  const int64_t begin = samples_ * comm_.rank() / comm_.size();
  const int64_t end = samples_ * (comm_.rank() + 1) / comm_.size();
  int64_t before = 0;  // samples of the clients in front
  for (int64_t c = 0; c < federation_.clients() + federation_.held_out() && before < end; ++c) {
    const SampleRange own = samples_of(c);
    const int64_t from = std::max<int64_t>(begin - before, 0);
    const int64_t to = std::min(end - before, own.size());
    before += own.size();
    for (int64_t at = from; at < to; at += kBlock) {
      look_at(c, {own.begin + at, own.begin + std::min(at + kBlock, to)}, findings);
    }
  }
  return findings;
}

void StatisticsProtocol::add_up(Findings& findings) {
  std::vector<int64_t> limbs = findings.sums.limbs();
  comm_.reduce(std::span(limbs), ReduceOp::kSum, 0);
  comm_.reduce(std::span(findings.counts), ReduceOp::kSum, 0);
  comm_.reduce(std::span(findings.largest), ReduceOp::kMax, 0);
  for (DistinctValues& distinct : findings.distinct) {
    const std::vector<double> own = distinct.sorted();
    for (const double value : comm_.gatherv(std::span<const double>(own), 0)) distinct.add(value);
  }
  if (is_server()) findings.sums.set_limbs(limbs);
}

void StatisticsProtocol::hear(Findings findings, bool are_kept) {
  const auto sums = static_cast<double>(findings.sums.size() + findings.counts.size());
  if (noise_ && !are_kept) noise_->add_noise(current_, findings.counts);
  keep_answer(findings, whole_, numbers_);
  analysis().hear(std::move(findings));
  last_ = {{"statistic", static_cast<double>(current_ + 1)},
           {"iteration", static_cast<double>(++iteration_)},
           {"value", analysis().value()},
           {"bytes_updates", 8 * sums * static_cast<double>(federation_.clients())}};
}

RoundRecord StatisticsProtocol::round(bool stop_requested) {
  const double start_s = monotonic_seconds();
  const double comm_before_s = comm_.seconds();
  const int64_t bytes_before = comm_.bytes_moved();
  share_question();
  Findings findings;
  attempt(failure_, [&] {
    const Scope phase(Phase::kTraining);
    findings = look();
  });
  agree(comm_, failure_);
  add_up(findings);
  attempt(failure_, [&] {
    if (is_server()) hear(std::move(findings), false);
  });
  agree(comm_, failure_);
  ask();
  const double comm_s = comm_.seconds() - comm_before_s;
  double report[kReports] = {comm_s, monotonic_seconds() - start_s - comm_s,
                             stop_requested ? 1.0 : 0.0, 0};
  comm_.reduce(std::span(report), ReduceOp::kMax, 0);
  ++completed_;
  return {.round = completed_,
          .participants = federation_.clients(),
          .seconds = monotonic_seconds() - start_s,
          .train_s = report[kWorkSeconds],
          .comm_s = report[kCommSeconds],
          .bytes_sent = comm_.bytes_moved() - bytes_before,
          .loss = std::nan(""),
          .mixed_loss = std::nan(""),
          .stop_requested = report[kStop] > 0,
          .more = columns_.of_round(completed_)};
}

std::string StatisticsProtocol::end() const {
  return current_ < analyses_.size() ? "" : "the statistics are complete";
}

std::string StatisticsProtocol::results_digest() const {
  return digest_hex(std::as_bytes(std::span(whole_)));
}

std::string StatisticsProtocol::table() const {
  std::string text;
  for (std::size_t a = 0; a < results_.size(); ++a) {
    text += terminal_text(analyses_[a].name, results_[a]);
  }
  return text;
}

std::vector<ResultFile> StatisticsProtocol::result_files() const {
  std::vector<ResultFile> files;
  std::vector<std::string> names;
  for (std::size_t a = 0; a < results_.size(); ++a) {
    names.push_back(analyses_[a].name);
    for (const ResultTable& table : results_[a].tables) {
      files.push_back({table.name + ".csv", csv_text(table)});
    }
  }
  files.push_back({"statistics.json", json_text(names, results_)});
  return files;
}

void StatisticsProtocol::resume(const State& state) {
  std::exception_ptr failure;
  attempt(failure, [&] {
    if (is_server()) load(state);
  });
  agree(comm_, failure);
  comm_.bcast(std::span(&completed_, 1), 0);
}

void StatisticsProtocol::visit(StateFields& fields) {
  fields.one("round", completed_);
  fields.all("whole", whole_);
  fields.all("numbers", numbers_);
  if (!fields.loads()) return;
  Answers answers(std::exchange(whole_, {}), std::exchange(numbers_, {}));
  find_question();
  for (int64_t round = 0; round < completed_; ++round) {
    hear(answers.next(analysis().open(*asked_)), true);
    find_question();
  }
}

}  // namespace hanse
