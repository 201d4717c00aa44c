#include "hanse/rules/sampling/basic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "even_sampler.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/uniform.hpp"
#include "hanse/rules/formula/formula.hpp"
#include "urn_sampler.hpp"

namespace hanse {

namespace {

class UniformSampler final : public EvenSampler {
 public:
  // `words`: null where a stream of the seed decides.
  UniformSampler(int64_t clients, int64_t per_round, SecretWords words)
      : EvenSampler(clients, per_round), words_(std::move(words)) {}

  Draw draw(int64_t, int64_t n, RandomStream& stream) override {
    std::vector<int64_t> chosen;
    if (words_) {
      CipherStream words = words_();
      chosen = subset(n, words);
      std::ranges::sort(chosen);
    } else {
      chosen = subset(n, stream);
      stream.shuffle(std::span(chosen));
    }
    return even_draw(std::move(chosen));
  }

 private:
  // Floyd: a uniform subset with one random number a member.
  template <class Words>
  std::vector<int64_t> subset(int64_t n, Words& words) const {
    std::vector<int64_t> chosen;
    std::unordered_set<int64_t> ranks;  // among the available
    for (int64_t top = available_.size() - participants(n); top < available_.size(); ++top) {
      const auto pick = static_cast<int64_t>(uniform_below(words, static_cast<uint64_t>(top) + 1));
      const int64_t rank = ranks.insert(pick).second ? pick : top;
      if (rank == top) ranks.insert(top);
      chosen.push_back(available_.select(rank));
    }
    return chosen;
  }

  SecretWords words_;
};

class FullSampler final : public EvenSampler {
 public:
  explicit FullSampler(int64_t clients) : EvenSampler(clients, clients) {}

  Draw draw(int64_t, int64_t n, RandomStream&) override {
    std::vector<int64_t> all;
    for (int64_t k = 0; k < participants(n); ++k) all.push_back(available_.select(k));
    return even_draw(std::move(all));
  }

 private:
  int64_t participants(int64_t n) const override {
    if (n >= available_.size()) return available_.size();
    throw InvalidArgument(fmt::format("sampler full draws all of {} clients, and a round asks for "
                                      "{}",
                                      available_.size(), n),
                          "sampler.kind");
  }
};

// Draws by given shares: weighted, lipschitz and optimal.
class ShareSampler : public UrnSampler {
 public:
  ShareSampler(int64_t clients, int64_t per_round, bool replacement)
      : UrnSampler(clients, per_round, replacement, Urn(clients, 1, true)) {}

  // Shares of all clients; they need not sum to 1.
  template <class Share>
  void set_shares(Share share) {
    for (int64_t client = 0; client < clients(); ++client) urn_.row(client)[0] = share(client);
    urn_.refresh_all();
  }

 protected:
  UrnLaw law() const override { return {.coefficients = {1 / urn_.sum(0)}}; }
  // The shares are no state of a run.
  void visit(StateFields& fields) override {
    if (fields.loads()) urn_.call_back();
  }
};

class RepeatingSampler final : public ShareSampler {
 public:
  using ShareSampler::ShareSampler;

  bool even() const override { return true; }
};

class OptimalSampler final : public ShareSampler {
 public:
  using ShareSampler::ShareSampler;

  bool needs_all_clients() const override { return true; }
  void observe_all(std::span<const double> told) override {
    const std::vector<double> a = heard(told);
    const bool nothing = std::all_of(a.begin(), a.end(), [](double x) { return x == 0; });
    set_shares([&](int64_t client) {
      return nothing ? 1 : std::sqrt(a[static_cast<std::size_t>(client)]);
    });
  }
};

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
    const std::vector<double> a = heard(feedback.a), losses = heard(feedback.losses);
    for (std::size_t i = 0; i < draw.size(); ++i) {
      const std::size_t client = to_index(draw.clients[i]);
      last_a_[client] = a[i];
      last_loss_[client] = losses[i];
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

std::unique_ptr<ClientSampler> make_uniform_sampler(int64_t clients, int64_t per_round) {
  return make_secret_uniform_sampler(clients, per_round, nullptr);
}

std::unique_ptr<ClientSampler> make_secret_uniform_sampler(int64_t clients, int64_t per_round,
                                                           SecretWords words) {
  check_per_round(per_round, clients, false);
  return std::make_unique<UniformSampler>(clients, per_round, std::move(words));
}

std::unique_ptr<ClientSampler> make_repeating_sampler(int64_t clients, int64_t per_round) {
  auto sampler = std::make_unique<RepeatingSampler>(clients, per_round, true);
  sampler->set_shares([](int64_t) { return 1.0; });
  return sampler;
}

std::unique_ptr<ClientSampler> make_full_sampler(int64_t clients) {
  return std::make_unique<FullSampler>(clients);
}

std::unique_ptr<ClientSampler> make_weighted_sampler(std::span<const double> shares,
                                                     int64_t per_round, bool replacement) {
  auto sampler = std::make_unique<ShareSampler>(std::ssize(shares), per_round, replacement);
  if (!(std::accumulate(shares.begin(), shares.end(), 0.0) > 0)) {
    throw InvalidArgument("no client has a positive share", "sampler.kind");
  }
  sampler->set_shares([&](int64_t client) { return shares[static_cast<std::size_t>(client)]; });
  return sampler;
}

std::unique_ptr<ClientSampler> make_optimal_sampler(int64_t clients, int64_t per_round,
                                                    bool replacement) {
  auto sampler = std::make_unique<OptimalSampler>(clients, per_round, replacement);
  sampler->set_shares([](int64_t) { return 1.0; });
  return sampler;
}

std::unique_ptr<ClientSampler> make_formula_sampler(const std::string& formula,
                                                    std::span<const double> samples,
                                                    int64_t per_round, bool replacement) {
  return std::make_unique<FormulaSampler>(formula, samples, per_round, replacement);
}

}  // namespace hanse
