#include "hanse/rules/attack/forged_feedback.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "hanse/rules/told.hpp"

namespace hanse {

namespace {

class Liars {
 public:
  Liars(const AttackOptions& options, std::vector<int64_t> attackers)
      : options_(options), attackers_(std::move(attackers)) {}

  double factor() const { return options_.feedback; }

  // Numbers of these clients, those of attackers times `factor`.
  std::vector<double> told(int64_t round, std::span<const int64_t> clients,
                           std::span<const double> true_numbers, double factor) const {
    std::vector<double> numbers(true_numbers.begin(), true_numbers.end());
    for (std::size_t i = 0; i < numbers.size() && options_.attacks_in(round); ++i) {
      if (std::ranges::binary_search(attackers_, clients[i])) numbers[i] *= factor;
    }
    return numbers;
  }

 private:
  AttackOptions options_;
  std::vector<int64_t> attackers_;
};

class DeceivedSampler final : public ClientSampler {
 public:
  DeceivedSampler(std::unique_ptr<ClientSampler> sampler, Liars liars)
      : ClientSampler(sampler->clients(), sampler->per_round()),
        sampler_(std::move(sampler)),
        liars_(std::move(liars)) {}

  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    round_ = round;
    return sampler_->draw(round, n, stream);
  }
  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    return sampler_->impose(n, draws);
  }
  void observe(const Draw& draw, const Feedback& feedback) override {
    const double factor = liars_.factor();
    const auto told = [&](std::span<const double> numbers, double by) {
      return liars_.told(round_, draw.clients, numbers, by);
    };
    OwnedReport<Feedback> heard(feedback);
    heard.keep(&Feedback::a, told(feedback.a, factor * factor));
    heard.keep(&Feedback::losses, told(feedback.losses, factor));
    heard.keep(&Feedback::squares, told(feedback.squares, factor * factor));
    sampler_->observe(draw, heard.report());
  }
  std::vector<int64_t> candidates(int64_t round, int64_t n, RandomStream& stream) override {
    round_ = round;
    return sampler_->candidates(round, n, stream);
  }
  void take_candidates(std::span<const int64_t> clients, std::span<const double> losses) override {
    sampler_->take_candidates(clients, liars_.told(round_, clients, losses, liars_.factor()));
  }

  void toggle(std::span<const int64_t> clients) override { sampler_->toggle(clients); }
  void observe_all(std::span<const double> a) override { sampler_->observe_all(a); }
  void observe_late(std::span<const int64_t> clients, std::span<const double> durations) override {
    sampler_->observe_late(clients, durations);
  }
  double probability(int64_t client) const override { return sampler_->probability(client); }
  bool even() const override { return sampler_->even(); }
  bool draws_any_number() const override { return sampler_->draws_any_number(); }
  const ClientSet& available() const override { return sampler_->available(); }
  bool needs_all_clients() const override { return sampler_->needs_all_clients(); }
  bool needs_candidates() const override { return sampler_->needs_candidates(); }
  bool needs_squares() const override { return sampler_->needs_squares(); }
  std::vector<double> expert_weights() const override { return sampler_->expert_weights(); }
  void add_columns(Columns& columns) const override { sampler_->add_columns(columns); }

 private:
  void visit(StateFields& fields) override { fields.same(*sampler_); }

  std::unique_ptr<ClientSampler> sampler_;
  Liars liars_;
  int64_t round_ = 0;
};

class DeceivedRule final : public Aggregator {
 public:
  DeceivedRule(std::unique_ptr<Aggregator> rule, Liars liars)
      : rule_(std::move(rule)), liars_(std::move(liars)) {}

  AggregatorNeeds needs() const override { return rule_->needs(); }
  Mix mix(const RoundReport& report) override { return rule_->mix(heard(report).report()); }
  double scale(const RoundReport& report, std::span<const double> norms) const override {
    return rule_->scale(heard(report).report(), norms);
  }
  std::vector<int64_t> absent(int64_t round, std::span<const int64_t> clients) const override {
    return rule_->absent(round, clients);
  }
  bool accepts(std::span<const double> before, std::span<const double> after) const override {
    return rule_->accepts(before, after);
  }
  std::vector<double> decision() const override { return rule_->decision(); }
  void add_columns(Columns& columns) const override { rule_->add_columns(columns); }

 private:
  OwnedReport<RoundReport> heard(const RoundReport& report) const {
    OwnedReport<RoundReport> heard(report);
    for (const auto member : {&RoundReport::losses, &RoundReport::rates}) {
      heard.keep(member,
                 liars_.told(report.round, report.clients, report.*member, liars_.factor()));
    }
    return heard;
  }

  void visit(StateFields& fields) override { fields.same(*rule_); }

  std::unique_ptr<Aggregator> rule_;
  Liars liars_;
};

}  // namespace

std::unique_ptr<ClientSampler> forge_feedback(std::unique_ptr<ClientSampler> sampler,
                                              const AttackOptions& options,
                                              std::vector<int64_t> attackers) {
  return std::make_unique<DeceivedSampler>(std::move(sampler),
                                           Liars(options, std::move(attackers)));
}

std::unique_ptr<Aggregator> forge_losses(std::unique_ptr<Aggregator> rule,
                                         const AttackOptions& options,
                                         std::vector<int64_t> attackers) {
  return std::make_unique<DeceivedRule>(std::move(rule), Liars(options, std::move(attackers)));
}

}  // namespace hanse
