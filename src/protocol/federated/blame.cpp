#include "federated/blame.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "federated/round_plan.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double one) { return std::isfinite(one); });
}

int64_t blamed(const RoundRoles& roles) {
  const auto attacking = roles.attacking();
  return attacking.empty() ? Divergence::kNobody : roles.clients[to_index(attacking.front())];
}

int64_t sender_of(int64_t position, const KnownRound& known) {
  const RoundPlan& plan = known.context.plan;
  if (position >= 0 && position < std::ssize(plan.entries())) return plan.client_at(position);
  const bool is_forged = position >= static_cast<int64_t>(known.seen);
  return is_forged ? blamed(known.roles) : Divergence::kNobody;
}

Mix mix_of(Server& server, const Weighable& told, const RoundRoles& roles, int64_t round) {
  const int64_t sender = blamed(roles);
  const bool nobody = sender == Divergence::kNobody;
  const auto fail = [&](const std::string& what) {
    throw Divergence(what, sender, round,
                     nobody ? kSmallerSteps : "robust rules hold against such numbers");
  };
  Mix mix;
  try {
    mix = server.mix(told);
  } catch (const NotFinite& error) {
    fail(without_hint(error));
  } catch (const InvalidArgument& error) {
    if (all_finite(told.gram) && all_finite(told.norms) && all_finite(told.statistics)) throw;
    fail(without_hint(error));
  }
  if (!all_finite(mix.coefficients)) fail("the rule gives updates weights that are not finite");
  return mix;
}

}  // namespace hanse
