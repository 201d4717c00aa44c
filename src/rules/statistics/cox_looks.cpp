#include "cox_looks.hpp"

#include <algorithm>
#include <cmath>

#include "elementary.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

std::vector<std::size_t> columns_apart(const CoxTable& table) {
  std::vector<std::size_t> columns = table.survival.columns();
  for (const SampleGroups* groups : {&table.by, &table.strata}) {
    for (const std::size_t column : groups->columns()) columns.push_back(column);
  }
  return columns;
}

constexpr std::size_t kNoBin = static_cast<std::size_t>(-1);

// A question's numbers where they lie.
struct CoxAsked {
  CoxAsked(const CoxTable& table, const Question& asked)
      : step(static_cast<CoxStep>(asked.step)), at(asked.numbers.data()), p(table.p()) {
    group = *at++;
    strata = next();
    begins.push_back(0);
    if (step <= CoxStep::kTimes) return;
    for (std::size_t s = 0; s < strata_count(); ++s) {
      times.push_back(next());
      begins.push_back(begins.back() + times.back().size());
    }
    bounds = next();
    means = next();
    for (const double reach : next()) exponents.push_back(tally_exponent(reach));
    b = next();
    tied = next();
    shifts = next();
    residual_rows = next();
  }

  std::span<const double> next() {
    const auto size = static_cast<std::size_t>(*at);
    const std::span<const double> list(at + 1, size);
    at += size + 1;
    return list;
  }
  std::size_t strata_count() const { return std::max<std::size_t>(strata.size(), 1); }
  std::size_t bins() const { return begins.back(); }
  std::size_t ties() const {
    return static_cast<std::size_t>(std::ranges::count_if(tied, [](double t) { return t >= 0; }));
  }
  // kNoBin: before the first event.
  std::size_t bin_of(std::size_t stratum, double time) const {
    const auto own = times[stratum];
    const auto behind = std::ranges::upper_bound(own, time) - own.begin();
    return behind == 0 ? kNoBin : begins[stratum] + static_cast<std::size_t>(behind) - 1;
  }

  CoxStep step;
  const double* at;
  std::size_t p;
  double group;
  std::span<const double> strata, bounds, means, b, tied, shifts, residual_rows;
  std::vector<std::span<const double>> times;  // [strata]
  std::vector<std::size_t> begins;             // [strata + 1] of bins
  std::vector<int> exponents;                  // [p]
};

// One sample, as a look sees it.
struct CoxSample {
  SurvivalSample survival;
  std::size_t stratum = 0;
  std::size_t bin = kNoBin;
  double eta = 0;         // x.b
  std::vector<double> x;  // [p]
};

double eta_of(const CoxAsked& asked, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t j = 0; j < x.size(); ++j) sum += asked.b[j] * x[j];
  return sum;
}

void note_values(const CoxTable& table, const Samples& samples, std::size_t i, Findings& findings) {
  const double stratum = table.strata.are_asked() ? table.strata.value_of(samples, i) : 0;
  if (std::isnan(stratum)) return;
  findings.distinct[0].add(stratum);
  if (!table.by.are_asked()) return;
  const double group = table.by.value_of(samples, i);
  if (!std::isnan(group)) findings.distinct[1].add(group);
}

void note_times(const CoxSample& seen, Findings& findings) {
  findings.counts[0] += 1;
  findings.counts[1] += seen.survival.has_event ? 1 : 0;
  if (seen.survival.has_event) findings.distinct[seen.stratum].add(seen.survival.time);
  for (std::size_t j = 0; j < seen.x.size(); ++j) {
    findings.largest[2 * j] = std::max(findings.largest[2 * j], seen.x[j]);
    findings.largest[2 * j + 1] = std::max(findings.largest[2 * j + 1], -seen.x[j]);
  }
}

void note_counts(const CoxSample& seen, Findings& findings) {
  for (std::size_t j = 0; j < seen.x.size(); ++j) findings.sums.add(j, seen.x[j]);
  if (seen.bin == kNoBin) return;
  findings.counts[2 * seen.bin] += seen.survival.has_event ? 1 : 0;
  findings.counts[2 * seen.bin + 1] += 1;
}

// r, r x and r x x' from number `begin` on.
void add_block(Tally& sums, std::size_t begin, double r, const std::vector<double>& x) {
  sums.add(begin, r);
  sums.add_row(begin + 1, r, x);
  sums.add_products(begin + 1 + x.size(), r, x);
}

void note_terms(const CoxAsked& asked, const CoxSample& seen, Findings& findings) {
  const std::size_t block = cox_block(asked.p);
  const double r = exp_of(seen.eta - asked.shifts[seen.bin]);
  add_block(findings.sums, seen.bin * block, r, seen.x);
  if (!seen.survival.has_event) return;
  findings.sums.add_row(findings.sums.size() - asked.p, 1, seen.x);
  const double tie = asked.tied[seen.bin];
  if (tie < 0) return;
  add_block(findings.sums, (asked.bins() + static_cast<std::size_t>(tie)) * block, r, seen.x);
}

// The score residual; see cox_residual_rows().
std::vector<double> residual_of(const CoxAsked& asked, const CoxSample& seen) {
  const std::size_t p = asked.p;
  const double* row = asked.residual_rows.data() + seen.bin * cox_residual_row(p);
  const double r = exp_of(seen.eta - asked.shifts[seen.bin]);
  std::vector<double> residual(p);
  for (std::size_t j = 0; j < p; ++j) {
    residual[j] = -r * (seen.x[j] * row[0] - row[1 + j]);
    if (!seen.survival.has_event) continue;
    residual[j] += seen.x[j] - row[1 + p + j];
    residual[j] += r * (seen.x[j] * row[1 + 2 * p] - row[2 + 2 * p + j]);
  }
  return residual;
}

void note_residuals(const CoxAsked& asked, const CoxSample& seen, Findings& findings) {
  std::vector<double> residual = residual_of(asked, seen);
  for (std::size_t j = 0; j < asked.p; ++j) {
    if (asked.step == CoxStep::kResidualReach) {
      findings.largest[j] = std::max(findings.largest[j], std::abs(residual[j]));
    } else {
      residual[j] = std::ldexp(residual[j], -tally_exponent(asked.bounds[j]));
    }
  }
  if (asked.step == CoxStep::kResiduals) findings.sums.add_products(0, 1, residual);
}

void note_sample(const CoxAsked& asked, CoxSample& seen, Findings& findings) {
  if (asked.step == CoxStep::kTimes) return note_times(seen, findings);
  seen.bin = asked.bin_of(seen.stratum, seen.survival.time);
  if (asked.step == CoxStep::kCounts) return note_counts(seen, findings);
  if (seen.bin == kNoBin) return;
  for (std::size_t j = 0; j < asked.p; ++j) {
    seen.x[j] = std::ldexp(seen.x[j] - asked.means[j], -asked.exponents[j]);
  }
  seen.eta = eta_of(asked, seen.x);
  if (asked.step == CoxStep::kReach) {
    findings.largest[seen.bin] = std::max(findings.largest[seen.bin], seen.eta);
  } else if (asked.step == CoxStep::kTerms) {
    note_terms(asked, seen, findings);
  } else {
    note_residuals(asked, seen, findings);
  }
}

}  // namespace

CoxTable::CoxTable(const AnalysisSetup& setup)
    : options(setup.options),
      facts(setup.table),
      survival(setup),
      by(facts, options.by, "statistics.by"),
      strata(facts, options.strata, "statistics.strata"),
      features(chosen_features(setup, CategoryCoding::kAgainstFirst, columns_apart(*this))) {}

Question CoxQuestion::question(CoxStep step) const {
  Question asked{static_cast<int64_t>(step), {group}};
  const auto add = [&](const std::vector<double>& list) {
    asked.numbers.push_back(static_cast<double>(list.size()));
    asked.numbers.insert(asked.numbers.end(), list.begin(), list.end());
  };
  add(strata);
  if (step <= CoxStep::kTimes) return asked;
  for (const auto& own : times) add(own);
  for (const auto* list : {&bounds, &means, &reaches, &b, &tied, &shifts, &residual_rows}) {
    add(*list);
  }
  return asked;
}

Findings open_cox(const CoxTable& table, const Question& question) {
  const CoxAsked asked(table, question);
  Findings findings;
  switch (asked.step) {
    case CoxStep::kValues: findings.distinct.resize(2); break;
    case CoxStep::kTimes:
      findings.distinct.resize(asked.strata_count());
      findings.counts.resize(3);
      findings.largest = Findings::none(2 * asked.p);
      break;
    case CoxStep::kCounts:
      findings.counts.resize(2 * asked.bins());
      findings.sums = Tally(asked.bounds);
      break;
    case CoxStep::kReach: findings.largest = Findings::none(asked.bins()); break;
    case CoxStep::kTerms:
      findings.sums = Tally((asked.bins() + asked.ties()) * cox_block(asked.p) + asked.p, 1);
      break;
    case CoxStep::kResidualReach: findings.largest.assign(asked.p, 0); break;
    case CoxStep::kResiduals: findings.sums = Tally(packed_size(asked.p), 1); break;
  }
  return findings;
}

void look_cox(const CoxTable& table, const Question& question, const Samples& samples,
              Findings& findings) {
  const CoxAsked asked(table, question);
  CoxSample seen;
  seen.x.resize(asked.p);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (asked.group != kAllGroups && table.by.value_of(samples, i) != asked.group) continue;
    const auto survival = table.survival.of(samples, i);
    const bool known = known_features(table.features, samples.row(i), seen.x.data());
    const double stratum = table.strata.are_asked() ? table.strata.value_of(samples, i) : 0;
    if (!survival || !known || std::isnan(stratum)) {
      if (asked.step == CoxStep::kTimes) ++findings.counts[2];
      continue;
    }
    if (asked.step == CoxStep::kValues) {
      note_values(table, samples, i, findings);
      continue;
    }
    seen.survival = *survival;
    seen.stratum =
        asked.strata.empty()
            ? 0
            : static_cast<std::size_t>(place_among(
                  asked.strata.data(), asked.strata.data() + asked.strata.size(), stratum));
    findings.sums.next_sample();
    note_sample(asked, seen, findings);
  }
}

}  // namespace hanse
