// What a trace has of the participants' times, and what a replay takes of it.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/execute.hpp"
#include "protocol/timed_turnout.hpp"
#include "run/assemble/assemble.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;

Json read(const std::string& path) { return Json::parse(std::ifstream(path)); }

// A round of four draws of three clients, so that one of them is drawn twice; `times`: the
// participants'. Returns the two traces.
std::pair<Json, Json> traced(std::function<WorkTimes(int64_t, const Draw&)> times) {
  const ScratchFolder folder;
  KeyedJob job(catalog());
  job.run.out = folder.path();
  job.run.trace = true;
  job.data.kind = "random";
  job.data.shape = {4};
  job.data.classes = 3;
  job.federation.clients = 3;
  job.federation.samples = 8;
  job.sampler.kind = "weighted";
  job.sampler.per_round = 4;
  job.sampler.learning.replacement = true;
  const auto comm = make_single_communicator();
  const auto assembly = assemble(job, *comm);
  auto& parts = dynamic_cast<FederatedAssembly&>(*assembly);
  std::unique_ptr<Turnout> turnout;
  if (times) turnout = std::make_unique<TimedTurnout>(std::move(times));
  parts.trainer =
      std::make_unique<FederatedTrainer>(FederatedTrainer::Parts{.comm = *comm,
                                                                 .host = *parts.host,
                                                                 .federation = parts.federation,
                                                                 .model = *parts.model,
                                                                 .update = *parts.update,
                                                                 .sampler = parts.sampler.get(),
                                                                 .aggregator = *parts.aggregator,
                                                                 .optimizer = parts.optimizer.get(),
                                                                 .turnout = turnout.get()},
                                         FederatedSettings{.max_participants = 4, .trace = true});
  const auto write_round = parts.round_writer(job, job.run.out, 0);
  parts.trainer->initialize_model();
  parts.trainer->round(false);
  write_round();
  return {read(folder / "trace-sampler.json"), read(folder / "trace-aggregator.json")};
}

WorkTimes times_of(int64_t, const Draw& draw) {
  WorkTimes times;
  for (const int64_t client : draw.clients) {
    times.staleness.push_back(client);
    times.durations.push_back(0.5 * static_cast<double>(client + 1));
  }
  return times;
}

TEST(Trace, HasTheTimesOfDrawsAndParticipants) {
  const auto [sampler, aggregator] = traced(times_of);
  const Json& round = sampler.at("rounds").at(0);
  EXPECT_EQ(round.at("draws").size(), 4U);
  EXPECT_EQ(round.at("staleness"), round.at("draws"));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(round.at("durations").at(i), 0.5 * (round.at("draws").at(i).get<double>() + 1));
  }
  const Json& weighed = aggregator.at("rounds").at(0);
  EXPECT_LT(weighed.at("participants").size(), 4U);
  EXPECT_EQ(weighed.at("staleness"), weighed.at("participants"));
  EXPECT_EQ(weighed.at("durations").size(), weighed.at("participants").size());
  for (Json trace : {sampler, aggregator}) {
    EXPECT_NO_THROW(replay(trace.dump()));
    trace["rounds"][0]["staleness"].push_back(1);
    expect_error<InvalidArgument>([&] { replay(trace.dump()); }, {"rounds[0]", "staleness"});
    trace["rounds"][0]["staleness"].erase(0);
    trace["rounds"][0]["staleness"][0] = 0.5;
    expect_error<InvalidArgument>([&] { replay(trace.dump()); }, {"staleness", "no integer"});
    trace["rounds"][0].erase("staleness");
    trace["rounds"][0]["durations"][0] = -1;
    expect_error<InvalidArgument>([&] { replay(trace.dump()); }, {"rounds[0]", "durations"});
  }
}

TEST(Trace, HasNoTimesWhereNobodyKnowsThem) {
  const auto [sampler, aggregator] = traced(nullptr);
  for (const Json& trace : {sampler, aggregator}) {
    EXPECT_FALSE(trace.at("rounds").at(0).contains("staleness"));
    EXPECT_FALSE(trace.at("rounds").at(0).contains("durations"));
  }
}

}  // namespace
}  // namespace hanse
