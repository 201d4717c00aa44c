#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/timed.hpp"

namespace hanse {

namespace {

class PowerOfChoice final : public ClientSampler {
 public:
  PowerOfChoice(std::span<const double> samples, int64_t per_round, int64_t candidates)
      : ClientSampler(std::ssize(samples), per_round),
        by_samples_(make_weighted_sampler(samples, clients(), false)),
        candidates_(candidates) {}

  bool needs_candidates() const override { return true; }
  std::vector<int64_t> candidates(int64_t round, int64_t n, RandomStream& stream) override {
    ranking_.clear();
    if (n == 0) return {};
    const int64_t asked = candidates_ > 0 ? std::max(candidates_, n) : 2 * n;
    return by_samples_->draw(round, std::min(asked, clients()), stream).clients;
  }
  void take_candidates(std::span<const int64_t> clients, std::span<const double> losses) override {
    ranking_.clear();
    const std::vector<double> taken = heard(losses);
    for (std::size_t i = 0; i < clients.size(); ++i) ranking_.emplace_back(-taken[i], clients[i]);
    std::sort(ranking_.begin(), ranking_.end());
  }

  Draw draw(int64_t, int64_t n, RandomStream&) override {
    if (n > 0 && available().size() > 0 && ranking_.empty()) {
      throw Error("sampler power-of-choice has been told no losses");
    }
    const auto count = std::min(n, std::ssize(ranking_));
    const auto there = static_cast<double>(available().size());
    Draw draw;
    for (int64_t k = 0; k < count; ++k) draw.clients.push_back(ranking_[to_index(k)].second);
    double all = 0;
    for (int64_t k = 0; k < available().size(); ++k) all += probability(available().select(k));
    for (const int64_t client : draw.clients) {
      draw.probabilities.push_back(probability(client) / all);
    }
    draw.everyone = static_cast<int64_t>(draw.size()) == available().size();
    draw.counts.assign(draw.size(), 1);
    draw.weights.assign(draw.size(), there / static_cast<double>(draw.size()));
    return draw;
  }

  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    RandomStream unused(1, Purpose::kSampling);
    Draw draw = this->draw(1, n, unused);
    if (std::equal(draw.clients.begin(), draw.clients.end(), draws.begin(), draws.end())) {
      return draw;
    }
    throw InvalidArgument("these are not the candidates with the largest losses", "draws",
                          "the largest comes first, and the smaller number of equals");
  }

  double probability(int64_t client) const override { return by_samples_->probability(client); }
  void toggle(std::span<const int64_t> changed) override { by_samples_->toggle(changed); }
  const ClientSet& available() const override { return by_samples_->available(); }

 private:
  void visit(StateFields& fields) override {
    fields.same(*by_samples_);
    if (fields.loads()) ranking_.clear();
  }

  std::unique_ptr<ClientSampler> by_samples_;
  int64_t candidates_;                               // d; 0: 2 n
  std::vector<std::pair<double, int64_t>> ranking_;  // -F_i and the candidate, in their order
};

}  // namespace

std::unique_ptr<ClientSampler> make_power_of_choice_sampler(std::span<const double> samples,
                                                            int64_t per_round, int64_t candidates) {
  check_per_round(per_round, std::ssize(samples), false);
  if (candidates != 0 && candidates < per_round) {
    throw InvalidArgument(fmt::format("{} candidates for {} participants", candidates, per_round),
                          "sampler.candidates", "there are at least as many");
  }
  return std::make_unique<PowerOfChoice>(samples, per_round, candidates);
}

}  // namespace hanse
