// A mixture of normal laws by EM, from k-means, on standardized columns.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "elementary.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "kmeans.hpp"

namespace hanse {

namespace {

constexpr double kRidge = 1e-6;  // added to variances of standardized columns, as sklearn's
constexpr double kLogTwoPi = 1.83787706640934548356;

// The laws: all that a look needs of them. Lower triangles are packed by rows.
struct Laws {
  std::vector<double> weights;      // [k]
  std::vector<double> means;        // [k, p]
  std::vector<double> covariances;  // [k, packed p]
  std::vector<double> roots;        // [k, packed p] inverse of the Cholesky factor
  std::vector<double> constants;    // [k] log weight - (p log(2 pi) + log det) / 2
};

// The inverse of the Cholesky factor of a packed matrix, and half the log of its determinant.
// Throws InvalidArgument: it is not positive definite.
double invert_root(const double* matrix, std::size_t p, double* root) {
  std::vector<double> lower(matrix, matrix + packed_size(p));
  double half_log = 0;
  for (std::size_t i = 0; i < p; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = lower[packed_place(i, j)];
      for (std::size_t l = 0; l < j; ++l)
        sum -= lower[packed_place(i, l)] * lower[packed_place(j, l)];
      if (i == j && !(sum > 0)) {
        throw InvalidArgument("a cluster's covariance is singular", "statistics.covariance",
                              "diagonal, or fewer clusters");
      }
      lower[packed_place(i, j)] = i == j ? std::sqrt(sum) : sum / lower[packed_place(j, j)];
    }
    half_log += std::log(lower[packed_place(i, i)]);
  }
  for (std::size_t j = 0; j < p; ++j) {
    for (std::size_t i = j; i < p; ++i) {
      double sum = i == j ? 1 : 0;
      for (std::size_t l = j; l < i; ++l)
        sum -= lower[packed_place(i, l)] * root[packed_place(l, j)];
      root[packed_place(i, j)] = sum / lower[packed_place(i, i)];
    }
  }
  return half_log;
}

// Looks: those of k-means, then two a step: how far log-likelihoods reach, and the sums of EM.
class Mixture final : public Analysis {
 public:
  enum Step : int64_t { kReach = 1000, kSums };

  explicit Mixture(const AnalysisSetup& setup) : options_(setup.options), kmeans_(setup) {
    p_ = chosen_features(setup, CategoryCoding::kEach).size();
  }

  std::optional<Question> question() override {
    if (laws_.weights.empty()) {
      if (auto question = kmeans_.question()) return question;
      begin();
    }
    if (is_done_) return std::nullopt;
    const StandardColumns& columns = kmeans_.columns();
    Question question{step_};
    for (const std::vector<double>* part : std::initializer_list<const std::vector<double>*>{
             &columns.means, &columns.deviations, &columns.reach, &laws_.means, &laws_.roots,
             &laws_.constants}) {
      question.numbers.insert(question.numbers.end(), part->begin(), part->end());
    }
    question.numbers.push_back(reach_);
    return question;
  }

  Findings open(const Question& question) const override {
    if (question.step < kReach) return kmeans_.open(question);
    Findings findings;
    if (question.step == kReach) {
      findings.largest = Findings::none(1);
      return findings;
    }
    const double* reach = question.numbers.data() + 2 * p_;
    std::vector<double> bounds{question.numbers.back()};
    for (std::size_t c = 0; c < k(); ++c) {
      bounds.push_back(1);
      for (std::size_t j = 0; j < p_; ++j) bounds.push_back(2 * reach[j]);
      for (std::size_t i = 0; i < p_; ++i) {
        for (std::size_t j = 0; j <= i; ++j) bounds.push_back(4 * reach[i] * reach[j]);
      }
    }
    findings.sums = Tally(bounds);
    return findings;
  }

  void look(const Question& question, const Samples& samples, Findings& findings) const override {
    if (question.step < kReach) return kmeans_.look(question, samples, findings);
    const double* numbers = question.numbers.data();
    const StandardColumns columns{
        features(), {numbers, numbers + p_}, {numbers + p_, numbers + 2 * p_}, {}};
    const double* means = numbers + 3 * p_;
    const double* roots = means + k() * p_;
    const double* constants = roots + k() * packed_size(p_);
    std::vector<double> z(p_), logs(k());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (!columns.write(samples.row(i), z.data())) continue;
      for (std::size_t c = 0; c < k(); ++c) {
        logs[c] =
            constants[c] - distance(z.data(), means + c * p_, roots + c * packed_size(p_)) / 2;
      }
      const double most = *std::ranges::max_element(logs);
      double sum = 0;
      for (const double log : logs) sum += exp_of(log - most);
      const double all = most + log_of(sum);
      if (question.step == kReach) {
        findings.largest[0] = std::max(findings.largest[0], std::abs(all));
        continue;
      }
      findings.sums.next_sample();
      findings.sums.add(0, all);
      for (std::size_t c = 0; c < k(); ++c) add(c, exp_of(logs[c] - all), z, means, findings.sums);
    }
  }

  void hear(Findings findings) override {
    if (laws_.weights.empty()) return kmeans_.hear(std::move(findings));
    if (step_ == kReach) {
      reach_ = findings.largest[0];
      step_ = kSums;
      return;
    }
    take(findings.sums.values());
    step_ = kReach;
  }

  double value() const override {
    return laws_.weights.empty() ? kmeans_.value() : mean_log_likelihood_;
  }

  StatisticsResult result() const override;

 private:
  std::size_t k() const { return to_index(options_.clusters); }
  const std::vector<StatisticsFeature>& features() const { return kmeans_.columns().features; }
  std::size_t each() const { return 1 + p_ + packed_size(p_); }  // sums of a cluster

  // |root (z - mean)|^2
  double distance(const double* z, const double* mean, const double* root) const {
    double sum = 0;
    for (std::size_t i = 0; i < p_; ++i) {
      double own = 0;
      for (std::size_t j = 0; j <= i; ++j) own += root[packed_place(i, j)] * (z[j] - mean[j]);
      sum += own * own;
    }
    return sum;
  }

  void add(std::size_t c, double share, const std::vector<double>& z, const double* means,
           Tally& sums) const {
    std::size_t at = 1 + c * each();
    sums.add(at++, share);
    for (std::size_t i = 0; i < p_; ++i) sums.add(at++, share * (z[i] - means[c * p_ + i]));
    for (std::size_t i = 0; i < p_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        sums.add(at++, share * ((z[i] - means[c * p_ + i]) * (z[j] - means[c * p_ + j])));
      }
    }
  }

  void begin();
  void take(const std::vector<double>& sums);
  void find_roots();

  StatisticsOptions options_;
  KMeans kmeans_;
  std::size_t p_ = 0;
  Step step_ = kReach;
  Laws laws_;
  double reach_ = 0;
  double n_ = 0;
  double mean_log_likelihood_ = -std::numeric_limits<double>::infinity();
  int64_t iterations_ = 0;
  bool is_done_ = false;
};

// Equal laws around k-means' centres, of the columns' own variances.
void Mixture::begin() {
  const Clustering& clusters = kmeans_.best();
  for (const int64_t count : clusters.counts) n_ += static_cast<double>(count);
  laws_.means = clusters.centers;
  for (std::size_t c = 0; c < k(); ++c) {
    laws_.weights.push_back(static_cast<double>(clusters.counts[c]) / n_);
    for (std::size_t i = 0; i < p_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) laws_.covariances.push_back(i == j ? 1 : 0);
    }
  }
  find_roots();
}

void Mixture::find_roots() {
  laws_.roots.assign(k() * packed_size(p_), 0.0);
  laws_.constants.clear();
  for (std::size_t c = 0; c < k(); ++c) {
    const std::size_t at = c * packed_size(p_);
    const double half_log = invert_root(laws_.covariances.data() + at, p_, laws_.roots.data() + at);
    const double weight = std::max(laws_.weights[c], std::numeric_limits<double>::min());
    laws_.constants.push_back(std::log(weight) - static_cast<double>(p_) * kLogTwoPi / 2 -
                              half_log);
  }
}

// The step M: S = T(r (z - m0)(z - m0)') / N - (m - m0)(m - m0)' with the old means m0, which is
// T(r (z - m)(z - m)') / N.
void Mixture::take(const std::vector<double>& sums) {
  const double mean = sums[0] / n_;
  is_done_ = std::abs(mean - mean_log_likelihood_) < options_.tolerance ||
             iterations_ == options_.iterations;
  mean_log_likelihood_ = mean;
  if (is_done_) return;
  ++iterations_;
  for (std::size_t c = 0; c < k(); ++c) {
    const double* own = sums.data() + 1 + c * each();
    const double weight = std::max(own[0], 10 * std::numeric_limits<double>::epsilon());
    laws_.weights[c] = weight / n_;
    for (std::size_t i = 0, at = 0; i < p_; ++i) {
      for (std::size_t j = 0; j <= i; ++j, ++at) {
        const double moved = own[1 + i] / weight * (own[1 + j] / weight);
        const bool counts = i == j || options_.covariance == MixtureCovariance::kFull;
        const double entry = counts ? own[1 + p_ + at] / weight - moved : 0;
        laws_.covariances[c * packed_size(p_) + at] = entry + (i == j ? kRidge : 0);
      }
    }
    for (std::size_t i = 0; i < p_; ++i) laws_.means[c * p_ + i] += own[1 + i] / weight;
  }
  find_roots();
}

StatisticsResult Mixture::result() const {
  const StandardColumns& columns = kmeans_.columns();
  ResultTable table{"gmm", {"cluster", "weight"}};
  ResultTable covariances{
      .name = "gmm-covariances", .columns = {"cluster", "column"}, .shown = false};
  for (const auto& feature : columns.features) {
    table.columns.push_back(feature.name);
    covariances.columns.push_back(feature.name);
  }
  double log_scale = 0;  // of the standardized columns' density
  for (const double deviation : columns.deviations) log_scale += std::log(deviation);
  for (std::size_t c = 0; c < k(); ++c) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.emplace_back(static_cast<int64_t>(c + 1));
    row.emplace_back(laws_.weights[c]);
    for (std::size_t i = 0; i < p_; ++i) {
      row.emplace_back(columns.means[i] + laws_.means[c * p_ + i] * columns.deviations[i]);
      std::vector<Cell>& line = covariances.rows.emplace_back();
      line.emplace_back(static_cast<int64_t>(c + 1));
      line.emplace_back(columns.features[i].name);
      for (std::size_t j = 0; j < p_; ++j) {
        line.emplace_back(laws_.covariances[c * packed_size(p_) + packed_place(i, j)] *
                          columns.deviations[i] * columns.deviations[j]);
      }
    }
  }
  return {.facts = {{"n", n_},
                    {"log_likelihood", n_ * (mean_log_likelihood_ - log_scale)},
                    {"iterations", iterations_}},
          .tables = {std::move(table), std::move(covariances)}};
}

}  // namespace

std::unique_ptr<Analysis> make_gmm(const AnalysisSetup& setup) {
  return std::make_unique<Mixture>(setup);
}

}  // namespace hanse
