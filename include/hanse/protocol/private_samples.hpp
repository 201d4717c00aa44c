// The privacy of the samples of a run's clients: who was in how many rounds, what these have cost,
// and the secret of the clients' steps. An object a rank; all ranks go through the same rounds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/base/cipher.hpp"
#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/round_part.hpp"
#include "hanse/rules/privacy/private_steps.hpp"
#include "hanse/rules/privacy/sample_rounds.hpp"
#include "hanse/rules/privacy/secret.hpp"

namespace hanse {

struct SamplePrivacySetup {
  PrivacyOptions options;
  SampleTerms terms;
  int64_t rounds = 1;  // that are planned
  CipherKey key = {};  // of the first round; the same on all ranks
};

// The noise is in the clients' steps: sums, rules and the server see nothing else.
class PrivateSamples final : public RoundPart {
 public:
  // `comm` must outlive it. Throws as SampleRounds.
  PrivateSamples(SamplePrivacySetup setup, Communicator& comm);

  // What ClientOptions::private_steps is; it follows the rounds.
  std::shared_ptr<const PrivateSteps> private_steps() const { return steps_; }

  void trained(const TrainedRound& round) override;
  void finishes() override;
  std::string end() const override;
  void add_columns(Columns& columns) const override;
  const char* name() const override { return "privacy"; }
  void share() override;

 private:
  void take_secret();
  void require_limit() const;
  void visit(StateFields& fields) override;

  SamplePrivacySetup setup_;
  Communicator& comm_;
  SampleRounds rounds_;
  RoundSecret secret_;
  std::shared_ptr<PrivateSteps> steps_;
  int64_t finished_ = 0;
  double epsilon_ = 0;  // rank 0: of the finished rounds
};

}  // namespace hanse
