#include "hanse/rules/sampling/by_formula.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/rules/formula/formula.hpp"
#include "urn_sampler.hpp"

namespace hanse {

namespace {

class FormulaSampler final : public UrnSampler {
 public:
  FormulaSampler(const std::string& formula, std::span<const double> samples, int64_t per_round,
                 bool replacement)
      : UrnSampler(std::ssize(samples), per_round, replacement, Urn(std::ssize(samples), 1, true)),
        formula_(formula, {"n", "lambda", "a", "F", "age", "round"}, "sampler.formula"),
        samples_(samples.begin(), samples.end()),
        lambda_(samples_),
        last_a_(samples_.size()),
        last_loss_(samples_.size()),
        last_round_(samples_.size()) {
    const double sum = std::accumulate(samples_.begin(), samples_.end(), 0.0);
    for (double& share : lambda_) share /= sum;
    weigh();
  }

  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    require_weights(formula_, values_, {}, next_);
    return UrnSampler::draw(round, n, stream);
  }
  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    require_weights(formula_, values_, {}, next_);
    return UrnSampler::impose(n, draws);
  }

  void observe(const Draw& draw, const Feedback& feedback) override {
    for (std::size_t i = 0; i < draw.size(); ++i) {
      const std::size_t client = to_index(draw.clients[i]);
      last_a_[client] = feedback.a[i];
      last_loss_[client] = feedback.losses[i];
      last_round_[client] = next_;
    }
    ++next_;
    weigh();
  }

 protected:
  UrnLaw law() const override { return {.coefficients = {1 / urn_.sum(0)}}; }
  void visit(StateFields& fields) override {
    fields.fixed("a", last_a_);
    fields.fixed("loss", last_loss_);
    fields.fixed("last", last_round_);
    fields.one("next", next_);
    if (!fields.loads()) return;
    urn_.call_back();
    weigh();
  }

 private:
  // The values of clients that took part; the others count as the mean of these.
  std::vector<double> filled(const std::vector<double>& last) const {
    double sum = 0, known = 0;
    for (std::size_t c = 0; c < last.size(); ++c) {
      if (last_round_[c] == 0) continue;
      sum += last[c];
      ++known;
    }
    std::vector<double> all(last);
    for (std::size_t c = 0; c < all.size(); ++c) {
      if (last_round_[c] == 0) all[c] = known > 0 ? sum / known : 1;
    }
    return all;
  }

  // Makes the next round's masses; its draw, if it comes, says what is wrong with them.
  void weigh() {
    const auto a = filled(last_a_), losses = filled(last_loss_);
    std::vector<double> age;
    for (const int64_t last : last_round_) age.push_back(static_cast<double>(next_ - last));
    const auto round = static_cast<double>(next_);
    values_ =
        formula_.evaluate({samples_, lambda_, a, losses, age, std::span(&round, 1)}, age.size());
    for (int64_t c = 0; c < clients(); ++c) {
      const double value = values_[to_index(c)];
      urn_.row(c)[0] = std::isfinite(value) && value > 0 ? value : 0;
    }
    urn_.refresh_all();
  }

  Formula formula_;
  std::vector<double> samples_, lambda_;    // [M] n, lambda
  std::vector<double> last_a_, last_loss_;  // [M] when the client last took part
  std::vector<int64_t> last_round_;         // [M]; 0: never
  int64_t next_ = 1;                        // the round to draw
  std::vector<double> values_;              // [M] of the formula then
};

}  // namespace

std::unique_ptr<ClientSampler> make_formula_sampler(const std::string& formula,
                                                    std::span<const double> samples,
                                                    int64_t per_round, bool replacement) {
  return std::make_unique<FormulaSampler>(formula, samples, per_round, replacement);
}

}  // namespace hanse
