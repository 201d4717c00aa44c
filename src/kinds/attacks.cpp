#include "hanse/kinds/attacks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/client/client_task.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/plugin/rules.hpp"
#include "hanse/protocol/checked_rules.hpp"
#include "robust_aggregators.hpp"

namespace hanse {

namespace {

using Options = AttackOptions;
const auto key = keys_of<Job>("attack", &Job::attack);

// What the kinds differ in.
struct AttackTraits {
  std::optional<AttackForm> form = std::nullopt;  // that decides what is sent
  ForgedDirection direction = ForgedDirection::kNone;
  bool searches = false;  // tries the rule on what it may send
  Poison poison = Poison::kNone;
  bool replaces = false;
  bool own = false;
};

struct AttackKind : KindRow<Job> {
  AttackTraits traits;
};

double& strength_of(Job& job) { return job.attack.strength; }

Keys<Job> strength_key(double value, const std::string& help) {
  return with_default(key("strength", &Options::strength, above(0), help), strength_of, value);
}
Keys<Job> automatic_strength_key(double value, const std::string& help) {
  return with_default(key("strength", &Options::strength, or_auto(above(0)), help), strength_of,
                      value);
}

const Keys<Job> kWho{
    key("clients", &Options::clients,
        "who attacks, fixed for the run: a number of clients, a share of them below 1, or their "
        "ids, 3,7 (a single one: 3,)"),
    key("first-round", &Options::first_round, at_least(1), "first round of the attack"),
    key("last-round", &Options::last_round, Range{.low = 1, .word = "inf"},
        "last round of the attack"),
    key("feedback", &Options::feedback, at_least(0),
        "factor on the losses and lengths of updates that attackers tell samplers and rules; "
        "1: they tell the truth")};

const Keys<Job> kIdle =
    key("idle", &Options::idle,
        "attackers are further clients without data, attack.clients in number, and the last ids "
        "are theirs");

const Keys<Job> kDirection =
    key("direction", &Options::direction,
        "how the mean h of the honest updates is perturbed: along -h / |h|, -sign(h), or minus "
        "their deviation by column");

void check_who(const Job& job) {
  const Options& o = job.attack;
  const auto refuse = [](const std::string& what, const char* where, const std::string& hint) {
    throw InvalidArgument(what, where, hint);
  };
  if (o.clients.none()) refuse("nobody attacks", "attack.clients", "a number, such as 2");
  if (o.last_round > 0 && o.last_round < o.first_round) {
    refuse(fmt::format("the attack ends in round {}, before it begins", o.last_round),
           "attack.last-round", "at least attack.first-round");
  }
  if (!o.idle) return;
  if (!o.clients.ids.empty() || o.clients.number < 1) {
    refuse("attackers without data are a number of further clients", "attack.clients",
           "a whole number");
  }
}

void check_poison(const Job& job) {
  check_who(job);
  const auto target = job.attack.target;
  if (target && *target != std::floor(*target)) {
    throw InvalidArgument(fmt::format("{} is no class", *target), "attack.target",
                          "classes are whole numbers from 0 on");
  }
  if (job.attack.kind == "label-flip" && target == static_cast<double>(job.attack.source)) {
    throw InvalidArgument("the flipped label is the label itself", "attack.target",
                          "another class than attack.source");
  }
}

std::vector<KindRow<Job>> rows_of(const std::vector<AttackKind>& kinds) {
  return {kinds.begin(), kinds.end()};
}

const Keys<Job> kTarget =
    key("target", &Options::target, "auto",
        "class that flipped or patched samples get; auto: C-1-y for label y of C classes, "
        "respectively 0");

const std::vector<AttackKind> kAttacks{
    {{"none", "all participants are honest", {}}, {}},
    {{"feedback", "honest updates, and lies about them: attack.feedback", {kWho}, check_who}, {}},
    {{"sign-flip",
      "minus the mean of the honest updates",
      {kWho, kIdle, strength_key(1, "factor on minus the mean")},
      check_who},
     {.form = AttackForm::kSignFlip}},
    {{"ipm",
      "inner-product manipulation: -tau times the honest mean (Xie et al. 2020)",
      {kWho, kIdle, strength_key(2, "tau")},
      check_who},
     {.form = AttackForm::kIpm}},
    {{"alie",
      "a little is enough: the honest mean and z deviations by column (Baruch et al. 2019)",
      {kWho, kIdle,
       automatic_strength_key(1.5, "z; auto: the paper's, of the round's participants")},
      check_who},
     {.form = AttackForm::kAlie, .direction = ForgedDirection::kDeviation}},
    {{"optimal-alie",
      "alie with the z that moves the rule farthest (ByzFL's search)",
      {kWho, kIdle},
      check_who},
     {.form = AttackForm::kOptimalAlie,
      .direction = ForgedDirection::kDeviation,
      .searches = true}},
    {{"optimal-ipm",
      "ipm with the tau that moves the rule farthest (ByzFL's search)",
      {kWho, kIdle},
      check_who},
     {.form = AttackForm::kOptimalIpm, .searches = true}},
    {{"min-max",
      "the honest mean, perturbed as far as two honest updates are apart (Shejwalkar and "
      "Houmansadr 2021)",
      {kWho, kIdle, kDirection},
      check_who},
     {.form = AttackForm::kMinMax}},
    {{"min-sum",
      "the same by the sum of squared distances (Shejwalkar and Houmansadr 2021)",
      {kWho, kIdle, kDirection},
      check_who},
     {.form = AttackForm::kMinSum}},
    {{"mimic",
      "the update of the first honest participant, again (Karimireddy et al. 2022)",
      {kWho, kIdle},
      check_who},
     {.form = AttackForm::kMimic}},
    {{"gauss",
      "normal noise of deviation sigma in each column",
      {kWho, kIdle, strength_key(1, "sigma")},
      check_who},
     {.form = AttackForm::kGauss, .direction = ForgedDirection::kOwn}},
    {{"nan", "no numbers", {kWho, kIdle}, check_who}, {.form = AttackForm::kNan}},
    {{"label-flip",
      "training on flipped labels",
      {kWho,
       key("source", &Options::source, at_least(0),
           "class whose samples get attack.target, all others keep theirs; with target = auto "
           "all are flipped, and attack_success is that of this class"),
       kTarget},
      check_poison},
     {.poison = Poison::kFlip}},
    {{"backdoor",
      "training on samples with a patch, which get the label attack.target",
      {kWho, kTarget,
       key("patch", &Options::patch, at_least(1),
           "side in pixels of the patch of ones in the lower right corner"),
       key("poison", &Options::poison, above_to(0, 1), "share of a batch that is patched")},
      check_poison},
     {.poison = Poison::kBackdoor}},
    {{"replace",
      "updates of attackers are multiplied, so that they replace the model (Bagdasaryan et al. "
      "2020)",
      {kWho, automatic_strength_key(0, "factor; auto: clients over attackers")},
      check_who},
     {.replaces = true}},
    {{"python",
      "an attack of your own, in Python",
      {kWho, kIdle,
       own_rule_keys(keys_of<Job>(
           "attack", [](Job& job) -> auto& { return job.attack.own; }))},
      check_who},
     {.direction = ForgedDirection::kDeviation, .own = true}}};

const AttackTraits& traits_of(const Job& job) {
  return find_kind(kAttacks, "attack.kind", job.attack.kind).traits;
}

std::vector<int64_t> attackers_of(const Job& job, int64_t clients) {
  return attacking_clients(job.attack, clients, static_cast<uint64_t>(job.run.seed));
}

class JobAttackers final : public Attackers {
 public:
  JobAttackers(const Job& job, int64_t clients, bool decides)
      : options_(job.attack),
        seed_(static_cast<uint64_t>(job.run.seed)),
        attacks_(to_index(clients)),
        needs_(forge_needs(job)) {
    if (decides) rule_ = make_forgery(job).rule;
    needs_.last = rule_ && rule_->sees_last();
    for (const int64_t client : attackers_of(job, clients)) attacks_[to_index(client)] = 1;
  }

  std::vector<char> among(int64_t round, std::span<const int64_t> clients) const override {
    std::vector<char> found;
    for (const int64_t client : clients) {
      found.push_back(options_.attacks_in(round) ? attacks_[to_index(client)] : 0);
    }
    return found;
  }

  ForgeNeeds needs() const override { return needs_; }

  // Value i of the row is the i-th normal number of the round's stream.
  void fill(int64_t round, int64_t begin, std::span<float> p) const override {
    RandomStream stream(seed_, Purpose::kAttack, static_cast<uint64_t>(round));
    stream.seek(2 * static_cast<uint64_t>(begin));
    for (float& value : p) value = static_cast<float>(stream.normal());
  }

  AttackRow forge(const ForgeView& view) override {
    return rule_->decide({.round = view.round,
                          .honest = view.honest.size(),
                          .byzantine = view.byzantine.size(),
                          .gram = view.gram,
                          .displacement = view.displacement});
  }

 private:
  void visit(StateFields& fields) override {
    if (rule_) fields.same(*rule_);
  }

  AttackOptions options_;
  uint64_t seed_;
  std::vector<char> attacks_;  // [M]
  ForgeNeeds needs_;
  std::unique_ptr<Attack> rule_;  // where it decides
};

class Replacement final : public UpdateStage {
 public:
  Replacement(const AttackOptions& options, std::vector<int64_t> attackers, double factor)
      : options_(options), attackers_(std::move(attackers)), factor_(static_cast<float>(factor)) {}

  void apply(const StagedUpdate& staged) override {
    if (!options_.attacks_in(round_of_key(staged.round))) return;
    if (!std::ranges::binary_search(attackers_, staged.client)) return;
    for (float& value : staged.update) value *= factor_;
  }

 private:
  AttackOptions options_;
  std::vector<int64_t> attackers_;  // ascending
  float factor_;
};

}  // namespace

KindFamily attack_family() {
  return {"attacks", "attack.kind", "what byzantine participants do",
          chosen_by<&Job::attack, &AttackOptions::kind>, rows_of(kAttacks)};
}

bool attack_searches(const Job& job) { return traits_of(job).searches; }
bool attack_poisons(const Job& job) { return traits_of(job).poison != Poison::kNone; }

ForgeNeeds forge_needs(const Job& job) {
  const AttackTraits& traits = traits_of(job);
  ForgeNeeds needs{.forges = traits.own || traits.form, .direction = traits.direction};
  const bool perturbs = traits.form == AttackForm::kMinMax || traits.form == AttackForm::kMinSum;
  if (perturbs && job.attack.direction == Perturbation::kStd) {
    needs.direction = ForgedDirection::kDeviation;
  } else if (perturbs && job.attack.direction == Perturbation::kSign) {
    needs.direction = ForgedDirection::kSign;
  }
  return needs;
}

Forgery make_forgery(const Job& job) {
  const AttackTraits& traits = traits_of(job);
  Forgery forgery{.needs = forge_needs(job)};
  if (traits.own) {
    const auto make = [source = own_rule("attack", job.attack.kind, job.attack.own)] {
      return make_own_attack(source);
    };
    forgery.rule =
        job.run.check_rules ? checked_attack("attack.kind = " + job.attack.kind, make) : make();
  } else if (traits.form) {
    forgery.rule = make_attack(*traits.form, job.attack);
  }
  return forgery;
}

std::unique_ptr<Attackers> make_attackers(const Job& job, int64_t clients, bool decides) {
  if (!job.attack.is_on()) return nullptr;
  return std::make_unique<JobAttackers>(job, clients, decides);
}

PoisonOptions poison_of(const Job& job, int64_t clients) {
  const AttackTraits& traits = traits_of(job);
  const AttackOptions& o = job.attack;
  if (!o.is_on() || traits.poison == Poison::kNone) return {};
  return {.kind = traits.poison,
          .clients = attackers_of(job, clients),
          .first_round = o.first_round,
          .last_round = o.last_round > 0 ? o.last_round : std::numeric_limits<int64_t>::max(),
          .source = o.source,
          .target = o.target ? static_cast<int64_t>(*o.target) : -1,
          .patch = o.patch,
          .share = o.poison};
}

std::unique_ptr<UpdateStage> make_replacement(const Job& job, int64_t clients) {
  if (!job.attack.is_on() || !traits_of(job).replaces) return nullptr;
  const auto attackers = attackers_of(job, clients);
  const double strength = job.attack.strength;
  const double factor = strength > 0
                            ? strength
                            : static_cast<double>(clients) / static_cast<double>(attackers.size());
  return std::make_unique<Replacement>(job.attack, attackers, factor);
}

}  // namespace hanse
