// What the rules were told in a round, for replays.
#include <utility>

#include "federated/parts/parts.hpp"
#include "federated/server.hpp"
#include "hanse/rules/told.hpp"

namespace hanse {

namespace {

class Trace final : public RoundPart {
 public:
  explicit Trace(const PartsOf& of)
      : trace_(*of.trace), server_(*of.server), aggregator_(of.parts.aggregator) {}

  void drawn(int64_t) override { trace_.report = {}; }

  void answered(const RoundReport& told, std::size_t absent, const Mix& mix) override {
    trace_.report = copy_told(told);
    trace_.report.keep(&RoundReport::permutation, mix.permutation);
    const bool own_row = aggregator_.needs().extra_row != ExtraRow::kNone;
    trace_.further = absent + (own_row ? 1 : 0);
  }

  void trained(const TrainedRound& round) override {
    trace_.feedback = copy_told(round.feedback);
    trace_.report.keep(&RoundReport::norms,
                       {round.squared_norms.begin(), round.squared_norms.end()});
    const Participation& participation = server_.participation();
    const ClientSet& there = participation.sampler().available();
    const auto a_of_all = participation.a_of_all();
    trace_.draw = participation.drawn();
    trace_.candidates = participation.asked_losses().clients;
    trace_.candidate_losses = participation.asked_losses().losses;
    trace_.a_of_all.assign(a_of_all.begin(), a_of_all.end());
    trace_.everyone_there = there.full();
    trace_.available.clear();
    for (int64_t k = 0; !there.full() && k < there.size(); ++k) {
      trace_.available.push_back(there.select(k));
    }
  }

 private:
  RoundTrace& trace_;
  const Server& server_;
  const Aggregator& aggregator_;
};

}  // namespace

std::unique_ptr<RoundPart> make_trace(const PartsOf& of) { return std::make_unique<Trace>(of); }

}  // namespace hanse
