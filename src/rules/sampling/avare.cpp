#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "urn_sampler.hpp"

namespace hanse {

namespace {

// A row is h_i and 1 above the floor, 0 and 0 at it; then h_i. Clients without a row have h = 0.
class Avare final : public UrnSampler {
 public:
  Avare(const LearningOptions& options, int64_t clients, int64_t per_round)
      : UrnSampler(clients, per_round, options.replacement, Urn(clients, 3)),
        c_(options.c == 0 ? static_cast<double>(clients) : options.c),
        exponent_(options.delta / 3) {}

  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    require_its_number(n);
    return UrnSampler::draw(round, n, stream);
  }
  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    require_its_number(n);
    return UrnSampler::impose(n, draws);
  }
  void observe(const Draw& draw, const Feedback& feedback) override;

 protected:
  UrnLaw law() const override;
  void visit(StateFields& fields) override;

 private:
  // The floor falls with K (t - 1), which t alone tells where K is always the same.
  void require_its_number(int64_t n) const {
    if (n == per_round() || takes_everyone(n)) return;
    throw InvalidArgument(fmt::format("sampler avare draws {} clients in every round, and one asks "
                                      "for {}",
                                      per_round(), n),
                          "sampler.kind");
  }

  using Entry = std::pair<double, int64_t>;  // h > 0 and the slot

  double epsilon() const {  // of round t, eq. 20
    const double draws = static_cast<double>(per_round()) * static_cast<double>(updates_);
    return std::pow(c_ / (c_ + draws), exponent_) / c_;
  }
  // The probability left to clients above the floor.
  double free_mass() const {
    const double least = epsilon();
    return 1 - static_cast<double>(clients()) * least + static_cast<double>(above_.size()) * least;
  }
  int64_t set_norm(int64_t client, double h);
  void place(const Entry& entry, bool above);
  void settle(std::vector<int64_t> changed);

  double c_;
  double exponent_;
  int64_t updates_ = 0;  // t - 1
  double lambda_ = 0;    // eq. 12; 0: every h is 0
  std::set<Entry> above_;
  std::set<Entry> below_;  // at the floor
};

UrnLaw Avare::law() const {
  if (lambda_ == 0) {
    const double even = 1 / static_cast<double>(clients());
    return {.coefficients = {0, 0, 0}, .individual = even, .common = even};
  }
  const double least = epsilon();
  return {.coefficients = {1 / lambda_, -least, 0}, .individual = least, .common = least};
}

void Avare::place(const Entry& entry, bool above) {
  const auto row = urn_.row(entry.second);
  row[0] = above ? entry.first : 0;
  row[1] = above ? 1 : 0;
}

// Starts a client that has a gradient above the floor; settle() is due. Returns the slot.
int64_t Avare::set_norm(int64_t client, double h) {
  const int64_t slot = urn_.slot_or_add(client);
  const auto row = urn_.row(slot);
  (row[1] > 0 ? above_ : below_).erase({row[2], slot});
  row[2] = h;
  place({h, slot}, h > 0);
  if (h > 0) above_.emplace(h, slot);
  return slot;
}

// Lemma 1 by thresholds: a client is above when h exceeds epsilon lambda. To lift a client over the
// threshold raises it, and so does to drop one below it; hence nobody moves more than once each
// way.
void Avare::settle(std::vector<int64_t> changed) {
  urn_.refresh(changed);
  changed.clear();
  double sum = urn_.sum(0);
  std::vector<Entry> sunk;  // kept from rising again by a rounding error
  const auto move = [&](std::set<Entry>& from, std::set<Entry>::iterator at, bool up) {
    const Entry entry = *at;
    from.erase(at);
    place(entry, up);
    changed.push_back(entry.second);
    sum += up ? entry.first : -entry.first;
    if (up) above_.insert(entry);
    if (!up) sunk.push_back(entry);
  };
  for (;;) {
    const double threshold = above_.empty() ? 0 : epsilon() * sum / free_mass();
    if (above_.size() > 1 && above_.begin()->first < threshold) {
      move(above_, above_.begin(), false);
    } else if (!below_.empty() && below_.rbegin()->first > threshold) {
      move(below_, std::prev(below_.end()), true);
    } else {
      break;
    }
  }
  below_.insert(sunk.begin(), sunk.end());
  urn_.refresh(changed);
  lambda_ = above_.empty() ? 0 : urn_.sum(0) / free_mass();
}

void Avare::observe(const Draw& draw, const Feedback& feedback) {
  const std::vector<double> a = heard(feedback.a);
  check_feedback(draw, a);
  if (draw.everyone || draw.size() == 0) return;
  std::vector<int64_t> slots;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    slots.push_back(set_norm(draw.clients[i], std::sqrt(a[i])));
  }
  ++updates_;
  settle(std::move(slots));
}

void Avare::visit(StateFields& fields) {
  urn_.visit(fields);
  fields.one("updates", updates_);
  fields.one("lambda", lambda_);
  if (!fields.loads()) return;
  above_.clear();
  below_.clear();
  for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
    const auto row = urn_.row(slot);
    if (row[2] > 0) (row[1] > 0 ? above_ : below_).emplace(row[2], slot);
  }
}

}  // namespace

std::unique_ptr<ClientSampler> make_avare_sampler(const LearningOptions& options, int64_t clients,
                                                  int64_t per_round) {
  if (options.c != 0 && !(options.c >= static_cast<double>(clients))) {
    throw InvalidArgument(
        fmt::format("C {} is below the number of clients, {}", options.c, clients), "sampler.c");
  }
  if (!(options.delta > 0 && options.delta <= 1)) {
    throw InvalidArgument(fmt::format("delta {} is outside (0, 1]", options.delta),
                          "sampler.delta");
  }
  return std::make_unique<Avare>(options, clients, per_round);
}

}  // namespace hanse
