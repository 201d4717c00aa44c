#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/attacks.hpp"
#include "rows.hpp"

namespace hanse {

namespace {

// [H + 2] the honest rows, their mean h, and what the attack has beside it: their deviation by
// column with ddof 1, sign(h), or the noise that it sends.
Rows told_rows(Rows rows, ForgedDirection direction, int64_t round, uint64_t seed) {
  const auto honest = static_cast<double>(rows.size());
  std::vector<double> mean(rows.front().size()), other(mean.size());
  RandomStream noise(seed, Purpose::kAttack, static_cast<uint64_t>(round));
  for (std::size_t p = 0; p < mean.size(); ++p) {
    for (const auto& row : rows) mean[p] += row[p];
    mean[p] /= honest;
    double squares = 0;
    for (const auto& row : rows) squares += (row[p] - mean[p]) * (row[p] - mean[p]);
    if (direction == ForgedDirection::kDeviation && honest > 1) {
      other[p] = std::sqrt(squares / (honest - 1));
    }
    if (direction == ForgedDirection::kSign) other[p] = (mean[p] > 0) - (mean[p] < 0);
    if (direction == ForgedDirection::kOwn) other[p] = noise.normal();
  }
  rows.push_back(std::move(mean));
  rows.push_back(std::move(other));
  return rows;
}

std::vector<double> combined(std::span<const double> coefficients, const Rows& rows) {
  std::vector<double> sum(rows.front().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t p = 0; p < sum.size(); ++p) {
      if (coefficients[i] != 0) sum[p] += coefficients[i] * rows[i][p];
    }
  }
  return sum;
}

// |F - h|^2 of what the job's rule makes, F, when `byzantine` participants behind the honest ones
// send the row of these coefficients.
class Trial {
 public:
  Trial(const Job& job, const Rows& told, std::size_t byzantine, int64_t round)
      : rows_(told), byzantine_(byzantine), honest_(told.size() - 2), round_(round) {
    const auto k = static_cast<int64_t>(honest_ + byzantine);
    rule_ = make_aggregator(job, k, 1);
    gram_ = gram_of_rows(told);
  }

  double displacement(std::span<const double> row) const {
    const std::size_t k = honest_ + byzantine_;
    Rows sent(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(honest_));
    sent.insert(sent.end(), byzantine_, combined(row, rows_));
    const auto gram = attacked_products({gram_, honest_ + 2}, row, byzantine_);
    std::vector<int64_t> clients(k);
    std::iota(clients.begin(), clients.end(), int64_t{0});
    const std::vector<double> shares(k, 1 / static_cast<double>(k)), ones(k, 1);
    std::vector<double> norms;
    for (std::size_t i = 0; i < k; ++i) norms.push_back(gram[i * k + i]);
    const RoundReport report{.round = round_,
                             .clients = clients,
                             .lambda = shares,
                             .draw_weights = ones,
                             .samples = ones,
                             .norms = norms,
                             .gram = rule_->needs().gram ? gram : std::span<const double>()};
    const Mix mix = rule_->mix(report);
    const auto step =
        rule_->needs().columns ? step_by_columns(mix, sent) : combined(mix.coefficients, sent);
    double sum = 0;
    for (std::size_t p = 0; p < step.size(); ++p) {
      const double moved = step[p] - rows_[honest_][p];
      sum += moved * moved;
    }
    return sum;
  }

 private:
  const Rows& rows_;  // [H + 2, P]
  std::size_t byzantine_;
  std::size_t honest_;
  int64_t round_;
  std::unique_ptr<Aggregator> rule_;
  std::vector<double> gram_;  // [H + 2, H + 2]
};

}  // namespace

Json replay_attack(const Json& trace, const Job& asked, bool checks) {
  const Json& rule = trace.at("rule");
  Job given = asked;
  given.run.check_rules = checks;
  const Forgery forgery = make_forgery(given);
  if (!forgery.needs.forges) {
    throw InvalidArgument(fmt::format("{} is an attack in training, and has no decision to replay",
                                      given.attack.kind),
                          "rule.attack.kind");
  }
  const auto byzantine =
      integer(field(rule, "attack.byzantine", "rule"), 1, 1'000'000'000, "rule.attack.byzantine");
  int64_t t = 0;
  return each_round(trace, [&](const Json& round, const std::string& where) {
    ++t;
    Rows told = told_rows(read_rows(round, where), forgery.needs.direction, t,
                          static_cast<uint64_t>(given.run.seed));
    const std::size_t honest = told.size() - 2, size = told.front().size();
    if (forgery.rule->sees_last()) {
      told.push_back(round.contains("last") ? numbers(round, "last", size, -INFINITY, where)
                                            : std::vector<double>(size));
    }
    Job job = given;  // of whom the attackers are the last
    job.attack.clients.number = static_cast<double>(byzantine);
    job.attack.idle = true;
    const auto gram = gram_of_rows(told);
    std::optional<Trial> trial;
    if (attack_searches(job)) trial.emplace(job, told, static_cast<std::size_t>(byzantine), t);
    const AttackRow row = forgery.rule->decide(
        {.round = t,
         .honest = honest,
         .byzantine = static_cast<std::size_t>(byzantine),
         .gram = {gram, told.size()},
         .displacement = [&](std::span<const double> c) { return trial->displacement(c); }});
    Json result{{"row", combined(row.coefficients, told)}};
    if (std::isfinite(row.strength)) result["strength"] = row.strength;
    return result;
  });
}

}  // namespace hanse
