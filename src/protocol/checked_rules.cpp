#include "hanse/protocol/checked_rules.hpp"

#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

using Round = std::shared_ptr<int64_t>;

// A rule, and beside it one that begins each round with the state that the rule has saved.
template <class Rule>
class Pair {
 public:
  Pair(std::string name, RuleMaker<Rule> make, Round round)
      : name_(std::move(name)), make_(std::move(make)), round_(std::move(round)), rule_(make_()) {}

  Rule& rule() const { return *rule_; }
  int64_t& round() const { return *round_; }
  bool has_twin() const { return twin_ != nullptr; }

  // Makes another twin. REQUIRES: the rule is between two rounds.
  void renew() {
    twin_ = make_();
    twin([&](Rule& fresh) { fresh.load(state_of(*rule_)); });
  }

  // What `work` makes of the twin. An error is the twin's own: the rule itself has had none.
  template <class Work>
  auto twin(Work work) const {
    try {
      return work(*twin_);
    } catch (const std::exception& error) {
      throw impure(fmt::format("it fails from its saved state: {}", first_line(error)));
    }
  }

  template <class A, class B>
  void require_same(const std::string& what, const A& one, const B& other) const {
    if (std::size(one) != std::size(other)) {
      throw impure(fmt::format("{} has {} numbers, but {} from its saved state", what,
                               std::size(one), std::size(other)));
    }
    for (std::size_t i = 0; i < std::size(one); ++i) {
      if (std::memcmp(&one[i], &other[i], sizeof(one[i])) == 0) continue;
      throw impure(
          fmt::format("{}[{}] is {}, but {} from its saved state", what, i, one[i], other[i]));
    }
  }
  void require_same_scale(double one, double other) const {
    if (std::memcmp(&one, &other, sizeof one) == 0) return;
    throw impure(fmt::format("its scale is {}, but {} from its saved state", one, other));
  }

  void require_same_states() const {
    const State one = state_of(*rule_);
    const State other = state_of(*twin_);
    if (one.arrays().size() != other.arrays().size()) {
      throw impure(fmt::format("its state has {} arrays, but {} from its saved state",
                               one.arrays().size(), other.arrays().size()));
    }
    for (const auto& [name, array] : one.arrays()) {
      const auto found = other.arrays().find(name);
      if (found == other.arrays().end() || found->second.index() != array.index()) {
        throw impure(fmt::format("its state has no such '{}' from its saved state", name));
      }
      const auto compare = [&, &key = name](const auto& values) {
        using Values = std::decay_t<decltype(values)>;
        require_same("state " + key, values, std::get<Values>(found->second));
      };
      std::visit(compare, array);
    }
  }

 private:
  static State state_of(const Rule& rule) {
    State state;
    rule.save(state);
    return state;
  }
  Error impure(const std::string& what) const {
    return Error(fmt::format("the rule is not pure: in round {} {}", *round_, what), name_,
                 kPurityHint);
  }

  std::string name_;
  RuleMaker<Rule> make_;
  Round round_;
  std::unique_ptr<Rule> rule_;
  std::unique_ptr<Rule> twin_;  // null before the first round
};

class CheckedSampler final : public ClientSampler {
 public:
  explicit CheckedSampler(Pair<ClientSampler> pair)
      : ClientSampler(pair.rule().clients(), pair.rule().per_round()), pair_(std::move(pair)) {}

  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    pair_.round() = round;
    begin();
    RandomStream same = stream;
    Draw draw = pair_.rule().draw(round, n, stream);
    require_same(draw, pair_.twin([&](ClientSampler& twin) { return twin.draw(round, n, same); }));
    return draw;
  }
  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    begin();
    Draw draw = pair_.rule().impose(n, draws);
    require_same(draw, pair_.twin([&](ClientSampler& twin) { return twin.impose(n, draws); }));
    return draw;
  }
  void observe(const Draw& draw, const Feedback& feedback) override {
    begin();
    pair_.rule().observe(draw, feedback);
    pair_.twin([&](ClientSampler& twin) { twin.observe(draw, feedback); });
    pair_.require_same_states();
    between_rounds_ = true;
  }
  void toggle(std::span<const int64_t> clients) override {
    begin();
    pair_.rule().toggle(clients);
    pair_.twin([&](ClientSampler& twin) { twin.toggle(clients); });
  }
  void observe_all(std::span<const double> a) override {
    begin();
    pair_.rule().observe_all(a);
    pair_.twin([&](ClientSampler& twin) { twin.observe_all(a); });
  }

  std::vector<int64_t> candidates(int64_t round, int64_t n, RandomStream& stream) override {
    pair_.round() = round;
    begin();
    RandomStream same = stream;
    auto clients = pair_.rule().candidates(round, n, stream);
    pair_.require_same("candidates", clients, pair_.twin([&](ClientSampler& twin) {
      return twin.candidates(round, n, same);
    }));
    return clients;
  }
  void take_candidates(std::span<const int64_t> clients, std::span<const double> losses) override {
    begin();
    pair_.rule().take_candidates(clients, losses);
    pair_.twin([&](ClientSampler& twin) { twin.take_candidates(clients, losses); });
  }
  // Between two rounds the next twin learns it from the saved state.
  void observe_late(std::span<const int64_t> clients, std::span<const double> durations) override {
    pair_.rule().observe_late(clients, durations);
    if (between_rounds_) return;
    pair_.twin([&](ClientSampler& twin) { twin.observe_late(clients, durations); });
  }

  double probability(int64_t client) const override { return pair_.rule().probability(client); }
  bool even() const override { return pair_.rule().even(); }
  bool draws_any_number() const override { return pair_.rule().draws_any_number(); }
  const ClientSet& available() const override { return pair_.rule().available(); }
  bool needs_all_clients() const override { return pair_.rule().needs_all_clients(); }
  bool needs_candidates() const override { return pair_.rule().needs_candidates(); }
  bool needs_squares() const override { return pair_.rule().needs_squares(); }
  std::vector<double> expert_weights() const override { return pair_.rule().expert_weights(); }
  void add_columns(Columns& columns) const override { pair_.rule().add_columns(columns); }

 private:
  void visit(StateFields& fields) override {
    fields.same(pair_.rule());
    between_rounds_ = between_rounds_ || fields.loads();
  }

  void require_same(const Draw& one, const Draw& other) const {
    pair_.require_same("clients", one.clients, other.clients);
    pair_.require_same("counts", one.counts, other.counts);
    pair_.require_same("probabilities", one.probabilities, other.probabilities);
    pair_.require_same("weights", one.weights, other.weights);
  }

  // Begins a round at its first call. A twin that has been loaded finds all clients there.
  void begin() {
    if (!std::exchange(between_rounds_, false)) return;
    pair_.renew();
    const ClientSet& there = available();
    std::vector<int64_t> absent;
    for (int64_t client = 0; client < clients() && !there.full(); ++client) {
      if (!there.contains(client)) absent.push_back(client);
    }
    pair_.twin([&](ClientSampler& twin) { twin.toggle(absent); });
  }

  Pair<ClientSampler> pair_;
  bool between_rounds_ = true;
};

class CheckedAggregator final : public Aggregator {
 public:
  explicit CheckedAggregator(Pair<Aggregator> pair) : pair_(std::move(pair)) {}

  AggregatorNeeds needs() const override { return pair_.rule().needs(); }
  std::vector<int64_t> absent(int64_t round, std::span<const int64_t> clients) const override {
    return pair_.rule().absent(round, clients);
  }
  std::vector<double> decision() const override { return pair_.rule().decision(); }
  void add_columns(Columns& columns) const override { pair_.rule().add_columns(columns); }

  Mix mix(const RoundReport& report) override {
    pair_.round() = report.round;
    pair_.renew();
    Mix mix = pair_.rule().mix(report);
    const Mix other = pair_.twin([&](Aggregator& twin) { return twin.mix(report); });
    pair_.require_same("coefficients", mix.coefficients, other.coefficients);
    pair_.require_same("response", mix.response, other.response);
    if (mix.columns && other.columns) {
      pair_.require_same("columns", mix.columns->map, other.columns->map);
      pair_.require_same("weights", mix.columns->weights, other.columns->weights);
    }
    pair_.require_same_scale(mix.direction.scale, other.direction.scale);
    pair_.require_same_states();
    return mix;
  }
  double scale(const RoundReport& report, std::span<const double> squared_norms) const override {
    const double scale = pair_.rule().scale(report, squared_norms);
    if (pair_.has_twin()) {
      pair_.require_same_scale(scale, pair_.twin([&](const Aggregator& twin) {
        return twin.scale(report, squared_norms);
      }));
    }
    return scale;
  }
  bool accepts(std::span<const double> before, std::span<const double> after) const override {
    return pair_.rule().accepts(before, after);
  }

 private:
  void visit(StateFields& fields) override { fields.same(pair_.rule()); }

  Pair<Aggregator> pair_;
};

class CheckedOptimizer final : public ServerOptimizer {
 public:
  CheckedOptimizer(Pair<ServerOptimizer> pair, int64_t n_params)
      : pair_(std::move(pair)), n_params_(n_params) {}

  void observe(std::span<const float> sum) override {
    begin();
    pair_.rule().observe(sum);
    pair_.twin([&](ServerOptimizer& twin) { twin.observe(sum); });
  }
  void step(std::span<float> theta, std::span<const float> update, double lr,
            int64_t begin_at) override {
    if (theta.empty()) return;
    begin();
    std::vector<float> other(theta.begin(), theta.end());
    pair_.rule().step(theta, update, lr, begin_at);
    pair_.twin([&](ServerOptimizer& twin) { twin.step(other, update, lr, begin_at); });
    pair_.require_same(fmt::format("behind parameter {}, the model", begin_at), theta, other);
    left_ -= std::ssize(theta);
    if (left_ == 0) pair_.require_same_states();
  }

 private:
  void visit(StateFields& fields) override {
    fields.same(pair_.rule());
    if (fields.loads()) left_ = 0;
  }

  void begin() {
    if (left_ > 0) return;
    pair_.renew();
    left_ = n_params_;
  }

  Pair<ServerOptimizer> pair_;
  int64_t n_params_;
  int64_t left_ = 0;  // entries of the round that have not stepped yet; 0: between two rounds
};

class CheckedAttack final : public Attack {
 public:
  explicit CheckedAttack(Pair<Attack> pair) : pair_(std::move(pair)) {}

  AttackRow decide(const AttackRound& round) override {
    pair_.round() = round.round;
    pair_.renew();
    AttackRow row = pair_.rule().decide(round);
    const AttackRow other = pair_.twin([&](Attack& twin) { return twin.decide(round); });
    pair_.require_same("coefficients", row.coefficients, other.coefficients);
    pair_.require_same_states();
    return row;
  }
  bool sees_last() const override { return pair_.rule().sees_last(); }

 private:
  void visit(StateFields& fields) override { fields.same(pair_.rule()); }

  Pair<Attack> pair_;
};

class CheckedColumns final : public ColumnFunction {
 public:
  CheckedColumns(const std::string& name, const RuleMaker<ColumnFunction>& make)
      : make_(make), pair_(name, make, std::make_shared<int64_t>(0)) {}

  void begin(int64_t round, const State& state) override {
    pair_.round() = round;
    state_ = state;
    pair_.rule().begin(round, state);
  }
  void step(std::span<const double> values, std::span<const double> weights,
            std::span<double> out) override {
    pair_.rule().step(values, weights, out);
    const auto fresh = make_();
    fresh->begin(pair_.round(), state_);
    std::vector<double> other(out.size());
    fresh->step(values, weights, other);
    pair_.require_same("columns", out, other);
  }

 private:
  RuleMaker<ColumnFunction> make_;
  Pair<ColumnFunction> pair_;
  State state_;
};

}  // namespace

std::unique_ptr<Attack> checked_attack(const std::string& rule, RuleMaker<Attack> make) {
  return std::make_unique<CheckedAttack>(
      Pair<Attack>(rule, std::move(make), std::make_shared<int64_t>(0)));
}

std::unique_ptr<ColumnFunction> checked_columns(const std::string& rule,
                                                const RuleMaker<ColumnFunction>& make) {
  return std::make_unique<CheckedColumns>(rule, make);
}

std::unique_ptr<ClientSampler> checked_sampler(const std::string& rule,
                                               RuleMaker<ClientSampler> make, Round round) {
  return std::make_unique<CheckedSampler>(
      Pair<ClientSampler>(rule, std::move(make), std::move(round)));
}

std::unique_ptr<Aggregator> checked_aggregator(const std::string& rule, RuleMaker<Aggregator> make,
                                               Round round) {
  return std::make_unique<CheckedAggregator>(
      Pair<Aggregator>(rule, std::move(make), std::move(round)));
}

std::unique_ptr<ServerOptimizer> checked_optimizer(const std::string& rule,
                                                   RuleMaker<ServerOptimizer> make,
                                                   int64_t n_params, Round round) {
  return std::make_unique<CheckedOptimizer>(
      Pair<ServerOptimizer>(rule, std::move(make), std::move(round)), n_params);
}

}  // namespace hanse
