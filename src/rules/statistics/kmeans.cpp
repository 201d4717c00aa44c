#include "kmeans.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "elementary.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostCenters = 1000;

// Uniform in (0, 1).
double uniform_of(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

}  // namespace

bool StandardColumns::write(const float* row, double* z) const {
  if (!known_features(features, row, z)) return false;
  for (std::size_t j = 0; j < size(); ++j) z[j] = (z[j] - means[j]) / deviations[j];
  return true;
}

std::size_t nearest_center(const double* centers, std::size_t count, const double* z, std::size_t p,
                           double& square) {
  std::size_t nearest = 0;
  square = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < count; ++c) {
    double sum = 0;
    for (std::size_t j = 0; j < p; ++j) {
      const double off = z[j] - centers[c * p + j];
      sum += off * off;
    }
    if (sum < square) {
      square = sum;
      nearest = c;
    }
  }
  return nearest;
}

KMeans::KMeans(const AnalysisSetup& setup)
    : options_(setup.options),
      seed_(setup.seed),
      clusters_(to_index(setup.options.clusters)),
      moments_(make_moments(of_all_samples(setup))) {
  columns_.features = chosen_features(setup, CategoryCoding::kEach);
}

std::optional<Question> KMeans::question() {
  if (step_ == kMoments) {
    if (auto question = moments_->question()) {
      question->step -= 100;  // below those of this class
      return question;
    }
    take_moments();
  }
  if (start_ == options_.starts) return std::nullopt;
  Question question{step_};
  auto& numbers = question.numbers;
  for (const auto* part : {&columns_.means, &columns_.deviations, &columns_.reach}) {
    numbers.insert(numbers.end(), part->begin(), part->end());
  }
  numbers.push_back(begins_ ? 1 : 0);
  numbers.push_back(step_ == kFetch ? picked_place_ : picked_score_);
  numbers.push_back(static_cast<double>(kMostCenters * start_) +
                    static_cast<double>(drawn_.size() / p()));
  const auto& centers = begins_ ? drawn_ : present_.centers;
  numbers.insert(numbers.end(), centers.begin(), centers.end());
  return question;
}

SampleFindings KMeans::open(const Question& question) const {
  if (question.step < 0) return moments_->open({question.step + 100, question.numbers});
  SampleFindings findings;
  if (question.step == kScore || question.step == kPick) findings.largest = SampleFindings::none(1);
  if (question.step == kFetch) findings.counts.resize(p());
  if (question.step == kAssign) {
    const double* reach = question.numbers.data() + 2 * p();
    std::vector<double> bounds;
    for (std::size_t c = 0; c < k(); ++c) bounds.insert(bounds.end(), reach, reach + p());
    double square = 0;
    for (std::size_t j = 0; j < p(); ++j) square += 4 * reach[j] * reach[j];
    bounds.push_back(square);
    findings.sums = Tally(bounds);
    findings.counts.resize(k());
  }
  return findings;
}

// The sample that joins has the largest score.
double KMeans::score(const Question& question, const double* z, std::size_t centers,
                     int64_t place) const {
  const double* begins = question.numbers.data() + 3 * p();
  double square = 1;
  if (centers > 0) nearest_center(begins + 3, centers, z, p(), square);
  if (begins[0] == 0) return square;
  RandomStream stream(seed_, Purpose::kStatistics, static_cast<uint64_t>(begins[2]),
                      static_cast<uint64_t>(place));
  return log_of(uniform_of(stream.next())) / square;
}

void KMeans::look(const Question& question, const Samples& samples,
                  SampleFindings& findings) const {
  if (question.step < 0) {
    return moments_->look({question.step + 100, question.numbers}, samples, findings);
  }
  const auto at = question.numbers.begin();
  const auto part = [&](std::size_t k) { return at + static_cast<std::ptrdiff_t>(k * p()); };
  const StandardColumns columns{columns_.features, {at, part(1)}, {part(1), part(2)}, {}};
  const double* centers = question.numbers.data() + 3 * p() + 3;
  const std::size_t count = (question.numbers.size() - 3 * p() - 3) / p();
  const double wanted = question.numbers[3 * p() + 1];
  std::vector<double> z(p());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!columns.write(samples.row(i), z.data())) continue;
    if (question.step == kAssign) {
      double square = 0;
      const std::size_t own = nearest_center(centers, count, z.data(), p(), square);
      findings.sums.next_sample();
      for (std::size_t j = 0; j < p(); ++j) findings.sums.add(own * p() + j, z[j]);
      findings.sums.add(k() * p(), square);
      ++findings.counts[own];
      continue;
    }
    const auto place = static_cast<double>(samples.places[i]);
    if (question.step == kFetch) {
      for (std::size_t j = 0; place == wanted && j < p(); ++j) {
        findings.counts[j] = std::bit_cast<int64_t>(z[j]);
      }
      continue;
    }
    const double own = score(question, z.data(), count, samples.places[i]);
    if (question.step == kPick && own != wanted) continue;
    findings.largest[0] = std::max(findings.largest[0], question.step == kPick ? -place : own);
  }
}

void KMeans::hear(SampleFindings findings) {
  if (step_ == kMoments) return moments_->hear(std::move(findings));
  if (step_ == kScore) {
    picked_score_ = findings.largest[0];
    step_ = kPick;
  } else if (step_ == kPick) {
    picked_place_ = -findings.largest[0];
    step_ = kFetch;
  } else if (step_ == kFetch) {
    take_fetched(findings);
  } else {
    take_assignment(findings);
  }
}

void KMeans::take_moments() {
  const StatisticsResult moments = moments_->result();
  const int64_t complete = std::get<int64_t>(moments.facts.front().second);
  if (complete < options_.clusters) {
    throw InvalidArgument(fmt::format("{} samples with a value in every column, and {} clusters",
                                      complete, options_.clusters),
                          "statistics.clusters", "ask for fewer");
  }
  for (const auto& row : moments.tables.front().rows) {
    const auto number = [&](std::size_t c) { return std::get<double>(row[c]); };
    const double mean = number(3), deviation = number(4);
    const double divisor = deviation > 0 ? deviation : 1;
    columns_.means.push_back(mean);
    columns_.deviations.push_back(divisor);
    columns_.reach.push_back(std::max(number(6) - mean, mean - number(5)) / divisor * 1.0000001);
  }
  begin_start();
}

void KMeans::begin_start() {
  begins_ = true;
  drawn_.clear();
  present_ = {};
  step_ = kScore;
}

void KMeans::take_fetched(const SampleFindings& findings) {
  std::vector<double> z;
  for (const int64_t bits : findings.counts) z.push_back(std::bit_cast<double>(bits));
  if (begins_) {
    drawn_.insert(drawn_.end(), z.begin(), z.end());
    step_ = kScore;
    if (drawn_.size() < k() * p()) return;
    present_.centers = drawn_;
    begins_ = false;
  } else {
    std::copy(z.begin(), z.end(),
              present_.centers.begin() + static_cast<std::ptrdiff_t>(empty_ * p()));
  }
  step_ = kAssign;
}

void KMeans::take_assignment(SampleFindings& findings) {
  const std::vector<double> sums = findings.sums.values();
  present_.counts = findings.counts;
  present_.inertia = sums.back();
  ++present_.iterations;
  const auto empty = std::ranges::find(present_.counts, 0);
  if (empty != present_.counts.end() && present_.iterations < options_.iterations) {
    empty_ = static_cast<std::size_t>(empty - present_.counts.begin());
    step_ = kScore;
    return;
  }
  const std::vector<double> before = present_.centers;
  move_centers(sums);
  if (present_.centers != before && present_.iterations < options_.iterations) return;
  present_.centers = before;  // those that inertia and counts are of
  if (start_ == 0 || present_.inertia < best_.inertia) best_ = present_;
  ++start_;
  begin_start();
}

void KMeans::move_centers(const std::vector<double>& sums) {
  for (std::size_t c = 0; c < k(); ++c) {
    if (present_.counts[c] == 0) continue;
    for (std::size_t j = 0; j < p(); ++j) {
      present_.centers[c * p() + j] = sums[c * p() + j] / static_cast<double>(present_.counts[c]);
    }
  }
}

StatisticsResult KMeans::result() const {
  ResultTable table{"kmeans", {"cluster", "count"}};
  for (const auto& feature : columns_.features) table.columns.push_back(feature.name);
  int64_t n = 0, suppressed = 0;
  for (std::size_t c = 0; c < k(); ++c) {
    std::vector<Cell>& row = table.rows.emplace_back();
    n += best_.counts[c];
    const bool hidden = best_.counts[c] < options_.least_count;
    suppressed += hidden ? 1 : 0;
    row.emplace_back(static_cast<int64_t>(c + 1));
    if (hidden) {
      row.emplace_back(std::nan(""));
    } else {
      row.emplace_back(best_.counts[c]);
    }
    for (std::size_t j = 0; j < p(); ++j) {
      const double center = best_.centers[c * p() + j];
      row.emplace_back(hidden ? std::nan("") : columns_.means[j] + center * columns_.deviations[j]);
    }
  }
  return {.facts = {{"n", n},
                    {"suppressed", suppressed},
                    {"inertia", best_.inertia},
                    {"iterations", best_.iterations},
                    {"starts", options_.starts}},
          .tables = {std::move(table)}};
}

std::unique_ptr<Analysis> make_kmeans(const AnalysisSetup& setup) {
  return std::make_unique<KMeans>(setup);
}

}  // namespace hanse
