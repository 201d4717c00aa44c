// Samplers of the user's own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "hanse/plugin/rules.hpp"
#include "library.hpp"

namespace hanse {

namespace {

RandomStream& stream_of(void* stream) { return *static_cast<RandomStream*>(stream); }

HanseRandom random_of(RandomStream& stream, int64_t asked) {
  return {.size = sizeof(HanseRandom),
          .stream = &stream,
          .uniform = [](void* s) { return stream_of(s).uniform(); },
          .normal = [](void* s) { return stream_of(s).normal(); },
          .below = [](void* s, int64_t bound) { return stream_of(s).below(bound); },
          .asked = asked};
}

class OwnSampler final : public ClientSampler {
 public:
  OwnSampler(const RuleSource& source, std::span<const double> samples, int64_t per_round)
      : ClientSampler(std::ssize(samples), per_round),
        rule_(source, {.kind = HANSE_SAMPLER,
                       .clients = std::ssize(samples),
                       .per_round = per_round,
                       .samples = samples.data()}),
        available_(clients()) {
    const HansePlugin& api = rule_.api();
    by_losses_ = api.candidates != nullptr && rule_.needs().candidates != 0;
    rule_.require_function(by_losses_ ? api.draw_by_losses != nullptr : api.draw != nullptr,
                           by_losses_ ? "draw_by_losses" : "draw");
  }

  bool needs_candidates() const override { return by_losses_; }
  std::vector<int64_t> candidates(int64_t round, int64_t n, RandomStream& stream) override {
    candidates_.clear();
    losses_.clear();
    const auto there = all_available();
    if (there.empty() || n == 0) return {};
    std::vector<int64_t> named(there.size());
    int64_t k = 0;
    const HanseRandom random = random_of(stream, n);
    rule_.require(rule_.api().candidates(rule_.rule(), round, there.data(), std::ssize(there),
                                         &random, named.data(), &k));
    if (k < 0 || k > std::ssize(there)) {
      rule_.refuse(
          fmt::format("candidates() gives {} of {} clients in round {}", k, there.size(), round));
    }
    named.resize(to_index(k));
    check_clients("candidates", named, round);
    return named;
  }
  void take_candidates(std::span<const int64_t> clients, std::span<const double> losses) override {
    candidates_.assign(clients.begin(), clients.end());
    losses_.assign(losses.begin(), losses.end());
  }

  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    round_ = round;
    const auto there = all_available();
    Draw draw;
    if (there.empty() || n == 0) return draw;
    draw.clients.resize(to_index(per_round()));
    draw.weights.resize(to_index(per_round()));
    int64_t k = 0;
    const HanseRandom random = random_of(stream, n);
    const HansePlugin& api = rule_.api();
    rule_.require(by_losses_ ? api.draw_by_losses(rule_.rule(), round, candidates_.data(),
                                                  losses_.data(), std::ssize(candidates_), &random,
                                                  draw.clients.data(), draw.weights.data(), &k)
                             : api.draw(rule_.rule(), round, there.data(), std::ssize(there),
                                        &random, draw.clients.data(), draw.weights.data(), &k));
    if (k < 0 || k > n) {
      rule_.refuse(fmt::format("draw() gives {} clients in round {}, more than {} {}", k, round,
                               n < per_round() ? "asked for:" : "sampler.per-round =", n));
    }
    draw.clients.resize(to_index(k));
    draw.weights.resize(to_index(k));
    check(draw, round);
    draw.counts.assign(draw.size(), 1);
    draw.probabilities.assign(draw.size(), std::numeric_limits<double>::quiet_NaN());
    return draw;
  }

  // The rule draws in its own way: no draw can be imposed.
  Draw impose(int64_t, std::span<const int64_t>) override {
    rule_.refuse("a sampler of one's own cannot be given a draw");
  }

  double probability(int64_t) const override { return std::numeric_limits<double>::quiet_NaN(); }
  bool even() const override { return true; }
  // A library of the time before it was told is not.
  bool draws_any_number() const override { return rule_.api().size >= sizeof(HansePlugin); }

  void observe(const Draw& draw, const Feedback& feedback) override {
    if (rule_.api().observe == nullptr || draw.size() == 0) return;
    const HanseFeedback view =
        with_told(feedback, HanseFeedback{.size = sizeof(HanseFeedback),
                                          .round = round_,
                                          .k = static_cast<int64_t>(draw.size()),
                                          .clients = draw.clients.data()});
    rule_.require(rule_.api().observe(rule_.rule(), &view));
  }
  void observe_late(std::span<const int64_t> clients, std::span<const double> durations) override {
    if (rule_.api().observe_late == nullptr || clients.empty()) return;
    rule_.require(rule_.api().observe_late(rule_.rule(), clients.data(), durations.data(),
                                           std::ssize(clients)));
  }

  void toggle(std::span<const int64_t> changed) override {
    for (const int64_t client : changed) available_.toggle(client);
  }
  const ClientSet& available() const override { return available_; }

 private:
  std::vector<int64_t> all_available() const {
    std::vector<int64_t> there;
    for (int64_t i = 0; i < available_.size(); ++i) there.push_back(available_.select(i));
    return there;
  }

  void check_clients(const char* method, std::span<const int64_t> named, int64_t round) const {
    std::vector<int64_t> sorted(named.begin(), named.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      rule_.refuse(fmt::format("{}() gives client {} twice in round {}", method, *twice, round));
    }
    for (const int64_t client : named) {
      if (client >= 0 && client < clients() && available_.contains(client)) continue;
      rule_.refuse(fmt::format("{}() gives client {}, who is not available in round {}", method,
                               client, round));
    }
  }

  void check(const Draw& draw, int64_t round) const {
    check_clients("draw", draw.clients, round);
    for (std::size_t i = 0; i < draw.size(); ++i) {
      const int64_t client = draw.clients[i];
      if (std::isfinite(draw.weights[i]) && draw.weights[i] >= 0) continue;
      rule_.refuse(fmt::format("draw() gives client {} the weight {} in round {}", client,
                               number_text(draw.weights[i]), round));
    }
  }

  void visit(StateFields& fields) override {
    rule_.visit(fields);
    if (fields.loads()) available_ = ClientSet(clients());
  }

  PluginRule rule_;
  ClientSet available_;
  bool by_losses_ = false;
  int64_t round_ = 0;
  std::vector<int64_t> candidates_;  // of the round, and their losses
  std::vector<double> losses_;
};

}  // namespace

std::unique_ptr<ClientSampler> make_own_sampler(const RuleSource& source,
                                                std::span<const double> samples,
                                                int64_t per_round) {
  return std::make_unique<OwnSampler>(source, samples, per_round);
}

}  // namespace hanse
