#include "cox_likelihood.hpp"

#include <algorithm>
#include <cmath>

#include "elementary.hpp"

namespace hanse {

namespace {

// A sum as two float64: its rounding errors are added, too.
class LongSum {
 public:
  void add(double x) {
    const double sum = high_ + x, part = sum - high_;
    low_ += (high_ - (sum - part)) + (x - part);
    high_ = sum;
  }
  void scale(double factor) {
    high_ *= factor;
    low_ *= factor;
  }
  double value() const { return high_ + low_; }

 private:
  double high_ = 0, low_ = 0;
};

// A risk set at one of its tied events, without the share of those before it.
struct RiskSet {
  std::size_t bin;
  double weight;              // so many events have this one
  double share;               // f = m / d_j
  std::span<const double> s;  // [block]: s0, s1, s2
};

// Visits the risk sets, the strata's last times first.
template <class Visit>
void visit_risk_sets(const CoxBins& bins, CoxTies ties, const CoxSums& found, const Visit& visit) {
  const std::size_t block = cox_block(found.b.size());
  std::vector<double> risk(block), s(block);
  for (std::size_t stratum = 0; stratum < bins.strata(); ++stratum) {
    std::vector<LongSum> sums(block);
    for (std::size_t j = bins.begins[stratum + 1]; j-- > bins.begins[stratum];) {
      const bool is_last = j + 1 == bins.begins[stratum + 1];
      const double factor = is_last ? 1 : exp_of(found.shifts[j + 1] - found.shifts[j]);
      for (std::size_t k = 0; k < block; ++k) {
        if (factor != 1) sums[k].scale(factor);
        sums[k].add(found.sums[j * block + k]);
        risk[k] = sums[k].value();
      }
      const auto d = static_cast<double>(bins.events[j]);
      if (ties == CoxTies::kBreslow || bins.tied[j] < 0) {
        visit(RiskSet{j, d, 0, risk});
        continue;
      }
      const auto place = bins.size() + static_cast<std::size_t>(bins.tied[j]);
      const double* events = found.sums.data() + place * block;
      for (int64_t m = 0; m < bins.events[j]; ++m) {
        const double f = static_cast<double>(m) / d;
        for (std::size_t k = 0; k < block; ++k) s[k] = risk[k] - f * events[k];
        visit(RiskSet{j, 1, f, s});
      }
    }
  }
}

// Sums of each stratum's times, from its first on: rows [J, width] by what a row before counts.
template <class Factor>
void add_up_times(const CoxBins& bins, std::size_t width, std::vector<double>& rows,
                  std::size_t stride, const Factor& factor) {
  for (std::size_t stratum = 0; stratum < bins.strata(); ++stratum) {
    for (std::size_t j = bins.begins[stratum] + 1; j < bins.begins[stratum + 1]; ++j) {
      const double* before = rows.data() + (j - 1) * stride;
      for (std::size_t k = 0; k < width; ++k) rows[j * stride + k] += factor(j) * before[k];
    }
  }
}

}  // namespace

void CoxBins::find_ties(CoxTies method) {
  tied.assign(size(), -1);
  ties = 0;
  for (std::size_t j = 0; method == CoxTies::kEfron && j < size(); ++j) {
    if (events[j] > 1) tied[j] = static_cast<int64_t>(ties++);
  }
}

std::vector<int64_t> CoxBins::at_risk() const {
  std::vector<int64_t> risk = samples;
  for (std::size_t stratum = 0; stratum < strata(); ++stratum) {
    for (std::size_t j = begins[stratum + 1]; j-- > begins[stratum] + 1;) risk[j - 1] += risk[j];
  }
  return risk;
}

CoxPoint cox_point(const CoxBins& bins, CoxTies ties, const CoxSums& found) {
  const std::size_t p = found.b.size();
  CoxPoint point;
  point.score.assign(found.sums.end() - static_cast<std::ptrdiff_t>(p), found.sums.end());
  point.information.resize(packed_size(p));
  for (std::size_t j = 0; j < p; ++j) point.log_likelihood += found.b[j] * point.score[j];
  std::vector<double> mean(p);
  visit_risk_sets(bins, ties, found, [&](const RiskSet& set) {
    const double s0 = set.s[0];
    const double* s2 = set.s.data() + 1 + p;
    point.log_likelihood -= set.weight * (log_of(s0) + found.shifts[set.bin]);
    double* information = point.information.data();
    for (std::size_t j = 0; j < p; ++j) {
      mean[j] = set.s[1 + j] / s0;
      point.score[j] -= set.weight * mean[j];
      for (std::size_t k = 0; k <= j; ++k) {
        *information++ += set.weight * (*s2++ / s0 - mean[j] * mean[k]);
      }
    }
  });
  return point;
}

std::vector<double> cox_baseline(const CoxBins& bins, const CoxSums& found) {
  std::vector<double> hazard(bins.size());
  visit_risk_sets(bins, CoxTies::kBreslow, found, [&](const RiskSet& set) {
    const double shift = std::clamp(-found.shifts[set.bin], -700.0, 700.0);
    hazard[set.bin] = set.weight / set.s[0] * exp_of(shift);
  });
  add_up_times(bins, 1, hazard, 1, [](std::size_t) { return 1; });
  return hazard;
}

std::vector<double> cox_residual_rows(const CoxBins& bins, CoxTies ties, const CoxSums& found) {
  const std::size_t p = found.b.size(), stride = cox_residual_row(p);
  std::vector<double> rows(bins.size() * stride);
  visit_risk_sets(bins, ties, found, [&](const RiskSet& set) {
    double* row = rows.data() + set.bin * stride;
    const double s0 = set.s[0], d = static_cast<double>(bins.events[set.bin]);
    row[0] += set.weight / s0;
    row[1 + 2 * p] += set.share / s0;
    for (std::size_t j = 0; j < p; ++j) {
      const double mean = set.s[1 + j] / s0;
      row[1 + j] += set.weight * mean / s0;
      row[1 + p + j] += set.weight / d * mean;
      row[2 + 2 * p + j] += set.share * mean / s0;
    }
  });
  add_up_times(bins, 1 + p, rows, stride,
               [&](std::size_t j) { return exp_of(found.shifts[j] - found.shifts[j - 1]); });
  return rows;
}

}  // namespace hanse
